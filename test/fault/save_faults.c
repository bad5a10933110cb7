/* A save whose n-th system call on files fails, for every n, with every error that matters: it says so, the old file is
 * whole or the new one is, and nothing else is left. And calls that are interrupted, or move half of the bytes, or are
 * not known to the file system, which must not be noticed at all. */
#include "support/oracle.h"
#include "support/pair.h"
#include "support/tracer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const struct sample old_sample = {20, 8, VIC_F32, VIC_DOT, false, false, NULL, 1, 0};
static const struct sample new_sample = {60, 8, VIC_F32, VIC_COSINE, true, true, "{\"a\":0}", 2, 0};

static int open_all(void **state) {
    *state = pair_open(&old_sample, &new_sample);
    return 0;
}

static int need_tracer(void **state) {
    (void)state;
    if (tracer_available()) return 0;
    print_message("skipped: this system does not let a process trace its child\n");
    return -1;
}

/* In the child: the status, with the top bit when a failure has no sentence. */
static int save_new(void *argument) {
    const struct pair *pair = argument;
    enum vic_status status = vic_index_save(pair->index[NEW], pair->path, NULL);
    return (int)status | (status != VIC_OK && !*vic_last_error() ? 128 : 0);
}

/* Rows of falling ids go to their places by file_put, which is read back. */
static int build_new(void *argument) {
    const struct pair *pair = argument;
    struct vic_index *index = NULL;
    return (int)sample_try_build(pair->device, &new_sample, pair->path, &index);
}

static struct tracer_seen traced(struct pair *pair, int (*work)(void *), const struct tracer_plan *plan) {
    pair_reset(pair);
    return tracer_run(plan, work, pair);
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

static void judge(struct pair *pair, const struct tracer_seen *seen, int error) {
    bool is_old = pair_is(pair, OLD), is_new = pair_is(pair, NEW);
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
    struct pair *pair = *state;
    static const int errors[] = {EIO, ENOSPC, EDQUOT, ENOENT, ENOMEM, EINVAL, EOPNOTSUPP};
    int (*const works[])(void *) = {save_new, build_new};
    if (need_tracer(state) != 0) skip();
    for (size_t w = 0; w < 2; w++)
        for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
            struct tracer_plan plan = {.action = TRACER_FAIL, .error = errors[i], .files_only = true};
            int64_t reported = 0;
            struct tracer_seen seen;
            for (plan.at = 1; seen = traced(pair, works[w], &plan), seen.hit; plan.at++) {
                /* A folder that cannot be opened again after the build is the open's failure, not the save's. */
                if (w == 1 && seen.exit_code != VIC_OK && pair_is(pair, NEW)) continue;
                judge(pair, &seen, errors[i]);
                reported += seen.exit_code != VIC_OK;
            }
            assert_int_equal(seen.exit_code, VIC_OK);
            assert_true(reported >= 12);
        }
}

/* The temporary cannot be removed after another failure: the next save takes it over. */
static void a_temporary_that_cannot_be_removed_is_taken_over(void **state) {
    struct pair *pair = *state;
    if (need_tracer(state) != 0) skip();
    pair_reset(pair);
    const struct tracer_plan plan = {.action = TRACER_FAIL, .error = EIO, .of_name = "renameat"};
    assert_int_equal(tracer_run(&plan, save_new, pair).exit_code, VIC_IO);
    assert_int_equal(scratch_count(), 1);
    blob_write(scratch_path(".index.vicinal-tmp"), pair->blob[NEW].bytes, pair->blob[NEW].size / 2);
    must(vic_index_save(pair->index[NEW], pair->path, NULL));
    assert_true(pair_is(pair, NEW));
    assert_int_equal(scratch_count(), 1);
}

/* Full while the rows are written, on a file system that could not reserve: every later write fails as well. */
static void a_disk_full_in_the_middle_leaves_the_old_file(void **state) {
    struct pair *pair = *state;
    if (need_tracer(state) != 0) skip();
    const struct tracer_plan plan = {.action = TRACER_FAIL, .error = ENOSPC, .of_name = "pwrite"};
    struct tracer_seen seen = traced(pair, save_new, &plan);
    assert_int_equal(seen.exit_code, VIC_NO_SPACE);
    assert_int_equal(seen.calls, 1);
    assert_true(pair_is(pair, OLD));
    assert_int_equal(scratch_count(), 1);
}

