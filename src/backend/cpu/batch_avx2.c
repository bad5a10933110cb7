/* Batches on planes with AVX2: a sum of two products of bytes would saturate, so both sides are widened to 16 bits, rows once a
 * batch and queries once a block. */
#include "backend/cpu/kernels.h"

#if defined(__x86_64__)
#include "backend/cpu/lanes_avx2.h"

enum { WORD_DIMS = 2, ROWS = 4, VECTORS = 2 };

static uint32_t query_word(const int8_t *codes, int64_t count) {
    uint32_t second = count > 1 ? (uint16_t)codes[1] : 0;
    return (uint16_t)codes[0] | second << 16;
}

static void row_decode8(const uint8_t *codes, int64_t stride_bytes, void *row) {
    uint16_t *shorts = row;
    for (int64_t i = 0; i < stride_bytes; i++) shorts[i] = codes[i];
}
static void row_decode4(const uint8_t *codes, int64_t stride_bytes, void *row) {
    uint16_t *shorts = row;
    for (int64_t line = 0; line < stride_bytes; line += 64, shorts += 128)
        for (int64_t i = 0; i < 64; i++) {
            shorts[i] = codes[line + i] & 15;
            shorts[64 + i] = codes[line + i] >> 4;
        }
}

INLINE words step(words sum, words row, words query) { return shorts_step(sum, row, query); }
INLINE uint32_t floats_reaching(floats a, floats b) { return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ)); }

typedef void row_decode(const uint8_t *codes, int64_t stride_bytes, void *words);
static row_decode *const row_decodes[PLANE_COUNT] = {row_decode8, row_decode4};

#include "backend/cpu/kernel_plane.h"

const struct plane_tile plane_tile_avx2 = PLANE_TILE;
#endif
