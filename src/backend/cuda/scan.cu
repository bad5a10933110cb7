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

/* The keys of at least `least` that the warps in space.winners have stored. Threads side by side read a warp's scores side by
 * side, each four times four before it looks at the first; more in flight would take registers from the scan itself, which
 * shares them. One block pays for all of this, so fours are rejected by their largest. A warp may have a unit less than
 * per_warp allows. */
struct winners_keys {
    enum { WINNERS_AT_ONCE = 2, FOURS_AT_ONCE = 2 };
    const struct scan_args &args;
    const scan_space &space;
    uint64_t least;
    uint32_t count, units;

    template <class Visit>
    __device__ void four_keys(uint32_t warp, uint32_t four, const uint4 &orders, const Visit &visit) const {
        uint32_t unit_rows = args.shape.unit_rows, unit = four * 4 / unit_rows * args.shape.warps + warp;
        if (unit >= units) return;
        const uint32_t each[4] = {orders.x, orders.y, orders.z, orders.w};
#pragma unroll
        for (uint32_t r = 0; r < 4; r++) {
            uint64_t key = key_of(each[r], unit * unit_rows + four * 4 % unit_rows + r);
            if (key && key >= least) visit(key);
        }
    }
    template <class Visit> __device__ void operator()(const Visit &visit) const {
        uint32_t fours = args.shape.per_warp / 4, order = max((uint32_t)(least >> 32), 1u);
        uint32_t shift = fours >= 32 ? 5 : 32 - (uint32_t)__clz((int)fours - 1), width = 1u << shift; /* threads a winner */
        uint32_t step = SCAN_THREADS >> shift, first = threadIdx.x & (width - 1);
        for (uint32_t winner = threadIdx.x >> shift; winner < count; winner += WINNERS_AT_ONCE * step)
            for (uint32_t four = first; four < fours; four += FOURS_AT_ONCE * width) {
                uint4 orders[WINNERS_AT_ONCE][FOURS_AT_ONCE];
#pragma unroll
                for (uint32_t w = 0; w < WINNERS_AT_ONCE; w++) {
                    uint32_t at = winner + w * step, warp = at < count ? space.winners[at] : 0;
                    const uint4 *from = (const uint4 *)(args.orders + (int64_t)warp * args.shape.per_warp) + four;
#pragma unroll
                    for (uint32_t f = 0; f < FOURS_AT_ONCE; f++)
                        orders[w][f] =
                            at < count && four + f * width < fours ? __ldcg(from + f * width) : make_uint4(0, 0, 0, 0);
                }
#pragma unroll
                for (uint32_t w = 0; w < WINNERS_AT_ONCE; w++)
#pragma unroll
                    for (uint32_t f = 0; f < FOURS_AT_ONCE; f++) {
                        const uint4 &o = orders[w][f];
                        if (max(max(o.x, o.y), max(o.z, o.w)) < order) continue;
                        four_keys(space.winners[winner + w * step], four + f * width, o, visit);
                    }
            }
    }
};

/* The rows of a large corpus have pushed the scores stored first out of the second cache: all of the winners' are asked for at
 * once, or each read below would wait for memory. */
__device__ static void winners_prefetch(const struct scan_args &args, const scan_space &space) {
    enum { LINE = 128, THREADS_EACH = 8 };
    uint32_t bytes = args.shape.per_warp * 4, first = threadIdx.x % THREADS_EACH * LINE;
    for (uint32_t i = threadIdx.x / THREADS_EACH; i < space.count; i += SCAN_THREADS / THREADS_EACH) {
        const char *scores = (const char *)(args.orders + (int64_t)space.winners[i] * args.shape.per_warp);
        for (uint32_t at = first; at < bytes; at += LINE * THREADS_EACH)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(scores + at));
    }
}

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
    winners_prefetch(args, space);
    winners_keys reaching = {args, space, least, space.count, (uint32_t)((args.rows.n + unit_rows - 1) / unit_rows)};
    auto keep_from = [&](uint64_t bound) {
        __syncthreads();
        collect_start(space);
        reaching([&](uint64_t key) {
            if (key >= bound) collect(space, key);
        });
        __syncthreads();
    };
    keep_from(least);
    if (space.count > CHOOSE_KEYS) keep_from(keys_threshold(space, reaching, keep, CHOOSE_KEYS));
    collect_write(space, keep, args.hits, args.rows, 0);
}

template <class Sums> __device__ static void scan_run(const struct scan_args &args, const void *source) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ bool last;
    using R = typename Sums::R;
    query_view query = {args.prepared, R::per, 4, 0.0f, 0};
    if (args.prepared) {
        if (Sums::exact || args.rows.metric == VIC_COSINE) query.norm = *args.prepared_norm;
        if (Sums::exact) query.square = *args.prepared_square;
    } else {
        query_place<Sums>(args, source, shared);
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

template <class Sums>
__global__ void __launch_bounds__(SCAN_THREADS, Sums::R::blocks) scan_kernel(const __grid_constant__ struct scan_args args) {
    scan_run<Sums>(args, args.query);
}

/* A query that travels with the launch: one transfer less, but a launch with 4 KB of arguments costs the host a microsecond
 * more than one with few, so a query on the device has the kernel above. */
struct inline_query {
    unsigned char bytes[INLINE_QUERY_BYTES];
};
template <class Sums>
__global__ void __launch_bounds__(SCAN_THREADS, Sums::R::blocks)
    scan_inline_kernel(const __grid_constant__ struct scan_args args, const __grid_constant__ struct inline_query query) {
    scan_run<Sums>(args, query.bytes);
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
    if (args->host_query) {
        struct inline_query query;
        memcpy(query.bytes, args->host_query, (size_t)args->query_bytes);
        scan_inline_kernel<Sums><<<args->shape.blocks, SCAN_THREADS, (size_t)bytes, stream>>>(*args, query);
    } else {
        scan_kernel<Sums><<<args->shape.blocks, SCAN_THREADS, (size_t)bytes, stream>>>(*args);
    }
    return cudaPeekAtLastError();
}

/* What runs for a type of rows and of queries. */
struct scan_entry {
    cudaError_t (*launch)(const struct scan_args *args, cudaStream_t stream);
    const void *kernels[2];
};
template <class Sums> static scan_entry scan_entry_of() {
    return {scan_launch<Sums>, {(const void *)scan_kernel<Sums>, (const void *)scan_inline_kernel<Sums>}};
}
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
    cudaError_t error = cudaSuccess;
    for (enum vic_dtype query : {VIC_F32, rows->dtype})
        for (const void *kernel : scan_pick(rows, query).kernels)
            if (error == cudaSuccess) error = kernel_load(kernel, shared_most);
    return error;
}
