/* Sizes at the edges of 32 bits and of workspaces: the public cases that need a GPU to be affordable. */
#include "gpu/pair.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static struct vic_index *gpu_index(const struct data *data) {
    struct vic_index *index = NULL;
    struct vic_matrix rows = matrix_of(data->rows, data->n, data->dim, data->dtype);
    struct vic_build_options options = {.size = sizeof options, .metric = data->metric, .planes = VIC_PLANES_NONE};
    must(vic_index_build(device_gpu(), &rows, &options, &index));
    return index;
}

/* SEL-02: scores a few bits apart, at every power of two, more hits than any buffer for small k. */
static void SEL_02_close_scores_at_every_power_of_two(void **state) {
    (void)state;
    int64_t n = 262144;
    struct data data = {take((size_t)n * 4), n, 1, VIC_F32, VIC_DOT, NULL};
    float queries[64];
    for (int64_t i = 0; i < n; i++) ((float *)data.rows)[i] = 1.0f + (float)(40503 * i % 65536) * 0x1p-23f;
    for (int j = 0; j < 64; j++) queries[j] = j == 0 ? 1.0f : queries[j - 1] * 2;
    struct pair pair = pair_build(&data);
    struct vic_matrix all = matrix_of(queries, 64, 1, VIC_F32);
    pair_check(&pair, &all, 2048, 0, NULL, 0);
    pair_check(&pair, &all, 2048, VIC_PATH_SELECT, NULL, 0);
    pair_free(&pair);
    free(data.rows);
}

/* SEL-06 and SIZ-01: rows around every power of two that kernels like, k likewise. */
static void SIZ_01_every_k_at_every_edge(void **state) {
    (void)state;
    static const int64_t ks[] = {1,   31,  32,  33,   63,   64,   65,   127,  128,  129,  255,   256,   257,
                                 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4097, 10000, 16385, 50000};
    struct data data = data_make(1, 50000, 4, VIC_F32, VIC_L2, VALUES_UNIT);
    struct pair pair = pair_build(&data);
    for (int nq = 1; nq <= 3; nq += 2)
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
            struct vic_matrix queries = matrix_of(data.rows, nq, 4, VIC_F32);
            pair_check(&pair, &queries, ks[i], 0, NULL, 0);
        }
    pair_free(&pair);
    free(data.rows);
}

static void SEL_06_the_last_row_finds_itself(void **state) {
    (void)state;
    static const int64_t turns[] = {32, 128, 256, 384, 512, 1024, 4096, 131072, 262144};
    struct data data = data_make(2, 262145, 8, VIC_F32, VIC_L2, VALUES_UNIT);
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++)
        for (int64_t n = turns[i] - 1; n <= turns[i] + 1; n++) {
            struct data part = data;
            part.n = n;
            struct pair pair = pair_build(&part);
            struct vic_matrix last = matrix_of((float *)data.rows + (n - 1) * 8, 1, 8, VIC_F32);
            pair_check(&pair, &last, 10, 0, NULL, 0);
            pair_free(&pair);
        }
    free(data.rows);
}

/* SIZ-02: batches around 65,536, which is where a grid's second dimension ends. */
static void SIZ_02_batches_around_65536(void **state) {
    (void)state;
    struct data data = data_make(3, 100, 3, VIC_F32, VIC_L2, VALUES_UNIT);
    struct vic_index *index = gpu_index(&data);
    for (int64_t nq = 65535; nq <= 65537; nq++) {
        float *queries = take((size_t)nq * 12);
        for (int64_t j = 0; j < nq; j++) memcpy(queries + j * 3, (float *)data.rows + j % 100 * 3, 12);
        struct answer found = answer_make(nq, 1);
        struct vic_hits hits = answer_hits(&found);
        struct vic_matrix matrix = matrix_of(queries, nq, 3, VIC_F32);
        must(vic_index_search(index, &matrix, 1, NULL, &hits));
        for (int64_t j = 0; j < nq; j++) assert_true(found.ids[j] == j % 100 && found.scores[j] == 0 && found.counts[j] == 1);
        answer_free(&found);
        free(queries);
    }
    vic_index_free(index);
    free(data.rows);
}

/* SIZ-03: more than 2^31, and more than 2^32, bytes of rows; the last row is the best. */
static void SIZ_03_rows_beyond_two_and_four_gigabytes(void **state) {
    (void)state;
    static const int64_t counts[] = {3000000, 5600000};
    for (int i = 0; i < 2; i++) {
        int64_t n = counts[i], dim = 768;
        struct data data = {take((size_t)(n * dim)), n, dim, VIC_U8, VIC_DOT, NULL};
        memset(data.rows, 100, (size_t)(n * dim));
        memset((char *)data.rows + (n - 1) * dim, 255, (size_t)dim);
        struct vic_index *index = gpu_index(&data);
        uint8_t query[2][768];
        memset(query, 255, sizeof query);
        for (int64_t nq = 1; nq <= 2; nq++) {
            struct answer found = answer_make(nq, 3);
            struct vic_hits hits = answer_hits(&found);
            struct vic_matrix matrix = matrix_of(query, nq, dim, VIC_U8);
            must(vic_index_search(index, &matrix, 3, NULL, &hits));
            for (int64_t j = 0; j < nq; j++) {
                assert_true(found.ids[3 * j] == n - 1 && found.ids[3 * j + 1] == 0 && found.ids[3 * j + 2] == 1);
                assert_true(found.scores[3 * j] == 255 * 255 * 768.0f && found.scores[3 * j + 1] == 255 * 100 * 768.0f);
            }
            answer_free(&found);
        }
        vic_index_free(index);
        free(data.rows);
    }
}

