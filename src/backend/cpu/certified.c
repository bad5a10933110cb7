/* The k best rows for one query with the help of a plane: the same bytes as a scan, most rows unread (docs/certified.md).
 *
 * A pass over the codes writes `upper` for every row and remembers the rows where it is best. Those get their canonical
 * score, and the k-th best of these is the threshold T: k rows reach it, so whatever is provably below is no answer. The
 * rows whose upper reaches T's bound are scored canonically, and the best k of all scored rows are the answer.
 *
 * The surprising rule: the threshold is made of true scores of a few rows, not of lower bounds of all. Lower bounds would
 * cost the error of the codes twice; measured on real rows with 4 bits, that leaves 17 times as many rows. */
#include "backend/cpu/cpu.h"

#include <math.h>

enum { RESCORE_PART = 32 };
/* Every how manieth part a pilot takes, parts from which one is worth it, and how long doubt lasts. Without pilots a plane that
 * decides nothing would cost its whole pass at each search and what follows it, a third of a scan with eight bits; with them a
 * sixteenth of that. A pilot's parts are not passed again, so that it costs good data a hand-over and a few rows. */
enum { PILOT_STEP = 16, PILOT_PARTS = 32, DOUBT = 8 };
/* A plane of more than this part of the rows' bytes is never passed without a pilot: what suited all queries before may not
 * suit this one. Below, a pass in vain is cheap. */
enum { PILOT_ALWAYS = 6 };
/* In place of the upper of a row that is scored already, so that it is not collected again: a NaN, whose order lies below
 * that of every threshold. -inf would not do: rows without a direction make it the threshold. */
static const float upper_scored = -NAN;
static const int64_t part_bytes = 256 << 10; /* codes a part: stays in the second-level cache */

struct certified {
    struct scan scan;
    struct survey *survey;
    const struct plane *plane;
    enum plane_kind kind;
    struct plane_query query;
    int64_t keep, seeds, part_rows, collect_rows;
    int64_t part_step;  /* 1, or PILOT_STEP: only every so manieth part */
    int64_t pilot_rows; /* rows before this one have their upper in every PILOT_STEP-th part already */
    uint32_t least;     /* order of the threshold */
    _Atomic int64_t count;
    int64_t rescore; /* candidates to score */
};

static struct topk *worker_top(const struct certified *job, int worker) { return &job->scan.workspace->tops[worker]; }

static void tops_start(const struct certified *job, int64_t keep) {
    int64_t capacity = topk_capacity(job->seeds);
    for (int worker = 0; worker < job->scan.resident->layout.threads; worker++)
        topk_start(worker_top(job, worker), job->scan.workspace->keys + worker * capacity, keep, capacity);
}

static void pass_part(void *argument, int worker, int64_t part) {
    const struct certified *job = argument;
    const struct rows *rows = &job->scan.resident->rows;
    int64_t first = part * job->part_step * job->part_rows;
    int64_t n = rows->n - first < job->part_rows ? rows->n - first : job->part_rows;
    float *upper = job->survey->upper + first;
    bool known = part % PILOT_STEP == 0 && first < job->pilot_rows;
    if (!known)
        job->scan.resident->backend->kernels.planes->scan[job->kind](job->plane, rows->plane_norms, first, n, rows->dim,
                                                                     &job->query, upper);
    scores_offer(&job->scan, scan_scratch(&job->scan, worker), worker_top(job, worker), upper, false, first, n);
}

/* Rows that the bound cannot rule out, in no order, while there is room for them. */
static void collect_part(void *argument, int worker, int64_t part) {
    struct certified *job = argument;
    struct scratch *scratch = scan_scratch(&job->scan, worker);
    int64_t rows = job->scan.resident->rows.n, room = job->scan.resident->layout.candidates_count;
    int64_t first = part * job->collect_rows, n = rows - first < job->collect_rows ? rows - first : job->collect_rows;
    int64_t found =
        job->scan.resident->backend->kernels.above(job->survey->upper + first, n, false, job->least, scratch->positions);
    int64_t kept = 0;
    for (int64_t i = 0; i < found; i++)
        if (filter_passes(job->scan.filter, first + scratch->positions[i]))
            scratch->positions[kept++] = (uint32_t)first + scratch->positions[i];
    if (kept == 0) return;
    int64_t at = atomic_fetch_add(&job->count, kept);
    if (at + kept <= room) memcpy(job->survey->candidates + at, scratch->positions, (size_t)kept * sizeof *scratch->positions);
}

