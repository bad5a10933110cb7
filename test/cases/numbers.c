/* NUM: NaN, zeros, tiny and huge numbers, and scores that are known by hand. Public cases, distilled from bug reports of
 * this field. */
#include "support/hits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static const float largest = 0x1.fffffep127f;
/* A build with a bad row is refused; the index that was there before answers as before. */
static void check_bad_row(const float *values, int64_t n, const char *row, const char *column) {
    static const float good[] = {1, 0, 0, 0, 0, 1, 0, 0}, query[] = {1, 0, 0, 0}, scores[] = {1, 0};
    static const int64_t ids[] = {0, 1};
    struct vic_index *before = index_of_values(test_device, VIC_DOT, good, 2, 4, NULL), *index = NULL;
    struct vic_device_info info = {.size = sizeof info}, after = info;
    struct vic_matrix rows = matrix_of(values, n, 4, VIC_F32);
    must(vic_device_info(test_device, &info));
    assert_int_equal(vic_index_build(test_device, &rows, NULL, &index), VIC_NOT_FINITE);
    assert_true(error_says(row) && error_says(column));
    assert_null(index);
    must(vic_device_info(test_device, &after));
    assert_true(after.host_used == info.host_used);
    expect_hits(before, query, 2, 2, ids, scores);
    vic_index_free(before);
}

static void NUM_01_a_row_with_nan_or_infinity_is_named_and_nothing_is_stored(void **state) {
    (void)state;
    static const uint32_t patterns[] = {0x7fc00000, 0xffc00000, 0x7f800000, 0xff800000, 0x7f800001, 0xffffffff};
    float *values = values_random(1, 1024 * 4);
    for (size_t p = 0; p < sizeof patterns / sizeof *patterns; p++) {
        float kept = values[3 * 4 + 1];
        memcpy(&values[3 * 4 + 1], &patterns[p], 4);
        check_bad_row(values, 5, "row 3", "column 1");
        values[3 * 4 + 1] = kept;
        kept = values[1000 * 4];
        memcpy(&values[1000 * 4], &patterns[p], 4);
        check_bad_row(values, 1024, "row 1000", "column 0");
        values[1000 * 4] = kept;
    }
    free(values);
}

static void NUM_02_a_query_with_nan_or_infinity_is_named_and_the_next_search_is_right(void **state) {
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    float *values = values_random(2, 100 * 6), *queries = values_random(3, 8 * 6);
    struct data data = {values, 100, 6, VIC_F32, VIC_L2, NULL};
    struct order order = order_of(&data, queries, 8, VIC_F32);
    struct vic_index *index = index_of_values(test_device, VIC_L2, values, 100, 6, NULL);
    for (int b = 0; b < 3; b++)
        for (int p = 0; p < PATHS; p++) {
            int64_t ids[80];
            float kept = queries[4 * 6 + 2];
            struct vic_matrix matrix = matrix_of(queries, 8, 6, VIC_F32);
            struct vic_search_options options = {.size = sizeof options, .path = paths[p]};
            struct vic_hits hits = {.ids = ids};
            queries[4 * 6 + 2] = bad[b];
            assert_int_equal(vic_index_search(index, &matrix, 10, &options, &hits), VIC_NOT_FINITE);
            assert_true(error_says("query 4") && error_says("column 2"));
            queries[4 * 6 + 2] = kept;
            expect_oracle(index, &order, 10);
        }
    free(values);
    free(queries);
    order_free(&order);
    vic_index_free(index);
}

