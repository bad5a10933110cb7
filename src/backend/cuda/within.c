/* Every row at least this good, and the scores of given rows. Both answer into host memory. */
#include "backend/cuda/cuda.h"

#include <string.h>

static uint64_t least_key(const struct resident *resident, float score) {
    bool smaller_better = resident->rows.metric == VIC_L2;
    uint32_t bits = float_bits(score + 0.0f), order = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)(smaller_better ? ~order : order) << 32;
}

/* Query `query`'s keys to the ranges, sorted, if they fit there. */
static enum vic_status within_write(const struct run *run, struct select_args *args, int64_t count, int64_t start,
                                    const struct vic_ranges *ranges) {
    uint64_t *sorted = NULL;
    enum vic_status status = VIC_OK;
    if (count == 0) return VIC_OK;
    TRY(cuda_status(launch_sort(args, count, &sorted, run->stream), "sorting"));
    uint64_t *other = sorted == args->keys ? args->spare : args->keys;
    args->hits = (struct hit_slots){.ids = (int64_t *)other, .scores = run->resident->select.scores, .k = count};
    TRY(cuda_status(launch_hits(args, sorted, count, run->stream), "writing hits"));
    TRY(cuda_status(cudaMemcpyAsync(ranges->ids + start, other, (size_t)count * 8, cudaMemcpyDeviceToHost, run->stream),
                    "fetching ids"));
    if (ranges->scores)
        TRY(cuda_status(
            cudaMemcpyAsync(ranges->scores + start, args->hits.scores, (size_t)count * 4, cudaMemcpyDeviceToHost, run->stream),
            "fetching scores"));
    TRY(run_wait(run));
done:
    return status;
}

static enum vic_status within_one(const struct run *run, int64_t query, const uint64_t *filter, uint64_t least,
                                  const struct vic_ranges *ranges) {
    struct resident *resident = run->resident;
    struct scan_args scan;
    uint32_t *found = (uint32_t *)(void *)(run->workspace->pinned + resident->layout.hits_pinned_at);
    enum vic_status status = VIC_OK;
    struct select_args args = {
        .rows = resident->rows,
        .shape = resident->layout.shape,
        .state = (struct select_state *)(void *)(run->workspace->device + resident->layout.state_at),
        .keys = resident->select.keys,
        .spare = resident->select.spare,
        .least = least,
        .multiprocessors = resident->backend->multiprocessors,
    };
    TRY(scan_prepare(run, query, filter, &scan));
    args.orders = scan.orders, args.maxima = scan.maxima;
    TRY(cuda_status(launch_scan(&scan, run->stream), "starting a scan"));
    TRY(cuda_status(launch_select(&args, run->stream), "selecting"));
    TRY(cuda_status(cudaMemcpyAsync(found, args.state, 4, cudaMemcpyDeviceToHost, run->stream), "counting"));
    TRY(run_wait(run));
    int64_t count = *found, start = ranges->offsets[query];
    ranges->offsets[query + 1] = start + count;
    if (start + count <= ranges->capacity) TRY(within_write(run, &args, count, start, ranges));
done:
    return status;
}

enum vic_status cuda_within(struct resident *resident, const struct search_call *call, float score,
                            const struct vic_ranges *ranges) {
    struct run run;
    const uint64_t *filter = NULL;
    int64_t nq = call->queries->rows, n = resident->rows.n;
    enum vic_status status = queries_check(resident, call);
    if (status == VIC_OK) status = run_begin(resident, call, true, &run);
    if (status != VIC_OK) return status;
    ranges->offsets[0] = 0;
    TRY(filter_upload(&run, &filter));
    for (int64_t j = 0; j < nq; j++) {
        ranges->offsets[j + 1] = ranges->offsets[j];
        if (n > 0) TRY(within_one(&run, j, filter, least_key(resident, score), ranges));
    }
    call->stats->path = VIC_PATH_SCAN;
    call->stats->threads = 1;
    call->stats->queries = nq;
    call->stats->rows_scored = nq * n;
    call->stats->bytes_read = nq * rows_read(resident);
    if (ranges->offsets[nq] > ranges->capacity)
        status = status_fail(VIC_CAPACITY, "expected room for %lld hits, found ranges.capacity %lld",
                             (long long)ranges->offsets[nq], (long long)ranges->capacity);
done:
    return run_end(&run, status, false);
}

/* Rows [at, at + count) of query `query`'s list. */
static enum vic_status score_part(const struct run *run, int64_t count, const uint32_t *rows, float *scores) {
    struct resident *resident = run->resident;
    const struct layout *layout = &resident->layout;
    char *device = run->workspace->device, *pinned = run->workspace->pinned + layout->hits_pinned_at;
    enum vic_status status = VIC_OK;
    struct score_args args = {.rows = resident->rows,
                              .queries = device + layout->prepared_at,
                              .query_stride = query_stride_of(&layout->rows),
                              .query_norms = (const float *)(const void *)(device + layout->norms_at),
                              .nq = 1,
                              .count = count,
                              .query_dtype = run->call->queries->dtype,
                              .wanted = (const uint32_t *)(const void *)(device + layout->wanted_at),
                              .scores = (float *)(void *)(device + layout->scores_at)};
    memcpy(pinned, rows, (size_t)count * 4);
    TRY(cuda_status(cudaMemcpyAsync(device + layout->wanted_at, pinned, (size_t)count * 4, cudaMemcpyHostToDevice, run->stream),
                    "sending row numbers"));
    TRY(cuda_status(launch_score(&args, run->stream), "scoring rows"));
    pinned += SCORE_ROWS_MAX * 4;
    TRY(cuda_status(cudaMemcpyAsync(pinned, args.scores, (size_t)count * 4, cudaMemcpyDeviceToHost, run->stream),
                    "fetching scores"));
    TRY(run_wait(run));
    memcpy(scores, pinned, (size_t)count * 4);
done:
    return status;
}

enum vic_status cuda_score(struct resident *resident, const struct search_call *call, const uint32_t *rows, float *scores) {
    struct run run;
    int64_t nq = call->queries->rows, each = call->k;
    enum vic_status status = queries_check(resident, call);
    if (status == VIC_OK) status = run_begin(resident, call, false, &run);
    if (status != VIC_OK) return status;
    for (int64_t j = 0; j < nq; j++) {
        TRY(queries_upload(&run, j, 1));
        for (int64_t at = 0; at < each; at += SCORE_ROWS_MAX) {
            int64_t count = each - at < SCORE_ROWS_MAX ? each - at : SCORE_ROWS_MAX;
            TRY(score_part(&run, count, rows + j * each + at, scores + j * each + at));
        }
    }
    call->stats->path = VIC_PATH_SCAN;
    call->stats->threads = 1;
    call->stats->queries = nq;
    call->stats->rows_scored = nq * each;
done:
    return run_end(&run, status, false);
}
