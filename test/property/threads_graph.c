/* Graphs under many threads: builds of several on one device at once give the bytes of a lone one, and many callers of one
 * graph, each with its own beam, parents and codes, get the answers of a lone one. Runs under ThreadSanitizer too, with fewer
 * rows and rounds. */
#include "support/graphs.h"
#include "support/sanitizer.h"
#include "support/scratch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#if UNDER_THREAD_SANITIZER
enum { ROWS = 1500, ROUNDS = 20 };
#else
enum { ROWS = 6000, ROUNDS = 100 };
#endif
enum { THREADS = 8, BUILDERS = 4, DIM = 24, QUERIES = 40, K = 10, WISHES = 9 };

struct answer {
    int64_t ids[QUERIES * K];
    float scores[QUERIES * K];
    int64_t hops;
};

struct fixture {
    struct vic_device *device;
    struct vic_index *index;
    float *rows, *queries;
    struct answer right[WISHES];
    atomic_int failures;
};

static enum vic_status ask(const struct fixture *fixture, int wish, struct answer *answer) {
    static const int32_t beams[] = {10, 64, 200};
    struct vic_search_stats stats = {.size = sizeof stats};
    const struct vic_search_options options = {.size = sizeof options,
                                               .path = VIC_PATH_GRAPH,
                                               .beam = beams[wish % 3],
                                               .parents = 1 + wish % 8,
                                               .codes = (enum vic_codes)(VIC_CODES_ROWS + wish / 3),
                                               .stats = &stats};
    const struct vic_matrix queries = matrix_of(fixture->queries, wish % 2 ? QUERIES : 1, DIM, VIC_F32);
    const struct vic_hits hits = {.ids = answer->ids, .scores = answer->scores};
    memset(answer, 0, sizeof *answer);
    enum vic_status status = vic_index_search(fixture->index, &queries, K, &options, &hits);
    answer->hops = stats.hops;
    return status;
}

static struct vic_index *build(const struct fixture *fixture) {
    const struct vic_graph_options graph = {.size = sizeof graph, .degree = 12, .beam = 24, .force = 1};
    const struct vic_build_options options = {
        .size = sizeof options, .metric = VIC_L2, .planes = VIC_PLANES_4, .graph = &graph};
    const struct vic_matrix rows = matrix_of(fixture->rows, ROWS, DIM, VIC_F32);
    struct vic_index *index = NULL;
    return vic_index_build(fixture->device, &rows, &options, &index) == VIC_OK ? index : NULL;
}

static int fixture_make(void **state) {
    static struct fixture fixture;
    if (scratch_open(state) != 0) return -1;
    fixture.device = device_of(4);
    fixture.rows = copies_random(1, ROWS, DIM, ROWS - ROWS / 8);
    fixture.queries = copies_random(2, QUERIES, DIM, QUERIES);
    fixture.index = build(&fixture);
    if (!fixture.index) return -1;
    for (int wish = 0; wish < WISHES; wish++) must(ask(&fixture, wish, &fixture.right[wish]));
    *state = &fixture;
    return 0;
}

static int fixture_free(void **state) {
    struct fixture *fixture = *state;
    vic_index_free(fixture->index);
    vic_device_free(fixture->device);
    free(fixture->rows), free(fixture->queries);
    return scratch_close(state);
}

struct worker {
    struct fixture *fixture;
    int number;
    char path[640];
};

static void *searching(void *argument) {
    struct worker *worker = argument;
    struct answer answer;
    for (int round = 0; round < ROUNDS; round++) {
        int wish = (round * 5 + worker->number) % WISHES;
        if (ask(worker->fixture, wish, &answer) != VIC_OK || memcmp(&answer, &worker->fixture->right[wish], sizeof answer) != 0)
            atomic_fetch_add(&worker->fixture->failures, 1);
    }
    return NULL;
}

static void *building(void *argument) {
    struct worker *worker = argument;
    struct vic_index *index = build(worker->fixture);
    if (!index || vic_index_check(index, NULL) != VIC_OK || vic_index_save(index, worker->path, NULL) != VIC_OK)
        atomic_fetch_add(&worker->fixture->failures, 1);
    vic_index_free(index);
    return NULL;
}

static void run(struct fixture *fixture, int first, int count, void *(*work)(void *), pthread_t *threads,
                struct worker *workers) {
    for (int i = first; i < first + count; i++) {
        workers[i].fixture = fixture, workers[i].number = i;
        (void)snprintf(workers[i].path, sizeof workers[i].path, "%s/built%d", scratch_folder(), i);
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
}

static void searches_and_builds_at_once_are_those_of_a_lone_caller(void **state) {
    struct fixture *fixture = *state;
    pthread_t threads[THREADS + BUILDERS];
    struct worker workers[THREADS + BUILDERS];
    must(vic_index_save(fixture->index, scratch_path("lone"), NULL));
    struct blob lone = blob_read(scratch_path("lone"));
    run(fixture, 0, BUILDERS, building, threads, workers);
    run(fixture, BUILDERS, THREADS, searching, threads, workers);
    for (int i = 0; i < THREADS + BUILDERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&fixture->failures), 0);
    for (int i = 0; i < BUILDERS; i++) assert_true(blob_equals_file(&lone, workers[i].path));
    blob_free(&lone);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(searches_and_builds_at_once_are_those_of_a_lone_caller),
    };
    return cmocka_run_group_tests(tests, fixture_make, fixture_free);
}
