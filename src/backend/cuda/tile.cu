/* Many queries against a run of rows, the rows read once: tiles of canonical sums, and every key that can still matter
 * appended to its query's list.
 *
 * Stages of a tile's sectors come to shared memory (tile_stage.cuh). Each of a block's four warps has a (b1, b0) of its own, so
 * it reads 16 bytes of a sector's 64: four places, summed at once. A lane holds 8 rows x 4 queries: 128 running sums, folded
 * to 32 when all chunks of the sector are in, and a stack of partial sums, of which the upper two levels lie in shared memory.
 * So the tree is the contract's: b6 and b5 within a sector, b4 b3 b2 between sectors, b1 b0 between the four warps. Integers
 * with queries of their own type are words of four, multiplied by dp4a. When the chunks of a sector do not fit a stage they
 * come in blocks.
 * Shape: 4 warps, 32 x 32 pairs, or 64 x 16 for up to 16 queries; two blocks a multiprocessor take tile after tile, and one
 * multiplies while the other waits for a stage or writes keys.
 * Bound by issue: H200, 2026-11-30, 1,048,576 x 1,024: 38 % of the float32 peak, 62 % of the issue slots used, 61 % of them by
 * products. A third of the products need three registers of which two lie in one bank (the compiler's choice), and a
 * scheduler has two warps, as many as 255 registers allow. Tried and slower: one block of eight warps (4 %); copies made by
 * all threads (15 %); four lanes of a warp sharing a pair with two places each (28 %: twice the reads of shared memory). */
#include "backend/cuda/tile_stage.cuh"

enum { TILE_BLOCKS = 2, LANE_ROWS = 8, LANE_QUERIES = 4, LANE_PAIRS = LANE_ROWS * LANE_QUERIES };
/* The block's warps, one for each (b1, b0), and the pairs whose scores a lane has at the end. */
enum { OWNERS = TILE_THREADS / 32, OWN_PAIRS = LANE_PAIRS / OWNERS, OWN_ROWS = LANE_ROWS / OWNERS };
static_assert(OWNERS == 4, "a warp for each (b1, b0)");
/* A lane's rows (and queries) are four apart; its neighbours have those between. */
enum { APART = 4 };
/* The stack's two levels, or the sums that the warps exchange at a tile's end; and room for counting keys. */
enum { STACK_BYTES = 2 * LANE_PAIRS * TILE_THREADS * 4, FOUND = 2 * 32 };

/* ---- sums of a lane's pairs */

template <bool L2> __device__ inline float product(float x, float q) {
    float difference = __fsub_rn(x, q);
    return L2 ? __fmul_rn(difference, difference) : __fmul_rn(x, q);
}

template <class Act> __device__ inline void each_pair(const Act &act) {
#pragma unroll
    for (int p = 0; p < LANE_PAIRS; p++) act(p);
}

/* Four places of a sector at a time; the partial sums of sectors on a stack, whose upper two levels lie in shared memory, a
 * column a thread: they are touched every other and every fourth sector. */
template <bool L2> struct canonical_tile {
    using value = float;
    float running[4][LANE_PAIRS], pairs[LANE_PAIRS];
    float *fours, *eights;

    __device__ explicit canonical_tile(void *stack)
        : fours((float *)stack + threadIdx.x), eights((float *)stack + LANE_PAIRS * TILE_THREADS + threadIdx.x) {}
    __device__ void start() {}
    /* A row's four places against those of four queries. BEGIN: the first chunk. Its products are not added to zeroes; only
     * the sign of a zero could tell, and the last addition clears that. */
    template <bool BEGIN> __device__ void add(int row, const float4 &x, const float4 (&q)[LANE_QUERIES]) {
#pragma unroll
        for (int i = 0; i < LANE_QUERIES; i++) {
            int p = row * LANE_QUERIES + i;
            running[0][p] = BEGIN ? product<L2>(x.x, q[i].x) : accumulate<L2>(x.x, q[i].x, running[0][p]);
            running[1][p] = BEGIN ? product<L2>(x.y, q[i].y) : accumulate<L2>(x.y, q[i].y, running[1][p]);
            running[2][p] = BEGIN ? product<L2>(x.z, q[i].z) : accumulate<L2>(x.z, q[i].z, running[2][p]);
            running[3][p] = BEGIN ? product<L2>(x.w, q[i].w) : accumulate<L2>(x.w, q[i].w, running[3][p]);
        }
    }
    __device__ void add_queries(const float4 (&)[LANE_QUERIES]) {}
    __device__ float sector_sum(int p) const {
        return __fadd_rn(__fadd_rn(running[0][p], running[1][p]), __fadd_rn(running[2][p], running[3][p]));
    }
    __device__ float pair_sum(int p) const { return __fadd_rn(pairs[p], sector_sum(p)); }
    __device__ float four_sum(int p) const { return __fadd_rn(fours[p * TILE_THREADS], pair_sum(p)); }
    /* All chunks of a sector are in: fold it into the tree. The branches are the same for the whole block. */
    __device__ void fold(int sector) {
        if ((sector & 1) == 0)
            each_pair([&](int p) { pairs[p] = sector_sum(p); });
        else if ((sector & 2) == 0)
            each_pair([&](int p) { fours[p * TILE_THREADS] = pair_sum(p); });
        else if ((sector & 4) == 0)
            each_pair([&](int p) { eights[p * TILE_THREADS] = four_sum(p); });
        else
            each_pair([&](int p) { pairs[p] = __fadd_rn(eights[p * TILE_THREADS], four_sum(p)); });
    }
    __device__ float part(int p) const { return pairs[p]; }
    static __device__ float total(float a, float b, float c, float d) {
        return __fadd_rn(__fadd_rn(__fadd_rn(a, c), __fadd_rn(b, d)), 0.0f);
    }
};

