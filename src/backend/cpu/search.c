/* The k best rows for each query, kept while the rows stream past.
 *
 * Queries are taken in blocks that fit a workspace. For each block the rows are cut into parts that the pool's workers
 * take one after another; a worker keeps one buffer of best keys a query (base/topk.h) and at the end the buffers of a
 * query are merged. Few queries: each part of rows is scanned by one query after another while it lies in the cache. More:
 * tiles, so that a row is unpacked once a block and the arithmetic units are the limit. Which of the two ran, how many
 * workers, and where a block begins cannot be seen in the answer: every score is the canonical one and keys are distinct. */
#include "backend/cpu/cpu.h"

#include <string.h>

/* Queries from which tiles pay: below, packing rows costs more than reading them again from the cache (measured on Zen 5). */
enum { TILE_QUERIES = 4 };

struct search_job {
    struct scan scan;
    const struct vic_hits *hits;
    int64_t k, keep;      /* hits asked for a query, and how many there can be: min(k, n) */
    int64_t first, count; /* queries of this block */
    int64_t part_rows;
    int64_t capacity; /* keys of one worker's buffer for one query */
    bool tiles;
};

static struct topk *job_top(const struct search_job *job, int64_t j, int worker) {
    return &job->scan.workspace->tops[j * job->scan.resident->layout.threads + worker];
}

void scores_offer(const struct scan *scan, struct scratch *scratch, struct topk *top, const float *scores, bool smaller_better,
                  int64_t first, int64_t n) {
    int64_t found =
        scan->resident->backend->kernels.above(scores, n, smaller_better, (uint32_t)(top->floor >> 32), scratch->positions);
    for (int64_t i = 0; i < found; i++) {
        uint32_t position = scratch->positions[i];
        if (filter_passes(scan->filter, first + position))
            topk_push(top, key_make(scores[position], (uint32_t)(first + position), smaller_better));
    }
}

static void scan_part(void *argument, int worker, int64_t part) {
    const struct search_job *job = argument;
    const struct rows *rows = &job->scan.resident->rows;
    struct scratch *scratch = scan_scratch(&job->scan, worker);
    int64_t first = part * job->part_rows, n = rows->n - first < job->part_rows ? rows->n - first : job->part_rows;
    for (int64_t j = 0; j < job->count; j++) {
        scan_rows(&job->scan, scratch, j, first, n);
        scores_offer(&job->scan, scratch, job_top(job, j, worker), scratch->scores, job->scan.smaller_better, first, n);
    }
}

static void tile_part(void *argument, int worker, int64_t part) {
    const struct search_job *job = argument;
    const struct rows *rows = &job->scan.resident->rows;
    const struct tile_kernel *tile = job->scan.tile;
    struct scratch *scratch = scan_scratch(&job->scan, worker);
    const char *data = rows->data;
    int64_t row_bytes = rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
    int64_t end = (part + 1) * job->part_rows < rows->n ? (part + 1) * job->part_rows : rows->n;
    for (int64_t first = part * job->part_rows; first < end; first += GROUP_ROWS) {
        int64_t n = end - first < GROUP_ROWS ? end - first : GROUP_ROWS;
        for (int64_t at = 0; at < n; at += tile->row_tile) {
            int64_t packed = n - at < tile->row_tile ? n - at : tile->row_tile;
            tile->pack_rows(data + (first + at) * row_bytes, packed, rows->dim, scratch->packed_rows);
            tile->run(scratch->packed_rows, job->scan.workspace->packed_queries, job->count, rows->dim, scratch->scores + at,
                      GROUP_ROWS);
        }
        for (int64_t j = 0; j < job->count; j++) {
            float *scores = scratch->scores + j * GROUP_ROWS;
            scan_finish(&job->scan, scratch, j, first, n, scores);
            scores_offer(&job->scan, scratch, job_top(job, j, worker), scores, job->scan.smaller_better, first, n);
        }
    }
}

void hits_write(const struct rows *rows, const struct vic_hits *hits, int64_t j, int64_t k, const uint64_t *keys,
                int64_t count) {
    bool smaller_better = rows->metric == VIC_L2;
    int64_t *ids = hits->ids + j * k;
    float *scores = hits->scores ? hits->scores + j * k : NULL;
    for (int64_t i = 0; i < count; i++) {
        uint64_t key = keys[i];
        if (scores) scores[i] = key_score(key, smaller_better);
        ids[i] = rows->ids ? rows->ids[key_row(key)] : (int64_t)key_row(key);
    }
    for (int64_t i = count; i < k; i++) ids[i] = -1;
    for (int64_t i = count; scores && i < k; i++) scores[i] = score_worst(smaller_better);
    if (hits->counts) hits->counts[j] = (int32_t)(count < INT32_MAX ? count : INT32_MAX);
}

