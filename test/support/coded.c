/* One row in one plane against one query. */
#include "support/coded.h"

#include "quant/quantizer.h"

#include <math.h>
#include <stdlib.h>

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
    coded->query_codes = take((size_t)(2 * plane_query_elements(dim)));
    memcpy(coded->query, query, (size_t)dim * sizeof *query);
    float query_norm = metric == VIC_COSINE ? fabsf(vector_norm(&backend->kernels, coded->query, dim, coded->query)) : 0;
    coded->bounded = bound_query(metric, coded->query, dim, query_norm, coded->query_codes, &coded->constants);
}

void coded_free(struct coded *coded) {
    for (int kind = 0; kind < PLANE_COUNT; kind++) free(coded->codes[kind]);
    free(coded->query);
    free(coded->query_codes);
}

float coded_upper(struct backend *backend, const struct coded *coded, enum plane_kind kind) {
    float upper = 0;
    backend->kernels.planes->scan[kind](&coded->rows.planes[kind], coded->rows.plane_norms, 0, 1, coded->rows.dim,
                                        &coded->constants, &upper);
    return upper;
}

double coded_value(const struct coded *coded, enum plane_kind kind, int64_t i) {
    int32_t byte = coded->codes[kind][plane_byte(kind, i)];
    int32_t code = kind == PLANE_8 ? byte : byte >> plane_shift(kind, i) & 15;
    return (double)coded->scale[kind] * (code - plane_offset(kind));
}
