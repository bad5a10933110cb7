/* Rows as the codes of a plane, of 8 bits or of 4: a row is scale * (code - offset) an element, a query or a row to measure
 * from is bytes, and a distance is made of the integer sum of their products. The offset is taken out of the sum once an aim.
 *
 * The length of a decoded row is kept beside its scale (8 bytes a row) only where distances ask for it: while a graph is built,
 * and under l2. Otherwise a look at a row needs its scale alone, which is the plane's.
 *
 * 8-bit codes are what graphs are built over. 4-bit codes are half as much to read and less exact, so their lists are longer
 * where beams are short: at least 32 rows and a quarter of the beam get the score that orders them rightly. */
#include "index/vamana.h"

#include <math.h>
#include <string.h>

/* To the nearest whole number, |value| <= 2^22, without a call: the sum's last bits are the number. */
static inline int32_t nearest(float value) { return (int32_t)(float_bits(value + 12582912.0f) - 0x4b400000u); }

/* Dimensions [first, first + count) as float32. */
static void elements_load(enum vic_dtype dtype, const void *vector, int64_t first, int64_t count, float *values) {
    if (dtype == VIC_F32)
        memcpy(values, (const char *)vector + first * (int64_t)sizeof(float), (size_t)count * sizeof(float));
    else
        for (int64_t i = 0; i < count; i++) values[i] = dtype_load(dtype, vector, first + i);
}

/* `elements` bytes, those past the query's dimension 0. */
static void query_aim(const struct points *points, enum plane_kind kind, const struct vic_matrix *query, int64_t elements,
                      int8_t *codes, struct aim *aim) {
    float block[64], largest = 0;
    int32_t sum = 0;
    int64_t dim = query->dim;
    for (int64_t first = 0; first < dim; first += 64) {
        int64_t count = dim - first < 64 ? dim - first : 64;
        elements_load(query->dtype, query->data, first, count, block);
        for (int64_t i = 0; i < count; i++) largest = fabsf(block[i]) > largest ? fabsf(block[i]) : largest;
    }
    /* A query so small that its step would vanish has all codes 0. */
    float inverse = largest >= 0x1p-100f ? 127 / largest : 0;
    for (int64_t first = 0; first < elements; first += 64) {
        int64_t count = dim - first < 64 ? dim - first : 64;
        memset(block, 0, sizeof block);
        if (count > 0) elements_load(query->dtype, query->data, first, count, block);
        for (int64_t i = 0; i < 64; i++) {
            codes[first + i] = (int8_t)nearest(block[i] * inverse);
            sum += codes[first + i];
        }
    }
    bool euclidean = points->rows->metric == VIC_L2;
    *aim = (struct aim){.points = points,
                        .codes = codes,
                        .bias = plane_offset(kind) * sum,
                        .factor = euclidean ? -2 * (largest / 127) : -1,
                        .weight = euclidean ? 1 : 0};
}

static int64_t room8(const struct points *points) { return points->stride_bytes; }
static int64_t room4(const struct points *points) { return 2 * points->stride_bytes; }

static void aim8(const struct points *points, const struct vic_matrix *query, void *room, struct aim *aim) {
    query_aim(points, PLANE_8, query, room8(points), room, aim);
}
static void aim4(const struct points *points, const struct vic_matrix *query, void *room, struct aim *aim) {
    query_aim(points, PLANE_4, query, room4(points), room, aim);
}

static void codes_distances(const struct points *points, const struct aim *aim, const uint32_t *rows, int64_t n,
                            float *distances) {
    int32_t sums[WALK_BATCH];
    points->sums(points->codes, points->stride_bytes, rows, n, aim->codes, sums);
    if (!points->terms) {
        for (int64_t i = 0; i < n; i++) distances[i] = (aim->factor * points->scale[rows[i]]) * (float)(sums[i] - aim->bias);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        struct point_term term = points->terms[rows[i]];
        distances[i] = aim_distance(aim, sums[i], term.scale, term.square);
    }
}

