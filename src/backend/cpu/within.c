/* Every row at least this good.
 *
 * A threshold search with a plane (docs/certified.md): the score that is asked for gives each query's bound, so one pass over
 * the codes is all, and rows that it does not rule out are scored part by part. Where a part leaves too many, its rows are
 * scanned instead; where that is the rule, the plane is not looked at any more. */
#include "backend/cpu/cpu.h"

#include <math.h>

/* Rows after which a plane is judged, and bytes of codes a part: it stays in the second-level cache. */
enum { JUDGED_ROWS = 4096, PART_CODES_BYTES = 256 << 10 };

struct within_job {
    struct scan scan;
    uint64_t *keys; /* room for every row */
    int64_t part_rows;
    uint32_t least; /* order of the score */
    _Atomic int64_t count;
    /* With a plane, else NULL. */
    const struct plane *plane;
    enum plane_kind kind;
    struct plane_query query;
    uint32_t reached; /* order of the bound */
    double left_most;
    _Atomic int64_t coded, scanned, rescored; /* rows of this query */
};

/* What a worker has found and not handed over yet; the order in which finds come is undone by a sort. */
struct finds {
    uint64_t keys[64];
    int64_t count;
};

static void finds_flush(struct within_job *job, struct finds *finds) {
    if (finds->count == 0) return;
    uint64_t *keys = job->keys + atomic_fetch_add(&job->count, finds->count);
    memcpy(keys, finds->keys, (size_t)finds->count * sizeof *keys);
    finds->count = 0;
}

static void finds_add(struct within_job *job, struct finds *finds, float score, int64_t row) {
    if (finds->count == (int64_t)(sizeof finds->keys / sizeof *finds->keys)) finds_flush(job, finds);
    finds->keys[finds->count++] = key_make(score, (uint32_t)row, job->scan.smaller_better);
}

/* Positions that pass the filter, moved to the front. */
static int64_t positions_filter(const struct scan *scan, uint32_t *positions, int64_t first, int64_t count) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (filter_passes(scan->filter, first + positions[i])) positions[kept++] = positions[i];
    return kept;
}

static void part_scan(struct within_job *job, struct scratch *scratch, int64_t first, int64_t n, struct finds *finds) {
    const struct scan *scan = &job->scan;
    scan_rows(scan, scratch, 0, first, n);
    int64_t found =
        scan->resident->backend->kernels.above(scratch->scores, n, scan->smaller_better, job->least, scratch->positions);
    found = positions_filter(scan, scratch->positions, first, found);
    for (int64_t i = 0; i < found; i++)
        finds_add(job, finds, scratch->scores[scratch->positions[i]], first + scratch->positions[i]);
    atomic_fetch_add(&job->scanned, n);
}

/* Through the plane. False: it leaves too many rows. */
static bool part_code(struct within_job *job, struct scratch *scratch, int64_t first, int64_t n, struct finds *finds) {
    const struct rows *rows = &job->scan.resident->rows;
    uint32_t *found = scratch->positions;
    const struct kernels *kernels = &job->scan.resident->backend->kernels;
    kernels->planes->scan[job->kind](job->plane, rows->plane_norms, first, n, rows->dim, &job->query, scratch->scores);
    int64_t left = kernels->above(scratch->scores, n, false, job->reached, found);
    atomic_fetch_add(&job->coded, n);
    left = positions_filter(&job->scan, found, first, left);
    if ((double)left > job->left_most * (double)n) return false;
    for (int64_t i = 0; i < left; i++) found[i] += (uint32_t)first;
    scan_gather(&job->scan, scratch, 0, found, left, scratch->scores);
    for (int64_t i = 0; i < left; i++)
        if (score_to_order(scratch->scores[i], job->scan.smaller_better) >= job->least)
            finds_add(job, finds, scratch->scores[i], found[i]);
    atomic_fetch_add(&job->rescored, left);
    return true;
}

static bool plane_helps(const struct within_job *job) {
    int64_t coded = atomic_load(&job->coded);
    return job->plane && (coded < JUDGED_ROWS || atomic_load(&job->scanned) * 2 < coded);
}

