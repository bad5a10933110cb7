/* A save whose n-th system call on files fails, for every n, with every error that matters: it says so, the old file is
 * whole or the new one is, and nothing else is left. And calls that are interrupted, or move half of the bytes, or are
 * not known to the file system, which must not be noticed at all. */
#include "support/oracle.h"
#include "support/sample.h"
#include "support/tracer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const struct sample old_sample = {20, 8, VIC_F32, VIC_DOT, false, false, NULL, 1};
static const struct sample new_sample = {60, 8, VIC_F32, VIC_COSINE, true, true, "{\"a\":0}", 2};

struct world {
    struct vic_device *device;
    struct vic_index *old_index, *new_index;
    struct blob old_blob, new_blob;
    const char *path;
};

static int open_all(void **state) {
    static struct world world;
    if (scratch_open(state) != 0) return -1;
    world.device = device_of(1);
    world.old_index = sample_build(world.device, &old_sample, NULL);
    world.new_index = sample_build(world.device, &new_sample, NULL);
    world.path = scratch_path("index");
    must(vic_index_save(world.old_index, world.path, NULL));
    world.old_blob = blob_read(world.path);
    must(vic_index_save(world.new_index, world.path, NULL));
    world.new_blob = blob_read(world.path);
    *state = &world;
    return 0;
}

static int close_all(void **state) {
    struct world *world = *state;
    vic_index_free(world->old_index);
    vic_index_free(world->new_index);
    vic_device_free(world->device);
    blob_free(&world->old_blob);
    blob_free(&world->new_blob);
    return scratch_close(state);
}

static int need_tracer(void **state) {
    (void)state;
    if (tracer_available()) return 0;
    print_message("skipped: this system does not let a process trace its child\n");
    return -1;
}

/* In the child: the status, with the top bit when a failure has no sentence. */
static int save_new(void *argument) {
    const struct world *world = argument;
    enum vic_status status = vic_index_save(world->new_index, world->path, NULL);
    return (int)status | (status != VIC_OK && !*vic_last_error() ? 128 : 0);
}

/* Rows of falling ids go to their places by file_put, which is read back. */
static int build_new(void *argument) {
    const struct world *world = argument;
    struct vic_index *index = NULL;
    return (int)sample_try_build(world->device, &new_sample, world->path, &index);
}

static struct tracer_seen traced(struct world *world, int (*work)(void *), const struct tracer_plan *plan) {
    scratch_clear();
    must(vic_index_save(world->old_index, world->path, NULL));
    return tracer_run(plan, work, world);
}

static enum vic_status status_of(int error) {
    if (error == ENOSPC || error == EDQUOT) return VIC_NO_SPACE;
    if (error == ENOENT) return VIC_NOT_FOUND;
    return error == ENOMEM ? VIC_NO_MEMORY : VIC_IO;
}

/* Errors that a call may meet and the save succeed all the same: what is closed or unlocked is not needed any more, a file
 * system may be unable to reserve blocks, and "there is no such file" is good news at the target and at the temporary. */
static bool may_be_survived(const char *name, int error) {
    if (strcmp(name, "close") == 0 || strcmp(name, "flock") == 0) return true;
    if (strcmp(name, "fallocate") == 0) return error == EOPNOTSUPP || error == EINVAL || error == ENOSYS || error == EINTR;
    if (strcmp(name, "fsync") == 0) return error == EINVAL;
    if (strcmp(name, "readlink") == 0) return error == EINVAL || error == ENOENT; /* no link */
    if (strcmp(name, "pwrite") == 0 || strcmp(name, "pread") == 0) return error == EINTR;
    return error == ENOENT;
}

static void judge(struct world *world, const struct tracer_seen *seen, int error) {
    bool is_old = blob_equals_file(&world->old_blob, world->path), is_new = blob_equals_file(&world->new_blob, world->path);
    const char *name = seen->name;
    if (!is_old && !is_new) fail_msg("%s failing with %s left neither the old file nor the new", name, strerror(error));
    if (seen->exit_code == VIC_OK) {
        if (!is_new || !may_be_survived(name, error)) fail_msg("%s failing with %s was not reported", name, strerror(error));
    } else {
        if (seen->exit_code != (int)status_of(error))
            fail_msg("%s failing with %s gave %d", name, strerror(error), seen->exit_code);
        if (is_new && strcmp(name, "fsync") != 0) fail_msg("%s failed with %s after the rename", name, strerror(error));
    }
    if (scratch_count() != 1) fail_msg("%s failing with %s left a temporary file", name, strerror(error));
}

