/* A graph's build stopped at every report of its progress, in every stage: it says so, keeps no memory, and leaves the file
 * that was there before as it was, with nothing beside it. */
#include "support/counting.h"
#include "support/oracle.h"
#include "support/scratch.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { N = 3000, DIM = 16, STAGES = 7 };
static const char *const stages[STAGES] = {
    "reading rows", "building the graph", "pruning the graph", "reaching every row", "training codes", "coding rows",
    "writing"};

struct stopper {
    int64_t heard, stop_at; /* 0: never */
    bool seen[STAGES];
};

static int hear(void *user, const struct vic_progress_state *state) {
    struct stopper *stopper = user;
    for (int i = 0; i < STAGES; i++) stopper->seen[i] |= strcmp(state->stage, stages[i]) == 0;
    return ++stopper->heard == stopper->stop_at;
}

struct world {
    struct counting counting;
    struct vic_device *device;
    struct vic_matrix rows;
    struct blob before;
};

static int world_make(void **state) {
    static struct world world;
    struct random random = {5};
    float *rows = take(N * DIM * sizeof *rows);
    if (scratch_open(state) != 0) return -1;
    world.device = device_within(0, 2, &world.counting);
    for (int64_t i = 0; i < N * DIM; i++) rows[i] = random_unit(&random);
    world.rows = matrix_of(rows, N, DIM, VIC_F32);
    must(vic_matrix_write(scratch_path("rows.fbin"), &world.rows, NULL));
    blob_write(scratch_path("index"), (const unsigned char *)"what was there before", 21);
    world.before = blob_read(scratch_path("index"));
    *state = &world;
    return 0;
}

static int world_free(void **state) {
    struct world *world = *state;
    vic_device_free(world->device);
    blob_free(&world->before);
    free(world->rows.data);
    return scratch_close(state);
}

static enum vic_status build(struct world *world, const char *path, bool from_file, struct stopper *stopper,
                             struct vic_index **index) {
    const struct vic_graph_options graph = {.size = sizeof graph, .degree = 12, .beam = 20, .force = 1, .pq_chunks = 3};
    const struct vic_build_options options = {
        .size = sizeof options, .graph = &graph, .path = path, .progress = {.report = hear, .user = stopper}};
    if (from_file) return vic_index_build_file(world->device, scratch_path("rows.fbin"), &options, index);
    return vic_index_build(world->device, &world->rows, &options, index);
}

/* Until a build is not stopped any more; a stop is tried at each of its reports. */
static void stopped_at_each_report(struct world *world, const char *path, bool from_file) {
    int64_t stops = 0;
    bool seen[STAGES] = {false};
    for (int64_t at = 1;; at++) {
        int64_t blocks = atomic_load(&world->counting.live_blocks);
        struct stopper stopper = {.stop_at = at};
        struct vic_index *index = NULL;
        enum vic_status status = build(world, path, from_file, &stopper, &index);
        for (int i = 0; i < STAGES; i++) seen[i] |= stopper.seen[i];
        if (stopper.heard < at) {
            must(status);
            vic_index_free(index);
            assert_int_equal(atomic_load(&world->counting.live_blocks), blocks);
            break;
        }
        assert_int_equal(status, VIC_CANCELLED);
        assert_null(index);
        assert_int_equal(stopper.heard, at); /* and nobody is asked again */
        assert_int_equal(atomic_load(&world->counting.live_blocks), blocks);
        assert_true(blob_equals_file(&world->before, scratch_path("index")));
        assert_int_equal(scratch_count(), 2); /* that and the rows */
        stops++;
    }
    for (int i = 0; i < STAGES; i++) assert_true(seen[i] || (i == STAGES - 1 && !path));
    assert_true(stops >= (path ? STAGES : STAGES - 1));
    blob_write(scratch_path("index"), world->before.bytes, world->before.size);
}

static void a_build_stopped_in_any_stage_keeps_nothing(void **state) {
    stopped_at_each_report(*state, NULL, false);
    stopped_at_each_report(*state, NULL, true);
}

static void a_build_into_a_file_stopped_in_any_stage_leaves_the_old_one(void **state) {
    stopped_at_each_report(*state, scratch_path("index"), false);
    stopped_at_each_report(*state, scratch_path("index"), true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_build_stopped_in_any_stage_keeps_nothing),
        cmocka_unit_test(a_build_into_a_file_stopped_in_any_stage_leaves_the_old_one),
    };
    return cmocka_run_group_tests(tests, world_make, world_free);
}
