/* One query against all rows in one launch: canonical scores at the speed of memory, then the best keys by whichever block
 * is done last.
 *
 * Layout: struct packed_rows; a warp reads units of 4, 8 or 16 rows (4, 2, 1 bytes an element), 16 bytes a lane, all of a chunk
 * before the first is used. Launch: two blocks of 512 threads a multiprocessor (one for the
 * narrow types, whose sums take 128 registers), unit u to warp u mod warps, so neighbouring
 * rows go to different warps. Each warp keeps the maximum of its keys, the best of each quarter of its rows, and the best score
 * among the rest.
 * The k-th largest of the maxima is a threshold that at least k rows reach, and nearly always the true k-th score or one
 * just below, since the best rows of a corpus lie in different warps. So the last block looks only into the k warps whose
 * maximum reaches it: into their four bests, and into all their scores only where the rest reaches it too (one warp in
 * twenty-five for 1,000 hits of a million rows; all of them would be a megabyte for one block to read). It keeps what reaches
 * the threshold, sorts, and writes the hits: no second launch, and no block waits for another. When ties or an unlucky order
 * put more rows above the threshold than the block can hold, it counts again within those warps, which bounds the work whatever
 * the data.
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

/* What a lane has found: its best key, and the order of its second best. */
struct lane_best {
    uint64_t key = 0;
    uint32_t second = 0;
    __device__ void add(uint64_t other, uint32_t other_second) {
        second = max(max(second, other_second), min((uint32_t)(key >> 32), (uint32_t)(other >> 32)));
        key = other > key ? other : key;
    }
    __device__ void add_lane(int mask) {
        uint64_t other = __shfl_xor_sync(~0u, key, mask);
        add(other, __shfl_xor_sync(~0u, second, mask));
    }
};

/* All rows of this warp: scores stored, and what they were at best (struct scan_args). */
template <class Sums> __device__ static void scan_warp(const struct scan_args &args, const query_view &query) {
    using R = typename Sums::R;
    const struct packed_rows &rows = args.rows;
    int lane = threadIdx.x & 31, group = lane / R::lanes, slot = lane_slot<R::dtype>(lane);
    uint32_t warp = (blockIdx.x * SCAN_THREADS + threadIdx.x) >> 5, n = (uint32_t)rows.n;
    uint32_t own = (uint32_t)slot * R::groups + (uint32_t)group;
    bool speaks = lane_speaks<R::dtype>(lane);
    uint32_t at = warp * args.shape.per_warp + own;
    lane_best best;
    for (uint32_t unit = warp; unit < args.shape.units; unit += args.shape.warps, at += R::rows) {
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
            args.orders[at] = order;
            best.add(key_of(order, number), 0);
        }
    }
    for (int mask = R::lanes; mask < 32; mask <<= 1) best.add_lane(mask);
    if (speaks && group == 0) args.bests[warp * R::slots + (uint32_t)slot] = best.key;
    uint32_t rest = __reduce_max_sync(~0u, best.second);
    uint64_t most = best.key;
    for (int mask = R::slots / 2; mask; mask >>= 1) {
        uint64_t other = __shfl_xor_sync(~0u, most, mask << R::shift);
        most = other > most ? other : most;
    }
    if (lane == 0) args.maxima[warp] = most, args.rests[warp] = rest;
}

enum { WINNERS = SMALL_KEEP + (CHOOSE_KEYS - SMALL_KEEP) / 4, MAXIMA_EACH = 12 };
struct scan_space : choose_space {
    uint32_t deep;
    uint16_t winners[WINNERS]; /* `count` from the front, `deep` from the back */
};
static_assert(sizeof(scan_space) <= 48 << 10, "more would have to be asked for at each launch");

/* The keys of at least `least` of all winners. A shallow one has them among its bests; a deep one is known to have stored more.
 * Threads side by side read a deep warp's scores side by side, each four times four before it looks at the first; more in
 * flight would take registers from the scan itself, which shares them. One block pays for all of this, so fours are rejected
 * by their largest. A warp may have a unit less than per_warp allows. */
struct winners_keys {
    enum { WINNERS_AT_ONCE = 2, FOURS_AT_ONCE = 2, BESTS_AT_ONCE = 4 };
    const struct scan_args &args;
    const scan_space &space;
    uint64_t least;
    uint32_t shallow, deep;