static void rescore_part(void *argument, int worker, int64_t part) {
    const struct certified *job = argument;
    struct topk *top = worker_top(job, worker);
    int64_t first = part * RESCORE_PART, n = job->rescore - first < RESCORE_PART ? job->rescore - first : RESCORE_PART;
    const uint32_t *wanted = job->survey->candidates + first;
    float scores[RESCORE_PART];
    scan_gather(&job->scan, scan_scratch(&job->scan, worker), 0, wanted, n, scores);
    for (int64_t i = 0; i < n; i++) topk_push(top, key_make(scores[i], wanted[i], job->scan.smaller_better));
}

/* Scores the first `count` candidates into the workers' buffers. */
static int rescore(struct certified *job, int64_t count) {
    job->rescore = count;
    return thread_pool_run(job->scan.resident->backend->pool, (count + RESCORE_PART - 1) / RESCORE_PART, rescore_part, job);
}

/* The rows where upper is best, scored; their keep-th best score is the threshold. False: fewer than keep rows answer. `last`:
 * these scores are to count, and the rows are not to be collected again. */
static bool threshold_find(struct certified *job, bool last) {
    struct workspace *workspace = job->scan.workspace;
    int threads = job->scan.resident->layout.threads;
    int64_t count = tops_gather(worker_top(job, 0), threads);
    uint64_t *keys = workspace->keys;
    if (count > job->seeds) keys_select(keys, count, job->seeds), count = job->seeds;
    for (int64_t i = 0; i < count; i++) {
        job->survey->candidates[i] = key_row(keys[i]);
        if (last) job->survey->upper[key_row(keys[i])] = upper_scored;
    }
    tops_start(job, job->keep);
    (void)rescore(job, count);
    count = tops_gather(worker_top(job, 0), threads);
    if (count < job->keep) return false;
    keys_select(keys, count, job->keep);
    uint64_t worst = keys[0];
    for (int64_t i = 1; i < job->keep; i++) worst = keys[i] < worst ? keys[i] : worst;
    tops_start(job, job->keep);
    worker_top(job, 0)->count = job->keep;
    for (int worker = 0; worker < threads; worker++) worker_top(job, worker)->floor = worst;
    job->least = score_to_order(bound_threshold(&job->query, key_score(worst, job->scan.smaller_better)), false);
    return true;
}

/* The pass: `upper` of all rows, or of every PILOT_STEP-th part. Returns the number of workers. */
static int pass(struct certified *job, int64_t step, int64_t *rows_passed) {
    int64_t n = job->scan.resident->rows.n, parts = (n + job->part_rows - 1) / job->part_rows;
    job->part_step = step;
    tops_start(job, job->seeds);
    *rows_passed = step == 1 ? n : parts / step * job->part_rows; /* the last part may be short: leave it out */
    return thread_pool_run(job->scan.resident->backend->pool, step == 1 ? parts : parts / step, pass_part, job);
}

/* Rows of a pilot's part that the bound cannot rule out. */
static int64_t left_count(const struct certified *job, int64_t first) {
    uint32_t *positions = job->scan.workspace->own.positions;
    int64_t left = 0, found = job->scan.resident->backend->kernels.above(job->survey->upper + first, job->part_rows, false,
                                                                         job->least, positions);
    if (!job->scan.filter) return found;
    for (int64_t i = 0; i < found; i++) left += filter_passes(job->scan.filter, first + positions[i]);
    return left;
}

/* Whether the plane leaves few enough rows of a sample, for the k that is the sample's share. An estimate: it decides what is
 * tried, never what is discarded. Where a filter leaves too few to say, the plane is tried. */
static bool pilot(struct certified *job, struct vic_search_stats *stats, double left_most) {
    int64_t keep = job->keep, seeds = job->seeds, passed = 0, left = 0;
    int64_t parts = (job->scan.resident->rows.n + job->part_rows - 1) / job->part_rows;
    if (parts < PILOT_PARTS) return true;
    job->keep = keep / PILOT_STEP + 1;
    job->seeds = seeds_count(job->keep);
    (void)pass(job, PILOT_STEP, &passed);
    bool found = threshold_find(job, false);
    for (int64_t part = 0; found && part < parts / PILOT_STEP; part++)
        left += left_count(job, part * PILOT_STEP * job->part_rows);
    job->keep = keep, job->seeds = seeds;
    job->pilot_rows = parts / PILOT_STEP * PILOT_STEP * job->part_rows;
    bool good = (double)left <= left_most * (double)passed;
    if (good) return true;
    stats->rows_coded[job->kind] += passed;
    stats->bytes_read += passed * (job->plane->stride_bytes + 8);
    return false;
}

/* Searches whose k is within a factor of four share their doubt. */
static atomic_int *doubt_of(struct resident *resident, enum plane_kind kind, int64_t k) {
    int range = (64 - __builtin_clzll((uint64_t)k)) / 2;
    return &resident->doubt[kind][range < K_RANGES ? range : K_RANGES - 1];
}

