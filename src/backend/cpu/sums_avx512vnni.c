/* Sums of codes with AVX-512 VNNI: 64 products an instruction, four rows at a time, so that a query's line is loaded once
 * for four of them and their sums are added up across lanes together. */
#include "backend/cpu/sums.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>

enum { ROWS = 4 };

static __m128i sum_each(const __m512i v[ROWS]) {
    __m512i low = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    __m512i high = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    __m512i four = _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
    __m256i two = _mm256_add_epi32(_mm512_castsi512_si256(four), _mm512_extracti64x4_epi64(four, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
}

/* A line of 64 bytes of a row; the query's one or two lines of elements. */
static inline __attribute__((always_inline)) __m512i line_add(bool wide, __m512i sum, __m512i line, __m512i first,
                                                              __m512i second) {
    if (wide) return _mm512_dpbusd_epi32(sum, line, first);
    __m512i low = _mm512_set1_epi8(15);
    sum = _mm512_dpbusd_epi32(sum, _mm512_and_si512(line, low), first);
    return _mm512_dpbusd_epi32(sum, _mm512_and_si512(_mm512_srli_epi16(line, 4), low), second);
}

/* wide: 8 bits, else 4. */
static inline __attribute__((always_inline)) void sums_four(bool wide, const uint8_t *codes, int64_t stride_bytes,
                                                            const uint32_t *rows, int64_t n, const int8_t *query,
                                                            int32_t *sums) {
    for (int64_t i = 0; i < n; i += ROWS) {
        const uint8_t *at[ROWS]; /* behind the last row: that one again */
        __m512i lines[ROWS];
        for (int r = 0; r < ROWS; r++) {
            at[r] = codes + (int64_t)rows[i + r < n ? i + r : n - 1] * stride_bytes;
            lines[r] = _mm512_setzero_si512();
        }
        for (int64_t j = 0; j < stride_bytes; j += 64) {
            __m512i first = _mm512_loadu_si512(query + (wide ? j : 2 * j)), second = first;
            if (!wide) second = _mm512_loadu_si512(query + 2 * j + 64);
            for (int r = 0; r < ROWS; r++) lines[r] = line_add(wide, lines[r], _mm512_loadu_si512(at[r] + j), first, second);
        }
        __mmask8 real = (__mmask8)(n - i < ROWS ? (1u << (n - i)) - 1 : 15u);
        _mm_mask_storeu_epi32(sums + i, real, sum_each(lines));
    }
}

void sums8_avx512vnni(const uint8_t *codes, int64_t stride_bytes, const uint32_t *rows, int64_t n, const int8_t *query,
                      int32_t *sums) {
    sums_four(true, codes, stride_bytes, rows, n, query, sums);
}
void sums4_avx512vnni(const uint8_t *codes, int64_t stride_bytes, const uint32_t *rows, int64_t n, const int8_t *query,
                      int32_t *sums) {
    sums_four(false, codes, stride_bytes, rows, n, query, sums);
}
#endif