/* Integers: words of four elements, any order. l2 needs the squares of rows and queries too. */
template <int DTYPE, bool L2> struct exact_tile {
    using value = int64_t;
    int dots[LANE_PAIRS], row_squares[LANE_ROWS], query_squares[LANE_QUERIES];

    __device__ explicit exact_tile(void *) {}
    __device__ void start() {
        each_pair([&](int p) { dots[p] = 0; });
#pragma unroll
        for (int i = 0; i < LANE_ROWS; i++) row_squares[i] = 0;
#pragma unroll
        for (int i = 0; i < LANE_QUERIES; i++) query_squares[i] = 0;
    }
    __device__ static int dot4(float a, float b, int sum) {
        return exact_sums<DTYPE, L2>::dot4(__float_as_uint(a), __float_as_uint(b), sum);
    }
    __device__ static int dot16(const float4 &a, const float4 &b, int sum) {
        return dot4(a.w, b.w, dot4(a.z, b.z, dot4(a.y, b.y, dot4(a.x, b.x, sum))));
    }
    template <bool BEGIN> __device__ void add(int row, const float4 &x, const float4 (&q)[LANE_QUERIES]) {
#pragma unroll
        for (int i = 0; i < LANE_QUERIES; i++) {
            int p = row * LANE_QUERIES + i;
            dots[p] = dot16(x, q[i], dots[p]);
        }
        if (L2) row_squares[row] = dot16(x, x, row_squares[row]);
    }
    __device__ void add_queries(const float4 (&q)[LANE_QUERIES]) {
#pragma unroll
        for (int i = 0; i < LANE_QUERIES && L2; i++) query_squares[i] = dot16(q[i], q[i], query_squares[i]);
    }
    __device__ void fold(int) {}
    __device__ int64_t part(int p) const {
        int64_t dot = dots[p];
        return L2 ? (int64_t)row_squares[p / LANE_QUERIES] + query_squares[p % LANE_QUERIES] - 2 * dot : dot;
    }
    static __device__ float total(int64_t a, int64_t b, int64_t c, int64_t d) { return __ll2float_rn(a + b + c + d); }
};

/* The chunks of a sector that a stage holds. The next rows and queries are read while these are multiplied. A lane's odd rows
 * and queries have their quarter `flip` floats from where the even ones have it (swizzled). */
template <class Tile> struct sector_adder {
    Tile &tile;
    const float *rows, *queries;
    int flip, row_step, query_step;
    float4 x[2];

    __device__ float4 four(const float *at, int i) const {
        return *(const float4 *)(at + i * APART * SECTOR + (i & 1 ? flip : 0));
    }
    __device__ void load_queries(float4 (&q)[LANE_QUERIES]) const {
#pragma unroll
        for (int i = 0; i < LANE_QUERIES; i++) q[i] = four(queries, i);
    }
    /* One chunk; `more`: another follows, whose first rows and queries are read on the way. */
    template <bool BEGIN> __device__ void chunk(const float4 (&q)[LANE_QUERIES], float4 (&next)[LANE_QUERIES], bool more) {
        const float *rows_now = rows;
        if (more) rows += row_step, queries += query_step;
#pragma unroll
        for (int i = 0; i < LANE_ROWS; i++) {
            float4 later = i + 2 < LANE_ROWS ? four(rows_now, i + 2) : four(rows, i + 2 - LANE_ROWS);
            if (i < LANE_QUERIES) next[i] = four(queries, i);
            tile.template add<BEGIN>(i, x[i & 1], q);
            x[i & 1] = later;
        }
        tile.add_queries(q);
    }
    __device__ void run(int left, bool begin) {
        float4 one[LANE_QUERIES], other[LANE_QUERIES];
        x[0] = four(rows, 0), x[1] = four(rows, 1);
        if (begin) {
            load_queries(one);
            chunk<true>(one, other, --left > 0);
        } else {
            load_queries(other);
        }
        /* Not unrolled: the loop has to stay in the smallest instruction cache. */
#pragma unroll 1
        for (; left > 1; left -= 2) {
            chunk<false>(other, one, true);
            chunk<false>(one, other, left > 2);
        }
        if (left > 0) chunk<false>(other, one, false);
    }
};

