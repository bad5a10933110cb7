/* An index that gains a graph where it lies in a file: the same file as from a build of its rows, no copy of them, all or
 * nothing; what its file and its report say of a graph; and what a graph costs in memory. */
#include "support/counting.h"
#include "support/graphs.h"
#include "support/sample.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { N = 900, DIM = 24 };
static const struct vic_graph_options small = {.size = sizeof small, .degree = 9, .beam = 25, .alpha = 1.3f, .force = 1};

static struct counting counting;

static int setup(void **state) {
    test_device = device_within(0, 2, &counting);
    return scratch_open(state);
}

static int teardown(void **state) {
    int status = place_teardown(state);
    assert_int_equal(counting.live_blocks, 0);
    return status;
}

static struct vic_index *flat_file(const struct data *data, const char *path) {
    const struct vic_build_options options = {
        .size = sizeof options, .metric = data->metric, .planes = VIC_PLANES_NONE, .path = path};
    const struct vic_matrix rows = matrix_of(data->rows, data->n, data->dim, data->dtype);
    struct vic_index *index = NULL;
    must(vic_index_build(test_device, &rows, &options, &index));
    return index;
}

static struct vic_index *gained(const char *path, const struct vic_graph_options *graph) {
    const struct vic_open_options options = {.size = sizeof options, .graph = graph};
    struct vic_index *index = NULL;
    must(vic_index_open(test_device, path, &options, &index));
    return index;
}

static struct vic_index_info info_of(const struct vic_index *index) {
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    return info;
}

/* As from a build of the rows, also when the save goes over the file that the rows are read from. */
static void a_gained_graph_makes_the_file_of_a_built_one(void **state) {
    (void)state;
    struct random random = {3};
    for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
            char *rows = take(N * DIM * vic_dtype_bytes(dtype));
            random_fill(&random, VALUES_UNIT, dtype, N * DIM, rows);
            struct data data = {rows, N, DIM, dtype, metric, NULL};
            const struct vic_build_options options = {
                .size = sizeof options, .metric = metric, .path = scratch_path("built"), .graph = &small};
            const struct vic_matrix matrix = matrix_of(rows, N, DIM, dtype);
            struct vic_index *built = NULL, *flat = flat_file(&data, scratch_path("flat"));
            must(vic_index_build(test_device, &matrix, &options, &built));
            struct vic_index *index = gained(scratch_path("flat"), &small);
            must(vic_index_check(index, NULL));
            struct blob blob = blob_read(scratch_path("built"));
            must(vic_index_save(index, scratch_path("new"), NULL));
            assert_true(blob_equals_file(&blob, scratch_path("new")));
            must(vic_index_save(index, scratch_path("flat"), NULL));
            assert_true(blob_equals_file(&blob, scratch_path("flat")));
            must(vic_index_check(index, NULL)); /* of the old file, which is still mapped */
            vic_index_free(index), vic_index_free(flat), vic_index_free(built);
            blob_free(&blob);
            free(rows);
        }
}

static void gaining_a_graph_copies_no_rows(void **state) {
    (void)state;
    enum { WIDE = 2000 };
    float *rows = copies_random(4, N, WIDE, N);
    struct data data = {rows, N, WIDE, VIC_F32, VIC_COSINE, NULL};
    vic_index_free(flat_file(&data, scratch_path("wide")));
    counting.peak_bytes = counting.live_bytes;
    int64_t before = counting.live_bytes, row_bytes = (int64_t)N * WIDE * 4;
    struct vic_index *index = gained(scratch_path("wide"), &small);
    struct vic_index_info info = info_of(index);
    assert_true(counting.peak_bytes - before < row_bytes / 2 + (int64_t)info.workspace_bytes);
    assert_true((int64_t)info.host_bytes - (int64_t)info.workspace_bytes < row_bytes / 2);
    vic_index_free(index);
    free(rows);
}

