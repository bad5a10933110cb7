/* The k best rows for each query of a block with the help of a plane (docs/certified.md): codes and queries as integers through
 * tiles that test the bound in registers (kernel_plane.h), and what it does not rule out scored at once.
 *
 * First a sixteenth of the rows gives each query its threshold: the rows whose upper is best there are scored, as for one
 * query. Then all rows pass; the k-th best score that any worker has seen lifts the threshold further. A full first pass
 * would leave fewer rows to score, and cost more than they do. The queries' codes have one byte here: the arithmetic units
 * are the limit, and twice the bytes would be twice the time. */
#include "backend/cpu/cpu.h"

#include <math.h>

enum { PART_GROUPS = 16, SAMPLE_STEP = 16 };
/* A canonical score here costs about twice its share of a scan (measured): when more than every fourth pair needs one, a
 * scan is faster. Judged once so many rows have gone by. */
enum { SURVIVORS_MOST = 4, JUDGED_ROWS = 4096 };

struct batch {
    struct scan scan;
    const struct plane_tile *tile;
    const struct plane *plane;
    enum plane_kind kind;
    const struct search_call *call;
    const struct vic_hits *hits;
    int64_t first, count; /* queries */
    int64_t keep, seeds, capacity, part_rows;
    bool *decided;
    _Atomic int64_t pairs, scored; /* looked at, and scored canonically */
    atomic_bool given_up;
};

static struct topk *batch_top(const struct batch *job, int64_t j, int worker) {
    return &job->scan.workspace->tops[j * job->scan.resident->layout.threads + worker];
}

int64_t certified_block(const struct resident *resident, const struct search_call *call) {
    const struct layout *layout = &resident->layout;
    int64_t capacity = topk_capacity(seeds_count(call->k < resident->rows.n ? call->k : resident->rows.n));
    int64_t block = layout->plane_tiles ? layout->keys_count / (capacity * layout->threads) : 0;
    return block < layout->queries_count ? block : layout->queries_count;
}

/* Query j's buffers, emptied; what is at or below `floor` does not enter. */
static void tops_start(const struct batch *job, int64_t j, int64_t keep, uint64_t floor) {
    int threads = job->scan.resident->layout.threads;
    for (int i = 0; i < threads; i++) {
        struct topk *top = batch_top(job, j, i);
        topk_start(top, job->scan.workspace->keys + (j * threads + i) * job->capacity, keep, job->capacity);
        top->floor = floor;
    }
}

/* Codes and constants of one query. One that the bound does not cover meets no threshold and stays undecided. */
static void code_part(void *argument, int worker, int64_t j) {
    const struct batch *job = argument;
    (void)worker;
    const struct rows *rows = &job->scan.resident->rows;
    struct workspace *workspace = job->scan.workspace;
    struct plane_query *query = &workspace->plane_queries[j];
    float norm = rows->metric == VIC_COSINE ? workspace->query_norms[j] : 0;
    job->decided[j] = bound_query(rows->metric, scan_query(&job->scan, j), rows->dim, norm, NULL,
                                  workspace->query_codes + j * rows->dim, query);
    if (!job->decided[j]) *query = (struct plane_query){0};
    atomic_store(&workspace->reached[j], score_to_order(job->decided[j] ? -INFINITY : INFINITY, false));
    tops_start(job, j, job->seeds, KEY_NONE);
}

/* The pairs of n <= GROUP_ROWS rows and all queries that reach scratch->least, as the tile leaves them. */
static int64_t group_pairs(const struct batch *job, struct scratch *scratch, int64_t first, int64_t n) {
    const struct rows *rows = &job->scan.resident->rows;
    const struct plane_group group = {.plane = job->plane,
                                      .kind = job->kind,
                                      .norms = rows->plane_norms,
                                      .first = first,
                                      .n = n,
                                      .dim = rows->dim,
                                      .queries = job->scan.workspace->packed_query_codes,
                                      .nq = job->count,
                                      .least = scratch->least,
                                      .decoded = scratch->decoded};
    return job->tile->run(&group, scratch->positions, scratch->scores);
}

/* ---- the sample */