enum plane_kind plane_choose(const struct rows *rows, const struct search_call *call) {
    if (rows->planes[call->plane].codes) return call->plane;
    return call->plane == PLANE_8 ? PLANE_4 : PLANE_8;
}

bool certified_query(struct resident *resident, struct workspace *workspace, struct plane_query *query) {
    const struct rows *rows = &resident->rows;
    int64_t elements = plane_query_elements(rows->dim);
    int8_t *codes = workspace->query_codes;
    memset(codes, 0, (size_t)(2 * elements));
    float norm = rows->metric == VIC_COSINE ? workspace->query_norms[0] : 0;
    return bound_query(rows->metric, workspace->queries, rows->dim, norm, codes, codes + elements, query);
}

/* Whether the call, its workspace and this query are such that a plane may be used; fills the job. */
static enum vic_fallback certified_start(struct certified *job, struct resident *resident, struct workspace *workspace,
                                         const struct search_call *call, int64_t j) {
    const struct rows *rows = &resident->rows;
    const struct layout *layout = &resident->layout;
    job->kind = plane_choose(rows, call);
    job->plane = &rows->planes[job->kind];
    job->keep = call->k < rows->n ? call->k : rows->n;
    job->seeds = seeds_count(job->keep);
    if (!job->plane->codes) return VIC_FALLBACK_PLANES;
    if (queries_exact(rows, call->queries)) return VIC_FALLBACK_QUERY;
    if (job->seeds > layout->candidates_count || topk_capacity(job->seeds) > layout->keys_count / layout->threads)
        return VIC_FALLBACK_K;
    queries_prepare(resident, workspace, call->queries, j, 1, false);
    job->scan = scan_start(resident, workspace, call);
    if (!certified_query(resident, workspace, &job->query)) return VIC_FALLBACK_QUERY;
    int64_t fair = rows->n / (4 * layout->threads) + 64;
    job->part_rows = part_bytes / job->plane->stride_bytes & ~INT64_C(63);
    if (job->part_rows > rows->n / PILOT_PARTS) job->part_rows = rows->n / PILOT_PARTS & ~INT64_C(63);
    if (job->part_rows < 64) job->part_rows = 64;
    if (job->part_rows > layout->scores_count) job->part_rows = layout->scores_count;
    job->collect_rows = layout->scores_count < fair ? layout->scores_count : fair;
    return VIC_FALLBACK_NONE;
}

/* The steps, in turn; what is left at the end is in the workers' buffers. */
static enum vic_fallback survey_run(struct certified *job, const struct search_call *call) {
    struct resident *resident = job->scan.resident;
    const struct rows *rows = &resident->rows;
    struct vic_search_stats *stats = call->stats;
    int64_t row_bytes = rows->dim * (int64_t)vic_dtype_bytes(rows->dtype), passed = 0;
    double left_most = call->left_most[job->kind];
    atomic_int *doubt = doubt_of(resident, job->kind, call->k);
    bool dear = job->plane->stride_bytes * PILOT_ALWAYS > row_bytes;
    if ((dear || atomic_load(doubt) > 0) && !pilot(job, stats, left_most)) return VIC_FALLBACK_SURVIVORS;
    int threads = pass(job, 1, &passed);
    if (threads > stats->threads) stats->threads = threads;
    stats->rows_coded[job->kind] += passed;
    stats->bytes_read += passed * (job->plane->stride_bytes + 8);
    bool enough = threshold_find(job, true);
    int64_t parts = (rows->n + job->collect_rows - 1) / job->collect_rows;
    if (enough) (void)thread_pool_run(resident->backend->pool, parts, collect_part, job);
    int64_t count = atomic_load(&job->count);
    if (!enough || count > resident->layout.candidates_count || (double)count > left_most * (double)rows->n) {
        atomic_store(doubt, DOUBT);
        return VIC_FALLBACK_SURVIVORS;
    }
    if (atomic_load(doubt) > 0) atomic_fetch_sub(doubt, 1);
    (void)rescore(job, count);
    stats->rows_rescored += count + job->seeds;
    stats->bytes_read += (count + job->seeds) * row_bytes;
    return VIC_FALLBACK_NONE;
}

enum vic_fallback certified_search(struct resident *resident, struct workspace *workspace, const struct search_call *call,
                                   int64_t j, const struct vic_hits *hits) {
    struct certified job = {0};
    enum vic_fallback why = certified_start(&job, resident, workspace, call, j);
    if (why != VIC_FALLBACK_NONE) return why;
    job.survey = survey_claim(resident);
    why = survey_run(&job, call);
    survey_release(resident, job.survey);
    if (why != VIC_FALLBACK_NONE) return why;
    int64_t count = tops_gather(workspace->tops, resident->layout.threads);
    keys_write(&resident->rows, hits, j, call->k, job.keep, workspace->keys, count);
    return VIC_FALLBACK_NONE;
}
