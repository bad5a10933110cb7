/* Cases of other groups, asked of a graph: nothing and one row, options out of range, unused slots, filters, batches, scores
 * beyond float32. Public cases, distilled from bug reports of this field. */
#include "support/graphs.h"
#include "support/hits.h"
#include "support/scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* A graph of degree 8, whose default beam holds all rows when they are few. */
static struct vic_index *small_graph_of(struct vic_device *device, const struct data *data) {
    return graph_of(device, data, 8, 0);
}

static struct vic_index *graph_of_values(enum vic_metric metric, const float *values, int64_t n, int64_t dim,
                                         const int64_t *ids) {
    const struct data data = {(void *)(uintptr_t)values, n, dim, VIC_F32, metric, ids};
    return small_graph_of(test_device, &data);
}

static void EMP_01_no_rows_are_an_index_that_answers_nothing(void **state) {
    (void)state;
    static const int64_t batches[] = {0, 1, 19, 20, 21};
    for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++)
        for (int reopened = 0; reopened < 2; reopened++) {
            struct data data = {NULL, 0, 8, dtype, VIC_L2, NULL};
            struct vic_index *index = graph_of(test_device, &data, 0, 0);
            struct vic_index_info info = {.size = sizeof info};
            if (reopened) {
                must(vic_index_save(index, scratch_path("none"), NULL));
                vic_index_free(index);
                must(vic_index_open(test_device, scratch_path("none"), NULL, &index));
            }
            must(vic_index_info(index, &info));
            assert_true(info.rows == 0 && info.degree == 0 && info.entries == 0);
            for (int b = 0; b < 5; b++) {
                float queries[21 * 8] = {0}, scores[21 * 5];
                int64_t ids[21 * 5];
                int32_t counts[21];
                const struct vic_matrix matrix = matrix_of(queries, batches[b], 8, VIC_F32);
                const struct vic_hits hits = {ids, scores, counts, VIC_HOST};
                must(vic_index_search(index, &matrix, 5, NULL, &hits));
                for (int64_t i = 0; i < batches[b] * 5; i++)
                    assert_true(ids[i] == -1 && scores[i] == INFINITY && counts[i / 5] == 0);
            }
            vic_index_free(index);
        }
}

static void EMP_02_one_row_and_two_equal_rows(void **state) {
    (void)state;
    static const float values[] = {1, 2, 1, 2}, query[] = {1, 2};
    static const int64_t ids[] = {0, 1};
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++)
        for (int64_t n = 1; n <= 2; n++) {
            struct vic_index *index = graph_of_values(metric, values, n, 2, NULL);
            expect_hits(index, query, 4, n, ids, NULL);
            expect_hits(index, query, n, n, ids, NULL);
            vic_index_free(index);
        }
}

static void build_refused(const struct vic_graph_options *given, const char *option, const char *range, const char *found) {
    float values[50 * 4] = {0};
    const struct vic_matrix rows = matrix_of(values, 50, 4, VIC_F32);
    struct vic_graph_options graph = *given;
    graph.size = sizeof graph, graph.force = 1;
    const struct vic_build_options options = {.size = sizeof options, .graph = &graph, .path = scratch_path("refused")};
    struct vic_index *index = NULL;
    struct vic_plan plan = {.size = sizeof plan};
    assert_int_equal(vic_index_build(test_device, &rows, &options, &index), VIC_ARGUMENT);
    if (!error_says(option) || !error_says(range) || !error_says(found)) fail_msg("found \"%s\"", vic_last_error());
    assert_int_equal(vic_index_plan(test_device, 50, 4, &options, &plan), VIC_ARGUMENT);
    assert_null(index);
    assert_false(scratch_has("refused"));
}

static void EMP_04_options_of_a_graph_name_value_and_range(void **state) {
    (void)state;
    static const int32_t degrees[] = {-1, 513, 1000000000, INT32_MIN, INT32_MAX}, beams[] = {-1, 1025, INT32_MAX, INT32_MIN};
    static const float alphas[] = {0.5f, 0.999f, 2.001f, -1, INFINITY, -INFINITY, NAN};
    char found[64];
    for (int i = 0; i < 5; i++) {
        (void)snprintf(found, sizeof found, "found %d", degrees[i]);
        build_refused(&(struct vic_graph_options){.degree = degrees[i]}, "degree", "1 to 512", found);
    }
    for (int i = 0; i < 4; i++) {
        (void)snprintf(found, sizeof found, "found %d", beams[i]);
        build_refused(&(struct vic_graph_options){.beam = beams[i]}, "beam", "1 to 1024", found);
    }
    for (int i = 0; i < 7; i++) build_refused(&(struct vic_graph_options){.alpha = alphas[i]}, "alpha", "1 to 2", "found ");
}

