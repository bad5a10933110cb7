/* Every row at least this good, written to host memory.
 *
 * One query: a scan, and all keys from the threshold on gathered and sorted. Several: blocks of queries, the rows read once a
 * block; tiles append to a query's list what reaches the threshold, and go on counting when the list is full. So every count is
 * exact after one pass. Short lists are sorted side by side (range.cu), long ones by the whole device, one after another; hits
 * of many queries cross the bus together. The surprising rule: a block is as large as the longest list of late allows. Where
 * lists were too short, few queries are scanned for on their own, and for many the block is done again in smaller ones, which
 * are then right. Once there are more hits than the caller has room for, the rest is counted. */
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
    struct select_args args = select_prepare(within->run);
    args.least = within->least;
    return args;
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

/* One pass over the rows: counts, and what the lists hold of the keys. */
static enum vic_status block_pass(struct within *within, int64_t first, const struct tile_args *tile) {
    const struct run *run = within->run;
    size_t counts_bytes = (size_t)tile->nq * 4;
    enum vic_status status = VIC_OK;
    TRY(queries_upload(run, first, tile->nq));
    TRY(cuda_status(cudaMemsetAsync(tile->counts, 0, counts_bytes, run->stream), "starting a batch"));
    TRY(cuda_status(launch_tile(tile, run->stream), "starting a batch"));
    TRY(cuda_status(cudaMemcpyAsync(within->notes->counts, tile->counts, counts_bytes, cudaMemcpyDeviceToHost, run->stream),
                    "counting"));
    TRY(run_wait(run));
    run->call->stats->bytes_read += rows_read(run->resident);
done:
    return status;
}

/* Hits of a block on their way through pinned memory: those of queries [from, to) at once. */
struct passage {
    const struct tile_args *lists;
    int64_t first, from; /* the block's first query; the passage's first in the block */
    int64_t room, taken; /* hits */
    int64_t *ids;
    float *scores;
};

static struct passage passage_start(const struct within *within, const struct tile_args *lists, int64_t first) {
    int64_t bytes = (int64_t)(within->run->resident->layout.hits_pinned_bytes - sizeof *within->notes);
    struct passage passage = {.lists = lists, .first = first, .room = bytes / 12, .ids = (void *)(within->notes + 1)};
    passage.scores = (float *)(void *)(passage.ids + passage.room);
    return passage;
}

/* Short lists are sorted now, long ones have been; all that have a place move to the ranges. */
static enum vic_status passage_end(const struct within *within, struct passage *passage, int64_t to) {
    const struct vic_ranges *ranges = within->ranges;
    const struct tile_args *lists = passage->lists;
    struct range_args args = {.rows = lists->rows,
                              .lists = lists->lists,
                              .capacity = lists->capacity,
                              .first = passage->from,
                              .nq = to - passage->from,
                              .counts = lists->counts,
                              .places = within->notes->places,
                              .ids = passage->ids,
                              .scores = passage->scores};
    enum vic_status status = VIC_OK;
    if (passage->taken == 0) return VIC_OK;
    TRY(cuda_status(launch_range(&args, within->run->stream), "writing hits"));
    TRY(run_wait(within->run));
    for (int64_t j = passage->from; j < to; j++) {
        size_t count = within->notes->counts[j], place = within->notes->places[j];
        if (place == RANGE_NONE) continue;
        int64_t start = ranges->offsets[passage->first + j];
        memcpy(ranges->ids + start, passage->ids + place, count * 8);
        if (ranges->scores) memcpy(ranges->scores + start, passage->scores + place, count * 4);
    }
    passage->from = to, passage->taken = 0;
done:
    return status;
}

/* A list that takes the whole device to sort. */
static enum vic_status passage_sort(const struct within *within, const struct passage *passage, int64_t j) {
    struct select_args args = select_start(within);
    int64_t count = within->notes->counts[j];
    uint64_t *sorted = NULL;
    enum vic_status status = VIC_OK;
    args.hits =
        (struct hit_slots){.ids = passage->ids + passage->taken, .scores = passage->scores + passage->taken, .k = count};
    TRY(list_select(within->run, passage->lists, j, count, &args));
    TRY(cuda_status(launch_sort(&args, count, &sorted, within->run->stream), "sorting"));
    TRY(cuda_status(launch_hits(&args, sorted, count, within->run->stream), "writing hits"));
done:
    return status;
}

/* All of a block's hits to the ranges. What pinned memory does not hold, or a list did not, goes without it. */
static enum vic_status block_write(const struct within *within, const struct tile_args *lists, int64_t first) {
    struct passage passage = passage_start(within, lists, first);
    struct notes *notes = within->notes;
    enum vic_status status = VIC_OK;
    for (int64_t j = 0; j < lists->nq; j++) {
        int64_t found = notes->counts[j];
        bool passes = found > 0 && found <= least_of(lists->capacity, passage.room);
        if (passes && passage.taken + found > passage.room) TRY(passage_end(within, &passage, j));
        notes->places[j] = passes ? (uint32_t)passage.taken : RANGE_NONE;
        if (passes && found > RANGE_KEYS) TRY(passage_sort(within, &passage, j));
        if (passes) passage.taken += found;
    }
    TRY(passage_end(within, &passage, lists->nq));
    for (int64_t j = 0; j < lists->nq; j++) {
        struct select_args args = select_start(within);
        int64_t found = notes->counts[j];
        if (found == 0 || notes->places[j] != RANGE_NONE) continue;
        TRY(found > lists->capacity ? keys_gather(within, &args, first + j) : list_select(within->run, lists, j, found, &args));
        TRY(keys_write(within, &args, first + j, found));
    }
done:
    return status;
}

/* A scan costs as much as this many of a block's queries. */
enum { SCAN_QUERIES = 8 };

/* *answered becomes 0 when smaller blocks will do better. */
static enum vic_status within_block(struct within *within, int64_t first, int64_t count, int64_t *answered) {
    int64_t *offsets = within->ranges->offsets, too_long = 0;
    struct tile_args lists;
    enum vic_status status = VIC_OK;
    tile_prepare(within->run, count, within->filter, &lists);
    TRY(block_pass(within, first, &lists));
    within->largest = 0;
    for (int64_t j = 0; j < count; j++) {
        int64_t found = within->notes->counts[j];
        offsets[first + j + 1] = offsets[first + j] + found;
        if (found > within->largest) within->largest = found;
        too_long += found > lists.capacity;
    }
    if (!room_is_left(within, first + count)) return VIC_OK;
    if (too_long * SCAN_QUERIES > count) *answered = 0;
    if (*answered == 0) return VIC_OK;
    TRY(block_write(within, &lists, first));
done:
    return status;
}

/* Queries whose lists hold somewhat more than the longest of late, so at least those that were counted; whole tiles of them. */
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
    if (nq > 1)
        TRY(cuda_status(cudaMemcpyAsync(run->workspace->device + layout->floors_at, within->notes->floors,
                                        (size_t)layout->queries_count * 8, cudaMemcpyHostToDevice, run->stream),
                        "starting a batch"));
    for (int64_t first = 0, answered; first < nq; first += answered) {
        int64_t most = room_is_left(within, first) ? block_queries(layout, within->largest) : layout->queries_count;
        int64_t count = answered = least_of(nq - first, most);
        TRY(count == 1 ? within_one(within, first) : within_block(within, first, count, &answered));
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
