/* Many queries against a run of rows, the rows read once: tiles of canonical sums, and every key that can still matter
 * appended to its query's list.
 *
 * A block stages one sector at a time of its rows and queries in shared memory: 16 neighbouring places of each chunk, which
 * are (b1, b0) x (b6, b5) for one (b4, b3, b2) (common.cuh). A warp computes 32 rows x 8 queries; four lanes share a pair,
 * each with its own (b1, b0), and a lane holds 8 rows x 4 queries: 64 running sums, two places (b6 = 0, 1) at once, added
 * when all chunks are done. So a pair costs two registers and a stack of four partial sums, not 128 sums, and the tree is
 * the contract's: b6 and b5 within a sector, b4 b3 b2 between sectors, b1 b0 between the four lanes.
 * Shape: 8 warps as 4 x 2 or 2 x 4 of these, 128 x 16 pairs for up to 16 queries, 64 x 32 for more; a block a multiprocessor.
 * Float32 comes by cp.async in two stages; narrower types are converted on their way; integers with queries of their own
 * type are moved as words of four and multiplied by dp4a. When the chunks of a sector do not fit a stage they come in
 * blocks, and the two sides (b5) of a sector one after the other.
 * Bound by issue: H200, 2026-11-30, 57 % of the issue slots used with the two warps that a scheduler has room for, half of
 * the reads that shared memory could give, 29 % of the float32 peak. Tried and not faster: 4 x 4 pairs a lane with twice the
 * warps (68 % of the slots, but more of them overhead), two blocks of four warps. */
#include "backend/cuda/common.cuh"

#include <cuda_pipeline.h>

enum { TILE_THREADS = 256, LANE_ROWS = 8, LANE_QUERIES = 4, LANE_PAIRS = LANE_ROWS * LANE_QUERIES, SECTOR = 16 };
/* A warp's pairs, and those whose sums one lane has at the end: one of four neighbours. */
enum { WARP_ROWS = 4 * LANE_ROWS, WARP_QUERIES = 2 * LANE_QUERIES, OWN_ROWS = LANE_ROWS / 4, OWN_PAIRS = LANE_PAIRS / 4 };

/* What the host decided: how warps lie, and how sectors are cut into stages. */
struct tile_plan {
    int rows, queries;         /* pairs of a block */
    int chunks, block, blocks; /* chunks of a row or its words, chunks a stage, stages a sector (or one side of it) */
};

/* A stage: a sector, one block of its chunks. With several blocks a sector comes twice, for one side (b5) after the other. */
struct stage {
    int sector, side, block;
    __device__ void next(const tile_plan &plan) {
        if (++block < plan.blocks) return;
        block = 0;
        if (plan.blocks > 1 && side == 0)
            side = 1;
        else
            side = 0, sector++;
    }
};

/* ---- staging: [chunk][row or query][16 floats or words] */

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
template <int DTYPE>
__device__ static float4 rest_quarter(const struct packed_rows &rows, const char *row, int sector, int jq) {
    float value[4];
#pragma unroll
    for (int a = 0; a < 4; a++) {
        int unit = (a & 1) << 1 | a >> 1;
        int64_t at = (int64_t)rows.chunks * 128 + unit * 32 + sector * 4 + jq;
        value[a] = unit < rows.units ? element_load((enum vic_dtype)DTYPE, row, at) : 0.0f;
    }
    return make_float4(value[0], value[1], value[2], value[3]);
}

/* What a thread stages: a quarter of a sector of some rows and of one query, of every so many chunks. */
struct stager {
    const char *query;
    int64_t first_row, last_row;
    int quad, quarter, span; /* span: rows staged at once */

    __device__ stager(const struct tile_args &args, const tile_plan &plan, int64_t first, int64_t first_query)
        : first_row(first), last_row(args.first + args.count - 1), quad(threadIdx.x >> 2), quarter(threadIdx.x & 3),
          span(min(plan.rows, TILE_THREADS / 4)) {
        int64_t number = first_query + (quad & (plan.queries - 1));
        query = (const char *)args.queries + (number < args.nq ? number : args.nq - 1) * args.query_stride;
    }

