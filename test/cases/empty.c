/* EMP: nothing, one row, and shapes that do not fit together. Public cases, distilled from bug reports of this field. */
#include "support/hits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void check_nothing(const struct vic_index *index, enum vic_metric metric, const struct vic_filter *filter) {
    static const int64_t batches[] = {0, 1, 19, 20, 21, 300};
    float worst = metric == VIC_L2 ? INFINITY : -INFINITY, queries[300 * 8] = {0};
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (int p = 0; p < PATHS; p++) {
            int64_t nq = batches[b], ids[301 * 5], offsets[302];
            float scores[301 * 5];
            int32_t counts[301];
            struct vic_search_options options = {.size = sizeof options, .path = paths[p], .filter = filter};
            struct vic_matrix matrix = matrix_of(queries, nq, 8, VIC_F32);
            struct vic_hits hits = {ids, scores, counts, VIC_HOST};
            struct vic_ranges ranges = {offsets, ids, scores, 10};
            memset(ids, 0xAA, sizeof ids);
            memset(scores, 0xAA, sizeof scores);
            memset(counts, 0xAA, sizeof counts);
            must(vic_index_search(index, &matrix, 5, &options, &hits));
            for (int64_t i = 0; i < nq * 5; i++) {
                assert_true(ids[i] == -1 && counts[i / 5] == 0);
                assert_memory_equal(&scores[i], &worst, 4);
            }
            assert_true(ids[nq * 5] == (int64_t)0xAAAAAAAAAAAAAAAA); /* and no slot behind them */
            must(vic_index_within(index, &matrix, -worst, &options, &ranges));
            must(vic_index_within(index, &matrix, worst, &options, &ranges));
            for (int64_t j = 0; j <= nq; j++) assert_true(offsets[j] == 0);
        }
}

static void EMP_01_an_empty_index_answers_nothing_well(void **state) {
    (void)state;
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++)
        for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++) {
            struct data data = {NULL, 0, 8, dtype, metric, NULL};
            struct vic_index *index = index_with_planes(test_device, &data, VIC_PLANES_8 | VIC_PLANES_4);
            struct vic_index_info info = {.size = sizeof info};
            struct vic_filter *filter = NULL;
            const char *text = NULL;
            size_t bytes = 0;
            float vector[8];
            must(vic_index_info(index, &info));
            assert_true(info.rows == 0 && info.dim == 8 && info.next_id == 0);
            check_nothing(index, metric, NULL);
            must(vic_filter_create(index, NULL, 0, NULL, &filter));
            check_nothing(index, metric, filter);
            must(vic_index_check(index, NULL));
            assert_int_equal(vic_index_vector(index, 0, vector), VIC_NOT_FOUND);
            assert_int_equal(vic_index_text(index, 0, &text, &bytes), VIC_NOT_FOUND);
            must(vic_index_ids(index, 0, 0, NULL));
            vic_filter_free(filter);
            vic_index_free(index);
        }
}

static void EMP_02_one_row_is_an_index(void **state) {
    (void)state;
    static const float values[] = {1, 2, 1, 2}, query[] = {1, 2};
    static const int64_t ids[] = {0, 1};
    static const float scores[3][2] = {{5, 5}, {0, 0}, {0, 0}};
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        const float *right = metric == VIC_COSINE ? NULL : scores[metric - VIC_DOT];
        struct vic_index *one = index_of_values(test_device, metric, values, 1, 2, NULL);
        struct vic_index *two = index_of_values(test_device, metric, values, 2, 2, NULL);
        expect_hits(one, query, 4, 1, ids, right);
        expect_hits(one, query, 1, 1, ids, right);
        expect_hits(two, query, 2, 2, ids, right);
        expect_hits(two, query, 3, 2, ids, right);
        vic_index_free(one);
        vic_index_free(two);
    }
}

static void EMP_03_dimensions_that_differ_are_both_named(void **state) {
    (void)state;
    static const int64_t wrong[] = {1, 2, 4, 384, 65536};
    float *values = values_random(3, 65536);
    struct vic_index *index = index_of_values(test_device, VIC_COSINE, values, 5, 3, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t ids[5] = {71}, offsets[2];
        float scores[5];
        char number[32];
        struct vic_matrix query = matrix_of(values, 1, wrong[i], VIC_F32);
        struct vic_hits hits = {.ids = ids};
        struct vic_ranges ranges = {offsets, ids, scores, 5};
        (void)snprintf(number, sizeof number, "found %lld", (long long)wrong[i]);
        assert_int_equal(vic_index_search(index, &query, 5, NULL, &hits), VIC_DIMENSION);
        assert_true(error_says("queries") && error_says("dimension 3") && error_says(number));
        assert_int_equal(vic_index_within(index, &query, 0, NULL, &ranges), VIC_DIMENSION);
        assert_true(error_says("queries") && error_says("dimension 3") && error_says(number));
        assert_int_equal(vic_index_score(index, &query, ids, 1, NULL, scores), VIC_DIMENSION);
        assert_true(error_says("queries") && error_says("dimension 3") && error_says(number));
        assert_true(ids[0] == 71);
    }
    vic_index_free(index);
    free(values);
}

static void EMP_04_options_out_of_range_are_one_sentence(void **state) {
    (void)state;
    static const int32_t threads[] = {-1, -1000, INT32_MIN, 1025, INT32_MAX}, planes[] = {-1, 3, 5, 7, 8, 1 << 20, INT32_MIN};
    float *values = values_random(4, 50 * 4);
    struct vic_matrix rows = matrix_of(values, 50, 4, VIC_F32);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        struct vic_device *refused = NULL;
        struct vic_device_options options = {.size = sizeof options, .threads = threads[i]};
        char number[32];
        (void)snprintf(number, sizeof number, "found %d", threads[i]);
        assert_int_equal(vic_device_open(&options, &refused), VIC_ARGUMENT);
        assert_true(error_says("threads") && error_says("0 (all cores) to 1024") && error_says(number));
        assert_null(refused);
    }
    for (size_t i = 0; i < sizeof planes / sizeof *planes; i++) {
        struct vic_index *refused = NULL;
        struct vic_build_options options = {.size = sizeof options, .planes = planes[i]};
        char number[32];
        (void)snprintf(number, sizeof number, "found %d", planes[i]);
        assert_int_equal(vic_index_build(test_device, &rows, &options, &refused), VIC_ARGUMENT);
        assert_true(error_says("planes") && error_says(number));
        assert_null(refused);
    }
    free(values);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(EMP_01_an_empty_index_answers_nothing_well),
        cmocka_unit_test(EMP_02_one_row_is_an_index),
        cmocka_unit_test(EMP_03_dimensions_that_differ_are_both_named),
        cmocka_unit_test(EMP_04_options_out_of_range_are_one_sentence),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
