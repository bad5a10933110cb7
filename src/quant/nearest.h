/* Which of a few centres is nearest: the answer of double arithmetic, at the price of float32.
 *
 * The answer is a definition, not an approximation: the centre with the least sum over elements, in ascending order, of
 * ((double)x - c)^2 rounded to double after each operation; among equal sums the smaller centre. A pass in float32, whose
 * arithmetic may differ between processors, finds the two best centres of each point and is believed only where they are
 * further apart than all that rounding can do (the bound of backend/columns.h); for the others, about one in a thousand
 * on real rows, every centre's sum is taken. So codes have the same bytes everywhere. */
#ifndef QUANT_NEAREST_H
#define QUANT_NEAREST_H

#include "backend/columns.h"

/* Points of a call to `nearest` of the kernels. */
enum { NEAREST_BLOCK = 64 };

struct centres {
    struct columns columns; /* borrowed; zeros past count, up to a multiple of COLUMNS_UNIT */
    float *halves;          /* columns.stride of them, borrowed; see backend/columns.h */
    double reach;           /* the longest centre's length, at least */
    const struct column_kernels *kernels;
};

/* Fills halves and reach from the columns. */
void centres_measure(struct centres *centres);
/* nearest[i] of n points of columns.dim elements, one every `stride` floats. At least one centre. */
void centres_nearest(const struct centres *centres, const float *points, int64_t stride, int64_t n, int32_t *nearest);
/* The sum of the definition, for one centre. */
double centre_distance(const struct centres *centres, int64_t centre, const float *point);

#endif
