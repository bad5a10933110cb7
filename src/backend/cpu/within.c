/* Every row at least this good, and the scores of given rows. */
#include "backend/cpu/cpu.h"

struct within_job {
    struct scan scan;
    uint64_t *keys; /* room for every row */
    int64_t part_rows;
    uint32_t least;
    _Atomic int64_t count;
};

/* Workers reserve room for a part's finds at once; the order in which they come is undone by the sort. */
static void within_part(void *argument, int worker, int64_t part) {
    struct within_job *job = argument;
    const struct scan *scan = &job->scan;
    struct scratch *scratch = scan_scratch(scan, worker);
    int64_t rows = scan->resident->rows.n, first = part * job->part_rows;
    int64_t n = rows - first < job->part_rows ? rows - first : job->part_rows;
    scan_rows(scan, scratch, 0, first, n);
    int64_t found =
        scan->resident->backend->kernels.above(scratch->scores, n, scan->smaller_better, job->least, scratch->positions);
    int64_t kept = 0;
    for (int64_t i = 0; i < found; i++)
        if (filter_passes(scan->filter, first + scratch->positions[i])) scratch->positions[kept++] = scratch->positions[i];
    if (kept == 0) return;
    uint64_t *keys = job->keys + atomic_fetch_add(&job->count, kept);
    for (int64_t i = 0; i < kept; i++) {
        uint32_t position = scratch->positions[i];
        keys[i] = key_make(scratch->scores[position], (uint32_t)(first + position), scan->smaller_better);
    }
}

static void within_write(const struct rows *rows, const struct vic_ranges *ranges, int64_t start, uint64_t *keys,
                         int64_t count) {
    keys_sort(keys, count, (uint64_t *)(ranges->ids + start));
    for (int64_t i = 0; i < count; i++) {
        if (ranges->scores) ranges->scores[start + i] = key_score(keys[i], rows->metric == VIC_L2);
        ranges->ids[start + i] = rows->ids ? rows->ids[key_row(keys[i])] : (int64_t)key_row(keys[i]);
    }
}

enum vic_status cpu_within(struct resident *resident, const struct search_call *call, float score,
                           const struct vic_ranges *ranges) {
    enum vic_status status = queries_check(resident, call);
    if (status != VIC_OK) return status;
    const struct rows *rows = &resident->rows;
    int64_t nq = call->queries->rows, parts = (rows->n + resident->layout.chunk_rows - 1) / resident->layout.chunk_rows;
    struct workspace *workspace = workspace_claim(resident);
    select_claim(resident);
    struct within_job job = {
        .scan = scan_start(resident, workspace, call), .keys = resident->select_keys, .part_rows = resident->layout.chunk_rows};
    /* + 0.0f: a threshold of -0 means +0, the only zero that scores have */
    job.least = score_to_order(score + 0.0f, job.scan.smaller_better);
    ranges->offsets[0] = 0;
    for (int64_t j = 0; j < nq; j++) {
        queries_prepare(resident, workspace, call->queries, j, 1, false);
        atomic_store(&job.count, 0);
        int threads = thread_pool_run(resident->backend->pool, parts, within_part, &job);
        if (threads > call->stats->threads) call->stats->threads = threads;
        int64_t count = atomic_load(&job.count), start = ranges->offsets[j];
        ranges->offsets[j + 1] = start + count;
        if (start + count <= ranges->capacity) within_write(rows, ranges, start, job.keys, count);
    }
    select_release(resident);
    workspace_release(resident, workspace);
    call->stats->path = VIC_PATH_SCAN;
    call->stats->queries = nq;
    call->stats->rows_scored += nq * rows->n;
    call->stats->bytes_read += nq * rows->n * rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
    if (ranges->offsets[nq] > ranges->capacity)
        return status_fail(VIC_CAPACITY, "expected room for %lld hits, found ranges.capacity %lld",
                           (long long)ranges->offsets[nq], (long long)ranges->capacity);
    return VIC_OK;
}

/* Rows to score lie anywhere: the next ones are asked for while one is summed. */
enum { SCORE_PART = 64 };

struct score_job {
    struct scan scan;
    const uint32_t *rows;
    float *scores;
    int64_t count; /* rows a query */
    int64_t query; /* prepared query's row of the call */
};

static void score_part(void *argument, int worker, int64_t part) {
    const struct score_job *job = argument;
    struct scratch *scratch = scan_scratch(&job->scan, worker);
    const struct rows *rows = &job->scan.resident->rows;
    int64_t end = (part + 1) * SCORE_PART < job->count ? (part + 1) * SCORE_PART : job->count;
    const uint32_t *wanted = job->rows + job->query * job->count;
    for (int64_t i = part * SCORE_PART; i < end; i++) {
        if (i + ROWS_AHEAD < end && wanted[i + ROWS_AHEAD] != UINT32_MAX) row_prefetch(rows, wanted[i + ROWS_AHEAD]);
        float *score = &job->scores[job->query * job->count + i];
        if (wanted[i] == UINT32_MAX) {
            *score = score_worst(job->scan.smaller_better);
            continue;
        }
        scan_rows(&job->scan, scratch, 0, wanted[i], 1);
        *score = scratch->scores[0];
    }
}

enum vic_status cpu_score(struct resident *resident, const struct search_call *call, const uint32_t *rows, float *scores) {
    enum vic_status status = queries_check(resident, call);
    if (status != VIC_OK) return status;
    struct workspace *workspace = workspace_claim(resident);
    struct score_job job = {.scan = scan_start(resident, workspace, call), .rows = rows, .scores = scores, .count = call->k};
    for (job.query = 0; job.query < call->queries->rows; job.query++) {
        queries_prepare(resident, workspace, call->queries, job.query, 1, false);
        int threads = thread_pool_run(resident->backend->pool, (call->k + SCORE_PART - 1) / SCORE_PART, score_part, &job);
        if (threads > call->stats->threads) call->stats->threads = threads;
    }
    workspace_release(resident, workspace);
    call->stats->path = VIC_PATH_SCAN;
    call->stats->queries = call->queries->rows;
    call->stats->rows_scored += call->queries->rows * call->k;
    return VIC_OK;
}