static void a_graph_in_the_file_gives_way_to_one_that_is_asked_for(void **state) {
    (void)state;
    const struct sample sample = {.n = 300, .dim = 8, .dtype = VIC_F32, .metric = VIC_L2, .seed = 5, .planes = SAMPLE_GRAPH};
    vic_index_free(sample_build(test_device, &sample, scratch_path("graph")));
    struct vic_index *index = gained(scratch_path("graph"), &small);
    assert_int_equal(info_of(index).degree, 9);
    vic_index_free(index);
    const struct vic_graph_options unforced = {.size = sizeof unforced, .degree = 9};
    index = gained(scratch_path("graph"), &unforced); /* too few rows: what the file has */
    assert_int_equal(info_of(index).degree, SAMPLE_DEGREE);
    vic_index_free(index);
}

static int stop(void *user, const struct vic_progress_state *state) {
    (void)user;
    return strcmp(state->stage, "building the graph") == 0;
}

static void a_graph_that_cannot_be_had_leaves_nothing(void **state) {
    (void)state;
    float *rows = copies_random(6, N, DIM, N);
    struct data data = {rows, N, DIM, VIC_F32, VIC_COSINE, NULL};
    vic_index_free(flat_file(&data, scratch_path("flat")));
    struct vic_index *index = NULL;
    struct vic_open_options options = {.size = sizeof options, .graph = &small, .progress = {.report = stop}};
    int64_t before = counting.live_bytes;
    assert_int_equal(vic_index_open(test_device, scratch_path("flat"), &options, &index), VIC_CANCELLED);
    assert_int_equal(counting.live_bytes, before);
    const struct vic_graph_options wrong = {.size = sizeof wrong, .degree = 513};
    options.progress.report = NULL, options.graph = &wrong;
    assert_int_equal(vic_index_open(test_device, scratch_path("flat"), &options, &index), VIC_ARGUMENT);
    options.graph = &small;
    for (int64_t n = 1;; n++) {
        counting.fail_at = counting.requests + n, counting.refused = 0;
        enum vic_status status = vic_index_open(test_device, scratch_path("flat"), &options, &index);
        counting.fail_at = 0;
        if (counting.refused == 0) {
            must(status);
            break;
        }
        assert_int_equal(status, VIC_NO_MEMORY);
        assert_int_equal(counting.live_bytes, before);
    }
    vic_index_free(index);
    struct vic_device *poor = NULL;
    const struct vic_device_options little = {.size = sizeof little, .name = "cpu", .threads = 1, .host_bytes = 100000};
    must(vic_device_open(&little, &poor));
    assert_int_equal(vic_index_open(poor, scratch_path("flat"), &options, &index), VIC_BUDGET);
    assert_non_null(strstr(vic_last_error(), "a graph needs "));
    assert_non_null(strstr(vic_last_error(), "100000"));
    vic_device_free(poor);
    free(rows);
}

/* ---- what is said of a graph */

static void a_file_says_who_built_its_graph_and_how(void **state) {
    (void)state;
    float *rows = copies_random(7, N, 2, 30);
    struct data data = {rows, N, 2, VIC_F32, VIC_L2, NULL};
    vic_index_free(flat_file(&data, scratch_path("flat")));
    struct vic_index *index = gained(scratch_path("flat"), &small), *opened = NULL;
    struct vic_index_info told = info_of(index);
    must(vic_index_save(index, scratch_path("graph"), NULL));
    must(vic_index_open(test_device, scratch_path("graph"), NULL, &opened));
    struct vic_index_info info = info_of(opened);
    assert_string_equal(info.graph_builder, "vicinal 2");
    assert_int_equal(info.graph_beam, 25);
    assert_true(info.graph_alpha == 1.3f);
    assert_true(info.repairs > 0 && info.repairs == told.repairs); /* copies need them */
    vic_index_free(opened), vic_index_free(index);
    free(rows);
}

