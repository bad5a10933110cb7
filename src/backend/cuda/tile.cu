/* Many queries against a run of rows, the rows read once: tiles of canonical sums, and every key that can still matter
 * appended to its query's list.
 *
 * A block stages one sector at a time of its rows and queries in shared memory: 16 neighbouring places of each chunk, which
 * are (b1, b0) x (b6, b5) for one (b4, b3, b2) (common.cuh). A warp computes 32 rows x 8 queries; four lanes share a pair,
 * each with its own (b1, b0), and a lane holds 8 rows x 4 queries: 64 running sums, two places (b6 = 0, 1) at once, added
 * when all chunks are done. So a pair costs 2 registers and a stack of four partial sums, not 128 sums, and the tree is the
 * contract's: b6 and b5 within a sector, b4 b3 b2 between sectors, b1 b0 between the four lanes.
 * Shape: 8 warps as 4 x 2 or 2 x 4 of these: 128 x 16 pairs for up to 16 queries, 64 x 32 for more.
 * Float32 comes by cp.async in two stages; narrower types are converted on their way, integers with queries of
 * their own type are moved as words of four and multiplied by dp4a. When the chunks of a sector do not fit a stage they
 * come in blocks, and the two halves (b5) of a sector one after the other.
 * Bound by shared memory: 12 values read for 32 products a lane, so at most two thirds of the arithmetic peak. */
#include "backend/cuda/common.cuh"

#include <cuda_pipeline.h>

enum { TILE_THREADS = 256, LANE_ROWS = 8, LANE_QUERIES = 4, LANE_PAIRS = 32, SECTOR = 16, WARP_ROWS = 32, WARP_QUERIES = 8 };

/* What the host decided: how warps lie, and how sectors are cut into stages. */
struct tile_plan {
    int rows, queries;        /* pairs of a block */
    int chunks, block, blocks; /* chunks of a row or its words, chunks a stage, stages a side of a sector */
    int depth;                /* stages in shared memory */
};

struct stage {
    int sector, side, chunk, count; /* side: b5, or -1 for both */
    bool first, last;               /* of its sector's chunks */
};

__device__ static int stage_count(const tile_plan &plan) { return 8 * (plan.blocks > 1 ? 2 * plan.blocks : 1); }
__device__ static stage stage_at(const tile_plan &plan, int number) {
    int halves = plan.blocks > 1 ? 2 : 1, each = halves * plan.blocks, within = number % each, block = within % plan.blocks;
    int chunk = block * plan.block, left = plan.chunks - chunk;
    return {number / each, halves == 1 ? -1 : within / plan.blocks, chunk, left < plan.block ? left : plan.block, block == 0,
            block == plan.blocks - 1};
}

/* ---- staging: [chunk][row or query][16 floats or words], by threads that each take a quarter of a sector */

/* Sixteen bytes by an asynchronous copy; zeroes where `inside` is false. */
__device__ static void copy_quarter(float *target, const char *source, bool inside) {
    __pipeline_memcpy_async(target, source, 16, inside ? 0 : 16);
}

/* Four elements of a narrow type, converted. */
template <int DTYPE> __device__ static float4 convert_quarter(const char *source) {
    uint4 load = {0, 0, 0, 0};
    if (reading<DTYPE>::bytes == 2) {
        uint2 raw = __ldg((const uint2 *)source);
        load.x = raw.x, load.y = raw.y;
    } else {
        load.x = __ldg((const uint32_t *)source);
    }
    return load_four<DTYPE>(load, 0);
}

/* Quarter `jq` of a sector behind the whole chunks, where a unit of 32 holds one (b6, b5). */
template <int DTYPE> __device__ static float4 rest_quarter(const struct packed_rows &rows, const char *row, int sector, int jq) {
    float value[4];
#pragma unroll
    for (int a = 0; a < 4; a++) {
        int unit = (a & 1) << 1 | a >> 1;
        int64_t at = (int64_t)rows.chunks * 128 + unit * 32 + sector * 4 + jq;
        value[a] = unit < rows.units ? element_load((enum vic_dtype)DTYPE, row, at) : 0.0f;
    }
    return make_float4(value[0], value[1], value[2], value[3]);
}

