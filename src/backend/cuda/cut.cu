/* A batch's lists of keys, one block each: cut back between runs of rows, sorted and written at the end.
 *
 * A list that has grown by more than the slack is cut back to little more than the `keep` best; the floor is the smallest
 * key that was kept, and tiles append only what reaches it. So each run of rows adds few keys, whatever the number of rows, and
 * a list can never overflow: its capacity is what a cut leaves plus the rows of a run. What does not fit a block's shared
 * memory, because `keep` is large, is cut where it lies. */
#include "backend/cuda/choose.cuh"

__global__ static void __launch_bounds__(SCAN_THREADS) cut_kernel(const __grid_constant__ struct cut_args args) {
    __shared__ choose_space space;
    int64_t query = blockIdx.x;
    uint64_t *list = args.lists + query * args.capacity;
    uint32_t count = args.counts[query], keep = args.keep;
    auto keys = [&](const auto &visit) {
        for (uint32_t i = threadIdx.x; i < count; i += SCAN_THREADS) visit(list[i]);
    };
    uint64_t least = 1;
    if (count > keep + args.slack) {
        least = keys_threshold(space, keys, keep, keep + keep / 4 + 32); /* close to the keep-th: the next run adds few */
    } else if (!args.final) {
        return;
    }
    __syncthreads();
    collect_start(space);
    keys([&](uint64_t key) {
        if (key >= least) collect(space, key);
    });
    __syncthreads();
    if (args.final) {
        collect_write(space, keep, args.hits, args.rows, query);
        return;
    }
    for (uint32_t i = threadIdx.x; i < space.count; i += SCAN_THREADS) list[i] = space.keys[i];
    if (threadIdx.x == 0) args.counts[query] = space.count, args.floors[query] = least;
}

/* Keys of at least `least` moved to the front of a list, in any order; returns how many. All keys of a turn are read before the
 * first is written, and what is written lies before those of the next. */
__device__ static uint32_t list_compact(choose_space &space, uint64_t *list, uint32_t count, uint64_t least) {
    enum { AT_ONCE = 8 };
    uint32_t kept = 0;
    for (uint32_t first = 0; first < count; first += AT_ONCE * SCAN_THREADS) {
        uint64_t keys[AT_ONCE];
        uint32_t mine = 0, total = 0;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            uint32_t at = first + i * SCAN_THREADS + threadIdx.x;
            keys[i] = at < count ? list[at] : 0;
            mine += keys[i] >= least;
        }
        __syncthreads();
        uint32_t to = kept + block_sum_before(space, mine);
        for (int w = 0; w < CHOOSE_WARPS; w++) total += space.totals[w];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (keys[i] >= least) list[to++] = keys[i];
        kept += total;
    }
    return kept;
}

__global__ static void __launch_bounds__(SCAN_THREADS) cut_long_kernel(const __grid_constant__ struct cut_args args) {
    __shared__ choose_space space;
    int64_t query = blockIdx.x;
    uint64_t *list = args.lists + query * args.capacity;
    uint32_t count = args.counts[query], keep = args.keep, slack = args.final ? 0 : args.slack;
    if (count <= keep + slack) return;
    auto keys = [&](const auto &visit) {
        for (uint32_t i = threadIdx.x; i < count; i += SCAN_THREADS) visit(list[i]);
    };
    uint64_t least = keys_threshold(space, keys, keep, keep + slack);
    uint32_t kept = list_compact(space, list, count, least);
    if (threadIdx.x == 0) args.counts[query] = kept, args.floors[query] = least;
}

cudaError_t launch_cut(const struct cut_args *args, cudaStream_t stream) {
    if (args->keep <= SMALL_KEEP)
        cut_kernel<<<(unsigned)args->nq, SCAN_THREADS, 0, stream>>>(*args);
    else
        cut_long_kernel<<<(unsigned)args->nq, SCAN_THREADS, 0, stream>>>(*args);
    return cudaPeekAtLastError();
}

__global__ static void unused_kernel(struct hit_slots hits, int64_t nq, bool smaller_better) {
    for (int64_t i = (int64_t)blockIdx.x * SCAN_THREADS + threadIdx.x; i < nq * hits.k;
         i += (int64_t)gridDim.x * SCAN_THREADS) {
        hits.ids[i] = -1;
        if (hits.scores) hits.scores[i] = smaller_better ? CUDART_INF_F : -CUDART_INF_F;
        if (hits.counts && i < nq) hits.counts[i] = 0;
    }
}

cudaError_t launch_unused(const struct hit_slots *hits, int64_t nq, enum vic_metric metric, cudaStream_t stream) {
    int64_t blocks = (nq * hits->k + SCAN_THREADS - 1) / SCAN_THREADS;
    unused_kernel<<<(unsigned)(blocks < 65536 ? blocks : 65536), SCAN_THREADS, 0, stream>>>(*hits, nq, metric == VIC_L2);
    return cudaPeekAtLastError();
}

cudaError_t load_cut(void) {
    const void *const kernels[] = {(const void *)cut_kernel, (const void *)cut_long_kernel, (const void *)unused_kernel};
    cudaError_t error = cudaSuccess;
    for (const void *kernel : kernels)
        if (error == cudaSuccess) error = kernel_load(kernel, 0);
    return error;
}