static void within_part(void *argument, int worker, int64_t part) {
    struct within_job *job = argument;
    struct scratch *scratch = scan_scratch(&job->scan, worker);
    struct finds finds = {.count = 0};
    int64_t rows = job->scan.resident->rows.n, first = part * job->part_rows;
    int64_t n = rows - first < job->part_rows ? rows - first : job->part_rows;
    if (!plane_helps(job) || !part_code(job, scratch, first, n, &finds)) part_scan(job, scratch, first, n, &finds);
    finds_flush(job, &finds);
}

/* The plane that the workspace's prepared query may use, if any, and its bound. */
static enum vic_fallback plane_start(struct within_job *job, const struct search_call *call, float score) {
    struct resident *resident = job->scan.resident;
    const struct rows *rows = &resident->rows;
    job->plane = NULL;
    job->part_rows = resident->layout.chunk_rows;
    if (call->path != VIC_PATH_CERTIFIED) return VIC_FALLBACK_NONE;
    job->kind = plane_choose(rows, call);
    if (!rows->planes[job->kind].codes) return VIC_FALLBACK_PLANES;
    if (job->scan.exact || !certified_query(resident, job->scan.workspace, &job->query)) return VIC_FALLBACK_QUERY;
    float reached = bound_threshold(&job->query, score);
    if (reached == -INFINITY) return VIC_FALLBACK_SURVIVORS;
    job->plane = &rows->planes[job->kind];
    job->reached = score_to_order(reached, false);
    job->left_most = call->left_most[job->kind];
    int64_t part = PART_CODES_BYTES / job->plane->stride_bytes, most = resident->layout.scores_count;
    if (part > most) part = most;
    if (part > job->part_rows) job->part_rows = part;
    return VIC_FALLBACK_NONE;
}

/* One query's finds as sorted keys; what it cost. */
static void within_one(struct within_job *job, const struct search_call *call, int64_t j, float score) {
    struct resident *resident = job->scan.resident;
    const struct rows *rows = &resident->rows;
    struct vic_search_stats *stats = call->stats;
    queries_prepare(resident, job->scan.workspace, call->queries, j, 1, false);
    enum vic_fallback why = plane_start(job, call, score);
    atomic_store(&job->count, 0);
    atomic_store(&job->coded, 0), atomic_store(&job->scanned, 0), atomic_store(&job->rescored, 0);
    int64_t parts = (rows->n + job->part_rows - 1) / job->part_rows;
    int threads = thread_pool_run(resident->backend->pool, parts, within_part, job);
    if (threads > stats->threads) stats->threads = threads;
    int64_t coded = atomic_load(&job->coded), scanned = atomic_load(&job->scanned), rescored = atomic_load(&job->rescored);
    if (job->plane && scanned * 2 > rows->n) why = VIC_FALLBACK_SURVIVORS;
    if (why != VIC_FALLBACK_NONE) stats->fallback = why, stats->fallbacks++;
    stats->rows_scored += scanned;
    stats->rows_rescored += rescored;
    stats->bytes_read += (scanned + rescored) * rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
    if (!job->plane) return;
    stats->rows_coded[job->kind] += coded;
    stats->bytes_read += coded * (job->plane->stride_bytes + 8);
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
    enum vic_status status = queries_check(resident->backend, &resident->rows, call);
    if (status != VIC_OK) return status;
    int64_t nq = call->queries->rows;
    struct workspace *workspace = workspace_claim(resident);
    select_claim(resident);
    struct within_job job = {.scan = scan_start(resident, workspace, call), .keys = resident->select_keys};
    score += 0.0f; /* a threshold of -0 means +0, the only zero that scores have */
    job.least = score_to_order(score, job.scan.smaller_better);
    ranges->offsets[0] = 0;
    for (int64_t j = 0; j < nq; j++) {
        within_one(&job, call, j, score);
        int64_t count = atomic_load(&job.count), start = ranges->offsets[j];
        ranges->offsets[j + 1] = start + count;
        if (start + count <= ranges->capacity) within_write(&resident->rows, ranges, start, job.keys, count);
    }
    select_release(resident);
    workspace_release(resident, workspace);
    call->stats->path = call->path == VIC_PATH_CERTIFIED && call->stats->fallbacks < nq ? VIC_PATH_CERTIFIED : VIC_PATH_SCAN;
    call->stats->queries = nq;
    if (ranges->offsets[nq] > ranges->capacity)
        return status_fail(VIC_CAPACITY, "expected room for %lld hits, found ranges.capacity %lld",
                           (long long)ranges->offsets[nq], (long long)ranges->capacity);
    return VIC_OK;
}
