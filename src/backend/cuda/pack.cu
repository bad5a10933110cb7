/* Rows to their form on the device, and a batch's queries to theirs.
 *
 * Rows: one warp a row, elements copied as they are to their places (common.cuh), zeroes behind the last. A float32 row
 * whose norm is negative is multiplied by the power of two that its norm was taken with, so that no search needs to know;
 * bfloat16 corpora that hold such a row are widened to float32, because a narrow format could round what the multiplication
 * leaves. Bound by the link that the rows come over: this kernel moves a gigabyte in half a millisecond.
 * Queries: one block each; float32 in whole chunks, with its norm, scaled where cosine asks for it; or the form of a row. The
 * same launch empties their lists: two launches less for each batch. */
#include "backend/cuda/common.cuh"

enum { PACK_THREADS = 256, QUERY_THREADS = 128 };

template <typename Element> __device__ static void row_copy(const struct pack_args &args, int64_t row, int lane) {
    const struct packed_rows &to = args.target;
    const Element *source = (const Element *)args.source + row * to.dim;
    Element *target = (Element *)((char *)to.data + (args.first + row) * to.stride_bytes);
    for (int d = lane; d < to.chunks * 128 + to.units * 32; d += 32)
        target[element_place(d, to.chunks)] = d < to.dim ? source[d] : (Element)0;
}

/* float32 rows of a cosine corpus, from float32 or bfloat16. */
__device__ static void row_scale(const struct pack_args &args, int64_t row, int lane, float norm) {
    const struct packed_rows &to = args.target;
    const char *source = (const char *)args.source + row * to.dim * (args.source_dtype == VIC_F32 ? 4 : 2);
    float *target = (float *)((char *)to.data + (args.first + row) * to.stride_bytes);
    uint32_t largest = 0;
    if (norm < 0.0f)
        for (int d = lane; d < to.dim; d += 32)
            largest = max(largest, __float_as_uint(element_load(args.source_dtype, source, d)) & 0x7fffffffu);
    int exponent = scale_exponent(__reduce_max_sync(~0u, largest));
    for (int d = lane; d < to.chunks * 128 + to.units * 32; d += 32)
        target[element_place(d, to.chunks)] =
            d < to.dim ? scaled_down(element_load(args.source_dtype, source, d), exponent) : 0.0f;
}

__global__ static void __launch_bounds__(PACK_THREADS) pack_kernel(struct pack_args args) {
    int lane = threadIdx.x & 31;
    int64_t warps = (int64_t)gridDim.x * (PACK_THREADS / 32);
    for (int64_t row = ((int64_t)blockIdx.x * PACK_THREADS + threadIdx.x) >> 5; row < args.count; row += warps) {
        float norm = args.norms ? args.norms[args.first + row] : 0.0f;
        if (args.target.dtype == VIC_F32)
            row_scale(args, row, lane, norm);
        else if (args.target.dtype == VIC_F16 || args.target.dtype == VIC_BF16)
            row_copy<uint16_t>(args, row, lane);
        else
            row_copy<uint8_t>(args, row, lane);
        __syncwarp();
        if (lane == 0 && norm < 0.0f) args.norms[args.first + row] = -norm;
    }
}

cudaError_t launch_pack(const struct pack_args *args, cudaStream_t stream) {
    int64_t blocks = (args->count + PACK_THREADS / 32 - 1) / (PACK_THREADS / 32);
    pack_kernel<<<(unsigned)(blocks < 65536 ? blocks : 65536), PACK_THREADS, 0, stream>>>(*args);
    return cudaPeekAtLastError();
}

/* ---- queries */

__device__ static void query_pack_exact(const struct queries_args &args, const uint8_t *source, uint8_t *target,
                                        int64_t query) {
    for (int d = threadIdx.x; d < args.chunks * 128 + args.units * 32; d += QUERY_THREADS)
        target[element_place(d, args.chunks)] = d < args.dim ? source[d] : 0;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    const uint32_t *words = (const uint32_t *)target;
    int count = args.chunks * 32 + args.units * 8;
    int64_t square = args.dtype == VIC_I8 ? exact_sums<VIC_I8, false>::square(words, count, threadIdx.x)
                                          : exact_sums<VIC_U8, false>::square(words, count, threadIdx.x);
    if (threadIdx.x == 0) args.squares[query] = square, args.norms[query] = __fsqrt_rn(__ll2float_rn(square));
}

__device__ static int query_exponent(const struct queries_args &args, const void *source) {
    __shared__ uint32_t shared[QUERY_THREADS / 32];
    uint32_t largest = 0;
    for (int d = threadIdx.x; d < args.dim; d += QUERY_THREADS)
        largest = max(largest, __float_as_uint(element_load(args.dtype, source, d)) & 0x7fffffffu);
    largest = __reduce_max_sync(~0u, largest);
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = largest;
    __syncthreads();
    for (int w = 0; w < QUERY_THREADS / 32; w++) largest = max(largest, shared[w]);
    return scale_exponent(largest);
}

__global__ static void __launch_bounds__(QUERY_THREADS) queries_kernel(struct queries_args args) {
    int64_t query = blockIdx.x;
    if (args.floors && threadIdx.x == 0) args.floors[query] = 0, args.counts[query] = 0;
    const void *source = (const char *)args.source + query * args.stride_bytes;
    char *target = (char *)args.prepared + query * args.query_stride;
    if (args.dtype == args.rows_dtype && (args.dtype == VIC_I8 || args.dtype == VIC_U8))
        return query_pack_exact(args, (const uint8_t *)source, (uint8_t *)target, query);
    bool cosine = args.metric == VIC_COSINE;
    int exponent = cosine ? query_exponent(args, source) : 0, whole = args.chunks + (args.units > 0);
    for (int d = threadIdx.x; d < whole * 128; d += QUERY_THREADS)
        ((float *)target)[(d & ~127) + chunk_place(d & 127)] =
            d < args.dim ? scaled_down(element_load(args.dtype, source, d), exponent) : 0.0f;
    __syncthreads();
    if (!cosine || threadIdx.x >= 32) return;
    float norm = chunks_norm((const float *)target + threadIdx.x * 4, whole);
    if (threadIdx.x == 0) args.norms[query] = norm;
}

cudaError_t launch_queries(const struct queries_args *args, cudaStream_t stream) {
    queries_kernel<<<(unsigned)args->count, QUERY_THREADS, 0, stream>>>(*args);
    return cudaPeekAtLastError();
}

cudaError_t load_queries(void) { return kernel_load((const void *)queries_kernel, 0); }
