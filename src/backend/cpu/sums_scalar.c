/* Sums of codes, the reference: byte by byte. */
#include "backend/cpu/sums.h"

void sums8_scalar(const uint8_t *codes, int64_t stride_bytes, const uint32_t *rows, int64_t n, const int8_t *query,
                  int32_t *sums) {
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *row = codes + (int64_t)rows[i] * stride_bytes;
        int32_t sum = 0;
        for (int64_t j = 0; j < stride_bytes; j++) sum += (int32_t)row[j] * query[j];
        sums[i] = sum;
    }
}

void sums4_scalar(const uint8_t *codes, int64_t stride_bytes, const uint32_t *rows, int64_t n, const int8_t *query,
                  int32_t *sums) {
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *row = codes + (int64_t)rows[i] * stride_bytes;
        int32_t sum = 0;
        for (int64_t line = 0; line < stride_bytes; line += 64)
            for (int64_t j = 0; j < 64; j++)
                sum += (row[line + j] & 15) * query[2 * line + j] + (row[line + j] >> 4) * query[2 * line + 64 + j];
        sums[i] = sum;
    }
}