/* Callers compiled against an older or a newer header. */
static void options_of_another_size_are_taken_or_refused_by_name(void **state) {
    (void)state;
    float *values = values_random(4, 50 * 4);
    const struct vic_matrix rows = matrix_of(values, 50, 4, VIC_F32);
    struct {
        struct vic_graph_options graph;
        int64_t newer;
    } wide = {{.size = 0, .degree = 7, .beam = 20, .alpha = 3, .force = 1}, 0};
    const struct vic_build_options options = {.size = sizeof options, .graph = &wide.graph};
    struct vic_index *index = NULL;
    assert_int_equal(vic_index_build(test_device, &rows, &options, &index), VIC_ARGUMENT);
    assert_true(error_says("vic_graph_options"));
    wide.graph.size = offsetof(struct vic_graph_options, alpha); /* what lies behind it is not looked at */
    must(vic_index_build(test_device, &rows, &options, &index));
    vic_index_free(index);
    index = NULL;
    wide.graph.size = sizeof wide, wide.graph.alpha = 1;
    must(vic_index_build(test_device, &rows, &options, &index));
    vic_index_free(index);
    index = NULL;
    wide.newer = 1;
    assert_int_equal(vic_index_build(test_device, &rows, &options, &index), VIC_UNSUPPORTED);
    assert_true(error_says("vic_graph_options"));
    assert_null(index);
    free(values);
}

static void EMP_04_every_option_in_range_builds_a_sound_graph(void **state) {
    (void)state;
    static const int32_t degrees[] = {0, 1, 2, 512}, beams[] = {0, 1, 2, 1024};
    static const float alphas[] = {0, 1, 1.0001f, 2};
    float *values = values_random(4, 50 * 4);
    const struct vic_matrix rows = matrix_of(values, 50, 4, VIC_F32);
    for (int d = 0; d < 4; d++)
        for (int b = 0; b < 4; b++)
            for (int a = 0; a < 4; a++) {
                const struct vic_graph_options graph = {
                    .size = sizeof graph, .degree = degrees[d], .beam = beams[b], .alpha = alphas[a], .force = 1};
                const struct vic_build_options options = {.size = sizeof options, .graph = &graph};
                struct vic_index *index = NULL;
                struct vic_index_info info = {.size = sizeof info};
                must(vic_index_build(test_device, &rows, &options, &index));
                must(vic_index_check(index, NULL));
                must(vic_index_info(index, &info));
                assert_int_equal(info.degree, degrees[d] ? degrees[d] : 64);
                vic_index_free(index);
            }
    free(values);
}

static void EMP_04_wishes_of_a_search_name_value_and_range(void **state) {
    (void)state;
    static const struct {
        int32_t beam, parents;
        const char *says[3];
    } wrong[] = {{-1, 0, {"beam", "at least 0", "-1"}},
                 {INT32_MIN, 0, {"beam", "at least 0", "-2147483648"}},
                 {0, -1, {"parents", "to 8", "-1"}},
                 {0, 9, {"parents", "to 8", "9"}},
                 {64, INT32_MAX, {"parents", "to 8", "2147483647"}}};
    static const float values[] = {1, 2, 3, 4};
    struct vic_index *index = graph_of_values(VIC_L2, values, 2, 2, NULL);
    const struct vic_matrix query = matrix_of(values, 1, 2, VIC_F32);
    int64_t id = 0;
    const struct vic_hits hits = {.ids = &id};
    for (int i = 0; i < 5; i++) {
        const struct vic_search_options options = {.size = sizeof options, .beam = wrong[i].beam, .parents = wrong[i].parents};
        assert_int_equal(vic_index_search(index, &query, 1, &options, &hits), VIC_ARGUMENT);
        for (int word = 0; word < 3; word++)
            if (!error_says(wrong[i].says[word])) fail_msg("found \"%s\"", vic_last_error());
    }
    vic_index_free(index);
}

static void SEL_12_unused_slots_are_those_of_a_scan(void **state) {
    (void)state;
    expect_short_answers(small_graph_of);
}

