/* What is asked in batches beside the few best: threshold searches, scores of given rows and searches for large k. Blocks and
 * slices at their edges, lists that are too short for what reaches the threshold, hits beyond the caller's room, questions that
 * lie on the device, ids that are not there, lists that are cut where they lie. */
#include "gpu/pair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static bool brief(void) { return getenv("VICINAL_TEST_BRIEF") != NULL; }

static int64_t pick(struct random *random, const int64_t *from, size_t count) {
    return from[random_below(random, (int64_t)count)];
}

/* Rows and queries about the tiles' 32 and 64, blocks' 256. */
static void thresholds_of_a_batch_at_the_edges_of_tiles_are_the_cpus(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 15, 16, 31, 32, 33, 63, 64, 65, 127, 129, 1000, 5000},
                         nqs[] = {1, 2, 15, 16, 17, 31, 32, 33, 64, 65, 255, 256, 257, 300},
                         dims[] = {1, 31, 33, 96, 100, 127, 128, 129, 160, 384};
    struct random random = test_random(1);
    for (int turn = 0; turn < (brief() ? 6 : 120); turn++) {
        int pair_of = turn % TYPE_PAIRS;
        int64_t n = pick(&random, rows, sizeof rows / sizeof *rows - (brief() ? 2 : 0)), dim = pick(&random, dims, 10),
                nq = pick(&random, nqs, sizeof nqs / sizeof *nqs - (brief() ? 6 : 0));
        enum vic_metric metric = (enum vic_metric)(1 + turn % 3);
        enum values values = (enum values)(turn / 3 % VALUES_COUNT);
        struct data data = data_make(random_next(&random), n, dim, type_pairs[pair_of][0], metric, values);
        int64_t *ids = take((size_t)n * 8), passing = 0;
        for (int64_t i = 0; i < n; i++)
            if (random_below(&random, 3)) ids[passing++] = i;
        void *vectors = take((size_t)(nq * dim) * vic_dtype_bytes(type_pairs[pair_of][1]));
        random_fill(&random, values, type_pairs[pair_of][1], nq * dim, vectors);
        test_says("%lld rows, %lld queries, dim %lld, %s and %s, %s", (long long)n, (long long)nq, (long long)dim,
                  vic_dtype_name(type_pairs[pair_of][0]), vic_dtype_name(type_pairs[pair_of][1]), vic_metric_name(metric));
        struct pair pair = pair_build(&data);
        struct vic_matrix queries = matrix_of(vectors, nq, dim, type_pairs[pair_of][1]);
        float at = pair_threshold(&pair, &queries, 1 + random_below(&random, n)),
              every = metric == VIC_L2 ? INFINITY : -INFINITY;
        pair_check_within(&pair, &queries, at, NULL, 0);
        pair_check_within(&pair, &queries, at, ids, passing);
        pair_check_within(&pair, &queries, every, passing ? ids : NULL, passing);
        pair_check_within(&pair, &queries, -every, NULL, 0);
        pair_free(&pair);
        free(vectors);
        free(ids);
        free(data.rows);
    }
    test_done();
}

/* More hits than lists hold, beside queries with few and with none: 100 queries about 70,000 rows take lists of some 43,000
 * keys at first. Where many are too short the block is done again in smaller ones, where few are, those queries alone. */
static void lists_that_are_too_short_lose_no_hit(void **state) {
    (void)state;
    int64_t n = 70000, nq = 200;
    if (brief()) skip(); /* 14 million pairs */
    struct data data = data_make(3, n, 1, VIC_F32, VIC_DOT, VALUES_UNIT);
    float *queries = take((size_t)nq * 4);
    for (int64_t j = 0; j < nq; j++) queries[j] = j % 7 == 0 ? 100.0f : j % 7 == 1 ? 0.0f : 0.5f + (float)j * 0.002f;
    struct pair pair = pair_build(&data);
    struct vic_matrix all = matrix_of(queries, nq, 1, VIC_F32), some = matrix_of(queries + 3, 100, 1, VIC_F32);
    pair_check_within(&pair, &all, 0.45f, NULL, 0);
    pair_check_within(&pair, &all, 0.0f, NULL, 0);
    pair_check_within(&pair, &all, -1000.0f, NULL, 0);
    pair_check_within(&pair, &some, 0.55f, NULL, 0);
    for (int64_t j = 0; j < nq; j++) queries[j] = j % 16 == 5 ? 0.0f : 100.0f;
    pair_check_within(&pair, &all, -0.1f, NULL, 0);
    pair_free(&pair);
    free(queries);
    free(data.rows);
}

