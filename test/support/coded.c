/* One row in one plane against one query. */
#include "support/coded.h"

#include "quant/quantizer.h"

#include <math.h>
#include <stdlib.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

struct backend *coded_backend(const char *kernels, int threads) {
    struct backend *backend = NULL;
    if (kernels) (void)setenv("VICINAL_KERNELS", kernels, 1);
    must(cpu_backend.open(0, threads, &mem_default, &mem_default, &backend));
    if (kernels) (void)unsetenv("VICINAL_KERNELS");
    return backend;
}

void coded_make(struct backend *backend, enum vic_metric metric, const float *values, const float *query, int64_t dim,
                struct coded *coded) {
    struct vic_matrix source = {(void *)(uintptr_t)values, 1, dim, dim * 4, VIC_F32, VIC_HOST};
    *coded = (struct coded){.rows = {.data = values, .n = 1, .dim = dim, .dtype = VIC_F32, .metric = metric}};
    struct ingest ingest = {
        .source = &source, .what = "row", .dtype = VIC_F32, .norms = metric == VIC_COSINE ? &coded->norm : NULL};
    must(cpu_backend.ingest(backend, &ingest));
    coded->rows.norms = ingest.norms;
    for (int kind = 0; kind < PLANE_COUNT; kind++) {
        int64_t stride = plane_stride((enum plane_kind)kind, dim);
        coded->codes[kind] = take((size_t)stride);
        struct plane_coding coding = {.rows = &coded->rows,
                                      .kind = (enum plane_kind)kind,
                                      .steps = quantizers[kind]->steps,
                                      .codes = coded->codes[kind],
                                      .scale = &coded->scale[kind],
                                      .error = &coded->error[kind],
                                      .norms = metric == VIC_COSINE ? NULL : &coded->plane_norm};
        must(cpu_backend.code(backend, &coding));
        coded->rows.planes[kind] = (struct plane){coded->codes[kind], stride, &coded->scale[kind], &coded->error[kind]};
    }
    coded->rows.plane_norms = metric == VIC_COSINE ? NULL : &coded->plane_norm;
    coded->query = take((size_t)dim * sizeof *coded->query);
    size_t elements = (size_t)plane_query_elements(dim);
    coded->query_codes = take(2 * elements);
    memset(coded->query_codes, 0, 2 * elements);
    memcpy(coded->query, query, (size_t)dim * sizeof *query);
    float query_norm = metric == VIC_COSINE ? fabsf(vector_norm(&backend->kernels, coded->query, dim, coded->query)) : 0;
    coded->batch_codes = take((size_t)dim);
    bool one_byte = bound_query(metric, coded->query, dim, query_norm, NULL, coded->batch_codes, &coded->batch_constants);
    coded->bounded = bound_query(metric, coded->query, dim, query_norm, coded->query_codes, coded->query_codes + elements,
                                 &coded->constants);
    assert_true(one_byte == coded->bounded);
}

void coded_free(struct coded *coded) {
    for (int kind = 0; kind < PLANE_COUNT; kind++) free(coded->codes[kind]);
    free(coded->query);
    free(coded->query_codes);
    free(coded->batch_codes);
}

float coded_upper(struct backend *backend, const struct coded *coded, enum plane_kind kind) {
    float upper = 0;
    backend->kernels.planes->scan[kind](&coded->rows.planes[kind], coded->rows.plane_norms, 0, 1, coded->rows.dim,
                                        &coded->constants, &upper);
    return upper;
}

/* The signed code of dimension i. */
static int32_t coded_code(const struct coded *coded, enum plane_kind kind, int64_t i) {
    int32_t byte = coded->codes[kind][plane_byte(kind, i)];
    return (kind == PLANE_8 ? byte : byte >> plane_shift(kind, i) & 15) - plane_offset(kind);
}

float coded_batch_upper(const struct coded *coded, enum plane_kind kind) {
    int64_t sum = 0;
    for (int64_t i = 0; i < coded->rows.dim; i++) sum += coded_code(coded, kind, i) * coded->batch_codes[i];
    return bound_upper(&coded->batch_constants, (float)sum, coded->scale[kind], coded->error[kind], coded->plane_norm);
}

double coded_value(const struct coded *coded, enum plane_kind kind, int64_t i) {
    return (double)coded->scale[kind] * coded_code(coded, kind, i);
}
