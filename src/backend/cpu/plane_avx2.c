/* Planes with AVX2. Eight bits: codes and query widened to 16 bits, since a sum of two byte products would saturate there.
 * Four bits: byte products directly, two of them are at most 3,840. */
#include "backend/cpu/plane.h"

#if defined(__x86_64__)
#include <immintrin.h>

static int32_t sum_lanes(__m256i v) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

static __m256i widen(const int8_t *bytes) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)bytes)); }

struct sums {
    int32_t high, low;
};

static struct sums row_sums8(const uint8_t *codes, int64_t stride, const struct plane_query *query) {
    __m256i high = _mm256_setzero_si256(), low = high;
    for (int64_t i = 0; i < stride; i += 16) {
        __m256i code = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(codes + i)));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(code, widen(query->high + i)));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(code, widen(query->low + i)));
    }
    return (struct sums){sum_lanes(high), sum_lanes(low)};
}

static __m256i nibble_products(__m256i first, __m256i second, const int8_t *query) {
    __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(first, _mm256_loadu_si256((const __m256i *)query)),
                                     _mm256_maddubs_epi16(second, _mm256_loadu_si256((const __m256i *)(query + 64))));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

static struct sums row_sums4(const uint8_t *codes, int64_t stride, const struct plane_query *query) {
    __m256i high = _mm256_setzero_si256(), low = high, mask = _mm256_set1_epi8(15);
    for (int64_t i = 0; i < stride; i += 32) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(codes + i));
        __m256i first = _mm256_and_si256(bytes, mask), second = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
        int64_t at = i / 64 * 128 + i % 64;
        high = _mm256_add_epi32(high, nibble_products(first, second, query->high + at));
        low = _mm256_add_epi32(low, nibble_products(first, second, query->low + at));
    }
    return (struct sums){sum_lanes(high), sum_lanes(low)};
}

/* upper of 8 rows, the order of kernels.h. */
static __m256 upper_of(__m256 sum, __m256 scale, __m256 error, __m256 norm, const struct plane_query *query) {
    __m256 slope = _mm256_fmadd_ps(_mm256_set1_ps(query->kappa), norm, _mm256_set1_ps(query->beta));
    __m256 slack = _mm256_fmadd_ps(norm, slope, _mm256_set1_ps(query->gamma));
    slack = _mm256_fmadd_ps(_mm256_set1_ps(query->alpha), error, slack);
    return _mm256_fmadd_ps(_mm256_mul_ps(sum, scale), _mm256_set1_ps(query->step), slack);
}

typedef struct sums row_sums(const uint8_t *codes, int64_t stride, const struct plane_query *query);

static inline __attribute__((always_inline)) void scan(row_sums *sums_of, enum plane_kind kind, const struct plane *plane,
                                                       const float *norms, int64_t first, int64_t n,
                                                       const struct plane_query *query, float *upper) {
    for (int64_t i = 0; i < n; i += 8) {
        int32_t high[8] = {0}, low[8] = {0};
        float scale[8] = {0}, error[8] = {0}, norm[8] = {0}, out[8];
        int64_t count = n - i < 8 ? n - i : 8;
        for (int64_t j = 0; j < count; j++) {
            int64_t row = first + i + j;
            const uint8_t *codes = plane->codes + row * plane->stride_bytes;
            __builtin_prefetch(codes + 4096);
            struct sums sums = sums_of(codes, plane->stride_bytes, query);
            high[j] = (int32_t)((uint32_t)sums.high - (uint32_t)query->bias_high[kind]);
            low[j] = (int32_t)((uint32_t)sums.low - (uint32_t)query->bias_low[kind]);
            scale[j] = plane->scale[row], error[j] = plane->error[row], norm[j] = norms ? norms[row] : 0;
        }
        __m256 sum = _mm256_fmadd_ps(_mm256_set1_ps(256.0f), _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)high)),
                                     _mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)low)));
        __m256 result = upper_of(sum, _mm256_loadu_ps(scale), _mm256_loadu_ps(error), _mm256_loadu_ps(norm), query);
        _mm256_storeu_ps(out, result);
        memcpy(upper + i, out, (size_t)count * sizeof *out);
    }
}

