/* Every row at least this good, written to host memory.
 *
 * One query: a scan, and all keys from the threshold on gathered and sorted. Several: blocks of queries, the rows read once a
 * block; tiles append to a query's list what reaches the threshold, and go on counting when the list is full. So every count is
 * exact after one pass, and only queries with more hits than their list holds are scanned for once more. Short lists are
 * sorted side by side (range.cu), long ones by the whole device, one after another.
 * The surprising rule: a block is as large as the longest list of the block before allows, so a threshold that many rows
 * reach gets smaller blocks and not more scans. Once there are more hits than the caller has room for, the rest is counted. */
#include "backend/cuda/cuda.h"

#include <string.h>

/* What the device and the host tell each other, at the beginning of the pinned memory for hits; hits of short lists behind. */
struct notes {
    uint64_t floors[QUERIES_MAX];
    uint32_t counts[QUERIES_MAX], places[QUERIES_MAX];
};
_Static_assert(sizeof(struct notes) + RANGE_KEYS * 12 <= HITS_PINNED_LEAST, "a list that a block sorts must have room");

struct within {
    const struct run *run;
    const uint64_t *filter;
    const struct vic_ranges *ranges;
    struct notes *notes;
    uint64_t least;  /* key of the threshold */
    int64_t largest; /* hits of a query: most of a block, or a guess */
};

static uint64_t least_key(const struct resident *resident, float score) {
    bool smaller_better = resident->rows.metric == VIC_L2;
    uint32_t bits = float_bits(score + 0.0f), order = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)(smaller_better ? ~order : order) << 32;
}

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static bool room_is_left(const struct within *within, int64_t query) {
    return within->ranges->offsets[query] <= within->ranges->capacity;
}

/* ---- one query */

static struct select_args select_start(const struct within *within) {
    struct resident *resident = within->run->resident;
    return (struct select_args){
        .rows = resident->rows,
        .shape = resident->layout.shape,
        .state = (struct select_state *)(void *)(within->run->workspace->device + resident->layout.state_at),
        .keys = resident->select.keys,
        .spare = resident->select.spare,
        .least = within->least,
        .multiprocessors = resident->backend->multiprocessors,
    };
}

