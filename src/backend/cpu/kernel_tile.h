/* Many float32 queries against a tile of rows: the body shared by the instruction sets. A file includes its lanes header,
 * sets TILE_VECTORS and TILE_QUERIES first, then fills `tile` of its table with TILE_TABLE.
 *
 * A lane is a row, so a register holds one of the 128 accumulators for LANES (row, query) pairs, no sum ever crosses
 * lanes, and dimensions cost what they are, 2 or 1007. The accumulators are not kept: each is a leaf of the halving tree,
 * summed over its chunks in a few multiply-adds, and the leaves are visited in the tree's own order, so that only one
 * waiting sum a level is alive (leaf numbers with their bits reversed; the waiting sums of a level meet as the carries of
 * a binary counter).
 *
 * Layout: the packed tile has the dimensions in that order, leaf after leaf and chunk after chunk, each TILE_VECTORS *
 * LANES rows side by side; packed queries the same with TILE_QUERIES side by side. Both are read front to back.
 *
 * Bound by the multiply-add units; with few chunks a leaf by the adds between leaves, whose waiting sums pass through the
 * first-level cache. Shares of one thread's multiply-add peak (AVX-512 272 GFLOPS, AVX2 135; AMD EPYC Zen 5, 2026-11-30) for
 * dot and for l2, which subtracts as well; a batch of 256 queries:
 *   dim       2           128         384         1007
 *   AVX-512   38 %, 35 %  60 %, 47 %  90 %, 70 %  95 %, 83 %
 *   AVX2      41 %, 40 %  50 %, 46 %  87 %, 65 %  93 %, 77 %
 *
 * The surprising rule: a leaf starts with a product, not with fma onto +0. The two differ in the sign of a zero alone,
 * and the + 0.0f at the end clears that. */
#ifndef CPU_KERNEL_TILE_H
#define CPU_KERNEL_TILE_H

#include "backend/cpu/kernels.h"

enum { LEVELS = 7, LEAVES = 1 << LEVELS, ROW_TILE = TILE_VECTORS * LANES };

/* ---------------------------------------------------------------- the order of dimensions */

/* The leaves of the smallest tree that holds `dim`: a power of two from 2 up to LEAVES. All of its left half exist. */
static int64_t leaf_count(int64_t dim) {
    int64_t count = 2;
    while (count < LEAVES && count < dim) count *= 2;
    return count;
}
/* The leaf that is visited after `leaf`: one more, with the bits in reverse order. */
INLINE int64_t leaf_after(int64_t leaf, int64_t count) {
    int64_t bit = count / 2;
    for (; leaf & bit; bit /= 2) leaf -= bit;
    return leaf + bit;
}
static int64_t leaf_chunks(int64_t leaf, int64_t dim) { return leaf < dim ? (dim - leaf + LEAVES - 1) / LEAVES : 0; }

/* starts[j]: the place of dimension j of the first chunk; dimension 128c + j is c places further. */
static void leaf_starts(int64_t dim, int64_t starts[LEAVES]) {
    int64_t count = leaf_count(dim), leaf = 0, place = 0;
    for (int64_t visit = 0; visit < count; visit++, leaf = leaf_after(leaf, count)) {
        starts[leaf] = place;
        place += leaf_chunks(leaf, dim);
    }
}

/* ---------------------------------------------------------------- packing */

static int64_t float_bytes_round(int64_t bytes) { return (bytes + 63) / 64 * 64; }
static int64_t float_rows_bytes(int64_t dim) { return float_bytes_round(dim * ROW_TILE * 4); }
static int64_t float_queries_bytes(int64_t dim) { return float_bytes_round(dim * TILE_QUERIES * 4); }

INLINE void rows_pack(enum vic_dtype dtype, int64_t element, const void *rows, int64_t n, int64_t dim, float *packed) {
    int64_t starts[LEAVES];
    leaf_starts(dim, starts);
    for (int64_t first = 0; first < ROW_TILE; first += LANES)
        for (int64_t d = 0; d < dim; d += LANES) {
            int64_t count = dim - d < LANES ? dim - d : LANES;
            floats x[LANES];
            for (int64_t r = 0; r < LANES; r++) {
                const char *row = (const char *)rows + (first + r) * dim * element;
                x[r] = first + r < n ? floats_load_some(dtype, row, d, count) : floats_zero();
                /* The same place of the next tile, which follows in memory and is wanted when this one has met all queries:
                 * without, reading rows from memory was a fifth of a batch of 256. Past the end it is harmless. */
                __builtin_prefetch(row + (ROW_TILE * dim + d) * element, 0, 2);
            }
            floats_transpose(x);
            for (int64_t k = 0; k < count; k++)
                floats_store(packed + (starts[(d + k) % LEAVES] + (d + k) / LEAVES) * ROW_TILE + first, x[k]);
        }
}

static void float_pack_queries(const void *queries, int64_t nq, int64_t dim, void *packed) {
    const float *from = queries;
    float *to = packed;
    int64_t starts[LEAVES];
    leaf_starts(dim, starts);
    for (int64_t d = 0; d < dim; d++) {
        float *place = to + (starts[d % LEAVES] + d / LEAVES) * TILE_QUERIES;
        for (int64_t q = 0; q < TILE_QUERIES; q++) place[q] = q < nq ? from[q * dim + d] : 0.0f;
    }
}

