/* The k best rows for each query, by one of three paths.
 *
 * One query and k up to SMALL_KEEP: a single launch that scans and chooses (scan.cu); hits for the host are written into
 * pinned memory by the device, and the host watches a word there instead of asking the driver. Several queries: blocks of
 * up to QUERIES_MAX, rows in runs that grow with what is known (tile.cu, cut.cu); for larger k blocks of as many as lists have
 * room for, whose lists are sorted one after another. One query of larger k, or when asked for: scores of all rows stored, then
 * selected (select.cu), one query after another. Which one ran cannot be seen in the answer. */
#include "backend/cuda/cuda.h"

#include <string.h>

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static void unused_fill(const struct run *run, const struct vic_hits *hits, int64_t from, int64_t to) {
    float worst = float_from_bits(run->resident->rows.metric == VIC_L2 ? 0x7f800000u : 0xff800000u);
    for (int64_t i = from; i < to; i++) hits->ids[i] = -1;
    for (int64_t i = from; hits->scores && i < to; i++) hits->scores[i] = worst;
}

/* ---- hits for the host, through pinned memory: ids, then scores, then counts */

static struct hit_slots pinned_slots(const struct run *run, int64_t nq, int64_t keep) {
    char *pinned = run->workspace->pinned + run->resident->layout.hits_pinned_at;
    return (struct hit_slots){.ids = (int64_t *)(void *)pinned,
                              .scores = (float *)(void *)(pinned + nq * keep * 8),
                              .counts = (int32_t *)(void *)(pinned + nq * keep * 12),
                              .k = keep};
}

static void pinned_take(const struct run *run, const struct hit_slots *from, const struct vic_hits *hits, int64_t first,
                        int64_t nq) {
    int64_t k = run->call->k, keep = from->k;
    for (int64_t j = 0; j < nq; j++) {
        int64_t at = (first + j) * k;
        memcpy(hits->ids + at, from->ids + j * keep, (size_t)keep * 8);
        if (hits->scores) memcpy(hits->scores + at, from->scores + j * keep, (size_t)keep * 4);
        if (hits->counts) hits->counts[first + j] = from->counts[j];
        unused_fill(run, hits, at + keep, at + k);
    }
}

static struct hit_slots device_slots(const struct run *run, const struct vic_hits *hits, int64_t first) {
    int64_t k = run->call->k;
    return (struct hit_slots){.ids = hits->ids + first * k,
                              .scores = hits->scores ? hits->scores + first * k : NULL,
                              .counts = hits->counts ? hits->counts + first : NULL,
                              .k = k};
}

static bool on_device(const struct vic_hits *hits) { return hits->place == VIC_DEVICE; }

/* ---- one query */

static enum vic_status word_wait(const struct run *run, uint32_t epoch) {
    while (!word_spin(run->workspace, epoch)) {
        cudaError_t error = cudaStreamQuery(run->stream); /* a kernel that failed writes no word */
        if (error == cudaErrorNotReady) continue;
        if (error != cudaSuccess) return cuda_status(error, "searching on the GPU");
        if (!word_spin(run->workspace, epoch))
            return status_fail(VIC_INTERNAL, "expected hits from a finished search, found none");
        break;
    }
    return VIC_OK;
}

static enum vic_status search_one(struct run *run, const struct vic_hits *hits, int64_t keep) {
    struct scan_args args;
    const uint64_t *filter = NULL;
    enum vic_status status = VIC_OK;
    TRY(filter_upload(run, &filter));
    TRY(scan_prepare(run, 0, filter, &args));
    args.keep = (uint32_t)keep;
    args.epoch = ++run->workspace->epoch;
    args.hits = on_device(hits) ? device_slots(run, hits, 0) : pinned_slots(run, 1, keep);
    args.mapped = !on_device(hits);
    run->marked = on_device(hits) && run->call->stream && !run->capturing && run->resident->word_await;
    if (args.mapped || run->marked) args.word = (volatile uint32_t *)(void *)run->workspace->pinned;
    TRY(cuda_status(launch_scan(&args, run->stream), "starting a search"));
    run->call->stats->bytes_read = rows_read(run->resident);
    if (on_device(hits)) return VIC_OK;
    TRY(word_wait(run, args.epoch));
    pinned_take(run, &args.hits, hits, 0, 1);
done:
    return status;
}