/* SIZ-04: pairs of rows and queries beyond 2^31. */
static void SIZ_04_pairs_beyond_two_thousand_million(void **state) {
    (void)state;
    int64_t n = 2200000, nq = 1024;
    struct data data = {take((size_t)n * 8), n, 2, VIC_F32, VIC_L2, NULL};
    float *rows = data.rows, *queries = take((size_t)nq * 8);
    for (int64_t i = 0; i < n; i++) rows[2 * i] = (float)(i % 2000), rows[2 * i + 1] = (float)(i / 2000);
    for (int64_t j = 0; j < nq; j++) memcpy(queries + 2 * j, rows + 2 * (n - 1 - j), 8);
    struct vic_index *index = gpu_index(&data);
    struct answer found = answer_make(nq, 1);
    struct vic_hits hits = answer_hits(&found);
    struct vic_matrix matrix = matrix_of(queries, nq, 2, VIC_F32);
    must(vic_index_search(index, &matrix, 1, NULL, &hits));
    for (int64_t j = 0; j < nq; j++) assert_true(found.ids[j] == n - 1 - j && found.scores[j] == 0);
    answer_free(&found);
    vic_index_free(index);
    free(queries);
    free(data.rows);
}

/* MEM-03: a batch far beyond a workspace is cut inside. A sample of its queries is asked again, alone. */
static void MEM_03_a_hundred_thousand_queries(void **state) {
    (void)state;
    struct data data = data_make(4, 100000, 64, VIC_F32, VIC_DOT, VALUES_UNIT);
    struct pair pair = pair_build(&data);
    struct answer all = answer_make(100000, 10), one = answer_make(1, 10);
    struct vic_hits hits = answer_hits(&all), one_hits = answer_hits(&one);
    struct vic_matrix queries = matrix_of(data.rows, 100000, 64, VIC_F32);
    must(vic_index_search(pair.gpu, &queries, 10, NULL, &hits));
    for (int64_t j = 0; j < 100000; j += 997) {
        struct vic_matrix query = matrix_of((float *)data.rows + j * 64, 1, 64, VIC_F32);
        must(vic_index_search(pair.cpu, &query, 10, NULL, &one_hits));
        assert_memory_equal(one.ids, all.ids + j * 10, 80);
        assert_memory_equal(one.scores, all.scores + j * 10, 40);
    }
    answer_free(&all);
    answer_free(&one);
    pair_free(&pair);
    free(data.rows);
}

/* MEM-07: all rows as hits, for each of a batch. */
static void MEM_07_a_million_hits_a_query(void **state) {
    (void)state;
    struct data data = data_make(5, 1000000, 8, VIC_F32, VIC_L2, VALUES_UNIT);
    struct pair pair = pair_build(&data);
    struct vic_matrix queries = matrix_of(data.rows, 3, 8, VIC_F32);
    pair_check(&pair, &queries, 1000000, 0, NULL, 0);
    pair_free(&pair);
    free(data.rows);
}

/* TIE-07: whole numbers and many copies. */
static void TIE_07_whole_numbers_tie_the_same_way(void **state) {
    (void)state;
    struct random random = test_random(8);
    struct data data = {take(10000 * 240 * 4), 10000, 240, VIC_F32, VIC_DOT, NULL};
    float *rows = data.rows;
    for (int64_t i = 0; i < 10000 * 240; i++) rows[i] = (float)(random_below(&random, 2001) - 1000);
    for (int64_t i = 0; i < 10000; i += 4) memcpy(rows + i * 240, rows + random_below(&random, 10000) * 240, 240 * 4);
    struct pair pair = pair_build(&data);
    struct vic_matrix one = matrix_of(rows, 1, 240, VIC_F32), many = matrix_of(rows, 64, 240, VIC_F32);
    pair_check(&pair, &one, 500, 0, NULL, 0);
    pair_check(&pair, &many, 500, 0, NULL, 0);
    pair_free(&pair);
    free(data.rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SEL_02_close_scores_at_every_power_of_two), cmocka_unit_test(SIZ_01_every_k_at_every_edge),
        cmocka_unit_test(SEL_06_the_last_row_finds_itself),          cmocka_unit_test(SIZ_02_batches_around_65536),
        cmocka_unit_test(SIZ_03_rows_beyond_two_and_four_gigabytes), cmocka_unit_test(SIZ_04_pairs_beyond_two_thousand_million),
        cmocka_unit_test(MEM_03_a_hundred_thousand_queries),         cmocka_unit_test(MEM_07_a_million_hits_a_query),
        cmocka_unit_test(TIE_07_whole_numbers_tie_the_same_way),
    };
    if (!devices_begin()) return SKIPPED;
    int failed = cmocka_run_group_tests_name("gpu/limits", tests, NULL, NULL);
    devices_end();
    return failed;
}
