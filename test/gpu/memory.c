/* Device memory: planned, held to a budget, given back, and a failure at any allocation leaves what was there working. */
#include "gpu/pair.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum { DIM = 64 };

static size_t free_bytes(void) {
    size_t left = 0, total = 0;
    cuda_must(cudaDeviceSynchronize());
    cuda_must(cudaMemGetInfo(&left, &total));
    return left;
}

static struct vic_device *device_of_bytes(uint64_t device_bytes) {
    struct vic_device *device = NULL;
    struct vic_device_options options = {.size = sizeof options, .name = "cuda", .device_bytes = device_bytes};
    must(vic_device_open(&options, &device));
    return device;
}

static enum vic_status build_on(struct vic_device *device, const struct data *data, struct vic_index **index) {
    struct vic_matrix rows = matrix_of(data->rows, data->n, data->dim, data->dtype);
    struct vic_build_options options = {.size = sizeof options, .metric = data->metric, .planes = VIC_PLANES_NONE};
    return vic_index_build(device, &rows, &options, index);
}

static struct vic_device_info info_of(const struct vic_device *device) {
    struct vic_device_info info = {.size = sizeof info};
    must(vic_device_info(device, &info));
    return info;
}

static void a_thousand_searches_leave_the_free_memory_as_it_was(void **state) {
    (void)state;
    struct data data = data_make(1, 10000, DIM, VIC_F32, VIC_DOT, VALUES_UNIT);
    struct pair pair = pair_build(&data);
    struct vic_matrix one = matrix_of(data.rows, 1, DIM, VIC_F32), many = matrix_of(data.rows, 50, DIM, VIC_F32);
    struct answer answer = answer_make(50, 3000);
    struct vic_hits hits = answer_hits(&answer);
    size_t before = 0;
    for (int turn = 0; turn < 1001; turn++) {
        must(vic_index_search(pair.gpu, turn % 5 ? &one : &many, turn % 7 ? 10 : 3000, NULL, &hits));
        if (turn == 0) before = free_bytes();
    }
    assert_int_equal(free_bytes(), before);
    answer_free(&answer);
    pair_free(&pair);
    free(data.rows);
}

static void everything_is_given_back_with_the_index(void **state) {
    (void)state;
    struct data data = data_make(2, 30000, DIM, VIC_F32, VIC_COSINE, VALUES_UNIT);
    struct vic_index *index = NULL;
    struct vic_device *device = device_of_bytes(0);
    for (int turn = 0; turn < 3; turn++) {
        must(build_on(device, &data, &index));
        assert_true(info_of(device).device_used > 30000 * DIM * 4);
        vic_index_free(index);
        assert_int_equal(info_of(device).device_used, 0);
    }
    vic_device_free(device);
    free(data.rows);
}

/* MEM-05: beside the rows, a small index holds little. */
static void MEM_05_a_small_index_takes_little_device_memory(void **state) {
    (void)state;
    struct data data = data_make(3, 1000, DIM, VIC_F32, VIC_DOT, VALUES_UNIT);
    struct vic_index *index = NULL;
    struct vic_device *device = device_of_bytes(0);
    size_t before = free_bytes();
    must(build_on(device, &data, &index));
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    assert_true(info.device_bytes > 0 && info.device_bytes >= info_of(device).device_used);
    assert_true(before - free_bytes() <= (64 << 20));
    vic_index_free(index);
    vic_device_free(device);
    free(data.rows);
}