/* The first `count` of args->keys, sorted, to query `query`'s place in the ranges. */
static enum vic_status keys_write(const struct within *within, struct select_args *args, int64_t query, int64_t count) {
    const struct run *run = within->run;
    const struct vic_ranges *ranges = within->ranges;
    int64_t start = ranges->offsets[query];
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

/* A scan, and the keys from the threshold on in args->keys. */
static enum vic_status keys_gather(const struct within *within, struct select_args *args, int64_t query) {
    const struct run *run = within->run;
    struct scan_args scan;
    enum vic_status status = VIC_OK;
    TRY(scan_prepare(run, query, within->filter, &scan));
    args->orders = scan.orders, args->maxima = scan.maxima;
    TRY(cuda_status(launch_scan(&scan, run->stream), "starting a scan"));
    TRY(cuda_status(launch_select(args, run->stream), "selecting"));
    run->call->stats->bytes_read += rows_read(run->resident);
done:
    return status;
}

static enum vic_status within_one(struct within *within, int64_t query) {
    struct select_args args = select_start(within);
    enum vic_status status = VIC_OK;
    TRY(keys_gather(within, &args, query));
    TRY(cuda_status(cudaMemcpyAsync(within->notes->counts, args.state, 4, cudaMemcpyDeviceToHost, within->run->stream),
                    "counting"));
    TRY(run_wait(within->run));
    within->largest = within->notes->counts[0];
    within->ranges->offsets[query + 1] = within->ranges->offsets[query] + within->largest;
    if (room_is_left(within, query + 1)) TRY(keys_write(within, &args, query, within->largest));
done:
    return status;
}

/* ---- a block of queries */

/* One pass over the rows: counts, and the lists of `capacity` keys. */
static enum vic_status block_pass(struct within *within, int64_t first, int64_t count, int64_t capacity) {
    const struct run *run = within->run;
    const struct layout *layout = &run->resident->layout;
    char *device = run->workspace->device;
    struct tile_args tile = {.rows = run->resident->rows,
                             .count = layout->rows.n,
                             .queries = device + layout->prepared_at,
                             .query_stride = query_stride_of(&layout->rows),
                             .nq = count,
                             .query_norms = (const float *)(const void *)(device + layout->norms_at),
                             .query_dtype = run->call->queries->dtype,
                             .filter = within->filter,
                             .floors = (const uint64_t *)(const void *)(device + layout->floors_at),
                             .lists = (uint64_t *)(void *)(device + layout->lists_at),
                             .counts = (uint32_t *)(void *)(device + layout->counts_at),
                             .capacity = capacity,
                             .shared_most = (int32_t)run->resident->backend->shared_most,
                             .multiprocessors = run->resident->backend->multiprocessors,
                             .engine = run->resident->tile_engine};
    enum vic_status status = VIC_OK;
    size_t counts_bytes = (size_t)count * 4;
    TRY(queries_upload(run, first, count));
    TRY(cuda_status(cudaMemsetAsync(tile.counts, 0, counts_bytes, run->stream), "starting a batch"));
    TRY(cuda_status(launch_tile(&tile, run->stream), "starting a batch"));
    TRY(cuda_status(cudaMemcpyAsync(within->notes->counts, tile.counts, counts_bytes, cudaMemcpyDeviceToHost, run->stream),
                    "counting"));
    TRY(run_wait(run));
    run->call->stats->bytes_read += rows_read(run->resident);
done:
    return status;
}

/* Lists of the block's queries [from, to), those that have a place, sorted into pinned memory and moved to the ranges. */
static enum vic_status short_lists_write(const struct within *within, struct range_args *args, int64_t first, int64_t from,
                                         int64_t to) {
    const struct vic_ranges *ranges = within->ranges;
    enum vic_status status = VIC_OK;
    args->first = from, args->nq = to - from;
    TRY(cuda_status(launch_range(args, within->run->stream), "writing hits"));
    TRY(run_wait(within->run));
    for (int64_t j = from; j < to; j++) {
        size_t count = within->notes->counts[j], place = within->notes->places[j];
        if (place == RANGE_NONE) continue;
        int64_t start = ranges->offsets[first + j];
        memcpy(ranges->ids + start, args->ids + place, count * 8);
        if (ranges->scores) memcpy(ranges->scores + start, args->scores + place, count * 4);
    }
done:
    return status;
}

/* Lists that a block of threads can sort, as many at once as pinned memory has room for. */
static enum vic_status block_write_short(const struct within *within, const struct range_args *lists, int64_t first,
                                         int64_t count) {
    struct range_args args = *lists;
    struct notes *notes = within->notes;
    int64_t room = ((int64_t)within->run->resident->layout.hits_pinned_bytes - (int64_t)sizeof *notes) / 12, taken = 0,
            from = 0;
    enum vic_status status = VIC_OK;
    args.ids = (int64_t *)(void *)(notes + 1);
    args.scores = (float *)(void *)(args.ids + room);
    for (int64_t j = 0; j < count; j++) {
        int64_t found = notes->counts[j];
        bool is_short = found > 0 && found <= RANGE_KEYS;
        if (is_short && taken + found > room) {
            TRY(short_lists_write(within, &args, first, from, j));
            from = j, taken = 0;
        }
        notes->places[j] = is_short ? (uint32_t)taken : RANGE_NONE;
        if (is_short) taken += found;
    }
    if (taken > 0) TRY(short_lists_write(within, &args, first, from, count));
done:
    return status;
}

/* A list that takes the whole device to sort, or that did not hold all. */
static enum vic_status long_list_write(const struct within *within, const struct range_args *lists, int64_t first, int64_t j) {
    struct select_args args = select_start(within);
    cudaStream_t stream = within->run->stream;
    int64_t count = within->notes->counts[j];
    enum vic_status status = VIC_OK;
    if (count > lists->capacity) {
        TRY(keys_gather(within, &args, first + j));
    } else {
        const uint64_t *list = lists->lists + j * lists->capacity;
        TRY(cuda_status(cudaMemcpyAsync(args.keys, list, (size_t)count * 8, cudaMemcpyDeviceToDevice, stream), "sorting"));
        TRY(cuda_status(cudaMemcpyAsync(args.state, lists->counts + j, 4, cudaMemcpyDeviceToDevice, stream), "sorting"));
    }
    TRY(keys_write(within, &args, first + j, count));
done:
    return status;
}

static enum vic_status within_block(struct within *within, int64_t first, int64_t count) {
    const struct layout *layout = &within->run->resident->layout;
    char *device = within->run->workspace->device;
    int64_t *offsets = within->ranges->offsets;
    struct range_args lists = {.rows = within->run->resident->rows,
                               .lists = (const uint64_t *)(const void *)(device + layout->lists_at),
                               .capacity = least_of(layout->list_keys / count, layout->rows.n),
                               .counts = (const uint32_t *)(const void *)(device + layout->counts_at),
                               .places = within->notes->places};
    enum vic_status status = VIC_OK;
    TRY(block_pass(within, first, count, lists.capacity));
    within->largest = 0;
    for (int64_t j = 0; j < count; j++) {
        int64_t found = within->notes->counts[j];
        offsets[first + j + 1] = offsets[first + j] + found;
        if (found > within->largest) within->largest = found;
    }
    if (!room_is_left(within, first + count)) return VIC_OK;
    TRY(block_write_short(within, &lists, first, count));
    for (int64_t j = 0; j < count; j++)
        if (within->notes->counts[j] > RANGE_KEYS) TRY(long_list_write(within, &lists, first, j));
done:
    return status;
}

/* Queries whose lists hold somewhat more than the longest of late; whole tiles of them. */
static int64_t block_queries(const struct layout *layout, int64_t largest) {
    enum { TILE_QUERIES = 16 };
    int64_t keys = least_of(largest + largest / 4 + 1024, layout->rows.n);
    int64_t fit = least_of(layout->list_keys / keys, layout->queries_count);
    if (fit < layout->queries_count && fit > TILE_QUERIES) fit = fit / TILE_QUERIES * TILE_QUERIES;
    return fit > 1 ? fit : 1;
}

static enum vic_status within_all(struct within *within, int64_t nq) {
    const struct run *run = within->run;
    const struct layout *layout = &run->resident->layout;
    enum vic_status status = VIC_OK;
    for (int64_t j = 0; j < QUERIES_MAX; j++) within->notes->floors[j] = within->least;
    TRY(cuda_status(cudaMemcpyAsync(run->workspace->device + layout->floors_at, within->notes->floors,
                                    (size_t)layout->queries_count * 8, cudaMemcpyHostToDevice, run->stream),
                    "starting a batch"));
    for (int64_t first = 0, count = 0; first < nq; first += count) {
        int64_t most = room_is_left(within, first) ? block_queries(layout, within->largest) : layout->queries_count;
        count = least_of(nq - first, most);
        TRY(count == 1 ? within_one(within, first) : within_block(within, first, count));
    }
done:
    return status;
}

enum vic_status cuda_within(struct resident *resident, const struct search_call *call, float score,
                            const struct vic_ranges *ranges) {
    struct run run;
    int64_t nq = call->queries->rows, n = resident->rows.n;
    enum vic_status status = queries_check(resident, call);
    if (status == VIC_OK) status = run_begin(resident, call, true, &run);
    if (status != VIC_OK) return status;
    struct within within = {.run = &run,
                            .ranges = ranges,
                            .notes = (struct notes *)(void *)(run.workspace->pinned + resident->layout.hits_pinned_at),
                            .least = least_key(resident, score),
                            .largest = resident->layout.list_keys / 128};
    for (int64_t j = 0; j <= nq; j++) ranges->offsets[j] = 0;
    TRY(filter_upload(&run, &within.filter));
    if (n > 0) TRY(within_all(&within, nq));
    call->stats->path = VIC_PATH_SCAN;
    call->stats->threads = 1;
    call->stats->queries = nq;
    call->stats->rows_scored = nq * n;
    if (ranges->offsets[nq] > ranges->capacity)
        status = status_fail(VIC_CAPACITY, "expected room for %lld hits, found ranges.capacity %lld",
                             (long long)ranges->offsets[nq], (long long)ranges->capacity);
done:
    return run_end(&run, status, false);
}