/* What a file says of its graph's origin is for people: whatever it is, the index opens. */
static void an_origin_that_makes_no_sense_is_not_known(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{}",
        "{\"graph\":7}",
        "{\"graph\":{}}",
        "{\"graph\":{\"builder\":\"\",\"beam\":1,\"alpha\":1.2,\"repairs\":0}}",
        "{\"graph\":{\"builder\":\"a name of more than thirty-one bytes\",\"beam\":1,\"alpha\":1.2,\"repairs\":0}}",
        "{\"graph\":{\"builder\":\"x\\n\",\"beam\":1,\"alpha\":1.2,\"repairs\":0}}",
        "{\"graph\":{\"builder\":\"x\",\"beam\":-1,\"alpha\":1.2,\"repairs\":0}}",
        "{\"graph\":{\"builder\":\"x\",\"beam\":1025,\"alpha\":1.2,\"repairs\":0}}",
        "{\"graph\":{\"builder\":\"x\",\"beam\":4294967297,\"alpha\":1.2,\"repairs\":0}}",
        "{\"graph\":{\"builder\":\"x\",\"beam\":1,\"alpha\":-1,\"repairs\":0}}",
        "{\"graph\":{\"builder\":\"x\",\"beam\":1,\"alpha\":1.2,\"repairs\":11}}",
        "{\"graph\":{\"builder\":\"x\",\"beam\":1,\"alpha\":1.2,\"repairs\":-1}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct graph graph = {.n = 10};
        json_t *meta = json_loads(texts[i], 0, NULL);
        graph_meta_take(meta, &graph);
        json_decref(meta);
        if (*graph.origin.builder || graph.origin.beam || graph.repairs) fail_msg("%s was believed", texts[i]);
    }
    struct graph graph = {.n = 10};
    json_t *meta = json_loads("{\"graph\":{\"builder\":\"x\",\"beam\":0,\"alpha\":1.25,\"repairs\":10,\"new\":1}}", 0, NULL);
    graph_meta_take(meta, &graph);
    json_decref(meta);
    assert_string_equal(graph.origin.builder, "x");
    assert_true(graph.origin.alpha == 1.25f && graph.repairs == 10);
}

