/* Eight float32 lanes: AVX2, FMA and F16C under the names of lanes.h. There are no masked loads of narrow elements here, so the
 * end of a vector is read by a load that ends with it, shifted down. */
#ifndef CPU_LANES_AVX2_H
#define CPU_LANES_AVX2_H

#include "backend/cpu/lanes.h"

#include <immintrin.h>

enum { LANES = 8 };
typedef __m256 floats;

INLINE floats floats_zero(void) { return _mm256_setzero_ps(); }
INLINE floats floats_broadcast(const float *value) { return _mm256_broadcast_ss(value); }
INLINE floats floats_add(floats a, floats b) { return _mm256_add_ps(a, b); }
INLINE floats floats_sub(floats a, floats b) { return _mm256_sub_ps(a, b); }
INLINE floats floats_mul(floats a, floats b) { return _mm256_mul_ps(a, b); }
INLINE floats floats_fma(floats a, floats b, floats sum) { return _mm256_fmadd_ps(a, b, sum); }
INLINE void floats_store(float *target, floats a) { _mm256_storeu_ps(target, a); }
INLINE floats floats_min(floats a, floats b) { return _mm256_min_ps(a, b); }
INLINE floats floats_max(floats a, floats b) { return _mm256_max_ps(a, b); }
INLINE floats floats_pick_less(floats a, floats b, floats less, floats other) {
    return _mm256_blendv_ps(other, less, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

/* Eight narrow elements (in the low bytes) to float32. */
INLINE floats floats_widen(enum vic_dtype dtype, __m128i narrow) {
    if (dtype == VIC_F16) return _mm256_cvtph_ps(narrow);
    if (dtype == VIC_BF16) return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
    return _mm256_cvtepi32_ps(dtype == VIC_I8 ? _mm256_cvtepi8_epi32(narrow) : _mm256_cvtepu8_epi32(narrow));
}

INLINE floats floats_load(enum vic_dtype dtype, const void *vector, int64_t i) {
    if (dtype == VIC_F32) return _mm256_loadu_ps((const float *)vector + i);
    if (dtype == VIC_F16 || dtype == VIC_BF16)
        return floats_widen(dtype, _mm_loadu_si128((const __m128i *)((const uint16_t *)vector + i)));
    return floats_widen(dtype, _mm_loadl_epi64((const __m128i *)((const uint8_t *)vector + i)));
}

/* `bytes` bytes, fewer than `whole` (8 or 16), that end a vector which began `before` bytes earlier; zeros behind them. */
INLINE __m128i bytes_load_end(const char *source, int64_t bytes, int64_t whole, int64_t before) {
    static const char shift_down[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    char copy[16] = {0};
    int64_t missing = whole - bytes;
    if (before < missing) { /* a vector shorter than one load */
        for (int64_t b = 0; b < bytes; b++) copy[b] = source[b];
        return _mm_loadu_si128((const __m128i *)copy);
    }
    const __m128i *from = (const __m128i *)(source - missing);
    __m128i last = whole == 16 ? _mm_loadu_si128(from) : _mm_loadl_epi64(from);
    return _mm_shuffle_epi8(last, _mm_loadu_si128((const __m128i *)(shift_down + missing)));
}

INLINE floats floats_load_some(enum vic_dtype dtype, const void *vector, int64_t i, int64_t count) {
    if (count == LANES) return floats_load(dtype, vector, i);
    if (dtype == VIC_F32) {
        static const int32_t ones_zeros[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};
        __m256i mask = _mm256_loadu_si256((const __m256i *)(ones_zeros + LANES - count));
        return _mm256_maskload_ps((const float *)vector + i, mask);
    }
    int64_t element = dtype == VIC_F16 || dtype == VIC_BF16 ? 2 : 1;
    const char *source = (const char *)vector + i * element;
    return floats_widen(dtype, bytes_load_end(source, count * element, LANES * element, i * element));
}

INLINE void floats_transpose(floats r[LANES]) {
    floats t[LANES], u[LANES];
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4)
        for (int k = 0; k < 2; k++) {
            __m256d even = _mm256_castps_pd(t[i + k]), odd = _mm256_castps_pd(t[i + k + 2]);
            u[i + 2 * k] = _mm256_castpd_ps(_mm256_unpacklo_pd(even, odd));
            u[i + 2 * k + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(even, odd));
        }
    /* Half l of u[i + k] is now column 4l + k of rows i .. i + 3. */
    for (int k = 0; k < 4; k++) {
        r[k] = _mm256_permute2f128_ps(u[k], u[k + 4], 0x20);
        r[k + 4] = _mm256_permute2f128_ps(u[k], u[k + 4], 0x31);
    }
}

/* ---------------------------------------------------------------- exact sums of 8-bit elements */

typedef __m256i words;

INLINE words words_zero(void) { return _mm256_setzero_si256(); }
INLINE words words_load(const uint32_t *source) { return _mm256_loadu_si256((const __m256i *)source); }
INLINE words words_broadcast(const uint32_t *value) { return _mm256_set1_epi32((int)*value); }
INLINE void words_store(uint32_t *target, words a) { _mm256_storeu_si256((__m256i *)target, a); }
INLINE words words_add(words a, words b) { return _mm256_add_epi32(a, b); }
INLINE words words_sub(words a, words b) { return _mm256_sub_epi32(a, b); }
INLINE words words_pinned(words a) {
    __asm__("" : "+x"(a));
    return a;
}
INLINE floats words_as_floats(words a) { return _mm256_castsi256_ps(a); }
INLINE words floats_as_words(floats a) { return _mm256_castps_si256(a); }
/* Unsigned integers have no conversion here: both halves of 16 bits are exact, and so is the product; the sum rounds. */
INLINE floats words_round(words a, bool is_signed) {
    if (is_signed) return _mm256_cvtepi32_ps(a);
    floats upper = _mm256_cvtepi32_ps(_mm256_srli_epi32(a, 16));
    floats lower = _mm256_cvtepi32_ps(_mm256_and_si256(a, _mm256_set1_epi32(0xffff)));
    return _mm256_fmadd_ps(upper, _mm256_set1_ps(65536.0f), lower);
}

INLINE words shorts_load(enum vic_dtype dtype, const void *vector, int64_t i, int64_t count) {
    const char *source = (const char *)vector + i;
    bool whole = count == 2 * LANES;
    __m128i bytes = whole ? _mm_loadu_si128((const __m128i *)source) : bytes_load_end(source, count, 2 * LANES, i);
    return dtype == VIC_I8 ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}
INLINE words shorts_broadcast(int value) { return _mm256_set1_epi16((short)value); }
INLINE words shorts_add(words a, words b) { return _mm256_add_epi16(a, b); }
INLINE words shorts_sub(words a, words b) { return _mm256_sub_epi16(a, b); }
INLINE words shorts_step(words sum, words a, words b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }

#endif