static void NUM_03_zero_vectors_under_cosine_are_last_and_never_nan(void **state) {
    (void)state;
    static const float values[] = {0, 0, 0, 1, 0, 0, 0.9f, 0.1f, 0}, query[] = {1, 0, 0}, zero[] = {0, 0, 0};
    static const float scores[] = {1, 0.9938837f, -INFINITY}, worst[] = {-INFINITY, -INFINITY, -INFINITY};
    static const int64_t ids[] = {1, 2, 0}, order[] = {0, 1, 2};
    struct vic_index *index = graph_of_values(VIC_COSINE, values, 3, 3, NULL);
    expect_hits(index, query, 3, 3, ids, scores);
    expect_hits(index, zero, 3, 3, order, worst);
    vic_index_free(index);
}

static void NUM_12_a_row_beyond_float32_is_a_hit_and_the_build_ends(void **state) {
    (void)state;
    const float largest = 3.4028234663852886e38f;
    const float values[] = {0, 0, largest, -largest}, query[] = {1, 1}, scores[] = {2, INFINITY};
    static const int64_t ids[] = {0, 1};
    struct vic_index *index = graph_of_values(VIC_L2, values, 2, 2, NULL);
    expect_hits(index, query, 3, 2, ids, scores);
    vic_index_free(index);
    /* many of them, and queries of that size: every row is reached and stands in the answer once */
    enum { N = 600 };
    float *many = values_random(12, N * 2), *found = take(N * 4);
    int64_t *hit = take(N * 8);
    for (int64_t i = 0; i < N * 2; i += 5) many[i] *= largest;
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        struct data data = {many, N, 2, VIC_F32, metric, NULL};
        const float far[] = {largest, -largest};
        struct order order = order_of(&data, far, 1, VIC_F32);
        index = graph_of(test_device, &data, 8, 20);
        graph_ask(index, &data, far, 1, N, 0, 3, hit, found);
        order_check_hits(&order, 0, N, hit, found, N);
        order_free(&order);
        vic_index_free(index);
    }
    free(hit), free(found), free(many);
}

static void NUM_14_the_metric_reaches_graph_and_codes(void **state) {
    (void)state;
    static const float values[] = {1, 0, 10, 10}, query[] = {1, 0};
    static const int64_t first[] = {1, 0, 0};
    float *rows = values_random(14, 5000 * 16), *queries = values_random(15, 100 * 16);
    for (int64_t i = 0; i < 5000; i++)
        for (int64_t d = 0; d < 16; d++) rows[i * 16 + d] *= 0.1f + (float)i * 0.002f;
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        struct vic_index *index = graph_of_values(metric, values, 2, 2, NULL);
        expect_hits(index, query, 1, 1, &first[metric - VIC_DOT], NULL);
        vic_index_free(index);
        struct data data = {rows, 5000, 16, VIC_F32, metric, NULL};
        index = graph_of(test_device, &data, 32, 64);
        assert_true(graph_recall(index, &data, queries, 100, 10, 100) >= 0.95);
        vic_index_free(index);
    }
    free(rows), free(queries);
}

static void IDS_10_wide_ids_come_back_exactly(void **state) {
    (void)state;
    static const float values[] = {1, 0, 2, 0, 3, 0, 4, 0}, query[] = {1, 0};
    static const int64_t given[] = {INT64_C(1) << 62, 0, (INT64_C(1) << 32) + 1, INT64_C(1) << 31};
    static const int64_t ids[] = {INT64_C(1) << 31, (INT64_C(1) << 32) + 1, 0, INT64_C(1) << 62};
    struct vic_index *index = graph_of_values(VIC_DOT, values, 4, 2, given);
    expect_hits(index, query, 4, 4, ids, NULL);
    vic_index_free(index);
}

static void FIL_01_one_allowed_row_is_the_only_hit(void **state) {
    (void)state;
    static const int64_t allowed[] = {7};
    static const float query[] = {0, 0}, scores[] = {49};
    float values[20] = {0};
    for (int i = 0; i < 10; i++) values[2 * i] = (float)i;
    struct vic_index *index = graph_of_values(VIC_L2, values, 10, 2, NULL);
    struct vic_filter *filter = NULL;
    must(vic_filter_create(index, allowed, 1, NULL, &filter));
    expect_hits_filtered(index, filter, query, 3, 1, allowed, scores);
    vic_filter_free(filter);
    vic_index_free(index);
}

