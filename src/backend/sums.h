/* Sums of codes here and there: the one operation a walk through a graph does with rows of an 8-bit plane. */
#ifndef BACKEND_SUMS_H
#define BACKEND_SUMS_H

#include <stdint.h>

/* sums[i] = the sum over stride_bytes of codes[rows[i] * stride_bytes + j] * query[j], for i < n. stride_bytes: a multiple of
 * 64, at most 65,536, so that 32 bits hold every sum. The rows lie anywhere; those to come are asked for ahead of time. */
typedef void code_sums(const uint8_t *codes, int64_t stride_bytes, const uint32_t *rows, int64_t n, const int8_t *query,
                       int32_t *sums);

#endif
