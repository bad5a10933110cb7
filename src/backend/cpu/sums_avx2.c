/* Sums of codes with AVX2. Bytes are widened before they are multiplied: the instruction that takes bytes saturates. */
#include "backend/cpu/sums.h"

#if defined(__x86_64__)
#include <immintrin.h>

static int32_t sum_of(const uint8_t *row, int64_t stride_bytes, const int8_t *query) {
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int64_t j = 0; j < stride_bytes; j += 32)
        for (int half = 0; half < 2; half++) {
            __m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(row + j + 16 * half)));
            __m256i q = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(query + j + 16 * half)));
            sums[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(x, q));
        }
    __m256i eight = _mm256_add_epi32(sums[0], sums[1]);
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

void sums_avx2(const uint8_t *codes, int64_t stride_bytes, const uint32_t *rows, int64_t n, const int8_t *query,
               int32_t *sums) {
    for (int64_t i = 0; i < n && i < SUMS_AHEAD; i++) sums_prefetch(codes, stride_bytes, rows[i]);
    for (int64_t i = 0; i < n; i++) {
        if (i + SUMS_AHEAD < n) sums_prefetch(codes, stride_bytes, rows[i + SUMS_AHEAD]);
        sums[i] = sum_of(codes + (int64_t)rows[i] * stride_bytes, stride_bytes, query);
    }
}
#endif
