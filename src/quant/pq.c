/* A quantiser in memory, what its codes stand for, and tables of distances. */
#include "quant/pq.h"
#include "base/dtype.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum vic_status pq_chunks_check(int64_t chunks, int64_t dim) {
    if (chunks >= 1 && chunks <= dim) return VIC_OK;
    return status_fail(VIC_ARGUMENT,
                       "expected from 1 to %" PRId64 " chunks for rows of %" PRId64 " dimensions, found %" PRId64 " chunks",
                       dim, dim, chunks);
}

void pq_offsets(int64_t chunks, int64_t dim, uint32_t *offsets) {
    offsets[0] = 0;
    for (int64_t j = 0; j < chunks; j++) offsets[j + 1] = offsets[j] + (uint32_t)(dim / chunks + (j < dim % chunks));
}

/* ---------------------------------------------------------------- memory */

static int64_t stride_of(int64_t centres) { return (int64_t)round_up((uint64_t)centres, COLUMNS_UNIT); }

/* Bytes of each part; dim and chunks are at most 65,536 and centres 256, so nothing overflows. */
enum { CODERS, OFFSETS, PIVOTS, CENTROID, ROTATION, COLUMNS, HALVES, PIECES };

static uint64_t pieces_lay(int64_t dim, int64_t chunks, int64_t centres, bool rotation, uint64_t at[PIECES]) {
    uint64_t elements = (uint64_t)dim, parts = (uint64_t)chunks, each = (uint64_t)centres;
    uint64_t stride = (uint64_t)stride_of(centres), total = 0;
    uint64_t bytes[PIECES] = {
        [CODERS] = parts * sizeof(struct centres),
        [OFFSETS] = (parts + 1) * sizeof(uint32_t),
        [PIVOTS] = each * elements * sizeof(float),
        [CENTROID] = elements * sizeof(float),
        [ROTATION] = rotation ? elements * elements * sizeof(float) : 0,
        [COLUMNS] = elements * stride * sizeof(float),
        [HALVES] = parts * stride * sizeof(float),
    };
    for (int p = 0; p < PIECES; p++) at[p] = total, total += round_up(bytes[p], 64);
    return total;
}

uint64_t pq_bytes(int64_t dim, int64_t chunks, int64_t centres, bool rotation) {
    uint64_t at[PIECES];
    return pieces_lay(dim, chunks, centres, rotation, at);
}

void pq_free(struct pq *pq) {
    if (pq->mem) mem_free(pq->mem, pq->memory, pq->bytes);
    *pq = (struct pq){0};
}

static int64_t first_not_finite(const float *values, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!float_finite(values[i])) return i;
    return -1;
}

static enum vic_status parts_check(const struct pq_parts *parts, const char *where) {
    int64_t dim = parts->dim, bad;
    if (dim < 1 || dim > DIM_MAX || parts->chunks < 1 || parts->chunks > dim)
        return status_fail(VIC_FORMAT,
                           "%s: expected from 1 to %" PRId64 " chunks for rows of %" PRId64 " dimensions, found %" PRId64
                           " chunks",
                           where, dim, dim, parts->chunks);
    if (parts->centres < 1 || parts->centres > PQ_CENTRES)
        return status_fail(VIC_FORMAT, "%s: expected from 1 to %d centres a chunk, found %" PRId64, where, PQ_CENTRES,
                           parts->centres);
    for (int64_t j = 0; j <= parts->chunks; j++) {
        bool fits = j == 0 ? parts->offsets[0] == 0 : parts->offsets[j] > parts->offsets[j - 1];
        if (j == parts->chunks) fits = fits && parts->offsets[j] == dim;
        if (!fits)
            return status_fail(VIC_FORMAT,
                               "%s: expected chunks that begin one behind the other from 0 to %" PRId64 ", found %" PRIu32
                               " for the beginning of chunk %" PRId64,
                               where, dim, parts->offsets[j], j);
    }
    if ((bad = first_not_finite(parts->pivots, parts->centres * dim)) >= 0)
        return status_fail(VIC_FORMAT, "%s: centre %" PRId64 " is not finite in dimension %" PRId64, where, bad / dim,
                           bad % dim);
    if ((bad = first_not_finite(parts->centroid, dim)) >= 0)
        return status_fail(VIC_FORMAT, "%s: the centroid is not finite in dimension %" PRId64, where, bad);
    if (parts->rotation && (bad = first_not_finite(parts->rotation, dim * dim)) >= 0)
        return status_fail(VIC_FORMAT, "%s: the rotation is not finite in row %" PRId64 ", column %" PRId64, where, bad / dim,
                           bad % dim);
    return VIC_OK;
}

