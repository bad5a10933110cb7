/* SAV-01: saving to a full file system of 1 MB. In a mount namespace of this process's own, so nothing outside is touched. */
#define _GNU_SOURCE /* unshare */

#include "support/oracle.h"
#include "support/sample.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static bool mounted;

/* Root needs a mount namespace alone; others may make one inside a user namespace where the system allows it. */
static bool mount_small(const char *folder) {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    (void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    return mount("vicinal-test", folder, "tmpfs", 0, "size=1m") == 0;
}

static int open_all(void **state) {
    if (scratch_open(state) != 0) return -1;
    mounted = mount_small(scratch_folder()); /* before there are threads, which a user namespace forbids */
    test_device = device_of(1);
    return 0;
}

static int close_all(void **state) {
    (void)device_teardown(state);
    scratch_clear();
    if (mounted && umount(scratch_folder()) != 0) return -1;
    return scratch_close(state);
}

static void need_mount(void) {
    if (mounted) return;
    print_message("skipped: no file system can be mounted here\n");
    skip();
}

static const struct sample small_sample = {1000, 32, VIC_F32, VIC_COSINE, true, true, NULL, 1, 0};  /* 150 KB */
static const struct sample large_sample = {20000, 32, VIC_F32, VIC_COSINE, true, true, NULL, 2, 0}; /* 3 MB */
/* Rows fit, what follows them does not. */
static const struct sample late_sample = {6000, 32, VIC_F32, VIC_COSINE, true, true, NULL, 3, 0};

/* Rows and codes fit, the graph does not. */
static const struct sample graph_sample = {4000, 32, VIC_F32, VIC_COSINE, true, true, NULL, 4, SAMPLE_GRAPH};

static struct blob good_index(void) {
    scratch_clear();
    vic_index_free(sample_build(test_device, &small_sample, scratch_path("index")));
    return blob_read(scratch_path("index"));
}

static void SAV_01_a_full_file_system_leaves_the_old_file_and_no_temporary(void **state) {
    (void)state;
    need_mount();
    const struct sample *const samples[] = {&large_sample, &late_sample, &graph_sample};
    for (size_t i = 0; i < 3; i++) {
        struct blob blob = good_index();
        struct vic_index *index = sample_build(test_device, samples[i], NULL);
        assert_int_equal(vic_index_save(index, scratch_path("index"), NULL), VIC_NO_SPACE);
        assert_non_null(strstr(vic_last_error(), "No space left on device"));
        assert_true(blob_equals_file(&blob, scratch_path("index")));
        assert_int_equal(scratch_count(), 1);
        vic_index_free(index);
        blob_free(&blob);
    }
}

static void a_build_into_a_full_file_system_leaves_the_old_file(void **state) {
    (void)state;
    need_mount();
    const struct sample *const samples[] = {&large_sample, &graph_sample};
    for (size_t i = 0; i < 2; i++) {
        struct blob blob = good_index();
        struct vic_index *index = NULL;
        assert_int_equal(sample_try_build(test_device, samples[i], scratch_path("index"), &index), VIC_NO_SPACE);
        assert_null(index);
        assert_true(blob_equals_file(&blob, scratch_path("index")));
        assert_int_equal(scratch_count(), 1);
        blob_free(&blob);
    }
}

/* Filled up by others until nothing is left, a new file cannot even have its page. */
static void not_one_byte_left(void **state) {
    (void)state;
    need_mount();
    struct blob blob = good_index();
    struct vic_index *index = sample_open(test_device, scratch_path("index"));
    int file = open(scratch_path("filler"), O_WRONLY | O_CREAT, 0600);
    char zeroes[4096] = {0};
    while (write(file, zeroes, sizeof zeroes) > 0) {
    }
    (void)close(file);
    assert_int_equal(vic_index_save(index, scratch_path("copy"), NULL), VIC_NO_SPACE);
    assert_int_equal(scratch_count(), 2);
    assert_int_equal(unlink(scratch_path("filler")), 0);
    must(vic_index_save(index, scratch_path("copy"), NULL)); /* and works again with space */
    assert_true(blob_equals_file(&blob, scratch_path("copy")));
    vic_index_free(index);
    blob_free(&blob);
}

/* The same kind of end without a mount: a limit on file sizes. */
static void a_file_size_limit_is_an_error_like_any_other(void **state) {
    (void)state;
    struct blob blob = good_index();
    struct vic_index *index = sample_build(test_device, &large_sample, NULL);
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 500000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum vic_status status = vic_index_save(index, scratch_path("index"), NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, VIC_IO);
    assert_non_null(strstr(vic_last_error(), "File too large"));
    assert_true(blob_equals_file(&blob, scratch_path("index")));
    assert_int_equal(scratch_count(), 1);
    vic_index_free(index);
    blob_free(&blob);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SAV_01_a_full_file_system_leaves_the_old_file_and_no_temporary),
        cmocka_unit_test(a_build_into_a_full_file_system_leaves_the_old_file),
        cmocka_unit_test(not_one_byte_left),
        cmocka_unit_test(a_file_size_limit_is_an_error_like_any_other),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