static int64_t list8(int64_t beam) { return beam; }
static int64_t list4(int64_t beam) { return beam > 32 + beam / 4 ? beam : 32 + beam / 4; }

/* ---------------------------------------------------------------- terms */

enum { TERM_ROWS = 1024 };

struct term_job {
    const struct plane *plane;
    enum plane_kind kind;
    struct point_term *terms;
    int64_t n;
};

static int32_t codes_square(enum plane_kind kind, const uint8_t *codes, int64_t stride_bytes) {
    int32_t sum = 0;
    if (kind == PLANE_8)
        for (int64_t i = 0; i < stride_bytes; i++) sum += (codes[i] - 128) * (codes[i] - 128);
    else
        for (int64_t i = 0; i < stride_bytes; i++) {
            int32_t low = (codes[i] & 15) - 8, high = (codes[i] >> 4) - 8;
            sum += low * low + high * high;
        }
    return sum;
}

static void term_part(void *argument, int worker, int64_t part) {
    const struct term_job *job = argument;
    (void)worker;
    int64_t end = (part + 1) * TERM_ROWS < job->n ? (part + 1) * TERM_ROWS : job->n;
    for (int64_t row = part * TERM_ROWS; row < end; row++) {
        const uint8_t *codes = job->plane->codes + row * job->plane->stride_bytes;
        float scale = job->plane->scale[row];
        int32_t sum = codes_square(job->kind, codes, job->plane->stride_bytes);
        job->terms[row] = (struct point_term){scale, scale * scale * (float)sum};
    }
}

void codes_forget_lengths(struct points *points) {
    points->terms = NULL;
    points->ahead = (const char *)points->scale, points->ahead_bytes = sizeof *points->scale;
    points->row_bytes = points->stride_bytes + points->ahead_bytes;
}

/* With lengths, where they are asked for: by rows that are measured from, and by l2. Otherwise opening reads no codes. */
static enum vic_status codes_open(struct vic_device *device, const struct rows *rows, enum plane_kind kind,
                                  const struct plane *plane, bool lengths, struct graph *graph, struct points *points) {
    *points = (struct points){.kind = kind == PLANE_8 ? &points_8 : &points_4,
                              .n = rows->n,
                              .rows = rows,
                              .codes = plane->codes,
                              .stride_bytes = plane->stride_bytes,
                              .scale = plane->scale,
                              .inner = rows->metric == VIC_DOT,
                              .pairs = &pairs_codes,
                              .sums = device->host_ops->sums(device->host_backend, kind)};
    codes_forget_lengths(points);
    if (!lengths && rows->metric != VIC_L2) return VIC_OK;
    enum vic_status status = mem_alloc_array(graph->mem, (uint64_t)rows->n, sizeof(struct point_term),
                                             "the terms of a graph's points", &graph->own_terms[kind]);
    if (status != VIC_OK) return status;
    struct term_job job = {plane, kind, graph->own_terms[kind], rows->n};
    (void)thread_pool_run(device->host_ops->pool(device->host_backend), (rows->n + TERM_ROWS - 1) / TERM_ROWS, term_part, &job);
    points->terms = graph->own_terms[kind];
    points->ahead = graph->own_terms[kind], points->ahead_bytes = sizeof *points->terms;
    points->row_bytes = points->stride_bytes + points->ahead_bytes;
    return VIC_OK;
}

static enum vic_status open8(struct vic_device *device, const struct rows *rows, bool build, struct graph *graph,
                             struct points *points) {
    if (!rows->planes[PLANE_8].codes) return VIC_OK; /* integer rows have no planes */
    return codes_open(device, rows, PLANE_8, &rows->planes[PLANE_8], build, graph, points);
}

static enum vic_status open4(struct vic_device *device, const struct rows *rows, bool build, struct graph *graph,
                             struct points *points) {
    (void)build; /* which measures over 8 bits */
    if (!rows->planes[PLANE_4].codes) return VIC_OK;
    return codes_open(device, rows, PLANE_4, &rows->planes[PLANE_4], false, graph, points);
}