    __device__ uint32_t deep_warp(uint32_t at) const { return space.winners[WINNERS - 1 - at]; }
    template <class Visit> __device__ void bests(const Visit &visit) const {
        uint32_t count = shallow * SCAN_BESTS;
        for (uint32_t first = threadIdx.x; first < count; first += BESTS_AT_ONCE * SCAN_THREADS) {
            uint64_t keys[BESTS_AT_ONCE];
#pragma unroll
            for (uint32_t i = 0; i < BESTS_AT_ONCE; i++) {
                uint32_t at = first + i * SCAN_THREADS, warp = at < count ? space.winners[at / SCAN_BESTS] : 0;
                keys[i] = at < count ? __ldcg(args.bests + warp * SCAN_BESTS + at % SCAN_BESTS) : 0;
            }
#pragma unroll
            for (uint32_t i = 0; i < BESTS_AT_ONCE; i++)
                if (keys[i] >= least) visit(keys[i]);
        }
    }
    template <class Visit>
    __device__ void four_keys(uint32_t warp, uint32_t four, const uint4 &orders, const Visit &visit) const {
        uint32_t unit_rows = args.shape.unit_rows, unit = four * 4 / unit_rows * args.shape.warps + warp;
        if (unit >= args.shape.units) return;
        const uint32_t each[4] = {orders.x, orders.y, orders.z, orders.w};
#pragma unroll
        for (uint32_t r = 0; r < 4; r++) {
            uint64_t key = key_of(each[r], unit * unit_rows + four * 4 % unit_rows + r);
            if (key && key >= least) visit(key);
        }
    }
    template <class Visit> __device__ void stored(const Visit &visit) const {
        uint32_t fours = args.shape.per_warp / 4, order = max((uint32_t)(least >> 32), 1u);
        uint32_t shift = fours >= 32 ? 5 : 32 - (uint32_t)__clz((int)fours - 1), width = 1u << shift; /* threads a winner */
        uint32_t step = SCAN_THREADS >> shift, first = threadIdx.x & (width - 1);
        for (uint32_t winner = threadIdx.x >> shift; winner < deep; winner += WINNERS_AT_ONCE * step)
            for (uint32_t four = first; four < fours; four += FOURS_AT_ONCE * width) {
                uint4 orders[WINNERS_AT_ONCE][FOURS_AT_ONCE];
#pragma unroll
                for (uint32_t w = 0; w < WINNERS_AT_ONCE; w++) {
                    uint32_t at = winner + w * step, warp = at < deep ? deep_warp(at) : 0;
                    const uint4 *from = (const uint4 *)(args.orders + (int64_t)warp * args.shape.per_warp) + four;
#pragma unroll
                    for (uint32_t f = 0; f < FOURS_AT_ONCE; f++)
                        orders[w][f] =
                            at < deep && four + f * width < fours ? __ldcg(from + f * width) : make_uint4(0, 0, 0, 0);
                }
#pragma unroll
                for (uint32_t w = 0; w < WINNERS_AT_ONCE; w++)
#pragma unroll
                    for (uint32_t f = 0; f < FOURS_AT_ONCE; f++) {
                        const uint4 &o = orders[w][f];
                        if (max(max(o.x, o.y), max(o.z, o.w)) < order) continue;
                        four_keys(deep_warp(winner + w * step), four + f * width, o, visit);
                    }
            }
    }
    template <class Visit> __device__ void operator()(const Visit &visit) const {
        bests(visit);
        stored(visit);
    }
};

/* The rows of a large corpus have pushed the scores stored first out of the second cache: all of the winners' are asked for at
 * once, or each read above would wait for memory. */