template <int DTYPE, bool EXACT>
__device__ static void stage_rows(const struct tile_args &args, const tile_plan &plan, const stage &s, float *target, int64_t first) {
    constexpr bool copied = EXACT || DTYPE == VIC_F32;
    constexpr int bytes = copied ? 4 : reading<DTYPE>::bytes;
    const struct packed_rows &rows = args.rows;
    int quarter = threadIdx.x & 3;
    int64_t last = args.first + args.count - 1;
    for (int r = threadIdx.x >> 2; r < plan.rows; r += TILE_THREADS / 4) {
        int64_t number = first + r < last ? first + r : last;
        const char *row = (const char *)rows.data + number * rows.stride_bytes;
        int offset = (s.chunk * 128 + s.sector * SECTOR + quarter * 4) * bytes;
        float *at = target + r * SECTOR + quarter * 4;
        for (int c = s.chunk; c < s.chunk + s.count; c++, offset += 128 * bytes, at += plan.rows * SECTOR) {
            if (!EXACT && c == rows.chunks)
                *(float4 *)at = rest_quarter<DTYPE>(rows, row, s.sector, quarter);
            else if (copied)
                copy_quarter(at, row + (!EXACT || offset < rows.stride_bytes ? offset : 0), !EXACT || offset < rows.stride_bytes);
            else
                *(float4 *)at = convert_quarter<DTYPE>(row + offset);
        }
    }
}

__device__ static void stage_queries(const struct tile_args &args, const tile_plan &plan, const stage &s, float *target, int64_t first,
                                     int64_t bytes) {
    int quarter = threadIdx.x & 3, q = threadIdx.x >> 2 & (plan.queries - 1), step = TILE_THREADS / 4 / plan.queries;
    int64_t number = first + q < args.nq ? first + q : args.nq - 1;
    const char *query = (const char *)args.queries + number * args.query_stride;
    for (int c = threadIdx.x / (4 * plan.queries); c < s.count; c += step) {
        int64_t offset = (int64_t)(s.chunk + c) * 512 + s.sector * 64 + quarter * 16;
        copy_quarter(target + (c * plan.queries + q) * SECTOR + quarter * 4, query + (offset < bytes ? offset : 0), offset < bytes);
    }
}

/* ---- sums of a lane's 8 x 4 pairs */

template <class Act> __device__ inline void each_pair(const Act &act) {
#pragma unroll
    for (int p = 0; p < LANE_PAIRS; p++) act(p);
}

/* Two places of a sector at a time, those of one b5; partial sums of sides and sectors on a stack, whose upper two levels
 * lie in shared memory, a column a thread: they are touched every other and every fourth sector. */