/* ---- many queries */

/* Queries [first, first + count) and the block's lists: runs of rows, each after the floors have been raised by those before
 * it. The first run is short, since all of it enters the lists, and a list is cut by one block of threads; then as many rows as
 * lists have room for, whatever enters. */
static enum vic_status block_search(const struct run *run, int64_t first, struct tile_args *tile, int64_t keep,
                                    struct hit_slots slots) {
    int64_t n = run->resident->rows.n, reserve = keep + cut_slack(keep);
    int64_t later = tile->capacity < n ? tile->capacity - reserve : n, start = 4 * keep + 4096;
    int64_t part = tile->capacity < n || n > 4 * start ? least_of(start, later) : n;
    enum vic_status status = VIC_OK;
    struct cut_args cut = {.rows = tile->rows,
                           .lists = tile->lists,
                           .floors = tile->floors,
                           .counts = tile->counts,
                           .nq = tile->nq,
                           .capacity = tile->capacity,
                           .keep = (uint32_t)keep,
                           .slack = (uint32_t)cut_slack(keep),
                           .hits = slots};
    TRY(batch_upload(run, first, tile->nq));
    for (tile->first = 0; tile->first < n; tile->first += tile->count, part = later) {
        tile->count = least_of(n - tile->first, part);
        cut.final = tile->first + tile->count == n;
        TRY(cuda_status(launch_tile(tile, run->stream), "starting a batch"));
        TRY(cuda_status(launch_cut(&cut, run->stream), "starting a batch"));
    }
    run->call->stats->bytes_read += rows_read(run->resident);
done:
    return status;
}

static enum vic_status search_batch(struct run *run, const struct vic_hits *hits, int64_t keep) {
    const struct layout *layout = &run->resident->layout;
    const struct vic_matrix *queries = run->call->queries;
    const uint64_t *filter = NULL;
    enum vic_status status = VIC_OK;
    int64_t most = layout->queries_count, fits = (int64_t)layout->hits_pinned_bytes / (keep * 12 + 4);
    if (!on_device(hits) && most > fits) most = fits;
    TRY(filter_upload(run, &filter));
    for (int64_t first = 0; first < queries->rows; first += most) {
        int64_t count = least_of(queries->rows - first, most);
        struct hit_slots slots = on_device(hits) ? device_slots(run, hits, first) : pinned_slots(run, count, keep);
        struct tile_args lists;
        tile_prepare(run, count, filter, &lists);
        TRY(block_search(run, first, &lists, keep, slots));
        bool again = first + count < queries->rows && queries->place == VIC_HOST; /* pinned queries will be written again */
        if (!on_device(hits) || again) TRY(run_wait(run));
        if (!on_device(hits)) pinned_take(run, &slots, hits, first, count);
    }
done:
    return status;
}

/* ---- any k */

