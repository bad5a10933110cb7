/* Product quantisation: what other systems failed on, by the cases' ids. */
#include "support/product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* Fewer rows than centres. */
static void QNT_01_a_hundred_rows_train_256_centres(void **state) {
    (void)state;
    struct product product;
    struct pq_error error;
    product_make(&product, test_device, 100, 32, VIC_F32, VIC_L2, VALUES_UNIT, 1);
    product_train(&product, &(struct pq_training){.chunks = 8, .centres = 256}, &error);
    assert_int_equal(product.pq.parts.centres, 100);
    for (int64_t i = 0; i < 100 * 32; i++) assert_true(isfinite(product.pq.parts.pivots[i]));
    product_check(&product);
    assert_true(error.mean < 1e-10); /* every row's chunks are centres */
    product_free(&product);
}

/* The row whose code is nearest to row `row` of the data, used as a query. */
static int64_t nearest_by_codes(const struct product *product, int64_t row) {
    const struct data *data = &product->data;
    float *room = take((size_t)pq_table_room(&product->pq) * sizeof *room),
          *distances = take((size_t)data->n * sizeof *distances);
    uint32_t *rows = take((size_t)data->n * sizeof *rows);
    struct pq_table table;
    int64_t nearest = 0;
    for (int64_t i = 0; i < data->n; i++) rows[i] = (uint32_t)i;
    pq_table_fill(&product->pq, data->metric, VIC_F32, (const float *)data->rows + row * data->dim, room, &table);
    pq_distances(&table, product->codes, product->pq.parts.chunks, rows, data->n, distances);
    for (int64_t i = 1; i < data->n; i++)
        if (distances[i] < distances[nearest]) nearest = i;
    free(rows), free(distances), free(room);
    return nearest;
}

static void QNT_02_half_a_chunk_a_dimension_is_at_least_one(void **state) {
    (void)state;
    for (int64_t dim = 1; dim <= 3; dim++) {
        struct product product;
        product_make(&product, test_device, 200, dim, VIC_F32, VIC_L2, VALUES_UNIT, 2);
        product_train(&product, &(struct pq_training){.chunks = dim / 2 > 1 ? dim / 2 : 1}, NULL);
        product_check(&product);
        for (int64_t row = 0; row < 200; row += 17) assert_int_equal(nearest_by_codes(&product, row), row);
        product_free(&product);
    }
}

static void QNT_03_any_number_of_chunks_up_to_the_dimensions(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{100, 1}, {100, 50}, {100, 99}, {100, 100}, {1536, 513}};
    for (int i = 0; i < 5; i++) {
        struct product product;
        product_make(&product, test_device, 60, shapes[i][0], VIC_F32, VIC_COSINE, VALUES_UNIT, 3);
        product_train(&product, &(struct pq_training){.chunks = shapes[i][1], .centres = 8}, NULL);
        assert_int_equal(product.pq.parts.chunks, shapes[i][1]);
        product_check(&product);
        product_free(&product);
    }
}

static void QNT_03_no_chunks_and_more_than_dimensions_are_refused(void **state) {
    (void)state;
    static const int64_t chunks[] = {0, 101, -1};
    static const char *const says[] = {"for rows of 100 dimensions, found 0 chunks", "100 dimensions, found 101 chunks",
                                       "found -1 chunks"};
    struct product product;
    product_make(&product, test_device, 60, 100, VIC_F32, VIC_L2, VALUES_UNIT, 4);
    for (int i = 0; i < 3; i++) {
        const struct pq_training training = {.chunks = chunks[i]};
        struct pq pq = {0};
        assert_int_equal(pq_train(test_device, &product.index->corpus.rows, &training, NULL, &pq), VIC_ARGUMENT);
        if (!strstr(vic_last_error(), says[i])) fail_msg("expected \"%s\", found \"%s\"", says[i], vic_last_error());
        assert_null(pq.memory);
    }
    product_free(&product);
}

static void QNT_04_up_to_256_distinct_rows_lose_nothing(void **state) {
    (void)state;
    for (int64_t n = 255; n <= 257; n++) {
        struct product product;
        product_make(&product, test_device, n, 8, VIC_F32, VIC_L2, VALUES_UNIT, 5);
        product_train(&product, &(struct pq_training){.chunks = 1}, NULL);
        product_check(&product);
        int64_t lost = 0;
        for (int64_t i = 0; i < n; i++) {
            float row[8];
            bool same = true;
            pq_decode(&product.pq, product.codes + i, row);
            for (int d = 0; d < 8; d++) same = same && fabsf(row[d] - ((const float *)product.data.rows)[i * 8 + d]) <= 1e-6f;
            lost += !same;
        }
        assert_true(n <= 256 ? lost == 0 : lost > 0 && lost <= 2); /* two of 257 share a centre */
        product_free(&product);
    }
}

static void QNT_04_equal_rows_have_one_code(void **state) {
    (void)state;
    struct product product;
    struct pq_error error;
    product_make(&product, test_device, 1000, 8, VIC_F32, VIC_L2, VALUES_UNIT, 6);
    for (int64_t i = 1; i < 1000; i++) memcpy((float *)product.data.rows + i * 8, product.data.rows, 8 * sizeof(float));
    vic_index_free(product.index);
    product.index = index_of(test_device, &product.data);
    product_train(&product, &(struct pq_training){.chunks = 1}, &error);
    assert_int_equal(product.pq.parts.centres, 1);
    for (int64_t i = 0; i < 1000; i++) assert_int_equal(product.codes[i], 0);
    assert_true(error.largest < 1e-12);
    assert_int_equal(nearest_by_codes(&product, 999), 0);
    product_free(&product);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(QNT_01_a_hundred_rows_train_256_centres),
        cmocka_unit_test(QNT_02_half_a_chunk_a_dimension_is_at_least_one),
        cmocka_unit_test(QNT_03_any_number_of_chunks_up_to_the_dimensions),
        cmocka_unit_test(QNT_03_no_chunks_and_more_than_dimensions_are_refused),
        cmocka_unit_test(QNT_04_up_to_256_distinct_rows_lose_nothing),
        cmocka_unit_test(QNT_04_equal_rows_have_one_code),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
