/* Exact sums of 8-bit vectors against queries of their own type: the body shared by the instruction sets. A file includes
 * its lanes header, defines what is listed below, then fills its table with SCAN_EXACT_TABLE(scan), TILE_EXACT_TABLE and, with
 * GATHER_EXACT before it, SCAN_EXACT_TABLE(gather).
 *
 * The idea: integers may be added in any order, so nothing of the canonical order binds here. Every sum of this library is
 * below 2^32 in magnitude (255 * 255 * 65,536 = 4,261,478,400), so 32-bit lanes that wrap around hold it exactly, whatever
 * happened on the way; only the signed sum, the dot of int8 (at most 2^30), is read as signed. One conversion rounds.
 *
 * Scans are bound by reading rows: 38 GB/s of a plain read's 41 on one thread, dim 384, inside the caches VNNI 82 (dot) and 72,
 * AVX2 52 and 43. Tiles are bound by the multiply-add units: VNNI 1,040 GOPS of a peak of 1,070, AVX2 222 of 238 (dim 384; 128:
 * 1,000 and 216). AMD EPYC Zen 5, 2026-11-30.
 *
 * What the including file defines:
 *   EXACT_DIMS                           elements a 32-bit word of a packed tile: 2 (16-bit products) or 4 (8-bit products)
 *   EXACT_VECTORS, EXACT_QUERIES         the register tile
 *   exact_rows, exact_queries            LANES words of a row or a query, from `count` elements; zeros behind them in a query
 *   exact_step                           sum + products of words
 *   exact_row_shift, exact_query_shift   what the two loads added to each element; one of them is 0 */
#ifndef CPU_KERNEL_EXACT_H
#define CPU_KERNEL_EXACT_H

#include "backend/cpu/kernels.h"

_Static_assert(INT64_C(255) * 255 * DIM_MAX <= UINT32_MAX, "every exact sum fits in 32 bits");

/* The sums of LANES rows, added up across lanes by a transposition. */
INLINE words words_sum(const words rows[LANES]) {
    floats t[LANES];
    for (int r = 0; r < LANES; r++) t[r] = words_as_floats(rows[r]);
    floats_transpose(t);
    words sum = floats_as_words(t[0]);
    for (int j = 1; j < LANES; j++) sum = words_add(sum, floats_as_words(t[j]));
    return sum;
}

/* ---------------------------------------------------------------- one query */

enum { STEP = 2 * LANES };

INLINE words shorts_term(enum vic_dtype dtype, enum kernel_op op, const void *row, const void *query, int64_t i, int64_t count,
                         words sum) {
    words x = shorts_load(dtype, row, i, count), q = shorts_load(dtype, query, i, count);
    if (op == OP_L2) q = x = shorts_sub(x, q);
    return shorts_step(sum, x, q);
}

INLINE words row_words(enum vic_dtype dtype, enum kernel_op op, bool streams, const char *row, const void *query, int64_t dim) {
    words even = words_zero(), odd = words_zero();
    int64_t i = 0;
    for (; i + 2 * STEP <= dim; i += 2 * STEP) {
        if (streams) fetch_ahead(row + i);
        even = shorts_term(dtype, op, row, query, i, STEP, even);
        odd = shorts_term(dtype, op, row, query, i + STEP, STEP, odd);
    }
    if (i + STEP <= dim) even = shorts_term(dtype, op, row, query, i, STEP, even), i += STEP;
    if (i < dim) odd = shorts_term(dtype, op, row, query, i, dim - i, odd);
    return words_add(even, odd);
}

/* Rows in order as scores, or those of `which` as sums: 32 bits a row either way. */
INLINE void exact_scan(enum vic_dtype dtype, enum kernel_op op, const void *rows, const uint32_t *which, int64_t n, int64_t dim,
                       const void *query, void *target) {
    words sums[LANES] = {0};
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t count = n - i < LANES ? n - i : LANES;
        for (int64_t r = 0; r < count; r++) sums[r] = row_words(dtype, op, !which, row_at(rows, which, i + r, dim), query, dim);
        uint32_t group[LANES];
        words sum = words_sum(sums);
        words_store(group, which ? sum : floats_as_words(words_round(sum, dtype == VIC_I8 && op == OP_DOT)));
        memcpy((char *)target + i * (int64_t)sizeof *group, group, (size_t)count * sizeof *group);
    }
}