/* MEM-01 and every budget up to the plan's: each is refused at another allocation, and what was open goes on. */
static void every_budget_below_the_plan_is_refused_and_nothing_is_left(void **state) {
    (void)state;
    struct data data = data_make(4, 20000, DIM, VIC_F32, VIC_COSINE, VALUES_UNIT);
    struct pair pair = pair_build(&data);
    struct vic_matrix one = matrix_of(data.rows, 1, DIM, VIC_F32);
    struct vic_build_options options = {.size = sizeof options, .metric = VIC_COSINE, .planes = VIC_PLANES_NONE};
    struct vic_plan plan = {.size = sizeof plan};
    must(vic_index_plan(device_gpu(), data.n, DIM, &options, &plan));
    assert_true(plan.device_bytes > 20000 * DIM * 4);
    for (int part = 1; part <= 24; part++) {
        struct vic_device *device = device_of_bytes(plan.device_bytes * (uint64_t)part / 24);
        struct vic_index *index = NULL;
        enum vic_status status = build_on(device, &data, &index);
        assert_int_equal(status, part < 24 ? VIC_BUDGET : VIC_OK);
        if (status == VIC_OK) vic_index_free(index);
        assert_int_equal(info_of(device).device_used, 0);
        vic_device_free(device);
        pair_check(&pair, &one, 10, 0, NULL, 0);
    }
    pair_free(&pair);
    free(data.rows);
}

/* The GPU itself has no more: an error, and both an open index and the context still work. */
static void a_full_gpu_is_an_error_and_no_more(void **state) {
    (void)state;
    struct data data = data_make(5, 200000, DIM, VIC_F32, VIC_DOT, VALUES_UNIT);
    struct pair pair = pair_build(&data);
    struct vic_matrix one = matrix_of(data.rows, 1, DIM, VIC_F32);
    struct vic_device *device = device_of_bytes(0);
    struct vic_index *index = NULL;
    for (size_t left = 1 << 20; left <= (size_t)130 << 20; left += (size_t)16 << 20) {
        void *ballast = NULL;
        size_t page = 2 << 20, bytes = (free_bytes() - left) / page * page;
        while (cudaMalloc(&ballast, bytes) == cudaErrorMemoryAllocation) bytes -= page;
        (void)cudaGetLastError();
        assert_non_null(ballast);
        enum vic_status status = build_on(device, &data, &index);
        if (status == VIC_OK)
            vic_index_free(index);
        else
            assert_int_equal(status, VIC_NO_MEMORY);
        assert_true(left > 1 << 20 || status != VIC_OK);
        pair_check(&pair, &one, 10, 0, NULL, 0);
        cuda_must(cudaFree(ballast));
        assert_int_equal(cudaGetLastError(), cudaSuccess);
    }
    must(build_on(device, &data, &index));
    vic_index_free(index);
    vic_device_free(device);
    pair_free(&pair);
    free(data.rows);
}

/* CON-06: the child gets one sentence, the parent does not notice. */
static void CON_06_a_child_after_fork_is_refused_by_name(void **state) {
    (void)state;
    struct data data = data_make(6, 1000, DIM, VIC_F32, VIC_DOT, VALUES_UNIT);
    struct pair pair = pair_build(&data);
    struct vic_matrix one = matrix_of(data.rows, 1, DIM, VIC_F32);
    pair_check(&pair, &one, 10, 0, NULL, 0);
    pid_t child = fork();
    if (child == 0) {
        struct answer answer = answer_make(1, 10);
        struct vic_hits hits = answer_hits(&answer);
        bool refused = vic_index_search(pair.gpu, &one, 10, NULL, &hits) == VIC_FORKED;
        bool named = strstr(vic_last_error(), "fork") != NULL,
             works = vic_index_search(pair.cpu, &one, 10, NULL, &hits) == VIC_OK;
        vic_index_free(pair.gpu);
        _exit(refused && named && works ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    pair_check(&pair, &one, 10, 0, NULL, 0);
    pair_free(&pair);
    free(data.rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_searches_leave_the_free_memory_as_it_was),
        cmocka_unit_test(everything_is_given_back_with_the_index),
        cmocka_unit_test(MEM_05_a_small_index_takes_little_device_memory),
        cmocka_unit_test(every_budget_below_the_plan_is_refused_and_nothing_is_left),
        cmocka_unit_test(a_full_gpu_is_an_error_and_no_more),
        cmocka_unit_test(CON_06_a_child_after_fork_is_refused_by_name),
    };
    if (!devices_begin()) return SKIPPED;
    int failed = cmocka_run_group_tests_name("gpu/memory", tests, NULL, NULL);
    devices_end();
    return failed;
}