static enum vic_status select_one(const struct run *run, int64_t query, int64_t keep, const uint64_t *filter,
                                  const struct vic_hits *hits) {
    struct scan_args scan;
    struct resident *resident = run->resident;
    struct select_args args = select_prepare(run);
    uint64_t *sorted = NULL, *other = NULL;
    uint32_t found = 0;
    enum vic_status status = VIC_OK;
    int64_t k = run->call->k, at = query * k;
    args.keep = keep;
    TRY(scan_prepare(run, query, filter, &scan));
    args.orders = scan.orders, args.maxima = scan.maxima;
    TRY(cuda_status(launch_scan(&scan, run->stream), "starting a scan"));
    TRY(cuda_status(launch_select(&args, run->stream), "selecting"));
    TRY(cuda_status(launch_sort(&args, keep, &sorted, run->stream), "sorting"));
    other = sorted == args.keys ? args.spare : args.keys;
    args.hits = on_device(hits) ? device_slots(run, hits, query)
                                : (struct hit_slots){.ids = (int64_t *)other, .scores = resident->select.scores, .k = keep};
    TRY(cuda_status(launch_hits(&args, sorted, keep, run->stream), "writing hits"));
    if (on_device(hits)) return VIC_OK;
    TRY(cuda_status(cudaMemcpyAsync(hits->ids + at, other, (size_t)keep * 8, cudaMemcpyDeviceToHost, run->stream), "hits"));
    if (hits->scores)
        TRY(cuda_status(
            cudaMemcpyAsync(hits->scores + at, resident->select.scores, (size_t)keep * 4, cudaMemcpyDeviceToHost, run->stream),
            "hits"));
    TRY(cuda_status(cudaMemcpyAsync(&found, args.state, 4, cudaMemcpyDeviceToHost, run->stream), "hits"));
    unused_fill(run, hits, at + keep, at + k);
    TRY(run_wait(run));
    if (hits->counts) hits->counts[query] = (int32_t)(found < INT32_MAX ? found : INT32_MAX);
done:
    return status;
}

static enum vic_status search_select(struct run *run, const struct vic_hits *hits, int64_t keep) {
    const uint64_t *filter = NULL;
    enum vic_status status = VIC_OK;
    TRY(filter_upload(run, &filter));
    for (int64_t query = 0; query < run->call->queries->rows; query++) {
        TRY(select_one(run, query, keep, filter, hits));
        run->call->stats->bytes_read += rows_read(run->resident);
        /* A query of the host went through pinned memory, which the next one needs. */
        if (on_device(hits) && run->call->queries->place == VIC_HOST) TRY(run_wait(run));
    }
done:
    return status;
}

/* Queries of large k whose lists have room at once: for all rows, or for enough of them that cuts are few. 0: hits do not fit
 * pinned memory. */
static int64_t large_queries(const struct layout *layout, int64_t keep) {
    int64_t keys = least_of(layout->rows.n, 4 * keep + 4 * CUT_SLACK);
    if ((int64_t)layout->hits_pinned_bytes < keep * 12 + 4) return 0;
    return least_of(layout->list_keys / keys, layout->queries_count);
}

/* The block's lists [from, to), one after another through the select area, to the slots' first and following queries. */
static enum vic_status lists_write(const struct run *run, const struct tile_args *lists, int64_t from, int64_t to, int64_t keep,
                                   const struct hit_slots *slots) {
    struct select_args args = select_prepare(run);
    enum vic_status status = VIC_OK;
    args.hits = *slots;
    for (int64_t j = from; j < to; j++) {
        uint64_t *sorted = NULL;
        TRY(list_select(run, lists, j, keep, &args));
        TRY(cuda_status(launch_sort(&args, keep, &sorted, run->stream), "sorting"));
        TRY(cuda_status(launch_hits(&args, sorted, keep, run->stream), "writing hits"));
        args.hits.ids += slots->k;
        if (slots->scores) args.hits.scores += slots->k;
        if (slots->counts) args.hits.counts++;
    }
done:
    return status;
}

