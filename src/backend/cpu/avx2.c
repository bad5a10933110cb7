/* AVX2, FMA and F16C: the kernels over plain arrays, and the table.
 *
 * These stream their array once and are bound by memory from the second-level cache on, so wider registers would not help
 * and the AVX-512 table leaves them as they are. Tails of fewer than 8 elements go to the reference. */
#include "backend/cpu/kernels.h"

#if defined(__x86_64__)
#include "backend/cpu/lanes_avx2.h"
#include "backend/cpu/processor.h"
#include "backend/cpu/sums.h"

/* Sixteen registers: half of the accumulators of a row are held; 8 sums a tile leave room for rows and a query. */
enum { SCAN_PASSES = 2, TILE_VECTORS = 2, TILE_QUERIES = 4, EXACT_VECTORS = 2, EXACT_QUERIES = 4, EXACT_DIMS = 2 };

/* A word of an exact tile is two 16-bit elements: vpmaddubsw, the 8-bit form, saturates. */
INLINE words exact_rows(enum vic_dtype dtype, const void *row, int64_t i, int64_t count) {
    return shorts_load(dtype, row, i, count);
}
INLINE words exact_queries(enum vic_dtype dtype, const void *query, int64_t i, int64_t count) {
    return shorts_load(dtype, query, i, count);
}
INLINE words exact_step(words sum, words x, words q) { return shorts_step(sum, x, q); }
INLINE int exact_row_shift(enum vic_dtype dtype) { return (void)dtype, 0; }
INLINE int exact_query_shift(enum vic_dtype dtype) { return (void)dtype, 0; }

#include "backend/cpu/kernel_exact.h"
#include "backend/cpu/kernel_scan.h"
#include "backend/cpu/kernel_tile.h"

/* ---------------------------------------------------------------- conversions */

static void f16_to_float(const void *source, int64_t n, float *target) {
    const uint16_t *from = source;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        _mm256_storeu_ps(target + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
    kernels_scalar.to_float[VIC_F16](from + i, n - i, target + i);
}

static void bf16_to_float(const void *source, int64_t n, float *target) {
    const uint16_t *from = source;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(from + i))), 16);
        _mm256_storeu_ps(target + i, _mm256_castsi256_ps(bits));
    }
    kernels_scalar.to_float[VIC_BF16](from + i, n - i, target + i);
}

static void i8_to_float(const void *source, int64_t n, float *target) {
    const int8_t *from = source;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        _mm256_storeu_ps(target + i, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(from + i)))));
    kernels_scalar.to_float[VIC_I8](from + i, n - i, target + i);
}

static void u8_to_float(const void *source, int64_t n, float *target) {
    const uint8_t *from = source;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        _mm256_storeu_ps(target + i, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(from + i)))));
    kernels_scalar.to_float[VIC_U8](from + i, n - i, target + i);
}

/* The rounding is in the instruction, whatever the environment says, and tiny results stay denormal. */
static void float_to_f16(const float *source, int64_t n, void *target) {
    uint16_t *to = target;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        _mm_storeu_si128((__m128i *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    kernels_scalar.from_float[VIC_F16](source + i, n - i, to + i);
}

/* bits + 0x7fff + (bit 16), upper half; a NaN is kept and made quiet, since the sum could carry it into infinity. The
 * conversion of AVX512_BF16 is not used here or elsewhere: it flushes denormals. */
static __m256i bf16_round(const float *source) {
    __m256 value = _mm256_loadu_ps(source);
    __m256i bits = _mm256_castps_si256(value), upper = _mm256_srli_epi32(bits, 16);
    __m256i even = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), even), 16);
    __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q)));
}
static void float_to_bf16(const float *source, int64_t n, void *target) {
    uint16_t *to = target;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __m256i halves = bf16_round(source + i);
        _mm_storeu_si128((__m128i *)(to + i),
                         _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
    }
    kernels_scalar.from_float[VIC_BF16](source + i, n - i, to + i);
}

/* ---------------------------------------------------------------- checks */

static int64_t f32_first_not_finite(const void *source, int64_t n) {
    const float *from = source;
    __m256i exponent = _mm256_set1_epi32(0x7f800000);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __m256i bits = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(from + i)), exponent);
        if (_mm256_movemask_epi8(_mm256_cmpeq_epi32(bits, exponent))) break;
    }
    return i + kernels_scalar.first_not_finite[VIC_F32](from + i, n - i);
}

/* Both 16-bit floats: an exponent field of ones. Where there is one, the reference says which. */
static int64_t first_all_ones(const uint16_t *from, int64_t n, short field, enum vic_dtype dtype) {
    __m256i exponent = _mm256_set1_epi16(field);
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        __m256i bits = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(from + i)), exponent);
        if (_mm256_movemask_epi8(_mm256_cmpeq_epi16(bits, exponent))) break;
    }
    return i + kernels_scalar.first_not_finite[dtype](from + i, n - i);
}
static int64_t f16_first_not_finite(const void *source, int64_t n) { return first_all_ones(source, n, 0x7c00, VIC_F16); }
static int64_t bf16_first_not_finite(const void *source, int64_t n) { return first_all_ones(source, n, 0x7f80, VIC_BF16); }

