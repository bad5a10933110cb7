/* Choosing among keys within one block of SCAN_THREADS threads: a threshold, and a sort in shared memory.
 *
 * Keys are distinct 64-bit numbers, so ties between scores need no care: they are decided by the row in the low half. The
 * threshold is found by counting in 2,048 equal parts of the range that the keys really have, then within the part that
 * holds the k-th key, and so on: two rounds for scores of real data, six in the worst case, whatever the distribution. */
#ifndef CUDA_CHOOSE_CUH
#define CUDA_CHOOSE_CUH

#include "backend/cuda/common.cuh"

enum { CHOOSE_BINS = 2048, CHOOSE_KEYS = 4096, CHOOSE_WARPS = SCAN_THREADS / 32, BINS_EACH = CHOOSE_BINS / SCAN_THREADS };
static_assert(CHOOSE_KEYS >= SMALL_KEEP + CUT_SLACK, "what a cut leaves must fit");

struct choose_space {
    uint64_t keys[CHOOSE_KEYS];
    uint32_t count;
    uint32_t bins[CHOOSE_BINS];
    uint64_t lows[CHOOSE_WARPS], highs[CHOOSE_WARPS];
    uint32_t totals[CHOOSE_WARPS];
    uint32_t bin, above, inside;
};

/* Sum of the values of lower threads; every thread of the block calls it. */
__device__ inline uint32_t block_sum_before(choose_space &space, uint32_t value) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    uint32_t sum = value;
#pragma unroll
    for (int step = 1; step < 32; step <<= 1) {
        uint32_t other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == 31) space.totals[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warp; w++) sum += space.totals[w];
    return sum - value;
}

/* Smallest and largest of the threads' ranges, and the sum of their counts, in every thread. */
__device__ inline uint32_t block_range(choose_space &space, uint64_t *low, uint64_t *high, uint32_t count) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
#pragma unroll
    for (int mask = 16; mask; mask >>= 1) {
        uint64_t other_low = __shfl_xor_sync(~0u, *low, mask), other_high = __shfl_xor_sync(~0u, *high, mask);
        *low = other_low < *low ? other_low : *low;
        *high = other_high > *high ? other_high : *high;
    }
    count = __reduce_add_sync(~0u, count);
    if (lane == 0) space.lows[warp] = *low, space.highs[warp] = *high, space.totals[warp] = count;
    __syncthreads();
    count = 0;
    for (int w = 0; w < CHOOSE_WARPS; w++) {
        *low = space.lows[w] < *low ? space.lows[w] : *low;
        *high = space.highs[w] > *high ? space.highs[w] : *high;
        count += space.totals[w];
    }
    __syncthreads();
    return count;
}

/* From the top, the bin in which the sum reaches `need`: space.bin, the sum above it, and what is inside it. */
__device__ inline void bins_find(choose_space &space, uint32_t need) {
    int top = CHOOSE_BINS - 1 - (int)threadIdx.x * BINS_EACH;
    uint32_t mine = 0;
#pragma unroll
    for (int i = 0; i < BINS_EACH; i++) mine += space.bins[top - i];
    uint32_t above = block_sum_before(space, mine);
    if (above < need && above + mine >= need) {
        int bin = top;
        while (above + space.bins[bin] < need) above += space.bins[bin--];
        space.bin = (uint32_t)bin, space.above = above, space.inside = space.bins[bin];
    }
    __syncthreads();
}

/* How far a range must be shifted so that it falls into the bins. */
__device__ inline int range_shift(uint64_t span) { return span >> 11 ? 53 - __clzll((long long)span) : 0; }

/* A key T such that at least `need` of the keys are >= T and at most max(need, limit) are; 1, which any key reaches, when
 * there are fewer than `need`. each(visit) calls visit(key) for this thread's share of the keys, 0 being none; it is walked
 * once a round. All threads of the block get the same T. */
template <class Each> __device__ uint64_t keys_threshold(choose_space &space, const Each &each, uint32_t need, uint32_t limit) {
    uint64_t low = ~UINT64_C(0), high = 0;
    uint32_t count = 0, above = 0;
    each([&](uint64_t key) {
        if (!key) return;
        low = key < low ? key : low, high = key > high ? key : high, count++;
    });
    count = block_range(space, &low, &high, count);
    if (count < need) return 1;
    if (count == need || count <= limit) return low;
    for (;;) {
        int shift = range_shift(high - low);
        for (int i = threadIdx.x; i < CHOOSE_BINS; i += SCAN_THREADS) space.bins[i] = 0;
        __syncthreads();
        each([&](uint64_t key) {
            if (key >= low && key <= high) atomicAdd(&space.bins[(key - low) >> shift], 1u);
        });
        __syncthreads();
        bins_find(space, need - above);
        low += (uint64_t)space.bin << shift;
        if (shift == 0 || above + space.above + space.inside <= (need > limit ? need : limit)) return low;
        above += space.above;
        uint64_t last = low + ((UINT64_C(1) << shift) - 1);
        high = last < high ? last : high;
        __syncthreads();
    }
}

