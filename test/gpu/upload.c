/* How far rows are on their way to the GPU: told in order, from the thread that asked, once at the end; and a wish to stop, in
 * the middle or at the end, gives everything back. */
#include "gpu/pair.h"
#include "support/scratch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* One thread copies 3 GiB in no less than two tenths of a second, whatever its memory: there is always a report between the
 * first row and the last. */
static const int64_t large_n = 3 << 20, large_dim = 1024;

enum stop { STOP_NEVER, STOP_AT_ONCE, STOP_AT_THE_END };

struct hearer {
    int64_t n;
    enum stop stop;
    pthread_t caller;
    int64_t reports, last, ends; /* of the stage "uploading" */
    bool stopped, wrong;
};

static int hear(void *user, const struct vic_progress_state *state) {
    struct hearer *hearer = user;
    hearer->wrong |= hearer->stopped || !pthread_equal(hearer->caller, pthread_self());
    if (strcmp(state->stage, "uploading") != 0) {
        hearer->wrong |= hearer->reports > 0; /* it is the last stage */
        return 0;
    }
    hearer->wrong |= state->total != hearer->n || state->done <= hearer->last || state->done > hearer->n;
    hearer->last = state->done;
    hearer->reports++;
    hearer->ends += state->done == state->total;
    hearer->stopped = hearer->stop == STOP_AT_ONCE || (hearer->stop == STOP_AT_THE_END && state->done == state->total);
    return hearer->stopped;
}

static struct hearer hearer_make(int64_t n, enum stop stop) {
    return (struct hearer){.n = n, .stop = stop, .caller = pthread_self()};
}

static uint64_t device_used(const struct vic_device *device) {
    struct vic_device_info info = {.size = sizeof info};
    must(vic_device_info(device, &info));
    return info.device_used;
}

static int64_t free_bytes(void) {
    size_t left = 0, total = 0;
    cuda_must(cudaDeviceSynchronize());
    cuda_must(cudaMemGetInfo(&left, &total));
    return (int64_t)left;
}

static enum vic_status large_build(struct vic_device *device, const void *rows, struct hearer *hearer,
                                   struct vic_index **index) {
    struct vic_matrix matrix = matrix_of(rows, large_n, large_dim, VIC_U8);
    struct vic_build_options options = {.size = sizeof options, .metric = VIC_DOT, .progress = {hear, hearer}};
    return vic_index_build(device, &matrix, &options, index);
}

/* The last row is the best for this question, and no other row has its score. */
static void the_last_row_is_found(const struct vic_index *index) {
    uint8_t query[1024];
    int64_t ids[2];
    float scores[2];
    memset(query, 1, sizeof query);
    struct vic_matrix one = matrix_of(query, 1, large_dim, VIC_U8);
    must(vic_index_search(index, &one, 2, NULL, &(struct vic_hits){.ids = ids, .scores = scores}));
    assert_true(ids[0] == large_n - 1 && scores[0] == 200.0f * 1024);
    assert_true(ids[1] == 0 && scores[1] == 100.0f * 1024);
}

static void an_upload_is_told_in_order_and_stopped_anywhere_keeps_nothing(void **state) {
    (void)state;
    size_t bytes = (size_t)(large_n * large_dim), row_bytes = (size_t)large_dim;
    uint8_t *rows = take(bytes);
    memset(rows, 100, bytes - row_bytes);
    memset(rows + bytes - row_bytes, 200, row_bytes);
    struct vic_device_options options = {.size = sizeof options, .name = "cuda", .threads = 1};
    struct vic_device *device = NULL;
    must(vic_device_open(&options, &device));
    int64_t before = free_bytes();
    for (enum stop stop = STOP_AT_ONCE; stop <= STOP_AT_THE_END; stop++) {
        struct hearer hearer = hearer_make(large_n, stop);
        struct vic_index *index = NULL;
        assert_int_equal(large_build(device, rows, &hearer, &index), VIC_CANCELLED);
        assert_non_null(strstr(vic_last_error(), "uploading"));
        assert_null(index);
        assert_true(hearer.stopped && !hearer.wrong);
        assert_int_equal(hearer.ends, stop == STOP_AT_THE_END);
        assert_int_equal(device_used(device), 0);
        assert_true(before - free_bytes() <= (64 << 20)); /* kernels that were loaded; the rows are 3 GiB */
    }
    struct hearer hearer = hearer_make(large_n, STOP_NEVER);
    struct vic_index *index = NULL;
    must(large_build(device, rows, &hearer, &index));
    assert_true(hearer.reports >= 2 && hearer.ends == 1 && hearer.last == large_n && !hearer.wrong);
    the_last_row_is_found(index);
    vic_index_free(index);
    vic_device_free(device);
    free(rows);
}

static void opening_a_file_tells_of_its_upload_and_can_be_stopped(void **state) {
    (void)state;
    struct data data = data_make(9, 3000, 40, VIC_F32, VIC_COSINE, VALUES_UNIT);
    struct pair pair = pair_build(&data);
    struct vic_matrix some = matrix_of(data.rows, 5, 40, VIC_F32);
    must(vic_index_save(pair.cpu, scratch_path("index"), NULL));
    vic_index_free(pair.gpu);
    uint64_t used = device_used(device_gpu());
    for (enum stop stop = STOP_NEVER; stop <= STOP_AT_THE_END; stop++) {
        struct hearer hearer = hearer_make(data.n, stop);
        struct vic_open_options options = {.size = sizeof options, .progress = {hear, &hearer}};
        pair.gpu = NULL;
        assert_int_equal(vic_index_open(device_gpu(), scratch_path("index"), &options, &pair.gpu),
                         stop == STOP_NEVER ? VIC_OK : VIC_CANCELLED);
        assert_true(hearer.reports >= 1 && !hearer.wrong);
        if (stop == STOP_NEVER) {
            assert_true(hearer.ends == 1 && hearer.last == data.n);
            pair_check(&pair, &some, 10, 0, NULL, 0);
            vic_index_free(pair.gpu);
        } else {
            assert_null(pair.gpu);
        }
        assert_int_equal(device_used(device_gpu()), used);
    }
    vic_index_free(pair.cpu);
    free(data.rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_upload_is_told_in_order_and_stopped_anywhere_keeps_nothing),
        cmocka_unit_test_setup_teardown(opening_a_file_tells_of_its_upload_and_can_be_stopped, scratch_open, scratch_close),
    };
    if (!devices_begin()) return SKIPPED;
    int failed = cmocka_run_group_tests_name("gpu/upload", tests, NULL, NULL);
    devices_end();
    return failed;
}
