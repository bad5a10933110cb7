/* Planes, the reference: what the kernels of kernels.h say, dimension by dimension. */
#include "backend/cpu/plane.h"

static float upper_of(float sum, const struct plane *plane, const float *norms, int64_t row, const struct plane_query *query) {
    return bound_upper(query, sum, plane->scale[row], plane->error[row], norms ? norms[row] : 0);
}

/* Sums run modulo 2^32; the true ones fit 31 bits (docs/certified.md), so nothing is lost on the way. */
static void scan(enum plane_kind kind, const struct plane *plane, const float *norms, int64_t first, int64_t n, int64_t dim,
                 const struct plane_query *query, float *upper) {
    for (int64_t row = first; row < first + n; row++) {
        const uint8_t *codes = plane->codes + row * plane->stride_bytes;
        uint32_t high = 0 - (uint32_t)query->bias_high[kind], low = 0 - (uint32_t)query->bias_low[kind];
        for (int64_t i = 0; i < dim; i++) {
            int32_t code = plane_code(kind, codes, i);
            high += (uint32_t)(code * query->high[i]);
            low += (uint32_t)(code * query->low[i]);
        }
        upper[row - first] = upper_of(fmaf(256.0f, (float)(int32_t)high, (float)(int32_t)low), plane, norms, row, query);
    }
}

static void scan8(const struct plane *plane, const float *norms, int64_t first, int64_t n, int64_t dim,
                  const struct plane_query *query, float *upper) {
    scan(PLANE_8, plane, norms, first, n, dim, query, upper);
}
static void scan4(const struct plane *plane, const float *norms, int64_t first, int64_t n, int64_t dim,
                  const struct plane_query *query, float *upper) {
    scan(PLANE_4, plane, norms, first, n, dim, query, upper);
}

static double code(enum plane_kind kind, const float *values, int64_t dim, double step, float inverse, uint8_t *codes) {
    double sums[16] = {0};
    float least = -(float)plane_offset(kind), most = -least - 1;
    for (int64_t block = 0; block < dim; block += PLANE_BLOCK) {
        uint8_t bytes[PLANE_BLOCK];
        memset(bytes, plane_offset(kind), sizeof bytes);
        for (int64_t i = block; i < dim && i < block + PLANE_BLOCK; i++) {
            float nearest = rintf(values[i] * inverse);
            nearest = nearest < least ? least : nearest > most ? most : nearest;
            double rest = fma(-step, (double)nearest, (double)values[i]);
            sums[i % 16] = fma(rest, rest, sums[i % 16]);
            bytes[i - block] = (uint8_t)((int32_t)nearest + plane_offset(kind));
        }
        if (codes) plane_block_store(kind, bytes, block, dim, codes);
    }
    for (int w = 8; w >= 1; w /= 2)
        for (int j = 0; j < w; j++) sums[j] += sums[j + w];
    return sums[0];
}

static double code8(const float *values, int64_t dim, double step, float inverse, uint8_t *codes) {
    return code(PLANE_8, values, dim, step, inverse, codes);
}
static double code4(const float *values, int64_t dim, double step, float inverse, uint8_t *codes) {
    return code(PLANE_4, values, dim, step, inverse, codes);
}

const struct plane_kernels plane_kernels_scalar = {.scan = {scan8, scan4}, .code = {code8, code4}, .tile = &plane_tile_scalar};
