/* GRS: searching graphs. Public cases, distilled from bug reports of this field; then what else a graph search promises. */
#include "support/counting.h"
#include "support/graphs.h"
#include "support/scratch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* One search with everything to be said about it. */
static struct vic_search_stats ask(const struct vic_index *index, const float *queries, int64_t nq, int64_t dim, int64_t k,
                                   struct vic_search_options options, int64_t *ids, float *scores) {
    struct vic_search_stats stats = {.size = sizeof stats};
    const struct vic_matrix matrix = matrix_of(queries, nq, dim, VIC_F32);
    const struct vic_hits hits = {.ids = ids, .scores = scores};
    options.size = sizeof options;
    options.stats = &stats;
    must(vic_index_search(index, &matrix, k, &options, &hits));
    return stats;
}

static void GRS_01_a_beam_below_k_is_raised_and_reported(void **state) {
    (void)state;
    float *rows = copies_random(1, 1000, 8, 1000);
    struct data data = {rows, 1000, 8, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = graph_of(test_device, &data, 0, 0);
    int64_t ids[20];
    float scores[20];
    struct vic_search_stats stats =
        ask(index, rows, 1, 8, 20, (struct vic_search_options){.path = VIC_PATH_GRAPH, .beam = 10}, ids, scores);
    assert_int_equal(stats.beam, 20);
    assert_int_equal(stats.parents, 1);
    for (int i = 0; i < 20; i++) assert_in_range(ids[i], 0, 999);
    assert_true(stats.hops >= 20 && stats.distances >= stats.hops && stats.rows_rescored == 20);
    vic_index_free(index);
    free(rows);
}

static void GRS_02_scores_are_the_canonical_ones(void **state) {
    (void)state;
    float *rows = copies_random(2, 5000, 32, 5000), *queries = copies_random(3, 20, 32, 20);
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        struct data data = {rows, 5000, 32, VIC_F32, metric, NULL};
        struct vic_index *index = graph_of(test_device, &data, 24, 40);
        int64_t ids[20 * 10];
        float scores[20 * 10], canonical[20 * 10];
        const struct vic_matrix matrix = matrix_of(queries, 20, 32, VIC_F32);
        graph_ask(index, &data, queries, 20, 10, 64, 1, ids, scores);
        must(vic_index_score(index, &matrix, ids, 10, NULL, canonical));
        assert_memory_equal(scores, canonical, sizeof scores);
        vic_index_free(index);
    }
    free(queries), free(rows);
}

