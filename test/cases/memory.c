/* MEM: budgets, and large work in little memory. Public cases, distilled from bug reports of this field. */
#include "support/counting.h"
#include "support/hits.h"
#include "support/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void MEM_01_half_the_memory_needed_is_refused_with_both_numbers(void **state) {
    (void)state;
    enum { N = 100000, DIM = 128 };
    float *values = values_random(1, N * DIM);
    struct vic_matrix rows = matrix_of(values, N, DIM, VIC_F32);
    struct vic_build_options options = {.size = sizeof options, .metric = VIC_COSINE, .planes = VIC_PLANES_NONE};
    struct vic_plan plan = {.size = sizeof plan};
    struct counting counting = {0};
    struct vic_device *device = device_within(0, 2, &counting);
    must(vic_index_plan(device, N, DIM, &options, &plan));
    struct vic_index *saved = NULL;
    must(vic_index_build(device, &rows, &options, &saved));
    must(vic_index_save(saved, scratch_path("index"), NULL));
    vic_index_free(saved);
    vic_device_free(device);

    uint64_t half = plan.host_bytes / 2;
    device = device_within(half, 2, &counting);
    int64_t blocks = atomic_load(&counting.live_blocks), requests = atomic_load(&counting.requests);
    struct vic_index *index = NULL;
    assert_int_equal(vic_index_build(device, &rows, &options, &index), VIC_BUDGET);
    assert_true(error_says_number(half) && error_says_number(plan.host_bytes));
    assert_null(index);
    assert_int_equal(atomic_load(&counting.requests), requests);
    /* a mapped index needs its workspaces alone */
    must(vic_index_open(device, scratch_path("index"), NULL, &index));
    vic_index_free(index);
    assert_int_equal(atomic_load(&counting.live_blocks), blocks);
    vic_device_free(device);

    device = device_within(plan.workspace_bytes / 2, 2, &counting);
    index = NULL;
    blocks = atomic_load(&counting.live_blocks);
    assert_int_equal(vic_index_open(device, scratch_path("index"), NULL, &index), VIC_BUDGET);
    assert_true(error_says_number(plan.workspace_bytes / 2));
    assert_null(index);
    assert_int_equal(atomic_load(&counting.live_blocks), blocks);
    vic_device_free(device);
    assert_int_equal(atomic_load(&counting.live_bytes), 0);
    free(values);
}

/* 12 MiB of workspaces and a row's 8 bytes are all that a search has, however many queries there are. */
static void MEM_03_a_hundred_thousand_queries_in_a_fixed_workspace(void **state) {
    (void)state;
    enum { N = 4000, DIM = 64, NQ = 100000, K = 10 };
    float *values = values_random(3, N * DIM), *queries = values_random(4, 1000 * DIM), *many = take(NQ * DIM * 4L);
    for (int64_t j = 0; j < NQ; j++) memcpy(many + j * DIM, queries + j % 1000 * DIM, DIM * 4);
    struct counting counting = {0};
    struct vic_device *device = device_within(64 << 20, 2, &counting);
    struct data data = {values, N, DIM, VIC_F32, VIC_DOT, NULL};
    struct vic_index *index = index_with_planes(device, &data, VIC_PLANES_NONE);
    struct order order = order_of(&data, queries, 20, VIC_F32);
    int64_t *ids = take(NQ * K * 8L), *small_ids = take(1000 * K * 8), requests = atomic_load(&counting.requests);
    float *scores = take(NQ * K * 4L), *small_scores = take(1000 * K * 4);
    for (int64_t j = 0; j < 1000; j += 10) {
        struct vic_matrix ten = matrix_of(queries + j * DIM, 10, DIM, VIC_F32);
        struct vic_hits hits = {.ids = small_ids + j * K, .scores = small_scores + j * K};
        must(vic_index_search(index, &ten, K, NULL, &hits));
    }
    for (int64_t j = 0; j < 20; j++) order_check_hits(&order, j, K, small_ids + j * K, small_scores + j * K, K);
    struct vic_matrix all = matrix_of(many, NQ, DIM, VIC_F32);
    struct vic_hits hits = {.ids = ids, .scores = scores};
    must(vic_index_search(index, &all, K, NULL, &hits));
    for (int64_t j = 0; j < NQ; j += 1000) {
        assert_memory_equal(ids + j * K, small_ids, 1000 * K * 8);
        assert_memory_equal(scores + j * K, small_scores, 1000 * K * 4);
    }
    assert_int_equal(atomic_load(&counting.requests), requests);
    vic_index_free(index);
    vic_device_free(device);
    order_free(&order);
    free(values);
    free(queries);
    free(many);
    free(ids);
    free(scores);
    free(small_ids);
    free(small_scores);
}

