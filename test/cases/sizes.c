/* SIZ: no cliff in k, n, nq or dim, and offsets in 64 bits. Public cases, distilled from bug reports of this field; those
 * that need gigabytes are large.c's. */
#include "base/mem.h"
#include "support/hits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void SIZ_01_every_k_up_to_all_rows(void **state) {
    (void)state;
    static const int64_t ks[] = {1,    31,   32,    33,    63,    64,    65,    127,   128,  129,  255,
                                 256,  257,  511,   512,   513,   1023,  1024,  1025,  2047, 2048, 2049,
                                 4097, 8192, 10000, 12500, 12501, 16385, 49999, 50000, 50001};
    enum { N = 50000, DIM = 4 };
    float *values = values_random(1, N * DIM), *queries = values_random(2, 3 * DIM);
    struct data data = {values, N, DIM, VIC_F32, VIC_DOT, NULL};
    struct order order = order_of(&data, queries, 3, VIC_F32);
    struct vic_index *index = index_of_values(test_device, VIC_DOT, values, N, DIM, NULL);
    for (size_t k = 0; k < sizeof ks / sizeof *ks; k++)
        for (int64_t nq = 1; nq <= 3; nq += 2) {
            struct vic_matrix some = matrix_of(queries, nq, DIM, VIC_F32);
            order_check_search(&order, index, &some, 0, ks[k], NULL);
            struct vic_search_options options = {.size = sizeof options, .path = VIC_PATH_CERTIFIED};
            order_check_search(&order, index, &some, 0, ks[k], &options);
        }
    order_free(&order);
    vic_index_free(index);
    free(values);
    free(queries);
}

static void SIZ_02_every_one_of_65537_queries(void **state) {
    (void)state;
    enum { N = 100, MOST = 65537 };
    float *values = values_random(2, N * 3), *queries = take(MOST * 12), *scores = take(MOST * 4);
    int64_t *ids = take(MOST * 8);
    for (int64_t j = 0; j < MOST; j++) memcpy(queries + j * 3, values + j % N * 3, 12);
    struct data data = {values, N, 3, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = index_with_planes(test_device, &data, VIC_PLANES_NONE);
    for (int64_t nq = MOST - 2; nq <= MOST; nq++) {
        struct vic_matrix matrix = matrix_of(queries, nq, 3, VIC_F32);
        struct vic_hits hits = {.ids = ids, .scores = scores};
        memset(ids, 0xAA, MOST * 8);
        memset(scores, 0xAA, MOST * 4);
        must(vic_index_search(index, &matrix, 1, NULL, &hits));
        for (int64_t j = 0; j < nq; j++) assert_true(ids[j] == j % N && scores[j] == 0.0f);
        if (nq < MOST) assert_true(ids[nq] == (int64_t)0xAAAAAAAAAAAAAAAA);
    }
    vic_index_free(index);
    free(values);
    free(queries);
    free(scores);
    free(ids);
}

/* The sums that a plan makes for shapes that nobody could hold: exact, or refused, never wrapped. */
static void SIZ_05_offsets_are_computed_in_64_bits(void **state) {
    (void)state;
    static const int64_t rows[] = {INT64_C(2147483647), INT64_C(2147483653), INT64_C(4294967294)};
    for (int i = 0; i < 3; i++)
        for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++) {
            struct vic_plan plan = {.size = sizeof plan};
            struct vic_build_options options = {
                .size = sizeof options, .metric = VIC_COSINE, .dtype = dtype, .planes = VIC_PLANES_NONE};
            uint64_t n = (uint64_t)rows[i], bytes = n * 65536 * vic_dtype_bytes(dtype);
            must(vic_index_plan(test_device, rows[i], 65536, &options, &plan));
            assert_true(plan.row_bytes == bytes);
            assert_true(plan.extra_bytes >= n * 4 && plan.extra_bytes < n * 4 + 65536);
            assert_true(plan.workspace_bytes + plan.device_bytes > n * 8);
            assert_true(plan.host_bytes == plan.row_bytes + plan.extra_bytes + plan.workspace_bytes);
            assert_true(plan.file_bytes >= bytes + n * 4);
            /* the last row's offset, as every layer computes it: a row times dim times bytes */
            uint64_t offset = 0;
            assert_true(checked_mul(n - 1, 65536 * vic_dtype_bytes(dtype), &offset));
            assert_true(offset + 65536 * vic_dtype_bytes(dtype) == bytes);
        }
    struct vic_plan plan = {.size = sizeof plan};
    assert_int_equal(vic_index_plan(test_device, INT64_C(4294967295), 65536, NULL, &plan), VIC_ARGUMENT);
    assert_true(error_says("4294967294") && error_says("4294967295"));
    /* building one is refused before anything is read or taken */
    static const unsigned char row[1] = {0};
    struct vic_matrix huge = {(void *)(uintptr_t)row, INT64_C(4294967294), 65536, 0, VIC_U8, VIC_HOST};
    struct vic_build_options options = {.size = sizeof options, .metric = VIC_DOT};
    struct vic_index *index = NULL;
    assert_int_equal(vic_index_build(test_device, &huge, &options, &index), VIC_BUDGET);
    assert_null(index);
}

