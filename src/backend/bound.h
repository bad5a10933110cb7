/* Planes: small codes of rows with a proven error, and the bound that lets a search discard a row without reading it.
 *
 * One rule for every metric, every width and every processor (docs/certified.md proves it, line by line): from the codes
 * of a row, three numbers kept with it and the constants of a query a kernel computes `upper`, and a row whose canonical
 * score is at least as good as a score T has upper >= bound_threshold(T). So a row below that is no answer, ties included.
 *
 * The surprising rule: nothing here has to be accurate, only on the safe side. Each quantity is computed in double, widened
 * by more than its own rounding, and rounded outwards to float32. */
#ifndef BACKEND_BOUND_H
#define BACKEND_BOUND_H

#include "base/dtype.h"

#include <math.h>

/* Widths of a code. A row x, divided by its norm for cosine, is scale * (code - offset) + e with ||e|| <= error. */
enum plane_kind { PLANE_8, PLANE_4, PLANE_COUNT };
/* Most steps that are tried for a row. */
enum { PLANE_STEPS = 4 };

/* One plane of an index's rows. */
struct plane {
    const uint8_t *codes; /* row i at codes + i * stride_bytes; NULL: there is none */
    int64_t stride_bytes;
    const float *scale, *error; /* one a row. scale 0 with error infinite: a row that no plane can bound */
};

/* Subtracted from a code before it is scaled. */
static inline int32_t plane_offset(enum plane_kind kind) { return kind == PLANE_8 ? 128 : 8; }
static inline int32_t plane_bits(enum plane_kind kind) { return kind == PLANE_8 ? 8 : 4; }
/* Bytes of a row's codes: whole cache lines. 8 bits: a byte a dimension. 4 bits: byte j of line b holds dimension
 * 128 b + j in its low half and 128 b + 64 + j in its high half. What lies past dim is the offset's own code. */
static inline int64_t plane_stride(enum plane_kind kind, int64_t dim) {
    return kind == PLANE_8 ? (dim + 63) / 64 * 64 : (dim + 127) / 128 * 64;
}
/* Where dimension i lies: its byte, and for 4 bits how far the code is shifted in it. */
static inline int64_t plane_byte(enum plane_kind kind, int64_t i) { return kind == PLANE_8 ? i : i / 128 * 64 + i % 64; }
static inline int plane_shift(enum plane_kind kind, int64_t i) { return kind == PLANE_4 && i % 128 >= 64 ? 4 : 0; }
/* Elements of a query's codes: padded with zeros to a whole line of either width. */
static inline int64_t plane_query_elements(int64_t dim) { return (dim + 127) / 128 * 128; }

/* A query made ready for a plane: q = step * (256 high + low) + f, and the constants of
 *     upper = step * approx + alpha error + norm (kappa norm + beta) + gamma. */
struct plane_query {
    const int8_t *high, *low; /* high NULL: nothing but low. Scans want plane_query_elements(dim), zeros behind dim */
    int32_t bias_high[PLANE_COUNT], bias_low[PLANE_COUNT]; /* offset times the sum of the codes */
    float step, alpha, beta, gamma, kappa;
    /* For the threshold. */
    enum vic_metric metric;
    int64_t dim;
    double square;    /* at most ||q||^2 */
    float query_norm; /* cosine: the canonical norm */
};

/* ---- rows */

/* Whether a row gets codes: not when it is too large for sums without overflow, or so small that the inverse of its step
 * would be infinite. `largest` is its largest magnitude, `norm` what bound_norm says. */
bool bound_row_fits(float largest, float norm);
/* At least ||x||, from the sum of its squares in double. */
float bound_norm(double square_sum);
/* At least ||x / divisor - scale * codes||, from the double sum of squares of x - scale * divisor * codes. */
float bound_error(double square_sum, float divisor);

/* ---- queries */

/* Codes and constants for a prepared (for cosine: scaled) query. high and low: dim bytes each; high NULL: codes of 8 bits,
 * all in low, for batches that the arithmetic units limit. query_norm: cosine only. False: the query is outside what the
 * bound covers, and nothing may be discarded. */
bool bound_query(enum vic_metric metric, const float *query, int64_t dim, float query_norm, int8_t *high, int8_t *low,
                 struct plane_query *out);
/* The order of operations that every kernel keeps (backend/cpu/kernels.h): one row's `upper` from m = 256 A + B. */
static inline float bound_upper(const struct plane_query *query, float m, float scale, float error, float norm) {
    float slack = fmaf(query->alpha, error, fmaf(norm, fmaf(query->kappa, norm, query->beta), query->gamma));
    return fmaf(m * scale, query->step, slack);
}
/* Every row whose canonical score is at least as good as `score` has upper >= this. -inf: any row may. */
float bound_threshold(const struct plane_query *query, float score);

#endif