static void MEM_04_each_refused_request_leaves_an_index_that_answers(void **state) {
    (void)state;
    enum { N = 500, DIM = 9 };
    float *values = values_random(5, N * DIM), *query = values_random(6, DIM);
    struct data data = {values, N, DIM, VIC_F32, VIC_L2, NULL};
    struct order order = order_of(&data, query, 1, VIC_F32);
    struct counting counting = {0};
    struct vic_device *device = device_within(0, 2, &counting);
    struct vic_index *index = index_of(device, &data);
    for (int64_t n = 1;; n++) {
        struct vic_index *other = NULL;
        struct vic_filter *filter = NULL;
        struct vic_matrix rows = matrix_of(values, N, DIM, VIC_F32);
        int64_t blocks = atomic_load(&counting.live_blocks), refused = atomic_load(&counting.refused);
        counting.fail_at = atomic_load(&counting.requests) + n;
        enum vic_status build = vic_index_build(device, &rows, NULL, &other);
        enum vic_status create = vic_filter_create(index, NULL, 0, NULL, &filter);
        expect_oracle(index, &order, 20); /* asks for nothing and so is never refused */
        vic_filter_free(filter);
        vic_index_free(other);
        assert_int_equal(atomic_load(&counting.live_blocks), blocks);
        if (atomic_load(&counting.refused) == refused) break;
        assert_true(build == VIC_NO_MEMORY || create == VIC_NO_MEMORY);
    }
    vic_index_free(index);
    vic_device_free(device);
    assert_int_equal(atomic_load(&counting.live_bytes), 0);
    order_free(&order);
    free(values);
    free(query);
}

/* Everything for many queries at once: larger than any workspace, so that it is done one query at a time. */
static void MEM_07_all_rows_for_many_queries(void **state) {
    (void)state;
    enum { N = 150000, DIM = 8, NQ = 16 };
    float *values = values_random(7, N * DIM), *queries = values_random(8, NQ * DIM);
    struct counting counting = {0};
    struct vic_device *device = device_within(40 << 20, 2, &counting);
    struct data data = {values, N, DIM, VIC_F32, VIC_DOT, NULL};
    struct vic_index *index = index_with_planes(device, &data, VIC_PLANES_NONE);
    int64_t *ids = take(NQ * N * 8L), *alone = take(N * 8L), requests = atomic_load(&counting.requests);
    float *scores = take(NQ * N * 4L), *alone_scores = take(N * 4L);
    struct vic_matrix all = matrix_of(queries, NQ, DIM, VIC_F32);
    struct vic_hits hits = {.ids = ids, .scores = scores}, one = {.ids = alone, .scores = alone_scores};
    must(vic_index_search(index, &all, N, NULL, &hits));
    for (int64_t j = 0; j < NQ; j++) {
        struct vic_matrix query = matrix_of(queries + j * DIM, 1, DIM, VIC_F32);
        must(vic_index_search(index, &query, N, NULL, &one));
        assert_memory_equal(ids + j * N, alone, N * 8L);
        assert_memory_equal(scores + j * N, alone_scores, N * 4L);
    }
    struct order order = order_of(&data, queries, 1, VIC_F32);
    order_check_hits(&order, 0, N, ids, scores, N);
    assert_int_equal(atomic_load(&counting.requests), requests);
    order_free(&order);
    vic_index_free(index);
    vic_device_free(device);
    free(values);
    free(queries);
    free(ids);
    free(alone);
    free(scores);
    free(alone_scores);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(MEM_01_half_the_memory_needed_is_refused_with_both_numbers),
        cmocka_unit_test(MEM_03_a_hundred_thousand_queries_in_a_fixed_workspace),
        cmocka_unit_test(MEM_04_each_refused_request_leaves_an_index_that_answers),
        cmocka_unit_test(MEM_07_all_rows_for_many_queries),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
