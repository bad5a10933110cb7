/* Batches on planes with VNNI: four products a lane and instruction. Codes are unsigned bytes as they lie, queries signed ones,
 * which is what vpdpbusd multiplies: eight bits need no decoding, four are spread to bytes once a batch. */
#include "backend/cpu/kernels.h"

#if defined(__x86_64__)
#include "backend/cpu/lanes_avx512.h"

enum { WORD_DIMS = 4, ROWS = 8, VECTORS = 2 };

static uint32_t query_word(const int8_t *codes, int64_t count) {
    uint32_t word = 0;
    memcpy(&word, codes, (size_t)count);
    return word;
}

static void row_decode4(const uint8_t *codes, int64_t stride_bytes, void *row) {
    __m512i mask = _mm512_set1_epi8(15);
    char *bytes = row;
    for (int64_t line = 0; line < stride_bytes; line += 64) {
        __m512i pairs = _mm512_loadu_si512(codes + line);
        _mm512_storeu_si512(bytes + 2 * line, _mm512_and_si512(pairs, mask));
        _mm512_storeu_si512(bytes + 2 * line + 64, _mm512_and_si512(_mm512_srli_epi16(pairs, 4), mask));
    }
}

INLINE words step(words sum, words row, words query) { return _mm512_dpbusd_epi32(sum, row, query); }
INLINE uint32_t floats_reaching(floats a, floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }

typedef void row_decode(const uint8_t *codes, int64_t stride_bytes, void *words);
static row_decode *const row_decodes[PLANE_COUNT] = {[PLANE_4] = row_decode4};

#include "backend/cpu/kernel_plane.h"

const struct plane_tile plane_tile_avx512vnni = PLANE_TILE;
#endif