static void NUM_03_zero_vectors_under_cosine_are_last_and_never_nan(void **state) {
    (void)state;
    static const float values[] = {0, 0, 0, 1, 0, 0, 0.9f, 0.1f, 0}, axis[] = {1, 0, 0}, zero[] = {0, 0, 0},
                       minus[] = {-0.0f, 0, -0.0f};
    static const int64_t ids[] = {1, 2, 0}, by_id[] = {0, 1, 2};
    const float scores[] = {1, 0.9938837f, -INFINITY}, none[] = {-INFINITY, -INFINITY, -INFINITY};
    struct vic_index *index = index_of_values(test_device, VIC_COSINE, values, 3, 3, NULL);
    expect_hits(index, axis, 3, 3, ids, scores);
    expect_hits(index, zero, 3, 3, by_id, none);
    expect_hits(index, minus, 3, 3, by_id, none);
    vic_index_free(index);
}

static void NUM_04_tiny_rows_have_a_direction(void **state) {
    (void)state;
    static const float query[] = {1, 0};
    float values[40], scores[20];
    int64_t ids[20];
    for (int i = 0; i < 20; i++) {
        values[2 * i] = (float)pow(10, -(10 + i)), values[2 * i + 1] = 0;
        ids[i] = i, scores[i] = 1;
    }
    struct vic_index *index = index_of_values(test_device, VIC_COSINE, values, 20, 2, NULL);
    expect_hits(index, query, 20, 20, ids, scores);
    vic_index_free(index);
    /* and every power of two that there is, down to the smallest denormal */
    float *powers = take(277 * 2 * 4), ones[277];
    int64_t numbers[277];
    for (int i = 0; i < 277; i++) {
        powers[2 * i] = ldexpf(1, 127 - i), powers[2 * i + 1] = 0;
        numbers[i] = i, ones[i] = 1;
    }
    index = index_of_values(test_device, VIC_COSINE, powers, 277, 2, NULL);
    expect_hits(index, query, 277, 277, numbers, ones);
    for (int i = 0; i < 277; i += 23) expect_hits(index, powers + 2 * i, 277, 277, numbers, ones);
    vic_index_free(index);
    free(powers);
}

static void NUM_05_rows_and_queries_of_any_length_have_one_cosine(void **state) {
    (void)state;
    static const float values[] = {0.5f, 0.866f, 1e-4f, 0, 1e20f, 0}, scores[] = {1, 1, 0.50001103f};
    static const int64_t ids[] = {1, 2, 0};
    struct vic_index *index = index_of_values(test_device, VIC_COSINE, values, 3, 2, NULL);
    for (int exponent = -149; exponent <= 127; exponent++) {
        float query[] = {ldexpf(1, exponent), 0};
        expect_hits(index, query, 3, 3, ids, scores);
    }
    vic_index_free(index);
}

static void NUM_06_large_coordinates_lose_no_distance(void **state) {
    (void)state;
    static const float values[] = {4208843.5f, 2334869.5f, 4171171.5f, 4208292, 2335623.5f, 4171305};
    static const float query[] = {4208848, 2334863.5f, 4171170.2f}, scores[] = {57.8125f, 904893.5625f};
    static const int64_t ids[] = {0, 1};
    struct vic_index *index = index_of_values(test_device, VIC_L2, values, 2, 3, NULL);
    expect_hits(index, query, 2, 2, ids, scores);
    float *queries = values_random(6, 1024 * 3);
    for (int place = 0; place < 1024; place += 341) {
        int64_t *found = take(1024 * 2 * 8);
        float *found_scores = take(1024 * 2 * 4);
        memcpy(queries + place * 3, query, 12);
        struct vic_matrix matrix = matrix_of(queries, 1024, 3, VIC_F32);
        struct vic_hits hits = {.ids = found, .scores = found_scores};
        must(vic_index_search(index, &matrix, 2, NULL, &hits));
        assert_memory_equal(found + place * 2, ids, 16);
        assert_memory_equal(found_scores + place * 2, scores, 8);
        free(found);
        free(found_scores);
    }
    free(queries);
    vic_index_free(index);
}

