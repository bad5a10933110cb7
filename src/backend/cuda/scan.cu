/* One query against all rows in one launch: canonical scores at the speed of memory, then the best keys by whichever block
 * is done last.
 *
 * Layout: struct packed_rows; a warp reads units of 4, 8 or 16 rows (4, 2, 1 bytes an element), 16 bytes a lane, all of a chunk
 * before the first is used. Launch: two blocks of 512 threads a multiprocessor (one for the
 * narrow types, whose sums take 128 registers), unit u to warp u mod warps, so neighbouring
 * rows go to different warps. Each warp keeps the maximum of its keys.
 * The k-th largest of these maxima is a threshold that at least k rows reach, and nearly always the true k-th score or one
 * just below, since the best rows of a corpus lie in different warps. So the last block looks only into the k warps whose
 * maximum reaches it, keeps what reaches it too, sorts, and writes the hits: no second launch, and no block waits for
 * another. When ties or an unlucky order put more rows above the threshold than the block can hold, it counts again within
 * those warps, which bounds the work whatever the data.
 * Bound by memory; measured shares of the roof are in docs/benchmarks.md. */
#include "backend/cuda/choose.cuh"

/* Largest magnitude of the query, as bits, in every thread. */
__device__ static uint32_t query_largest(const struct scan_args &args, const void *source, uint32_t *shared) {
    uint32_t largest = 0;
    for (int d = threadIdx.x; d < args.rows.dim; d += SCAN_THREADS)
        largest = max(largest, __float_as_uint(element_load(args.query_dtype, source, d)) & 0x7fffffffu);
    largest = __reduce_max_sync(~0u, largest);
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x >> 5] = largest;
    __syncthreads();
    for (int w = 0; w < CHOOSE_WARPS; w++) largest = max(largest, shared[w]);
    __syncthreads();
    return largest;
}

/* The query to shared memory, in the order of the rows' elements. */
template <class Sums> __device__ static void query_place(const struct scan_args &args, const void *source, void *query) {
    using R = typename Sums::R;
    int chunks = args.rows.chunks, units = args.rows.units, dim = args.rows.dim;
    if constexpr (Sums::exact) {
        for (int d = threadIdx.x; d < chunks * 128 + units * 32; d += SCAN_THREADS)
            ((uint8_t *)query)[element_place(d, chunks)] = d < dim ? ((const uint8_t *)source)[d] : 0;
    } else {
        int exponent = 0;
        if (args.rows.metric == VIC_COSINE) exponent = scale_exponent(query_largest(args, source, (uint32_t *)query));
        for (int d = threadIdx.x; d < (chunks + (units > 0)) * 128; d += SCAN_THREADS) {
            int place = chunk_place(d & 127), lane = place / R::per, four = place % R::per / 4;
            float value = d < dim ? scaled_down(element_load(args.query_dtype, source, d), exponent) : 0.0f;
            ((float *)query)[(d & ~127) + (four * R::lanes + lane) * 4 + (place & 3)] = value;
        }
    }
    __syncthreads();
}

/* The placed query with its norm and square, which each warp takes for itself: a few reads cost less than a barrier. */
template <class Sums> __device__ static query_view query_measure(const struct scan_args &args, const void *query) {
    using R = typename Sums::R;
    query_view view = {query, 4, R::lanes * 4, 0.0f, 0};
    int lane = threadIdx.x & 31, whole = args.rows.chunks + (args.rows.units > 0);
    if constexpr (Sums::exact) {
        view.square = Sums::square((const uint32_t *)query, args.rows.chunks * 32 + args.rows.units * 8, lane);
        view.norm = __fsqrt_rn(__ll2float_rn(view.square));
    } else if (args.rows.metric == VIC_COSINE) {
        int owner = lane * 4 / R::per, four = lane * 4 % R::per / 4;
        view.norm = chunks_norm((const float *)query + (four * R::lanes + owner) * 4, whole);
    }
    return view;
}