/* Copies of centre 0 at the end are padding: no row is ever nearest to one. */
static int64_t centres_distinct(const struct pq_parts *parts, int64_t chunk) {
    int64_t count = parts->centres, first = parts->offsets[chunk];
    size_t bytes = (size_t)(parts->offsets[chunk + 1] - parts->offsets[chunk]) * sizeof(float);
    while (count > 1 && memcmp(parts->pivots + (count - 1) * parts->dim + first, parts->pivots + first, bytes) == 0) count--;
    return count;
}

static void coder_make(struct pq *pq, int64_t chunk, float *columns, float *halves) {
    const struct pq_parts *parts = &pq->parts;
    int64_t first = parts->offsets[chunk], dim = parts->offsets[chunk + 1] - first, stride = stride_of(parts->centres);
    float *own = columns + first * stride;
    int64_t count = centres_distinct(parts, chunk);
    for (int64_t d = 0; d < dim; d++)
        for (int64_t c = 0; c < parts->centres; c++) own[d * stride + c] = parts->pivots[c * parts->dim + first + d];
    pq->coders[chunk] =
        (struct centres){.columns = {own, dim, count, stride}, .halves = halves + chunk * stride, .kernels = pq->kernels};
    centres_measure(&pq->coders[chunk]);
}

enum vic_status pq_open(struct vic_device *device, const struct pq_parts *parts, const char *where, struct pq *pq) {
    uint64_t at[PIECES], total;
    enum vic_status status = parts_check(parts, where);
    if (status != VIC_OK) return status;
    *pq = (struct pq){.mem = &device->host, .kernels = device->host_ops->columns(device->host_backend)};
    total = pieces_lay(parts->dim, parts->chunks, parts->centres, parts->rotation != NULL, at);
    status = mem_alloc(pq->mem, total, "a product quantiser", &pq->memory);
    if (status != VIC_OK) return status;
    char *base = pq->memory;
    size_t dim = (size_t)parts->dim;
    pq->bytes = total;
    memset(base, 0, (size_t)total);
    pq->coders = (struct centres *)(base + at[CODERS]);
    memcpy(base + at[OFFSETS], parts->offsets, ((size_t)parts->chunks + 1) * sizeof(uint32_t));
    memcpy(base + at[PIVOTS], parts->pivots, (size_t)parts->centres * dim * sizeof(float));
    memcpy(base + at[CENTROID], parts->centroid, dim * sizeof(float));
    if (parts->rotation) memcpy(base + at[ROTATION], parts->rotation, dim * dim * sizeof(float));
    pq->parts = (struct pq_parts){.dim = parts->dim,
                                  .chunks = parts->chunks,
                                  .centres = parts->centres,
                                  .offsets = (const uint32_t *)(base + at[OFFSETS]),
                                  .pivots = (const float *)(base + at[PIVOTS]),
                                  .centroid = (const float *)(base + at[CENTROID]),
                                  .rotation = parts->rotation ? (const float *)(base + at[ROTATION]) : NULL,
                                  .max_norm = parts->max_norm};
    for (int64_t j = 0; j < parts->chunks; j++) coder_make(pq, j, (float *)(base + at[COLUMNS]), (float *)(base + at[HALVES]));
    return VIC_OK;
}

