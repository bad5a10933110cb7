/* One vector against many that lie in columns: what product quantisation and k-means are made of.
 *
 * Vectors are stored by element, so that neighbouring lanes hold neighbouring vectors and a sum over elements never goes
 * across lanes. The sums that end up in tables of distances have one order, the same on every processor; `nearest` may use
 * any arithmetic, because nobody believes it without the margin (quant/nearest.h). */
#ifndef BACKEND_COLUMNS_H
#define BACKEND_COLUMNS_H

#include <stdint.h>

/* Element d of vector c at values[d * stride + c], c < count <= stride. */
struct columns {
    const float *values;
    int64_t dim, count, stride;
};

/* Padding of stride for `nearest`. */
enum { COLUMNS_UNIT = 16 };

struct column_kernels {
    /* sums[c], c < count: from +0, element by element in ascending order, sum = sum + term, where the term is the product of
     * both elements, rounded (dot), or the rounded square of their rounded difference (l2). Nothing is fused. */
    void (*dot)(const struct columns *columns, const float *vector, float *sums);
    void (*l2)(const struct columns *columns, const float *vector, float *sums);
    /* For n points of dim elements, one every `stride` floats: the vector c with the least halves[c] - dot(point, c), and by
     * how much the next one is worse (0 when it is as good). halves: half the squared length of each vector; columns->stride
     * is a multiple of COLUMNS_UNIT, and past `count` halves are infinite and values are zeros. Each score is off by less
     * than (dim + 3) * 2^-24 * 1.01 * (halves[c] + the sum of |element products|), as long as nothing overflows. */
    void (*nearest)(const struct columns *columns, const float *halves, const float *points, int64_t stride, int64_t n,
                    int32_t *nearest, float *margins);
};

#endif