static void NUM_07_moving_everything_by_a_million_changes_no_distance(void **state) {
    (void)state;
    struct random random = {7};
    float near[1000 * 3], far[1000 * 3];
    for (int i = 0; i < 3000; i++) near[i] = (float)random_below(&random, 1000), far[i] = near[i] + 1000000.0f;
    struct vic_index *one = index_of_values(test_device, VIC_L2, near, 1000, 3, NULL);
    struct vic_index *other = index_of_values(test_device, VIC_L2, far, 1000, 3, NULL);
    for (int j = 0; j < 1000; j += 97) {
        int64_t ids[1000];
        float scores[1000];
        struct vic_matrix matrix = matrix_of(near + j * 3, 1, 3, VIC_F32);
        struct vic_hits hits = {.ids = ids, .scores = scores};
        must(vic_index_search(one, &matrix, 1000, NULL, &hits));
        for (int i = 0; i < 1000; i++) {
            double sum = 0;
            for (int d = 0; d < 3; d++) {
                double delta = (double)near[ids[i] * 3 + d] - (double)near[j * 3 + d];
                sum += delta * delta;
            }
            assert_true(scores[i] >= 0 && (double)scores[i] == sum);
            if (i) assert_true(scores[i - 1] < scores[i] || (scores[i - 1] == scores[i] && ids[i - 1] < ids[i]));
        }
        expect_hits(one, near + j * 3, 1000, 1000, ids, scores);
        expect_hits(other, far + j * 3, 1000, 1000, ids, scores);
    }
    vic_index_free(one);
    vic_index_free(other);
}

static void check_self(const float *values, int64_t n, int64_t dim, float score) {
    struct vic_index *index = index_of_values(test_device, VIC_L2, values, n, dim, NULL);
    int64_t *ids = take((size_t)n * 8);
    float *scores = take((size_t)n * 4);
    struct vic_matrix all = matrix_of(values, n, dim, VIC_F32);
    struct vic_hits hits = {.ids = ids, .scores = scores};
    must(vic_index_search(index, &all, 1, NULL, &hits));
    for (int64_t i = 0; i < n; i++) {
        assert_true(ids[i] == i);
        assert_memory_equal(&scores[i], &score, 4);
    }
    free(ids);
    free(scores);
    vic_index_free(index);
}

static void NUM_08_every_row_is_at_distance_zero_from_itself(void **state) {
    (void)state;
    float small[20];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 5; j++) small[5 * i + j] = 0.1f * (float)(5 * i + j + 1);
    check_self(small, 4, 5, 0.0f);
    float *values = values_random(8, 1000 * 128);
    check_self(values, 1000, 128, 0.0f);
    for (int64_t i = 0; i < 1000 * 128; i++) values[i] *= 1e-20f; /* whose squares vanish */
    struct vic_index *index = index_of_values(test_device, VIC_L2, values, 1000, 128, NULL);
    struct data data = {values, 1000, 128, VIC_F32, VIC_L2, NULL};
    struct order order = order_of(&data, values, 20, VIC_F32);
    expect_oracle(index, &order, 10);
    order_free(&order);
    vic_index_free(index);
    free(values);
}

static void check_self_cosine(const float *row, int64_t dim) {
    int64_t id = 0;
    float score = 0;
    struct vic_index *index = index_of_values(test_device, VIC_COSINE, row, 1, dim, NULL);
    struct vic_matrix matrix = matrix_of(row, 1, dim, VIC_F32);
    must(vic_index_score(index, &matrix, &id, 1, NULL, &score));
    assert_true(score >= 1.0f - 0x1p-20f && score <= 1.0f);
    vic_index_free(index);
}

static void NUM_09_a_rows_cosine_with_itself_is_never_above_one(void **state) {
    (void)state;
    static const float two[] = {1, 1}, three[] = {0.1f, 0.2f, 0.3f};
    check_self_cosine(two, 2);
    check_self_cosine(three, 3);
    float *values = values_random(9, 2048);
    for (int64_t dim = 1; dim <= 2048; dim += dim < 300 ? 1 : 37) check_self_cosine(values, dim);
    check_self_cosine(values, 2048);
    free(values);
}