static void GRS_03_an_id_appears_once_among_copies(void **state) {
    (void)state;
    float *rows = copies_random(4, 2000, 8, 10);
    struct data data = {rows, 2000, 8, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = graph_of(test_device, &data, 32, 64);
    bool seen[2000] = {false};
    int64_t ids[100];
    float scores[100];
    graph_ask(index, &data, rows, 1, 100, 100, 1, ids, scores);
    for (int i = 0; i < 100; i++) {
        assert_in_range(ids[i], 0, 1999);
        assert_false(seen[ids[i]]);
        seen[ids[i]] = true;
    }
    vic_index_free(index);
    free(rows);
}

static void GRS_04_the_first_hits_do_not_depend_on_k(void **state) {
    (void)state;
    static const int64_t ks[] = {1, 10, 64};
    float *rows = copies_random(5, 5000, 32, 4000), *queries = copies_random(6, 50, 32, 50);
    struct data data = {rows, 5000, 32, VIC_F32, VIC_COSINE, NULL};
    struct vic_index *index = graph_of(test_device, &data, 24, 40);
    int64_t all[50 * 64], ids[50 * 64];
    float scores[50 * 64];
    graph_ask(index, &data, queries, 50, 64, 64, 1, all, scores);
    for (int i = 0; i < 3; i++) {
        graph_ask(index, &data, queries, 50, ks[i], 64, 1, ids, scores);
        for (int64_t j = 0; j < 50; j++) assert_memory_equal(ids + j * ks[i], all + j * 64, (size_t)ks[i] * 8);
    }
    vic_index_free(index);
    free(queries), free(rows);
}

static void GRS_05_a_wider_beam_finds_no_less(void **state) {
    (void)state;
    enum { N = 20000, DIM = 64, NQ = 100 };
    static const int32_t beams[] = {10, 20, 50, 100, 500, N};
    float *plain = copies_random(7, N, DIM, N), *clustered = take(N * DIM * sizeof *clustered);
    struct random random = {8};
    for (int64_t i = 0; i < N * DIM; i++) clustered[i] = plain[i / DIM % 50 * DIM + i % DIM] + 0.2f * random_normal(&random);
    for (int kind = 0; kind < 2; kind++) {
        struct data data = {kind ? clustered : plain, N, DIM, VIC_F32, VIC_L2, NULL};
        struct vic_index *index = graph_of(test_device, &data, 32, 50);
        const float *queries = (const float *)data.rows + 100 * DIM;
        double before = 0;
        for (int b = 0; b < 5; b++) {
            double recall = graph_recall(index, &data, queries, NQ, 10, beams[b]);
            assert_true(recall >= before - 0.005);
            before = recall;
        }
        assert_true(before > 0.95);
        int64_t ids[10];
        float scores[10];
        struct vic_search_stats stats =
            ask(index, queries, 1, DIM, 10, (struct vic_search_options){.beam = N}, ids, scores); /* more than a walk holds */
        assert_true(stats.path != VIC_PATH_GRAPH && stats.fallback == VIC_FALLBACK_BEAM && stats.fallbacks == 1);
        vic_index_free(index);
    }
    free(clustered), free(plain);
}

/* A filter, an exact path, ranges: as from an index without a graph, byte for byte. */
static void what_a_graph_does_not_answer_is_answered_exactly(void **state) {
    (void)state;
    float *rows = copies_random(9, 5000, 16, 4900);
    struct data data = {rows, 5000, 16, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = graph_of(test_device, &data, 16, 30), *flat = index_of(test_device, &data);
    int64_t allowed[] = {3, 77, 4000, 4999}, ids[2][10];
    float scores[2][10];
    struct vic_filter *filters[2];
    must(vic_filter_create(index, allowed, 4, NULL, &filters[0]));
    must(vic_filter_create(flat, allowed, 4, NULL, &filters[1]));
    struct vic_search_stats stats =
        ask(index, rows, 1, 16, 10, (struct vic_search_options){.filter = filters[0]}, ids[0], scores[0]);
    assert_int_equal(stats.fallback, VIC_FALLBACK_FILTER);
    (void)ask(flat, rows, 1, 16, 10, (struct vic_search_options){.filter = filters[1]}, ids[1], scores[1]);
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    for (enum vic_path path = VIC_PATH_SCAN; path <= VIC_PATH_CERTIFIED; path++) {
        stats = ask(index, rows, 1, 16, 10, (struct vic_search_options){.path = path}, ids[0], scores[0]);
        (void)ask(flat, rows, 1, 16, 10, (struct vic_search_options){.path = VIC_PATH_SCAN}, ids[1], scores[1]);
        assert_true(stats.path != VIC_PATH_GRAPH);
        assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    }
    vic_filter_free(filters[0]), vic_filter_free(filters[1]);
    vic_index_free(flat), vic_index_free(index);
    free(rows);
}

static void bad_wishes_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        struct vic_graph_options options;
        const char *says;
    } wrong[] = {{{.degree = 513}, "degree"}, {{.degree = -1}, "degree"}, {{.beam = 1025}, "beam"},
                 {{.beam = -1}, "beam"},      {{.alpha = 0.5f}, "alpha"}, {{.alpha = NAN}, "alpha"}};
    float *rows = copies_random(10, 100, 4, 100);
    const struct vic_matrix matrix = matrix_of(rows, 100, 4, VIC_F32);
    struct vic_index *index = NULL;
    for (int i = 0; i < 6; i++) {
        struct vic_graph_options graph = wrong[i].options;
        graph.size = sizeof graph;
        const struct vic_build_options options = {.size = sizeof options, .graph = &graph};
        assert_int_equal(vic_index_build(test_device, &matrix, &options, &index), VIC_ARGUMENT);
        assert_non_null(strstr(vic_last_error(), wrong[i].says));
    }
    struct data data = {rows, 100, 4, VIC_F32, VIC_L2, NULL};
    index = graph_of(test_device, &data, 8, 20);
    float query[8] = {1, 2, 3, 4, 5, 6, NAN, 8}, scores[2];
    int64_t ids[2];
    const struct vic_matrix queries = matrix_of(query, 2, 4, VIC_F32);
    const struct vic_hits hits = {.ids = ids, .scores = scores};
    assert_int_equal(vic_index_search(index, &queries, 1, NULL, &hits), VIC_NOT_FINITE);
    assert_non_null(strstr(vic_last_error(), "query 1, column 2"));
    vic_index_free(index);
    index = index_of(test_device, &data);
    const struct vic_search_options graph_path = {.size = sizeof graph_path, .path = VIC_PATH_GRAPH};
    const struct vic_matrix good = matrix_of(query, 1, 4, VIC_F32);
    assert_int_equal(vic_index_search(index, &good, 1, &graph_path, &hits), VIC_UNSUPPORTED);
    vic_index_free(index);
    free(rows);
}

