/* Rows with product codes for tests. */
#include "support/product.h"

#include <stdlib.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

void product_make(struct product *product, struct vic_device *device, int64_t n, int64_t dim, enum vic_dtype dtype,
                  enum vic_metric metric, enum values values, uint64_t seed) {
    struct random random = {seed};
    *product = (struct product){.data = {.n = n, .dim = dim, .dtype = dtype, .metric = metric}};
    product->data.rows = take((size_t)(n * dim + 1) * vic_dtype_bytes(dtype));
    random_fill(&random, values, dtype, n * dim, product->data.rows);
    product->index = index_of(device, &product->data);
}

void product_train(struct product *product, const struct pq_training *training, struct pq_error *error) {
    struct vic_device *device = product->index->device;
    pq_free(&product->pq);
    free(product->codes);
    product->codes = take((size_t)(product->data.n * training->chunks + 1));
    must(pq_train(device, &product->index->corpus.rows, training, NULL, &product->pq));
    must(pq_encode(device, &product->pq, &product->index->corpus.rows, NULL, product->codes, error));
}

static double distance(const struct pq_parts *parts, const float *row, int64_t chunk, int64_t centre) {
    double sum = 0;
    for (int64_t i = parts->offsets[chunk]; i < parts->offsets[chunk + 1]; i++) {
        double apart = (double)row[i] - (double)parts->pivots[centre * parts->dim + i];
        sum += apart * apart;
    }
    return sum;
}

void product_check(const struct product *product) {
    const struct pq_parts *parts = &product->pq.parts;
    float *row = take((size_t)parts->dim * sizeof *row), *scratch = take((size_t)parts->dim * sizeof *row);
    for (int64_t i = 0; i < product->data.n; i++) {
        pq_row_load(&product->index->corpus.rows, 0, i, row);
        pq_row_turn(parts, product->pq.kernels, row, scratch);
        for (int64_t j = 0; j < parts->chunks; j++) {
            int64_t nearest = 0;
            for (int64_t c = 1; c < parts->centres; c++)
                if (distance(parts, row, j, c) < distance(parts, row, j, nearest)) nearest = c;
            assert_int_equal(product->codes[i * parts->chunks + j], nearest);
        }
    }
    free(scratch), free(row);
}

void product_free(struct product *product) {
    pq_free(&product->pq);
    free(product->codes);
    vic_index_free(product->index);
    free(product->data.rows);
    *product = (struct product){0};
}
