/* Scores of given rows, which lie anywhere: by the kernels that sum several side by side and ask for those to come.
 *
 * Row numbers lie on the stack, a slice at a time: as many whole queries as fit, or a part of one. */
#include "backend/cpu/cpu.h"

/* Slots of a slice, and those that a worker takes at once. */
enum { SCORE_SLICE = 4096, SCORE_PART = 64 };

struct score_job {
    struct scan scan;
    const uint32_t *rows;
    float *scores;
    int64_t width, parts_each; /* slots and parts of a query */
};

static void score_part(void *argument, int worker, int64_t part) {
    const struct score_job *job = argument;
    int64_t query = part / job->parts_each, first = part % job->parts_each * SCORE_PART, real = 0;
    int64_t count = job->width - first < SCORE_PART ? job->width - first : SCORE_PART;
    const uint32_t *wanted = job->rows + query * job->width + first;
    float *scores = job->scores + query * job->width + first, found[SCORE_PART];
    uint32_t which[SCORE_PART];
    for (int64_t i = 0; i < count; i++)
        if (wanted[i] != UINT32_MAX) which[real++] = wanted[i];
    scan_gather(&job->scan, scan_scratch(&job->scan, worker), query, which, real, found);
    for (int64_t i = count; i-- > 0;)
        scores[i] = wanted[i] != UINT32_MAX ? found[--real] : score_worst(job->scan.smaller_better);
}

enum vic_status cpu_score(struct resident *resident, const struct search_call *call, const struct row_source *wanted,
                          float *scores) {
    enum vic_status status = queries_check(resident->backend, &resident->rows, call);
    if (status != VIC_OK) return status;
    uint32_t rows[SCORE_SLICE];
    int64_t nq = call->queries->rows, k = call->k, whole = k <= SCORE_SLICE ? SCORE_SLICE / k : 1, each = 0;
    if (whole > resident->layout.queries_count) whole = resident->layout.queries_count;
    struct workspace *workspace = workspace_claim(resident);
    struct score_job job = {.scan = scan_start(resident, workspace, call), .rows = rows};
    for (int64_t j = 0; j < nq && status == VIC_OK; j += each) {
        each = nq - j < whole ? nq - j : whole;
        queries_prepare(resident, workspace, call->queries, j, each, false);
        for (int64_t at = 0; at < k && status == VIC_OK; at += job.width) {
            job.width = k - at < SCORE_SLICE ? k - at : SCORE_SLICE;
            job.parts_each = (job.width + SCORE_PART - 1) / SCORE_PART;
            job.scores = scores + j * k + at;
            status = wanted->take(wanted, j * k + at, each * job.width, rows);
            if (status != VIC_OK) break;
            int threads = thread_pool_run(resident->backend->pool, each * job.parts_each, score_part, &job);
            if (threads > call->stats->threads) call->stats->threads = threads;
        }
    }
    workspace_release(resident, workspace);
    call->stats->path = VIC_PATH_SCAN;
    call->stats->queries = nq;
    call->stats->rows_scored += nq * k;
    return status;
}
