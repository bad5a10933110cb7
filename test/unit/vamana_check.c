/* The judge of graphs, the repair, and what a damaged graph in a file does: named by a check, harmless otherwise. */
#include "support/graphs.h"
#include "support/sample.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { N = 6, DEGREE = 3, NONE = -1 };

/* A ring with a chord or two. */
static const int64_t sound[N][DEGREE] = {{1, 2, NONE},    {2, NONE, NONE}, {3, 0, NONE},
                                         {4, NONE, NONE}, {5, 1, 2},       {0, NONE, NONE}};

struct small {
    uint32_t slots[N * DEGREE], entries[1];
    struct graph graph;
};

static void small_make(struct small *small) {
    for (int64_t i = 0; i < N * DEGREE; i++) small->slots[i] = (uint32_t)sound[i / DEGREE][i % DEGREE];
    small->entries[0] = 3;
    small->graph =
        (struct graph){.neighbours = small->slots, .n = N, .degree = DEGREE, .entries = small->entries, .entry_count = 1};
}

static void expect_fault(struct small *small, const char *says) {
    assert_int_equal(graph_check(&small->graph, &mem_default, "here", NULL), VIC_FORMAT);
    if (!strstr(vic_last_error(), says)) fail_msg("expected \"%s\", found \"%s\"", says, vic_last_error());
}

static void GRB_05_the_checker_names_row_and_slot(void **state) {
    (void)state;
    struct small small;
    small_make(&small);
    must(graph_check(&small.graph, &mem_default, "here", NULL));
    small.slots[4 * DEGREE + 2] = 5;
    expect_fault(&small, "found 5 again in row 4, slot 2");
    small_make(&small);
    small.slots[2 * DEGREE + 1] = 2;
    expect_fault(&small, "another row below 6, found 2 in row 2, slot 1");
    small_make(&small);
    small.slots[3 * DEGREE] = N;
    expect_fault(&small, "found 6 in row 3, slot 0");
    small_make(&small);
    small.slots[1 * DEGREE + 2] = 4;
    expect_fault(&small, "found 4 in row 1, slot 2");
    small_make(&small);
    small.slots[4 * DEGREE] = 0; /* the only way to 5 */
    expect_fault(&small, "found row 5 and 0 others");
    small_make(&small);
    small.entries[0] = N;
    expect_fault(&small, "section entry");
    small_make(&small);
    small.graph.entry_count = 0;
    expect_fault(&small, "found none");
}

static void the_report_counts_degrees_and_edges_that_go_both_ways(void **state) {
    (void)state;
    struct small small;
    struct graph_report report;
    small_make(&small);
    must(graph_check(&small.graph, &mem_default, "here", &report));
    assert_int_equal(report.rows, N);
    assert_int_equal(report.edges, 10);
    assert_int_equal(report.symmetric, 2); /* 0 and 2 */
    assert_int_equal(report.least_degree, 1);
    assert_int_equal(report.most_degree, 3);
    assert_int_equal(report.histogram[1], 3);
    assert_int_equal(report.histogram[2], 2);
    assert_int_equal(report.histogram[3], 1);
    assert_int_equal(report.unreached, 0);
}

/* Edges cut by hand at every degree: all rows are reached again, and none of the judge's rules is broken. */
static void a_repair_reaches_every_row_at_any_degree(void **state) {
    (void)state;
    static const int32_t degrees[] = {1, 2, 3, 16};
    struct vic_device *device = device_of(2);
    float *rows = copies_random(5, 900, 8, 500);
    struct data data = {rows, 900, 8, VIC_F32, VIC_L2, NULL};
    for (int d = 0; d < 4; d++) {
        struct vic_index *index = graph_of(device, &data, degrees[d], 20);
        struct graph *graph = &index->graph;
        uint32_t *slots = graph->own_neighbours;
        struct graph_report report;
        for (int64_t i = 0; i < graph->n * graph->degree; i++)
            if (i / graph->degree % 3 == 0) slots[i] = slot_unused;
        assert_int_equal(graph_check(graph, &device->host, "cut", &report), VIC_FORMAT);
        int64_t lost = report.unreached;
        assert_true(lost > 0);
        graph->repairs = 0;
        must(graph_repair(device->host_ops->pool(device->host_backend), graph, NULL));
        must(graph_check(graph, &device->host, "repaired", NULL));
        assert_true(graph->repairs > 0 && graph->repairs <= lost);
        vic_index_free(index);
    }
    free(rows);
    vic_device_free(device);
}

static struct blob graph_blob(struct vic_device *device, const char *name) {
    float *rows = copies_random(6, 300, 8, 300);
    struct data data = {rows, 300, 8, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = graph_of(device, &data, 8, 20);
    must(vic_index_save(index, scratch_path(name), NULL));
    vic_index_free(index);
    free(rows);
    return blob_read(scratch_path(name));
}

/* Every slot of a graph replaced by anything: opening succeeds, walks end, a check names the section. */
static void a_graph_of_random_slots_is_harmless_and_found_by_a_check(void **state) {
    (void)state;
    struct vic_device *device = device_of(1);
    struct blob blob = graph_blob(device, "slots.vic");
    struct random random = {9};
    size_t bytes = 0;
    unsigned char *slots = section_bytes(&blob, "graph", &bytes);
    for (size_t i = 0; i < bytes; i++)
        slots[i] = (unsigned char)(random_next(&random) & (i % 4 < 2 ? 255 : random_below(&random, 8) ? 0 : 255));
    page_seal(&blob);
    blob_found_by_check(device, &blob, "section graph");
    struct vic_index *index = NULL;
    must(blob_open(device, &blob, 0, &index));
    float query[8] = {1};
    int64_t ids[20];
    float scores[20];
    struct data data = {NULL, 300, 8, VIC_F32, VIC_L2, NULL};
    graph_ask(index, &data, query, 1, 20, 50, 1, ids, scores);
    for (int i = 0; i < 20; i++) assert_in_range(ids[i] + 1, 0, 300);
    vic_index_free(index);
    blob_free(&blob);
    vic_device_free(device);
}

static void sections_of_the_wrong_size_are_refused(void **state) {
    (void)state;
    struct vic_device *device = device_of(1);
    static const unsigned char zeros[300 * 4 * 513];
    static const size_t graph_sizes[] = {0, 4, 300 * 4 - 4, 300 * 4 + 4, 300 * 4 * 513}, entry_sizes[] = {0, 3, 257 * 4};
    for (int i = 0; i < 5; i++) {
        struct blob blob = graph_blob(device, "sizes.vic");
        section_replace(&blob, "graph", zeros, graph_sizes[i]);
        page_seal(&blob);
        blob_refused(device, &blob, VIC_FORMAT, "section graph");
        blob_free(&blob);
    }
    for (int i = 0; i < 3; i++) {
        struct blob blob = graph_blob(device, "sizes.vic");
        section_replace(&blob, "entry", zeros, entry_sizes[i]);
        page_seal(&blob);
        blob_refused(device, &blob, VIC_FORMAT, "section entry");
        blob_free(&blob);
    }
    vic_device_free(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(GRB_05_the_checker_names_row_and_slot),
        cmocka_unit_test(the_report_counts_degrees_and_edges_that_go_both_ways),
        cmocka_unit_test(a_repair_reaches_every_row_at_any_degree),
        cmocka_unit_test(a_graph_of_random_slots_is_harmless_and_found_by_a_check),
        cmocka_unit_test(sections_of_the_wrong_size_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