/* ---------------------------------------------------------------- rows */

static void values_load(enum vic_dtype dtype, const void *vector, int64_t dim, float *values) {
    if (dtype == VIC_F32)
        memcpy(values, vector, (size_t)dim * sizeof(float));
    else
        for (int64_t i = 0; i < dim; i++) values[i] = dtype_load(dtype, vector, i);
}

static float largest_of(const float *values, int64_t dim) {
    float largest = 0;
    for (int64_t i = 0; i < dim; i++) largest = fabsf(values[i]) > largest ? fabsf(values[i]) : largest;
    return largest;
}

static double square_sum(const float *values, int64_t dim) {
    double sum = 0;
    for (int64_t i = 0; i < dim; i++) sum += (double)values[i] * (double)values[i];
    return sum;
}

/* Of a row as long as the largest norm or, by rounding, longer, the coordinate is 0. */
static void row_widen(float *values, int64_t dim, double max_norm) {
    double share = square_sum(values, dim) / (max_norm * max_norm);
    for (int64_t i = 0; i < dim; i++) values[i] = (float)((double)values[i] / max_norm);
    values[dim] = share < 1 ? (float)sqrt(1 - share) : 0;
}

void pq_row_load(const struct rows *rows, float max_norm, int64_t row, float *values) {
    values_load(rows->dtype, (const char *)rows->data + row * rows->dim * (int64_t)vic_dtype_bytes(rows->dtype), rows->dim,
                values);
    if (max_norm > 0) row_widen(values, rows->dim, (double)max_norm);
    if (rows->metric != VIC_COSINE) return;
    double norm = (double)rows->norms[row];
    if (norm < 0) norm = ldexp(-norm, ilogbf(largest_of(values, rows->dim))); /* of a row that was scaled */
    double inverse = norm > 0 ? 1 / norm : 0;
    for (int64_t i = 0; i < rows->dim; i++) values[i] = (float)((double)values[i] * inverse);
}

/* Rows near the end of float32 leave it when they are moved or turned; codes are then of the nearest that is in it. */
static inline float held(float value) {
    value = value == value ? value : 0;
    value = value > FLT_MAX ? FLT_MAX : value;
    return value < -FLT_MAX ? -FLT_MAX : value;
}

static void rotate(const struct pq_parts *parts, const struct column_kernels *kernels, float *values, float *scratch) {
    if (!parts->rotation) return;
    struct columns columns = {parts->rotation, parts->dim, parts->dim, parts->dim};
    kernels->dot(&columns, values, scratch);
    for (int64_t i = 0; i < parts->dim; i++) values[i] = held(scratch[i]);
}

void pq_row_turn(const struct pq_parts *parts, const struct column_kernels *kernels, float *values, float *scratch) {
    for (int64_t i = 0; i < parts->dim; i++) values[i] = held(values[i] - parts->centroid[i]);
    rotate(parts, kernels, values, scratch);
}

/* Element i of what the chunks of a code stand for, one behind the other. */
static inline float code_element(const struct pq_parts *parts, const uint8_t *code, int64_t chunk, int64_t i) {
    int64_t centre = code[chunk] < parts->centres ? code[chunk] : 0;
    return parts->pivots[centre * parts->dim + i];
}

void pq_decode(const struct pq *pq, const uint8_t *code, float *row) {
    const struct pq_parts *parts = &pq->parts;
    if (!parts->rotation)
        for (int64_t j = 0; j < parts->chunks; j++)
            for (int64_t i = parts->offsets[j]; i < parts->offsets[j + 1]; i++)
                row[i] = parts->centroid[i] + code_element(parts, code, j, i);
    else /* back by the transpose, which undoes a rotation */
        for (int64_t to = 0; to < parts->dim; to++) {
            double sum = 0;
            for (int64_t j = 0; j < parts->chunks; j++)
                for (int64_t i = parts->offsets[j]; i < parts->offsets[j + 1]; i++)
                    sum += (double)code_element(parts, code, j, i) * (double)parts->rotation[to * parts->dim + i];
            row[to] = (float)((double)parts->centroid[to] + sum);
        }
}

