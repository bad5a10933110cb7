/* SAV-02: SIGKILL at every system call of a save, in turn. Afterwards the path opens as the old or the new index, whole,
 * and the next save succeeds and leaves nothing but the file. */
#include "support/oracle.h"
#include "support/sample.h"
#include "support/tracer.h"

#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const struct sample old_sample = {20, 8, VIC_F32, VIC_COSINE, true, true, "{\"old\":true}", 1};
static const struct sample new_sample = {50, 8, VIC_F32, VIC_COSINE, true, true, "{\"old\":false}", 2};

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

static int save_new(void *argument) {
    const struct world *world = argument;
    return (int)vic_index_save(world->new_index, world->path, NULL);
}

/* The same by building straight into the file. */
static int build_new(void *argument) {
    const struct world *world = argument;
    struct vic_index *index = NULL;
    return (int)sample_try_build(world->device, &new_sample, world->path, &index);
}

static void whole_and_savable(struct world *world, bool there_before, const struct tracer_seen *seen) {
    bool is_old = scratch_has("index") && blob_equals_file(&world->old_blob, world->path);
    bool is_new = scratch_has("index") && blob_equals_file(&world->new_blob, world->path);
    if (!is_new && (there_before ? !is_old : scratch_has("index")))
        fail_msg("killed at call %lld (%s): the file is neither old nor new", (long long)seen->calls, seen->name);
    if (is_old || is_new) {
        struct vic_index *index = NULL;
        must(sample_try_open(world->device, world->path, 1, &index));
        assert_int_equal(sample_hash(index), sample_hash(is_old ? world->old_index : world->new_index));
        vic_index_free(index);
    }
    assert_true(scratch_count() <= 2); /* the file and one temporary */
    must(vic_index_save(world->new_index, world->path, NULL));
    assert_true(blob_equals_file(&world->new_blob, world->path));
    assert_int_equal(scratch_count(), 1);
}

static void killed_at_each_call(struct world *world, int (*work)(void *), bool there_before) {
    int64_t news = 0, olds = 0;
    for (int64_t at = 1;; at++) {
        scratch_clear();
        if (there_before) must(vic_index_save(world->old_index, world->path, NULL));
        const struct tracer_plan plan = {.action = TRACER_KILL, .at = at};
        struct tracer_seen seen = tracer_run(&plan, work, world);
        bool done = scratch_has("index") && blob_equals_file(&world->new_blob, world->path);
        news += done, olds += !done;
        whole_and_savable(world, there_before, &seen);
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
    return cmocka_run_group_tests(tests, open_all, close_all);
}
