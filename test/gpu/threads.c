/* Many threads on one index, many runs of one question, other work on the same GPU: always the same bytes. */
#include "gpu/late.h"
#include "gpu/pair.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum { ROWS = 50000, DIM = 64, K = 10, THREADS = 24, SEARCHES = 200, BATCH = 3 };

static struct data data;
static struct pair pair;
static float *queries;
static struct answer right;

static int group_begin(void **state) {
    (void)state;
    data = data_make(5, ROWS, DIM, VIC_F32, VIC_DOT, VALUES_UNIT);
    pair = pair_build(&data);
    queries = take(SEARCHES * DIM * 4);
    struct random random = test_random(5);
    random_fill(&random, VALUES_UNIT, VIC_F32, SEARCHES * DIM, queries);
    struct vic_matrix all = matrix_of(queries, SEARCHES, DIM, VIC_F32);
    right = answer_make(SEARCHES, K);
    struct vic_hits hits = answer_hits(&right);
    must(vic_index_search(pair.cpu, &all, K, NULL, &hits));
    return 0;
}

static int group_end(void **state) {
    (void)state;
    answer_free(&right);
    free(queries);
    pair_free(&pair);
    free(data.rows);
    return 0;
}

struct caller {
    pthread_t thread;
    int number, wrong;
    bool own_stream;
};

/* One thread's searches, singly or in small batches; more threads than there are workspaces, so that some wait. */
static void *caller_run(void *argument) {
    struct caller *caller = argument;
    struct answer found = answer_make(BATCH, K);
    struct vic_hits hits = answer_hits(&found);
    cudaStream_t stream = NULL;
    if (caller->own_stream && cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) caller->wrong++;
    struct vic_search_options options = {.size = sizeof options, .stream = stream};
    for (int turn = 0; turn < SEARCHES; turn++) {
        int first = (turn + 7 * caller->number) % (SEARCHES - BATCH), count = turn % 4 ? 1 : BATCH;
        struct vic_matrix matrix = matrix_of(queries + (size_t)first * DIM, count, DIM, VIC_F32);
        if (vic_index_search(pair.gpu, &matrix, K, &options, &hits) != VIC_OK) caller->wrong++;
        size_t slots = (size_t)count * K;
        if (memcmp(found.ids, right.ids + first * K, slots * 8) != 0) caller->wrong++;
        if (memcmp(found.scores, right.scores + first * K, slots * 4) != 0) caller->wrong++;
    }
    if (stream && cudaStreamDestroy(stream) != cudaSuccess) caller->wrong++;
    answer_free(&found);
    return NULL;
}

static void callers_run(bool own_streams) {
    struct caller callers[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) {
        callers[i].number = i, callers[i].own_stream = own_streams;
        assert_int_equal(pthread_create(&callers[i].thread, NULL, caller_run, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        assert_int_equal(callers[i].wrong, 0);
    }
}

static void CON_01_threads_get_the_bytes_of_a_sequential_run(void **state) {
    (void)state;
    callers_run(false);
    callers_run(true);
}

static void CON_05_a_search_ends_while_another_stream_fills_every_multiprocessor(void **state) {
    (void)state;
    struct vic_matrix one = matrix_of(queries, 1, DIM, VIC_F32), all = matrix_of(queries, SEARCHES, DIM, VIC_F32);
    cudaStream_t stream;
    cuda_must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int turn = 0; turn < 3; turn++) {
        cuda_must(launch_busy(40, stream));
        pair_check(&pair, &one, 100, 0, NULL, 0);
        pair_check(&pair, &one, 5000, 0, NULL, 0);
        pair_check(&pair, &all, 100, 0, NULL, 0);
    }
    cuda_must(cudaStreamDestroy(stream));
}

/* TIE-05: a third of the rows are copies; a second thread searches all the while. */
static void TIE_05_a_thousand_runs_give_one_answer(void **state) {
    (void)state;
    struct random random = test_random(6);
    struct data copies = data_make(6, 262144, 8, VIC_F32, VIC_L2, VALUES_UNIT);
    for (int64_t i = 0; i < copies.n; i++)
        if (random_below(&random, 3) == 0)
            memcpy((float *)copies.rows + i * 8, (float *)copies.rows + random_below(&random, copies.n) * 8, 32);
    struct pair both = pair_build(&copies);
    struct caller caller = {.number = 1};
    struct vic_matrix matrix = matrix_of(queries, 33, 8, VIC_F32);
    struct answer first = answer_make(33, 20), again = answer_make(33, 20);
    struct vic_hits first_hits = answer_hits(&first), again_hits = answer_hits(&again);
    must(vic_index_search(both.cpu, &matrix, 20, NULL, &first_hits));
    assert_int_equal(pthread_create(&caller.thread, NULL, caller_run, &caller), 0);
    for (int turn = 0; turn < 1000; turn++) {
        must(vic_index_search(both.gpu, &matrix, 20, NULL, &again_hits));
        answers_equal(&again, &first);
    }
    assert_int_equal(pthread_join(caller.thread, NULL), 0);
    assert_int_equal(caller.wrong, 0);
    answer_free(&first);
    answer_free(&again);
    pair_free(&both);
    free(copies.rows);
}

/* TIE-04: a query's answer does not depend on the batch around it. */
static void TIE_04_a_query_has_the_same_answer_in_every_batch_and_place(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 7, 8, 9, 16, 17, 31, 33, 64, 65, 511, 512, 513, 1024};
    struct data rows = data_make(7, 5000, 48, VIC_F32, VIC_COSINE, VALUES_UNIT);
    struct pair both = pair_build(&rows);
    float *batch = take(1024 * 48 * 4);
    struct random random = test_random(7);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int place = 0; place < 3; place++) {
            int64_t nq = sizes[i], at = place == 0 ? 0 : place == 1 ? nq / 2 : nq - 1;
            random_fill(&random, VALUES_UNIT, VIC_F32, nq * 48, batch);
            memcpy(batch + at * 48, queries, 48 * 4);
            struct vic_matrix matrix = matrix_of(batch, nq, 48, VIC_F32);
            pair_check(&both, &matrix, 12, 0, NULL, 0);
        }
    free(batch);
    pair_free(&both);
    free(rows.rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(CON_01_threads_get_the_bytes_of_a_sequential_run),
        cmocka_unit_test(CON_05_a_search_ends_while_another_stream_fills_every_multiprocessor),
        cmocka_unit_test(TIE_05_a_thousand_runs_give_one_answer),
        cmocka_unit_test(TIE_04_a_query_has_the_same_answer_in_every_batch_and_place),
    };
    if (!devices_begin()) return SKIPPED;
    int failed = cmocka_run_group_tests_name("gpu/threads", tests, group_begin, group_end);
    devices_end();
    return failed;
}