template <bool L2> struct canonical_tile {
    static constexpr int shared_floats = 2 * LANE_PAIRS * TILE_THREADS;
    float running[2][LANE_PAIRS], sides[LANE_PAIRS], pairs[LANE_PAIRS];
    float *fours, *eights;

    __device__ explicit canonical_tile(float *shared)
        : fours(shared + threadIdx.x), eights(shared + LANE_PAIRS * TILE_THREADS + threadIdx.x) {}

    __device__ void start(bool) {
#pragma unroll
        for (int p = 0; p < LANE_PAIRS; p++) running[0][p] = running[1][p] = 0.0f;
    }
    __device__ void add(const float *rows, const float *queries, int side) {
        float2 x[LANE_ROWS], q[LANE_QUERIES];
#pragma unroll
        for (int i = 0; i < LANE_ROWS; i++) x[i] = *(const float2 *)(rows + i * 4 * SECTOR + side * 2);
#pragma unroll
        for (int i = 0; i < LANE_QUERIES; i++) q[i] = *(const float2 *)(queries + i * 2 * SECTOR + side * 2);
#pragma unroll
        for (int p = 0; p < LANE_PAIRS; p++) {
            running[0][p] = accumulate<L2>(x[p / LANE_QUERIES].x, q[p % LANE_QUERIES].x, running[0][p]);
            running[1][p] = accumulate<L2>(x[p / LANE_QUERIES].y, q[p % LANE_QUERIES].y, running[1][p]);
        }
    }
    /* All chunks of a side are in: fold it into the tree. The branches are the same for the whole block. */
    __device__ void fold(int sector, int side) {
        each_pair([&](int p) { running[0][p] = __fadd_rn(running[0][p], running[1][p]); });
        if (side == 0) return each_pair([&](int p) { sides[p] = running[0][p]; });
        each_pair([&](int p) { running[0][p] = __fadd_rn(sides[p], running[0][p]); });
        if ((sector & 1) == 0) return each_pair([&](int p) { pairs[p] = running[0][p]; });
        each_pair([&](int p) { running[0][p] = __fadd_rn(pairs[p], running[0][p]); });
        if ((sector & 2) == 0) return each_pair([&](int p) { fours[p * TILE_THREADS] = running[0][p]; });
        each_pair([&](int p) { running[0][p] = __fadd_rn(fours[p * TILE_THREADS], running[0][p]); });
        if ((sector & 4) == 0) return each_pair([&](int p) { eights[p * TILE_THREADS] = running[0][p]; });
        each_pair([&](int p) { pairs[p] = __fadd_rn(eights[p * TILE_THREADS], running[0][p]); });
    }
    /* Values of this lane's 8 pairs: two rows of its four queries. */
    __device__ void finish(float *scores, int lane) {
        halve<32>(pairs, lane, 2);
        halve<16>(pairs, lane, 1);
#pragma unroll
        for (int i = 0; i < 8; i++) scores[i] = __fadd_rn(pairs[i], 0.0f);
    }
};

/* Integers: words of four elements, any order. l2 needs the squares of rows and queries too. */
template <int DTYPE, bool L2> struct exact_tile {
    static constexpr int shared_floats = 0;
    int dots[LANE_PAIRS], row_squares[LANE_ROWS], query_squares[LANE_QUERIES];

    __device__ explicit exact_tile(float *) {}
    __device__ void start(bool begin) {
        if (!begin) return;
#pragma unroll
        for (int p = 0; p < LANE_PAIRS; p++) dots[p] = 0;
#pragma unroll
        for (int i = 0; i < LANE_ROWS; i++) row_squares[i] = 0;
#pragma unroll
        for (int i = 0; i < LANE_QUERIES; i++) query_squares[i] = 0;
    }
    __device__ static int dot4(uint32_t a, uint32_t b, int sum) { return exact_sums<DTYPE, L2>::dot4(a, b, sum); }
    __device__ void add(const float *rows, const float *queries, int side) {
        uint2 x[LANE_ROWS], q[LANE_QUERIES];
#pragma unroll
        for (int i = 0; i < LANE_ROWS; i++) x[i] = *(const uint2 *)(rows + i * 4 * SECTOR + side * 2);
#pragma unroll
        for (int i = 0; i < LANE_QUERIES; i++) q[i] = *(const uint2 *)(queries + i * 2 * SECTOR + side * 2);
#pragma unroll
        for (int p = 0; p < LANE_PAIRS; p++)
            dots[p] = dot4(x[p / LANE_QUERIES].y, q[p % LANE_QUERIES].y, dot4(x[p / LANE_QUERIES].x, q[p % LANE_QUERIES].x, dots[p]));
        if constexpr (L2) {
#pragma unroll
            for (int i = 0; i < LANE_ROWS; i++) row_squares[i] = dot4(x[i].y, x[i].y, dot4(x[i].x, x[i].x, row_squares[i]));
#pragma unroll
            for (int i = 0; i < LANE_QUERIES; i++)
                query_squares[i] = dot4(q[i].y, q[i].y, dot4(q[i].x, q[i].x, query_squares[i]));
        }
    }
    __device__ void fold(int, int) {}
    __device__ void finish(float *scores, int lane) {
#pragma unroll
        for (int p = 0; p < LANE_PAIRS; p++) {
            int64_t sum = dots[p];
            if (L2) sum = (int64_t)row_squares[p / LANE_QUERIES] + query_squares[p % LANE_QUERIES] - 2 * sum;
            sum += __shfl_xor_sync(~0u, sum, 2);
            sum += __shfl_xor_sync(~0u, sum, 1);
            /* Pairs as canonical_tile leaves them: rows 4 b1 + 2 b0 and the next. */
            if (p / 8 == ((lane & 2) | (lane & 1))) scores[p % 8] = __ll2float_rn(sum);
        }
    }
};