__device__ static void winners_prefetch(const struct scan_args &args, const scan_space &space) {
    enum { LINE = 128, THREADS_EACH = 8 };
    uint32_t bytes = args.shape.per_warp * 4, first = threadIdx.x % THREADS_EACH * LINE;
    for (uint32_t i = threadIdx.x / THREADS_EACH; i < space.deep; i += SCAN_THREADS / THREADS_EACH) {
        const char *scores = (const char *)(args.orders + (int64_t)space.winners[WINNERS - 1 - i] * args.shape.per_warp);
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

/* The warps whose maximum reaches `least`: deep when more of their rows may than their bests. */
__device__ static void winners_find(const struct scan_args &args, scan_space &space, const maxima_keys &maxima,
                                    uint64_t least) {
    uint32_t order = max((uint32_t)(least >> 32), 1u), rests[MAXIMA_EACH];
    if (threadIdx.x == 0) space.deep = 0;
    collect_start(space);
#pragma unroll
    for (uint32_t i = 0; i < MAXIMA_EACH; i++)
        rests[i] = maxima.keys[i] >= least ? __ldcg(args.rests + i * SCAN_THREADS + threadIdx.x) : 0;
#pragma unroll
    for (uint32_t i = 0; i < MAXIMA_EACH; i++) {
        if (maxima.keys[i] < least) continue;
        uint32_t at = rests[i] >= order ? WINNERS - 1 - atomicAdd(&space.deep, 1u) : atomicAdd(&space.count, 1u);
        space.winners[at] = (uint16_t)(i * SCAN_THREADS + threadIdx.x);
    }
    __syncthreads();
}

/* What the last block does. Not inlined: it is the same for all types. */
__device__ static __noinline__ void hits_choose(const struct scan_args &args, scan_space &space) {
    uint32_t keep = args.keep, room = (CHOOSE_KEYS - keep) / 4, slack = room < keep / 4 + 32 ? room : keep / 4 + 32;
    maxima_keys maxima(args);
    uint64_t least = keys_threshold(space, maxima, keep, keep + slack);
    winners_find(args, space, maxima, least);
    winners_prefetch(args, space);
    winners_keys reaching = {args, space, least, space.count, space.deep};
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
    scan_warp<Sums>(args, query);
    if (!args.keep) return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicInc(args.done, gridDim.x - 1) == gridDim.x - 1; /* which makes it 0 again */
    __syncthreads();
    if (!last) return;
    __threadfence();
    hits_choose(args, *(scan_space *)shared);
    if (!args.word) return;
    __syncthreads();
    if (threadIdx.x != 0) return;
    /* For all threads: the hits that they wrote before the barrier come before the word. Hits on the device are read in the
     * stream's order, and nobody who sees the word reads what this kernel has written elsewhere: no fence, which would cost
     * the GPU 0.7 us. */
    if (args.mapped) __threadfence_system();
    *args.word = args.epoch;
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
    shape.units = (uint32_t)((rows->n + shape.unit_rows - 1) / shape.unit_rows);
    uint32_t wanted = (shape.units + CHOOSE_WARPS - 1) / CHOOSE_WARPS, most = (uint32_t)(multiprocessors * blocks_each);
    if (most > MAXIMA_EACH * SCAN_THREADS / CHOOSE_WARPS) most = MAXIMA_EACH * SCAN_THREADS / CHOOSE_WARPS;
    shape.blocks = wanted < 1 ? 1 : wanted < most ? wanted : most;
    shape.warps = shape.blocks * CHOOSE_WARPS;
    shape.per_warp = (shape.units + shape.warps - 1) / shape.warps * shape.unit_rows;
    return shape;
}

/* A kernel by its handle, which is found once: by its symbol, as <<<>>> does it, a launch takes the host a thirtieth longer. */
static const void *kernel_handle(const void *kernel) {
#if CUDART_VERSION >= 12010
    cudaKernel_t handle = NULL;
    if (cudaGetKernel(&handle, kernel) == cudaSuccess) return (const void *)handle;
    (void)cudaGetLastError();
#endif
    return kernel;
}

template <class Sums> static cudaError_t scan_launch(const struct scan_args *args, cudaStream_t stream) {
    static const void *const given = kernel_handle((const void *)scan_kernel<Sums>);
    static const void *const inlined = kernel_handle((const void *)scan_inline_kernel<Sums>);
    int64_t bytes = Sums::exact ? args->rows.chunks * 128 + args->rows.units * 32 : query_stride_of(&args->rows);
    if (args->prepared || bytes < (int64_t)sizeof(scan_space)) bytes = sizeof(scan_space);
    struct inline_query query;
    if (args->host_query) memcpy(query.bytes, args->host_query, (size_t)args->query_bytes);
    void *arguments[] = {(void *)args, &query};
    cudaLaunchConfig_t config = {dim3(args->shape.blocks), dim3(SCAN_THREADS), (size_t)bytes, stream, NULL, 0};
    return cudaLaunchKernelExC(&config, args->host_query ? inlined : given, arguments);
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
