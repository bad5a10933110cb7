/* SAV-02: SIGKILL at every system call of a save, in turn. Afterwards the path opens as the old or the new index, whole,
 * and the next save succeeds and leaves nothing but the file. */
#include "support/oracle.h"
#include "support/pair.h"
#include "support/tracer.h"

#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const struct sample old_sample = {20, 8, VIC_F32, VIC_COSINE, true, true, "{\"old\":true}", 1, 0};
static const struct sample new_sample = {50, 8, VIC_F32, VIC_COSINE, true, true, "{\"old\":false}", 2, 0};

static int open_all(void **state) {
    *state = pair_open(&old_sample, &new_sample);
    return 0;
}

static int save_new(void *argument) {
    const struct pair *pair = argument;
    return (int)vic_index_save(pair->index[NEW], pair->path, NULL);
}

/* The same by building straight into the file. */
static int build_new(void *argument) {
    const struct pair *pair = argument;
    struct vic_index *index = NULL;
    return (int)sample_try_build(pair->device, &new_sample, pair->path, &index);
}

static void whole_and_savable(struct pair *pair, bool there_before, const struct tracer_seen *seen) {
    bool is_old = pair_is(pair, OLD);
    bool is_new = pair_is(pair, NEW);
    if (!is_new && (there_before ? !is_old : scratch_has("index")))
        fail_msg("killed at call %lld (%s): the file is neither old nor new", (long long)seen->calls, seen->name);
    if (is_old || is_new) {
        struct vic_index *index = NULL;
        must(sample_try_open(pair->device, pair->path, 1, &index));
        assert_int_equal(sample_hash(index), sample_hash(pair->index[is_old ? OLD : NEW]));
        vic_index_free(index);
    }
    assert_true(scratch_count() <= 2); /* the file and one temporary */
    must(vic_index_save(pair->index[NEW], pair->path, NULL));
    assert_true(pair_is(pair, NEW));
    assert_int_equal(scratch_count(), 1);
}

static void killed_at_each_call(struct pair *pair, int (*work)(void *), bool there_before) {
    int64_t news = 0, olds = 0;
    for (int64_t at = 1;; at++) {
        pair_reset(pair);
        if (!there_before) scratch_clear();
        const struct tracer_plan plan = {.action = TRACER_KILL, .at = at};
        struct tracer_seen seen = tracer_run(&plan, work, pair);
        bool done = pair_is(pair, NEW);
        news += done, olds += !done;
        whole_and_savable(pair, there_before, &seen);
        if (!seen.hit) {
            assert_int_equal(seen.exit_code, VIC_OK);
            break;
        }
        assert_true(seen.killed);
    }
    /* Both sides of the rename were tried: calls before it, and the folder's fsync, unlock, close and exit after it. */
    assert_true(olds >= 15);
    assert_true(news >= 5);
}

static void SAV_02_a_save_killed_at_any_call_leaves_old_or_new(void **state) {
    if (!tracer_available()) {
        print_message("skipped: this system does not let a process trace its child\n");
        skip();
    }
    killed_at_each_call(*state, save_new, true);
}

static void a_first_save_killed_at_any_call_leaves_nothing_or_new(void **state) {
    if (!tracer_available()) skip();
    killed_at_each_call(*state, save_new, false);
}

static void a_build_into_a_file_killed_at_any_call_leaves_old_or_new(void **state) {
    if (!tracer_available()) skip();
    killed_at_each_call(*state, build_new, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SAV_02_a_save_killed_at_any_call_leaves_old_or_new),
        cmocka_unit_test(a_first_save_killed_at_any_call_leaves_nothing_or_new),
        cmocka_unit_test(a_build_into_a_file_killed_at_any_call_leaves_old_or_new),
    };
    return cmocka_run_group_tests(tests, open_all, pair_close);
}