/* ---- keys to lists */

/* This lane's eight pairs: room is taken in shared memory first, so that a list's counter is asked once a block. */
__device__ static void keys_append(const struct tile_args &args, const tile_plan &plan, const float *scores, int64_t first_row,
                                   int64_t first_query, int row, int query, uint32_t *found) {
    bool smaller_better = args.rows.metric == VIC_L2;
    uint32_t *bases = found + plan.queries;
    if (threadIdx.x < plan.queries) found[threadIdx.x] = 0;
    __syncthreads();
    uint64_t keys[8];
    uint32_t places[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int64_t number = first_row + row + i / LANE_QUERIES * 4;
        int slot = query + i % LANE_QUERIES * 2;
        keys[i] = 0;
        if (number >= args.first + args.count || first_query + slot >= args.nq) continue;
        float norm = args.rows.norms ? __ldg(args.rows.norms + number) : 1.0f;
        float query_norm = args.rows.norms ? __ldg(args.query_norms + first_query + slot) : 1.0f;
        float score = score_finish(scores[i], args.rows.metric, norm, query_norm);
        uint64_t key = key_of(order_of(score, smaller_better), (uint32_t)number);
        if (key < __ldg(args.floors + first_query + slot) || !filter_passes(args.filter, (uint32_t)number)) continue;
        keys[i] = key;
        places[i] = atomicAdd(&found[slot], 1u);
    }
    __syncthreads();
    if (threadIdx.x < plan.queries && found[threadIdx.x])
        bases[threadIdx.x] = atomicAdd(args.counts + first_query + threadIdx.x, found[threadIdx.x]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) {
        int slot = query + i % LANE_QUERIES * 2;
        if (keys[i]) args.lists[(first_query + slot) * args.capacity + bases[slot] + places[i]] = keys[i];
    }
}