    template <int DTYPE, bool EXACT>
    __device__ void put_row(const struct tile_args &args, const tile_plan &plan, const stage &s, int slot,
                            float *target) const {
        constexpr bool copied = EXACT || DTYPE == VIC_F32;
        constexpr int bytes = copied ? 4 : reading<DTYPE>::bytes;
        int64_t number = first_row + slot < last_row ? first_row + slot : last_row;
        const char *row = (const char *)args.rows.data + number * args.rows.stride_bytes;
        int first = s.block * plan.block, end = min(first + plan.block, plan.chunks), step = TILE_THREADS / 4 / span;
        int chunk = first + quad / span, offset = (chunk * 128 + s.sector * SECTOR + quarter * 4) * bytes;
        target += (quad / span * plan.rows + slot) * SECTOR + quarter * 4;
        for (; chunk < end; chunk += step, offset += 128 * bytes * step, target += plan.rows * SECTOR * step) {
            if (EXACT) {
                bool inside = offset < args.rows.stride_bytes;
                copy_quarter(target, row + (inside ? offset : 0), inside);
            } else if (chunk == args.rows.chunks) {
                *(float4 *)target = rest_quarter<DTYPE>(args.rows, row, s.sector, quarter);
            } else if (copied) {
                copy_quarter(target, row + offset, true);
            } else {
                *(float4 *)target = convert_quarter<DTYPE>(row + offset);
            }
        }
    }

    template <int DTYPE, bool EXACT>
    __device__ void put(const struct tile_args &args, const tile_plan &plan, const stage &s, float *target) const {
#pragma unroll 1
        for (int slot = quad & (span - 1); slot < plan.rows; slot += span) put_row<DTYPE, EXACT>(args, plan, s, slot, target);
        int step = TILE_THREADS / 4 / plan.queries, own = quad / plan.queries, first = s.block * plan.block;
        int end = min(first + plan.block, plan.chunks), chunk = first + own;
        int64_t bytes = EXACT ? args.rows.stride_bytes : args.query_stride;
        int offset = chunk * 512 + s.sector * 64 + quarter * 16;
        target += plan.rows * plan.block * SECTOR + (own * plan.queries + (quad & (plan.queries - 1))) * SECTOR + quarter * 4;
        for (; chunk < end; chunk += step, offset += 512 * step, target += plan.queries * SECTOR * step) {
            bool inside = !EXACT || offset < bytes;
            copy_quarter(target, query + (inside ? offset : 0), inside);
        }
    }
};

/* ---- sums of a lane's pairs */

template <bool L2> __device__ inline float product(float x, float q) {
    float difference = __fsub_rn(x, q);
    return L2 ? __fmul_rn(difference, difference) : __fmul_rn(x, q);
}

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

    /* What one step reads: a row's two places each, a query's two each. */
    struct fragment {
        float2 x[LANE_ROWS], q[LANE_QUERIES];
        __device__ void load(const float *rows, const float *queries, int side) {
#pragma unroll
            for (int i = 0; i < LANE_ROWS; i++) x[i] = *(const float2 *)(rows + i * 4 * SECTOR + side * 2);
#pragma unroll
            for (int i = 0; i < LANE_QUERIES; i++) q[i] = *(const float2 *)(queries + i * 2 * SECTOR + side * 2);
        }
    };
    /* BEGIN: the first chunk. Its products are not added to zeroes; only the sign of a zero could tell, and the last
     * addition clears that. */
    template <bool BEGIN> __device__ void add(const fragment &f) {
        each_pair([&](int p) {
            float2 a = f.x[p / LANE_QUERIES], b = f.q[p % LANE_QUERIES];
            running[0][p] = BEGIN ? product<L2>(a.x, b.x) : accumulate<L2>(a.x, b.x, running[0][p]);
            running[1][p] = BEGIN ? product<L2>(a.y, b.y) : accumulate<L2>(a.y, b.y, running[1][p]);
        });
    }
    __device__ float side_sum(int p) const { return __fadd_rn(running[0][p], running[1][p]); }
    __device__ float sector_sum(int p) const { return __fadd_rn(sides[p], side_sum(p)); }
    __device__ float pair_sum(int p) const { return __fadd_rn(pairs[p], sector_sum(p)); }
    __device__ float four_sum(int p) const { return __fadd_rn(fours[p * TILE_THREADS], pair_sum(p)); }
    /* All chunks of a side are in: fold it into the tree. The branches are the same for the whole block. */
    __device__ void fold(int sector, int side) {
        if (side == 0)
            each_pair([&](int p) { sides[p] = side_sum(p); });
        else if ((sector & 1) == 0)
            each_pair([&](int p) { pairs[p] = sector_sum(p); });
        else if ((sector & 2) == 0)
            each_pair([&](int p) { fours[p * TILE_THREADS] = pair_sum(p); });
        else if ((sector & 4) == 0)
            each_pair([&](int p) { eights[p * TILE_THREADS] = four_sum(p); });
        else
            each_pair([&](int p) { pairs[p] = __fadd_rn(eights[p * TILE_THREADS], four_sum(p)); });
    }
    /* Values of this lane's own pairs: OWN_ROWS rows of its four queries. */
    __device__ void finish(float *scores, int lane) {
        halve<LANE_PAIRS>(pairs, lane, 2);
        halve<LANE_PAIRS / 2>(pairs, lane, 1);
#pragma unroll
        for (int i = 0; i < OWN_PAIRS; i++) scores[i] = __fadd_rn(pairs[i], 0.0f);
    }
};

