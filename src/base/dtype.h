/* Element types and metrics: names, sizes, and the exact conversions between floating-point formats.
 *
 * Conversions are bit manipulation on purpose: the same on every compiler and processor, whatever the floating-point
 * environment. Rounding is to nearest, ties to even; to half precision, overflow gives infinity (the caller refuses it). */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Rows of one index: row numbers are 32 bits and the largest is kept as "no row". */
#define ROWS_MAX INT64_C(4294967294)
#define DIM_MAX  INT64_C(65536)

static inline bool dtype_is_integer(enum vic_dtype dtype) { return dtype == VIC_I8 || dtype == VIC_U8; }
static inline bool dtype_valid(enum vic_dtype dtype) { return dtype >= VIC_F32 && dtype <= VIC_U8; }
static inline bool metric_valid(enum vic_metric metric) { return metric >= VIC_DOT && metric <= VIC_L2; }

static inline uint32_t float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline float float_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline bool float_finite(float value) { return (float_bits(value) & 0x7f800000u) != 0x7f800000u; }

static inline float float_from_bf16(uint16_t half) { return float_from_bits((uint32_t)half << 16); }
float float_from_f16(uint16_t half);
uint16_t f16_from_float(float value);
uint16_t bf16_from_float(float value);

/* Element `index` of a packed vector as float32, exactly. */
float dtype_load(enum vic_dtype dtype, const void *vector, int64_t index);

#endif
