/* Planes with AVX-512 and VNNI: 64 codes times 64 query bytes an instruction, added in 32 bits without saturation.
 *
 * Eight rows at a time: their sixteen sums are added up across lanes together, six instructions a row instead of fourteen.
 * Measured (AMD EPYC Zen 5, 2026-11-30): bound by memory, or by the third-level cache when the plane lies there. */
#include "backend/cpu/plane.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { ROWS = 8, AHEAD_BYTES = 4096 };

/* Lane i of the answer is the sum of v[i]'s lanes. */
static inline __m512i sum_each(__m512i v[16]) {
    __m512i w[4];
    for (int i = 0; i < 8; i++)
        v[i] = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]));
    for (int i = 0; i < 4; i++)
        w[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(v[2 * i], v[2 * i + 1]), _mm512_unpackhi_epi64(v[2 * i], v[2 * i + 1]));
    __m512i x = _mm512_add_epi32(_mm512_shuffle_i32x4(w[0], w[1], 0x44), _mm512_shuffle_i32x4(w[0], w[1], 0xee));
    __m512i y = _mm512_add_epi32(_mm512_shuffle_i32x4(w[2], w[3], 0x44), _mm512_shuffle_i32x4(w[2], w[3], 0xee));
    return _mm512_add_epi32(_mm512_shuffle_i32x4(x, y, 0x88), _mm512_shuffle_i32x4(x, y, 0xdd));
}

/* upper of 16 rows, the order of kernels.h. */
static inline __m512 upper_of(__m512 sum, __m512 scale, __m512 error, __m512 norm, const struct plane_query *query) {
    __m512 slope = _mm512_fmadd_ps(_mm512_set1_ps(query->kappa), norm, _mm512_set1_ps(query->beta));
    __m512 slack = _mm512_fmadd_ps(norm, slope, _mm512_set1_ps(query->gamma));
    slack = _mm512_fmadd_ps(_mm512_set1_ps(query->alpha), error, slack);
    return _mm512_fmadd_ps(_mm512_mul_ps(sum, scale), _mm512_set1_ps(query->step), slack);
}

/* sum + products, in a register of its own: gcc 12 else copies each sum at each step and keeps some in memory. */
static inline __m512i step(__m512i sum, __m512i codes, __m512i query) {
    sum = _mm512_dpbusd_epi32(sum, codes, query);
    __asm__("" : "+v"(sum));
    return sum;
}

/* The query's bytes that meet one line of codes: high and low for its first half, for 4 bits also for its second. */
struct query_line {
    __m512i high[2], low[2];
};

static inline struct query_line query_line(enum plane_kind kind, const struct plane_query *query, int64_t line) {
    int64_t at = kind == PLANE_8 ? line : 2 * line;
    struct query_line codes = {{_mm512_loadu_si512(query->high + at)}, {_mm512_loadu_si512(query->low + at)}};
    if (kind == PLANE_4) {
        codes.high[1] = _mm512_loadu_si512(query->high + at + 64);
        codes.low[1] = _mm512_loadu_si512(query->low + at + 64);
    }
    return codes;
}

/* One line of a row against the query, onto its two sums. */
static inline void line_add(enum plane_kind kind, __m512i line, const struct query_line *query, __m512i *sum_high,
                            __m512i *sum_low) {
    if (kind == PLANE_8) {
        *sum_high = step(*sum_high, line, query->high[0]);
        *sum_low = step(*sum_low, line, query->low[0]);
        return;
    }
    __m512i mask = _mm512_set1_epi8(15);
    __m512i first = _mm512_and_si512(line, mask), second = _mm512_and_si512(_mm512_srli_epi16(line, 4), mask);
    *sum_high = step(*sum_high, first, query->high[0]);
    *sum_low = step(*sum_low, first, query->low[0]);
    *sum_high = step(*sum_high, second, query->high[1]);
    *sum_low = step(*sum_low, second, query->low[1]);
}

