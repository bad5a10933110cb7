/* Vectors in columns, the reference: plain loops over short arrays, which a compiler turns into whatever lanes the plainest
 * processor has. */
#include "backend/columns.h"
#include "backend/cpu/kernels.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 64 };

static void block_dot(const float *column, float element, int64_t count, float *sums) {
    for (int64_t c = 0; c < count; c++) sums[c] += element * column[c];
}
static void block_l2(const float *column, float element, int64_t count, float *sums) {
    for (int64_t c = 0; c < count; c++) sums[c] += (element - column[c]) * (element - column[c]);
}

static void column_sums(void (*step)(const float *, float, int64_t, float *), const struct columns *columns,
                        const float *vector, float *sums) {
    for (int64_t first = 0; first < columns->count; first += BLOCK) {
        int64_t count = columns->count - first < BLOCK ? columns->count - first : BLOCK;
        memset(sums + first, 0, (size_t)count * sizeof *sums);
        for (int64_t d = 0; d < columns->dim; d++)
            step(columns->values + d * columns->stride + first, vector[d], count, sums + first);
    }
}

static void columns_dot(const struct columns *columns, const float *vector, float *sums) {
    column_sums(block_dot, columns, vector, sums);
}
static void columns_l2(const struct columns *columns, const float *vector, float *sums) {
    column_sums(block_l2, columns, vector, sums);
}

static void columns_nearest(const struct columns *columns, const float *halves, const float *points, int64_t stride, int64_t n,
                            int32_t *nearest, float *margins) {
    for (int64_t i = 0; i < n; i++) {
        const float *point = points + i * stride;
        float best = INFINITY, second = INFINITY;
        int64_t place = 0;
        for (int64_t first = 0; first < columns->count; first += BLOCK) {
            float scores[BLOCK];
            int64_t count = columns->count - first < BLOCK ? columns->count - first : BLOCK;
            memcpy(scores, halves + first, (size_t)count * sizeof *scores);
            for (int64_t d = 0; d < columns->dim; d++)
                block_dot(columns->values + d * columns->stride + first, -point[d], count, scores);
            for (int64_t c = 0; c < count; c++) {
                if (scores[c] >= second) continue;
                if (scores[c] < best)
                    second = best, best = scores[c], place = first + c;
                else
                    second = scores[c];
            }
        }
        nearest[i] = (int32_t)place;
        margins[i] = second - best;
    }
}

const struct column_kernels column_kernels_scalar = {.dot = columns_dot, .l2 = columns_l2, .nearest = columns_nearest};
