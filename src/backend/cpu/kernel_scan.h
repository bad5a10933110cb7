/* One float32 query against streamed rows, or against rows that lie anywhere, in lanes: the body shared by the instruction
 * sets. A file includes its lanes header and sets SCAN_PASSES first, then fills `scan` and `gather` of its table with
 * SCAN_TABLE(scan) and SCAN_TABLE(gather).
 *
 * Layout: the 128 accumulators of the canonical sum are 8 blocks of 16 neighbours. A pass holds every SCAN_PASSES-th
 * block of one row in registers and runs over the row; with two passes (AVX2: half of the blocks fill its registers) the
 * second finds the row in the first-level cache. Steps 64 and 32 of the tree, and 16 between passes, add whole blocks.
 * Steps 8 to 1 go across lanes, so the blocks of LANES rows are transposed first and one register of scores comes out.
 * Blocks that begin past dim are never loaded.
 *
 * Bound by reading rows. One thread, dim 384, rows far beyond the caches, beside a plain read of 41 GB/s in the same run (AMD
 * EPYC Zen 5, 2026-11-30): AVX-512 f32 41, f16 and bf16 39, i8 and u8 32, where conversion begins to count; AVX2 39, 37, 24.
 * Inside the caches AVX-512 reaches 110, 70 and 42 GB/s, AVX2 93, 52 and 27. */
#ifndef CPU_KERNEL_SCAN_H
#define CPU_KERNEL_SCAN_H

#include "backend/cpu/kernels.h"

enum { BLOCK = 16, BLOCKS = 8, CHUNK = BLOCK * BLOCKS, PARTS = BLOCK / LANES, HELD = BLOCKS / SCAN_PASSES };

struct block {
    floats part[PARTS];
};

INLINE struct block block_add(struct block a, struct block b) {
#pragma GCC unroll 16
    for (int p = 0; p < PARTS; p++) a.part[p] = floats_add(a.part[p], b.part[p]);
    return a;
}

/* sum + the products, or the squared differences, of `count` elements from i on; 1 <= count <= BLOCK. */
INLINE struct block block_step(enum vic_dtype dtype, enum kernel_op op, const void *row, const float *query, int64_t i,
                               int64_t count, struct block sum) {
#pragma GCC unroll 16
    for (int p = 0; p < PARTS; p++) {
        int64_t at = i + p * LANES, left = count - p * LANES;
        if (left <= 0) break;
        bool whole = left >= LANES;
        floats x = whole ? floats_load(dtype, row, at) : floats_load_some(dtype, row, at, left);
        floats q = whole ? floats_load(VIC_F32, query, at) : floats_load_some(VIC_F32, query, at, left);
        if (op == OP_L2) q = x = floats_sub(x, q);
        sum.part[p] = floats_fma(x, q, sum.part[p]);
    }
    return sum;
}

/* Blocks first, first + SCAN_PASSES ... of one row, added up to one block. */
INLINE struct block row_pass(enum vic_dtype dtype, enum kernel_op op, int64_t element, bool streams, const void *row,
                             int64_t dim, const float *query, int first) {
    struct block a[HELD];
#pragma GCC unroll 16
    for (int b = 0; b < HELD; b++) {
#pragma GCC unroll 16
        for (int p = 0; p < PARTS; p++) a[b].part[p] = floats_zero();
    }
    int64_t i = 0;
    for (; i + CHUNK <= dim; i += CHUNK) {
        if (streams && first == 0)
            for (int64_t byte = 0; byte < CHUNK * element; byte += 64) fetch_ahead((const char *)row + i * element + byte);
#pragma GCC unroll 16
        for (int b = 0; b < HELD; b++)
            a[b] = block_step(dtype, op, row, query, i + BLOCK * (first + b * SCAN_PASSES), BLOCK, a[b]);
    }
#pragma GCC unroll 16
    for (int b = 0; b < HELD; b++) {
        int64_t at = i + BLOCK * (first + b * SCAN_PASSES);
        if (at + BLOCK <= dim)
            a[b] = block_step(dtype, op, row, query, at, BLOCK, a[b]);
        else if (at < dim)
            a[b] = block_step(dtype, op, row, query, at, dim - at, a[b]);
    }
#pragma GCC unroll 16
    for (int w = HELD / 2; w >= 1; w /= 2) {
#pragma GCC unroll 16
        for (int b = 0; b < w; b++) a[b] = block_add(a[b], a[b + w]);
    }
    return a[0];
}

