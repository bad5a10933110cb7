/* TIE: equal scores, and equal answers to equal questions. Public cases, distilled from bug reports of this field. */
#include "support/hits.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void TIE_01_every_k_is_a_prefix(void **state) {
    (void)state;
    static const float values[] = {1, 2, 5, 4, 5}, query[] = {1}, scores[] = {5, 5, 4, 2, 1};
    static const int64_t ids[] = {2, 4, 3, 1, 0};
    struct vic_index *index = index_of_values(test_device, VIC_DOT, values, 5, 1, NULL);
    for (int64_t k = 1; k <= 5; k++) expect_hits(index, query, k, k, ids, scores);
    vic_index_free(index);
}

static void TIE_02_equal_scores_go_to_the_smaller_id(void **state) {
    (void)state;
    static const float values[] = {3, 2, 3, 2, 1, 1}, query[] = {1}, scores[] = {3, 3, 2, 2, 1, 1};
    static const int64_t ids[] = {0, 2, 1, 3, 4, 5};
    struct vic_index *index = index_of_values(test_device, VIC_DOT, values, 6, 1, NULL);
    for (int64_t k = 1; k <= 6; k++) expect_hits(index, query, k, k, ids, scores);
    vic_index_free(index);
    /* ids given in another order than the rows: the id decides, not the place */
    static const int64_t given[] = {50, 40, 30, 20, 10, 0}, right[] = {30, 50, 20, 40, 0, 10};
    index = index_of_values(test_device, VIC_DOT, values, 6, 1, given);
    for (int64_t k = 1; k <= 6; k++) expect_hits(index, query, k, k, right, scores);
    vic_index_free(index);
}

static void TIE_03_copies_of_one_row_come_in_order(void **state) {
    (void)state;
    static const int64_t cases[][2] = {{100, 10}, {20000, 100}, {20000, 20000}, {4096, 1}};
    float row[16];
    for (int i = 0; i < 16; i++) row[i] = sinf((float)i);
    for (size_t c = 0; c < 4; c++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
            int64_t n = cases[c][0], k = cases[c][1], *ids = take((size_t)k * 8);
            float *values = take((size_t)n * 64);
            for (int64_t i = 0; i < n; i++) memcpy(values + i * 16, row, 64);
            for (int64_t i = 0; i < k; i++) ids[i] = i;
            struct vic_index *index = index_of_values(test_device, metric, values, n, 16, NULL);
            expect_hits(index, row, k, k, ids, NULL);
            vic_index_free(index);
            free(values);
            free(ids);
        }
}

/* Alone first, then in every batch at its first, middle and last place, in the company of others. */
static void TIE_04_the_answer_does_not_depend_on_the_batch(void **state) {
    (void)state;
    static const int64_t batches[] = {1, 2, 7, 8, 9, 16, 17, 31, 33, 64, 65, 511, 512, 513, 1000, 1024};
    enum { N = 5000, DIM = 48, K = 20 };
    float *values = values_random(4, N * DIM), *queries = values_random(5, 1025 * DIM);
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        struct data data = {values, N, DIM, VIC_F32, metric, NULL};
        struct vic_index *index = index_of_values(test_device, metric, values, N, DIM, NULL);
        const float *query = queries + 1024 * DIM;
        struct order order = order_of(&data, query, 1, VIC_F32);
        expect_oracle(index, &order, K);
        int64_t *ids = take(1024 * K * 8);
        float *scores = take(1024 * K * 4), *batch = take(1024 * DIM * 4);
        for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
            for (int place = 0; place < 3; place++) {
                int64_t at = place == 0 ? 0 : place == 1 ? batches[b] / 2 : batches[b] - 1;
                memcpy(batch, queries, (size_t)(batches[b] * DIM) * 4);
                memcpy(batch + at * DIM, query, DIM * 4);
                struct vic_matrix matrix = matrix_of(batch, batches[b], DIM, VIC_F32);
                struct vic_hits hits = {.ids = ids, .scores = scores};
                must(vic_index_search(index, &matrix, K, NULL, &hits));
                assert_memory_equal(ids + at * K, order.ids, K * 8);
                assert_memory_equal(scores + at * K, order.scores, K * 4);
            }
        free(ids);
        free(scores);
        free(batch);
        order_free(&order);
        vic_index_free(index);
    }
    free(values);
    free(queries);
}

/* ---- the same question a thousand times, while another thread asks as well */

struct crowd {
    const struct vic_index *index;
    const float *queries;
    atomic_bool stop;
    int64_t searches, failures;
};

enum { CROWD_QUERIES = 33, CROWD_K = 10 };