/* ---------------------------------------------------------------- packing
 * A tile is EXACT_VECTORS * LANES constants, one a row, then word after word of the rows side by side; a group of queries
 * the same. With rows x + a and queries q + b as loaded (a or b is 0):
 *   dot = sum (x+a)(q+b) - b sum x - a sum q          l2 = sum x^2 + sum q^2 - 2 dot
 * and the constants are what belongs to one side alone. */

enum { EXACT_ROWS = EXACT_VECTORS * LANES, WORD_DIMS = LANES * EXACT_DIMS };

static const char zeros[WORD_DIMS]; /* the vectors that fill up a tile or a group: they are shifted as well */

static int64_t exact_words(int64_t dim) { return (dim + EXACT_DIMS - 1) / EXACT_DIMS; }
static int64_t exact_rows_bytes(int64_t dim) { return (exact_words(dim) + 1) * EXACT_ROWS * 4; }
static int64_t exact_queries_bytes(int64_t dim) { return ((exact_words(dim) + 1) * EXACT_QUERIES * 4 + 63) / 64 * 64; }

/* -shift x, or x (x + 2 shift), added up over `count` elements. */
INLINE words constant_step(enum vic_dtype dtype, enum kernel_op op, const void *vector, int64_t i, int64_t count, int shift,
                           words sum) {
    words x = shorts_load(dtype, vector, i, count);
    return shorts_step(sum, x, op == OP_DOT ? shorts_broadcast(-shift) : shorts_add(x, shorts_broadcast(2 * shift)));
}
/* The constant of one vector, where the other side is loaded with `shift` added. */
INLINE uint32_t exact_constant(enum vic_dtype dtype, enum kernel_op op, const void *vector, int64_t dim, int shift) {
    if (op == OP_DOT && shift == 0) return 0;
    words sum = words_zero();
    int64_t i = 0;
    for (; i + STEP <= dim; i += STEP) sum = constant_step(dtype, op, vector, i, STEP, shift, sum);
    if (i < dim) sum = constant_step(dtype, op, vector, i, dim - i, shift, sum);
    uint32_t lanes[LANES], total = 0;
    words_store(lanes, sum);
    for (int j = 0; j < LANES; j++) total += lanes[j];
    return total;
}

INLINE void exact_pack_rows(enum vic_dtype dtype, enum kernel_op op, const void *rows, int64_t n, int64_t dim,
                            uint32_t *packed) {
    for (int64_t r = 0; r < EXACT_ROWS; r++)
        packed[r] = r < n ? exact_constant(dtype, op, (const char *)rows + r * dim, dim, exact_query_shift(dtype)) : 0;
    packed += EXACT_ROWS;
    for (int64_t first = 0; first < EXACT_ROWS; first += LANES)
        for (int64_t d = 0; d < dim; d += WORD_DIMS) {
            int64_t count = dim - d < WORD_DIMS ? dim - d : WORD_DIMS;
            floats x[LANES];
            for (int64_t r = 0; r < LANES; r++) {
                const char *row = (const char *)rows + (first + r) * dim;
                x[r] = words_as_floats(first + r < n ? exact_rows(dtype, row, d, count) : exact_rows(dtype, zeros, 0, count));
            }
            floats_transpose(x);
            for (int64_t k = 0; k < exact_words(count); k++)
                words_store(packed + (d / EXACT_DIMS + k) * EXACT_ROWS + first, floats_as_words(x[k]));
        }
}

INLINE void exact_pack_queries(enum vic_dtype dtype, enum kernel_op op, const void *queries, int64_t nq, int64_t dim,
                               uint32_t *packed) {
    for (int64_t q = 0; q < EXACT_QUERIES; q++) {
        const char *query = (const char *)queries + q * dim;
        packed[q] = q < nq ? exact_constant(dtype, op, query, dim, exact_row_shift(dtype)) : 0;
        for (int64_t d = 0; d < dim; d += WORD_DIMS) {
            int64_t count = dim - d < WORD_DIMS ? dim - d : WORD_DIMS;
            uint32_t x[LANES];
            words_store(x, q < nq ? exact_queries(dtype, query, d, count) : exact_queries(dtype, zeros, 0, count));
            for (int64_t k = 0; k < exact_words(count); k++) packed[(1 + d / EXACT_DIMS + k) * EXACT_QUERIES + q] = x[k];
        }
    }
}

/* ---------------------------------------------------------------- many queries */

