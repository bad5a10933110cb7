/* Names of types and metrics, and scalar conversions. */
#include "base/dtype.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

struct name_row {
    const char *name;
    int value;
};

/* The first name of a value is the one that is shown. */
static const struct name_row metric_names[] = {
    {"dot", VIC_DOT},          {"cosine", VIC_COSINE},  {"l2", VIC_L2},    {"ip", VIC_DOT},        {"inner_product", VIC_DOT},
    {"innerproduct", VIC_DOT}, {"inner", VIC_DOT},      {"mips", VIC_DOT}, {"cos", VIC_COSINE},    {"angular", VIC_COSINE},
    {"euclidean", VIC_L2},     {"sqeuclidean", VIC_L2}, {"l2sq", VIC_L2},  {"l2_squared", VIC_L2},
};
static const struct name_row dtype_names[] = {
    {"f32", VIC_F32},     {"f16", VIC_F16},       {"bf16", VIC_BF16}, {"i8", VIC_I8},       {"u8", VIC_U8},
    {"float32", VIC_F32}, {"float", VIC_F32},     {"fp32", VIC_F32},  {"float16", VIC_F16}, {"half", VIC_F16},
    {"fp16", VIC_F16},    {"bfloat16", VIC_BF16}, {"int8", VIC_I8},   {"uint8", VIC_U8},
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *name_of(const struct name_row *rows, size_t count, int value) {
    for (size_t i = 0; i < count; i++)
        if (rows[i].value == value) return rows[i].name;
    return "?";
}

/* Levenshtein distance over one row of the table; names are short, so 32 columns do. */
static size_t edit_distance(const char *a, const char *b) {
    size_t columns[33], length = strlen(b);
    if (length > 32) return SIZE_MAX;
    for (size_t j = 0; j <= length; j++) columns[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = columns[0];
        columns[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t change = diagonal + (tolower((unsigned char)a[i - 1]) != b[j - 1]);
            diagonal = columns[j];
            size_t skip = (columns[j] < columns[j - 1] ? columns[j] : columns[j - 1]) + 1;
            columns[j] = change < skip ? change : skip;
        }
    }
    return columns[length];
}

static enum vic_status name_parse(const struct name_row *rows, size_t count, const char *kind, const char *name, int *value) {
    if (!name) return status_fail(VIC_ARGUMENT, "expected the name of a %s, found NULL", kind);
    const struct name_row *nearest = rows;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (strcasecmp(rows[i].name, name) == 0) {
            *value = rows[i].value;
            return VIC_OK;
        }
        size_t distance = edit_distance(name, rows[i].name);
        if (distance < best) best = distance, nearest = &rows[i];
    }
    char known[64] = "";
    for (size_t i = 0; i < count && rows[i].value == (int)i + 1; i++)
        (void)snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", rows[i].name);
    if (best <= 2)
        return status_fail(VIC_ARGUMENT, "expected a %s (%s), found \"%.40s\"; did you mean %s?", kind, known, name,
                           nearest->name);
    return status_fail(VIC_ARGUMENT, "expected a %s (%s), found \"%.40s\"", kind, known, name);
}

enum vic_status vic_metric_parse(const char *name, enum vic_metric *metric) {
    int value = 0;
    if (!metric) return status_fail(VIC_ARGUMENT, "expected a place for the metric, found NULL");
    enum vic_status status = name_parse(metric_names, COUNT(metric_names), "metric", name, &value);
    if (status == VIC_OK) *metric = (enum vic_metric)value;
    return status;
}

enum vic_status vic_dtype_parse(const char *name, enum vic_dtype *dtype) {
    int value = 0;
    if (!dtype) return status_fail(VIC_ARGUMENT, "expected a place for the type, found NULL");
    enum vic_status status = name_parse(dtype_names, COUNT(dtype_names), "type", name, &value);
    if (status == VIC_OK) *dtype = (enum vic_dtype)value;
    return status;
}

const char *vic_metric_name(enum vic_metric metric) { return name_of(metric_names, COUNT(metric_names), (int)metric); }
const char *vic_dtype_name(enum vic_dtype dtype) { return name_of(dtype_names, COUNT(dtype_names), (int)dtype); }

size_t vic_dtype_bytes(enum vic_dtype dtype) {
    static const size_t bytes[] = {0, 4, 2, 2, 1, 1};
    return dtype_valid(dtype) ? bytes[dtype] : 0;
}

float float_from_f16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 31u, mantissa = half & 0x3ffu;
    if (exponent == 31) return float_from_bits(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0) return float_from_bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
    if (mantissa == 0) return float_from_bits(sign);
    uint32_t shift = (uint32_t)__builtin_clz(mantissa) - 21; /* brings the leading one to bit 10 */
    return float_from_bits(sign | ((113 - shift) << 23) | (((mantissa << shift) & 0x3ffu) << 13));
}

uint16_t f16_from_float(float value) {
    uint32_t bits = float_bits(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (magnitude < 0x33000001u) return (uint16_t)sign;              /* 2^-25 and below round to zero */
    uint32_t exponent = magnitude >> 23, mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    uint32_t shift = exponent >= 113 ? 13 : 126 - exponent; /* bits dropped; more for a subnormal result */
    uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
    kept += (rest > half) || (rest == half && (kept & 1u));
    return (uint16_t)(sign | (exponent >= 113 ? kept + ((exponent - 113) << 10) : kept));
}

uint16_t bf16_from_float(float value) {
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float dtype_load(enum vic_dtype dtype, const void *vector, int64_t index) {
    float value = 0;
    uint16_t half = 0;
    switch (dtype) {
    case VIC_F32: memcpy(&value, (const char *)vector + index * 4, 4); return value;
    case VIC_F16: memcpy(&half, (const char *)vector + index * 2, 2); return float_from_f16(half);
    case VIC_BF16: memcpy(&half, (const char *)vector + index * 2, 2); return float_from_bf16(half);
    case VIC_I8: return ((const int8_t *)vector)[index];
    case VIC_U8: return ((const uint8_t *)vector)[index];
    }
    return value;
}
