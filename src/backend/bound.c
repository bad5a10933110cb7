/* The bound, line for line as docs/certified.md derives it; the numbers in brackets are its equations.
 *
 * Everything is computed in double. A sum of up to 65,536 squares of float32 is wrong by less than 2^-36 of itself there,
 * so widening by 2^-30 covers it and the few operations behind it. */
#include "backend/bound.h"

/* One rounding of float32, relative. */
static const double unit = 0x1p-24;
static const double wider = 1 + 0x1p-30, narrower = 1 - 0x1p-30;
/* More than the kernels' own rounding of the constants' terms [9]. */
static const double inflate = 1 + 0x1p-20;
/* Added to each constant. alpha: 0 times an infinite error would say nothing. beta: pays for underflow in [9]. gamma: would
 * else be subnormal, and a multiply-add of such a number takes some 150 cycles on Intel's processors, which made batches
 * there 2.7 times and queries on 4 bits 1.6 times as slow. */
static const double least_constant = 0x1p-120;
/* Norms up to here: no canonical sum and no partial sum of it can overflow [2]. */
static const float norm_most = 0x1p60f;
/* Largest magnitudes from here up: the inverse of a step is finite. */
static const float row_least = 0x1p-110f, query_least = 0x1p-100f;
/* The largest code of a query: 256 * 127 + 127 is the most that a high and a low byte hold. */
enum { TWO_BYTES_MOST = 32639, ONE_BYTE_MOST = 127 };

static float round_above(double value) {
    float nearest = (float)value;
    return (double)nearest >= value ? nearest : nextafterf(nearest, INFINITY);
}

static float round_below(double value) {
    float nearest = (float)value;
    return (double)nearest <= value ? nearest : nextafterf(nearest, -INFINITY);
}

bool bound_row_fits(float largest, float norm) { return norm <= norm_most && (largest == 0 || largest >= row_least); }

float bound_norm(double square_sum) { return round_above(sqrt(square_sum) * wider); }

float bound_error(double square_sum, float divisor) { return round_above(sqrt(square_sum) / (double)divisor * wider); }

/* Relative error of a canonical sum in which a product passes `roundings` operations [1]. */
static double sum_error(double roundings) { return roundings * unit / (1 - roundings * unit); }

/* C: chunks of 128 dimensions, the last one padded. */
static double chunks_of(int64_t dim) {
    int64_t chunks = (dim + 127) / 128;
    return (double)chunks;
}

/* What a query's codes leave over and how large they are, as double sums. */
struct query_sums {
    double square, rest_square, high_square, low_square;
    int64_t high, low;
};

static struct query_sums query_code(const float *query, int64_t dim, float step, float most, int8_t *high, int8_t *low) {
    struct query_sums sums = {0};
    float inverse = step > 0 ? 1 / step : 0;
    for (int64_t i = 0; i < dim; i++) {
        float nearest = rintf(query[i] * inverse);
        nearest = fminf(fmaxf(nearest, -most), most);
        int32_t code = (int32_t)nearest, top = (code + 128 + 65536) / 256 - 256, bottom = code - 256 * top;
        double value = (double)query[i], rest = value - (double)step * code; /* exact product: 24 and 16 bits */
        if (high) high[i] = (int8_t)top;                                     /* else it is 0 */
        low[i] = (int8_t)bottom;
        sums.high += top, sums.low += bottom;
        sums.square += value * value, sums.rest_square += rest * rest;
        sums.high_square += (double)top * top, sums.low_square += (double)bottom * bottom;
    }
    return sums;
}

bool bound_query(enum vic_metric metric, const float *query, int64_t dim, float query_norm, int8_t *high, int8_t *low,
                 struct plane_query *out) {
    float largest = 0, most = high ? TWO_BYTES_MOST : ONE_BYTE_MOST;
    for (int64_t i = 0; i < dim; i++) largest = fmaxf(largest, fabsf(query[i]));
    float step = largest / most;
    struct query_sums sums = query_code(query, dim, step, most, high, low);
    double norm = sqrt(sums.square) * wider, rest = sqrt(sums.rest_square) * wider;               /* ||q||, ||f|| */
    double parts = (double)step * (256 * sqrt(sums.high_square) + sqrt(sums.low_square)) * wider; /* G [6] */
    if (norm > (double)norm_most || (largest > 0 && largest < query_least)) return false;
    double chunks = chunks_of(dim);
    double underflow = 128 * chunks * 0x1p-149 + (double)step * 0x1p-149 + 0x1p-148; /* [3], [7] */
    double approx = 5 * unit * parts;                                                /* [7] */
    double beta = rest + approx, gamma = underflow;
    if (metric == VIC_DOT) beta += sum_error(chunks + 7) * norm; /* [10] */
    if (metric == VIC_COSINE) {                                  /* [11]: the row's length is 1, or a little more */
        beta += sum_error(chunks + 7) * norm + 4 * unit * norm;
        gamma += beta * (1 + 0x1p-10) + chunks * 0x1p-100 + (double)query_norm * 0x1p-149;
        beta = 0;
    }
    *out = (struct plane_query){
        .high = high,
        .low = low,
        .step = step,
        .alpha = round_above((norm + rest + approx) * inflate + least_constant), /* [8] */
        .beta = round_above(beta * inflate + least_constant),
        .gamma = round_above(gamma * inflate + least_constant),
        .kappa = metric == VIC_L2 ? -0.5f * (1 - 0x1p-19f) : 0, /* [12] */
        .metric = metric,
        .dim = dim,
        .square = sums.square * narrower,
        .query_norm = query_norm,
    };
    for (int kind = 0; kind < PLANE_COUNT; kind++) {
        out->bias_high[kind] = (int32_t)(plane_offset((enum plane_kind)kind) * sums.high);
        out->bias_low[kind] = (int32_t)(plane_offset((enum plane_kind)kind) * sums.low);
    }
    return true;
}

float bound_threshold(const struct plane_query *query, float score) {
    double chunks = chunks_of(query->dim), least;
    if (query->metric == VIC_DOT) return score;
    if (query->metric == VIC_COSINE) {
        if (!(score > -1)) return -INFINITY; /* the clamp lifts any quotient to -1 */
        return round_below((double)score * (double)query->query_norm);
    }
    if (!(score < INFINITY)) return -INFINITY;
    double most = ((double)score + 128 * chunks * 0x1p-149) / (1 - sum_error(chunks + 9)) * wider; /* [13] */
    least = (query->square - most) / 2;
    return round_below(least - (query->square + most) * 0x1p-48);
}
