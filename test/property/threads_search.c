/* Sixteen threads ask one index at once, each question in its own order, all kinds mixed; every answer has the bytes that it
 * had when it was asked alone. More threads than workspaces, and more jobs than the pool takes: callers wait for the one
 * and go on alone without the other.
 *
 * Runs under ThreadSanitizer too, with fewer rows and rounds. */
#include "support/sanitizer.h"
#include "support/scene.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#if UNDER_THREAD_SANITIZER
enum { ROWS = 5000, ROUNDS = 250 };
#else
enum { ROWS = 50000, ROUNDS = 1000 };
#endif
enum { THREADS = 16, DIM = 16, QUERIES = 12, QUESTIONS = 40, SLOTS_MOST = 6000 };

enum kind { SEARCH, WITHIN, SCORE, VECTOR, KINDS };

struct answer {
    int64_t ids[SLOTS_MOST], offsets[QUERIES + 1];
    float scores[SLOTS_MOST];
    int32_t counts[QUERIES];
};

struct question {
    enum kind kind;
    enum vic_path path;
    int64_t first, nq, k;
    float threshold;
    bool filtered;
    struct answer *right;
    enum vic_status status; /* a threshold that all rows reach is beyond the arrays: refused, with the counts */
};

struct fixture {
    struct scene scene;
    struct vic_device *device;
    struct vic_index *index;
    struct vic_filter *filter;
    struct question questions[QUESTIONS];
    atomic_int failures;
};

static enum vic_status ask(const struct fixture *fixture, const struct question *question, struct answer *answer) {
    const struct data *data = &fixture->scene.data;
    size_t query_bytes = (size_t)data->dim * vic_dtype_bytes(fixture->scene.order.queries.dtype);
    const char *first = (const char *)fixture->scene.queries + (size_t)question->first * query_bytes;
    struct vic_matrix queries = matrix_of(first, question->nq, data->dim, fixture->scene.order.queries.dtype);
    struct vic_search_options options = {
        .size = sizeof options, .path = question->path, .filter = question->filtered ? fixture->filter : NULL};
    struct vic_hits hits = {answer->ids, answer->scores, answer->counts, VIC_HOST};
    struct vic_ranges ranges = {answer->offsets, answer->ids, answer->scores, SLOTS_MOST};
    enum vic_status status = VIC_OK;
    switch (question->kind) {
    case SEARCH: return vic_index_search(fixture->index, &queries, question->k, &options, &hits);
    case WITHIN: return vic_index_within(fixture->index, &queries, question->threshold, &options, &ranges);
    case SCORE:
        for (int64_t i = 0; i < question->nq * question->k; i++)
            answer->ids[i] = data->ids[(question->first * 7919 + i * 31) % data->n];
        return vic_index_score(fixture->index, &queries, answer->ids, question->k, &options, answer->scores);
    default:
        for (int64_t i = 0; status == VIC_OK && i < 20; i++)
            status =
                vic_index_vector(fixture->index, data->ids[(question->first * 13 + i) % data->n], answer->scores + i * DIM);
        return status;
    }
}

static struct question question_draw(struct random *random, const struct fixture *fixture) {
    struct question question = {.kind = (enum kind)random_below(random, KINDS),
                                .path = paths[random_below(random, PATHS)],
                                .first = random_below(random, QUERIES),
                                .filtered = random_below(random, 3) == 0};
    question.nq = 1 + random_below(random, QUERIES - question.first);
    if (random_below(random, 2)) question.nq = 1;
    question.k = 1 + random_below(random, random_below(random, 4) ? 30 : SLOTS_MOST / QUERIES - 1);
    if (question.kind == WITHIN) question.nq = 1;
    question.threshold =
        fixture->scene.order.scores[question.first * fixture->scene.data.n + random_below(random, fixture->scene.data.n / 20)];
    question.right = take(sizeof *question.right);
    return question;
}

