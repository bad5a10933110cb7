/* How tiles' rows and queries come to shared memory, a stage at a time, and where each number lies there.
 *
 * A stage holds one or more sectors of a tile: 16 neighbouring places of each chunk (common.cuh), which are (b1, b0) x (b6, b5)
 * for one (b4, b3, b2). Stages are asked for while the one before is summed. From sm_90 on the copy engine brings them
 * (bulk.cuh): one thread asks, and what the other ways cost every thread was a fifth of the time of a tile. Elsewhere, and for
 * vectors that are not whole chunks, threads copy by cp.async. Narrow types come as they are and are converted in between. */
#ifndef CUDA_TILE_STAGE_CUH
#define CUDA_TILE_STAGE_CUH

#include "backend/cuda/bulk.cuh"

#include <cuda_pipeline.h>

enum { TILE_THREADS = 128, SECTOR = 16, SECTORS = 8, STAGES = 2 };

/* What the host decided: how lanes lie, and how sectors are cut into stages. */
struct tile_plan {
    int rows, queries;         /* pairs of a block */
    int chunks, block, blocks; /* chunks of a row or its words, chunks a stage, stages a sector */
    int sectors;               /* sectors a stage; 1 when there are several blocks */
    int stage_floats;          /* all of a stage */
    int raw_bytes;             /* narrow types: a stage's rows as they come */
    bool bulk;                 /* the copy engine brings stages (bulk.cuh) */
    uint32_t tiles, across;    /* all tiles; tiles of queries side by side */
    __host__ __device__ int slots() const { return sectors * block; }
    __host__ __device__ int row_step() const { return rows * SECTOR; } /* floats to the next chunk */
    __host__ __device__ int query_step() const { return queries * SECTOR; }
    __host__ __device__ int queries_at() const { return slots() * row_step(); }
};
/* For the engine: the rows, and the queries. */
struct tile_maps {
    CUtensorMap rows, queries;
};

/* A stage: some sectors, one block of their chunks. */
struct stage {
    uint32_t tile;
    int sector, block;
    __device__ void next(const tile_plan &plan) {
        if (++block < plan.blocks) return;
        block = 0;
        if ((sector += plan.sectors) < SECTORS) return;
        sector = 0, tile += gridDim.x;
    }
    /* Of its tile. */
    __device__ bool last(const tile_plan &plan) const { return block == plan.blocks - 1 && sector + plan.sectors == SECTORS; }
    __device__ int64_t first_row(const struct tile_args &args, const tile_plan &plan) const {
        return args.first + (int64_t)(tile / plan.across) * plan.rows;
    }
    __device__ int64_t first_query(const tile_plan &plan) const { return (int64_t)(tile % plan.across) * plan.queries; }
};

/* ---- staging: [sector][chunk][row][16 floats or words], then the same of queries
 *
 * A row's four quarters change places by its bits 1 and 2, so that four neighbouring rows have the same quarter in different
 * banks. A copy must keep a row's 64 bytes together: with quarters strewn about, copies took eight times their time. */

__device__ static int swizzled(int quarter, int row) { return (quarter ^ (row >> 1 & 3)) * 4; }

/* `count` pieces of BYTES bytes, from one every STEP bytes to one every `to_step`. */
template <int BYTES, int STEP> __device__ inline void copy_pieces(char *to, int to_step, const char *from, int count) {
    enum { AT_ONCE = 4 };
#pragma unroll 1
    for (; count >= AT_ONCE; count -= AT_ONCE, to += AT_ONCE * to_step, from += AT_ONCE * STEP)
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) __pipeline_memcpy_async(to + i * to_step, from + i * STEP, BYTES);
#pragma unroll 1
    for (; count > 0; count--, to += to_step, from += STEP) __pipeline_memcpy_async(to, from, BYTES);
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