/* All rows of this warp: scores stored, the best key returned. */
template <class Sums> __device__ static uint64_t scan_warp(const struct scan_args &args, const query_view &query) {
    using R = typename Sums::R;
    const struct packed_rows &rows = args.rows;
    int lane = threadIdx.x & 31, group = lane / R::lanes, slot = lane_slot<R::dtype>(lane);
    uint32_t warp = (blockIdx.x * SCAN_THREADS + threadIdx.x) >> 5, n = (uint32_t)rows.n;
    uint32_t units = (n + R::rows - 1) / R::rows, own = (uint32_t)slot * R::groups + (uint32_t)group;
    bool speaks = lane_speaks<R::dtype>(lane);
    uint32_t *orders = args.orders + (int64_t)warp * args.shape.per_warp + own;
    uint64_t best = 0;
    for (uint32_t unit = warp; unit < units; unit += args.shape.warps, orders += R::rows) {
        const unsigned char *first = (const unsigned char *)rows.data + ((int64_t)unit * R::rows + group) * rows.stride_bytes;
        const unsigned char *row[R::slots];
#pragma unroll
        for (int r = 0; r < R::slots; r++) row[r] = first + r * R::groups * rows.stride_bytes;
        uint32_t number = unit * R::rows + own;
        bool wanted = speaks && number < n;
        float norm = wanted && rows.norms ? __ldg(rows.norms + number) : 1.0f;
        float sum = rows_total<Sums>(row, rows, query, lane);
        if (speaks) {
            float score = score_finish(sum, rows.metric, norm, query.norm);
            uint32_t order = wanted && filter_passes(args.filter, number) ? order_of(score, rows.metric == VIC_L2) : 0;
            *orders = order;
            uint64_t key = key_of(order, number);
            best = key > best ? key : best;
        }
    }
    for (int mask = 16; mask; mask >>= 1) {
        uint64_t other = __shfl_xor_sync(~0u, best, mask);
        best = other > best ? other : best;
    }
    return best;
}

enum { WINNERS = SMALL_KEEP + (CHOOSE_KEYS - SMALL_KEEP) / 4, MAXIMA_EACH = 12 };
struct scan_space : choose_space {
    uint16_t winners[WINNERS];
};
static_assert(sizeof(scan_space) <= 48 << 10, "more would have to be asked for at each launch");

/* The keys that the warps in space.winners have stored, four at a time; a warp may have a unit less than per_warp allows. */
struct winners_keys {
    const struct scan_args &args;
    const scan_space &space;
    uint32_t count, units;
    template <class Visit> __device__ void operator()(const Visit &visit) const {
        uint32_t fours = args.shape.per_warp / 4, unit_rows = args.shape.unit_rows;
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < count * fours; i += SCAN_THREADS) {
            uint32_t warp = space.winners[i / fours], at = i % fours * 4, unit = at / unit_rows * args.shape.warps + warp;
            if (unit >= units) continue;
            uint4 orders = __ldcg((const uint4 *)(args.orders + (int64_t)warp * args.shape.per_warp + at));
            uint32_t row = unit * unit_rows + at % unit_rows;
            visit(key_of(orders.x, row));
            visit(key_of(orders.y, row + 1));
            visit(key_of(orders.z, row + 2));
            visit(key_of(orders.w, row + 3));
        }
    }
};

/* The warps' maxima, this thread's share of them in registers: they are looked at several times. */
struct maxima_keys {
    uint64_t keys[MAXIMA_EACH];
    __device__ explicit maxima_keys(const struct scan_args &args) {
#pragma unroll
        for (uint32_t i = 0; i < MAXIMA_EACH; i++) {
            uint32_t warp = i * SCAN_THREADS + threadIdx.x;
            keys[i] = warp < args.shape.warps ? __ldcg(args.maxima + warp) : 0;
        }
    }
    template <class Visit> __device__ void operator()(const Visit &visit) const {
#pragma unroll
        for (uint32_t i = 0; i < MAXIMA_EACH; i++) visit(keys[i]);
    }
};

/* What the last block does. Not inlined: it is the same for all types. */
__device__ static __noinline__ void hits_choose(const struct scan_args &args, scan_space &space) {
    uint32_t keep = args.keep, unit_rows = args.shape.unit_rows;
    uint32_t room = (CHOOSE_KEYS - keep) / 4, slack = room < keep / 4 + 32 ? room : keep / 4 + 32;
    maxima_keys maxima(args);
    uint64_t least = keys_threshold(space, maxima, keep, keep + slack);
    collect_start(space);
#pragma unroll
    for (uint32_t i = 0; i < MAXIMA_EACH; i++)
        if (maxima.keys[i] >= least) space.winners[atomicAdd(&space.count, 1u)] = (uint16_t)(i * SCAN_THREADS + threadIdx.x);
    __syncthreads();
    winners_keys winners = {args, space, space.count, (uint32_t)((args.rows.n + unit_rows - 1) / unit_rows)};
    auto reaching = [&](const auto &visit) { winners([&](uint64_t key) { visit(key >= least ? key : 0); }); };
    auto keep_from = [&](uint64_t bound) {
        __syncthreads();
        collect_start(space);
        reaching([&](uint64_t key) {
            if (key && key >= bound) collect(space, key);
        });
        __syncthreads();
    };
    keep_from(least);
    if (space.count > CHOOSE_KEYS) keep_from(keys_threshold(space, reaching, keep, CHOOSE_KEYS));
    collect_write(space, keep, args.hits, args.rows, 0);
}