static void few_rows_get_no_graph_unless_forced(void **state) {
    (void)state;
    float *rows = copies_random(11, GRAPH_ROWS_LEAST, 4, GRAPH_ROWS_LEAST);
    for (int64_t n = GRAPH_ROWS_LEAST - 1; n <= GRAPH_ROWS_LEAST; n++) {
        const struct vic_graph_options graph = {.size = sizeof graph, .degree = 8, .beam = 16};
        const struct vic_build_options options = {.size = sizeof options, .graph = &graph};
        const struct vic_matrix matrix = matrix_of(rows, n, 4, VIC_F32);
        struct vic_index *index = NULL;
        struct vic_index_info info = {.size = sizeof info};
        must(vic_index_build(test_device, &matrix, &options, &index));
        must(vic_index_info(index, &info));
        assert_string_equal(info.kind, n < GRAPH_ROWS_LEAST ? "flat" : "graph");
        assert_int_equal(info.degree, n < GRAPH_ROWS_LEAST ? 0 : 8);
        vic_index_free(index);
    }
    free(rows);
}

static int stop_in_the_graph(void *user, const struct vic_progress_state *progress) {
    int *stops = user;
    return strcmp(progress->stage, "building the graph") == 0 && ++*stops > 0;
}

static void a_build_that_is_stopped_leaves_no_file(void **state) {
    (void)state;
    float *rows = copies_random(12, 6000, 16, 6000);
    const struct vic_matrix matrix = matrix_of(rows, 6000, 16, VIC_F32);
    const struct vic_graph_options graph = {.size = sizeof graph};
    int stops = 0;
    const struct vic_build_options options = {.size = sizeof options,
                                              .graph = &graph,
                                              .path = scratch_path("stopped"),
                                              .progress = {.report = stop_in_the_graph, .user = &stops}};
    struct vic_index *index = NULL;
    assert_int_equal(vic_index_build(test_device, &matrix, &options, &index), VIC_CANCELLED);
    assert_null(index);
    assert_false(scratch_has("stopped"));
    assert_int_equal(stops, 1);
    free(rows);
}

/* Each request for memory refused in turn: an error each time, nothing kept. Then the plan holds what was really taken. */
static void memory_that_runs_out_leaves_nothing_and_the_plan_is_enough(void **state) {
    (void)state;
    enum { N = 1500, DIM = 24 };
    float *rows = copies_random(13, N, DIM, 1000);
    int8_t *small = take(N * DIM);
    for (int64_t i = 0; i < N * DIM; i++) small[i] = (int8_t)(rows[i] * 100);
    const struct vic_matrix matrices[] = {matrix_of(rows, N, DIM, VIC_F32), matrix_of(small, N, DIM, VIC_I8)};
    const struct vic_graph_options graph = {.size = sizeof graph, .degree = 16, .beam = 20, .force = 1};
    const struct vic_build_options options = {.size = sizeof options, .graph = &graph, .metric = VIC_DOT};
    for (int m = 0; m < 2; m++)
        for (int64_t n = 1;; n++) {
            struct counting counting = {.fail_at = 0};
            struct vic_device *counted = device_within(0, 2, &counting);
            struct vic_index *index = NULL;
            int64_t before = counting.requests, held = counting.live_blocks, bytes = counting.live_bytes;
            counting.fail_at = before + n;
            enum vic_status status = vic_index_build(counted, &matrices[m], &options, &index);
            bool refused = counting.refused > 0;
            assert_int_equal(status, refused ? VIC_NO_MEMORY : VIC_OK);
            struct vic_plan plan = {.size = sizeof plan};
            struct vic_build_options planned = options;
            planned.dtype = matrices[m].dtype;
            must(vic_index_plan(counted, N, DIM, &planned, &plan));
            assert_true((uint64_t)(counting.peak_bytes - bytes) <= plan.host_bytes);
            if (!refused) {
                struct vic_index_info info = {.size = sizeof info};
                must(vic_index_info(index, &info));
                assert_int_equal(info.host_bytes, counting.live_bytes - bytes);
            }
            vic_index_free(index);
            assert_int_equal(counting.live_blocks, held);
            vic_device_free(counted);
            if (!refused) break;
        }
    free(small), free(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(GRS_01_a_beam_below_k_is_raised_and_reported),
        cmocka_unit_test(GRS_02_scores_are_the_canonical_ones),
        cmocka_unit_test(GRS_03_an_id_appears_once_among_copies),
        cmocka_unit_test(GRS_04_the_first_hits_do_not_depend_on_k),
        cmocka_unit_test(GRS_05_a_wider_beam_finds_no_less),
        cmocka_unit_test(what_a_graph_does_not_answer_is_answered_exactly),
        cmocka_unit_test(bad_wishes_are_refused_by_name),
        cmocka_unit_test(few_rows_get_no_graph_unless_forced),
        cmocka_unit_test(a_build_that_is_stopped_leaves_no_file),
        cmocka_unit_test(memory_that_runs_out_leaves_nothing_and_the_plan_is_enough),
    };
    return cmocka_run_group_tests(tests, place_setup, place_teardown);
}
