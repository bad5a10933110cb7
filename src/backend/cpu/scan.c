/* Final scores of a run of rows for one prepared query: the kernel's raw sums, then what the metric needs. */
#include "backend/cpu/cpu.h"

#include <math.h>

struct scan scan_start(struct resident *resident, struct workspace *workspace, const struct search_call *call) {
    const struct rows *rows = &resident->rows;
    const struct kernels *kernels = &resident->backend->kernels;
    enum kernel_op op = rows->metric == VIC_L2 ? OP_L2 : OP_DOT;
    bool exact = queries_exact(rows, call->queries);
    return (struct scan){
        .resident = resident,
        .workspace = workspace,
        .exact = exact,
        .smaller_better = rows->metric == VIC_L2,
        .kernel = exact ? kernels->scan_exact[rows->dtype][op] : kernels->scan[rows->dtype][op],
        .tile = exact ? kernels->tile_exact[rows->dtype][op] : kernels->tile[rows->dtype][op],
        .filter = call->filter,
    };
}

struct scratch *scan_scratch(const struct scan *scan, int worker) {
    return worker == 0 ? &scan->workspace->own : &scan->resident->workers[worker - 1];
}

const void *scan_query(const struct scan *scan, int64_t j) {
    return (const char *)scan->workspace->queries + (size_t)(j * scan->resident->rows.dim) * (scan->exact ? 1 : 4);
}

float row_rescale(const struct kernels *kernels, const struct rows *rows, int64_t row, const void *query, float query_norm,
                  float *spare) {
    float positive = -rows->norms[row], score = 0;
    kernels->to_float[rows->dtype]((const char *)rows->data + row * rows->dim * (int64_t)vic_dtype_bytes(rows->dtype),
                                   rows->dim, spare);
    (void)vector_norm(kernels, spare, rows->dim, spare);
    kernels->scan[VIC_F32][OP_DOT](spare, 1, rows->dim, query, &score);
    kernels->cosine(&score, &positive, 1, query_norm);
    return score;
}

static bool any_negative(const float *values, int64_t n) {
    uint32_t signs = 0;
    for (int64_t i = 0; i < n; i++) signs |= float_bits(values[i]);
    return signs >> 31;
}

void scan_finish(const struct scan *scan, struct scratch *scratch, int64_t j, int64_t first, int64_t n, float *scores) {
    const struct rows *rows = &scan->resident->rows;
    const struct kernels *kernels = &scan->resident->backend->kernels;
    if (rows->metric == VIC_L2) return;
    if (rows->metric == VIC_COSINE) {
        float query_norm = scan->workspace->query_norms[j];
        if (query_norm == 0) {
            for (int64_t i = 0; i < n; i++) scores[i] = score_worst(false);
            return;
        }
        const float *norms = rows->norms + first;
        kernels->cosine(scores, norms, n, query_norm);
        bool scaled = any_negative(norms, n); /* rare in real data */
        for (int64_t i = 0; scaled && i < n; i++)
            if (norms[i] < 0) scores[i] = row_rescale(kernels, rows, first + i, scan_query(scan, j), query_norm, scratch->row);
    }
    if (!scan->exact) kernels->replace_nan(scores, n);
}

enum { ASKED_ROWS = 32, ASKED_BYTES = 4096 };

/* Kernels of float rows ask for them themselves, those of exact sums leave it to their callers. */
static void rows_ask(const struct rows *rows, const uint32_t *which, int64_t n) {
    int64_t most = rows->dim < ASKED_BYTES ? rows->dim : ASKED_BYTES;
    for (int64_t i = 0; i < n; i++)
        for (int64_t at = 0; at < most; at += 64) __builtin_prefetch((const char *)rows->data + which[i] * rows->dim + at);
}

void scan_gather(const struct scan *scan, struct scratch *scratch, int64_t j, const uint32_t *which, int64_t n, float *scores) {
    const struct resident *resident = scan->resident;
    struct row_aim aim = {.rows = &resident->rows,
                          .kernels = &resident->backend->kernels,
                          .query = scan_query(scan, j),
                          .spare = scratch->row,
                          .query_norm = scan->workspace->query_norms[j],
                          .exact = scan->exact};
    for (int64_t first = 0, count; first < n; first += count) {
        count = scan->exact && n - first > ASKED_ROWS ? ASKED_ROWS : n - first;
        if (scan->exact) rows_ask(aim.rows, which + first, count);
        aim_scores(&aim, which + first, count, scores + first);
    }
}

void scan_rows(const struct scan *scan, struct scratch *scratch, int64_t j, int64_t first, int64_t n) {
    const struct rows *rows = &scan->resident->rows;
    const char *data = rows->data;
    int64_t row_bytes = rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
    scan->kernel(data + first * row_bytes, n, rows->dim, scan_query(scan, j), scratch->scores);
    scan_finish(scan, scratch, j, first, n, scratch->scores);
}
