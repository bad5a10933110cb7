/* GRB: building graphs. Public cases, distilled from bug reports of this field. */
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

/* The recall of its own first rows as queries. */
static double own_recall(const struct data *data, int32_t degree, int32_t beam, int64_t nq, int64_t k, int32_t search_beam) {
    struct vic_index *index = graph_of(test_device, data, degree, beam);
    double recall = graph_recall(index, data, data->rows, nq, k, search_beam);
    vic_index_free(index);
    return recall;
}

static void GRB_01_few_rows_with_a_large_degree(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 2, 3, 5, 10, 20, 255, 256, 257};
    for (int32_t threads = 1; threads <= 64; threads += 63) {
        struct vic_device *own = device_of(threads);
        for (int c = 0; c < 9; c++) {
            int64_t n = counts[c];
            float *rows = copies_random((uint64_t)n, n, 10, n);
            struct data data = {rows, n, 10, VIC_F32, VIC_L2, NULL};
            struct vic_index *index = graph_of(own, &data, 60, 0);
            assert_true(graph_recall(index, &data, rows, n < 20 ? n : 20, n, (int32_t)n) == 1);
            vic_index_free(index);
            free(rows);
        }
        vic_device_free(own);
    }
}

static void GRB_02_a_degree_near_the_number_of_rows(void **state) {
    (void)state;
    for (int64_t dim = 16; dim <= 128; dim += 112) {
        float *rows = copies_random(2, 101, dim, 101);
        struct data data = {rows, 101, dim, VIC_F32, VIC_L2, NULL};
        assert_true(own_recall(&data, 64, 0, 101, 10, 101) == 1);
        free(rows);
    }
}

static void GRB_04_degrees_of_one_and_of_more_than_there_are_rows(void **state) {
    (void)state;
    static const int32_t shapes[][3] = {{50, 1, 100}, {50, 512, 100}, {1000, 64, 64}, {1000, 64, 32}};
    for (int s = 0; s < 4; s++) {
        int64_t n = shapes[s][0];
        float *rows = copies_random(4, n, 12, n);
        struct data data = {rows, n, 12, VIC_F32, VIC_COSINE, NULL};
        struct vic_index *index = graph_of(test_device, &data, shapes[s][1], shapes[s][2]);
        struct vic_index_info info = {.size = sizeof info};
        must(vic_index_info(index, &info));
        assert_int_equal(info.degree, shapes[s][1]);
        assert_true(graph_recall(index, &data, rows, 50, 10, (int32_t)n) == 1);
        vic_index_free(index);
        free(rows);
    }
}