/* Integers: words of four elements, any order. l2 needs the squares of rows and queries too. */
template <int DTYPE, bool L2> struct exact_tile {
    static constexpr int shared_floats = 0;
    int dots[LANE_PAIRS], row_squares[LANE_ROWS], query_squares[LANE_QUERIES];

    __device__ explicit exact_tile(float *) : dots{}, row_squares{}, query_squares{} {}
    __device__ static int dot4(uint32_t a, uint32_t b, int sum) { return exact_sums<DTYPE, L2>::dot4(a, b, sum); }
    struct fragment {
        uint2 x[LANE_ROWS], q[LANE_QUERIES];
        __device__ void load(const float *rows, const float *queries, int side) {
#pragma unroll
            for (int i = 0; i < LANE_ROWS; i++) x[i] = *(const uint2 *)(rows + i * 4 * SECTOR + side * 2);
#pragma unroll
            for (int i = 0; i < LANE_QUERIES; i++) q[i] = *(const uint2 *)(queries + i * 2 * SECTOR + side * 2);
        }
    };
    template <bool BEGIN> __device__ void add(const fragment &f) {
        each_pair([&](int p) {
            uint2 a = f.x[p / LANE_QUERIES], b = f.q[p % LANE_QUERIES];
            dots[p] = dot4(a.y, b.y, dot4(a.x, b.x, dots[p]));
        });
        if constexpr (L2) {
#pragma unroll
            for (int i = 0; i < LANE_ROWS; i++)
                row_squares[i] = dot4(f.x[i].y, f.x[i].y, dot4(f.x[i].x, f.x[i].x, row_squares[i]));
#pragma unroll
            for (int i = 0; i < LANE_QUERIES; i++)
                query_squares[i] = dot4(f.q[i].y, f.q[i].y, dot4(f.q[i].x, f.q[i].x, query_squares[i]));
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
            if (p / OWN_PAIRS == (lane & 3)) scores[p % OWN_PAIRS] = __ll2float_rn(sum);
        }
    }
};

/* ---- keys to lists */

