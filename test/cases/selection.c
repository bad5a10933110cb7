/* SEL: choosing the k best. Public cases, distilled from bug reports of this field; a test begins with its id. */
#include "support/hits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* Values that follow one another in float32, shuffled: a first pass that keeps too few bits cannot tell them apart. */
static void SEL_01_a_full_candidate_buffer_loses_nothing(void **state) {
    (void)state;
    static const int64_t counts[] = {16383, 16384, 16385, 16512, 65537}, ks[] = {1, 511, 512, 513, 2047, 2048, 2049};
    static const float query[] = {1};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int64_t n = counts[c];
        struct random random = {(uint64_t)n};
        float *values = take((size_t)n * 4);
        for (int64_t i = 0; i < n; i++) values[i] = 1.0f + (float)((double)i * 0.245 / (double)n);
        for (int64_t i = n - 1; i > 0; i--) {
            int64_t other = random_below(&random, i + 1);
            float kept = values[i];
            values[i] = values[other], values[other] = kept;
        }
        struct data data = {values, n, 1, VIC_F32, VIC_DOT, NULL};
        struct order order = order_of(&data, query, 1, VIC_F32);
        struct vic_index *index = index_of_values(test_device, VIC_DOT, values, n, 1, NULL);
        for (size_t k = 0; k < sizeof ks / sizeof *ks; k++) expect_oracle(index, &order, ks[k]);
        vic_index_free(index);
        order_free(&order);
        free(values);
    }
}

/* Multiplying by a power of two is exact, so all queries have one order, and query j's scores are the first's times 2^j. */
static void SEL_02_the_scale_of_a_query_changes_no_choice(void **state) {
    (void)state;
    enum { N = 262144, QUERIES = 64, K = 2048 };
    float *values = take(N * 4), queries[QUERIES];
    for (int64_t i = 0; i < N; i++) values[i] = 1.0f + (float)(40503 * i % 65536) * 0x1p-23f;
    for (int j = 0; j < QUERIES; j++) queries[j] = ldexpf(1.0f, j);
    struct data data = {values, N, 1, VIC_F32, VIC_DOT, NULL};
    struct order order = order_of(&data, queries, 1, VIC_F32);
    struct vic_index *index = index_of_values(test_device, VIC_DOT, values, N, 1, NULL);
    struct vic_matrix matrix = matrix_of(queries, QUERIES, 1, VIC_F32);
    int64_t *ids = take(QUERIES * K * 8);
    float *scores = take(QUERIES * K * 4);
    struct vic_hits hits = {.ids = ids, .scores = scores};
    must(vic_index_search(index, &matrix, K, NULL, &hits));
    for (int j = 0; j < QUERIES; j++) {
        assert_memory_equal(ids + j * K, order.ids, K * 8);
        for (int64_t i = 0; i < K; i++) assert_true(scores[j * K + i] == ldexpf(order.scores[i], j));
    }
    free(ids);
    free(scores);
    free(values);
    vic_index_free(index);
    order_free(&order);
}

static void check_path_statistics(const struct vic_index *index, const float *query, int64_t k) {
    int64_t *ids = take((size_t)k * 8);
    for (int p = 0; p < PATHS; p++) {
        struct vic_search_stats stats = {.size = sizeof stats};
        struct vic_search_options options = {.size = sizeof options, .path = paths[p], .stats = &stats};
        struct vic_matrix queries = matrix_of(query, 1, 1, VIC_F32);
        struct vic_hits hits = {.ids = ids};
        must(vic_index_search(index, &queries, k, &options, &hits));
        assert_true(stats.path == VIC_PATH_SCAN || stats.path == VIC_PATH_SELECT || stats.path == VIC_PATH_CERTIFIED);
        if (stats.path == VIC_PATH_CERTIFIED) assert_true(stats.rows_rescored > 0);
        if (stats.path != VIC_PATH_CERTIFIED) assert_true(stats.rows_scored >= 100000 && stats.rows_rescored == 0);
        if (paths[p] == VIC_PATH_CERTIFIED && stats.path != VIC_PATH_CERTIFIED)
            assert_true(stats.fallbacks == 1 && stats.fallback != VIC_FALLBACK_NONE);
    }
    free(ids);
}

static void SEL_03_ties_by_the_thousand_fall_to_the_smaller_id(void **state) {
    (void)state;
    static const float query[] = {1};
    enum { N = 100000, K = 100 };
    float *values = take(N * 4), scores[K];
    int64_t ids[K];
    for (int even_better = 0; even_better < 2; even_better++) {
        for (int64_t i = 0; i < N; i++) values[i] = even_better && i % 2 == 0 ? 1.0f + 0x1p-23f : 1.0f;
        for (int64_t i = 0; i < K; i++) ids[i] = even_better ? 2 * i : i, scores[i] = values[0];
        struct vic_index *index = index_of_values(test_device, VIC_DOT, values, N, 1, NULL);
        expect_hits(index, query, K, K, ids, scores);
        check_path_statistics(index, query, K);
        vic_index_free(index);
    }
    free(values);
}