template <int DTYPE, class Tile, bool EXACT>
__global__ void __launch_bounds__(TILE_THREADS, 1) tile_kernel(const __grid_constant__ struct tile_args args, const tile_plan plan) {
    extern __shared__ __align__(16) float staged[];
    int64_t first_query = (int64_t)blockIdx.x * plan.queries;
    int64_t first_row = args.first + ((int64_t)blockIdx.y + (int64_t)blockIdx.z * 65535) * plan.rows;
    if (first_row >= args.first + args.count) return;
    int64_t query_bytes = EXACT ? args.rows.stride_bytes : args.query_stride;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps_across = plan.queries / WARP_QUERIES;
    int jq = lane & 3, row = warp / warps_across * WARP_ROWS + (lane >> 2 & 1) + (lane >> 4 & 1) * 2;
    int query = warp % warps_across * WARP_QUERIES + (lane >> 3 & 1);
    int stage_floats = (plan.rows + plan.queries) * plan.block * SECTOR, stages = stage_count(plan);
    Tile tile(staged + plan.depth * stage_floats);
    auto prefetch = [&](int number) {
        if (number < stages) {
            stage s = stage_at(plan, number);
            float *target = staged + number % plan.depth * stage_floats;
            stage_rows<DTYPE, EXACT>(args, plan, s, target, first_row);
            stage_queries(args, plan, s, target + plan.rows * plan.block * SECTOR, first_query, query_bytes);
        }
        __pipeline_commit();
    };
    prefetch(0);
    for (int number = 0; number < stages; number++) {
        if (plan.depth > 1) {
            prefetch(number + 1);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        stage s = stage_at(plan, number);
        const float *rows = staged + number % plan.depth * stage_floats + row * SECTOR + jq * 4;
        const float *queries = staged + number % plan.depth * stage_floats + plan.rows * plan.block * SECTOR + query * SECTOR + jq * 4;
        for (int side = s.side < 0 ? 0 : s.side; side <= (s.side < 0 ? 1 : s.side); side++) {
            if (s.first) tile.start(s.sector == 0 && side == 0);
#pragma unroll 2
            for (int c = 0; c < s.count; c++) tile.add(rows + c * plan.rows * SECTOR, queries + c * plan.queries * SECTOR, side);
            if (s.last) tile.fold(s.sector, side);
        }
        __syncthreads();
        if (plan.depth == 1) prefetch(number + 1);
    }
    float scores[8];
    tile.finish(scores, lane);
    int own_row = row + ((lane & 2) * 2 + (lane & 1) * 2) * 4;
    keys_append(args, plan, scores, first_row, first_query, own_row, query, (uint32_t *)staged);
}

template <int DTYPE, class Tile, bool EXACT> static cudaError_t tile_launch(const struct tile_args *args, cudaStream_t stream) {
    tile_plan plan;
    plan.queries = args->nq <= 16 ? 16 : 32;
    plan.rows = 8 / (plan.queries / WARP_QUERIES) * WARP_ROWS;
    int64_t words = EXACT ? args->rows.stride_bytes / 4 : (int64_t)(args->rows.chunks + (args->rows.units > 0)) * 128;
    plan.chunks = (int)((words + 127) / 128);
    int chunk_bytes = (plan.rows + plan.queries) * SECTOR * 4, fit = (args->shared_most - Tile::shared_floats * 4) / chunk_bytes;
    plan.depth = fit >= 2 ? 2 : 1;
    plan.block = fit / plan.depth < plan.chunks ? fit / plan.depth : plan.chunks;
    plan.blocks = (plan.chunks + plan.block - 1) / plan.block;
    int64_t row_tiles = (args->count + plan.rows - 1) / plan.rows;
    dim3 grid((unsigned)((args->nq + plan.queries - 1) / plan.queries), (unsigned)(row_tiles < 65535 ? row_tiles : 65535),
              (unsigned)((row_tiles + 65534) / 65535));
    size_t bytes = (size_t)plan.depth * (size_t)plan.block * (size_t)chunk_bytes + Tile::shared_floats * sizeof(float);
    tile_kernel<DTYPE, Tile, EXACT><<<grid, TILE_THREADS, bytes, stream>>>(*args, plan);
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
        return query == rows ? tile_entry_of<VIC_I8, exact_tile<VIC_I8, L2>, true>() : tile_entry_of<VIC_I8, canonical, false>();
    case VIC_U8:
        return query == rows ? tile_entry_of<VIC_U8, exact_tile<VIC_U8, L2>, true>() : tile_entry_of<VIC_U8, canonical, false>();
    default: return tile_entry_of<VIC_F32, canonical, false>();
    }
}
static tile_entry tile_pick(const struct packed_rows *rows, enum vic_dtype query) {
    return rows->metric == VIC_L2 ? tile_find<true>(rows->dtype, query) : tile_find<false>(rows->dtype, query);
}

cudaError_t launch_tile(const struct tile_args *args, cudaStream_t stream) {
    return tile_pick(&args->rows, args->query_dtype).launch(args, stream);
}

cudaError_t load_tile(const struct packed_rows *rows, int shared_most) {
    cudaError_t error = kernel_load(tile_pick(rows, VIC_F32).kernel, shared_most);
    return error == cudaSuccess ? kernel_load(tile_pick(rows, rows->dtype).kernel, shared_most) : error;
}