/* The rows of every sixteenth part whose upper is best, for each query. */
static void sample_part(void *argument, int worker, int64_t part) {
    const struct batch *job = argument;
    int64_t n = job->scan.resident->rows.n, begin = part * SAMPLE_STEP * job->part_rows;
    struct scratch *scratch = scan_scratch(&job->scan, worker);
    int64_t end = begin + job->part_rows < n ? begin + job->part_rows : n;
    for (int64_t first = begin; first < end; first += GROUP_ROWS) {
        for (int64_t j = 0; j < job->count; j++) {
            uint64_t floor = batch_top(job, j, worker)->floor;
            scratch->least[j] = !job->decided[j] ? INFINITY : floor == KEY_NONE ? -INFINITY : key_score(floor, false);
        }
        int64_t count = group_pairs(job, scratch, first, end - first < GROUP_ROWS ? end - first : GROUP_ROWS);
        for (int64_t i = 0; i < count; i++) {
            int64_t j = scratch->positions[i] / GROUP_ROWS, row = first + scratch->positions[i] % GROUP_ROWS;
            if (job->decided[j] && filter_passes(job->scan.filter, row)) /* a damaged row reaches every query */
                topk_push(batch_top(job, j, worker), key_make(scratch->scores[i], (uint32_t)row, false));
        }
    }
}

enum { SEEDS_AT_ONCE = 64 };

/* The keep-th best canonical score of the sample's best rows is a threshold; the rows themselves come by again. */
static void seed_part(void *argument, int worker, int64_t j) {
    const struct batch *job = argument;
    struct workspace *workspace = job->scan.workspace;
    struct scratch *scratch = scan_scratch(&job->scan, worker);
    struct topk *tops = batch_top(job, j, 0);
    uint64_t *keys = tops[0].keys, floor = KEY_NONE;
    int64_t count = tops_gather(tops, job->scan.resident->layout.threads);
    if (count > job->seeds) keys_select(keys, count, job->seeds), count = job->seeds;
    for (int64_t first = 0; first < count; first += SEEDS_AT_ONCE) {
        int64_t n = count - first < SEEDS_AT_ONCE ? count - first : SEEDS_AT_ONCE;
        uint32_t which[SEEDS_AT_ONCE];
        for (int64_t i = 0; i < n; i++) which[i] = key_row(keys[first + i]);
        scan_gather(&job->scan, scratch, j, which, n, scratch->scores);
        for (int64_t i = 0; i < n; i++) keys[first + i] = key_make(scratch->scores[i], which[i], job->scan.smaller_better);
    }
    if (count >= job->keep) {
        keys_select(keys, count, job->keep);
        floor = keys[0];
        for (int64_t i = 1; i < job->keep; i++) floor = keys[i] < floor ? keys[i] : floor;
        float least = bound_threshold(&workspace->plane_queries[j], key_score(floor, job->scan.smaller_better));
        atomic_store(&workspace->reached[j], score_to_order(least, false));
        floor--; /* that row itself enters */
    }
    tops_start(job, j, job->keep, floor);
}

/* ---- all rows */

/* What the bound does not rule out of a group's pairs; their rows are asked for. */
static int64_t group_candidates(const struct batch *job, struct scratch *scratch, int64_t first, int64_t n) {
    int64_t kept = 0;
    for (int64_t j = 0; j < job->count; j++) {
        uint32_t order = atomic_load_explicit(&job->scan.workspace->reached[j], memory_order_relaxed);
        scratch->least[j] = score_from_order(order, false);
    }
    int64_t count = group_pairs(job, scratch, first, n);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = first + scratch->positions[i] % GROUP_ROWS;
        if (!filter_passes(job->scan.filter, row)) continue;
        row_prefetch(&job->scan.resident->rows, (uint32_t)row);
        scratch->positions[kept++] = scratch->positions[i];
    }
    return kept;
}

/* The k-th best so far lifts the query's threshold for all workers. */
static void threshold_lift(const struct batch *job, struct topk *top, int64_t j) {
    topk_cut(top);
    float score = key_score(top->floor, job->scan.smaller_better);
    uint32_t found = score_to_order(bound_threshold(&job->scan.workspace->plane_queries[j], score), false);
    _Atomic uint32_t *reached = &job->scan.workspace->reached[j];
    uint32_t known = atomic_load(reached);
    while (found > known && !atomic_compare_exchange_weak(reached, &known, found)) {
    }
}

static void pairs_score(const struct batch *job, struct scratch *scratch, int worker, int64_t first, int64_t count) {
    int64_t enough = job->keep + job->keep / 4 + 8; /* a cut each time this many are held */
    for (int64_t i = 0; i < count; i++) {
        int64_t j = scratch->positions[i] / GROUP_ROWS, row = first + scratch->positions[i] % GROUP_ROWS;
        struct topk *top = batch_top(job, j, worker);
        scan_rows(&job->scan, scratch, j, row, 1);
        topk_push(top, key_make(scratch->scores[0], (uint32_t)row, job->scan.smaller_better));
        if (top->count >= enough) threshold_lift(job, top, j);
    }
}

