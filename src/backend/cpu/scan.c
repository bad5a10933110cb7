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

/* Rows that were scaled before their norm: their sum is taken again from the scaled row. Rare in real data. */
static void rescale_rows(const struct scan *scan, struct scratch *scratch, int64_t j, int64_t first, int64_t n, float *scores) {
    const struct rows *rows = &scan->resident->rows;
    const struct kernels *kernels = &scan->resident->backend->kernels;
    const char *data = rows->data;
    for (int64_t i = 0; i < n; i++) {
        float norm = rows->norms[first + i];
        if (!(norm < 0)) continue;
        const char *row = data + (first + i) * rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
        kernels->to_float[rows->dtype](row, rows->dim, scratch->row);
        (void)vector_norm(kernels, scratch->row, rows->dim, scratch->row);
        float positive = -norm;
        kernels->scan[VIC_F32][OP_DOT](scratch->row, 1, rows->dim, scan_query(scan, j), &scores[i]);
        kernels->cosine(&scores[i], &positive, 1, scan->workspace->query_norms[j]);
    }
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
        if (any_negative(norms, n)) rescale_rows(scan, scratch, j, first, n, scores);
    }
    if (!scan->exact) kernels->replace_nan(scores, n);
}

void scan_rows(const struct scan *scan, struct scratch *scratch, int64_t j, int64_t first, int64_t n) {
    const struct rows *rows = &scan->resident->rows;
    const char *data = rows->data;
    int64_t row_bytes = rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
    scan->kernel(data + first * row_bytes, n, rows->dim, scan_query(scan, j), scratch->scores);
    scan_finish(scan, scratch, j, first, n, scratch->scores);
}
