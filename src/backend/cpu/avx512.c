/* AVX-512 F, BW, VL and DQ: what gains from 16 lanes or from masks, and the table. Exact sums stay with AVX2 where there is
 * no VNNI: scans are bound by memory either way. */
#include "backend/cpu/kernels.h"

#if defined(__x86_64__)
#include "backend/cpu/lanes_avx512.h"
#include "backend/cpu/processor.h"

/* 32 registers: all 128 accumulators of a row, or 12 sums of a tile twice (both leaves of a pair). */
enum { SCAN_PASSES = 1, TILE_VECTORS = 2, TILE_QUERIES = 6 };

#include "backend/cpu/kernel_scan.h"
#include "backend/cpu/kernel_tile.h"

/* No branch a hit, so a filter that keeps everything costs what one costs that keeps nothing. The compressed register is
 * stored whole, not by a compressing store (microcode on AMD): at most i positions are out, and n - i >= 16 follow. */
static int64_t above(const float *scores, int64_t n, bool smaller_better, uint32_t least, uint32_t *positions) {
    __m512i top = _mm512_set1_epi32(INT32_MIN), turn = _mm512_set1_epi32(smaller_better ? -1 : 0);
    __m512i limit = _mm512_set1_epi32((int)least);
    __m512i place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 real = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffffu);
        __m512i bits = _mm512_maskz_loadu_epi32(real, scores + i);
        __m512i flip = _mm512_or_si512(_mm512_srai_epi32(bits, 31), top);
        __m512i order = _mm512_xor_si512(_mm512_xor_si512(bits, flip), turn);
        __mmask16 enough = _mm512_mask_cmpge_epu32_mask(real, order, limit);
        _mm512_mask_storeu_epi32(positions + count, real, _mm512_maskz_compress_epi32(enough, place));
        count += __builtin_popcount(enough);
        place = _mm512_add_epi32(place, _mm512_set1_epi32(16));
    }
    return count;
}

const struct kernels kernels_avx512 = {
    .name = "avx512",
    .available = processor_has_avx512,
    .scan = SCAN_TABLE(scan),
    .gather = SCAN_TABLE(gather),
    .tile = TILE_TABLE,
    .above = above,
    .columns = &column_kernels_avx512,
};
#endif
