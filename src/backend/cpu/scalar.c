/* The reference: every kernel as its definition reads, what an old processor runs, and what every other table must equal
 * bit for bit.
 *
 * The surprising rule: fmaf is called, never written as a * b + c, so that the compiler's flags cannot change a bit. Where
 * the processor has no fused multiply-add the C library computes it exactly in software: slow, and the same.
 * Measured (AMD EPYC Zen 5, 2026-11-30): 1.4 GFLOPS a thread, bound by the calls of fmaf. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/sums.h"

#include "base/mem.h"
#include "base/topk.h"

#include <math.h>

enum { CHUNK = 128, ROW_TILE = 16 };

/* ---------------------------------------------------------------- conversions */

static void f32_to_float(const void *source, int64_t n, float *target) { memcpy(target, source, (size_t)n * sizeof *target); }
static void f16_to_float(const void *source, int64_t n, float *target) {
    for (int64_t i = 0; i < n; i++) target[i] = dtype_load(VIC_F16, source, i);
}
static void bf16_to_float(const void *source, int64_t n, float *target) {
    for (int64_t i = 0; i < n; i++) target[i] = dtype_load(VIC_BF16, source, i);
}
static void i8_to_float(const void *source, int64_t n, float *target) {
    for (int64_t i = 0; i < n; i++) target[i] = ((const int8_t *)source)[i];
}
static void u8_to_float(const void *source, int64_t n, float *target) {
    for (int64_t i = 0; i < n; i++) target[i] = ((const uint8_t *)source)[i];
}

static void float_to_f32(const float *source, int64_t n, void *target) { memcpy(target, source, (size_t)n * sizeof *source); }
static void float_to_f16(const float *source, int64_t n, void *target) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t half = f16_from_float(source[i]);
        memcpy((char *)target + i * 2, &half, sizeof half);
    }
}
static void float_to_bf16(const float *source, int64_t n, void *target) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t half = bf16_from_float(source[i]);
        memcpy((char *)target + i * 2, &half, sizeof half);
    }
}

static int64_t first_not_finite(enum vic_dtype dtype, const void *source, int64_t n) {
    int64_t i = 0;
    while (i < n && float_finite(dtype_load(dtype, source, i))) i++;
    return i;
}
static int64_t f32_first_not_finite(const void *source, int64_t n) { return first_not_finite(VIC_F32, source, n); }
static int64_t f16_first_not_finite(const void *source, int64_t n) { return first_not_finite(VIC_F16, source, n); }
static int64_t bf16_first_not_finite(const void *source, int64_t n) { return first_not_finite(VIC_BF16, source, n); }

static float largest(const float *source, int64_t n) {
    float best = 0;
    for (int64_t i = 0; i < n; i++) best = fabsf(source[i]) > best ? fabsf(source[i]) : best;
    return best;
}

/* ---------------------------------------------------------------- the sums */

typedef void to_float_kernel(const void *source, int64_t n, float *target);

/* The canonical sum of one row of `element` bytes a dimension. */
static float canonical_sum(to_float_kernel *to_float, int64_t element, enum kernel_op op, const void *row, const float *query,
                           int64_t dim) {
    float a[CHUNK] = {0}, x[CHUNK];
    for (int64_t start = 0; start < dim; start += CHUNK) {
        int64_t count = dim - start < CHUNK ? dim - start : CHUNK;
        to_float((const char *)row + start * element, count, x);
        for (int64_t j = 0; j < count; j++) {
            float q = query[start + j], d = x[j] - q;
            a[j] = op == OP_DOT ? fmaf(x[j], q, a[j]) : fmaf(d, d, a[j]);
        }
    }
    for (int w = CHUNK / 2; w >= 1; w /= 2)
        for (int j = 0; j < w; j++) a[j] = a[j] + a[j + w];
    return a[0] + 0.0f;
}

/* The exact sum: at most 255 * 255 * 65,536 in magnitude, far inside 64 bits. */
static int64_t exact_sum(enum vic_dtype dtype, enum kernel_op op, const void *row, const void *query, int64_t dim) {
    int64_t sum = 0;
    for (int64_t j = 0; j < dim; j++) {
        int64_t x = dtype == VIC_I8 ? ((const int8_t *)row)[j] : ((const uint8_t *)row)[j];
        int64_t q = dtype == VIC_I8 ? ((const int8_t *)query)[j] : ((const uint8_t *)query)[j];
        sum += op == OP_DOT ? x * q : (x - q) * (x - q);
    }
    return sum;
}

/* ---------------------------------------------------------------- scans and tiles: the sums over many rows */

/* Tiles are packed as they come: float32 (exact tiles: bytes) row after row, the padding rows zero. */
static int64_t float_rows_bytes(int64_t dim) { return ROW_TILE * dim * 4; }
static int64_t float_query_bytes(int64_t dim) { return (int64_t)round_up((uint64_t)dim * 4, 64); }
static int64_t exact_rows_bytes(int64_t dim) { return (int64_t)round_up((uint64_t)(ROW_TILE * dim), 64); }
static int64_t exact_query_bytes(int64_t dim) { return (int64_t)round_up((uint64_t)dim, 64); }