static void GRB_06_copies_do_not_hide_what_lies_beside_them(void **state) {
    (void)state;
    static const float seconds[] = {1, 1, 1, 1, 1, 1, 1, 1, 2, 2.25f, 1.75f};
    static const float right[] = {0.015625f, 0.015625f, 0.140625f, 1.265625f, 1.265625f};
    float rows[11][4], query[4] = {2.125f, 1, 1, 1}, scores[5];
    int64_t ids[5];
    for (int i = 0; i < 11; i++)
        for (int j = 0; j < 4; j++) rows[i][j] = j == 0 ? seconds[i] : 1;
    struct data data = {rows, 11, 4, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = graph_of(test_device, &data, 8, 8);
    graph_ask(index, &data, query, 1, 5, 8, 1, ids, scores);
    assert_memory_equal(scores, right, sizeof right);
    assert_true(ids[0] == 8 && ids[1] == 9 && ids[2] == 10 && ids[3] < 8 && ids[4] < 8);
    vic_index_free(index);
}

static void GRB_07_a_thousand_copies_of_one_point(void **state) {
    (void)state;
    enum { N = 10000, COPIES = 1000, DIM = 32, NQ = 200 };
    float *rows = copies_random(7, N + COPIES, DIM, N), *queries = copies_random(8, NQ, DIM, NQ);
    struct data without = {rows, N, DIM, VIC_F32, VIC_L2, NULL}, with = {rows, N + COPIES, DIM, VIC_F32, VIC_L2, NULL};
    for (int64_t i = N; i < N + COPIES; i++) memcpy(rows + i * DIM, rows, DIM * sizeof *rows);
    struct vic_index *plain = graph_of(test_device, &without, 32, 64), *copied = graph_of(test_device, &with, 32, 64);
    double expected = graph_recall(plain, &without, queries, NQ, 10, 64),
           found = graph_recall(copied, &with, queries, NQ, 10, 64);
    assert_true(found > expected - 0.01);
    vic_index_free(copied), vic_index_free(plain);
    free(queries), free(rows);
}

static void GRB_08_a_quarter_of_copies(void **state) {
    (void)state;
    float *rows = copies_random(9, 10000, 32, 7500);
    struct data data = {rows, 10000, 32, VIC_F32, VIC_L2, NULL};
    for (int32_t threads = 1; threads <= 16; threads += 15) {
        struct vic_device *own = device_of(threads);
        struct vic_index *index = graph_of(own, &data, 32, 64); /* every row is reached, or this fails */
        struct vic_index_info info = {.size = sizeof info};
        must(vic_index_info(index, &info));
        assert_in_range(info.repairs, 0, 2500);
        vic_index_free(index);
        vic_device_free(own);
    }
    free(rows);
}

static void GRB_09_groups_of_copies_under_the_inner_product(void **state) {
    (void)state;
    enum { GROUPS = 5, COPIES = 100, DIM = 8 };
    float *rows = calloc(GROUPS * COPIES * DIM, sizeof *rows);
    assert_non_null(rows);
    for (int i = 0; i < GROUPS * COPIES; i++) rows[i * DIM + i / COPIES] = 1;
    struct data data = {rows, GROUPS * COPIES, DIM, VIC_F32, VIC_DOT, NULL};
    struct vic_index *index = graph_of(test_device, &data, 16, 64);
    for (int64_t group = 0; group < GROUPS; group++) {
        int64_t ids[10];
        float scores[10];
        graph_ask(index, &data, rows + group * COPIES * DIM, 1, 10, 64, 1, ids, scores);
        for (int i = 0; i < 10; i++) assert_true(ids[i] / COPIES == group && scores[i] == 1);
    }
    vic_index_free(index);
    free(rows);
}

static void GRB_10_far_points_beside_a_dense_heap(void **state) {
    (void)state;
    enum { HEAP = 60, FAR = 20, DIM = 32 };
    float *rows = copies_random(10, HEAP + FAR, DIM, HEAP + FAR);
    for (int i = 0; i < (HEAP + FAR) * DIM; i++)
        rows[i] = i < HEAP * DIM ? rows[i] * 1e-5f : i % DIM == i / DIM - HEAP ? 100 : 0;
    struct data data = {rows, HEAP + FAR, DIM, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = graph_of(test_device, &data, 48, 100);
    assert_true(graph_recall(index, &data, rows + HEAP * DIM, FAR, 1, 20) == 1);
    vic_index_free(index);
    free(rows);
}

static void GRB_13_tight_clusters(void **state) {
    (void)state;
    enum { CLUSTERS = 100, EACH = 100, DIM = 16, N = CLUSTERS * EACH };
    struct random random = {13};
    float *centres = copies_random(14, CLUSTERS, DIM, CLUSTERS), *rows = take(N * DIM * sizeof *rows);
    for (int64_t i = 0; i < N * DIM; i++)
        rows[i] = 0.5f * (centres[i / DIM % CLUSTERS * DIM + i % DIM] + 1) + 0.001f * random_normal(&random);
    struct data data = {rows, N, DIM, VIC_F32, VIC_L2, NULL};
    assert_true(own_recall(&data, 64, 100, 1000, 10, 100) >= 0.95);
    free(rows), free(centres);
}

static void GRB_15_norms_far_apart_under_the_inner_product(void **state) {
    (void)state;
    enum { N = 20000, DIM = 64, NQ = 200 };
    struct random random = {15};
    float *rows = take(N * DIM * sizeof *rows), *queries = copies_random(16, NQ, DIM, NQ);
    for (int64_t i = 0; i < N; i++) {
        float square = 0, norm = expf(random_normal(&random));
        for (int64_t j = 0; j < DIM; j++) {
            rows[i * DIM + j] = random_normal(&random);
            square += rows[i * DIM + j] * rows[i * DIM + j];
        }
        for (int64_t j = 0; j < DIM; j++) rows[i * DIM + j] *= norm / sqrtf(square);
    }
    struct data data = {rows, N, DIM, VIC_F32, VIC_DOT, NULL};
    struct vic_index *index = graph_of(test_device, &data, 64, 100);
    assert_true(graph_recall(index, &data, queries, NQ, 10, 200) >= 0.95);
    vic_index_free(index);
    free(queries), free(rows);
}

static void GRB_16_every_row_finds_itself_under_the_inner_product(void **state) {
    (void)state;
    enum { N = 20000, DIM = 64 };
    struct random random = {16};
    float *rows = take(N * DIM * sizeof *rows);
    for (int64_t i = 0; i < N; i++) {
        float square = 0;
        for (int64_t j = 0; j < DIM; j++) {
            rows[i * DIM + j] = random_normal(&random);
            square += rows[i * DIM + j] * rows[i * DIM + j];
        }
        for (int64_t j = 0; j < DIM; j++) rows[i * DIM + j] /= sqrtf(square);
    }
    struct data data = {rows, N, DIM, VIC_F32, VIC_DOT, NULL};
    assert_true(own_recall(&data, 64, 100, N, 1, 64) == 1);
    free(rows);
}

static void GRB_17_the_same_file_for_any_number_of_threads(void **state) {
    (void)state;
    static const int32_t threads[] = {1, 2, 16, 64};
    float *rows = copies_random(17, 20000, 32, 18000);
    struct data data = {rows, 20000, 32, VIC_F32, VIC_L2, NULL};
    struct blob first = {NULL, 0};
    for (int t = 0; t < 4; t++) {
        struct vic_device *own = device_of(threads[t]);
        struct vic_index *index = graph_of(own, &data, 16, 24);
        must(vic_index_save(index, scratch_path("graph"), NULL));
        if (t == 0)
            first = blob_read(scratch_path("graph"));
        else
            assert_true(blob_equals_file(&first, scratch_path("graph")));
        vic_index_free(index);
        vic_device_free(own);
    }
    blob_free(&first);
    free(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(GRB_01_few_rows_with_a_large_degree),
        cmocka_unit_test(GRB_02_a_degree_near_the_number_of_rows),
        cmocka_unit_test(GRB_04_degrees_of_one_and_of_more_than_there_are_rows),
        cmocka_unit_test(GRB_06_copies_do_not_hide_what_lies_beside_them),
        cmocka_unit_test(GRB_07_a_thousand_copies_of_one_point),
        cmocka_unit_test(GRB_08_a_quarter_of_copies),
        cmocka_unit_test(GRB_09_groups_of_copies_under_the_inner_product),
        cmocka_unit_test(GRB_10_far_points_beside_a_dense_heap),
        cmocka_unit_test(GRB_13_tight_clusters),
        cmocka_unit_test(GRB_15_norms_far_apart_under_the_inner_product),
        cmocka_unit_test(GRB_16_every_row_finds_itself_under_the_inner_product),
        cmocka_unit_test(GRB_17_the_same_file_for_any_number_of_threads),
    };
    return cmocka_run_group_tests(tests, place_setup, place_teardown);
}
