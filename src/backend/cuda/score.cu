/* Canonical scores of given rows: re-ranking a list of candidates.
 *
 * Launch: a warp takes as many of a query's rows as a scan's unit has (4, 8 or 16), wherever they lie; each lane group
 * follows its own row pointer. Bound by memory latency; rows of 1.5 KB and more reach the bandwidth of plain reads. */
#include "backend/cuda/common.cuh"

enum { SCORE_THREADS = 256 };

template <class Sums> __global__ void __launch_bounds__(SCORE_THREADS) score_kernel(struct score_args args) {
    using R = typename Sums::R;
    int lane = threadIdx.x & 31, group = lane / R::lanes;
    int64_t units = (args.count + R::rows - 1) / R::rows, unit = ((int64_t)blockIdx.x * SCORE_THREADS + threadIdx.x) >> 5;
    if (unit >= units * args.nq) return;
    int64_t query = unit / units, first = unit % units * R::rows;
    const uint32_t *wanted = args.wanted + query * args.count;
    const unsigned char *row[R::slots];
#pragma unroll
    for (int r = 0; r < R::slots; r++) {
        int64_t at = first + r * R::groups + group;
        uint32_t number = at < args.count ? wanted[at] : UINT32_MAX;
        row[r] = (const unsigned char *)args.rows.data + (number == UINT32_MAX ? 0 : number) * args.rows.stride_bytes;
    }
    query_view view = {(const char *)args.queries + query * args.query_stride, R::per, 4, 0.0f, 0};
    if (args.rows.metric == VIC_COSINE) view.norm = args.query_norms[query];
    if constexpr (Sums::exact) {
        int words = args.rows.chunks * 32 + args.rows.units * 8;
        view.square = Sums::square((const uint32_t *)view.data, words, lane);
    }
    float sum = rows_total<Sums>(row, args.rows, view, lane);
    int64_t at = first + lane_slot<R::dtype>(lane) * R::groups + group;
    if (!lane_speaks<R::dtype>(lane) || at >= args.count) return;
    uint32_t number = wanted[at];
    bool smaller_better = args.rows.metric == VIC_L2;
    float worst = smaller_better ? CUDART_INF_F : -CUDART_INF_F;
    float norm = number != UINT32_MAX && args.rows.norms ? args.rows.norms[number] : 1.0f;
    float score = score_finish(sum, args.rows.metric, norm, view.norm);
    args.scores[query * args.count + at] = number == UINT32_MAX ? worst : score;
}

template <class Sums> static cudaError_t score_launch(const struct score_args *args, cudaStream_t stream) {
    int64_t warps = (args->count + Sums::R::rows - 1) / Sums::R::rows * args->nq, each = SCORE_THREADS / 32;
    score_kernel<Sums><<<(unsigned)((warps + each - 1) / each), SCORE_THREADS, 0, stream>>>(*args);
    return cudaPeekAtLastError();
}

struct score_entry {
    cudaError_t (*launch)(const struct score_args *args, cudaStream_t stream);
    const void *kernel;
};
template <class Sums> static score_entry score_entry_of() { return {score_launch<Sums>, (const void *)score_kernel<Sums>}; }
template <bool L2> static score_entry score_find(enum vic_dtype rows, enum vic_dtype query) {
    switch (rows) {
    case VIC_F16: return score_entry_of<float_sums<VIC_F16, L2>>();
    case VIC_BF16: return score_entry_of<float_sums<VIC_BF16, L2>>();
    case VIC_I8: return query == rows ? score_entry_of<exact_sums<VIC_I8, L2>>() : score_entry_of<float_sums<VIC_I8, L2>>();
    case VIC_U8: return query == rows ? score_entry_of<exact_sums<VIC_U8, L2>>() : score_entry_of<float_sums<VIC_U8, L2>>();
    default: return score_entry_of<float_sums<VIC_F32, L2>>();
    }
}
static score_entry score_pick(const struct packed_rows *rows, enum vic_dtype query) {
    return rows->metric == VIC_L2 ? score_find<true>(rows->dtype, query) : score_find<false>(rows->dtype, query);
}

cudaError_t launch_score(const struct score_args *args, cudaStream_t stream) {
    return score_pick(&args->rows, args->query_dtype).launch(args, stream);
}

cudaError_t load_score(const struct packed_rows *rows) {
    cudaError_t error = kernel_load(score_pick(rows, VIC_F32).kernel, 0);
    return error == cudaSuccess ? kernel_load(score_pick(rows, rows->dtype).kernel, 0) : error;
}
