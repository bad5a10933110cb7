/* Any number of hits out of a scan's scores: the threshold by counting, then a gather, then a sort.
 *
 * Scores lie as the scan stored them (by warp). Launches, each over the whole device: six rounds of counting in 2,048
 * parts of what is left of the key range, of which all after the threshold is known return at once (three for real data);
 * one gather; sorting in tiles of 4,096 and merging, a launch for each doubling. The last block of a round draws its
 * conclusion, so no block waits for another. A million scores: a round reads 4 MB from the second cache, some 3 us.
 * Keys are distinct, so exactly `keep` of them reach the threshold and nothing depends on the order of threads. */
#include "backend/cuda/choose.cuh"

struct select_state {
    uint32_t gathered; /* keys in the list: what the host may read */
    uint32_t done, above, resolved;
    uint64_t low, high; /* range that still holds the keep-th key; high 0: not begun */
    uint32_t bins[CHOOSE_BINS];
};
static_assert(sizeof(struct select_state) <= SELECT_STATE_BYTES, "the host reserves room for the state");

/* Key of the score stored at a position, 0 for none. */
__device__ static uint64_t stored_key(const struct select_args &args, uint64_t position) {
    uint32_t per = args.shape.per_warp, unit_rows = args.shape.unit_rows;
    uint32_t warp = (uint32_t)(position / per), at = (uint32_t)(position % per);
    uint32_t unit = at / unit_rows * args.shape.warps + warp;
    return unit < args.shape.units ? key_of(__ldcg(args.orders + position), unit * unit_rows + at % unit_rows) : 0;
}

template <class Visit> __device__ static void stored_keys(const struct select_args &args, const Visit &visit) {
    uint64_t positions = (uint64_t)args.shape.warps * args.shape.per_warp, step = (uint64_t)gridDim.x * SCAN_THREADS;
    /* All threads of a block make the same number of rounds, so that a visit may use the whole warp. */
    for (uint64_t first = (uint64_t)blockIdx.x * SCAN_THREADS; first < positions; first += step) {
        uint64_t position = first + threadIdx.x;
        visit(position < positions ? stored_key(args, position) : 0);
    }
}

/* The range at the beginning: from the smallest key there can be to the largest maximum. */
__device__ static void range_begin(const struct select_args &args, choose_space &space, uint64_t *low, uint64_t *high) {
    *low = ~UINT64_C(0), *high = 0;
    for (uint32_t w = threadIdx.x; w < args.shape.warps; w += SCAN_THREADS) {
        uint64_t key = __ldcg(args.maxima + w);
        *high = key > *high ? key : *high;
    }
    (void)block_range(space, low, high, 0);
    *low = 1;
}

/* The last block of a round: where the keep-th key is, from the counts of all. */
__device__ static void round_conclude(const struct select_args &args, choose_space &space, uint64_t low, uint64_t high) {
    struct select_state *state = args.state;
    int shift = range_shift(high - low);
    for (int i = threadIdx.x; i < CHOOSE_BINS; i += SCAN_THREADS) {
        space.bins[i] = __ldcg(&state->bins[i]);
        state->bins[i] = 0;
    }
    if (threadIdx.x == 0) space.bin = CHOOSE_BINS;
    __syncthreads();
    bins_find(space, (uint32_t)args.keep - state->above);
    if (threadIdx.x != 0) return;
    state->done = 0;
    if (space.bin == CHOOSE_BINS) { /* fewer keys than wanted: all of them */
        state->low = 1, state->high = high, state->resolved = 1;
        return;
    }
    uint64_t part = low + ((uint64_t)space.bin << shift), last = part + ((UINT64_C(1) << shift) - 1);
    state->resolved = shift == 0 || state->above + space.above + space.inside == args.keep;
    state->above += space.above;
    state->low = part, state->high = last < high ? last : high;
}

