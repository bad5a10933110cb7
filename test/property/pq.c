/* Product codes of drawn shapes: every code is its chunk's nearest centre in double precision, and quantiser and codes are the
 * same bytes for any number of threads and on every table of kernels. */
#include "support/product.h"
#include "support/scene.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static const int64_t dims[] = {1, 2, 3, 7, 17, 97, 100, 128, 1536};
enum { DIMS = 9 };

static enum vic_dtype any_type(struct random *random) { return (enum vic_dtype)(1 + random_below(random, 5)); }
static enum vic_metric any_metric(struct random *random) { return (enum vic_metric)(1 + random_below(random, 3)); }

/* 1, all, and numbers that do and do not divide. */
static int64_t chunks_of(int64_t dim, int which) {
    int64_t all[] = {1, 2, dim / 3, dim / 2, dim - 1, dim};
    int64_t chunks = all[which];
    return chunks < 1 || chunks > dim ? 1 : chunks;
}
enum { CHUNKS = 6 };

static void every_code_is_the_nearest_centre(void **state) {
    (void)state;
    struct random random = test_random(1);
    for (int d = 0; d < DIMS; d++)
        for (int which = 0; which < CHUNKS; which++) {
            struct product product;
            enum vic_dtype dtype = any_type(&random);
            enum vic_metric metric = any_metric(&random);
            enum values values = (enum values)random_below(&random, VALUES_COUNT);
            int64_t n = dims[d] > 200 ? 70 : 1 + random_below(&random, 400), centres = 1 + random_below(&random, 40);
            int64_t chunks = chunks_of(dims[d], which);
            test_says("n %d, dim %d, chunks %d, centres %d, type %d, metric %d, values %d", (int)n, (int)dims[d], (int)chunks,
                      (int)centres, (int)dtype, (int)metric, (int)values);
            product_make(&product, test_device, n, dims[d], dtype, metric, values, random_next(&random));
            product_train(&product, &(struct pq_training){.chunks = chunks, .centres = centres, .rounds = 3}, NULL);
            product_check(&product);
            product_free(&product);
        }
    test_done();
}

static void threads_and_processors_give_the_same_bytes(void **state) {
    (void)state;
    static const int32_t threads[] = {1, 2, 3, 16};
    const char *const *tables = kernels_here();
    for (int t = 0; tables[t]; t++)
        for (int i = 0; i < 4; i++) {
            struct product first, product;
            struct pq_error error, other;
            struct vic_device *device = device_with(tables[t], threads[i]);
            const struct pq_training training = {.chunks = 7, .centres = 50, .rounds = 4};
            product_make(&first, test_device, 3000, 33, VIC_F16, VIC_COSINE, VALUES_UNIT, 8);
            product_make(&product, device, 3000, 33, VIC_F16, VIC_COSINE, VALUES_UNIT, 8);
            product_train(&first, &training, &error);
            product_train(&product, &training, &other);
            assert_memory_equal(&error, &other, sizeof error);
            assert_memory_equal(first.codes, product.codes, 3000 * 7);
            assert_int_equal(first.pq.parts.centres, product.pq.parts.centres);
            assert_memory_equal(first.pq.parts.pivots, product.pq.parts.pivots,
                                (size_t)product.pq.parts.centres * 33 * sizeof(float));
            assert_memory_equal(first.pq.parts.centroid, product.pq.parts.centroid, 33 * sizeof(float));
            product_free(&product), product_free(&first);
            vic_device_free(device);
        }
}

/* Rows without any: a quantiser of one centre that nobody asks. */
static void no_rows_make_a_quantiser_too(void **state) {
    (void)state;
    struct product product;
    product_make(&product, test_device, 0, 5, VIC_F32, VIC_DOT, VALUES_UNIT, 9);
    product_train(&product, &(struct pq_training){.chunks = 2}, NULL);
    assert_int_equal(product.pq.parts.centres, 1);
    product_free(&product);
}

/* More chunks and more centres keep more of a row. */
static void finer_codes_lose_less(void **state) {
    (void)state;
    struct product product;
    struct pq_error error;
    double before = 1e9;
    product_make(&product, test_device, 2000, 24, VIC_F32, VIC_L2, VALUES_UNIT, 10);
    for (int64_t chunks = 1; chunks <= 24; chunks *= 2) {
        product_train(&product, &(struct pq_training){.chunks = chunks, .centres = 64, .rounds = 6}, &error);
        assert_true(error.mean < before && error.largest >= error.mean);
        before = error.mean;
    }
    product_train(&product, &(struct pq_training){.chunks = 16, .centres = 256, .rounds = 6}, &error);
    assert_true(error.mean < before);
    product_free(&product);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_code_is_the_nearest_centre, test_tell),
        cmocka_unit_test(threads_and_processors_give_the_same_bytes),
        cmocka_unit_test(no_rows_make_a_quantiser_too),
        cmocka_unit_test(finer_codes_lose_less),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