static void fixture_make(struct fixture *fixture, int pair, enum vic_metric metric, int64_t rows) {
    struct random random = test_random(1);
    struct shape shape = {.n = rows,
                          .nq = QUERIES,
                          .dim = DIM,
                          .dtype = type_pairs[pair][0],
                          .query_dtype = type_pairs[pair][1],
                          .metric = metric,
                          .values = VALUES_UNIT,
                          .ids = IDS_SHUFFLED};
    memset(fixture, 0, sizeof *fixture);
    scene_make(&random, &shape, &fixture->scene);
    fixture->device = device_of(2);
    fixture->index = index_with_planes(fixture->device, &fixture->scene.data, VIC_PLANES_8 | VIC_PLANES_4);
    must(vic_filter_create(fixture->index, fixture->scene.ids, rows / 3, NULL, &fixture->filter));
    /* that the lone answers are right is the oracle's word; that they stay so is this program's question */
    order_check_search(&fixture->scene.order, fixture->index, &fixture->scene.order.queries, 0, 100, NULL);
    for (int i = 0; i < QUESTIONS; i++) {
        struct question *question = &fixture->questions[i];
        *question = question_draw(&random, fixture);
        memset(question->right, 0, sizeof *question->right);
        question->status = ask(fixture, question, question->right);
        if (question->status != VIC_CAPACITY) must(question->status);
    }
}

static void fixture_free(struct fixture *fixture) {
    for (int i = 0; i < QUESTIONS; i++) free(fixture->questions[i].right);
    vic_filter_free(fixture->filter);
    vic_index_free(fixture->index);
    vic_device_free(fixture->device);
    scene_free(&fixture->scene);
}

struct asker {
    struct fixture *fixture;
    uint64_t seed;
    int rounds;
};

static void *asker_main(void *argument) {
    struct asker *asker = argument;
    struct random random = {asker->seed};
    struct answer *answer = take(sizeof *answer);
    for (int round = 0; round < asker->rounds; round++) {
        const struct question *question = &asker->fixture->questions[random_below(&random, QUESTIONS)];
        memset(answer, 0, sizeof *answer);
        bool right = ask(asker->fixture, question, answer) == question->status &&
                     memcmp(answer->offsets, question->right->offsets, sizeof answer->offsets) == 0;
        if (right && question->status == VIC_OK) right = memcmp(answer, question->right, sizeof *answer) == 0;
        if (!right) atomic_fetch_add(&asker->fixture->failures, 1);
    }
    free(answer);
    return NULL;
}

static void check_crowd(int pair, enum vic_metric metric, int64_t rows, int rounds) {
    static struct fixture fixture;
    struct asker askers[THREADS];
    pthread_t threads[THREADS];
    fixture_make(&fixture, pair, metric, rows);
    test_says("pair %d, metric %s", pair, vic_metric_name(metric));
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){&fixture, (uint64_t)i * 7919 + 1, rounds};
        assert_int_equal(pthread_create(&threads[i], NULL, asker_main, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&fixture.failures), 0);
    fixture_free(&fixture);
    test_done();
}

static void CON_01_sixteen_threads_get_the_bytes_of_a_lone_caller(void **state) {
    (void)state;
    check_crowd(0, VIC_DOT, ROWS, ROUNDS);
}

static void every_type_and_metric_can_be_shared(void **state) {
    (void)state;
    for (int pair = 0; pair < TYPE_PAIRS; pair++)
        check_crowd(pair, (enum vic_metric)(1 + pair % 3), ROWS / 10 + 500, ROUNDS / 10);
}

/* ---- failures stay with the thread that made them */

static void *refused_main(void *argument) {
    const struct asker *asker = argument;
    char number[32];
    int64_t ids[1];
    float query[DIM] = {0};
    struct vic_matrix queries = matrix_of(query, 1, DIM - 1 - (int64_t)asker->seed % 8, VIC_F32);
    struct vic_hits hits = {.ids = ids};
    (void)snprintf(number, sizeof number, "found %lld", (long long)queries.dim);
    for (int round = 0; round < asker->rounds; round++) {
        bool right = vic_index_search(asker->fixture->index, &queries, 1, NULL, &hits) == VIC_DIMENSION;
        if (!right || !strstr(vic_last_error(), number)) atomic_fetch_add(&asker->fixture->failures, 1);
    }
    return NULL;
}

static void a_refusal_in_one_thread_is_not_seen_by_another(void **state) {
    (void)state;
    static struct fixture fixture;
    struct asker askers[THREADS];
    pthread_t threads[THREADS];
    fixture_make(&fixture, 0, VIC_L2, ROWS / 10 + 500);
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){&fixture, (uint64_t)i, ROUNDS / 4};
        assert_int_equal(pthread_create(&threads[i], NULL, i % 2 ? refused_main : asker_main, &askers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&fixture.failures), 0);
    fixture_free(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(CON_01_sixteen_threads_get_the_bytes_of_a_lone_caller, test_tell),
        cmocka_unit_test_teardown(every_type_and_metric_can_be_shared, test_tell),
        cmocka_unit_test(a_refusal_in_one_thread_is_not_seen_by_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