/* Lists that hold all, but more than the memory through which hits usually go. */
static void hits_that_pinned_memory_does_not_hold_arrive_too(void **state) {
    (void)state;
    struct data data = data_make(10, brief() ? 90000 : 400000, 1, VIC_F32, VIC_L2, VALUES_UNIT);
    float queries[] = {0.5f, 3.0f, 0.0f};
    struct pair pair = pair_build(&data);
    struct vic_matrix three = matrix_of(queries, 3, 1, VIC_F32);
    pair_check_within(&pair, &three, 2.5f, NULL, 0); /* all rows, none, all */
    pair_check_within(&pair, &three, 5.0f, NULL, 0);
    pair_free(&pair);
    free(data.rows);
}

/* A device's memory, and without scores. */
static void thresholds_for_queries_on_the_device_are_the_same(void **state) {
    (void)state;
    struct data data = data_make(5, 3000, 40, VIC_F32, VIC_COSINE, VALUES_UNIT);
    struct pair pair = pair_build(&data);
    int64_t nq = 70, offsets[2][71];
    struct vic_matrix host = matrix_of(data.rows, nq, 40, VIC_F32), device = host;
    device.data = to_device(data.rows, (size_t)nq * 40 * 4), device.place = VIC_DEVICE;
    int64_t *ids[2] = {take((size_t)(nq * data.n) * 8), take((size_t)(nq * data.n) * 8)};
    struct vic_ranges right = {offsets[0], ids[0], NULL, nq * data.n}, found = {offsets[1], ids[1], NULL, nq * data.n};
    must(vic_index_within(pair.cpu, &host, 0.2f, NULL, &right));
    must(vic_index_within(pair.gpu, &device, 0.2f, NULL, &found));
    assert_memory_equal(offsets[0], offsets[1], sizeof offsets[0]);
    assert_memory_equal(ids[0], ids[1], (size_t)offsets[0][nq] * 8);
    free(ids[0]);
    free(ids[1]);
    cuda_must(cudaFree(device.data));
    pair_free(&pair);
    free(data.rows);
}

/* Slices of 65,536 slots, or of fewer where hits need less memory; blocks of 256 queries. */
static void scores_in_slices_are_the_cpus(void **state) {
    (void)state;
    static const struct {
        int64_t nq, width;
    } shapes[] = {{1, 1},    {3, 4095},  {2, 4097},  {300, 1},   {257, 37},   {700, 100},
                  {70, 999}, {1, 65535}, {1, 65536}, {2, 65537}, {3, 140000}, {256, 1000}};
    struct random random = test_random(4);
    for (int wide = 0; wide < 2; wide++)
        for (int i = 0; i < (brief() ? 5 : 12); i++) {
            int pair_of = (i + wide * 4) % TYPE_PAIRS;
            int64_t n = wide ? 6000 : 50, dim = wide ? 24 : 130, slots = shapes[i].nq * shapes[i].width;
            struct data data =
                data_make(random_next(&random), n, dim, type_pairs[pair_of][0], (enum vic_metric)(1 + i % 3), VALUES_UNIT);
            void *vectors = take((size_t)(shapes[i].nq * dim) * vic_dtype_bytes(type_pairs[pair_of][1]));
            random_fill(&random, VALUES_UNIT, type_pairs[pair_of][1], shapes[i].nq * dim, vectors);
            int64_t *ids = take((size_t)slots * 8);
            for (int64_t j = 0; j < slots; j++) ids[j] = random_below(&random, 9) ? random_below(&random, n) : -1;
            test_says("%lld queries, %lld ids each, %lld rows", (long long)shapes[i].nq, (long long)shapes[i].width,
                      (long long)n);
            struct pair pair = pair_build(&data);
            struct vic_matrix queries = matrix_of(vectors, shapes[i].nq, dim, type_pairs[pair_of][1]);
            pair_check_score(&pair, &queries, ids, shapes[i].width);
            pair_free(&pair);
            free(ids);
            free(vectors);
            free(data.rows);
        }
    test_done();
}

/* It is met while a slice before it is under way; what is asked next must not see any of that. */
static void an_id_that_is_not_there_is_named_and_leaves_nothing_behind(void **state) {
    (void)state;
    struct data data = data_make(6, 5000, 64, VIC_F32, VIC_DOT, VALUES_UNIT);
    struct pair pair = pair_build(&data);
    int64_t width = 1000, nq = brief() ? 9 : 200;
    int64_t *ids = take((size_t)(nq * width) * 8);
    float *scores = take((size_t)(nq * width) * 4);
    struct vic_matrix queries = matrix_of(data.rows, nq, 64, VIC_F32);
    for (int64_t i = 0; i < nq * width; i++) ids[i] = i * 31 % data.n;
    for (int turn = 0; turn < 5; turn++) {
        ids[nq * width - 1] = 777777;
        assert_int_equal(vic_index_score(pair.gpu, &queries, ids, width, NULL, scores), VIC_NOT_FOUND);
        assert_non_null(strstr(vic_last_error(), "777777"));
        ids[nq * width - 1] = 1;
        pair_check_within(&pair, &queries, 2.0f, NULL, 0);
        pair_check_score(&pair, &queries, ids, width);
    }
    free(scores);
    free(ids);
    pair_free(&pair);
    free(data.rows);
}