static float largest(const float *source, int64_t n) {
    __m256 sign = _mm256_set1_ps(-0.0f), best = _mm256_setzero_ps();
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) best = _mm256_max_ps(best, _mm256_andnot_ps(sign, _mm256_loadu_ps(source + i)));
    float lanes[LANES + 1];
    _mm256_storeu_ps(lanes, best);
    lanes[LANES] = kernels_scalar.largest(source + i, n - i);
    return kernels_scalar.largest(lanes, LANES + 1);
}

/* ---------------------------------------------------------------- scores */

/* min and max give their second operand when one is NaN: the score, so it stays. */
static void cosine(float *scores, const float *norms, int64_t n, float query_norm) {
    __m256 one = _mm256_set1_ps(1.0f), minus_one = _mm256_set1_ps(-1.0f), zero = _mm256_setzero_ps();
    __m256 worst = _mm256_set1_ps(-__builtin_inff()), scale = _mm256_set1_ps(query_norm);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __m256 norm = _mm256_loadu_ps(norms + i);
        __m256 score = _mm256_add_ps(_mm256_div_ps(_mm256_loadu_ps(scores + i), _mm256_mul_ps(norm, scale)), zero);
        score = _mm256_max_ps(minus_one, _mm256_min_ps(one, score));
        _mm256_storeu_ps(scores + i, _mm256_blendv_ps(score, worst, _mm256_cmp_ps(norm, zero, _CMP_EQ_OQ)));
    }
    kernels_scalar.cosine(scores + i, norms + i, n - i, query_norm);
}

static void replace_nan(float *scores, int64_t n) {
    __m256 worst = _mm256_set1_ps(-__builtin_inff());
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        __m256 score = _mm256_loadu_ps(scores + i), nan = _mm256_cmp_ps(score, score, _CMP_UNORD_Q);
        _mm256_storeu_ps(scores + i, _mm256_blendv_ps(score, worst, nan));
    }
    kernels_scalar.replace_nan(scores + i, n - i);
}

/* The mapping of base/topk.h on 8 scores: negative numbers are complemented, others get the top bit. */
static int64_t above(const float *scores, int64_t n, bool smaller_better, uint32_t least, uint32_t *positions) {
    __m256i top = _mm256_set1_epi32(INT32_MIN), turn = _mm256_set1_epi32(smaller_better ? -1 : 0);
    __m256i limit = _mm256_set1_epi32((int)least);
    int64_t i = 0, count = 0;
    for (; i + LANES <= n; i += LANES) {
        __m256i bits = _mm256_loadu_si256((const __m256i *)(scores + i));
        __m256i flip = _mm256_or_si256(_mm256_srai_epi32(bits, 31), top);
        __m256i order = _mm256_xor_si256(_mm256_xor_si256(bits, flip), turn);
        __m256i enough = _mm256_cmpeq_epi32(_mm256_max_epu32(order, limit), order);
        unsigned mask = (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(enough));
        for (; mask; mask &= mask - 1) positions[count++] = (uint32_t)i + (uint32_t)__builtin_ctz(mask);
    }
    for (; i < n; i++) {
        uint32_t kept = 0;
        if (kernels_scalar.above(scores + i, 1, smaller_better, least, &kept)) positions[count++] = (uint32_t)i;
    }
    return count;
}

GATHER_EXACT(i8, VIC_I8, dot, OP_DOT)
GATHER_EXACT(i8, VIC_I8, l2, OP_L2)
GATHER_EXACT(u8, VIC_U8, dot, OP_DOT)
GATHER_EXACT(u8, VIC_U8, l2, OP_L2)

const struct kernels kernels_avx2 = {
    .name = "avx2",
    .available = processor_has_avx2,
    .scan = SCAN_TABLE(scan),
    .gather = SCAN_TABLE(gather),
    .scan_exact = SCAN_EXACT_TABLE(scan),
    .gather_exact = SCAN_EXACT_TABLE(gather),
    .tile = TILE_TABLE,
    .tile_exact = TILE_EXACT_TABLE,
    .cosine = cosine,
    .replace_nan = replace_nan,
    .above = above,
    .to_float = {[VIC_F16] = f16_to_float, [VIC_BF16] = bf16_to_float, [VIC_I8] = i8_to_float, [VIC_U8] = u8_to_float},
    .from_float = {[VIC_F16] = float_to_f16, [VIC_BF16] = float_to_bf16},
    .first_not_finite =
        {[VIC_F32] = f32_first_not_finite, [VIC_F16] = f16_first_not_finite, [VIC_BF16] = bf16_first_not_finite},
    .largest = largest,
    .planes = &plane_kernels_avx2,
    .sums = {sums8_avx2, sums4_avx2},
    .columns = &column_kernels_avx2,
};
#endif
