/* Sums of codes and of integer rows with AVX-512 VNNI: 64 products an instruction, four rows at a time, so that a query's line
 * is loaded once for four of them and their sums are added up across lanes together.
 *
 * The instruction multiplies unsigned by signed bytes. Bytes are taken as unsigned, u, on the side of the rows and as
 * s = u - 128 on the side of the query, whatever they were: a difference of two stays what it is, and so
 *     (u - v)^2 = u (u - 128) - 128 u - 2 u (v - 128) + v^2      u v = u (v - 128) + 128 u
 * are three products and two, none of which a row has to keep anything for. With int8 rows a product is s v = u v - 128 v. */
#include "backend/cpu/kernels.h"
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

/* ---------------------------------------------------------------- integer rows */

/* Bytes i .. i + count - 1 as unsigned ones, zeros behind them. */
static inline __m512i bytes_load(enum vic_dtype dtype, const void *vector, int64_t i, int64_t count) {
    __mmask64 mask = count < 64 ? ~UINT64_C(0) >> (64 - count) : ~UINT64_C(0);
    __m512i bytes = _mm512_maskz_loadu_epi8(mask, (const char *)vector + i);
    return dtype == VIC_I8 ? _mm512_maskz_sub_epi8(mask, bytes, _mm512_set1_epi8(-128)) : bytes;
}
static inline __m512i bytes_signed(__m512i bytes) { return _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)); }

/* What a row's line adds by itself, and with the query's. */
struct line_sums {
    __m512i own, cross;
};
static inline struct line_sums bytes_add(enum vic_dtype dtype, enum kernel_op op, struct line_sums sums, __m512i line,
                                         __m512i query) {
    sums.cross = _mm512_dpbusd_epi32(sums.cross, line, query);
    if (op == OP_DOT && dtype == VIC_I8) return sums;
    sums.own = _mm512_dpbusd_epi32(sums.own, line, _mm512_set1_epi8(-128));
    if (op == OP_L2) sums.own = _mm512_dpbusd_epi32(sums.own, line, bytes_signed(line));
    return sums;
}

/* What the query adds to every sum. */
static inline uint32_t query_constant(enum vic_dtype dtype, enum kernel_op op, const void *query, int64_t dim) {
    __m512i sum = _mm512_setzero_si512();
    if (op == OP_DOT && dtype == VIC_U8) return 0;
    for (int64_t j = 0; j < dim; j += 64) {
        __m512i bytes = bytes_load(dtype, query, j, dim - j), whole = _mm512_set1_epi8(-128);
        if (op == OP_L2) {
            sum = _mm512_dpbusd_epi32(sum, bytes, bytes_signed(bytes));
            sum = _mm512_sub_epi32(sum, _mm512_dpbusd_epi32(_mm512_setzero_si512(), bytes, whole));
        } else { /* of int8, whose zeros are 128 */
            __mmask64 mask = dim - j < 64 ? ~UINT64_C(0) >> (64 - (dim - j)) : ~UINT64_C(0);
            sum = _mm512_dpbusd_epi32(sum, _mm512_maskz_mov_epi8(mask, whole), bytes_signed(bytes));
        }
    }
    /* Modulo 2^32, as sums of rows are: GCC's _mm512_reduce_add_epi32 ends in an addition of int, which may not overflow. */
    const __m512i alone[ROWS] = {sum};
    uint32_t constant = (uint32_t)_mm_cvtsi128_si32(sum_each(alone));
    return op == OP_L2 ? constant : 0 - constant;
}

static inline __attribute__((always_inline)) void bytes_sums(enum vic_dtype dtype, enum kernel_op op, const void *rows,
                                                             const uint32_t *which, int64_t n, int64_t dim, const void *query,
                                                             uint32_t *sums) {
    __m128i constant = _mm_set1_epi32((int32_t)query_constant(dtype, op, query, dim));
    for (int64_t i = 0; i < n; i += ROWS) {
        const char *at[ROWS]; /* behind the last row: that one again */
        struct line_sums lines[ROWS];
        __m512i totals[ROWS];
        for (int r = 0; r < ROWS; r++) {
            at[r] = (const char *)rows + (int64_t)which[i + r < n ? i + r : n - 1] * dim;
            lines[r] = (struct line_sums){_mm512_setzero_si512(), _mm512_setzero_si512()};
        }
        for (int64_t j = 0; j < dim; j += 64) {
            __m512i signed_query = bytes_signed(bytes_load(dtype, query, j, dim - j));
            for (int r = 0; r < ROWS; r++)
                lines[r] = bytes_add(dtype, op, lines[r], bytes_load(dtype, at[r], j, dim - j), signed_query);
        }
        for (int r = 0; r < ROWS; r++) {
            __m512i cross = op == OP_L2 ? _mm512_add_epi32(lines[r].cross, lines[r].cross) : lines[r].cross;
            totals[r] = op == OP_L2 ? _mm512_sub_epi32(lines[r].own, cross) : _mm512_sub_epi32(cross, lines[r].own);
        }
        __mmask8 real = (__mmask8)(n - i < ROWS ? (1u << (n - i)) - 1 : 15u);
        _mm_mask_storeu_epi32(sums + i, real, _mm_add_epi32(sum_each(totals), constant));
    }
}

void i8_dots_avx512vnni(const void *rows, const uint32_t *which, int64_t n, int64_t dim, const void *query, uint32_t *sums) {
    bytes_sums(VIC_I8, OP_DOT, rows, which, n, dim, query, sums);
}
void i8_squares_avx512vnni(const void *rows, const uint32_t *which, int64_t n, int64_t dim, const void *query, uint32_t *sums) {
    bytes_sums(VIC_I8, OP_L2, rows, which, n, dim, query, sums);
}
void u8_dots_avx512vnni(const void *rows, const uint32_t *which, int64_t n, int64_t dim, const void *query, uint32_t *sums) {
    bytes_sums(VIC_U8, OP_DOT, rows, which, n, dim, query, sums);
}
void u8_squares_avx512vnni(const void *rows, const uint32_t *which, int64_t n, int64_t dim, const void *query, uint32_t *sums) {
    bytes_sums(VIC_U8, OP_L2, rows, which, n, dim, query, sums);
}
#endif
