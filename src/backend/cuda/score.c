/* Scores of given rows, to host memory: slices of as many slots as a launch takes, whole queries or a part of one.
 *
 * A slice is one copy of row numbers in, one launch, one copy of scores out. While the GPU works on one, the host asks for the
 * row numbers of the next and hands out the scores of the last: pinned and device memory hold two. Queries are prepared a block
 * at a time, before the block's first slice. */
#include "backend/cuda/cuda.h"

#include <string.h>

/* Slots [at, at + width) of each of queries [first, first + count); a part of a query only when it is alone. */
struct slice {
    int64_t first, count, at, width;
    int half; /* which of the two places it has */
};

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t slice_slots(const struct slice *slice) { return slice->count * slice->width; }
static int64_t slice_start(const struct run *run, const struct slice *slice) { return slice->first * run->call->k + slice->at; }

/* The slice that begins where `last` ends (at the beginning: one without queries). False: there is none. */
static bool slice_next(const struct run *run, const struct slice *last, struct slice *next) {
    const struct layout *layout = &run->resident->layout;
    int64_t k = run->call->k, nq = run->call->queries->rows, slots = layout->score_slots;
    bool goes_on = last->count > 0 && last->at + last->width < k;
    *next = (struct slice){.half = !last->half};
    next->first = goes_on ? last->first : last->first + last->count;
    next->at = goes_on ? last->at + last->width : 0;
    next->width = least_of(k - next->at, slots);
    if (next->first == nq) return false;
    int64_t block_left = layout->queries_count - next->first % layout->queries_count;
    next->count = k <= slots ? least_of(least_of(nq - next->first, block_left), slots / k) : 1;
    return true;
}

static uint32_t *pinned_rows(const struct run *run, const struct slice *slice) {
    const struct layout *layout = &run->resident->layout;
    return (uint32_t *)(void *)(run->workspace->pinned + layout->hits_pinned_at) + slice->half * 2 * layout->score_slots;
}
static float *pinned_scores(const struct run *run, const struct slice *slice) {
    return (float *)(void *)(pinned_rows(run, slice) + run->resident->layout.score_slots);
}

static enum vic_status slice_start_work(const struct run *run, const struct slice *slice) {
    const struct layout *layout = &run->resident->layout;
    char *device = run->workspace->device;
    int64_t in_block = slice->first % layout->queries_count, half_at = slice->half * layout->score_slots;
    size_t bytes = (size_t)slice_slots(slice) * 4;
    uint32_t *wanted = (uint32_t *)(void *)(device + layout->wanted_at) + half_at;
    struct score_args args = {.rows = run->resident->rows,
                              .queries = device + layout->prepared_at + in_block * query_stride_of(&layout->rows),
                              .query_stride = query_stride_of(&layout->rows),
                              .query_norms = (const float *)(const void *)(device + layout->norms_at) + in_block,
                              .nq = slice->count,
                              .count = slice->width,
                              .query_dtype = run->call->queries->dtype,
                              .wanted = wanted,
                              .scores = (float *)(void *)(device + layout->scores_at) + half_at};
    enum vic_status status = VIC_OK;
    if (in_block == 0 && slice->at == 0)
        TRY(queries_upload(run, slice->first, least_of(run->call->queries->rows - slice->first, layout->queries_count)));
    TRY(cuda_status(cudaMemcpyAsync(wanted, pinned_rows(run, slice), bytes, cudaMemcpyHostToDevice, run->stream),
                    "sending row numbers"));
    TRY(cuda_status(launch_score(&args, run->stream), "scoring rows"));
    TRY(cuda_status(cudaMemcpyAsync(pinned_scores(run, slice), args.scores, bytes, cudaMemcpyDeviceToHost, run->stream),
                    "fetching scores"));
done:
    return status;
}

static enum vic_status score_all(const struct run *run, const struct row_source *wanted, float *scores) {
    struct slice working = {.half = 1}, next;
    enum vic_status status = VIC_OK;
    bool more = slice_next(run, &working, &next);
    while (more || working.count > 0) {
        if (more) TRY(wanted->take(wanted, slice_start(run, &next), slice_slots(&next), pinned_rows(run, &next)));
        if (working.count > 0) TRY(run_wait(run));
        if (more) TRY(slice_start_work(run, &next));
        if (working.count > 0)
            memcpy(scores + slice_start(run, &working), pinned_scores(run, &working), (size_t)slice_slots(&working) * 4);
        working = more ? next : (struct slice){.count = 0};
        more = more && slice_next(run, &working, &next);
    }
done:
    return status;
}

enum vic_status cuda_score(struct resident *resident, const struct search_call *call, const struct row_source *wanted,
                           float *scores) {
    struct run run;
    enum vic_status status = queries_check(resident, call);
    if (status == VIC_OK) status = run_begin(resident, call, false, &run);
    if (status != VIC_OK) return status;
    status = score_all(&run, wanted, scores);
    /* A slice that is still on its way writes to pinned memory. */
    if (status != VIC_OK) (void)cudaStreamSynchronize(run.stream);
    call->stats->path = VIC_PATH_SCAN;
    call->stats->threads = 1;
    call->stats->queries = call->queries->rows;
    call->stats->rows_scored = call->queries->rows * call->k;
    return run_end(&run, status, false);
}