static XXH64_hash_t crowd_hash(const struct crowd *crowd, enum vic_status *status) {
    int64_t ids[CROWD_QUERIES * CROWD_K];
    float scores[CROWD_QUERIES * CROWD_K];
    struct vic_matrix matrix = matrix_of(crowd->queries, CROWD_QUERIES, 8, VIC_F32);
    struct vic_hits hits = {.ids = ids, .scores = scores};
    *status = vic_index_search(crowd->index, &matrix, CROWD_K, NULL, &hits);
    return XXH3_64bits_withSeed(ids, sizeof ids, XXH3_64bits(scores, sizeof scores));
}

static void *crowd_main(void *argument) {
    struct crowd *crowd = argument;
    enum vic_status status = VIC_OK;
    XXH64_hash_t right = crowd_hash(crowd, &status);
    while (!atomic_load(&crowd->stop)) {
        crowd->failures += crowd_hash(crowd, &status) != right || status != VIC_OK;
        crowd->searches++;
    }
    return NULL;
}

static void TIE_05_a_thousand_runs_have_one_hash(void **state) {
    (void)state;
    enum { N = 262144, DIM = 8, FULL_RUNS = 25, RUNS = 975 };
    struct random random = {5};
    float *values = values_random(55, N * DIM), *queries = values_random(56, CROWD_QUERIES * DIM);
    for (int64_t i = 1; i < N; i++)
        if (random_below(&random, 10) < 3) memcpy(values + i * DIM, values + random_below(&random, i) * DIM, DIM * 4);
    /* all rows some times, and often a part that is as full of copies */
    for (int part = 0; part < 2; part++) {
        struct data data = {values, part ? N / 64 : N, DIM, VIC_F32, VIC_DOT, NULL};
        struct vic_index *index = index_with_planes(test_device, &data, part ? VIC_PLANES_8 | VIC_PLANES_4 : VIC_PLANES_NONE);
        struct crowd crowd = {.index = index, .queries = queries};
        pthread_t other;
        enum vic_status status = VIC_OK;
        XXH64_hash_t right = crowd_hash(&crowd, &status);
        must(status);
        assert_int_equal(pthread_create(&other, NULL, crowd_main, &crowd), 0);
        for (int run = 0; run < (part ? RUNS : FULL_RUNS); run++) {
            XXH64_hash_t hash = crowd_hash(&crowd, &status);
            must(status);
            assert_true(hash == right);
        }
        atomic_store(&crowd.stop, true);
        assert_int_equal(pthread_join(other, NULL), 0);
        assert_int_equal(crowd.failures, 0);
        vic_index_free(index);
    }
    free(values);
    free(queries);
}

static void TIE_06_pages_tile_all_rows_of_equal_score(void **state) {
    (void)state;
    float values[1000], query[] = {2};
    int64_t ids[1000], pages[1000];
    for (int i = 0; i < 1000; i++) values[i] = 3;
    struct vic_index *index = index_of_values(test_device, VIC_DOT, values, 1000, 1, NULL);
    struct vic_matrix matrix = matrix_of(query, 1, 1, VIC_F32);
    struct vic_hits hits = {.ids = ids};
    for (int64_t k = 10; k <= 1000; k += 10) {
        must(vic_index_search(index, &matrix, k, NULL, &hits));
        memcpy(pages + k - 10, ids + k - 10, 80);
    }
    for (int64_t i = 0; i < 1000; i++) assert_true(pages[i] == i);
    vic_index_free(index);
}

static void TIE_07_integers_in_floats_score_the_same_alone_and_in_a_batch(void **state) {
    (void)state;
    enum { N = 10000, DIM = 240, NQ = 64 };
    struct random random = {7};
    float *values = take(N * DIM * 4), *queries = take(NQ * DIM * 4);
    for (int64_t i = 0; i < N * DIM; i++) values[i] = (float)(random_below(&random, 2001) - 1000);
    for (int64_t i = 0; i < NQ * DIM; i++) queries[i] = (float)(random_below(&random, 2001) - 1000);
    for (int64_t i = 1; i < N; i += 4) memcpy(values + i * DIM, values + random_below(&random, i) * DIM, DIM * 4);
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric += 2) {
        struct data data = {values, N, DIM, VIC_F32, metric, NULL};
        struct order order = order_of(&data, queries, 8, VIC_F32);
        struct vic_index *index = index_of_values(test_device, metric, values, N, DIM, NULL);
        expect_oracle(index, &order, 100);
        int64_t *alone = take(NQ * 100 * 8), *ids = take(NQ * 100 * 8);
        float *alone_scores = take(NQ * 100 * 4), *scores = take(NQ * 100 * 4);
        for (int64_t j = 0; j < NQ; j++) {
            struct vic_matrix one = matrix_of(queries + j * DIM, 1, DIM, VIC_F32);
            struct vic_hits hits = {.ids = alone + j * 100, .scores = alone_scores + j * 100};
            must(vic_index_search(index, &one, 100, NULL, &hits));
        }
        struct vic_matrix all = matrix_of(queries, NQ, DIM, VIC_F32);
        struct vic_hits hits = {.ids = ids, .scores = scores};
        must(vic_index_search(index, &all, 100, NULL, &hits));
        assert_memory_equal(ids, alone, NQ * 100 * 8);
        assert_memory_equal(scores, alone_scores, NQ * 100 * 4);
        free(alone);
        free(alone_scores);
        free(ids);
        free(scores);
        vic_index_free(index);
        order_free(&order);
    }
    free(values);
    free(queries);
}