static void a_report_counts_what_is_there(void **state) {
    (void)state;
    float *rows = copies_random(8, N, DIM, N - 100);
    struct data data = {rows, N, DIM, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = graph_of(test_device, &data, 20, 40), *flat = flat_file(&data, scratch_path("flat"));
    const struct graph *graph = &index->graph;
    struct vic_graph_report report = {.size = sizeof report};
    must(vic_index_graph(index, &report));
    int64_t edges = 0, symmetric = 0, histogram[16] = {0};
    int32_t least = 20, most = 0;
    for (int64_t row = 0; row < N; row++) {
        int32_t degree = 0;
        for (; degree < 20 && graph_row(graph, row)[degree] != slot_unused; degree++) {
            const uint32_t *back = graph_row(graph, graph_row(graph, row)[degree]);
            for (int i = 0; i < 20; i++) symmetric += back[i] == (uint32_t)row;
        }
        edges += degree, histogram[degree * 16 / 21]++;
        if (degree < least) least = degree;
        if (degree > most) most = degree;
    }
    assert_int_equal(report.rows, N);
    assert_int_equal(report.edges, edges);
    assert_int_equal(report.symmetric, symmetric);
    assert_int_equal(report.unreached, 0);
    assert_int_equal(report.degree, 20);
    assert_int_equal(report.entries, graph->entry_count);
    assert_int_equal(report.least, least);
    assert_int_equal(report.most, most);
    assert_memory_equal(report.histogram, histogram, sizeof histogram);
    assert_int_equal(vic_index_graph(flat, &report), VIC_UNSUPPORTED);
    assert_int_equal(vic_index_graph(NULL, &report), VIC_ARGUMENT);
    assert_int_equal(vic_index_graph(index, NULL), VIC_ARGUMENT);
    vic_index_free(flat), vic_index_free(index);
    free(rows);
}

/* Wrong slots are named; rows that are not reached are counted. */
static void a_report_of_a_damaged_graph_says_so(void **state) {
    (void)state;
    const struct sample sample = {.n = 300, .dim = 8, .dtype = VIC_F32, .metric = VIC_L2, .seed = 5, .planes = SAMPLE_GRAPH};
    vic_index_free(sample_build(test_device, &sample, scratch_path("graph")));
    struct blob blob = blob_read(scratch_path("graph"));
    size_t bytes = 0;
    uint32_t *slots = (uint32_t *)section_bytes(&blob, "graph", &bytes);
    struct vic_index *index = NULL;
    struct vic_graph_report report = {.size = sizeof report};
    for (int64_t i = 0; i < 300 * SAMPLE_DEGREE; i++)
        if (slots[i] == 17) slots[i] = slots[i - i % SAMPLE_DEGREE] != 17 && i % SAMPLE_DEGREE ? slot_unused : 299;
    for (int64_t row = 0; row < 300; row++) /* nothing after an unused slot, nothing twice */
        for (int64_t i = 0; i < SAMPLE_DEGREE; i++)
            for (int64_t j = 0; j <= i; j++) {
                uint32_t *slot = slots + row * SAMPLE_DEGREE;
                if (slot[j] == slot_unused || (j < i && slot[j] == slot[i]) || slot[i] == row) slot[i] = slot_unused;
            }
    must(blob_open(test_device, &blob, 0, &index));
    must(vic_index_graph(index, &report));
    assert_true(report.unreached >= 1 && report.unreached < 300);
    vic_index_free(index);
    slots[0] = 300;
    must(blob_open(test_device, &blob, 0, &index));
    assert_int_equal(vic_index_graph(index, &report), VIC_FORMAT);
    assert_non_null(strstr(vic_last_error(), "row 0, slot 0"));
    vic_index_free(index);
    blob_free(&blob);
}

/* ---- memory: rows + codes + 4 (degree + 1) bytes a row + 16 MiB, and the plan that a build keeps to */
static void a_built_index_holds_rows_codes_and_slots(void **state) {
    (void)state;
    struct random random = {9};
    for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype += VIC_U8 - VIC_F32)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
            char *rows = take(N * DIM * vic_dtype_bytes(dtype));
            random_fill(&random, VALUES_UNIT, dtype, N * DIM, rows);
            struct data data = {rows, N, DIM, dtype, metric, NULL};
            const struct vic_build_options options = {
                .size = sizeof options, .dtype = dtype, .metric = metric, .planes = VIC_PLANES_8, .graph = &small};
            struct vic_plan plan = {.size = sizeof plan};
            must(vic_index_plan(test_device, N, DIM, &options, &plan));
            int64_t before = counting.live_bytes;
            counting.peak_bytes = before;
            struct vic_index *index = graph_of(test_device, &data, small.degree, small.beam);
            struct vic_index_info info = info_of(index);
            int64_t codes = (int64_t)planes_bytes(&index->corpus.rows, VIC_PLANES_8), norms = metric == VIC_COSINE ? 4 * N : 0;
            int64_t most = N * DIM * (int64_t)vic_dtype_bytes(dtype) + codes + norms + N * (int64_t)sizeof(uint32_t) * (9 + 1);
            if (metric == VIC_L2) most += 4 * N; /* scale and length of a row lie together: four bytes more */
            assert_true((int64_t)info.host_bytes - (int64_t)info.workspace_bytes <= most + 65536);
            assert_true(counting.live_bytes - before <= (int64_t)(plan.host_bytes - plan.build_bytes) + 65536);
            assert_true(counting.peak_bytes - before <= (int64_t)plan.host_bytes + 65536);
            assert_int_equal(plan.code_bytes, dtype == VIC_F32 ? codes : 0);
            assert_true(plan.graph_bytes >= N * 9 * 4 && plan.build_bytes > N * 9 * 4);
            vic_index_free(index);
            free(rows);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gained_graph_makes_the_file_of_a_built_one),
        cmocka_unit_test(gaining_a_graph_copies_no_rows),
        cmocka_unit_test(a_graph_in_the_file_gives_way_to_one_that_is_asked_for),
        cmocka_unit_test(a_graph_that_cannot_be_had_leaves_nothing),
        cmocka_unit_test(a_file_says_who_built_its_graph_and_how),
        cmocka_unit_test(an_origin_that_makes_no_sense_is_not_known),
        cmocka_unit_test(a_report_counts_what_is_there),
        cmocka_unit_test(a_report_of_a_damaged_graph_says_so),
        cmocka_unit_test(a_built_index_holds_rows_codes_and_slots),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
