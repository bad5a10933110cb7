/* Four bits a dimension: the best of four steps, since with sixteen codes it pays to cut off the largest values.
 *
 * 0.34 of the root mean square is right for Gaussian values; flat and sparse rows want more. Measured on 5,883 real rows of
 * 384: mean error 10.8 % of the norm, as a search over forty steps finds, against 15 % for the step that cuts nothing off. */
#include "quant/quantizer.h"

#include <math.h>

static int steps(float largest, double mean_square, float tried[PLANE_STEPS]) {
    float root = (float)sqrt(mean_square);
    tried[0] = 0.32f * root, tried[1] = 0.36f * root, tried[2] = 0.48f * root;
    tried[3] = largest / 7;
    return 4;
}

const struct quantizer plane4_quantizer = {
    .name = "4",
    .bit = VIC_PLANES_4,
    .codes_section = "plane4",
    .scale_section = "plane4_scale",
    .error_section = "plane4_error",
    .steps = steps,
};