static void batch_part(void *argument, int worker, int64_t part) {
    struct batch *job = argument;
    struct scratch *scratch = scan_scratch(&job->scan, worker);
    int64_t n = job->scan.resident->rows.n, end = (part + 1) * job->part_rows < n ? (part + 1) * job->part_rows : n;
    int64_t begin = part * job->part_rows, scored = 0;
    if (atomic_load(&job->given_up)) return;
    for (int64_t first = begin; first < end; first += GROUP_ROWS) {
        int64_t rows = end - first < GROUP_ROWS ? end - first : GROUP_ROWS;
        int64_t count = group_candidates(job, scratch, first, rows);
        pairs_score(job, scratch, worker, first, count);
        scored += count;
    }
    int64_t pairs = atomic_fetch_add(&job->pairs, (end - begin) * job->count) + (end - begin) * job->count;
    scored += atomic_fetch_add(&job->scored, scored);
    if (pairs >= JUDGED_ROWS * job->count && scored > pairs / SURVIVORS_MOST) atomic_store(&job->given_up, true);
}

static void write_part(void *argument, int worker, int64_t j) {
    const struct batch *job = argument;
    (void)worker;
    if (!job->decided[j]) return;
    struct topk *tops = batch_top(job, j, 0);
    int64_t count = tops_gather(tops, job->scan.resident->layout.threads);
    keys_write(&job->scan.resident->rows, job->hits, job->first + j, job->call->k, job->keep, tops[0].keys, count);
}

enum vic_fallback certified_batch(struct resident *resident, struct workspace *workspace, const struct search_call *call,
                                  int64_t first, int64_t count, const struct vic_hits *hits, bool *decided) {
    const struct rows *rows = &resident->rows;
    struct thread_pool *pool = resident->backend->pool;
    struct vic_search_stats *stats = call->stats;
    struct batch job = {.tile = resident->backend->kernels.planes->tile,
                        .kind = plane_choose(rows, call),
                        .call = call,
                        .hits = hits,
                        .first = first,
                        .count = count,
                        .keep = call->k < rows->n ? call->k : rows->n,
                        .part_rows = PART_GROUPS * GROUP_ROWS,
                        .decided = decided};
    job.plane = &rows->planes[job.kind];
    job.seeds = seeds_count(job.keep);
    job.capacity = topk_capacity(job.seeds);
    if (!job.plane->codes) return VIC_FALLBACK_PLANES;
    if (queries_exact(rows, call->queries)) return VIC_FALLBACK_QUERY;
    job.scan = scan_start(resident, workspace, call);
    queries_prepare(resident, workspace, call->queries, first, count, false);
    (void)thread_pool_run(pool, count, code_part, &job);
    job.tile->pack(workspace->plane_queries, count, job.kind, rows->dim, workspace->packed_query_codes);
    int64_t fair = (rows->n / (4 * resident->layout.threads) + GROUP_ROWS - 1) / GROUP_ROWS * GROUP_ROWS;
    if (job.part_rows > fair) job.part_rows = fair;
    if (job.part_rows < GROUP_ROWS) job.part_rows = GROUP_ROWS;
    int64_t parts = (rows->n + job.part_rows - 1) / job.part_rows;
    (void)thread_pool_run(pool, (parts + SAMPLE_STEP - 1) / SAMPLE_STEP, sample_part, &job);
    (void)thread_pool_run(pool, count, seed_part, &job);
    int threads = thread_pool_run(pool, parts, batch_part, &job);
    if (threads > stats->threads) stats->threads = threads;
    int64_t scored = atomic_load(&job.scored);
    stats->rows_coded[job.kind] += atomic_load(&job.pairs);
    stats->bytes_read += rows->n * (job.plane->stride_bytes + 8);
    if (atomic_load(&job.given_up)) {
        for (int64_t j = 0; j < count; j++) decided[j] = false;
        return VIC_FALLBACK_SURVIVORS;
    }
    stats->rows_rescored += scored;
    stats->bytes_read += scored * rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
    (void)thread_pool_run(pool, count, write_part, &job);
    return VIC_FALLBACK_QUERY; /* of those left undecided, if any */
}
