/* Sums of codes with AVX2. Eight bits: bytes are widened before they are multiplied, since the instruction that takes bytes
 * saturates. Four bits: it does not, two products are at most 3,840. */
#include "backend/cpu/sums.h"

#if defined(__x86_64__)
#include <immintrin.h>

static inline int32_t lanes_sum(__m256i eight) {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

static inline int32_t sum8_of(const uint8_t *row, int64_t stride_bytes, const int8_t *query) {
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int64_t j = 0; j < stride_bytes; j += 32)
        for (int half = 0; half < 2; half++) {
            __m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(row + j + 16 * half)));
            __m256i q = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(query + j + 16 * half)));
            sums[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(x, q));
        }
    return lanes_sum(_mm256_add_epi32(sums[0], sums[1]));
}

static inline int32_t sum4_of(const uint8_t *row, int64_t stride_bytes, const int8_t *query) {
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256i low = _mm256_set1_epi8(15), one = _mm256_set1_epi16(1);
    for (int64_t line = 0; line < stride_bytes; line += 64)
        for (int half = 0; half < 2; half++) {
            const int8_t *at = query + 2 * line + 32 * half;
            __m256i bytes = _mm256_loadu_si256((const __m256i *)(row + line + 32 * half));
            __m256i first = _mm256_and_si256(bytes, low), second = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
            __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(first, _mm256_loadu_si256((const __m256i *)at)),
                                             _mm256_maddubs_epi16(second, _mm256_loadu_si256((const __m256i *)(at + 64))));
            sums[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(pairs, one));
        }
    return lanes_sum(_mm256_add_epi32(sums[0], sums[1]));
}

static inline __attribute__((always_inline)) void sums_each(int32_t (*sum_of)(const uint8_t *, int64_t, const int8_t *),
                                                            const uint8_t *codes, int64_t stride_bytes, const uint32_t *rows,
                                                            int64_t n, const int8_t *query, int32_t *sums) {
    for (int64_t i = 0; i < n; i++) sums[i] = sum_of(codes + (int64_t)rows[i] * stride_bytes, stride_bytes, query);
}

void sums8_avx2(const uint8_t *codes, int64_t stride_bytes, const uint32_t *rows, int64_t n, const int8_t *query,
                int32_t *sums) {
    sums_each(sum8_of, codes, stride_bytes, rows, n, query, sums);
}
void sums4_avx2(const uint8_t *codes, int64_t stride_bytes, const uint32_t *rows, int64_t n, const int8_t *query,
                int32_t *sums) {
    sums_each(sum4_of, codes, stride_bytes, rows, n, query, sums);
}
#endif
