/* Whether planes pay, measured on the rows themselves: a few of them ask for their neighbours among a sample, through each
 * plane, and what the plane leaves to be scored says what a search of all rows will cost.
 *
 * Costs are in units of the scan that reads every row: a plane's own pass costs its share of the bytes, a row that is left
 * costs more than one that streams by, since it lies anywhere. The device says how much (struct costs). */
#include "index/planner.h"

#include <math.h>

enum {
    SAMPLE_ROWS_LEAST = 512, /* below, nothing can be said */
    SAMPLE_ROWS_MOST = 4096,
    SAMPLE_QUERIES = 16,
    SAMPLE_K = 2 /* the row itself and its nearest neighbour */
};
static const int64_t sample_bytes = 16 << 20;
/* Planes are worth nothing where handing over between the steps of a certified search takes more than this of a scan. */
static const double handover_most = 0.5;
/* Rows that a plane leaves to be scored for each one of k (real rows of 384, k from 100 to 3,000; smaller k leave more of each,
 * but few in all). */
static const double left_each[PLANE_COUNT] = {[PLANE_8] = 3, [PLANE_4] = 11};
/* Alone a query is bound by the codes' bytes, so the smaller ones are faster; from here on eight bits are, which leave fewer
 * rows to score and need no decoding (real rows of 384, k = 10, one thread: 4 queries 3.6 ms against 3.7, 256 queries 49
 * against 72). */
static const int64_t batch_least = 4;
/* A plane must save at least this much of a scan to be worth its memory. */
static const double cost_most = 0.75;

/* A search of one query through a plane, in scans. */
static double plane_cost(const struct costs *costs, const struct rows *rows, enum plane_kind kind, double left) {
    double row_bytes = (double)rows->dim * (double)vic_dtype_bytes(rows->dtype);
    double pass = (double)plane_stride(kind, rows->dim) / costs->plane_bytes_s[kind];
    return pass * costs->scan_bytes_s / row_bytes + costs->rescore_cost * left;
}

/* m rows of `rows`, evenly spread, with norms where the metric has them. */
static enum vic_status sample_take(struct vic_device *device, const struct rows *rows, int64_t m, struct corpus *sample) {
    size_t row_bytes = (size_t)rows->dim * vic_dtype_bytes(rows->dtype);
    enum vic_status status = corpus_alloc(&device->host, m, rows->dim, rows->dtype, rows->metric, false, sample);
    if (status != VIC_OK) return status;
    for (int64_t i = 0; i < m; i++) {
        int64_t row = i * rows->n / m;
        memcpy((char *)sample->own_rows + (size_t)i * row_bytes, (const char *)rows->data + (size_t)row * row_bytes, row_bytes);
        if (rows->norms) ((float *)sample->own_norms)[i] = rows->norms[row];
    }
    return VIC_OK;
}

/* The share of the sample that queries through a plane have to score. 1: the plane decides nothing. */
static enum vic_status sample_share(struct vic_device *device, const struct corpus *sample, enum plane_kind kind,
                                    double *share) {
    const struct rows *rows = &sample->rows;
    int64_t ids[SAMPLE_QUERIES * SAMPLE_K];
    struct rows one = *rows;
    for (int other = 0; other < PLANE_COUNT; other++)
        if (other != (int)kind) one.planes[other] = (struct plane){0};
    int64_t row_bytes = rows->dim * (int64_t)vic_dtype_bytes(rows->dtype), step = rows->n / SAMPLE_QUERIES;
    struct vic_matrix queries = {sample->own_rows, SAMPLE_QUERIES, rows->dim, step * row_bytes, rows->dtype, VIC_HOST};
    struct vic_search_stats stats = {.size = sizeof stats};
    double most = 1 / device->costs.rescore_cost;
    struct search_call call = {.queries = &queries,
                               .k = SAMPLE_K,
                               .path = VIC_PATH_CERTIFIED,
                               .plane = kind,
                               .stats = &stats,
                               .left_most = {most, most}};
    struct vic_hits hits = {.ids = ids};
    struct resident *resident = NULL;
    enum vic_status status = device->host_ops->attach(device->host_backend, &one, NULL, NULL, &resident);
    if (status != VIC_OK) return status;
    status = device->host_ops->search(resident, &call, &hits);
    device->host_ops->detach(resident);
    double pairs = (double)(rows->n * SAMPLE_QUERIES), left = (double)stats.rows_rescored + (double)(stats.fallbacks * rows->n);
    *share = left < pairs ? left / pairs : 1;
    return status;
}

enum vic_status planner_planes(struct vic_device *device, const struct rows *rows, int64_t n, int32_t *planes) {
    struct corpus sample = {0};
    enum vic_status status = VIC_OK;
    int64_t row_bytes = rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
    int64_t m = sample_bytes / row_bytes < SAMPLE_ROWS_MOST ? sample_bytes / row_bytes : SAMPLE_ROWS_MOST;
    double best = cost_most;
    *planes = 0;
    if (m > rows->n) m = rows->n;
    const struct costs *costs = &device->costs;
    double scan_us = (double)n * (double)row_bytes / costs->scan_bytes_s * 1e6;
    bool worth = m >= SAMPLE_ROWS_LEAST && costs->handover_us <= handover_most * scan_us;
    if (device->ops != device->host_ops || dtype_is_integer(rows->dtype) || !worth) return VIC_OK;
    TRY(sample_take(device, rows, m, &sample));
    TRY(planes_alloc(&sample, rows->dim, VIC_PLANES_8 | VIC_PLANES_4));
    TRY(planes_code(device, &sample, &sample.rows, 0, NULL));
    for (int kind = 0; kind < PLANE_COUNT; kind++) {
        double share = 1;
        TRY(sample_share(device, &sample, (enum plane_kind)kind, &share));
        double cost = plane_cost(costs, rows, (enum plane_kind)kind, share);
        if (cost < best) best = cost, *planes = (int32_t)quantizers[kind]->bit;
    }
done:
    corpus_free(&sample);
    return status;
}

void planner_path(const struct vic_device *device, const struct rows *rows, struct search_call *call, enum vic_fallback *why) {
    double best = INFINITY, finer = 1, share = (double)call->k / (double)(rows->n > 0 ? rows->n : 1);
    *why = VIC_FALLBACK_NONE;
    if (call->path != 0 && call->path != VIC_PATH_CERTIFIED) return;
    for (int kind = 0; kind < PLANE_COUNT; kind++) {
        double cost = plane_cost(&device->costs, rows, (enum plane_kind)kind, left_each[kind] * share);
        /* what comes next: a scan, or the finer plane */
        double next = kind == PLANE_4 && rows->planes[PLANE_8].codes && finer < 1 ? finer : 1;
        if (kind == PLANE_8) finer = cost;
        call->left_most[kind] = next / device->costs.rescore_cost;
        if (rows->planes[kind].codes && cost < best) best = cost, call->plane = (enum plane_kind)kind;
    }
    if (call->k > 0 && call->queries->rows >= batch_least) call->plane = PLANE_8;
    if (call->path == VIC_PATH_CERTIFIED || !planes_present(rows) || device->ops != device->host_ops) return;
    if (dtype_is_integer(rows->dtype) || best > cost_most)
        *why = VIC_FALLBACK_COST;
    else
        call->path = VIC_PATH_CERTIFIED;
}
