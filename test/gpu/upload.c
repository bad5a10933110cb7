/* Rows on their way to the GPU, from memory and out of a file: the same bytes; how far they are is told in order, from the
 * thread that asked, once at the end; and a wish to stop, in the middle or at the end, or a file that becomes shorter, gives
 * everything back. */
#include "gpu/pair.h"
#include "support/scratch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static uint8_t *large_rows(void) {
    size_t bytes = (size_t)(large_n * large_dim), row_bytes = (size_t)large_dim;
    uint8_t *rows = take(bytes);
    memset(rows, 100, bytes - row_bytes);
    memset(rows + bytes - row_bytes, 200, row_bytes);
    return rows;
}

static void an_upload_is_told_in_order_and_stopped_anywhere_keeps_nothing(void **state) {
    (void)state;
    uint8_t *rows = large_rows();
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

/* Rows of each type, narrow ones and ones that are scaled among them, with norms and ids that fill several pieces. */
static void rows_out_of_a_file_answer_like_the_cpu_and_like_rows_out_of_memory(void **state) {
    (void)state;
    static int64_t ids[40000];
    for (int64_t i = 0; i < 40000; i++) ids[i] = 5 * i + 3;
    for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
            enum values values = metric == VIC_COSINE && dtype == VIC_BF16 ? VALUES_WILD : VALUES_SMALL_INT;
            struct data data = data_make(7, 40000, 19, dtype, metric, values);
            data.ids = metric == VIC_DOT ? NULL : ids;
            struct pair memory = pair_build(&data), file = memory;
            struct vic_matrix some = matrix_of(data.rows, 20, 19, dtype);
            must(vic_index_save(memory.cpu, scratch_path("index"), NULL));
            must(vic_index_open(device_gpu(), scratch_path("index"), NULL, &file.gpu));
            assert_int_equal(unlink(scratch_path("index")), 0); /* nothing is read any more */
            pair_check(&memory, &some, 50, 0, NULL, 0);
            pair_check(&file, &some, 50, 0, NULL, 0);
            pair_check_score(&file, &some, ids, 40000 / 5 / 20);
            vic_index_free(file.gpu);
            pair_free(&memory);
            free(data.rows);
        }
}

/* At the end of the stage before it, or at its own first report. */
struct shortener {
    const char *stage;
    off_t bytes;
    bool done;
};

static int shorten(void *user, const struct vic_progress_state *state) {
    struct shortener *shortener = user;
    bool now = strcmp(state->stage, shortener->stage) == 0;
    if (now && strcmp(state->stage, "uploading") != 0) now = state->done == state->total;
    if (now && !shortener->done) {
        assert_int_equal(truncate(scratch_path("index"), shortener->bytes), 0);
        shortener->done = true;
    }
    return 0;
}

static void shortened(struct vic_device *device, struct shortener shortener) {
    struct vic_open_options options = {.size = sizeof options, .check = strcmp(shortener.stage, "uploading") != 0};
    struct vic_index *index = NULL;
    options.progress = (struct vic_progress){shorten, &shortener};
    uint64_t used = device_used(device);
    assert_int_equal(vic_index_open(device, scratch_path("index"), &options, &index), VIC_IO);
    assert_true(shortener.done);
    assert_null(index);
    assert_non_null(strstr(vic_last_error(), scratch_path("index")));
    assert_non_null(strstr(vic_last_error(), "ends by byte"));
    assert_int_equal(device_used(device), used);
}

static void a_file_that_becomes_shorter_before_its_upload_is_an_error(void **state) {
    (void)state;
    static const off_t lengths[] = {0, 100000, 400000};
    struct data data = data_make(9, 3000, 40, VIC_F32, VIC_COSINE, VALUES_UNIT); /* 480,000 bytes, then norms */
    struct pair pair = pair_build(&data);
    struct vic_matrix some = matrix_of(data.rows, 5, 40, VIC_F32);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        must(vic_index_save(pair.cpu, scratch_path("index"), NULL));
        shortened(device_gpu(), (struct shortener){.stage = "checking rows", .bytes = lengths[i]});
        pair_check(&pair, &some, 10, 0, NULL, 0);
    }
    pair_free(&pair);
    free(data.rows);
}

/* As large as the one above, and for the same reason. */
static void a_file_that_becomes_shorter_during_its_upload_is_an_error(void **state) {
    (void)state;
    uint8_t *rows = large_rows();
    struct vic_device_options options = {.size = sizeof options, .name = "cuda", .threads = 1};
    struct vic_device *device = NULL;
    struct vic_index *index = NULL;
    must(vic_device_open(&options, &device));
    struct vic_matrix matrix = matrix_of(rows, large_n, large_dim, VIC_U8);
    struct vic_build_options build = {.size = sizeof build, .metric = VIC_DOT, .path = scratch_path("index")};
    must(vic_index_build(device, &matrix, &build, &index));
    the_last_row_is_found(index);
    vic_index_free(index);
    shortened(device, (struct shortener){.stage = "uploading", .bytes = 8192});
    vic_device_free(device);
    free(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_upload_is_told_in_order_and_stopped_anywhere_keeps_nothing),
        cmocka_unit_test_setup_teardown(opening_a_file_tells_of_its_upload_and_can_be_stopped, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(rows_out_of_a_file_answer_like_the_cpu_and_like_rows_out_of_memory, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(a_file_that_becomes_shorter_before_its_upload_is_an_error, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(a_file_that_becomes_shorter_during_its_upload_is_an_error, scratch_open, scratch_close),
    };
    if (!devices_begin()) return SKIPPED;
    int failed = cmocka_run_group_tests_name("gpu/upload", tests, NULL, NULL);
    devices_end();
    return failed;
}
