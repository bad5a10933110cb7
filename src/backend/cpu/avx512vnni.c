/* AVX-512 VNNI: the exact sums of 8-bit vectors, four products a lane and instruction.
 *
 * vpdpbusd multiplies unsigned by signed bytes, so one side is moved by 128: rows of int8 become unsigned, queries of
 * uint8 become signed. What that adds to the sum is known a row or a query and is taken back by the tile's constants. */
#include "backend/cpu/kernels.h"

#if defined(__x86_64__)
#include "backend/cpu/lanes_avx512.h"
#include "backend/cpu/processor.h"
#include "backend/cpu/sums.h"

enum { EXACT_VECTORS = 2, EXACT_QUERIES = 8, EXACT_DIMS = 4 };

/* Bytes i .. i + count - 1, moved by 128 if so asked, zeros behind them; 1 <= count <= 64. */
INLINE words bytes_load(const void *vector, int64_t i, int64_t count, bool moved) {
    __mmask64 mask = ~UINT64_C(0) >> (64 - count);
    __m512i bytes = _mm512_maskz_loadu_epi8(mask, (const char *)vector + i);
    return moved ? _mm512_maskz_add_epi8(mask, bytes, _mm512_set1_epi8(-128)) : bytes;
}
INLINE words exact_rows(enum vic_dtype dtype, const void *row, int64_t i, int64_t count) {
    return bytes_load(row, i, count, dtype == VIC_I8);
}
INLINE words exact_queries(enum vic_dtype dtype, const void *query, int64_t i, int64_t count) {
    return bytes_load(query, i, count, dtype == VIC_U8);
}
INLINE words exact_step(words sum, words x, words q) { return _mm512_dpbusd_epi32(sum, x, q); }
INLINE int exact_row_shift(enum vic_dtype dtype) { return dtype == VIC_I8 ? 128 : 0; }
INLINE int exact_query_shift(enum vic_dtype dtype) { return dtype == VIC_U8 ? -128 : 0; }

#include "backend/cpu/kernel_exact.h"

const struct kernels kernels_avx512vnni = {
    .name = "avx512vnni",
    .available = processor_has_avx512vnni,
    .scan_exact = SCAN_EXACT_TABLE(scan),
    .gather_exact =
        {[VIC_I8] = {i8_dots_avx512vnni, i8_squares_avx512vnni}, [VIC_U8] = {u8_dots_avx512vnni, u8_squares_avx512vnni}},
    .tile_exact = TILE_EXACT_TABLE,
    .planes = &plane_kernels_avx512vnni,
    .sums = {sums8_avx512vnni, sums4_avx512vnni},
};
#endif