static void NUM_10_half_precision_rows_score_as_their_float32_copies(void **state) {
    (void)state;
    unsigned char *rows = take(1000 * 128 * 2);
    float *copies = take(1000 * 128 * 4), score = 0;
    int64_t id = 0;
    for (int64_t i = 0; i < 1024; i++) element_set(VIC_F16, rows, i, 300);
    struct data one = {rows, 1, 1024, VIC_F16, VIC_DOT, NULL};
    struct vic_index *index = index_of(test_device, &one);
    struct vic_matrix matrix = matrix_of(rows, 1, 1024, VIC_F16);
    must(vic_index_score(index, &matrix, &id, 1, NULL, &score));
    assert_true(score == 92160000.0f);
    vic_index_free(index);
    static const enum vic_dtype halves[] = {VIC_F16, VIC_BF16};
    for (int h = 0; h < 2; h++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
            struct random random = {10};
            for (int64_t i = 0; i < 1000 * 128; i++) {
                element_set(halves[h], rows, i, (random_unit(&random) + 1.0f) * 50.0f);
                copies[i] = element_get(halves[h], rows, i);
            }
            struct data half = {rows, 1000, 128, halves[h], metric, NULL}, full = {copies, 1000, 128, VIC_F32, metric, NULL};
            struct order order = order_of(&full, copies, 5, VIC_F32);
            for (int64_t i = 0; i < 5 * 1000; i++) assert_true(isfinite(order.scores[i]));
            struct vic_index *one_index = index_of(test_device, &half), *other = index_of(test_device, &full);
            struct vic_matrix half_queries = matrix_of(rows, 5, 128, halves[h]);
            order_check_search(&order, other, &order.queries, 0, 1000, NULL);
            order_check_search(&order, one_index, &order.queries, 0, 1000, NULL);
            order_check_search(&order, one_index, &half_queries, 0, 1000, NULL);
            vic_index_free(one_index);
            vic_index_free(other);
            order_free(&order);
        }
    free(rows);
    free(copies);
}

static void NUM_11_integer_sums_are_exact_and_rounded_once(void **state) {
    (void)state;
    static const struct {
        enum vic_dtype dtype;
        int64_t dim;
        float value, score;
    } rows[] = {{VIC_I8, 4096, -128, 67108864.0f},    {VIC_U8, 33100, 255, 2152327424.0f}, {VIC_U8, 65536, 255, 4261478400.0f},
                {VIC_I8, 65536, -128, 1073741824.0f}, {VIC_I8, 33100, 127, 533869900.0f},  {VIC_U8, 33023, 255, 2147320575.0f}};
    unsigned char *row = take(65536);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int64_t copies = 1; copies <= 9; copies += 8) {
            int64_t ids[9] = {0};
            float scores[9];
            for (int64_t d = 0; d < rows[i].dim; d++) element_set(rows[i].dtype, row, d, rows[i].value);
            struct data data = {row, 1, rows[i].dim, rows[i].dtype, VIC_DOT, NULL};
            struct vic_index *index = index_of(test_device, &data);
            unsigned char *queries = take((size_t)(copies * rows[i].dim));
            for (int64_t j = 0; j < copies; j++) memcpy(queries + j * rows[i].dim, row, (size_t)rows[i].dim);
            struct vic_matrix matrix = matrix_of(queries, copies, rows[i].dim, rows[i].dtype);
            struct vic_hits hits = {.ids = ids, .scores = scores};
            must(vic_index_search(index, &matrix, 1, NULL, &hits));
            for (int64_t j = 0; j < copies; j++) assert_true(scores[j] == rows[i].score);
            free(queries);
            vic_index_free(index);
        }
    free(row);
}