static void SEL_04_a_slot_of_the_worst_score_still_has_its_own_row(void **state) {
    (void)state;
    static const float values[] = {1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, query[] = {1, 0};
    static const int64_t ids[] = {0, 1, 2, 3, 4};
    const float scores[] = {0.70710677f, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    struct vic_index *index = index_of_values(test_device, VIC_COSINE, values, 5, 2, NULL);
    for (int64_t k = 1; k <= 5; k++) expect_hits(index, query, k, k, ids, scores);
    expect_hits(index, query, 7, 5, ids, scores);
    vic_index_free(index);
}

static void SEL_05_rows_without_direction_come_last_in_order_of_id(void **state) {
    (void)state;
    static const float values[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 1}, query[] = {1, 0};
    static const int64_t ids[] = {7, 8, 9, 0, 1};
    const float scores[] = {1, 0.70710677f, 0, -INFINITY, -INFINITY};
    struct vic_index *index = index_of_values(test_device, VIC_COSINE, values, 10, 2, NULL);
    expect_hits(index, query, 5, 5, ids, scores);
    vic_index_free(index);
}

static void SEL_06_the_last_row_is_found_around_every_block_size(void **state) {
    (void)state;
    static const int64_t sizes[] = {32, 128, 256, 384, 512, 1024, 2048, 4096, 131072, 262144};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        float *values = values_random(6, (sizes[s] + 1) * 8);
        for (int64_t n = sizes[s] - 1; n <= sizes[s] + 1; n++) {
            const float *query = values + (n - 1) * 8;
            struct vic_index *index = index_of_values(test_device, VIC_L2, values, n, 8, NULL);
            struct data data = {values, n, 8, VIC_F32, VIC_L2, NULL};
            static const float zero = 0;
            int64_t last = n - 1;
            expect_hits(index, query, 1, 1, &last, &zero);
            /* the oracle takes half a microsecond a row: the whole order up to a hundred thousand rows */
            if (n < 100000) {
                struct order order = order_of(&data, query, 1, VIC_F32);
                expect_oracle(index, &order, 10);
                order_free(&order);
            } else if (n % 2 == 0) {
                int64_t ids[10];
                float scores[10];
                (void)oracle_search(&data, query, VIC_F32, 10, NULL, ids, scores);
                expect_hits(index, query, 10, 10, ids, scores);
            }
            vic_index_free(index);
        }
        free(values);
    }
}

static void SEL_07_the_last_queries_of_a_batch_find_their_rows(void **state) {
    (void)state;
    static const int64_t batches[] = {999, 1000, 1001, 10000};
    float *values = values_random(7, 2000 * 16), *queries = take(10000 * 16 * 4);
    struct data data = {values, 2000, 16, VIC_F32, VIC_L2, NULL};
    for (int64_t j = 0; j < 10000; j++) memcpy(queries + j * 16, values + j % 2000 * 16, 64);
    struct vic_index *index = index_of(test_device, &data);
    int64_t *alone = take(2000 * 3 * 8), *ids = take(10000 * 3 * 8);
    float *alone_scores = take(2000 * 3 * 4), *scores = take(10000 * 3 * 4);
    for (int64_t j = 0; j < 2000; j++) {
        struct vic_matrix one = matrix_of(values + j * 16, 1, 16, VIC_F32);
        struct vic_hits hits = {.ids = alone + j * 3, .scores = alone_scores + j * 3};
        must(vic_index_search(index, &one, 3, NULL, &hits));
        assert_true(alone[j * 3] == j && alone_scores[j * 3] == 0.0f);
    }
    for (int64_t j = 0; j < 2000; j += 397) {
        int64_t right_ids[3];
        float right_scores[3];
        (void)oracle_search(&data, values + j * 16, VIC_F32, 3, NULL, right_ids, right_scores);
        assert_memory_equal(alone + j * 3, right_ids, sizeof right_ids);
        assert_memory_equal(alone_scores + j * 3, right_scores, sizeof right_scores);
    }
    for (size_t b = 0; b < 4; b++) {
        struct vic_matrix many = matrix_of(queries, batches[b], 16, VIC_F32);
        struct vic_hits hits = {.ids = ids, .scores = scores};
        must(vic_index_search(index, &many, 3, NULL, &hits));
        for (int64_t j = 0; j < batches[b]; j++) {
            assert_memory_equal(ids + j * 3, alone + j % 2000 * 3, 24);
            assert_memory_equal(scores + j * 3, alone_scores + j % 2000 * 3, 12);
        }
    }
    free(alone);
    free(alone_scores);
    free(ids);
    free(scores);
    free(values);
    free(queries);
    vic_index_free(index);
}

static void SEL_08_three_distinct_scores_among_many_rows_are_no_harder(void **state) {
    (void)state;
    enum { N = 1000000, K = 100 };
    static const float query[] = {1};
    float *values = take(N * 4), scores[K];
    int64_t ids[K];
    for (int64_t i = 0; i < N; i++) values[i] = (float)(i % 3);
    for (int64_t i = 0; i < K; i++) ids[i] = 3 * i + 2, scores[i] = 2;
    struct vic_index *index = index_of_values(test_device, VIC_DOT, values, N, 1, NULL);
    expect_hits(index, query, K, K, ids, scores);
    vic_index_free(index);
    free(values);
}

static void SEL_10_rescored_hits_keep_their_own_scores(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        float *values = values_random(seed, 10 * 4), query[4];
        memcpy(values + 28, values + 8, 16);
        memcpy(query, values + 8, 16);
        struct data data = {values, 10, 4, VIC_F32, VIC_L2, NULL};
        struct order order = order_of(&data, query, 1, VIC_F32);
        struct vic_index *index = index_of_values(test_device, VIC_L2, values, 10, 4, NULL);
        assert_true(order.ids[0] == 2 && order.ids[1] == 7 && order.scores[0] == 0 && order.scores[1] == 0);
        expect_oracle(index, &order, 4);
        vic_index_free(index);
        order_free(&order);
        free(values);
    }
}