/* One register a pair of LANES rows and a query. */
struct totals {
    words sum[EXACT_QUERIES][EXACT_VECTORS];
};

INLINE struct totals totals_step(const uint32_t *x, const uint32_t *q, struct totals t) {
    words rows[EXACT_VECTORS];
    for (int v = 0; v < EXACT_VECTORS; v++) rows[v] = words_load(x + v * LANES);
    for (int i = 0; i < EXACT_QUERIES; i++) {
        words query = words_broadcast(q + i);
        for (int v = 0; v < EXACT_VECTORS; v++) t.sum[i][v] = words_pinned(exact_step(t.sum[i][v], rows[v], query));
    }
    return t;
}

INLINE void exact_group_run(enum kernel_op op, bool is_signed, const uint32_t *rows, const uint32_t *queries, int64_t dim,
                            float *scores, int64_t ld) {
    struct totals t = {0};
    int64_t count = exact_words(dim);
    for (int64_t w = 1; w <= count; w++) t = totals_step(rows + w * EXACT_ROWS, queries + w * EXACT_QUERIES, t);
    for (int i = 0; i < EXACT_QUERIES; i++)
        for (int v = 0; v < EXACT_VECTORS; v++) {
            words own = words_add(words_load(rows + v * LANES), words_broadcast(queries + i)), dot = t.sum[i][v];
            words total = op == OP_DOT ? words_add(own, dot) : words_sub(own, words_add(dot, dot));
            floats_store(scores + i * ld + v * LANES, words_round(total, is_signed));
        }
}

#define EXACT(type, dtype, name, op)                                                                                           \
    static void type##_scan_exact_##name(const void *rows, int64_t n, int64_t dim, const void *query, float *scores) {         \
        exact_scan(dtype, op, rows, NULL, n, dim, query, scores);                                                              \
    }                                                                                                                          \
    static void type##_pack_rows_##name(const void *rows, int64_t n, int64_t dim, void *packed) {                              \
        exact_pack_rows(dtype, op, rows, n, dim, packed);                                                                      \
    }                                                                                                                          \
    static void type##_pack_queries_##name(const void *queries, int64_t nq, int64_t dim, void *packed) {                       \
        exact_pack_queries(dtype, op, queries, nq, dim, packed);                                                               \
    }                                                                                                                          \
    static void type##_run_##name(const void *rows, const void *queries, int64_t nq, int64_t dim, float *scores, int64_t ld) { \
        for (int64_t q = 0; q < nq; q += EXACT_QUERIES)                                                                        \
            exact_group_run(op, dtype == VIC_I8 && op == OP_DOT, rows,                                                         \
                            (const uint32_t *)queries + q / EXACT_QUERIES * exact_queries_bytes(dim) / 4, dim,                 \
                            scores + q * ld, ld);                                                                              \
    }                                                                                                                          \
    static const struct tile_kernel type##_tile_exact_##name = {                                                               \
        EXACT_ROWS,          EXACT_QUERIES,           exact_rows_bytes,                                                        \
        exact_queries_bytes, type##_pack_rows_##name, type##_pack_queries_##name,                                              \
        type##_run_##name};

EXACT(i8, VIC_I8, dot, OP_DOT)
EXACT(i8, VIC_I8, l2, OP_L2)
EXACT(u8, VIC_U8, dot, OP_DOT)
EXACT(u8, VIC_U8, l2, OP_L2)

/* For a table that has no better one for rows that lie anywhere. */
#define GATHER_EXACT(type, dtype, name, op)                                                                                    \
    static void type##_gather_exact_##name(const void *rows, const uint32_t *which, int64_t n, int64_t dim, const void *query, \
                                           uint32_t *sums) {                                                                   \
        exact_scan(dtype, op, rows, which, n, dim, query, sums);                                                               \
    }

#define SCAN_EXACT_TABLE(form)                                                                                                 \
    {                                                                                                                          \
        [VIC_I8] = {i8_##form##_exact_dot, i8_##form##_exact_l2}, [VIC_U8] = { u8_##form##_exact_dot, u8_##form##_exact_l2 }   \
    }
#define TILE_EXACT_TABLE                                                                                                       \
    {                                                                                                                          \
        [VIC_I8] = {&i8_tile_exact_dot, &i8_tile_exact_l2}, [VIC_U8] = { &u8_tile_exact_dot, &u8_tile_exact_l2 }               \
    }

#endif
