/* Sixteen float32 lanes: AVX-512 F, BW, VL, DQ under the names of lanes.h. Masked loads touch no byte past the last element.
 * The dot products of AVX512_BF16 are not used: they flush denormals and round between their two products, so their bits are
 * not the canonical ones. */
#ifndef CPU_LANES_AVX512_H
#define CPU_LANES_AVX512_H

#include "backend/cpu/lanes.h"

#include <immintrin.h>

enum { LANES = 16 };
typedef __m512 floats;

INLINE floats floats_zero(void) { return _mm512_setzero_ps(); }
INLINE floats floats_broadcast(const float *value) { return _mm512_set1_ps(*value); }
INLINE floats floats_add(floats a, floats b) { return _mm512_add_ps(a, b); }
INLINE floats floats_sub(floats a, floats b) { return _mm512_sub_ps(a, b); }
INLINE floats floats_mul(floats a, floats b) { return _mm512_mul_ps(a, b); }
INLINE floats floats_fma(floats a, floats b, floats sum) { return _mm512_fmadd_ps(a, b, sum); }
INLINE void floats_store(float *target, floats a) { _mm512_storeu_ps(target, a); }
INLINE floats floats_min(floats a, floats b) { return _mm512_min_ps(a, b); }
INLINE floats floats_max(floats a, floats b) { return _mm512_max_ps(a, b); }
INLINE floats floats_pick_less(floats a, floats b, floats less, floats other) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), other, less);
}

/* Elements i .. i + count - 1 of a packed vector, the lanes behind them zero; 1 <= count <= LANES. */
INLINE floats floats_load_some(enum vic_dtype dtype, const void *vector, int64_t i, int64_t count) {
    __mmask16 mask = (__mmask16)((1u << count) - 1);
    if (dtype == VIC_F32) return _mm512_maskz_loadu_ps(mask, (const float *)vector + i);
    if (dtype == VIC_F16) return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, (const uint16_t *)vector + i));
    if (dtype == VIC_BF16) {
        __m512i bits = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, (const uint16_t *)vector + i));
        return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
    }
    __m128i bytes = _mm_maskz_loadu_epi8(mask, (const uint8_t *)vector + i);
    return _mm512_cvtepi32_ps(dtype == VIC_I8 ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
}

/* The same for LANES elements. */
INLINE floats floats_load(enum vic_dtype dtype, const void *vector, int64_t i) {
    if (dtype == VIC_F32) return _mm512_loadu_ps((const float *)vector + i);
    if (dtype == VIC_F16) return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)((const uint16_t *)vector + i)));
    if (dtype == VIC_BF16) {
        __m256i halves = _mm256_loadu_si256((const __m256i *)((const uint16_t *)vector + i));
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
    }
    __m128i bytes = _mm_loadu_si128((const __m128i *)((const uint8_t *)vector + i));
    return _mm512_cvtepi32_ps(dtype == VIC_I8 ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes));
}

/* Lane j of register i to lane i of register j. */
INLINE void floats_transpose(floats r[LANES]) {
    floats t[LANES], u[LANES];
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4)
        for (int k = 0; k < 2; k++) {
            __m512d even = _mm512_castps_pd(t[i + k]), odd = _mm512_castps_pd(t[i + k + 2]);
            u[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(even, odd));
            u[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(even, odd));
        }
    /* Quarter l of u[i + k] is now column 4l + k of rows i .. i + 3. */
    for (int k = 0; k < 4; k++) {
        floats upper02 = _mm512_shuffle_f32x4(u[k], u[k + 4], 0x88), upper13 = _mm512_shuffle_f32x4(u[k], u[k + 4], 0xdd);
        floats lower02 = _mm512_shuffle_f32x4(u[k + 8], u[k + 12], 0x88);
        floats lower13 = _mm512_shuffle_f32x4(u[k + 8], u[k + 12], 0xdd);
        r[k] = _mm512_shuffle_f32x4(upper02, lower02, 0x88);
        r[k + 4] = _mm512_shuffle_f32x4(upper13, lower13, 0x88);
        r[k + 8] = _mm512_shuffle_f32x4(upper02, lower02, 0xdd);
        r[k + 12] = _mm512_shuffle_f32x4(upper13, lower13, 0xdd);
    }
}

/* ---------------------------------------------------------------- exact sums of 8-bit elements */

/* LANES integers modulo 2^32. */
typedef __m512i words;

INLINE words words_zero(void) { return _mm512_setzero_si512(); }
INLINE words words_load(const uint32_t *source) { return _mm512_loadu_si512(source); }
INLINE words words_broadcast(const uint32_t *value) { return _mm512_set1_epi32((int)*value); }
INLINE void words_store(uint32_t *target, words a) { _mm512_storeu_si512(target, a); }
INLINE words words_add(words a, words b) { return _mm512_add_epi32(a, b); }
INLINE words words_sub(words a, words b) { return _mm512_sub_epi32(a, b); }
INLINE words words_pinned(words a) {
    __asm__("" : "+v"(a));
    return a;
}
INLINE floats words_as_floats(words a) { return _mm512_castsi512_ps(a); }
INLINE words floats_as_words(floats a) { return _mm512_castps_si512(a); }
/* To the nearest float32. */
INLINE floats words_round(words a, bool is_signed) { return is_signed ? _mm512_cvtepi32_ps(a) : _mm512_cvtepu32_ps(a); }

/* Elements i .. i + count - 1 of an 8-bit vector as 16-bit integers, zeros behind them; 1 <= count <= 2 * LANES. */
INLINE words shorts_load(enum vic_dtype dtype, const void *vector, int64_t i, int64_t count) {
    __mmask32 mask = (__mmask32)((UINT64_C(1) << count) - 1);
    __m256i bytes = _mm256_maskz_loadu_epi8(mask, (const char *)vector + i);
    return dtype == VIC_I8 ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes);
}
INLINE words shorts_broadcast(int value) { return _mm512_set1_epi16((short)value); }
INLINE words shorts_add(words a, words b) { return _mm512_add_epi16(a, b); }
INLINE words shorts_sub(words a, words b) { return _mm512_sub_epi16(a, b); }
/* sum + both products of each pair of 16-bit integers. */
INLINE words shorts_step(words sum, words a, words b) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)); }

#endif