/* ---------------------------------------------------------------- sums */

/* One register a pair of LANES rows and a query. */
struct pairs {
    floats sum[TILE_QUERIES][TILE_VECTORS];
};

INLINE struct pairs pairs_step(enum kernel_op op, const float *x, const float *q, bool start, struct pairs p) {
    floats rows[TILE_VECTORS];
    for (int v = 0; v < TILE_VECTORS; v++) rows[v] = floats_load(VIC_F32, x, v * LANES);
    for (int i = 0; i < TILE_QUERIES; i++) {
        floats query = floats_broadcast(q + i);
        for (int v = 0; v < TILE_VECTORS; v++) {
            floats d = op == OP_L2 ? floats_sub(rows[v], query) : query;
            floats y = op == OP_L2 ? d : rows[v];
            p.sum[i][v] = start ? floats_mul(y, d) : floats_fma(y, d, p.sum[i][v]);
        }
    }
    return p;
}

INLINE struct pairs leaf_sum(enum kernel_op op, const float *x, const float *q, int64_t chunks) {
    struct pairs p = pairs_step(op, x, q, true, (struct pairs){0});
    for (int64_t c = 1; c < chunks; c++) p = pairs_step(op, x + c * ROW_TILE, q + c * TILE_QUERIES, false, p);
    return p;
}

INLINE struct pairs pairs_add(struct pairs a, const struct pairs *b) {
    for (int i = 0; i < TILE_QUERIES; i++) {
        for (int v = 0; v < TILE_VECTORS; v++) a.sum[i][v] = floats_add(a.sum[i][v], b->sum[i][v]);
    }
    return a;
}

INLINE void group_run(enum kernel_op op, const float *x, const float *q, int64_t dim, float *scores, int64_t ld) {
    struct pairs waiting[LEVELS], p = {0};
    int64_t half = leaf_count(dim) / 2, leaf = 0;
    for (int64_t visit = 0; visit < half; visit++, leaf = leaf_after(leaf, half)) {
        int64_t left = leaf_chunks(leaf, dim), right = leaf_chunks(leaf + half, dim);
        p = leaf_sum(op, x, q, left);
        x += left * ROW_TILE, q += left * TILE_QUERIES;
        if (right > 0) {
            struct pairs other = leaf_sum(op, x, q, right);
            p = pairs_add(p, &other);
            x += right * ROW_TILE, q += right * TILE_QUERIES;
        }
        int level = 0;
        for (; visit >> level & 1; level++) p = pairs_add(p, &waiting[level]);
        waiting[level] = p;
    }
    for (int i = 0; i < TILE_QUERIES; i++) {
        for (int v = 0; v < TILE_VECTORS; v++)
            floats_store(scores + i * ld + v * LANES, floats_add(p.sum[i][v], floats_zero()));
    }
}

static void float_run_dot(const void *rows, const void *queries, int64_t nq, int64_t dim, float *scores, int64_t ld) {
    for (int64_t q = 0; q < nq; q += TILE_QUERIES)
        group_run(OP_DOT, rows, (const float *)queries + q / TILE_QUERIES * float_queries_bytes(dim) / 4, dim, scores + q * ld,
                  ld);
}
static void float_run_l2(const void *rows, const void *queries, int64_t nq, int64_t dim, float *scores, int64_t ld) {
    for (int64_t q = 0; q < nq; q += TILE_QUERIES)
        group_run(OP_L2, rows, (const float *)queries + q / TILE_QUERIES * float_queries_bytes(dim) / 4, dim, scores + q * ld,
                  ld);
}

#define TILE_TYPE(type, dtype, element)                                                                                        \
    static void type##_pack(const void *rows, int64_t n, int64_t dim, void *packed) {                                          \
        rows_pack(dtype, element, rows, n, dim, packed);                                                                       \
    }                                                                                                                          \
    static const struct tile_kernel type##_tile[OP_COUNT] = {                                                                  \
        {ROW_TILE, TILE_QUERIES, float_rows_bytes, float_queries_bytes, type##_pack, float_pack_queries, float_run_dot},       \
        {ROW_TILE, TILE_QUERIES, float_rows_bytes, float_queries_bytes, type##_pack, float_pack_queries, float_run_l2}};

TILE_TYPE(f32, VIC_F32, 4)
TILE_TYPE(f16, VIC_F16, 2)
TILE_TYPE(bf16, VIC_BF16, 2)
TILE_TYPE(i8, VIC_I8, 1)
TILE_TYPE(u8, VIC_U8, 1)

#define TILE_TABLE                                                                                                             \
    {                                                                                                                          \
        [VIC_F32] = {&f32_tile[OP_DOT], &f32_tile[OP_L2]}, [VIC_F16] = {&f16_tile[OP_DOT], &f16_tile[OP_L2]},                  \
        [VIC_BF16] = {&bf16_tile[OP_DOT], &bf16_tile[OP_L2]}, [VIC_I8] = {&i8_tile[OP_DOT], &i8_tile[OP_L2]}, [VIC_U8] = {     \
            &u8_tile[OP_DOT],                                                                                                  \
            &u8_tile[OP_L2]                                                                                                    \
        }                                                                                                                      \
    }

#endif
