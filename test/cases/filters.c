/* FIL: which rows may answer, decided before the k best are chosen. Public cases, distilled from bug reports of this field. */
#include "support/hits.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static struct vic_filter *allow(const struct vic_index *index, const int64_t *ids, int64_t count) {
    struct vic_filter *filter = NULL;
    must(vic_filter_create(index, ids, count, NULL, &filter));
    return filter;
}

/* Rows (i, 0), i = 0..9. */
static struct vic_index *line_index(void) {
    float values[20] = {0};
    for (int i = 0; i < 10; i++) values[2 * i] = (float)i;
    return index_of_values(test_device, VIC_L2, values, 10, 2, NULL);
}

static void FIL_01_one_allowed_row_is_the_only_hit(void **state) {
    (void)state;
    static const float query[] = {0, 0};
    struct vic_index *index = line_index();
    for (int64_t id = 0; id < 10; id++) {
        struct vic_filter *filter = allow(index, &id, 1);
        float score = (float)(id * id);
        expect_hits_filtered(index, filter, query, 3, 1, &id, &score);
        expect_hits_filtered(index, filter, query, 1, 1, &id, &score);
        vic_filter_free(filter);
    }
    vic_index_free(index);
}

static void FIL_02_as_many_hits_as_rows_pass(void **state) {
    (void)state;
    static const int64_t passes[] = {0, 1, 9, 10, 11, 100, 5000, 9999, 10000};
    enum { N = 10000, DIM = 32 };
    float *values = values_random(2, N * DIM), *query = values_random(3, DIM);
    int64_t *ids = take(N * 8);
    struct random random = {2};
    for (int64_t i = 0; i < N; i++) ids[i] = i;
    for (int64_t i = N - 1; i > 0; i--) {
        int64_t other = random_below(&random, i + 1), kept = ids[i];
        ids[i] = ids[other], ids[other] = kept;
    }
    struct data data = {values, N, DIM, VIC_F32, VIC_DOT, NULL};
    struct order order = order_of(&data, query, 1, VIC_F32);
    struct vic_index *index = index_of_values(test_device, VIC_DOT, values, N, DIM, NULL);
    for (size_t p = 0; p < sizeof passes / sizeof *passes; p++) {
        struct vic_filter *filter = allow(index, ids, passes[p]);
        struct order right = order_filtered(&order, ids, passes[p], false);
        int64_t count = passes[p] < 10 ? passes[p] : 10;
        assert_int_equal(vic_filter_count(filter), passes[p]);
        expect_hits_filtered(index, filter, query, 10, count, right.ids, right.scores);
        order_free(&right);
        vic_filter_free(filter);
    }
    order_free(&order);
    vic_index_free(index);
    free(values);
    free(query);
    free(ids);
}

static void FIL_03_a_filter_that_all_pass_changes_no_byte(void **state) {
    (void)state;
    enum { N = 3000, DIM = 20, NQ = 9, K = 50 };
    float *values = values_random(4, N * DIM), *queries = values_random(5, NQ * DIM);
    int64_t all[N];
    for (int64_t i = 0; i < N; i++) all[i] = i;
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++)
        for (int p = 0; p < PATHS; p++) {
            struct answer {
                int64_t ids[NQ * K];
                float scores[NQ * K];
                int32_t counts[NQ];
            } *with = take(sizeof *with), *without = take(sizeof *without);
            struct vic_index *index = index_of_values(test_device, metric, values, N, DIM, NULL);
            struct vic_filter *filter = allow(index, all, N);
            struct vic_matrix matrix = matrix_of(queries, NQ, DIM, VIC_F32);
            struct vic_search_options plain = {.size = sizeof plain, .path = paths[p]}, filtered = plain;
            struct vic_hits one = {with->ids, with->scores, with->counts, 0};
            struct vic_hits other = {without->ids, without->scores, without->counts, 0};
            filtered.filter = filter;
            must(vic_index_search(index, &matrix, K, &filtered, &one));
            must(vic_index_search(index, &matrix, K, &plain, &other));
            assert_memory_equal(with->ids, without->ids, sizeof with->ids);
            assert_memory_equal(with->scores, without->scores, sizeof with->scores);
            assert_memory_equal(with->counts, without->counts, sizeof with->counts);
            vic_filter_free(filter);
            vic_index_free(index);
            free(with);
            free(without);
        }
    free(values);
    free(queries);
}