/* ---- keys to lists */

/* Where a lane's pairs lie in its block's: rows and queries from here on, APART from each other. Each half of a warp reads
 * four rows and four queries, so a read of 16 bytes a lane takes two turns, the least there is. */
struct lane_view {
    int row, query, owner;
    __device__ explicit lane_view(const tile_plan &plan) {
        int lane = threadIdx.x & 31, half = lane >> 4;
        bool wide = plan.queries > 16;
        owner = threadIdx.x >> 5;
        row = (wide ? 0 : half) * (LANE_ROWS * APART) + (lane >> 1 & 1) + (lane >> 3 & 1) * 2;
        query = (wide ? half : 0) * (LANE_QUERIES * APART) + (lane & 1) + (lane >> 2 & 1) * 2;
    }
};

/* The tile's sums over the four owners, as scores of this lane's own pairs: OWN_ROWS rows of its four queries. */
template <class Tile>
__device__ static void sums_exchange(const Tile &tile, const lane_view &view, void *stack, float (&scores)[OWN_PAIRS]) {
    using value = typename Tile::value;
    value *sums = (value *)stack + (threadIdx.x & 31);
    __syncthreads(); /* nobody reads his stack any more */
    each_pair([&](int p) { sums[(view.owner * LANE_PAIRS + p) * 32] = tile.part(p); });
    __syncthreads();
#pragma unroll
    for (int i = 0; i < OWN_PAIRS; i++) {
        const value *at = sums + (view.owner * OWN_PAIRS + i) * 32;
        scores[i] = Tile::total(at[0], at[LANE_PAIRS * 32], at[2 * LANE_PAIRS * 32], at[3 * LANE_PAIRS * 32]);
    }
}

/* Keys of a lane's own pairs, 0 for none: what does not reach the floor, lies outside, or is filtered out. */
struct own_keys {
    uint64_t keys[OWN_PAIRS], floors[LANE_QUERIES];
    float norms[OWN_ROWS], query_norms[LANE_QUERIES];
    int64_t row, query;
    /* What is read from memory, before the sums are there. */
    __device__ own_keys(const struct tile_args &args, int64_t first_row, int64_t first_query)
        : row(first_row), query(first_query) {
#pragma unroll
        for (int i = 0; i < LANE_QUERIES; i++) {
            int64_t number = min(query + i * APART, args.nq - 1);
            floors[i] = __ldg(args.floors + number);
            query_norms[i] = args.rows.norms ? __ldg(args.query_norms + number) : 1.0f;
        }
#pragma unroll
        for (int i = 0; i < OWN_ROWS; i++)
            norms[i] = args.rows.norms ? __ldg(args.rows.norms + min(row + i * APART, args.first + args.count - 1)) : 1.0f;
    }
    /* Whether there is any. */
    __device__ bool make(const struct tile_args &args, const float (&scores)[OWN_PAIRS]) {
        bool smaller_better = args.rows.metric == VIC_L2, any = false;
#pragma unroll
        for (int i = 0; i < OWN_PAIRS; i++) {
            int r = i / LANE_QUERIES, q = i % LANE_QUERIES;
            int64_t at = row + r * APART;
            uint32_t number = (uint32_t)at;
            float score = score_finish(scores[i], args.rows.metric, norms[r], query_norms[q]);
            uint64_t key = key_of(order_of(score, smaller_better), number);
            bool kept = key >= floors[q] && at < args.first + args.count && query + q * APART < args.nq;
            keys[i] = kept && filter_passes(args.filter, number) ? key : 0;
            any |= keys[i] != 0;
        }
        return any;
    }
};