/* Whole groups of near rows taken out: what is left is found, whatever the graph looks like. */
static void survivors_check(const float *values, int64_t n, int64_t dim, int64_t gone_count, const float *query, int64_t k) {
    struct data data = {(void *)(uintptr_t)values, n, dim, VIC_F32, VIC_L2, NULL};
    int64_t *gone = take((size_t)gone_count * 8);
    for (int64_t i = 0; i < gone_count; i++) gone[i] = i;
    struct order order = order_of(&data, query, 1, VIC_F32), right = order_filtered(&order, gone, gone_count, true);
    struct vic_index *index = graph_of(test_device, &data, 16, 30);
    const struct vic_filter_options exclude = {.size = sizeof exclude, .exclude = 1};
    struct vic_filter *filter = NULL;
    must(vic_filter_create(index, gone, gone_count, &exclude, &filter));
    expect_hits_filtered(index, filter, query, k, k, right.ids, right.scores);
    vic_filter_free(filter);
    vic_index_free(index);
    order_free(&order), order_free(&right);
    free(gone);
}

static void GRB_12_rows_behind_a_thousand_that_are_left_out(void **state) {
    (void)state;
    enum { HERE = 1000, THERE = 100 };
    static const float query[] = {0, 0};
    float values[(HERE + THERE) * 2] = {0};
    for (int i = 2 * HERE; i < 2 * (HERE + THERE); i++) values[i] = 100;
    survivors_check(values, HERE + THERE, 2, HERE, query, 10);
}

static void FIL_06_ten_survivors_far_from_the_query(void **state) {
    (void)state;
    enum { N = 10000, DIM = 8 };
    static const float query[DIM] = {0};
    struct random random = {6};
    float *values = take(N * DIM * 4);
    for (int64_t i = 0; i < N * DIM; i++) values[i] = 0.1f * random_normal(&random) + (i < N / 2 * DIM ? 0.0f : 10.0f);
    survivors_check(values, N, DIM, N / 2, query, 10);
    free(values);
}

static void TIE_04_the_answer_does_not_depend_on_the_batch(void **state) {
    (void)state;
    static const int64_t batches[] = {1, 2, 7, 8, 9, 16, 17, 31, 33, 64, 65, 255, 256, 257, 511, 512, 513, 1024};
    enum { N = 5000, DIM = 48, K = 20, MOST = 1024 };
    float *values = values_random(4, N * DIM), *queries = values_random(5, (MOST + 1) * DIM), *batch = take(MOST * DIM * 4);
    struct data data = {values, N, DIM, VIC_F32, VIC_COSINE, NULL};
    struct vic_index *index = graph_of(test_device, &data, 16, 30);
    int64_t right[K], *ids = take(MOST * K * 8);
    float right_scores[K], *scores = take(MOST * K * 4);
    const float *query = queries + MOST * DIM;
    graph_ask(index, &data, query, 1, K, 40, 2, right, right_scores);
    for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
        for (int place = 0; place < 3; place++) {
            int64_t at = place == 0 ? 0 : place == 1 ? batches[b] / 2 : batches[b] - 1;
            memcpy(batch, queries, (size_t)(batches[b] * DIM) * 4);
            memcpy(batch + at * DIM, query, DIM * 4);
            graph_ask(index, &data, batch, batches[b], K, 40, 2, ids, scores);
            assert_memory_equal(ids + at * K, right, sizeof right);
            assert_memory_equal(scores + at * K, right_scores, sizeof right_scores);
        }
    vic_index_free(index);
    free(scores), free(ids), free(batch), free(queries), free(values);
}

static void CON_06_a_child_after_fork_gets_the_same_bytes(void **state) {
    (void)state;
    enum { N = 2000, DIM = 12, NQ = 300, K = 5 };
    float *rows = copies_random(6, N, DIM, N);
    struct data data = {rows, N, DIM, VIC_F32, VIC_COSINE, NULL};
    struct vic_device *own = device_of(3);
    struct vic_index *index = graph_of(own, &data, 12, 24);
    int64_t right[NQ * K], ids[NQ * K];
    float scores[NQ * K];
    graph_ask(index, &data, rows, NQ, K, 20, 2, right, scores);
    pid_t child = fork();
    assert_true(child >= 0);
    graph_ask(index, &data, rows, NQ, K, 20, 2, ids, scores);
    bool same = memcmp(ids, right, sizeof ids) == 0;
    if (child == 0) _exit(!same);
    int how = 1;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(same && how == 0);
    vic_index_free(index);
    vic_device_free(own);
    free(rows);
}