static void TIE_08_zero_has_one_sign(void **state) {
    (void)state;
    static const float values[] = {0.0f, -0.0f, -0.0f, 0.0f}, minus[] = {-1}, zero[] = {0.0f, -0.0f, 0.0f, 0.0f};
    static const int64_t ids[] = {0, 1, 2, 3};
    const float queries[] = {0.0f, -0.0f, 1.0f, -1.0f};
    for (int q = 0; q < 4; q++) {
        static const float clear[] = {0, 0, 0, 0};
        struct vic_index *index = index_of_values(test_device, VIC_DOT, values, 4, 1, NULL);
        for (int64_t k = 1; k <= 4; k++) expect_hits(index, &queries[q], k, k, ids, clear);
        vic_index_free(index);
        if (queries[q] != 0) continue;
        index = index_of_values(test_device, VIC_DOT, minus, 1, 1, NULL);
        expect_hits(index, &queries[q], 1, 1, ids, clear);
        vic_index_free(index);
        index = index_of_values(test_device, VIC_L2, zero, 4, 1, NULL);
        expect_hits(index, &queries[q], 4, 4, ids, clear);
        vic_index_free(index);
    }
    /* a cosine that rounds to -0 */
    static const float tiny[] = {0x1p-149f, -0x1p-149f, 1, 0}, axis[] = {0, 1};
    static const float clear[] = {0, 0};
    struct vic_index *index = index_of_values(test_device, VIC_COSINE, tiny + 2, 1, 2, NULL);
    expect_hits(index, axis, 1, 1, ids, clear);
    vic_index_free(index);
    static const float slant[] = {1, 0x1p-149f}, down[] = {0, -1};
    index = index_of_values(test_device, VIC_COSINE, slant, 1, 2, NULL);
    float scores[1];
    struct vic_matrix matrix = matrix_of(down, 1, 2, VIC_F32);
    must(vic_index_score(index, &matrix, ids, 1, NULL, scores));
    assert_false(scores[0] == 0 && signbit(scores[0]));
    vic_index_free(index);
}

static void TIE_10_small_integers_tie_by_the_hundred(void **state) {
    (void)state;
    enum { N = 10000, DIM = 20 };
    struct random random = {10};
    float *values = take(N * DIM * 4), query[3 * DIM];
    random_fill(&random, VALUES_SMALL_INT, VIC_F32, N * DIM, values);
    random_fill(&random, VALUES_SMALL_INT, VIC_F32, 3 * DIM, query);
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        struct data data = {values, N, DIM, VIC_F32, metric, NULL};
        struct order order = order_of(&data, query, 3, VIC_F32);
        struct vic_index *index = index_of_values(test_device, metric, values, N, DIM, NULL);
        static const int64_t ks[] = {1, 500, 501, N};
        for (int k = 0; k < 4; k++) expect_oracle(index, &order, ks[k]);
        vic_index_free(index);
        order_free(&order);
    }
    free(values);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(TIE_01_every_k_is_a_prefix),
        cmocka_unit_test(TIE_02_equal_scores_go_to_the_smaller_id),
        cmocka_unit_test(TIE_03_copies_of_one_row_come_in_order),
        cmocka_unit_test(TIE_04_the_answer_does_not_depend_on_the_batch),
        cmocka_unit_test(TIE_05_a_thousand_runs_have_one_hash),
        cmocka_unit_test(TIE_06_pages_tile_all_rows_of_equal_score),
        cmocka_unit_test(TIE_07_integers_in_floats_score_the_same_alone_and_in_a_batch),
        cmocka_unit_test(TIE_08_zero_has_one_sign),
        cmocka_unit_test(TIE_10_small_integers_tie_by_the_hundred),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