__global__ static void __launch_bounds__(SCAN_THREADS) round_kernel(struct select_args args, bool first) {
    __shared__ choose_space space;
    __shared__ bool last;
    struct select_state *state = args.state;
    if (!first && state->resolved) return;
    uint64_t low = state->low, high = state->high;
    if (first) range_begin(args, space, &low, &high);
    for (int i = threadIdx.x; i < CHOOSE_BINS; i += SCAN_THREADS) space.bins[i] = 0;
    __syncthreads();
    int shift = range_shift(high - low);
    if (high)
        stored_keys(args, [&](uint64_t key) {
            if (key && key >= low && key <= high) atomicAdd(&space.bins[(key - low) >> shift], 1u);
        });
    __syncthreads();
    for (int i = threadIdx.x; i < CHOOSE_BINS; i += SCAN_THREADS)
        if (space.bins[i]) atomicAdd(&state->bins[i], space.bins[i]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&state->done, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    round_conclude(args, space, low, high);
}

/* Keys from `least` (or the threshold found) on, in any order; a warp takes room for its finds at once. */
__global__ static void __launch_bounds__(SCAN_THREADS) gather_kernel(struct select_args args) {
    uint64_t least = args.least ? args.least : args.state->low;
    int lane = threadIdx.x & 31;
    stored_keys(args, [&](uint64_t key) {
        bool found = key && key >= least;
        unsigned votes = __ballot_sync(~0u, found);
        uint32_t base = 0;
        if (votes && lane == 0) base = atomicAdd(&args.state->gathered, (uint32_t)__popc(votes));
        base = __shfl_sync(~0u, base, 0);
        if (found) args.keys[base + (uint32_t)__popc(votes & ((1u << lane) - 1))] = key;
    });
}

static unsigned select_blocks(const struct select_args *args) {
    uint64_t positions = (uint64_t)args->shape.warps * args->shape.per_warp, most = (uint64_t)args->multiprocessors * 2;
    uint64_t blocks = (positions + SCAN_THREADS - 1) / SCAN_THREADS;
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

cudaError_t launch_select(const struct select_args *args, cudaStream_t stream) {
    cudaError_t error = cudaMemsetAsync(args->state, 0, sizeof(struct select_state), stream);
    if (error != cudaSuccess) return error;
    unsigned blocks = select_blocks(args);
    for (int round = 0; round < 6 && !args->least; round++)
        round_kernel<<<blocks, SCAN_THREADS, 0, stream>>>(*args, round == 0);
    gather_kernel<<<blocks, SCAN_THREADS, 0, stream>>>(*args);
    return cudaPeekAtLastError();
}

/* ---- sorting */

__global__ static void __launch_bounds__(SCAN_THREADS) sort_tiles_kernel(uint64_t *keys) {
    __shared__ choose_space space;
    static_assert(SORT_TILE == CHOOSE_KEYS, "a tile is what a block sorts");
    uint64_t *tile = keys + (int64_t)blockIdx.x * SORT_TILE;
    for (int i = threadIdx.x; i < SORT_TILE; i += SCAN_THREADS) space.keys[i] = tile[i];
    __syncthreads();
    keys_sort_block(space, SORT_TILE);
    for (int i = threadIdx.x; i < SORT_TILE; i += SCAN_THREADS) tile[i] = space.keys[i];
}

/* Keys of a sorted run that come before `key`; equal ones (only 0, for none) do when they are of the first run. */
__device__ static int64_t run_rank(const uint64_t *run, int64_t count, uint64_t key, bool equal_before) {
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (run[middle] > key || (equal_before && run[middle] == key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Each key finds its own place in the merged run: its place in its run plus its rank in the other. */
__global__ static void merge_kernel(const uint64_t *from, uint64_t *to, int64_t count, int64_t run) {
    for (int64_t i = (int64_t)blockIdx.x * SCAN_THREADS + threadIdx.x; i < count; i += (int64_t)gridDim.x * SCAN_THREADS) {
        int64_t pair = i / (2 * run) * (2 * run), own = i - pair;
        bool second = own >= run;
        int64_t other = second ? pair : pair + run, length = count - other < run ? count - other : run;
        if (length < 0) length = 0;
        uint64_t key = from[i];
        to[pair + own - (second ? run : 0) + run_rank(from + other, length, key, second)] = key;
    }
}

__global__ static void hits_kernel(struct select_args args, const uint64_t *keys, int64_t count) {
    for (int64_t i = (int64_t)blockIdx.x * SCAN_THREADS + threadIdx.x; i < args.hits.k; i += (int64_t)gridDim.x * SCAN_THREADS)
        hit_write(args.hits, args.rows, i, i < count && i < args.state->gathered ? keys[i] : 0);
    if (args.hits.counts && blockIdx.x == 0 && threadIdx.x == 0) {
        uint32_t found = args.state->gathered;
        *args.hits.counts = (int32_t)(found < INT32_MAX ? found : INT32_MAX);
    }
}

static unsigned grid_for(int64_t count) {
    int64_t blocks = (count + SCAN_THREADS - 1) / SCAN_THREADS;
    return (unsigned)(blocks < 1 ? 1 : blocks < 65536 ? blocks : 65536);
}

/* What lies behind the gathered keys is no key. */
__global__ static void clear_kernel(struct select_args args, int64_t count) {
    for (int64_t i = (int64_t)blockIdx.x * SCAN_THREADS + threadIdx.x; i < count; i += (int64_t)gridDim.x * SCAN_THREADS)
        if (i >= args.state->gathered) args.keys[i] = 0;
}

cudaError_t launch_sort(const struct select_args *args, int64_t count, uint64_t **sorted, cudaStream_t stream) {
    int64_t tiles = (count + SORT_TILE - 1) / SORT_TILE, padded = tiles * SORT_TILE;
    uint64_t *from = args->keys, *to = args->spare;
    clear_kernel<<<grid_for(padded), SCAN_THREADS, 0, stream>>>(*args, padded);
    sort_tiles_kernel<<<(unsigned)tiles, SCAN_THREADS, 0, stream>>>(from);
    for (int64_t run = SORT_TILE; run < padded; run *= 2) {
        merge_kernel<<<grid_for(padded), SCAN_THREADS, 0, stream>>>(from, to, padded, run);
        uint64_t *kept = from;
        from = to, to = kept;
    }
    *sorted = from;
    return cudaPeekAtLastError();
}

cudaError_t launch_hits(const struct select_args *args, const uint64_t *sorted, int64_t count, cudaStream_t stream) {
    hits_kernel<<<grid_for(args->hits.k), SCAN_THREADS, 0, stream>>>(*args, sorted, count);
    return cudaPeekAtLastError();
}

cudaError_t load_select(void) {
    const void *const kernels[] = {(const void *)round_kernel,      (const void *)gather_kernel, (const void *)clear_kernel,
                                   (const void *)sort_tiles_kernel, (const void *)merge_kernel,  (const void *)hits_kernel};
    cudaError_t error = cudaSuccess;
    for (const void *kernel : kernels)
        if (error == cudaSuccess) error = kernel_load(kernel, 0);
    return error;
}