static void an_interrupted_call_is_made_again(void **state) {
    struct pair *pair = *state;
    static const char *const names[] = {"pwrite", "pread", "fallocate", "flock"};
    if (need_tracer(state) != 0) skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tracer_plan plan = {.action = TRACER_FAIL, .error = EINTR, .of_name = names[i]};
        struct tracer_seen seen;
        for (plan.at = 1; seen = traced(pair, build_new, &plan), seen.hit; plan.at++) {
            assert_int_equal(seen.exit_code, VIC_OK);
            assert_true(pair_is(pair, NEW));
        }
        assert_true(plan.at > 1);
    }
}

static void short_writes_and_reads_are_continued(void **state) {
    struct pair *pair = *state;
    static const char *const names[] = {"pwrite", "pread"};
    if (need_tracer(state) != 0) skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct tracer_plan plan = {.action = TRACER_SHORTEN, .of_name = names[i]};
        struct tracer_seen seen = traced(pair, build_new, &plan);
        assert_true(seen.hit);
        assert_int_equal(seen.exit_code, VIC_OK);
        assert_true(pair_is(pair, NEW));
    }
}

static void a_write_of_nothing_is_an_error_not_a_loop(void **state) {
    struct pair *pair = *state;
    if (need_tracer(state) != 0) skip();
    const struct tracer_plan plan = {.action = TRACER_FAIL, .error = 0, .of_name = "pwrite"};
    struct tracer_seen seen = traced(pair, save_new, &plan);
    assert_int_equal(seen.exit_code, VIC_IO);
    assert_true(pair_is(pair, OLD));
}

/* Nothing is durable before it is synchronised, and no name leads to what is not durable. */
static void the_file_is_durable_before_it_has_its_name_and_the_name_before_success(void **state) {
    struct pair *pair = *state;
    if (need_tracer(state) != 0) skip();
    const struct tracer_plan plan = {.action = TRACER_WATCH, .files_only = true};
    struct tracer_seen seen = traced(pair, save_new, &plan);
    assert_int_equal(seen.exit_code, VIC_OK);
    if (!strstr(seen.trail, "pwrite ftruncate fsync renameat fsync flock close close ")) fail_msg("found: %s", seen.trail);
    assert_null(strstr(strstr(seen.trail, "renameat"), "pwrite"));
}

/* ---- another writer between the opening of the temporary and the lock on it */

static void other_saves(void *argument) {
    const struct pair *pair = argument;
    must(vic_index_save(pair->index[OLD], pair->path, NULL));
}
static void other_gives_up(void *argument) {
    (void)argument;
    assert_int_equal(unlink(scratch_path(".index.vicinal-tmp")), 0);
}
static void other_gives_up_and_a_third_begins(void *argument) {
    other_gives_up(argument);
    blob_write(scratch_path(".index.vicinal-tmp"), (const unsigned char *)"third", 5);
}

static void a_lock_on_what_the_name_no_longer_leads_to_does_not_count(void **state) {
    struct pair *pair = *state;
    void (*const meets[])(void *) = {other_saves, other_gives_up, other_gives_up_and_a_third_begins};
    if (need_tracer(state) != 0) skip();
    for (size_t i = 0; i < sizeof meets / sizeof *meets; i++) {
        pair_reset(pair);
        struct vic_index *opened = sample_open(pair->device, pair->path);
        blob_write(scratch_path(".index.vicinal-tmp"), (const unsigned char *)"left over", 9);
        const struct tracer_plan plan = {.action = TRACER_MEET, .at = 1, .of_name = "flock", .meet = meets[i]};
        struct tracer_seen seen = tracer_run(&plan, save_new, pair);
        assert_true(seen.hit);
        assert_int_equal(seen.exit_code, VIC_OK);
        assert_true(pair_is(pair, NEW));
        assert_int_equal(scratch_count(), 1);
        must(vic_index_check(opened, NULL)); /* nobody wrote into the file that had the name before */
        vic_index_free(opened);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_failing_is_reported_and_leaves_no_trace),
        cmocka_unit_test(a_temporary_that_cannot_be_removed_is_taken_over),
        cmocka_unit_test(a_disk_full_in_the_middle_leaves_the_old_file),
        cmocka_unit_test(an_interrupted_call_is_made_again),
        cmocka_unit_test(short_writes_and_reads_are_continued),
        cmocka_unit_test(a_write_of_nothing_is_an_error_not_a_loop),
        cmocka_unit_test(the_file_is_durable_before_it_has_its_name_and_the_name_before_success),
        cmocka_unit_test(a_lock_on_what_the_name_no_longer_leads_to_does_not_count),
    };
    return cmocka_run_group_tests(tests, open_all, pair_close);
}