/* How a stage comes. By the copy engine: one thread asks for two boxes a sector. Else each thread copies a quarter of the
 * sectors of some vectors, rows first, then queries; their addresses are made once a tile and kept in shared memory: made for
 * each stage they were as many instructions as a fifth of the products. */
template <int DTYPE, bool EXACT> struct stager {
    static constexpr bool copied = EXACT || DTYPE == VIC_F32; /* no conversion */
    static constexpr int bytes = copied ? 4 : reading<DTYPE>::bytes;
    enum { QUADS = TILE_THREADS / 4, VECTORS_MOST = 3 };
    struct sources { /* one every TILE_THREADS is this thread's: its quarter of the vector's first sector */
        const char *vectors[VECTORS_MOST][TILE_THREADS];
    };
    const struct tile_args &args;
    const tile_plan &plan;
    const tile_maps &maps;
    char *raw; /* narrow types as they come: [sector][chunk][row][16 elements] */
    uint64_t *barriers;
    sources *from;
    int quad, quarter, place;

    __device__ stager(const struct tile_args &args_, const tile_plan &plan_, const tile_maps &maps_, char *raw_,
                      uint64_t *barriers_, sources *from_)
        : args(args_), plan(plan_), maps(maps_), raw(raw_), barriers(barriers_), from(from_), quad(threadIdx.x >> 2),
          quarter(threadIdx.x & 3), place(quad * SECTOR + swizzled(quarter, quad)) {}

    /* Chunks of the stage of which a vector of `chunks` has something. */
    __device__ int inside(const stage &s, int chunks) const { return max(0, min(plan.block, chunks - s.block * plan.block)); }

    /* ---- by the engine; one thread */
    __device__ void ask(const stage &s, float *target, uint64_t *barrier) const {
        int row = (int)s.first_row(args, plan), query = (int)s.first_query(plan), chunk = s.block * plan.block;
        int row_bytes = plan.block * plan.rows * SECTOR * bytes, query_bytes = plan.block * plan.query_step() * 4;
        bulk_expect(barrier, (uint32_t)(plan.sectors * (row_bytes + query_bytes)));
        char *rows = copied ? (char *)target : raw, *queries = (char *)(target + plan.queries_at());
#pragma unroll 1
        for (int j = 0; j < plan.sectors; j++) {
            bulk_copy(rows + j * row_bytes, &maps.rows, (s.sector + j) * SECTOR, row, chunk, barrier);
            bulk_copy(queries + j * query_bytes, &maps.queries, (s.sector + j) * SECTOR, query, chunk, barrier);
        }
    }

    /* ---- by all threads */
    __device__ void aim(const stage &s) const {
        int64_t first = s.first_row(args, plan) + quad, last = args.first + args.count - 1;
        int i = 0;
        for (; i * QUADS < plan.rows; i++)
            from->vectors[i][threadIdx.x] =
                (const char *)args.rows.data + min(first + i * QUADS, last) * args.rows.stride_bytes + quarter * (4 * bytes);
        int64_t query = min(s.first_query(plan) + quad, args.nq - 1);
        from->vectors[i][threadIdx.x] = (const char *)args.queries + query * args.query_stride + quarter * 16;
    }
    /* One sector of a vector of float32, or of words: then zeroes behind its end. */
    __device__ void copy_sector(const stage &s, int sector, const char *vector, int chunks, float *to, int step) const {
        int at = s.block * plan.block * 512 + sector * (SECTOR * 4), count = inside(s, chunks), full = count;
        if (EXACT) full = min(count, max(0, ((int)args.rows.stride_bytes - at - quarter * 16 + 511) >> 9));
        copy_pieces<16, 512>((char *)to, step * 4, vector + at, full);
        if constexpr (EXACT)
            for (int c = full; c < count; c++) *(float4 *)(to + c * step) = make_float4(0, 0, 0, 0);
    }
    __device__ char *raw_at(int sector, int row) const {
        return raw + (sector * plan.block * plan.rows + row) * (SECTOR * bytes) + quarter * (4 * bytes);
    }
    __device__ void copy_row(const stage &s, int row, const char *vector, float *target) const {
#pragma unroll 1
        for (int j = 0; j < plan.sectors; j++) {
            if (copied)
                copy_sector(s, s.sector + j, vector, EXACT ? plan.chunks : args.rows.chunks,
                            target + j * plan.block * plan.row_step(), plan.row_step());
            else
                copy_pieces<4 * bytes, 128 * bytes>(raw_at(j, row), plan.rows * SECTOR * bytes,
                                                    vector + (s.block * plan.block * 128 + (s.sector + j) * SECTOR) * bytes,
                                                    inside(s, args.rows.chunks));
        }
    }
    /* The chunk behind the whole ones, gathered: its elements lie apart. */
    __device__ void put_rest(const stage &s, float *target) const {
        int chunk = args.rows.chunks - s.block * plan.block;
        if (args.rows.units == 0 || chunk < 0 || chunk >= plan.block) return;
#pragma unroll 1
        for (int i = 0; i * QUADS < plan.rows; i++)
#pragma unroll 1
            for (int j = 0; j < plan.sectors; j++)
                *(float4 *)(target + i * QUADS * SECTOR + (j * plan.block + chunk) * plan.row_step()) = rest_quarter<DTYPE>(
                    args.rows, from->vectors[i][threadIdx.x] - quarter * (4 * bytes), s.sector + j, quarter);
    }
    __device__ void copy(const stage &s, float *target) const {
        if (s.sector == 0 && s.block == 0) aim(s);
        target += place;
        int i = 0;
#pragma unroll 1
        for (; i * QUADS < plan.rows; i++)
            copy_row(s, i * QUADS + quad, from->vectors[i][threadIdx.x], target + i * QUADS * SECTOR);
        if (quad < plan.queries)
#pragma unroll 1
            for (int j = 0; j < plan.sectors; j++)
                copy_sector(s, s.sector + j, from->vectors[i][threadIdx.x], plan.chunks,
                            target + plan.queries_at() + j * plan.block * plan.query_step(), plan.query_step());
        if constexpr (!EXACT) put_rest(s, target);
    }

    /* ---- either way */
    __device__ void start() const {
        if (!plan.bulk) return;
        if (threadIdx.x == 0)
            for (int i = 0; i < STAGES; i++) bulk_start(barriers + i);
        __syncthreads();
    }
    /* Asks for a stage, the `turn`-th of this block. */
    __device__ void put(const stage &s, float *target, uint32_t turn) const {
        if (!plan.bulk) {
            copy(s, target);
            __pipeline_commit();
        } else if (threadIdx.x == 0) {
            ask(s, target, barriers + turn % STAGES);
        }
    }
    /* It is there, for this thread to read: after a __syncthreads() where threads have copied or converted. */
    __device__ void take(const stage &s, float *target, uint32_t turn) const {
        if (plan.bulk)
            bulk_wait(barriers + turn % STAGES, turn / STAGES);
        else
            __pipeline_wait_prior(0);
        if (!copied) convert(s, target);
        __syncthreads();
    }
    __device__ void convert(const stage &s, float *target) const {
        int count = inside(s, args.rows.chunks);
        for (int i = 0; i * QUADS < plan.rows; i++)
            for (int j = 0; j < plan.sectors; j++) {
                float *to = target + place + i * QUADS * SECTOR + j * plan.block * plan.row_step();
                const char *there = raw_at(j, i * QUADS + quad);
#pragma unroll 4
                for (int c = 0; c < count; c++, to += plan.row_step(), there += plan.rows * SECTOR * bytes) {
                    uint4 load = {0, 0, 0, 0};
                    load.x = *(const uint32_t *)there;
                    if (bytes == 2) load.y = *(const uint32_t *)(there + 4);
                    *(float4 *)to = load_four<DTYPE>(load, 0);
                }
            }
    }
};

#endif