/* ---------------------------------------------------------------- tables */

int64_t pq_table_room(const struct pq *pq) { return pq->parts.chunks * PQ_CENTRES + 2 * pq->parts.dim; }

/* The order of inner products does not depend on a query's length, so it is made one that overflows nothing. */
static void query_scale(float *values, int64_t dim) {
    float largest = largest_of(values, dim);
    if (largest == 0) return;
    double factor = -ldexp(1, -ilogbf(largest));
    for (int64_t i = 0; i < dim; i++) values[i] = (float)((double)values[i] * factor);
}

static void query_widen(float *values, int64_t dim) {
    double norm = sqrt(square_sum(values, dim)), inverse = norm > 0 ? 1 / norm : 0;
    for (int64_t i = 0; i < dim; i++) values[i] = (float)((double)values[i] * inverse);
    values[dim] = 0;
}

void pq_table_fill(const struct pq *pq, enum vic_metric metric, enum vic_dtype dtype, const void *query, float *room,
                   struct pq_table *table) {
    const struct pq_parts *parts = &pq->parts;
    float *values = room, *vector = room + parts->chunks * PQ_CENTRES, *scratch = vector + parts->dim;
    const bool widened = parts->max_norm > 0, squared = widened || metric == VIC_L2;
    const int64_t query_dim = parts->dim - (widened ? 1 : 0);
    *table = (struct pq_table){.base = 0, .values = values};
    values_load(dtype, query, query_dim, vector);
    if (widened) query_widen(vector, query_dim);
    if (squared)
        pq_row_turn(parts, pq->kernels, vector, scratch);
    else {
        struct columns centroid = {parts->centroid, parts->dim, 1, 1};
        query_scale(vector, parts->dim);
        pq->kernels->dot(&centroid, vector, &table->base);
        rotate(parts, pq->kernels, vector, scratch);
    }
    for (int64_t j = 0; j < parts->chunks; j++, values += PQ_CENTRES) {
        struct columns columns = pq->coders[j].columns;
        columns.count = parts->centres;
        (squared ? pq->kernels->l2 : pq->kernels->dot)(&columns, vector + parts->offsets[j], values);
        for (int64_t c = parts->centres; c < PQ_CENTRES; c++) values[c] = INFINITY;
    }
}

/* Eight rows side by side hide the latency of an addition. */
enum { SIDE = 8 };

static inline void row_prefetch(const uint8_t *codes, int64_t chunks, uint32_t row) {
    const uint8_t *code = codes + (int64_t)row * chunks;
    __builtin_prefetch(code);
    __builtin_prefetch(code + chunks - 1);
}

void pq_distances(const struct pq_table *table, const uint8_t *codes, int64_t chunks, const uint32_t *rows, int64_t n,
                  float *distances) {
    for (int64_t i = 0; i < n && i < SIDE; i++) row_prefetch(codes, chunks, rows[i]);
    for (int64_t i = 0; i < n; i += SIDE) {
        const uint8_t *code[SIDE]; /* behind the last row: that one again */
        float sums[SIDE];
        for (int64_t r = 0; r < SIDE; r++) {
            if (i + SIDE + r < n) row_prefetch(codes, chunks, rows[i + SIDE + r]);
            code[r] = codes + (int64_t)rows[i + r < n ? i + r : n - 1] * chunks;
            sums[r] = table->base;
        }
        const float *values = table->values;
        for (int64_t j = 0; j < chunks; j++, values += PQ_CENTRES)
#pragma GCC unroll 8
            for (int64_t r = 0; r < SIDE; r++) sums[r] += values[code[r][j]];
        for (int64_t r = 0; r < SIDE && i + r < n; r++) distances[i + r] = sums[r] == sums[r] ? sums[r] : INFINITY;
    }
}