/* As many lists as have room hold a part of the rows each, so they are cut several times; rising rows enter all of them. */
static void large_k_of_many_queries_keeps_the_best_of_every_run(void **state) {
    (void)state;
    static const int64_t ks[] = {2049, 5000, 14000, 60000, 70000};
    int64_t n = 60000, nq = brief() ? 90 : 150;
    struct random random = test_random(7);
    float *queries = take((size_t)nq * 2 * 4);
    int64_t *ids = take((size_t)n * 8);
    random_fill(&random, VALUES_UNIT, VIC_F32, nq * 2, queries);
    for (int64_t i = 0; i < n; i++) ids[i] = random_below(&random, n);
    for (int kind = 0; kind < (brief() ? 1 : 3); kind++) {
        struct data data = data_make(8, n, 2, VIC_F32, VIC_DOT, kind ? VALUES_SMALL_INT : VALUES_UNIT);
        for (int64_t i = 0; kind == 2 && i < n; i++) ((float *)data.rows)[2 * i] = (float)i;
        struct pair pair = pair_build(&data);
        struct vic_matrix all = matrix_of(queries, nq, 2, VIC_F32), few = matrix_of(queries, 2, 2, VIC_F32);
        for (size_t i = 0; i < (brief() ? 1 : sizeof ks / sizeof *ks); i++) {
            test_says("kind %d, k %lld", kind, (long long)ks[i]);
            pair_check(&pair, ks[i] < n ? &all : &few, ks[i], 0, NULL, 0);
            pair_check(&pair, &few, ks[i], 0, ids, n / 3);
            if (i == 1) pair_check(&pair, &all, ks[i], 0, ids, 4000);
        }
        pair_free(&pair);
        free(data.rows);
    }
    test_done();
    free(queries);
    free(ids);
}

/* Nothing is waited for, and each of the two hundred lists goes through the one select area. */
static void large_k_on_the_device_is_written_in_the_streams_order(void **state) {
    (void)state;
    int64_t n = 30000, nq = 200, k = 3000;
    struct data data = data_make(9, n, 3, VIC_F32, VIC_L2, VALUES_UNIT);
    struct pair pair = pair_build(&data);
    struct vic_matrix host = matrix_of(data.rows, nq, 3, VIC_F32), device = host;
    struct answer right = answer_make(nq, k), found = answer_make(nq, k);
    struct vic_hits right_hits = answer_hits(&right), hits = hits_on_device(nq, k);
    cudaStream_t stream;
    cuda_must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    struct vic_search_stats stats = {.size = sizeof stats};
    struct vic_search_options options = {.size = sizeof options, .stream = stream, .stats = &stats};
    device.data = to_device(data.rows, (size_t)nq * 3 * 4), device.place = VIC_DEVICE;
    must(vic_index_search(pair.cpu, &host, k, NULL, &right_hits));
    for (int turn = 0; turn < 2; turn++) {
        must(vic_index_search(pair.gpu, turn ? &host : &device, k, &options, &hits));
        cuda_must(cudaStreamSynchronize(stream));
        hits_fetch(&hits, &found);
        answers_equal(&found, &right);
        assert_true(stats.path == VIC_PATH_SCAN && stats.bytes_read < nq * n * 3 * 4);
    }
    cuda_must(cudaStreamDestroy(stream));
    cuda_must(cudaFree(device.data));
    hits_release(&hits);
    answer_free(&right);
    answer_free(&found);
    pair_free(&pair);
    free(data.rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(thresholds_of_a_batch_at_the_edges_of_tiles_are_the_cpus, test_tell),
        cmocka_unit_test(lists_that_are_too_short_lose_no_hit),
        cmocka_unit_test(hits_that_pinned_memory_does_not_hold_arrive_too),
        cmocka_unit_test(thresholds_for_queries_on_the_device_are_the_same),
        cmocka_unit_test_teardown(scores_in_slices_are_the_cpus, test_tell),
        cmocka_unit_test(an_id_that_is_not_there_is_named_and_leaves_nothing_behind),
        cmocka_unit_test_teardown(large_k_of_many_queries_keeps_the_best_of_every_run, test_tell),
        cmocka_unit_test(large_k_on_the_device_is_written_in_the_streams_order),
    };
    if (!devices_begin()) return SKIPPED;
    int failed = cmocka_run_group_tests_name("gpu/questions", tests, NULL, NULL);
    devices_end();
    return failed;
}