static void SEL_11_every_slot_is_written_also_beyond_the_rows(void **state) {
    (void)state;
    static const struct {
        int64_t n, dim, k, nq;
    } rows[] = {{3, 8, 5, 1},     {3, 8, 5, 2},     {3, 8, 5, 20},     {65, 768, 63, 3}, {65, 768, 64, 3},
                {65, 768, 65, 3}, {65, 768, 66, 3}, {65, 768, 100, 3}, {1, 1, 1000, 9},  {2, 3, 4000, 5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
            float *values = values_random(i, rows[i].n * rows[i].dim),
                  *queries = values_random(i + 50, rows[i].nq * rows[i].dim);
            struct data data = {values, rows[i].n, rows[i].dim, VIC_F32, metric, NULL};
            struct order order = order_of(&data, queries, rows[i].nq, VIC_F32);
            struct vic_index *index = index_of_values(test_device, metric, values, rows[i].n, rows[i].dim, NULL);
            expect_oracle(index, &order, rows[i].k); /* into buffers of 0xAA */
            vic_index_free(index);
            order_free(&order);
            free(values);
            free(queries);
        }
}

static void SEL_12_unused_slots_are_the_same_everywhere(void **state) {
    (void)state;
    expect_short_answers(index_of);
}

static void SEL_13_a_score_equal_to_the_threshold_is_in(void **state) {
    (void)state;
    float values[200], query[2] = {0, 0};
    int64_t ids[100], offsets[2];
    float scores[100];
    for (int i = 0; i < 100; i++) values[2 * i] = (float)i, values[2 * i + 1] = 0;
    struct vic_index *index = index_of_values(test_device, VIC_L2, values, 100, 2, NULL);
    struct vic_matrix queries = matrix_of(query, 1, 2, VIC_F32);
    struct vic_ranges ranges = {offsets, ids, scores, 100};
    const float thresholds[] = {25, 24.999998f, 25.000002f, 0, -0.0f, -1, INFINITY};
    static const int64_t right[] = {6, 5, 6, 1, 1, 0, 100};
    for (int t = 0; t < 7; t++) {
        must(vic_index_within(index, &queries, thresholds[t], NULL, &ranges));
        assert_int_equal(offsets[1], right[t]);
        for (int64_t i = 0; i < right[t]; i++) assert_true(ids[i] == i && scores[i] == (float)(i * i));
    }
    vic_index_free(index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SEL_01_a_full_candidate_buffer_loses_nothing),
        cmocka_unit_test(SEL_02_the_scale_of_a_query_changes_no_choice),
        cmocka_unit_test(SEL_03_ties_by_the_thousand_fall_to_the_smaller_id),
        cmocka_unit_test(SEL_04_a_slot_of_the_worst_score_still_has_its_own_row),
        cmocka_unit_test(SEL_05_rows_without_direction_come_last_in_order_of_id),
        cmocka_unit_test(SEL_06_the_last_row_is_found_around_every_block_size),
        cmocka_unit_test(SEL_07_the_last_queries_of_a_batch_find_their_rows),
        cmocka_unit_test(SEL_08_three_distinct_scores_among_many_rows_are_no_harder),
        cmocka_unit_test(SEL_10_rescored_hits_keep_their_own_scores),
        cmocka_unit_test(SEL_11_every_slot_is_written_also_beyond_the_rows),
        cmocka_unit_test(SEL_12_unused_slots_are_the_same_everywhere),
        cmocka_unit_test(SEL_13_a_score_equal_to_the_threshold_is_in),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