/* Blocks of them, whose lists are cut to their best. */
static enum vic_status search_large(struct run *run, const struct vic_hits *hits, int64_t keep) {
    const struct layout *layout = &run->resident->layout;
    const uint64_t *filter = NULL;
    enum vic_status status = VIC_OK;
    int64_t nq = run->call->queries->rows, most = large_queries(layout, keep);
    int64_t at_once = on_device(hits) ? most : (int64_t)layout->hits_pinned_bytes / (keep * 12 + 4);
    TRY(filter_upload(run, &filter));
    for (int64_t first = 0; first < nq; first += most) {
        struct tile_args lists;
        tile_prepare(run, least_of(nq - first, most), filter, &lists);
        TRY(block_search(run, first, &lists, keep, (struct hit_slots){0}));
        for (int64_t from = 0, to; from < lists.nq; from = to) {
            to = least_of(from + at_once, lists.nq);
            struct hit_slots slots =
                on_device(hits) ? device_slots(run, hits, first + from) : pinned_slots(run, to - from, keep);
            TRY(lists_write(run, &lists, from, to, keep, &slots));
            if (!on_device(hits)) TRY(run_wait(run));
            if (!on_device(hits)) pinned_take(run, &slots, hits, first + from, to - from);
        }
        /* The next block's queries go through the same pinned memory. */
        if (on_device(hits) && first + most < nq && run->call->queries->place == VIC_HOST) TRY(run_wait(run));
    }
done:
    return status;
}

/* ---- the question */

static enum vic_status search_empty(const struct run *run, const struct vic_hits *hits) {
    int64_t nq = run->call->queries->rows, k = run->call->k;
    struct hit_slots slots = device_slots(run, hits, 0);
    if (on_device(hits)) return cuda_status(launch_unused(&slots, nq, run->resident->rows.metric, run->stream), "writing hits");
    unused_fill(run, hits, 0, nq * k);
    for (int64_t j = 0; hits->counts && j < nq; j++) hits->counts[j] = 0;
    return VIC_OK;
}

/* Whether rows are read once a block of queries, and not once a query. */
static bool in_blocks(const struct resident *resident, const struct search_call *call, int64_t keep) {
    if (call->queries->rows == 1 || call->path == VIC_PATH_SELECT) return false;
    return keep <= SMALL_KEEP || large_queries(&resident->layout, keep) > 1;
}

static enum vic_status search_run(struct run *run, const struct vic_hits *hits, int64_t keep) {
    if (run->capturing && !on_device(hits))
        return status_fail(VIC_UNSUPPORTED, "expected hits on the device in a captured search");
    if (keep == 0) return search_empty(run, hits);
    run->call->stats->rows_scored = run->call->queries->rows * run->resident->rows.n;
    if (!in_blocks(run->resident, run->call, keep))
        return run->selecting ? search_select(run, hits, keep) : search_one(run, hits, keep);
    return run->selecting ? search_large(run, hits, keep) : search_batch(run, hits, keep);
}

enum vic_status cuda_search(struct resident *resident, const struct search_call *call, const struct vic_hits *hits) {
    int64_t keep = least_of(call->k, resident->rows.n);
    struct run run;
    bool selecting = call->path == VIC_PATH_SELECT || keep > SMALL_KEEP;
    enum vic_status status = queries_check(resident, call);
    if (status == VIC_OK) status = run_begin(resident, call, selecting, &run);
    if (status != VIC_OK) return status;
    call->stats->path = selecting && !in_blocks(resident, call, keep) ? VIC_PATH_SELECT : VIC_PATH_SCAN;
    call->stats->queries = call->queries->rows;
    call->stats->threads = 1;
    if (call->path == VIC_PATH_SCAN && call->stats->path == VIC_PATH_SELECT) call->stats->fallback = VIC_FALLBACK_K;
    if (call->path == VIC_PATH_CERTIFIED)
        call->stats->fallback = VIC_FALLBACK_PLANES, call->stats->fallbacks = call->queries->rows;
    status = search_run(&run, hits, keep);
    /* Device hits on a caller's stream are valid in its order; on ours the caller has nothing to wait for. */
    bool asynchronous = on_device(hits) && call->stream;
    if (status == VIC_OK && on_device(hits) && !call->stream) status = run_wait(&run);
    return run_end(&run, status, asynchronous);
}
