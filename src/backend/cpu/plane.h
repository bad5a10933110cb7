/* What the plane kernels of all processors share: how a block of codes is laid into a row's bytes. */
#ifndef CPU_PLANE_H
#define CPU_PLANE_H

#include "backend/cpu/kernels.h"

enum { PLANE_BLOCK = 128 }; /* dimensions of a line of a 4-bit plane, two lines of an 8-bit one */

/* The code of dimension i, before its offset is taken off. */
static inline int32_t plane_code(enum plane_kind kind, const uint8_t *codes, int64_t i) {
    int32_t byte = codes[plane_byte(kind, i)];
    return kind == PLANE_8 ? byte : byte >> plane_shift(kind, i) & 15;
}

/* One byte a dimension, `PLANE_BLOCK` of them from dimension `block` on, to where the layout wants them. */
static inline void plane_block_store(enum plane_kind kind, const uint8_t *bytes, int64_t block, int64_t dim, uint8_t *codes) {
    int64_t left = plane_stride(PLANE_8, dim) - block;
    if (kind == PLANE_8) {
        memcpy(codes + block, bytes, left < PLANE_BLOCK ? 64 : PLANE_BLOCK);
        return;
    }
    for (int i = 0; i < 64; i++) codes[block / 2 + i] = (uint8_t)(bytes[i] | bytes[64 + i] << 4);
}

#endif