int64_t tops_gather(struct topk *tops, int threads) {
    uint64_t *keys = tops[0].keys;
    int64_t count = 0;
    for (int i = 0; i < threads; i++) {
        memmove(keys + count, tops[i].keys, (size_t)tops[i].count * sizeof *keys);
        count += tops[i].count;
    }
    return count;
}

void keys_write(const struct rows *rows, const struct vic_hits *hits, int64_t j, int64_t k, int64_t keep, uint64_t *keys,
                int64_t count) {
    int64_t kept = count < keep ? count : keep;
    keys_select(keys, count, kept);
    keys_sort(keys, kept, keys + kept);
    hits_write(rows, hits, j, k, keys, kept);
}

static void merge_part(void *argument, int worker, int64_t j) {
    const struct search_job *job = argument;
    (void)worker;
    struct topk *tops = job_top(job, j, 0);
    int64_t count = tops_gather(tops, job->scan.resident->layout.threads);
    keys_write(&job->scan.resident->rows, job->hits, job->first + j, job->k, job->keep, tops[0].keys, count);
}

/* Parts small enough that every worker gets several, large enough to be worth handing out. */
static int64_t part_rows_choose(const struct layout *layout, int64_t n, bool tiles) {
    int64_t part = tiles ? 16 * GROUP_ROWS : layout->chunk_rows;
    int64_t fair = n / (4 * layout->threads);
    int64_t unit = tiles ? GROUP_ROWS : 16;
    if (part > fair) part = (fair + unit - 1) / unit * unit;
    return part < unit ? unit : part;
}

static void block_search(struct search_job *job, const struct search_call *call) {
    struct resident *resident = job->scan.resident;
    const struct layout *layout = &resident->layout;
    job->tiles = layout->tiles && job->count >= TILE_QUERIES;
    job->part_rows = part_rows_choose(layout, resident->rows.n, job->tiles);
    queries_prepare(resident, job->scan.workspace, call->queries, job->first, job->count, job->tiles);
    for (int64_t j = 0; j < job->count; j++)
        for (int worker = 0; worker < layout->threads; worker++)
            topk_start(job_top(job, j, worker), job->scan.workspace->keys + (j * layout->threads + worker) * job->capacity,
                       job->keep, job->capacity);
    int64_t parts = (resident->rows.n + job->part_rows - 1) / job->part_rows;
    int threads = thread_pool_run(resident->backend->pool, parts, job->tiles ? tile_part : scan_part, job);
    (void)thread_pool_run(resident->backend->pool, job->count, merge_part, job);
    struct vic_search_stats *stats = call->stats;
    if (threads > stats->threads) stats->threads = threads;
    stats->rows_scored += job->count * resident->rows.n;
    stats->bytes_read += resident->rows.n * resident->rows.dim * (int64_t)vic_dtype_bytes(resident->rows.dtype);
}

/* Every row's canonical score. */
static void plain_search(struct resident *resident, struct workspace *workspace, const struct search_call *call,
                         const struct vic_hits *hits) {
    const struct layout *layout = &resident->layout;
    int64_t nq = call->queries->rows, n = resident->rows.n;
    int64_t keep = call->k < n ? call->k : n;
    int64_t capacity = topk_capacity(keep);
    /* Buffers for all workers, or, where they do not fit or would hold most rows anyway, all keys and a selection. */
    bool buffers_fit = capacity <= layout->keys_count / layout->threads;
    bool select = call->path == VIC_PATH_SELECT || !buffers_fit || (call->path != VIC_PATH_SCAN && keep > 1024 && keep > n / 4);
    if (call->path == VIC_PATH_SCAN && select) call->stats->fallback = VIC_FALLBACK_K;
    call->stats->path = select ? VIC_PATH_SELECT : VIC_PATH_SCAN;
    if (select) {
        select_search(resident, workspace, call, hits);
        return;
    }
    struct search_job job = {
        .scan = scan_start(resident, workspace, call), .hits = hits, .k = call->k, .keep = keep, .capacity = capacity};
    int64_t block = layout->keys_count / (capacity * layout->threads);
    if (block > layout->queries_count) block = layout->queries_count;
    for (job.first = 0; job.first < nq; job.first += job.count) {
        job.count = nq - job.first < block ? nq - job.first : block;
        block_search(&job, call);
    }
}

