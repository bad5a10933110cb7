/* GRB, FMT, SAV: graphs that are saved, opened and damaged. Public cases, distilled from bug reports of this field. */
#include "support/graphs.h"
#include "support/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static struct vic_index *opened(const char *name) {
    const struct vic_open_options check = {.size = sizeof check, .check = 1};
    struct vic_index *index = NULL;
    must(vic_index_open(test_device, scratch_path(name), &check, &index));
    return index;
}

static void GRB_03_three_to_five_rows_are_the_same_after_save_and_open(void **state) {
    (void)state;
    for (int64_t n = 3; n <= 5; n++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
            float *rows = copies_random((uint64_t)n, n, 6, n);
            struct data data = {rows, n, 6, VIC_F32, metric, NULL};
            struct vic_index *built = graph_of(test_device, &data, 0, 0);
            struct order order = order_of(&data, rows, n, VIC_F32);
            int64_t ids[2][25];
            float scores[2][25];
            must(vic_index_save(built, scratch_path("few"), NULL));
            graph_ask(built, &data, rows, n, n, 0, 0, ids[0], scores[0]);
            vic_index_free(built);
            struct vic_index *index = opened("few");
            graph_ask(index, &data, rows, n, n, 0, 0, ids[1], scores[1]);
            assert_memory_equal(ids[0], ids[1], (size_t)(n * n) * 8);
            assert_memory_equal(scores[0], scores[1], (size_t)(n * n) * 4);
            for (int64_t j = 0; j < n; j++) order_check_hits(&order, j, n, ids[1] + j * n, scores[1] + j * n, (int32_t)n);
            order_free(&order);
            vic_index_free(index);
            free(rows);
        }
}

static void SAV_07_a_graph_saved_opened_and_saved_is_the_same_file(void **state) {
    (void)state;
    enum { N = 1200, DIM = 20 };
    static const char *const names[] = {"first", "second", "third"};
    float *rows = copies_random(7, N, DIM, 1000);
    int64_t *given = take(N * sizeof *given), ids[2][50];
    float scores[2][50];
    for (int64_t i = 0; i < N; i++) given[i] = 7 * i + (INT64_C(1) << 40);
    struct data data = {rows, N, DIM, VIC_F32, VIC_COSINE, given};
    struct vic_index *index = graph_of(test_device, &data, 37, 50);
    graph_ask(index, &data, rows, 5, 10, 20, 2, ids[0], scores[0]);
    must(vic_index_save(index, scratch_path(names[0]), NULL));
    struct blob blob = blob_read(scratch_path(names[0]));
    for (int copy = 1; copy < 3; copy++) {
        vic_index_free(index); /* the source, before the copy is used */
        index = opened(names[copy - 1]);
        must(vic_index_save(index, scratch_path(names[copy]), NULL));
        assert_true(blob_equals_file(&blob, scratch_path(names[copy])));
    }
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    assert_string_equal(info.kind, "graph");
    assert_true(info.degree == 37 && info.rows == N && info.has_ids && info.next_id == given[N - 1] + 1);
    graph_ask(index, &data, rows, 5, 10, 20, 2, ids[1], scores[1]);
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    vic_index_free(index);
    blob_free(&blob);
    free(given), free(rows);
}

enum { N = 1000, DIM = 8, DEGREE = 12 };

static struct blob thousand(void) {
    float *rows = copies_random(6, N, DIM, N);
    struct data data = {rows, N, DIM, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = graph_of(test_device, &data, DEGREE, 30);
    must(vic_index_save(index, scratch_path("thousand"), NULL));
    vic_index_free(index);
    free(rows);
    return blob_read(scratch_path("thousand"));
}

/* Opening reads no slot, so it is a check that names it; a search stays within the rows. */
static void FMT_06_a_neighbour_that_is_no_row_is_named_and_never_followed(void **state) {
    (void)state;
    static const uint32_t strangers[] = {1164097742, N, 0x7fffffff, 0x80000000, 0xfffffffe};
    for (size_t s = 0; s < sizeof strangers / sizeof *strangers; s++) {
        struct blob blob = thousand();
        struct vic_index *index = NULL;
        float query[DIM] = {1}, scores[50];
        int64_t ids[50];
        size_t bytes = 0;
        char says[96];
        unsigned char *slots = section_bytes(&blob, "graph", &bytes);
        for (size_t row = 0; row < N; row += 3) /* the row at fault is the first of many */
            memcpy(slots + (row * DEGREE + 1) * 4, &strangers[s], 4);
        page_seal(&blob);
        (void)snprintf(says, sizeof says, "found %u in row 0, slot 1", strangers[s]);
        blob_found_by_check(test_device, &blob, says);
        must(blob_open(test_device, &blob, 0, &index));
        struct data data = {NULL, N, DIM, VIC_F32, VIC_L2, NULL};
        graph_ask(index, &data, query, 1, 50, 100, 4, ids, scores);
        for (int i = 0; i < 50; i++) assert_in_range(ids[i], 0, N - 1);
        vic_index_free(index);
        blob_free(&blob);
    }
}

static void FMT_06_a_graph_of_other_rows_is_refused_with_both_sizes(void **state) {
    (void)state;
    static const unsigned char zeros[N * 128];
    struct blob blob = thousand();
    section_replace(&blob, "graph", zeros, (N - 1) * DEGREE * 4); /* a row fewer than there are vectors */
    page_seal(&blob);
    blob_refused(test_device, &blob, VIC_FORMAT, "each of 1000 rows, found 47952 bytes");
    blob_free(&blob);
    blob = thousand();
    section_replace(&blob, "plane8", zeros, 64 * (N - 1)); /* codes of fewer rows */
    page_seal(&blob);
    blob_refused(test_device, &blob, VIC_FORMAT, "expected 64000 bytes in section plane8, found 63936");
    blob_free(&blob);
    blob = thousand();
    section_replace(&blob, "plane8", zeros, sizeof zeros); /* codes of another dimension */
    page_seal(&blob);
    blob_refused(test_device, &blob, VIC_FORMAT, "expected 64000 bytes in section plane8, found 128000");
    blob_free(&blob);
}

/* A graph's file without its codes: whatever is opened must not walk over what is not there. */
static void a_graph_whose_codes_are_missing_answers_all_the_same(void **state) {
    (void)state;
    struct blob blob = thousand();
    struct vic_index *index = NULL;
    float query[DIM] = {1}, scores[2][10];
    int64_t ids[2][10];
    struct data data = {NULL, N, DIM, VIC_F32, VIC_L2, NULL};
    must(blob_open(test_device, &blob, 1, &index));
    graph_ask(index, &data, query, 1, 10, 40, 1, ids[0], scores[0]);
    vic_index_free(index);
    index = NULL;
    memcpy(blob.bytes + page_entry(&blob, "plane8"), "unknown", 8);
    page_seal(&blob);
    must(blob_open(test_device, &blob, 1, &index));
    graph_ask(index, &data, query, 1, 10, 40, 1, ids[1], scores[1]);
    assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
    assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
    vic_index_free(index);
    blob_free(&blob);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(GRB_03_three_to_five_rows_are_the_same_after_save_and_open),
        cmocka_unit_test(SAV_07_a_graph_saved_opened_and_saved_is_the_same_file),
        cmocka_unit_test(FMT_06_a_neighbour_that_is_no_row_is_named_and_never_followed),
        cmocka_unit_test(FMT_06_a_graph_of_other_rows_is_refused_with_both_sizes),
        cmocka_unit_test(a_graph_whose_codes_are_missing_answers_all_the_same),
    };
    return cmocka_run_group_tests(tests, place_setup, place_teardown);
}
