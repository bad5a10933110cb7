/* The cases that need gigabytes or billions of pairs: offsets beyond 2^31, and all rows for many queries. A program of its
 * own, so that runs under a sanitizer can leave it out by name. At most 2.5 GB at a time.
 *
 * The rows of the largest index overlap in the caller's memory, one every byte, so that only the index holds them apart. */
#include "support/hits.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void SIZ_03_rows_beyond_2_to_the_31_elements(void **state) {
    (void)state;
    enum { N = 3000000, DIM = 768, NQ = 5 };
    struct random random = {3};
    unsigned char *bytes = take(N + DIM), *queries = take(NQ * DIM);
    float *float_queries = take(NQ * DIM * 4);
    for (int64_t i = 0; i < N - 1; i++) bytes[i] = (unsigned char)random_below(&random, 128);
    memset(bytes + N - 1, 255, DIM + 1);
    memset(queries, 255, NQ * DIM);
    for (int64_t i = 0; i < NQ * DIM; i++) float_queries[i] = 255;
    struct vic_matrix rows = {bytes, N, DIM, 1, VIC_U8, VIC_HOST};
    struct vic_build_options options = {.size = sizeof options, .metric = VIC_DOT};
    struct vic_index *index = NULL;
    must(vic_index_build(test_device, &rows, &options, &index));
    unsigned char row[DIM];
    must(vic_index_vector(index, N - 1, row));
    assert_memory_equal(row, queries, DIM);
    must(vic_index_vector(index, N - 2000, row));
    assert_memory_equal(row, bytes + N - 2000, DIM);
    for (int64_t nq = 1; nq <= NQ; nq += NQ - 1)
        for (int exact = 0; exact < 2; exact++) {
            int64_t ids[NQ * 3];
            float scores[NQ * 3];
            struct vic_matrix matrix = exact ? matrix_of(queries, nq, DIM, VIC_U8) : matrix_of(float_queries, nq, DIM, VIC_F32);
            struct vic_hits hits = {.ids = ids, .scores = scores};
            must(vic_index_search(index, &matrix, 3, NULL, &hits));
            for (int64_t i = 0; i < nq * 3; i++) {
                int64_t id = N - 1 - i % 3, sum = 0;
                for (int64_t d = 0; d < DIM; d++) sum += bytes[id + d] * 255;
                assert_true(ids[i] == id && scores[i] == (float)sum);
            }
        }
    vic_index_free(index);
    free(bytes);
    free(queries);
    free(float_queries);
}

static void SIZ_04_pairs_beyond_2_to_the_31(void **state) {
    (void)state;
    enum { N = 2200000, NQ = 1024 };
    float *values = take(N * 8L), *queries = take(NQ * 8), *scores = take(NQ * 4);
    int64_t *ids = take(NQ * 8);
    for (int64_t i = 0; i < N; i++) values[2 * i] = (float)(i % 2000), values[2 * i + 1] = (float)(i / 2000);
    for (int64_t j = 0; j < NQ; j++) memcpy(queries + 2 * j, values + 2 * (N - 1 - j), 8);
    struct data data = {values, N, 2, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = index_with_planes(test_device, &data, VIC_PLANES_NONE);
    struct vic_matrix matrix = matrix_of(queries, NQ, 2, VIC_F32);
    struct vic_search_stats stats = {.size = sizeof stats};
    struct vic_search_options options = {.size = sizeof options, .stats = &stats};
    struct vic_hits hits = {.ids = ids, .scores = scores};
    must(vic_index_search(index, &matrix, 1, &options, &hits));
    for (int64_t j = 0; j < NQ; j++) assert_true(ids[j] == N - 1 - j && scores[j] == 0.0f);
    assert_true(stats.rows_scored == (int64_t)N * NQ); /* counted in 64 bits, too */
    vic_index_free(index);
    free(values);
    free(queries);
    free(scores);
    free(ids);
}

static void MEM_07_all_of_a_million_rows_for_64_queries(void **state) {
    (void)state;
    enum { N = 1000000, DIM = 8, NQ = 64 };
    float *values = values_random(7, N * DIM), *queries = values_random(8, NQ * DIM);
    struct vic_device_options options = {.size = sizeof options, .name = "cpu", .host_bytes = (32 << 20) + (64 << 20)};
    struct vic_device *small = NULL;
    struct vic_index *index = NULL;
    struct vic_matrix rows = matrix_of(values, N, DIM, VIC_F32), all = matrix_of(queries, NQ, DIM, VIC_F32);
    struct vic_build_options build = {.size = sizeof build, .metric = VIC_DOT};
    must(vic_device_open(&options, &small)); /* the rows and 64 MiB beside them */
    must(vic_index_build(small, &rows, &build, &index));
    int64_t *ids = take((size_t)N * NQ * 8), *alone = take(N * 8L);
    float *scores = take((size_t)N * NQ * 4), *alone_scores = take(N * 4L);
    struct vic_hits hits = {.ids = ids, .scores = scores}, one = {.ids = alone, .scores = alone_scores};
    must(vic_index_search(index, &all, N, NULL, &hits));
    for (int64_t j = 0; j < NQ; j += 21) {
        struct vic_matrix query = matrix_of(queries + j * DIM, 1, DIM, VIC_F32);
        must(vic_index_search(index, &query, N, NULL, &one));
        assert_memory_equal(ids + j * N, alone, N * 8L);
        assert_memory_equal(scores + j * N, alone_scores, N * 4L);
    }
    for (int64_t j = 0; j < NQ; j++)
        for (int64_t i = 1; i < N; i++)
            assert_true(scores[j * N + i - 1] > scores[j * N + i] ||
                        (scores[j * N + i - 1] == scores[j * N + i] && ids[j * N + i - 1] < ids[j * N + i]));
    vic_index_free(index);
    vic_device_free(small);
    free(values);
    free(queries);
    free(ids);
    free(alone);
    free(scores);
    free(alone_scores);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SIZ_03_rows_beyond_2_to_the_31_elements),
        cmocka_unit_test(SIZ_04_pairs_beyond_2_to_the_31),
        cmocka_unit_test(MEM_07_all_of_a_million_rows_for_64_queries),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