static void SIZ_06_every_dimension_of_every_type(void **state) {
    (void)state;
    static const int64_t dims[] = {1, 2, 3, 7, 17, 97, 100, 127, 129, 960, 1007, 1536, 4097, 65535, 65536};
    struct random random = {6};
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (int pair = 0; pair < TYPE_PAIRS; pair++) {
            bool wide = dims[d] > 10000;
            struct shape shape = {.n = 50,
                                  .nq = wide ? 1 : 5,
                                  .dim = dims[d],
                                  .dtype = type_pairs[pair][0],
                                  .query_dtype = type_pairs[pair][1],
                                  .metric = (enum vic_metric)(1 + (d + (size_t)pair) % 3)};
            struct scene scene;
            scene_make(&random, &shape, &scene);
            struct vic_index *index = index_with_planes(test_device, &scene.data, VIC_PLANES_8 | VIC_PLANES_4);
            expect_oracle(index, &scene.order, 50);
            vic_index_free(index);
            scene_free(&scene);
        }
    static const int64_t wrong[] = {0, 65537};
    for (int i = 0; i < 2; i++)
        for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++) {
            static const unsigned char nothing[8];
            struct vic_index *index = NULL;
            struct vic_matrix rows = matrix_of(nothing, 1, wrong[i], dtype);
            assert_int_equal(vic_index_build(test_device, &rows, NULL, &index), VIC_DIMENSION);
            assert_true(error_says("65536") && error_says(i ? "65537" : "found 0"));
            assert_null(index);
        }
}

/* Sixteen rows and sixteen queries of the largest dimension are more than any tile holds. */
static void SIZ_06_many_queries_of_the_largest_dimension(void **state) {
    (void)state;
    struct random random = {66};
    for (int pair = 0; pair < TYPE_PAIRS; pair += 2) {
        struct shape shape = {.n = 17,
                              .nq = 9,
                              .dim = 65536,
                              .dtype = type_pairs[pair][0],
                              .query_dtype = type_pairs[pair][1],
                              .metric = (enum vic_metric)(1 + pair / 2 % 3)};
        struct scene scene;
        scene_make(&random, &shape, &scene);
        struct vic_index *index = index_with_planes(test_device, &scene.data, VIC_PLANES_NONE);
        expect_oracle(index, &scene.order, 17);
        vic_index_free(index);
        scene_free(&scene);
    }
}

static void SIZ_09_counts_that_cannot_be_are_refused_with_both_numbers(void **state) {
    (void)state;
    static const int64_t small[] = {0, -1, INT64_MIN},
                         large[] = {INT64_C(1) << 40, INT64_C(1) << 60, INT64_C(1) << 62, INT64_MAX};
    float *values = values_random(9, 10 * 4);
    struct vic_index *index = index_of_values(test_device, VIC_DOT, values, 10, 4, NULL);
    struct vic_matrix query = matrix_of(values, 1, 4, VIC_F32);
    int64_t ids[1] = {77};
    struct vic_hits hits = {.ids = ids};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vic_index_search(index, &query, small[i], NULL, &hits), VIC_ARGUMENT);
        assert_true(error_says("at least 1"));
    }
    for (int i = 0; i < 4; i++) {
        char number[32];
        (void)snprintf(number, sizeof number, "k = %lld", (long long)large[i]);
        assert_int_equal(vic_index_search(index, &query, large[i], NULL, &hits), VIC_NO_MEMORY);
        assert_true(error_says(number) && error_says("needs") && error_says("available"));
    }
    assert_true(ids[0] == 77);
    vic_index_free(index);
    free(values);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SIZ_01_every_k_up_to_all_rows),
        cmocka_unit_test(SIZ_02_every_one_of_65537_queries),
        cmocka_unit_test(SIZ_05_offsets_are_computed_in_64_bits),
        cmocka_unit_test(SIZ_06_every_dimension_of_every_type),
        cmocka_unit_test(SIZ_06_many_queries_of_the_largest_dimension),
        cmocka_unit_test(SIZ_09_counts_that_cannot_be_are_refused_with_both_numbers),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
