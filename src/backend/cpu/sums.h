/* The kernels of backend/sums.h, by processor, and what they share. */
#ifndef CPU_SUMS_H
#define CPU_SUMS_H

#include "backend/sums.h"

/* Rows that are asked for while others are summed: six in flight hide most of the memory's latency (Zen 5). */
enum { SUMS_AHEAD = 6, SUMS_AHEAD_BYTES = 2048 };

static inline void sums_prefetch(const uint8_t *codes, int64_t stride_bytes, uint32_t row) {
    const uint8_t *line = codes + (int64_t)row * stride_bytes;
    for (int64_t at = 0; at < stride_bytes && at < SUMS_AHEAD_BYTES; at += 64) __builtin_prefetch(line + at);
}

extern code_sums sums8_scalar, sums4_scalar, sums8_avx2, sums4_avx2, sums8_avx512vnni, sums4_avx512vnni;

#endif