static void scan8(const struct plane *plane, const float *norms, int64_t first, int64_t n, int64_t dim,
                  const struct plane_query *query, float *upper) {
    (void)dim;
    scan(row_sums8, PLANE_8, plane, norms, first, n, query, upper);
}
static void scan4(const struct plane *plane, const float *norms, int64_t first, int64_t n, int64_t dim,
                  const struct plane_query *query, float *upper) {
    (void)dim;
    scan(row_sums4, PLANE_4, plane, norms, first, n, query, upper);
}

/* What 8 codes leave over, squared, onto two registers of sums. */
static void rest_add(__m256 nearest, __m256 value, __m256d step, __m256d sums[2]) {
    __m128 code[2] = {_mm256_castps256_ps128(nearest), _mm256_extractf128_ps(nearest, 1)};
    __m128 x[2] = {_mm256_castps256_ps128(value), _mm256_extractf128_ps(value, 1)};
    for (int half = 0; half < 2; half++) {
        __m256d rest = _mm256_fnmadd_pd(step, _mm256_cvtps_pd(code[half]), _mm256_cvtps_pd(x[half]));
        sums[half] = _mm256_fmadd_pd(rest, rest, sums[half]);
    }
}

static double sum_tree(const __m256d sums[4]) {
    __m256d four = _mm256_add_pd(_mm256_add_pd(sums[0], sums[2]), _mm256_add_pd(sums[1], sums[3]));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

static inline __attribute__((always_inline)) double code(enum plane_kind kind, const float *values, int64_t dim, double step,
                                                         float inverse, uint8_t *codes) {
    __m256d sums[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
    __m256 least = _mm256_set1_ps(-(float)plane_offset(kind)), most = _mm256_set1_ps((float)plane_offset(kind) - 1);
    __m256i offset = _mm256_set1_epi32(plane_offset(kind));
    for (int64_t block = 0; block < dim; block += PLANE_BLOCK) {
        uint8_t bytes[PLANE_BLOCK];
        float padded[PLANE_BLOCK];
        const float *x = values + block;
        if (dim - block < PLANE_BLOCK) {
            memset(padded, 0, sizeof padded);
            memcpy(padded, x, (size_t)(dim - block) * sizeof *x);
            x = padded;
        }
        for (int i = 0; i < PLANE_BLOCK; i += 8) {
            __m256 value = _mm256_loadu_ps(x + i);
            __m256 nearest =
                _mm256_round_ps(_mm256_mul_ps(value, _mm256_set1_ps(inverse)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
            nearest = _mm256_min_ps(_mm256_max_ps(nearest, least), most);
            rest_add(nearest, value, _mm256_set1_pd(step), &sums[i % 16 / 4]);
            __m256i wide = _mm256_add_epi32(_mm256_cvtps_epi32(nearest), offset);
            __m128i narrow = _mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
            _mm_storel_epi64((__m128i *)(bytes + i), _mm_packus_epi16(narrow, narrow));
        }
        if (codes) plane_block_store(kind, bytes, block, dim, codes);
    }
    return sum_tree(sums);
}

static double code8(const float *values, int64_t dim, double step, float inverse, uint8_t *codes) {
    return code(PLANE_8, values, dim, step, inverse, codes);
}
static double code4(const float *values, int64_t dim, double step, float inverse, uint8_t *codes) {
    return code(PLANE_4, values, dim, step, inverse, codes);
}

const struct plane_kernels plane_kernels_avx2 = {.scan = {scan8, scan4}, .code = {code8, code4}, .tile = &plane_tile_avx2};
#endif
