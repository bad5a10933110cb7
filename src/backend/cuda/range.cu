/* Short lists of keys, sorted and written as hits, each where its query's hits begin: what a threshold search found.
 *
 * Launch: a block a query, which sorts in its shared memory as the last block of a scan does. Hits go to mapped host memory; a
 * thread writes its neighbour's neighbour, so lines cross the bus whole. Bound by that bus for lists of hundreds and more. */
#include "backend/cuda/choose.cuh"

static_assert((int)RANGE_KEYS == (int)CHOOSE_KEYS, "a list is what a block sorts");

__global__ static void __launch_bounds__(SCAN_THREADS) range_kernel(const __grid_constant__ struct range_args args) {
    __shared__ choose_space space;
    int64_t query = args.first + blockIdx.x;
    uint32_t place = args.places[query], count = args.counts[query];
    if (place == RANGE_NONE || count > RANGE_KEYS) return;
    const uint64_t *list = args.lists + query * args.capacity;
    for (uint32_t i = threadIdx.x; i < count; i += SCAN_THREADS) space.keys[i] = list[i];
    if (threadIdx.x == 0) space.count = count;
    /* Slots of no length: nothing is written behind the hits there are. */
    struct hit_slots slots = {args.ids + place, args.scores + place, NULL, 0};
    collect_write(space, count, slots, args.rows, 0);
}

cudaError_t launch_range(const struct range_args *args, cudaStream_t stream) {
    range_kernel<<<(unsigned)args->nq, SCAN_THREADS, 0, stream>>>(*args);
    return cudaPeekAtLastError();
}

cudaError_t load_range(void) { return kernel_load((const void *)range_kernel, 0); }