/* Room is taken in shared memory first, so that a list's counter is asked once a block. */
__device__ static void keys_append(const struct tile_args &args, const tile_plan &plan, const own_keys &own,
                                   int64_t first_query, int slot, uint32_t *found) {
    uint32_t *bases = found + plan.queries;
    uint32_t places[OWN_PAIRS];
    if (threadIdx.x < plan.queries) found[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < OWN_PAIRS; i++)
        if (own.keys[i]) places[i] = atomicAdd(&found[slot + i % LANE_QUERIES * APART], 1u);
    __syncthreads();
    if (threadIdx.x < plan.queries && found[threadIdx.x])
        bases[threadIdx.x] = atomicAdd(args.counts + first_query + threadIdx.x, found[threadIdx.x]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < OWN_PAIRS; i++) {
        int at = slot + i % LANE_QUERIES * APART;
        uint32_t place = bases[at] + places[i];
        if (own.keys[i] && place < args.capacity) args.lists[(first_query + at) * args.capacity + place] = own.keys[i];
    }
}

template <int DTYPE, class Tile, bool EXACT>
__global__ void __launch_bounds__(TILE_THREADS, TILE_BLOCKS)
    tile_kernel(const __grid_constant__ struct tile_args args, const __grid_constant__ tile_plan plan,
                const __grid_constant__ tile_maps maps) {
    extern __shared__ __align__(1024) char shared[];
    void *stack = shared;
    float *here = (float *)(shared + STACK_BYTES), *there = here + plan.stage_floats;
    char *raw = (char *)(there + plan.stage_floats);
    uint64_t *barriers = (uint64_t *)(raw + plan.raw_bytes);
    uint32_t *found = (uint32_t *)(barriers + STAGES);
    using staging = stager<DTYPE, EXACT>;
    const staging stager(args, plan, maps, raw, barriers, (typename staging::sources *)(found + FOUND));
    const lane_view view(plan);
    int rows_at = view.row * SECTOR + swizzled(view.owner, view.row);
    int queries_at = plan.queries_at() + view.query * SECTOR + swizzled(view.owner, view.query);
    int flip = swizzled(view.owner, view.row + APART) - swizzled(view.owner, view.row); /* and for queries */
    Tile tile(stack);
    stage now = {blockIdx.x, 0, 0};
    stager.start();
    stager.put(now, here, 0);
    for (uint32_t turn = 0; now.tile < plan.tiles; turn++) {
        stager.take(now, here, turn); /* and nobody reads the other stage any more */
        stage ahead = now;
        ahead.next(plan);
        if (ahead.tile < plan.tiles) stager.put(ahead, there, turn + 1);
        if (now.sector == 0 && now.block == 0) tile.start();
        int count = min(plan.block, plan.chunks - now.block * plan.block);
#pragma unroll 1
        for (int i = 0; i < plan.sectors; i++) {
            sector_adder<Tile> adder = {tile,
                                        here + i * plan.block * plan.row_step() + rows_at,
                                        here + i * plan.block * plan.query_step() + queries_at,
                                        flip,
                                        plan.row_step(),
                                        plan.query_step(),
                                        {}};
            adder.run(count, now.block == 0);
            if (now.block == plan.blocks - 1) tile.fold(now.sector + i);
        }
        if (now.last(plan)) {
            int64_t first_row = now.first_row(args, plan), first_query = now.first_query(plan);
            own_keys own(args, first_row + view.row + view.owner * OWN_ROWS * APART, first_query + view.query);
            float scores[OWN_PAIRS];
            sums_exchange(tile, view, stack, scores);
            if (__syncthreads_or(own.make(args, scores))) keys_append(args, plan, own, first_query, view.query, found);
        }
        now = ahead;
        float *kept = here;
        here = there, there = kept;
    }
}

/* The most chunks that fit, then as many sectors as make a stage worth its barrier. */
static void stages_plan(struct tile_plan *plan, int bytes, int raw_chunk) {
    int chunk_bytes = STAGES * (plan->row_step() + plan->query_step()) * 4 + raw_chunk, fit = bytes / chunk_bytes;
    plan->blocks = (plan->chunks + fit - 1) / fit;
    plan->block = (plan->chunks + plan->blocks - 1) / plan->blocks;
    plan->sectors = 1;
    while (plan->blocks == 1 && plan->sectors < SECTORS && 2 * plan->sectors * plan->block <= min(fit, 8)) plan->sectors *= 2;
    plan->stage_floats = plan->slots() * (plan->row_step() + plan->query_step());
    plan->raw_bytes = plan->slots() * raw_chunk;
}

