/* Integer rows as a build measures over them: they are bytes already, so nothing is coded, kept beside them or lost.
 *
 * Distances between two rows come from an exact integer sum. Under l2 and dot they are the canonical score (dot: negated),
 * under cosine the squared distance of both rows at unit length, taken in double from the exact product and rounded once.
 *
 * The surprising rule: under cosine what lies nearer than 2^-44 is a copy. Rows of one direction then have no distance at all
 * from each other, as robust prune has to see, and not the rounding of two square roots. */
#include "index/vamana.h"

#include <math.h>
#include <string.h>

/* What a product of int8 is in 32 bits, all others are unsigned. */
static inline double product_value(const struct points *points, uint32_t product) {
    return points->rows->dtype == VIC_I8 ? (double)(int32_t)product : (double)product;
}

static void bytes_cosines(const struct points *points, const struct aim *aim, const uint32_t *rows, int64_t n,
                          const uint32_t *products, float *distances) {
    double own = aim->inverse > 0;
    for (int64_t i = 0; i < n; i++) {
        double inverse = points->inverse[rows[i]], both = own + (inverse > 0);
        double apart = both - 2 * (product_value(points, products[i]) * (aim->inverse * inverse));
        distances[i] = apart < 0x1p-44 ? 0 : (float)apart;
    }
}

static void bytes_distances(const struct points *points, const struct aim *aim, const uint32_t *rows, int64_t n,
                            float *distances) {
    uint32_t sums[WALK_BATCH];
    bool products = points->inner || points->inverse;
    (products ? points->products : points->squares)(points->codes, rows, n, points->stride_bytes, aim->bytes, sums);
    if (points->inverse) {
        bytes_cosines(points, aim, rows, n, sums, distances);
        return;
    }
    for (int64_t i = 0; i < n; i++) distances[i] = points->inner ? -(float)product_value(points, sums[i]) : (float)sums[i];
}

static struct aim bytes_at_row(const struct points *points, uint32_t row, int8_t *codes) {
    (void)codes;
    return (struct aim){.points = points,
                        .bytes = points->codes + (int64_t)row * points->stride_bytes,
                        .inverse = points->inverse ? points->inverse[row] : 0};
}

static double square_of(const struct points *points, const void *bytes) {
    uint32_t first = 0, square;
    points->products(bytes, &first, 1, points->stride_bytes, bytes, &square);
    return (double)square;
}

static float bytes_square(const struct points *points, uint32_t row) {
    return (float)square_of(points, points->codes + (int64_t)row * points->stride_bytes);
}

static double element(const struct points *points, const uint8_t *bytes, int64_t i) {
    return points->rows->dtype == VIC_I8 ? (int8_t)bytes[i] : bytes[i];
}

static void bytes_mean_add(const struct points *points, uint32_t row, int64_t count, double *mean) {
    const uint8_t *bytes = points->codes + (int64_t)row * points->stride_bytes;
    double scale = (points->inverse ? points->inverse[row] : 1) / (double)count;
    for (int64_t j = 0; j < points->stride_bytes; j++) mean[j] += scale * element(points, bytes, j);
}

/* The nearest vector of the rows' type; for cosines, which no length changes, the nearest to its direction. */
static struct aim bytes_at_mean(const struct points *points, const double *mean, int8_t *codes) {
    double largest = 0, factor = 1;
    for (int64_t j = 0; j < points->stride_bytes; j++) largest = fmax(largest, fabs(mean[j]));
    if (points->inverse && largest > 0) factor = (points->rows->dtype == VIC_I8 ? 127 : 255) / largest;
    for (int64_t j = 0; j < points->stride_bytes; j++) codes[j] = (int8_t)lrint(mean[j] * factor);
    double square = square_of(points, codes);
    return (struct aim){.points = points, .bytes = codes, .inverse = square > 0 ? 1 / sqrt(square) : 0};
}

/* Lengths tell copies apart under an inner product, and nobody else asks. */
static void bytes_rivals_read(const struct points *points, struct rivals *rivals) {
    points_ask(points, rivals->rows, rivals->count);
    for (int64_t i = 0; i < rivals->count; i++) {
        rivals->square[i] = points->inner ? bytes_square(points, rivals->rows[i]) : 0;
        rivals->scale[i] = 0, rivals->bias[i] = 0;
    }
}

static void bytes_rivals_apart(const struct points *points, const struct rivals *rivals, int64_t at, int64_t first,
                               int64_t count, float *apart) {
    struct aim aim = bytes_at_row(points, rivals->rows[at], NULL);
    bytes_distances(points, &aim, rivals->rows + first, count, apart);
}

const struct pair_kind pairs_bytes = {bytes_at_row,  bytes_square,      bytes_mean_add,
                                      bytes_at_mean, bytes_rivals_read, bytes_rivals_apart};

/* Of its functions a build asks for distances alone. */
static const struct point_kind points_bytes = {.name = "rows", .codes = VIC_CODES_ROWS, .distances = bytes_distances};

/* ---------------------------------------------------------------- opening */

enum { INVERSE_ROWS = 1024 };

struct inverse_job {
    const struct points *points;
    double *inverse;
};

static void inverse_part(void *argument, int worker, int64_t part) {
    const struct inverse_job *job = argument;
    const struct points *points = job->points;
    int64_t end = (part + 1) * INVERSE_ROWS < points->n ? (part + 1) * INVERSE_ROWS : points->n;
    (void)worker;
    for (int64_t row = part * INVERSE_ROWS; row < end; row++) {
        double square = square_of(points, points->codes + row * points->stride_bytes);
        job->inverse[row] = square > 0 ? 1 / sqrt(square) : 0;
    }
}

enum vic_status points_bytes_open(struct vic_device *device, const struct rows *rows, struct graph *graph,
                                  struct points *points) {
    *points = (struct points){.kind = &points_bytes,
                              .n = rows->n,
                              .rows = rows,
                              .row_bytes = rows->dim,
                              .ahead = rows->data,
                              .ahead_bytes = rows->dim,
                              .codes = rows->data,
                              .stride_bytes = rows->dim,
                              .inner = rows->metric == VIC_DOT,
                              .pairs = &pairs_bytes,
                              .products = device->host_ops->byte_sums(device->host_backend, rows->dtype, false),
                              .squares = device->host_ops->byte_sums(device->host_backend, rows->dtype, true)};
    if (rows->metric != VIC_COSINE) return VIC_OK;
    enum vic_status status =
        mem_alloc_array(graph->mem, (uint64_t)rows->n, sizeof(double), "one over the lengths of rows", &graph->own_inverse);
    if (status != VIC_OK) return status;
    struct inverse_job job = {points, graph->own_inverse};
    (void)thread_pool_run(device->host_ops->pool(device->host_backend), (rows->n + INVERSE_ROWS - 1) / INVERSE_ROWS,
                          inverse_part, &job);
    points->inverse = graph->own_inverse;
    points->ahead = graph->own_inverse, points->ahead_bytes = sizeof(double);
    return VIC_OK;
}