INLINE struct block row_block(enum vic_dtype dtype, enum kernel_op op, int64_t element, bool streams, const void *row,
                              int64_t dim, const float *query) {
    struct block sum = row_pass(dtype, op, element, streams, row, dim, query, 0);
    for (int pass = 1; pass < SCAN_PASSES; pass++)
        sum = block_add(sum, row_pass(dtype, op, element, streams, row, dim, query, pass));
    return sum;
}

/* Steps 8, 4, 2, 1 for LANES rows; lane r of the answer is row r's sum, never -0. */
INLINE floats blocks_sum(const struct block blocks[LANES]) {
    floats t[LANES];
#pragma GCC unroll 16
    for (int r = 0; r < LANES; r++) {
        struct block sum = blocks[r];
#pragma GCC unroll 16
        for (int w = PARTS / 2; w >= 1; w /= 2) {
#pragma GCC unroll 16
            for (int p = 0; p < w; p++) sum.part[p] = floats_add(sum.part[p], sum.part[p + w]);
        }
        t[r] = sum.part[0];
    }
    floats_transpose(t);
#pragma GCC unroll 16
    for (int w = LANES / 2; w >= 1; w /= 2) {
#pragma GCC unroll 16
        for (int j = 0; j < w; j++) t[j] = floats_add(t[j], t[j + w]);
    }
    return floats_add(t[0], floats_zero());
}

/* which NULL: rows 0 .. n - 1. */
INLINE void scan_rows(enum vic_dtype dtype, enum kernel_op op, int64_t element, const void *rows, const uint32_t *which,
                      int64_t n, int64_t dim, const float *query, float *scores) {
    struct block blocks[LANES] = {0};
    for (int64_t i = 0; i < GATHER_AHEAD; i++) row_fetch(rows, which, i, n, dim * element);
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t count = n - i < LANES ? n - i : LANES;
        for (int64_t r = 0; r < count; r++) {
            row_fetch(rows, which, i + r + GATHER_AHEAD, n, dim * element);
            blocks[r] = row_block(dtype, op, element, !which, row_at(rows, which, i + r, dim * element), dim, query);
        }
        float group[LANES];
        floats_store(group, blocks_sum(blocks));
        memcpy(scores + i, group, (size_t)count * sizeof *scores);
    }
}

#define SCAN(type, dtype, element, name, op)                                                                                   \
    static void type##_scan_##name(const void *rows, int64_t n, int64_t dim, const void *query, float *scores) {               \
        scan_rows(dtype, op, element, rows, NULL, n, dim, query, scores);                                                      \
    }                                                                                                                          \
    static void type##_gather_##name(const void *rows, const uint32_t *which, int64_t n, int64_t dim, const void *query,       \
                                     float *scores) {                                                                          \
        scan_rows(dtype, op, element, rows, which, n, dim, query, scores);                                                     \
    }
#define SCAN_TYPE(type, dtype, element)                                                                                        \
    SCAN(type, dtype, element, dot, OP_DOT)                                                                                    \
    SCAN(type, dtype, element, l2, OP_L2)

SCAN_TYPE(f32, VIC_F32, 4)
SCAN_TYPE(f16, VIC_F16, 2)
SCAN_TYPE(bf16, VIC_BF16, 2)
SCAN_TYPE(i8, VIC_I8, 1)
SCAN_TYPE(u8, VIC_U8, 1)

#define SCAN_TABLE(form)                                                                                                       \
    {                                                                                                                          \
        [VIC_F32] = {f32_##form##_dot, f32_##form##_l2}, [VIC_F16] = {f16_##form##_dot, f16_##form##_l2},                      \
        [VIC_BF16] = {bf16_##form##_dot, bf16_##form##_l2}, [VIC_I8] = {i8_##form##_dot, i8_##form##_l2}, [VIC_U8] = {         \
            u8_##form##_dot,                                                                                                   \
            u8_##form##_l2                                                                                                     \
        }                                                                                                                      \
    }

#endif