/* Half as much again as the rows, and the graph: room for codes and what a build needs, none for the rows twice. */
static void MEM_02_a_build_keeps_no_second_copy_of_the_rows(void **state) {
    (void)state;
    enum { N = 16000, DIM = 1280, DEGREE = 16 };
    float *values = values_random(2, (int64_t)N * DIM);
    const struct vic_matrix rows = matrix_of(values, N, DIM, VIC_F32);
    const uint64_t row_bytes = (uint64_t)N * DIM * sizeof *values, graph_bytes = (uint64_t)N * DEGREE * sizeof(uint32_t);
    const struct vic_device_options wish = {
        .size = sizeof wish, .name = "cpu", .threads = 2, .host_bytes = row_bytes + row_bytes / 2 + graph_bytes};
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_COSINE; metric++) {
        const struct vic_graph_options graph = {.size = sizeof graph, .degree = DEGREE, .beam = 16};
        const struct vic_build_options options = {.size = sizeof options, .metric = metric, .graph = &graph};
        struct vic_device *small = NULL;
        struct vic_index *index = NULL;
        struct vic_device_info info = {.size = sizeof info};
        must(vic_device_open(&wish, &small));
        must(vic_index_build(small, &rows, &options, &index));
        must(vic_device_info(small, &info));
        assert_true(info.host_peak <= wish.host_bytes);
        vic_index_free(index);
        vic_device_free(small);
    }
    free(values);
}

/* Refused before anything is taken, with both numbers; a file that was there stays. */
static void MEM_01_half_the_memory_of_a_graph_is_refused_with_both_numbers(void **state) {
    (void)state;
    enum { N = 20000, DIM = 16 };
    float *values = values_random(1, N * DIM);
    const struct vic_matrix rows = matrix_of(values, N, DIM, VIC_F32);
    const struct vic_graph_options graph = {.size = sizeof graph};
    const struct vic_build_options options = {.size = sizeof options, .graph = &graph, .path = scratch_path("half")};
    struct vic_plan plan = {.size = sizeof plan};
    struct vic_device_options wish = {.size = sizeof wish, .name = "cpu"};
    must(vic_index_plan(test_device, N, DIM, &options, &plan));
    wish.host_bytes = plan.host_bytes / 2;
    struct vic_device *small = NULL;
    struct vic_index *index = NULL;
    struct vic_device_info before = {.size = sizeof before}, after = {.size = sizeof after};
    char numbers[2][32];
    (void)snprintf(numbers[0], sizeof numbers[0], "%llu", (unsigned long long)plan.host_bytes);
    (void)snprintf(numbers[1], sizeof numbers[1], "%llu", (unsigned long long)wish.host_bytes);
    must(vic_device_open(&wish, &small));
    must(vic_device_info(small, &before));
    assert_int_equal(vic_index_build(small, &rows, &options, &index), VIC_BUDGET);
    if (!error_says(numbers[0]) || !error_says(numbers[1])) fail_msg("found \"%s\", expected %s", vic_last_error(), numbers[0]);
    must(vic_device_info(small, &after));
    assert_true(after.host_peak == before.host_peak && !index && !scratch_has("half"));
    vic_device_free(small);
    free(values);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(EMP_01_no_rows_are_an_index_that_answers_nothing),
        cmocka_unit_test(EMP_02_one_row_and_two_equal_rows),
        cmocka_unit_test(EMP_04_options_of_a_graph_name_value_and_range),
        cmocka_unit_test(options_of_another_size_are_taken_or_refused_by_name),
        cmocka_unit_test(EMP_04_every_option_in_range_builds_a_sound_graph),
        cmocka_unit_test(EMP_04_wishes_of_a_search_name_value_and_range),
        cmocka_unit_test(SEL_12_unused_slots_are_those_of_a_scan),
        cmocka_unit_test(NUM_03_zero_vectors_under_cosine_are_last_and_never_nan),
        cmocka_unit_test(NUM_12_a_row_beyond_float32_is_a_hit_and_the_build_ends),
        cmocka_unit_test(NUM_14_the_metric_reaches_graph_and_codes),
        cmocka_unit_test(IDS_10_wide_ids_come_back_exactly),
        cmocka_unit_test(FIL_01_one_allowed_row_is_the_only_hit),
        cmocka_unit_test(GRB_12_rows_behind_a_thousand_that_are_left_out),
        cmocka_unit_test(FIL_06_ten_survivors_far_from_the_query),
        cmocka_unit_test(CON_06_a_child_after_fork_gets_the_same_bytes),
        cmocka_unit_test(MEM_01_half_the_memory_of_a_graph_is_refused_with_both_numbers),
        cmocka_unit_test(MEM_02_a_build_keeps_no_second_copy_of_the_rows),
        cmocka_unit_test(TIE_04_the_answer_does_not_depend_on_the_batch),
    };
    return cmocka_run_group_tests(tests, place_setup, place_teardown);
}