static void exact_pack_rows(const void *rows, int64_t n, int64_t dim, void *packed) {
    memset(packed, 0, (size_t)exact_rows_bytes(dim));
    memcpy(packed, rows, (size_t)(n * dim));
}
static void exact_pack_queries(const void *queries, int64_t nq, int64_t dim, void *packed) {
    memcpy(packed, queries, (size_t)(nq * dim));
}
static void float_pack_queries(const void *queries, int64_t nq, int64_t dim, void *packed) {
    memcpy(packed, queries, (size_t)(nq * dim) * 4);
}

static void float_scan(to_float_kernel *to_float, int64_t element, enum kernel_op op, const void *rows, int64_t n, int64_t dim,
                       const void *query, float *scores) {
    for (int64_t i = 0; i < n; i++)
        scores[i] = canonical_sum(to_float, element, op, (const char *)rows + i * dim * element, query, dim);
}
static void exact_scan(enum vic_dtype dtype, enum kernel_op op, const void *rows, int64_t n, int64_t dim, const void *query,
                       float *scores) {
    for (int64_t i = 0; i < n; i++) scores[i] = (float)exact_sum(dtype, op, (const char *)rows + i * dim, query, dim);
}

static void float_gather(to_float_kernel *to_float, int64_t element, enum kernel_op op, const void *rows, const uint32_t *which,
                         int64_t n, int64_t dim, const void *query, float *scores) {
    for (int64_t i = 0; i < n; i++)
        scores[i] = canonical_sum(to_float, element, op, (const char *)rows + which[i] * dim * element, query, dim);
}
static void exact_gather(enum vic_dtype dtype, enum kernel_op op, const void *rows, const uint32_t *which, int64_t n,
                         int64_t dim, const void *query, uint32_t *sums) {
    for (int64_t i = 0; i < n; i++) sums[i] = (uint32_t)exact_sum(dtype, op, (const char *)rows + which[i] * dim, query, dim);
}

/* One function and, for tiles, one row of pointers for each pair of a type and an operation. */
#define FLOAT_SCAN(type, element, name, op)                                                                                    \
    static void type##_scan_##name(const void *rows, int64_t n, int64_t dim, const void *query, float *scores) {               \
        float_scan(type##_to_float, element, op, rows, n, dim, query, scores);                                                 \
    }                                                                                                                          \
    static void type##_gather_##name(const void *rows, const uint32_t *which, int64_t n, int64_t dim, const void *query,       \
                                     float *scores) {                                                                          \
        float_gather(type##_to_float, element, op, rows, which, n, dim, query, scores);                                        \
    }
#define FLOAT_TYPE(type, element)                                                                                              \
    FLOAT_SCAN(type, element, dot, OP_DOT)                                                                                     \
    FLOAT_SCAN(type, element, l2, OP_L2)                                                                                       \
    static void type##_pack_rows(const void *rows, int64_t n, int64_t dim, void *packed) {                                     \
        memset(packed, 0, (size_t)float_rows_bytes(dim));                                                                      \
        type##_to_float(rows, n *dim, packed);                                                                                 \
    }                                                                                                                          \
    static const struct tile_kernel type##_tile[OP_COUNT] = {                                                                  \
        {ROW_TILE, 1, float_rows_bytes, float_query_bytes, type##_pack_rows, float_pack_queries, float_run_dot},               \
        {ROW_TILE, 1, float_rows_bytes, float_query_bytes, type##_pack_rows, float_pack_queries, float_run_l2}};

#define EXACT_OP(type, dtype, name, op)                                                                                        \
    static void type##_exact_scan_##name(const void *rows, int64_t n, int64_t dim, const void *query, float *scores) {         \
        exact_scan(dtype, op, rows, n, dim, query, scores);                                                                    \
    }                                                                                                                          \
    static void type##_exact_gather_##name(const void *rows, const uint32_t *which, int64_t n, int64_t dim, const void *query, \
                                           uint32_t *sums) {                                                                   \
        exact_gather(dtype, op, rows, which, n, dim, query, sums);                                                             \
    }                                                                                                                          \
    static void type##_exact_run_##name(const void *rows, const void *queries, int64_t nq, int64_t dim, float *scores,         \
                                        int64_t ld) {                                                                          \
        for (int64_t q = 0; q < nq; q++)                                                                                       \
            exact_scan(dtype, op, rows, ROW_TILE, dim, (const char *)queries + q * exact_query_bytes(dim), scores + q * ld);   \
    }                                                                                                                          \
    static const struct tile_kernel type##_exact_tile_##name = {                                                               \
        ROW_TILE, 1, exact_rows_bytes, exact_query_bytes, exact_pack_rows, exact_pack_queries, type##_exact_run_##name,        \
    };