template <class Sums>
__global__ void __launch_bounds__(SCAN_THREADS, Sums::R::blocks) scan_kernel(const __grid_constant__ struct scan_args args) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ bool last;
    using R = typename Sums::R;
    query_view query = {args.prepared, R::per, 4, 0.0f, 0};
    if (args.prepared) {
        if (Sums::exact || args.rows.metric == VIC_COSINE) query.norm = *args.prepared_norm;
        if (Sums::exact) query.square = *args.prepared_square;
    } else {
        query_place<Sums>(args, args.query ? args.query : args.inline_query, shared);
        query = query_measure<Sums>(args, shared);
    }
    uint64_t best = scan_warp<Sums>(args, query);
    if ((threadIdx.x & 31) == 0) args.maxima[(blockIdx.x * SCAN_THREADS + threadIdx.x) >> 5] = best;
    if (!args.keep) return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(args.done, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    hits_choose(args, *(scan_space *)shared);
    if (args.flag) __threadfence_system();
    __syncthreads();
    if (threadIdx.x != 0) return;
    *args.done = 0;
    if (args.flag) *args.flag = args.epoch;
}

struct scan_shape scan_shape_of(const struct packed_rows *rows, int32_t multiprocessors) {
    struct scan_shape shape;
    bool wide = rows->dtype == VIC_F32, half = rows->dtype == VIC_F16 || rows->dtype == VIC_BF16;
    shape.unit_rows = wide ? reading<VIC_F32>::rows : half ? reading<VIC_F16>::rows : reading<VIC_U8>::rows;
    int blocks_each = wide ? reading<VIC_F32>::blocks : reading<VIC_F16>::blocks;
    uint32_t units = (uint32_t)((rows->n + shape.unit_rows - 1) / shape.unit_rows);
    uint32_t wanted = (units + CHOOSE_WARPS - 1) / CHOOSE_WARPS, most = (uint32_t)(multiprocessors * blocks_each);
    if (most > MAXIMA_EACH * SCAN_THREADS / CHOOSE_WARPS) most = MAXIMA_EACH * SCAN_THREADS / CHOOSE_WARPS;
    shape.blocks = wanted < 1 ? 1 : wanted < most ? wanted : most;
    shape.warps = shape.blocks * CHOOSE_WARPS;
    shape.per_warp = (units + shape.warps - 1) / shape.warps * shape.unit_rows;
    return shape;
}

template <class Sums> static cudaError_t scan_launch(const struct scan_args *args, cudaStream_t stream) {
    int64_t bytes = Sums::exact ? args->rows.chunks * 128 + args->rows.units * 32 : query_stride_of(&args->rows);
    if (args->prepared || bytes < (int64_t)sizeof(scan_space)) bytes = sizeof(scan_space);
    scan_kernel<Sums><<<args->shape.blocks, SCAN_THREADS, (size_t)bytes, stream>>>(*args);
    return cudaPeekAtLastError();
}

/* What runs for a type of rows and of queries. */
struct scan_entry {
    cudaError_t (*launch)(const struct scan_args *args, cudaStream_t stream);
    const void *kernel;
};
template <class Sums> static scan_entry scan_entry_of() { return {scan_launch<Sums>, (const void *)scan_kernel<Sums>}; }
template <bool L2> static scan_entry scan_find(enum vic_dtype rows, enum vic_dtype query) {
    switch (rows) {
    case VIC_F16: return scan_entry_of<float_sums<VIC_F16, L2>>();
    case VIC_BF16: return scan_entry_of<float_sums<VIC_BF16, L2>>();
    case VIC_I8: return query == rows ? scan_entry_of<exact_sums<VIC_I8, L2>>() : scan_entry_of<float_sums<VIC_I8, L2>>();
    case VIC_U8: return query == rows ? scan_entry_of<exact_sums<VIC_U8, L2>>() : scan_entry_of<float_sums<VIC_U8, L2>>();
    default: return scan_entry_of<float_sums<VIC_F32, L2>>();
    }
}
static scan_entry scan_pick(const struct packed_rows *rows, enum vic_dtype query) {
    return rows->metric == VIC_L2 ? scan_find<true>(rows->dtype, query) : scan_find<false>(rows->dtype, query);
}

cudaError_t launch_scan(const struct scan_args *args, cudaStream_t stream) {
    return scan_pick(&args->rows, args->query_dtype).launch(args, stream);
}

cudaError_t load_scan(const struct packed_rows *rows, int shared_most) {
    cudaError_t error = kernel_load(scan_pick(rows, VIC_F32).kernel, shared_most);
    return error == cudaSuccess ? kernel_load(scan_pick(rows, rows->dtype).kernel, shared_most) : error;
}