static void FIL_04_the_best_of_a_category_are_found_behind_the_others(void **state) {
    (void)state;
    static const float query[] = {0, 0}, scores[] = {16, 25, 36, 49, 64};
    static const int64_t category[] = {4, 5, 6, 7, 8, 9};
    struct vic_index *index = line_index();
    struct vic_filter *filter = allow(index, category, 6);
    expect_hits_filtered(index, filter, query, 5, 5, category, scores);
    vic_filter_free(filter);
    vic_index_free(index);
}

static void FIL_06_ten_survivors_far_from_the_query(void **state) {
    (void)state;
    enum { N = 10000, DIM = 8 };
    static const float query[DIM] = {0};
    struct random random = {6};
    float *values = take(N * DIM * 4);
    int64_t *near = take(N / 2 * 8);
    for (int64_t i = 0; i < N * DIM; i++) values[i] = 0.1f * random_normal(&random) + (i < N / 2 * DIM ? 0.0f : 10.0f);
    for (int64_t i = 0; i < N / 2; i++) near[i] = i;
    struct data data = {values, N, DIM, VIC_F32, VIC_L2, NULL};
    struct order order = order_of(&data, query, 1, VIC_F32), right = order_filtered(&order, near, N / 2, true);
    struct vic_index *index = index_of_values(test_device, VIC_L2, values, N, DIM, NULL);
    struct vic_filter_options exclude = {.size = sizeof exclude, .exclude = 1};
    struct vic_filter *filter = NULL;
    must(vic_filter_create(index, near, N / 2, &exclude, &filter));
    assert_int_equal(vic_filter_count(filter), N / 2);
    expect_hits_filtered(index, filter, query, 10, 10, right.ids, right.scores);
    vic_filter_free(filter);
    order_free(&order);
    order_free(&right);
    vic_index_free(index);
    free(values);
    free(near);
}

static void FIL_07_two_allowed_rows_far_apart(void **state) {
    (void)state;
    static const int64_t allowed[] = {3, 700};
    float *values = values_random(7, 1000 * 4), *query = values_random(8, 4);
    struct data data = {values, 1000, 4, VIC_F32, VIC_COSINE, NULL};
    struct order order = order_of(&data, query, 1, VIC_F32), right = order_filtered(&order, allowed, 2, false);
    struct vic_index *index = index_of_values(test_device, VIC_COSINE, values, 1000, 4, NULL);
    struct vic_filter *filter = allow(index, allowed, 2);
    expect_hits_filtered(index, filter, query, 3, 2, right.ids, right.scores);
    vic_filter_free(filter);
    order_free(&order);
    order_free(&right);
    vic_index_free(index);
    free(values);
    free(query);
}

static void FIL_08_fewer_passing_rows_than_k_is_no_error(void **state) {
    (void)state;
    static const float query[] = {9, 0}, scores[] = {1, 49};
    static const int64_t allowed[] = {2, 8, 77, -3, 8}, right[] = {8, 2};
    struct vic_index *index = line_index();
    struct vic_filter *filter = allow(index, allowed, 5);
    assert_int_equal(vic_filter_count(filter), 2);
    expect_hits_filtered(index, filter, query, 2, 2, right, scores);
    expect_hits_filtered(index, filter, query, 5, 2, right, scores);
    expect_hits_filtered(index, filter, query, 1, 1, right, scores);
    vic_filter_free(filter);
    vic_index_free(index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(FIL_01_one_allowed_row_is_the_only_hit),
        cmocka_unit_test(FIL_02_as_many_hits_as_rows_pass),
        cmocka_unit_test(FIL_03_a_filter_that_all_pass_changes_no_byte),
        cmocka_unit_test(FIL_04_the_best_of_a_category_are_found_behind_the_others),
        cmocka_unit_test(FIL_06_ten_survivors_far_from_the_query),
        cmocka_unit_test(FIL_07_two_allowed_rows_far_apart),
        cmocka_unit_test(FIL_08_fewer_passing_rows_than_k_is_no_error),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