const struct point_kind points_8 = {"8", VIC_CODES_8, open8, room8, aim8, codes_distances, list8};
const struct point_kind points_4 = {"4", VIC_CODES_4, open4, room4, aim4, codes_distances, list4};

/* ---------------------------------------------------------------- from row to row, 8 bits */

static struct aim aim_at_biased_row(const struct points *points, uint32_t row, int32_t bias, int8_t *codes) {
    int64_t stride_bytes = points->stride_bytes; /* bytes that are written might be its own, for all the compiler knows */
    const uint8_t *source = points->codes + (int64_t)row * stride_bytes;
    float scale = points->terms[row].scale;
    for (int64_t i = 0; i < stride_bytes; i++) codes[i] = (int8_t)(source[i] ^ 128);
    struct aim aim = {.points = points, .codes = codes, .bias = bias, .factor = -scale};
    if (!points->inner) aim.factor = -2 * scale, aim.base = points->terms[row].square, aim.weight = 1;
    return aim;
}

static struct aim codes_at_row(const struct points *points, uint32_t row, int8_t *codes) {
    const uint8_t *source = points->codes + (int64_t)row * points->stride_bytes;
    int32_t sum = 0;
    for (int64_t i = 0; i < points->stride_bytes; i++) sum += source[i] - 128;
    return aim_at_biased_row(points, row, 128 * sum, codes);
}

static float codes_length(const struct points *points, uint32_t row) { return points->terms[row].square; }

static void codes_mean_add(const struct points *points, uint32_t row, int64_t count, double *mean) {
    const uint8_t *source = points->codes + (int64_t)row * points->stride_bytes;
    double scale = (double)points->terms[row].scale / (double)count;
    for (int64_t j = 0; j < points->stride_bytes; j++) mean[j] += scale * (source[j] - 128);
}

static struct aim codes_at_mean(const struct points *points, const double *mean, int8_t *codes) {
    double largest = 0, square = 0;
    for (int64_t j = 0; j < points->stride_bytes; j++) {
        largest = fmax(largest, fabs(mean[j]));
        square += mean[j] * mean[j];
    }
    struct aim aim = {
        .points = points, .codes = codes, .weight = 1, .factor = -2 * (float)(largest / 127), .base = (float)square};
    for (int64_t j = 0; j < points->stride_bytes; j++) {
        codes[j] = (int8_t)(largest > 0 ? lrint(mean[j] * (127 / largest)) : 0);
        aim.bias += 128 * codes[j];
    }
    return aim;
}

static void codes_rivals_read(const struct points *points, struct rivals *rivals) {
    int8_t ones[DIM_MAX];
    memset(ones, 1, (size_t)points->stride_bytes);
    points_ask(points, rivals->rows, rivals->count);
    points->sums(points->codes, points->stride_bytes, rivals->rows, rivals->count, ones, rivals->bias);
    for (int64_t i = 0; i < rivals->count; i++) {
        struct point_term term = points->terms[rivals->rows[i]];
        rivals->scale[i] = term.scale, rivals->square[i] = term.square;
        rivals->bias[i] = 128 * (rivals->bias[i] - 128 * (int32_t)points->stride_bytes);
    }
}

static void codes_rivals_apart(const struct points *points, const struct rivals *rivals, int64_t at, int64_t first,
                               int64_t count, float *apart) {
    int8_t codes[DIM_MAX];
    int32_t sums[WALK_BATCH];
    const float *scales = rivals->scale + first, *squares = rivals->square + first;
    struct aim aim = aim_at_biased_row(points, rivals->rows[at], rivals->bias[at], codes);
    points->sums(points->codes, points->stride_bytes, rivals->rows + first, count, aim.codes, sums);
    for (int64_t i = 0; i < count; i++) apart[i] = aim_distance(&aim, sums[i], scales[i], squares[i]);
}

const struct pair_kind pairs_codes = {codes_at_row,  codes_length,      codes_mean_add,
                                      codes_at_mean, codes_rivals_read, codes_rivals_apart};