/* The same for queries [first, first + count) of a call. */
static void plain_some(struct resident *resident, struct workspace *workspace, const struct search_call *call, int64_t first,
                       int64_t count, const struct vic_hits *hits) {
    struct vic_matrix queries = *call->queries;
    struct vic_hits some = *hits;
    struct search_call part = *call;
    queries.data = (char *)queries.data + first * queries.stride_bytes, queries.rows = count;
    some.ids += first * call->k;
    if (some.scores) some.scores += first * call->k;
    if (some.counts) some.counts += first;
    part.queries = &queries;
    plain_search(resident, workspace, &part, &some);
}

/* Queries from which a batch on a plane is faster than one after another (measured on Zen 5 and Emerald Rapids): a tile is 16
 * queries wide, and four bits are decoded first and leave more rows by a threshold that a sample gave. */
static const int64_t batch_least[PLANE_COUNT] = {[PLANE_8] = 3, [PLANE_4] = 7};

/* One plane's try at queries [first, first + count). */
static enum vic_fallback plane_search(struct resident *resident, struct workspace *workspace, const struct search_call *call,
                                      int64_t first, int64_t count, const struct vic_hits *hits, bool *decided) {
    if (count > 1) return certified_batch(resident, workspace, call, first, count, hits, decided);
    enum vic_fallback why = certified_search(resident, workspace, call, first, hits);
    decided[0] = why == VIC_FALLBACK_NONE;
    return why;
}

/* Queries [first, first + count): where four bits leave too much, eight are tried if they are there; those that no plane
 * decides are scanned. */
static void coded_block(struct resident *resident, struct workspace *workspace, const struct search_call *call, int64_t first,
                        int64_t count, const struct vic_hits *hits) {
    struct vic_search_stats *stats = call->stats;
    bool decided[QUERIES_MAX] = {false};
    enum vic_fallback why = plane_search(resident, workspace, call, first, count, hits, decided);
    if (why == VIC_FALLBACK_SURVIVORS && plane_choose(&resident->rows, call) == PLANE_4 &&
        resident->rows.planes[PLANE_8].codes) {
        struct search_call finer = *call;
        finer.plane = PLANE_8;
        why = plane_search(resident, workspace, &finer, first, count, hits, decided);
    }
    for (int64_t j = 0, end; j < count; j = end) {
        end = j + 1;
        if (decided[j]) continue;
        while (end < count && !decided[end]) end++;
        plain_some(resident, workspace, call, first + j, end - j, hits);
        stats->fallback = why;
        stats->fallbacks += end - j;
    }
}

/* Few queries go one by one, many in blocks. When planes fail more than every eighth query the data are not such that they
 * help, and the rest of the call is scanned. */
static void coded_search(struct resident *resident, struct workspace *workspace, const struct search_call *call,
                         const struct vic_hits *hits) {
    struct vic_search_stats *stats = call->stats;
    int64_t nq = call->queries->rows, least = batch_least[plane_choose(&resident->rows, call)];
    int64_t block = nq < least ? 1 : certified_block(resident, call);
    if (block < least) block = 1;
    for (int64_t first = 0, count; first < nq; first += count) {
        count = nq - first < block ? nq - first : block;
        if (count < least) count = 1;
        if (stats->fallbacks > first / 8) {
            count = nq - first;
            plain_some(resident, workspace, call, first, count, hits);
            stats->fallbacks += count;
        } else {
            coded_block(resident, workspace, call, first, count, hits);
        }
    }
    if (stats->fallbacks < nq) stats->path = VIC_PATH_CERTIFIED;
}

enum vic_status cpu_search(struct resident *resident, const struct search_call *call, const struct vic_hits *hits) {
    enum vic_status status = queries_check(resident->backend, &resident->rows, call);
    if (status != VIC_OK) return status;
    call->stats->queries = call->queries->rows;
    struct workspace *workspace = workspace_claim(resident);
    if (call->path == VIC_PATH_CERTIFIED)
        coded_search(resident, workspace, call, hits);
    else
        plain_search(resident, workspace, call, hits);
    workspace_release(resident, workspace);
    return VIC_OK;
}