/* This lane's own pairs: room is taken in shared memory first, so that a list's counter is asked once a block. */
__device__ static void keys_append(const struct tile_args &args, const tile_plan &plan, const float *scores, int64_t first_row,
                                   int64_t first_query, int row, int query, uint32_t *found) {
    bool smaller_better = args.rows.metric == VIC_L2;
    uint32_t *bases = found + plan.queries;
    if (threadIdx.x < plan.queries) found[threadIdx.x] = 0;
    __syncthreads();
    uint64_t keys[OWN_PAIRS];
    uint32_t places[OWN_PAIRS];
#pragma unroll
    for (int i = 0; i < OWN_PAIRS; i++) {
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
    for (int i = 0; i < OWN_PAIRS; i++) {
        int slot = query + i % LANE_QUERIES * 2;
        if (keys[i]) args.lists[(first_query + slot) * args.capacity + bases[slot] + places[i]] = keys[i];
    }
}

/* The chunks of a stage, for one side of its sector. Two fragments in turn: one is read while the other is multiplied. */
template <class Tile>
__device__ static void side_add(Tile &tile, const tile_plan &plan, const stage &s, int side, const float *rows,
                                const float *queries) {
    int left = min(plan.block, plan.chunks - s.block * plan.block), row_step = plan.rows * SECTOR,
        query_step = plan.queries * SECTOR;
    typename Tile::fragment one;
    one.load(rows, queries, side);
    typename Tile::fragment other;
    if (s.block == 0) {
        if (--left > 0) rows += row_step, queries += query_step;
        other.load(rows, queries, side);
        tile.template add<true>(one);
        one = other;
    }
#pragma unroll 1
    while (left > 1) {
        other.load(rows + row_step, queries + query_step, side);
        tile.template add<false>(one);
        left -= 2;
        if (left > 0) rows += 2 * row_step, queries += 2 * query_step;
        one.load(rows, queries, side);
        tile.template add<false>(other);
    }
    if (left > 0) tile.template add<false>(one);
    if (s.block == plan.blocks - 1) tile.fold(s.sector, side);
}

template <int DTYPE, class Tile, bool EXACT>
__global__ void __launch_bounds__(TILE_THREADS, 1)
    tile_kernel(const __grid_constant__ struct tile_args args, const tile_plan plan) {
    extern __shared__ __align__(16) float staged[];
    int64_t first_query = (int64_t)blockIdx.x * plan.queries;
    int64_t first_row = args.first + ((int64_t)blockIdx.y + (int64_t)blockIdx.z * 65535) * plan.rows;
    if (first_row >= args.first + args.count) return;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps_across = plan.queries / WARP_QUERIES;
    int row = warp / warps_across * WARP_ROWS + (lane >> 2 & 1) + (lane >> 4 & 1) * 2;
    int query = warp % warps_across * WARP_QUERIES + (lane >> 3 & 1), own = (lane & 3) * 4;
    int queries_at = plan.rows * plan.block * SECTOR, stage_floats = queries_at + plan.queries * plan.block * SECTOR;
    const stager stager(args, plan, first_row, first_query);
    Tile tile(staged + 2 * stage_floats);
    stage now = {0, 0, 0}, later = {0, 0, 0};
    float *here = staged, *there = staged + stage_floats;
    stager.put<DTYPE, EXACT>(args, plan, later, here);
    __pipeline_commit();
    while (now.sector < 8) {
        later.next(plan);
        if (later.sector < 8) stager.put<DTYPE, EXACT>(args, plan, later, there);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        const float *rows = here + row * SECTOR + own, *queries = here + queries_at + query * SECTOR + own;
        /* Not unrolled: the loop has to stay in the smallest instruction cache. */
#pragma unroll 1
        for (int side = now.side; side <= (plan.blocks == 1 ? 1 : now.side); side++)
            side_add(tile, plan, now, side, rows, queries);
        __syncthreads();
        now = later;
        float *kept = here;
        here = there, there = kept;
    }
    float scores[OWN_PAIRS];
    tile.finish(scores, lane);
    int own_row = row + (lane & 3) * OWN_ROWS * 4;
    keys_append(args, plan, scores, first_row, first_query, own_row, query, (uint32_t *)staged);
}

template <int DTYPE, class Tile, bool EXACT> static cudaError_t tile_launch(const struct tile_args *args, cudaStream_t stream) {
    tile_plan plan;
    plan.queries = args->nq <= 16 ? 16 : 32;
    plan.rows = TILE_THREADS / 32 / (plan.queries / WARP_QUERIES) * WARP_ROWS;
    int64_t words = EXACT ? args->rows.stride_bytes / 4 : (int64_t)(args->rows.chunks + (args->rows.units > 0)) * 128;
    plan.chunks = (int)((words + 127) / 128);
    int chunk_bytes = (plan.rows + plan.queries) * SECTOR * 4,
        fit = (args->shared_most - 1024 - Tile::shared_floats * 4) / chunk_bytes;
    plan.block = fit / 2 < plan.chunks ? fit / 2 : plan.chunks;
    plan.blocks = (plan.chunks + plan.block - 1) / plan.block;
    int64_t row_tiles = (args->count + plan.rows - 1) / plan.rows;
    dim3 grid((unsigned)((args->nq + plan.queries - 1) / plan.queries), (unsigned)(row_tiles < 65535 ? row_tiles : 65535),
              (unsigned)((row_tiles + 65534) / 65535));
    size_t bytes = 2 * (size_t)plan.block * (size_t)chunk_bytes + Tile::shared_floats * sizeof(float);
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

cudaError_t load_tile(const struct packed_rows *rows, int shared_most) {
    cudaError_t error = kernel_load(tile_pick(rows, VIC_F32).kernel, shared_most);
    return error == cudaSuccess ? kernel_load(tile_pick(rows, rows->dtype).kernel, shared_most) : error;
}
