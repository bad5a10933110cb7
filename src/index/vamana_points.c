/* Rows as points of a graph: codes, what turns sums of codes into distances, and who owns the memory. */
#include "index/vamana.h"

#include <math.h>
#include <string.h>

struct aim aim_at_row(const struct points *points, uint32_t row, int8_t *codes) {
    const uint8_t *source = points->codes + (int64_t)row * points->stride_bytes;
    int32_t sum = 0;
    for (int64_t i = 0; i < points->stride_bytes; i++) {
        codes[i] = (int8_t)(source[i] ^ 128);
        sum += codes[i];
    }
    float scale = points->terms[row].scale;
    if (points->inner) return (struct aim){.codes = codes, .bias = 128 * sum, .factor = -scale};
    return (struct aim){
        .codes = codes, .bias = 128 * sum, .factor = -2 * scale, .base = points->terms[row].square, .weight = 1};
}

/* To the nearest whole number, |value| <= 2^22, without a call: the sum's last bits are the number. */
static inline int32_t nearest(float value) { return (int32_t)(float_bits(value + 12582912.0f) - 0x4b400000u); }

/* Dimensions [first, first + count) as float32. */
static void elements_load(enum vic_dtype dtype, const void *vector, int64_t first, int64_t count, float *values) {
    if (dtype == VIC_F32)
        memcpy(values, (const char *)vector + first * (int64_t)sizeof(float), (size_t)count * sizeof(float));
    else
        for (int64_t i = 0; i < count; i++) values[i] = dtype_load(dtype, vector, first + i);
}

struct aim aim_at_query(const struct points *points, enum vic_metric metric, enum vic_dtype dtype, const void *query,
                        int64_t dim, int8_t *codes) {
    float block[64], largest = 0;
    int32_t sum = 0;
    for (int64_t first = 0; first < dim; first += 64) {
        int64_t count = dim - first < 64 ? dim - first : 64;
        elements_load(dtype, query, first, count, block);
        for (int64_t i = 0; i < count; i++) largest = fabsf(block[i]) > largest ? fabsf(block[i]) : largest;
    }
    /* A query so small that its step would vanish has all codes 0. */
    float inverse = largest >= 0x1p-100f ? 127 / largest : 0;
    for (int64_t first = 0; first < points->stride_bytes; first += 64) {
        int64_t count = dim - first < 64 ? dim - first : 64;
        memset(block, 0, sizeof block);
        if (count > 0) elements_load(dtype, query, first, count, block);
        for (int64_t i = 0; i < 64; i++) {
            codes[first + i] = (int8_t)nearest(block[i] * inverse);
            sum += codes[first + i];
        }
    }
    bool euclidean = metric == VIC_L2;
    return (struct aim){
        .codes = codes, .bias = 128 * sum, .factor = euclidean ? -2 * (largest / 127) : -1, .weight = euclidean ? 1 : 0};
}

void points_distances(const struct points *points, const struct aim *aim, const uint32_t *rows, int64_t n, float *distances) {
    int32_t sums[WALK_BATCH];
    points->sums(points->codes, points->stride_bytes, rows, n, aim->codes, sums);
    for (int64_t i = 0; i < n; i++) {
        struct point_term term = points->terms[rows[i]];
        distances[i] = (aim->factor * term.scale) * (float)(sums[i] - aim->bias) + (aim->base + aim->weight * term.square);
    }
}

/* ---------------------------------------------------------------- memory */

enum { TERM_ROWS = 1024 };

struct term_job {
    const struct plane *plane;
    struct point_term *terms;
    int64_t n;
};

static void term_part(void *argument, int worker, int64_t part) {
    const struct term_job *job = argument;
    (void)worker;
    int64_t end = (part + 1) * TERM_ROWS < job->n ? (part + 1) * TERM_ROWS : job->n;
    for (int64_t row = part * TERM_ROWS; row < end; row++) {
        const uint8_t *codes = job->plane->codes + row * job->plane->stride_bytes;
        int32_t sum = 0;
        for (int64_t i = 0; i < job->plane->stride_bytes; i++) sum += (codes[i] - 128) * (codes[i] - 128);
        float scale = job->plane->scale[row];
        job->terms[row] = (struct point_term){scale, scale * scale * (float)sum};
    }
}

enum vic_status graph_points_open(struct vic_device *device, const struct corpus *corpus, struct graph *graph) {
    const struct rows *rows = &corpus->rows;
    const struct plane *plane = &rows->planes[PLANE_8];
    enum vic_status status = VIC_OK;
    if (!plane->codes) { /* integer rows have no planes */
        graph->own_codes = (struct corpus){.mem = graph->mem};
        graph->own_codes.rows = (struct rows){.n = rows->n, .dim = rows->dim, .dtype = rows->dtype, .metric = rows->metric};
        plane = &graph->own_codes.rows.planes[PLANE_8];
        TRY(planes_alloc(&graph->own_codes, rows->dim, VIC_PLANES_8));
        TRY(planes_code(device, &graph->own_codes, rows, 0, NULL));
    }
    TRY(mem_alloc_array(graph->mem, (uint64_t)rows->n, sizeof(struct point_term), "the terms of a graph's points",
                        &graph->own_terms));
    struct term_job job = {plane, graph->own_terms, rows->n};
    (void)thread_pool_run(device->host_ops->pool(device->host_backend), (rows->n + TERM_ROWS - 1) / TERM_ROWS, term_part, &job);
    graph->points = (struct points){.codes = plane->codes,
                                    .n = rows->n,
                                    .stride_bytes = plane->stride_bytes,
                                    .terms = graph->own_terms,
                                    .inner = rows->metric == VIC_DOT,
                                    .sums = device->host_ops->sums(device->host_backend)};
done:
    return status;
}

uint64_t graph_host_bytes(const struct graph *graph) {
    uint64_t n = (uint64_t)graph->n, bytes = 0;
    if (graph->own_neighbours) bytes += n * (uint64_t)graph->degree * sizeof(uint32_t);
    if (graph->own_entries) bytes += (uint64_t)graph->entry_count * sizeof(uint32_t);
    if (graph->own_terms) bytes += n * sizeof(struct point_term);
    if (graph->own_codes.rows.planes[PLANE_8].codes) bytes += planes_bytes(&graph->own_codes.rows, VIC_PLANES_8);
    return bytes;
}

void graph_free(struct graph *graph) {
    uint64_t n = (uint64_t)graph->n;
    if (graph->mem) {
        mem_free(graph->mem, graph->own_neighbours, n * (uint64_t)graph->degree * sizeof(uint32_t));
        mem_free(graph->mem, graph->own_entries, (uint64_t)graph->entry_count * sizeof(uint32_t));
        mem_free(graph->mem, graph->own_terms, n * sizeof(struct point_term));
        corpus_free(&graph->own_codes);
    }
    *graph = (struct graph){0};
}