static void NUM_12_a_distance_beyond_float32_is_infinite_and_a_hit(void **state) {
    (void)state;
    const float values[] = {0, 0, largest, -largest}, query[] = {1, 1}, scores[] = {2, INFINITY};
    static const int64_t ids[] = {0, 1};
    struct vic_index *index = index_of_values(test_device, VIC_L2, values, 2, 2, NULL);
    expect_hits(index, query, 3, 2, ids, scores);
    expect_hits(index, query, 1, 1, ids, scores);
    vic_index_free(index);
    /* dot: inf - inf is NaN, which is the worst score and still a row's own */
    const float dots[] = {largest, largest, 1, 1}, crossed[] = {largest, -largest}, right[] = {0, -INFINITY};
    static const int64_t order[] = {1, 0};
    index = index_of_values(test_device, VIC_DOT, dots, 2, 2, NULL);
    expect_hits(index, crossed, 3, 2, order, right);
    vic_index_free(index);
}

static void NUM_13_one_pair_each(void **state) {
    (void)state;
    static const struct {
        enum vic_metric metric;
        float row[2], query[2], score;
    } rows[] = {{VIC_L2, {0, 0}, {3, 4}, 25},
                {VIC_DOT, {1, 2}, {3, 4}, 11},
                {VIC_COSINE, {1, 0}, {1, 1}, 0.70710677f},
                {VIC_COSINE, {3, 4}, {-3, -4}, -1}};
    static const int64_t id = 0;
    for (size_t i = 0; i < 4; i++) {
        struct vic_index *index = index_of_values(test_device, rows[i].metric, rows[i].row, 1, 2, NULL);
        expect_hits(index, rows[i].query, 1, 1, &id, &rows[i].score);
        vic_index_free(index);
    }
}

static void NUM_14_the_metric_reaches_every_inner_part(void **state) {
    (void)state;
    static const float values[] = {1, 0, 10, 10}, query[] = {1, 0};
    static const int64_t first[] = {1, 0, 0};
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        struct vic_index *index = index_of_values(test_device, metric, values, 2, 2, NULL);
        expect_hits(index, query, 1, 1, &first[metric - VIC_DOT], NULL);
        vic_index_free(index);
    }
    float *rows = values_random(14, 5000 * 16), *queries = values_random(15, 3 * 16);
    for (int64_t i = 0; i < 5000; i++)
        for (int64_t d = 0; d < 16; d++) rows[i * 16 + d] *= 0.1f + (float)i * 0.002f;
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        struct data data = {rows, 5000, 16, VIC_F32, metric, NULL};
        struct order order = order_of(&data, queries, 3, VIC_F32);
        struct vic_index *index = index_of_values(test_device, metric, rows, 5000, 16, NULL);
        expect_oracle(index, &order, 100);
        order_free(&order);
        vic_index_free(index);
    }
    free(rows);
    free(queries);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(NUM_01_a_row_with_nan_or_infinity_is_named_and_nothing_is_stored),
        cmocka_unit_test(NUM_02_a_query_with_nan_or_infinity_is_named_and_the_next_search_is_right),
        cmocka_unit_test(NUM_03_zero_vectors_under_cosine_are_last_and_never_nan),
        cmocka_unit_test(NUM_04_tiny_rows_have_a_direction),
        cmocka_unit_test(NUM_05_rows_and_queries_of_any_length_have_one_cosine),
        cmocka_unit_test(NUM_06_large_coordinates_lose_no_distance),
        cmocka_unit_test(NUM_07_moving_everything_by_a_million_changes_no_distance),
        cmocka_unit_test(NUM_08_every_row_is_at_distance_zero_from_itself),
        cmocka_unit_test(NUM_09_a_rows_cosine_with_itself_is_never_above_one),
        cmocka_unit_test(NUM_10_half_precision_rows_score_as_their_float32_copies),
        cmocka_unit_test(NUM_11_integer_sums_are_exact_and_rounded_once),
        cmocka_unit_test(NUM_12_a_distance_beyond_float32_is_infinite_and_a_hit),
        cmocka_unit_test(NUM_13_one_pair_each),
        cmocka_unit_test(NUM_14_the_metric_reaches_every_inner_part),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