static void float_run_dot(const void *rows, const void *queries, int64_t nq, int64_t dim, float *scores, int64_t ld) {
    for (int64_t q = 0; q < nq; q++)
        float_scan(f32_to_float, 4, OP_DOT, rows, ROW_TILE, dim, (const char *)queries + q * float_query_bytes(dim),
                   scores + q * ld);
}
static void float_run_l2(const void *rows, const void *queries, int64_t nq, int64_t dim, float *scores, int64_t ld) {
    for (int64_t q = 0; q < nq; q++)
        float_scan(f32_to_float, 4, OP_L2, rows, ROW_TILE, dim, (const char *)queries + q * float_query_bytes(dim),
                   scores + q * ld);
}

FLOAT_TYPE(f32, 4)
FLOAT_TYPE(f16, 2)
FLOAT_TYPE(bf16, 2)
FLOAT_TYPE(i8, 1)
FLOAT_TYPE(u8, 1)
EXACT_OP(i8, VIC_I8, dot, OP_DOT)
EXACT_OP(i8, VIC_I8, l2, OP_L2)
EXACT_OP(u8, VIC_U8, dot, OP_DOT)
EXACT_OP(u8, VIC_U8, l2, OP_L2)

/* ---------------------------------------------------------------- scores */

/* + 0.0f: a tiny negative quotient rounds to -0, which no score may be. */
static void cosine(float *scores, const float *norms, int64_t n, float query_norm) {
    for (int64_t i = 0; i < n; i++) {
        float score = scores[i] / (norms[i] * query_norm) + 0.0f;
        if (score > 1.0f) score = 1.0f;
        if (score < -1.0f) score = -1.0f;
        scores[i] = norms[i] == 0.0f ? -INFINITY : score;
    }
}

static void replace_nan(float *scores, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (scores[i] != scores[i]) scores[i] = -INFINITY;
}

static int64_t above(const float *scores, int64_t n, bool smaller_better, uint32_t least, uint32_t *positions) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (score_to_order(scores[i], smaller_better) >= least) positions[count++] = (uint32_t)i;
    return count;
}

static bool always_available(void) { return true; }

const struct kernels kernels_scalar = {
    .name = "scalar",
    .available = always_available,
    .scan = {[VIC_F32] = {f32_scan_dot, f32_scan_l2},
             [VIC_F16] = {f16_scan_dot, f16_scan_l2},
             [VIC_BF16] = {bf16_scan_dot, bf16_scan_l2},
             [VIC_I8] = {i8_scan_dot, i8_scan_l2},
             [VIC_U8] = {u8_scan_dot, u8_scan_l2}},
    .scan_exact = {[VIC_I8] = {i8_exact_scan_dot, i8_exact_scan_l2}, [VIC_U8] = {u8_exact_scan_dot, u8_exact_scan_l2}},
    .gather = {[VIC_F32] = {f32_gather_dot, f32_gather_l2},
               [VIC_F16] = {f16_gather_dot, f16_gather_l2},
               [VIC_BF16] = {bf16_gather_dot, bf16_gather_l2},
               [VIC_I8] = {i8_gather_dot, i8_gather_l2},
               [VIC_U8] = {u8_gather_dot, u8_gather_l2}},
    .gather_exact =
        {[VIC_I8] = {i8_exact_gather_dot, i8_exact_gather_l2}, [VIC_U8] = {u8_exact_gather_dot, u8_exact_gather_l2}},
    .tile = {[VIC_F32] = {&f32_tile[OP_DOT], &f32_tile[OP_L2]},
             [VIC_F16] = {&f16_tile[OP_DOT], &f16_tile[OP_L2]},
             [VIC_BF16] = {&bf16_tile[OP_DOT], &bf16_tile[OP_L2]},
             [VIC_I8] = {&i8_tile[OP_DOT], &i8_tile[OP_L2]},
             [VIC_U8] = {&u8_tile[OP_DOT], &u8_tile[OP_L2]}},
    .tile_exact = {[VIC_I8] = {&i8_exact_tile_dot, &i8_exact_tile_l2}, [VIC_U8] = {&u8_exact_tile_dot, &u8_exact_tile_l2}},
    .cosine = cosine,
    .replace_nan = replace_nan,
    .above = above,
    .to_float = {[VIC_F32] = f32_to_float,
                 [VIC_F16] = f16_to_float,
                 [VIC_BF16] = bf16_to_float,
                 [VIC_I8] = i8_to_float,
                 [VIC_U8] = u8_to_float},
    .from_float = {[VIC_F32] = float_to_f32, [VIC_F16] = float_to_f16, [VIC_BF16] = float_to_bf16},
    .first_not_finite =
        {[VIC_F32] = f32_first_not_finite, [VIC_F16] = f16_first_not_finite, [VIC_BF16] = bf16_first_not_finite},
    .largest = largest,
    .planes = &plane_kernels_scalar,
    .sums = {sums8_scalar, sums4_scalar},
    .columns = &column_kernels_scalar,
};
