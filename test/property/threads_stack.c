/* Searches from threads with little stack, as servers and other languages' runtimes have them: 256 KiB are enough for any
 * number of dimensions and any codes, exactly and by a graph, and give the answers of a thread with as much as it likes.
 * More callers than there is memory for at once, so that they take turns. */
#include "support/graphs.h"
#include "support/sanitizer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { ROWS = 70, QUERIES = 9, K = 5, CALLERS = 12, STACK_BYTES = 256 << 10 };

struct wide {
    struct vic_index *index;
    struct vic_matrix queries;
    struct vic_search_options options;
    int64_t ids[QUERIES * K];
    float scores[QUERIES * K];
    atomic_int failures;
};

static enum vic_status ask(const struct wide *wide, int64_t *ids, float *scores) {
    const struct vic_hits hits = {.ids = ids, .scores = scores};
    return vic_index_search(wide->index, &wide->queries, K, &wide->options, &hits);
}

static void *caller_main(void *argument) {
    struct wide *wide = argument;
    int64_t ids[QUERIES * K] = {0};
    float scores[QUERIES * K] = {0};
    bool right = ask(wide, ids, scores) == VIC_OK && memcmp(ids, wide->ids, sizeof ids) == 0 &&
                 memcmp(scores, wide->scores, sizeof scores) == 0;
    if (!right) atomic_fetch_add(&wide->failures, 1);
    return NULL;
}

static void callers_check(struct wide *wide) {
    pthread_attr_t small;
    pthread_t threads[CALLERS];
    must(ask(wide, wide->ids, wide->scores));
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, STACK_BYTES), 0);
    for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_create(&threads[i], &small, caller_main, wide), 0);
    for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    (void)pthread_attr_destroy(&small);
    assert_int_equal(atomic_load(&wide->failures), 0);
}

static void ways_check(int64_t dim, enum vic_metric metric, int32_t chunks) {
    float *rows = copies_random(1, ROWS, dim, ROWS), *queries = copies_random(2, QUERIES, dim, QUERIES);
    const struct vic_graph_options graph = {.size = sizeof graph, .degree = 8, .beam = 12, .force = 1, .pq_chunks = chunks};
    const struct vic_build_options options = {
        .size = sizeof options, .metric = metric, .planes = VIC_PLANES_8 | VIC_PLANES_4, .graph = &graph};
    const struct vic_matrix matrix = matrix_of(rows, ROWS, dim, VIC_F32);
    struct wide wide = {.queries = matrix_of(queries, QUERIES, dim, VIC_F32), .options = {.size = sizeof wide.options}};
    must(vic_index_build(test_device, &matrix, &options, &wide.index));
    static const enum vic_path exact[] = {VIC_PATH_SCAN, VIC_PATH_SELECT, VIC_PATH_CERTIFIED};
    for (int i = 0; i < 3; i++) {
        wide.options.path = exact[i];
        callers_check(&wide);
    }
    wide.options.path = VIC_PATH_GRAPH;
    wide.options.beam = 200; /* the walk's larger table */
    for (enum vic_codes codes = VIC_CODES_ROWS; codes <= (chunks ? VIC_CODES_PQ : VIC_CODES_4); codes++) {
        wide.options.codes = codes;
        callers_check(&wide);
    }
    vic_index_free(wide.index);
    free(queries), free(rows);
}

static void a_small_stack_is_enough_for_the_widest_rows(void **state) {
    (void)state;
    if (UNDER_THREAD_SANITIZER || UNDER_ADDRESS_SANITIZER) skip(); /* their frames are larger */
    ways_check(65536, VIC_COSINE, 0);
    ways_check(8193, VIC_L2, 0);
    ways_check(8192, VIC_DOT, 0);
}

static void a_small_stack_is_enough_for_the_longest_product_codes(void **state) {
    (void)state;
    if (UNDER_THREAD_SANITIZER || UNDER_ADDRESS_SANITIZER) skip();
    ways_check(1024, VIC_L2, 1024);
    ways_check(64, VIC_COSINE, 64);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_stack_is_enough_for_the_widest_rows),
        cmocka_unit_test(a_small_stack_is_enough_for_the_longest_product_codes),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