static inline __attribute__((always_inline)) void scan(enum plane_kind kind, const struct plane *plane, const float *norms,
                                                       int64_t first, int64_t n, const struct plane_query *query,
                                                       float *upper) {
    int64_t stride = plane->stride_bytes;
    __m512i bias = _mm512_inserti64x4(_mm512_set1_epi32(query->bias_high[kind]), _mm256_set1_epi32(query->bias_low[kind]), 1);
    for (int64_t i = 0; i < n; i += ROWS) {
        __mmask16 real = (__mmask16)(n - i < ROWS ? (1u << (n - i)) - 1 : 0xffu);
        const uint8_t *rows[ROWS]; /* behind the last row: that one again, and nothing is stored */
        __m512i sums[2 * ROWS];
        for (int r = 0; r < ROWS; r++) {
            rows[r] = plane->codes + (first + i + (r < n - i ? r : n - i - 1)) * stride;
            sums[r] = sums[ROWS + r] = _mm512_setzero_si512();
        }
        for (int64_t line = 0; line < stride; line += 64) {
            const struct query_line codes = query_line(kind, query, line);
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++) {
                _mm_prefetch((const char *)rows[r] + line + AHEAD_BYTES, _MM_HINT_T0);
                line_add(kind, _mm512_loadu_si512(rows[r] + line), &codes, &sums[r], &sums[ROWS + r]);
            }
        }
        int64_t row = first + i;
        __m512 parts = _mm512_cvtepi32_ps(_mm512_sub_epi32(sum_each(sums), bias)); /* 8 high sums, 8 low ones */
        __m512 sum = _mm512_fmadd_ps(_mm512_set1_ps(256.0f), parts, _mm512_shuffle_f32x4(parts, parts, 0x4e));
        __m512 norm = norms ? _mm512_maskz_loadu_ps(real, norms + row) : _mm512_setzero_ps();
        __m512 result = upper_of(sum, _mm512_maskz_loadu_ps(real, plane->scale + row),
                                 _mm512_maskz_loadu_ps(real, plane->error + row), norm, query);
        _mm512_mask_storeu_ps(upper + i, real, result);
    }
}

static void scan8(const struct plane *plane, const float *norms, int64_t first, int64_t n, int64_t dim,
                  const struct plane_query *query, float *upper) {
    (void)dim;
    scan(PLANE_8, plane, norms, first, n, query, upper);
}
static void scan4(const struct plane *plane, const float *norms, int64_t first, int64_t n, int64_t dim,
                  const struct plane_query *query, float *upper) {
    (void)dim;
    scan(PLANE_4, plane, norms, first, n, query, upper);
}

static inline __attribute__((always_inline)) double code(enum plane_kind kind, const float *values, int64_t dim, double step,
                                                         float inverse, uint8_t *codes) {
    __m512d sums[2] = {_mm512_setzero_pd(), _mm512_setzero_pd()}, steps = _mm512_set1_pd(step);
    __m512 least = _mm512_set1_ps(-(float)plane_offset(kind)), most = _mm512_set1_ps((float)plane_offset(kind) - 1);
    for (int64_t block = 0; block < dim; block += PLANE_BLOCK) {
        uint8_t bytes[PLANE_BLOCK];
        for (int64_t i = 0; i < PLANE_BLOCK; i += 16) {
            int64_t left = dim - block - i;
            __mmask16 real = (__mmask16)(left >= 16 ? 0xffffu : left > 0 ? (1u << left) - 1 : 0);
            __m512 value = _mm512_maskz_loadu_ps(real, values + (left > 0 ? block + i : 0));
            __m512 nearest = _mm512_roundscale_ps(_mm512_mul_ps(value, _mm512_set1_ps(inverse)), 0);
            nearest = _mm512_min_ps(_mm512_max_ps(nearest, least), most);
            __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(nearest)),
                    high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(nearest, 1));
            low = _mm512_fnmadd_pd(steps, low, _mm512_cvtps_pd(_mm512_castps512_ps256(value)));
            high = _mm512_fnmadd_pd(steps, high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(value, 1)));
            sums[0] = _mm512_fmadd_pd(low, low, sums[0]);
            sums[1] = _mm512_fmadd_pd(high, high, sums[1]);
            __m512i wide = _mm512_add_epi32(_mm512_cvtps_epi32(nearest), _mm512_set1_epi32(plane_offset(kind)));
            _mm_storeu_si128((__m128i *)(bytes + i), _mm512_cvtepi32_epi8(wide));
        }
        if (codes) plane_block_store(kind, bytes, block, dim, codes);
    }
    __m512d eight = _mm512_add_pd(sums[0], sums[1]);
    __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

static double code8(const float *values, int64_t dim, double step, float inverse, uint8_t *codes) {
    return code(PLANE_8, values, dim, step, inverse, codes);
}
static double code4(const float *values, int64_t dim, double step, float inverse, uint8_t *codes) {
    return code(PLANE_4, values, dim, step, inverse, codes);
}

const struct plane_kernels plane_kernels_avx512vnni = {
    .scan = {scan8, scan4}, .code = {code8, code4}, .tile = &plane_tile_avx512vnni};
#endif