static void every_call_failing_is_reported_and_leaves_no_trace(void **state) {
    struct world *world = *state;
    static const int errors[] = {EIO, ENOSPC, EDQUOT, ENOENT, ENOMEM, EINVAL, EOPNOTSUPP};
    int (*const works[])(void *) = {save_new, build_new};
    if (need_tracer(state) != 0) skip();
    for (size_t w = 0; w < 2; w++)
        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
            struct tracer_plan plan = {.action = TRACER_FAIL, .error = errors[i], .files_only = true};
            int64_t reported = 0;
            struct tracer_seen seen;
            for (plan.at = 1; seen = traced(world, works[w], &plan), seen.hit; plan.at++) {
                /* A folder that cannot be opened again after the build is the open's failure, not the save's. */
                if (w == 1 && seen.exit_code != VIC_OK && blob_equals_file(&world->new_blob, world->path)) continue;
                judge(world, &seen, errors[i]);
                reported += seen.exit_code != VIC_OK;
            }
            assert_int_equal(seen.exit_code, VIC_OK);
            assert_true(reported >= 12);
        }
}

/* The temporary cannot be removed after another failure: the next save takes it over. */
static void a_temporary_that_cannot_be_removed_is_taken_over(void **state) {
    struct world *world = *state;
    if (need_tracer(state) != 0) skip();
    scratch_clear();
    must(vic_index_save(world->old_index, world->path, NULL));
    const struct tracer_plan plan = {.action = TRACER_FAIL, .error = EIO, .of_name = "renameat"};
    assert_int_equal(tracer_run(&plan, save_new, world).exit_code, VIC_IO);
    assert_int_equal(scratch_count(), 1);
    blob_write(scratch_path(".index.vicinal-tmp"), world->new_blob.bytes, world->new_blob.size / 2);
    must(vic_index_save(world->new_index, world->path, NULL));
    assert_true(blob_equals_file(&world->new_blob, world->path));
    assert_int_equal(scratch_count(), 1);
}

/* Full while the rows are written, on a file system that could not reserve: every later write fails as well. */
static void a_disk_full_in_the_middle_leaves_the_old_file(void **state) {
    struct world *world = *state;
    if (need_tracer(state) != 0) skip();
    const struct tracer_plan plan = {.action = TRACER_FAIL, .error = ENOSPC, .of_name = "pwrite"};
    struct tracer_seen seen = traced(world, save_new, &plan);
    assert_int_equal(seen.exit_code, VIC_NO_SPACE);
    assert_int_equal(seen.calls, 1);
    assert_true(blob_equals_file(&world->old_blob, world->path));
    assert_int_equal(scratch_count(), 1);
}

static void an_interrupted_call_is_made_again(void **state) {
    struct world *world = *state;
    static const char *const names[] = {"pwrite", "pread", "fallocate", "flock"};
    if (need_tracer(state) != 0) skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tracer_plan plan = {.action = TRACER_FAIL, .error = EINTR, .of_name = names[i]};
        struct tracer_seen seen;
        for (plan.at = 1; seen = traced(world, build_new, &plan), seen.hit; plan.at++) {
            assert_int_equal(seen.exit_code, VIC_OK);
            assert_true(blob_equals_file(&world->new_blob, world->path));
        }
        assert_true(plan.at > 1);
    }
}

static void short_writes_and_reads_are_continued(void **state) {
    struct world *world = *state;
    static const char *const names[] = {"pwrite", "pread"};
    if (need_tracer(state) != 0) skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct tracer_plan plan = {.action = TRACER_SHORTEN, .of_name = names[i]};
        struct tracer_seen seen = traced(world, build_new, &plan);
        assert_true(seen.hit);
        assert_int_equal(seen.exit_code, VIC_OK);
        assert_true(blob_equals_file(&world->new_blob, world->path));
    }
}

static void a_write_of_nothing_is_an_error_not_a_loop(void **state) {
    struct world *world = *state;
    if (need_tracer(state) != 0) skip();
    const struct tracer_plan plan = {.action = TRACER_FAIL, .error = 0, .of_name = "pwrite"};
    struct tracer_seen seen = traced(world, save_new, &plan);
    assert_int_equal(seen.exit_code, VIC_IO);
    assert_true(blob_equals_file(&world->old_blob, world->path));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_failing_is_reported_and_leaves_no_trace),
        cmocka_unit_test(a_temporary_that_cannot_be_removed_is_taken_over),
        cmocka_unit_test(a_disk_full_in_the_middle_leaves_the_old_file),
        cmocka_unit_test(an_interrupted_call_is_made_again),
        cmocka_unit_test(short_writes_and_reads_are_continued),
        cmocka_unit_test(a_write_of_nothing_is_an_error_not_a_loop),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