/* space.keys[0 .. size), size a power of two, largest first: a bitonic network. */
__device__ inline void keys_sort_block(choose_space &space, uint32_t size) {
    for (uint32_t length = 2; length <= size; length <<= 1)
        for (uint32_t step = length >> 1; step; step >>= 1) {
            for (uint32_t t = threadIdx.x; t < size / 2; t += blockDim.x) {
                uint32_t i = 2 * t - (t & (step - 1)), j = i + step;
                uint64_t a = space.keys[i], b = space.keys[j];
                if ((a < b) == ((i & length) == 0)) space.keys[i] = b, space.keys[j] = a;
            }
            __syncthreads();
        }
}

/* space.keys[0 .. count), largest first, by counting: keys go to 2,048 equal parts of their range, then each counts the
 * larger ones of its part. Seven barriers where the network has sixty. False, and nothing done, when a part is crowded. */
enum { KEYS_EACH = CHOOSE_KEYS / SCAN_THREADS, PART_MOST = 32 };
__device__ inline bool keys_sort_parts(choose_space &space, uint32_t count) {
    uint64_t keys[KEYS_EACH], low = ~UINT64_C(0), high = 0;
    uint32_t parts[KEYS_EACH], places[KEYS_EACH];
#pragma unroll
    for (int i = 0; i < KEYS_EACH; i++) {
        uint32_t at = threadIdx.x + i * SCAN_THREADS;
        keys[i] = at < count ? space.keys[at] : 0;
        if (keys[i]) low = keys[i] < low ? keys[i] : low, high = keys[i] > high ? keys[i] : high;
    }
    for (int i = threadIdx.x; i < CHOOSE_BINS; i += SCAN_THREADS) space.bins[i] = 0;
    (void)block_range(space, &low, &high, 0);
    int shift = range_shift(high - low);
#pragma unroll
    for (int i = 0; i < KEYS_EACH; i++) {
        if (!keys[i]) continue;
        parts[i] = CHOOSE_BINS - 1 - (uint32_t)((keys[i] - low) >> shift);
        places[i] = atomicAdd(&space.bins[parts[i]], 1u);
    }
    __syncthreads();
    uint32_t mine[BINS_EACH], sum = 0, most = 0;
#pragma unroll
    for (int i = 0; i < BINS_EACH; i++) {
        mine[i] = space.bins[threadIdx.x * BINS_EACH + i];
        sum += mine[i], most = max(most, mine[i]);
    }
    if (__syncthreads_or(most > PART_MOST)) return false;
    uint32_t before = block_sum_before(space, sum);
#pragma unroll
    for (int i = 0; i < BINS_EACH; i++) {
        space.bins[threadIdx.x * BINS_EACH + i] = before;
        before += mine[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < KEYS_EACH; i++)
        if (keys[i]) space.keys[space.bins[parts[i]] + places[i]] = keys[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < KEYS_EACH; i++) {
        if (!keys[i]) continue;
        uint32_t first = space.bins[parts[i]], end = parts[i] + 1 < CHOOSE_BINS ? space.bins[parts[i] + 1] : count, rank = 0;
        for (uint32_t at = first; at < end; at++) rank += space.keys[at] > keys[i];
        places[i] = first + rank;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < KEYS_EACH; i++)
        if (keys[i]) space.keys[places[i]] = keys[i];
    __syncthreads();
    return true;
}

/* Starts a collection into space.keys. */
__device__ inline void collect_start(choose_space &space) {
    if (threadIdx.x == 0) space.count = 0;
    __syncthreads();
}
/* Adds a key; how many there were may come to exceed what has room. */
__device__ inline void collect(choose_space &space, uint64_t key) {
    uint32_t at = atomicAdd(&space.count, 1u);
    if (at < CHOOSE_KEYS) space.keys[at] = key;
}
/* The collected keys to query `query`'s slots: the `keep` best, in order; the rest unused. Up to a key a thread, each key
 * counts those before it, which takes fewer barriers than a network. */
__device__ inline void collect_write(choose_space &space, uint32_t keep, const struct hit_slots &hits,
                                     const struct packed_rows &rows, int64_t query) {
    __syncthreads();
    uint32_t count = space.count, size = 2, found = count < keep ? count : keep;
    int64_t first = query * hits.k;
    if (count <= SCAN_THREADS) {
        uint64_t key = threadIdx.x < count ? space.keys[threadIdx.x] : 0;
        uint32_t rank = 0;
        for (uint32_t i = 0; i < count; i++) rank += space.keys[i] > key;
        if (threadIdx.x < count && rank < found) hit_write(hits, rows, first + rank, key);
    } else {
        if (!keys_sort_parts(space, count)) {
            while (size < count) size <<= 1;
            for (uint32_t i = count + threadIdx.x; i < size; i += SCAN_THREADS) space.keys[i] = 0;
            __syncthreads();
            keys_sort_block(space, size);
        }
        for (uint32_t i = threadIdx.x; i < found; i += SCAN_THREADS) hit_write(hits, rows, first + i, space.keys[i]);
    }
    for (int64_t i = found + threadIdx.x; i < hits.k; i += SCAN_THREADS) hit_write(hits, rows, first + i, 0);
    if (hits.counts && threadIdx.x == 0) hits.counts[query] = (int32_t)found;
}

#endif