template <int DTYPE, class Tile, bool EXACT> static cudaError_t tile_launch(const struct tile_args *args, cudaStream_t stream) {
    using staging = stager<DTYPE, EXACT>;
    const struct packed_rows &rows = args->rows;
    struct tile_plan plan;
    struct tile_maps maps;
    plan.queries = args->nq <= 16 ? 16 : 32;
    plan.rows = TILE_THREADS * OWN_PAIRS / plan.queries;
    int64_t words = EXACT ? rows.stride_bytes / 4 : (int64_t)(rows.chunks + (rows.units > 0)) * 128;
    plan.chunks = (int)((words + 127) / 128);
    plan.bulk = args->engine && (EXACT ? rows.stride_bytes % 512 == 0 : rows.units == 0); /* it brings whole chunks */
    int fixed = STACK_BYTES + STAGES * (int)sizeof(uint64_t) + FOUND * (int)sizeof(uint32_t);
    int sources = (int)sizeof(typename staging::sources), most = (args->shared_most + 1024) / TILE_BLOCKS - 1024;
    int raw_chunk = staging::copied ? 0 : plan.rows * SECTOR * staging::bytes;
    stages_plan(&plan, most - fixed - (plan.bulk ? 0 : sources), raw_chunk);
    if (plan.bulk)
        plan.bulk = bulk_describe({rows.data, rows.n, rows.stride_bytes, plan.chunks, staging::bytes}, plan.rows, plan.block,
                                  &maps.rows) &&
                    bulk_describe({args->queries, args->nq, args->query_stride, plan.chunks, 4}, plan.queries, plan.block,
                                  &maps.queries);
    if (!plan.bulk) stages_plan(&plan, most - fixed - sources, raw_chunk);
    plan.across = (uint32_t)((args->nq + plan.queries - 1) / plan.queries);
    plan.tiles = (uint32_t)((args->count + plan.rows - 1) / plan.rows) * plan.across;
    unsigned all = (unsigned)args->multiprocessors * TILE_BLOCKS, blocks = plan.tiles < all ? plan.tiles : all;
    size_t bytes = (size_t)(fixed + STAGES * plan.stage_floats * 4 + plan.raw_bytes + (plan.bulk ? 0 : sources));
    tile_kernel<DTYPE, Tile, EXACT><<<blocks, TILE_THREADS, bytes, stream>>>(*args, plan, maps);
    return cudaPeekAtLastError();
}

struct tile_entry {
    cudaError_t (*launch)(const struct tile_args *args, cudaStream_t stream);
    const void *kernel;
};
template <int DTYPE, class Tile, bool EXACT> static tile_entry tile_entry_of() {
    return {tile_launch<DTYPE, Tile, EXACT>, (const void *)tile_kernel<DTYPE, Tile, EXACT>};
}
template <bool L2> static tile_entry tile_find(enum vic_dtype rows, enum vic_dtype query) {
    using canonical = canonical_tile<L2>;
    switch (rows) {
    case VIC_F16: return tile_entry_of<VIC_F16, canonical, false>();
    case VIC_BF16: return tile_entry_of<VIC_BF16, canonical, false>();
    case VIC_I8:
        return query == rows ? tile_entry_of<VIC_I8, exact_tile<VIC_I8, L2>, true>()
                             : tile_entry_of<VIC_I8, canonical, false>();
    case VIC_U8:
        return query == rows ? tile_entry_of<VIC_U8, exact_tile<VIC_U8, L2>, true>()
                             : tile_entry_of<VIC_U8, canonical, false>();
    default: return tile_entry_of<VIC_F32, canonical, false>();
    }
}
static tile_entry tile_pick(const struct packed_rows *rows, enum vic_dtype query) {
    return rows->metric == VIC_L2 ? tile_find<true>(rows->dtype, query) : tile_find<false>(rows->dtype, query);
}

cudaError_t launch_tile(const struct tile_args *args, cudaStream_t stream) {
    return tile_pick(&args->rows, args->query_dtype).launch(args, stream);
}

cudaError_t load_tile(const struct packed_rows *rows, int shared_most, bool *engine) {
    *engine = rows->n <= INT32_MAX; /* it counts in 32 bits */
    for (enum vic_dtype query : {VIC_F32, rows->dtype}) {
        cudaFuncAttributes attributes;
        const void *kernel = tile_pick(rows, query).kernel;
        cudaError_t error = kernel_load(kernel, shared_most);
        if (error == cudaSuccess) error = cudaFuncGetAttributes(&attributes, kernel);
        if (error != cudaSuccess) return error;
        *engine = *engine && attributes.binaryVersion >= 90;
    }
    return cudaSuccess;
}
