/* The nearest centre: a quick pass, its bound, and the slow way for what the bound leaves open. */
#include "quant/nearest.h"

#include <math.h>
#include <string.h>

void centres_measure(struct centres *centres) {
    const struct columns *columns = &centres->columns;
    double longest = 0;
    for (int64_t c = 0; c < columns->stride; c++) {
        double square = 0;
        for (int64_t d = 0; c < columns->count && d < columns->dim; d++) {
            double element = (double)columns->values[d * columns->stride + c];
            square += element * element;
        }
        centres->halves[c] = c < columns->count ? (float)(square / 2) : INFINITY;
        longest = square > longest ? square : longest;
    }
    centres->reach = sqrt(longest) * (1 + 0x1p-30);
}

double centre_distance(const struct centres *centres, int64_t centre, const float *point) {
    const float *column = centres->columns.values + centre;
    double sum = 0;
    for (int64_t d = 0; d < centres->columns.dim; d++) {
        double apart = (double)point[d] - (double)column[d * centres->columns.stride];
        sum += apart * apart;
    }
    return sum;
}

/* Every centre's sum, a block of centres at a time, so that compilers find lanes. */
enum { SUMS = 32 };

static int32_t nearest_exactly(const struct columns *columns, const float *point) {
    double least = INFINITY;
    int64_t nearest = 0;
    for (int64_t first = 0; first < columns->count; first += SUMS) {
        double sums[SUMS] = {0};
        int64_t count = columns->count - first < SUMS ? columns->count - first : SUMS;
        for (int64_t d = 0; d < columns->dim; d++) {
            const float *column = columns->values + d * columns->stride + first;
            double element = (double)point[d];
            for (int64_t c = 0; c < count; c++) sums[c] += (element - (double)column[c]) * (element - (double)column[c]);
        }
        for (int64_t c = 0; c < count; c++)
            if (sums[c] < least) least = sums[c], nearest = first + c;
    }
    return (int32_t)nearest;
}

/* A margin above this decides: twice the error of a float32 score, which is half a distance without the point's own square,
 * and what the double sums may be off by. Infinite where the pass could overflow. */
static double doubtful_margin(const struct centres *centres, const float *point) {
    double dim = (double)centres->columns.dim, square = 0, reach = centres->reach;
    for (int64_t d = 0; d < centres->columns.dim; d++) square += (double)point[d] * (double)point[d];
    double length = sqrt(square) * (1 + 0x1p-30), largest = reach * reach / 2 + length * reach;
    if (!(largest < 0x1p100)) return INFINITY;
    double score_error = (dim + 3) * 0x1p-24 * 1.01 * largest + (2 * dim + 2) * 0x1p-149;
    double sum_error = (dim + 3) * 0x1p-51 * (length + reach) * (length + reach);
    return 2 * score_error * (1 + 0x1p-10) + sum_error;
}

void centres_nearest(const struct centres *centres, const float *points, int64_t stride, int64_t n, int32_t *nearest) {
    float margins[NEAREST_BLOCK];
    for (int64_t first = 0; first < n; first += NEAREST_BLOCK) {
        int64_t count = n - first < NEAREST_BLOCK ? n - first : NEAREST_BLOCK;
        const float *block = points + first * stride;
        centres->kernels->nearest(&centres->columns, centres->halves, block, stride, count, nearest + first, margins);
        for (int64_t i = 0; i < count; i++)
            if (!((double)margins[i] > doubtful_margin(centres, block + i * stride)))
                nearest[first + i] = nearest_exactly(&centres->columns, block + i * stride);
    }
}
