/* Every request to CUDA for memory, a stream or an event refused once, and every read of a file, while an index is built or
 * opened and asked, also by more threads than it has workspaces for: either the right bytes or VIC_NO_MEMORY (for a read
 * VIC_IO) with a sentence; nothing is lost, and what was open goes on.
 *
 * The program runs on the tests' own CUDA object (gpu/failing_cuda.h), which counts and refuses. How many workspaces the
 * threads make depends on how they meet, so a run may need fewer requests than the one before it: then it was not refused
 * any, and is the last. */
#include "gpu/failing_cuda.h"
#include "gpu/pair.h"
#include "support/scratch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum { ROWS = 20000, DIM = 64, K = 10, NQ = 20, FEW = 3, WANTED = 50, THREADS = 8, TURNS = 10 };

static const struct failing_cuda *cuda;

/* One of each question. */
struct replies {
    struct answer hits;
    struct vic_ranges ranges;
    float scores[FEW * WANTED];
};

struct world {
    struct data data;
    int64_t ids[ROWS];
    struct pair pair; /* made while nothing is refused */
    struct vic_matrix queries;
    struct replies right;
    float good; /* what vic_index_within asks for: the first query's last hit has it */
    const char *path;
    bool grown;     /* threads have made an index take more */
    int64_t unread; /* indexes that did not come for a read that failed */
};

static struct replies replies_make(void) {
    struct replies replies = {.hits = answer_make(NQ, K)};
    replies.ranges = (struct vic_ranges){take((FEW + 1) * 8), take(FEW * ROWS * 8), take(FEW * ROWS * 4), FEW * ROWS};
    return replies;
}

static void replies_free(struct replies *replies) {
    answer_free(&replies->hits);
    free(replies->ranges.offsets);
    free(replies->ranges.ids);
    free(replies->ranges.scores);
}

static enum vic_status replies_get(const struct world *world, const struct vic_index *index, struct replies *replies) {
    struct vic_hits hits = answer_hits(&replies->hits);
    struct vic_matrix few = world->queries;
    few.rows = FEW;
    enum vic_status status = vic_index_search(index, &world->queries, K, NULL, &hits);
    if (status == VIC_OK) status = vic_index_within(index, &few, world->good, NULL, &replies->ranges);
    return status == VIC_OK ? vic_index_score(index, &few, world->ids, WANTED, NULL, replies->scores) : status;
}

static bool replies_equal(const struct replies *a, const struct replies *b) {
    size_t slots = NQ * K, found = (size_t)a->ranges.offsets[FEW];
    return memcmp(a->hits.counts, b->hits.counts, NQ * 4) == 0 && memcmp(a->hits.scores, b->hits.scores, slots * 4) == 0 &&
           memcmp(a->hits.ids, b->hits.ids, slots * 8) == 0 &&
           memcmp(a->ranges.offsets, b->ranges.offsets, (FEW + 1) * 8) == 0 &&
           memcmp(a->ranges.scores, b->ranges.scores, found * 4) == 0 && memcmp(a->ranges.ids, b->ranges.ids, found * 8) == 0 &&
           memcmp(a->scores, b->scores, sizeof a->scores) == 0;
}

/* VIC_NO_MEMORY, in words: the sentence is the calling thread's. */
static bool says_no_memory(enum vic_status status) {
    return status == VIC_NO_MEMORY && (strstr(vic_last_error(), "memory") || strstr(vic_last_error(), "bytes"));
}

static bool says_why(struct world *world, enum vic_status status) {
    bool unread = status == VIC_IO && strstr(vic_last_error(), "cannot read") && strstr(vic_last_error(), world->path);
    world->unread += unread;
    return unread || says_no_memory(status);
}

/* ---- the world: one corpus, on both devices and in a file */

static void world_make(struct world *world, enum vic_dtype dtype, enum vic_metric metric) {
    *world = (struct world){.data = data_make(8, ROWS, DIM, dtype, metric, dtype == VIC_I8 ? VALUES_SMALL_INT : VALUES_UNIT),
                            .path = scratch_path("index"),
                            .right = replies_make()};
    for (int64_t i = 0; i < ROWS; i++) world->ids[i] = 3 * i + 7;
    world->data.ids = world->ids;
    world->pair = pair_build(&world->data);
    world->queries = matrix_of(world->data.rows, NQ, DIM, dtype);
    struct vic_hits hits = answer_hits(&world->right.hits);
    must(vic_index_search(world->pair.cpu, &world->queries, K, NULL, &hits));
    world->good = world->right.hits.scores[K - 1];
    must(replies_get(world, world->pair.cpu, &world->right));
    must(vic_index_save(world->pair.cpu, world->path, NULL));
}

static void world_free(struct world *world) {
    pair_free(&world->pair);
    replies_free(&world->right);
    free(world->data.rows);
    assert_int_equal(unlink(world->path), 0);
}

/* ---- one run: a device, an index, questions */

static enum vic_status build(const struct world *world, struct vic_device *device, struct vic_index **index) {
    struct vic_matrix rows = matrix_of(world->data.rows, ROWS, DIM, world->data.dtype);
    struct vic_build_options options = {
        .size = sizeof options, .metric = world->data.metric, .ids = world->ids, .planes = VIC_PLANES_NONE};
    return vic_index_build(device, &rows, &options, index);
}

static enum vic_status open_file(const struct world *world, struct vic_device *device, struct vic_index **index) {
    return vic_index_open(device, world->path, NULL, index);
}

struct caller {
    pthread_t thread;
    const struct world *world;
    const struct vic_index *index;
    pthread_barrier_t *together;
    struct replies found;
    int wrong;
};

static void *caller_run(void *argument) {
    struct caller *caller = argument;
    (void)pthread_barrier_wait(caller->together);
    for (int turn = 0; turn < TURNS; turn++) {
        enum vic_status status = replies_get(caller->world, caller->index, &caller->found);
        caller->wrong += status == VIC_OK ? !replies_equal(&caller->found, &caller->world->right) : !says_no_memory(status);
    }
    return NULL;
}

static void ask_from_threads(const struct world *world, const struct vic_index *index) {
    struct caller callers[THREADS] = {0};
    pthread_barrier_t together;
    assert_int_equal(pthread_barrier_init(&together, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){.world = world, .index = index, .together = &together, .found = replies_make()};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, caller_run, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        assert_int_equal(callers[i].wrong, 0);
        replies_free(&callers[i].found);
    }
    assert_int_equal(pthread_barrier_destroy(&together), 0);
}

static void ask_alone(const struct world *world, const struct vic_index *index) {
    struct replies found = replies_make();
    enum vic_status status = replies_get(world, index, &found);
    assert_true(status == VIC_OK ? replies_equal(&found, &world->right) : says_no_memory(status));
    replies_free(&found);
}

static struct vic_device_info info_of(const struct vic_device *device) {
    struct vic_device_info info = {.size = sizeof info};
    must(vic_device_info(device, &info));
    return info;
}

typedef enum vic_status index_get(const struct world *world, struct vic_device *device, struct vic_index **index);

/* An index that comes was refused nothing: it needs all that it asks for. */
static void run_once(struct world *world, index_get *get) {
    struct vic_device_options options = {.size = sizeof options, .name = "cuda"};
    struct vic_device *device = NULL;
    struct vic_index *index = NULL;
    enum vic_status status = vic_device_open(&options, &device);
    if (status != VIC_OK) {
        assert_true(says_no_memory(status));
        assert_int_equal(cuda->look().refused, 1);
        return;
    }
    struct vic_device_info before = info_of(device);
    status = get(world, device, &index);
    struct failing_cuda_counts counts = cuda->look();
    if (status == VIC_OK) {
        assert_int_equal(counts.refused, 0);
        ask_alone(world, index);
        ask_from_threads(world, index);
        world->grown |= cuda->look().requests > counts.requests;
        vic_index_free(index);
    } else {
        assert_true(says_why(world, status));
        assert_int_equal(counts.refused, 1);
        assert_null(index);
    }
    struct vic_device_info after = info_of(device);
    assert_int_equal(after.device_used, before.device_used);
    assert_int_equal(after.host_used, before.host_used);
    vic_device_free(device);
}

static int64_t free_bytes(void) {
    size_t left = 0, total = 0;
    cuda_must(cudaDeviceSynchronize());
    cuda_must(cudaMemGetInfo(&left, &total));
    return (int64_t)left;
}

/* Blocks are counted one by one; what the driver keeps beside them is held to the allowance that MEM-05 gives an index. */
static void each_request_refused_once(struct world *world, index_get *get) {
    run_once(world, get); /* loads what is loaded once a process */
    int64_t live = cuda->look().live, before = free_bytes(), n = 1;
    for (;; n++) {
        cuda->start(n);
        run_once(world, get);
        struct failing_cuda_counts counts = cuda->stop();
        if (counts.live != live)
            fail_msg("request %lld refused: expected %lld blocks, streams and events, found %lld", (long long)n,
                     (long long)live, (long long)counts.live);
        pair_check(&world->pair, &world->queries, K, 0, NULL, 0);
        if (counts.refused == 0) break;
    }
    assert_true(n > 10);
    assert_true(world->grown);
    assert_true(before - free_bytes() <= (64 << 20));
}

static void each_way_to_an_index(enum vic_dtype dtype, enum vic_metric metric) {
    static struct world world;
    world_make(&world, dtype, metric);
    each_request_refused_once(&world, build);
    assert_int_equal(world.unread, 0);
    world.grown = false;
    each_request_refused_once(&world, open_file);
    assert_true(world.unread >= 2); /* ids and rows at least */
    world_free(&world);
}

static void MEM_04_each_request_to_cuda_refused_loses_nothing_of_float_rows(void **state) {
    (void)state;
    each_way_to_an_index(VIC_F32, VIC_COSINE);
}

static void MEM_04_each_request_to_cuda_refused_loses_nothing_of_int8_rows(void **state) {
    (void)state;
    each_way_to_an_index(VIC_I8, VIC_L2);
}

/* The object lies beside this program; a program without it fails rather than skips. */
static bool object_choose(void) {
    char path[4096];
    const char name[] = "libfailing_cuda.so";
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof name);
    if (length <= 0) return false;
    path[length] = '\0';
    memcpy(strrchr(path, '/') + 1, name, sizeof name);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) (void)fprintf(stderr, "%s\n", dlerror());
    cuda = handle ? dlsym(handle, "failing_cuda_object") : NULL;
    return cuda && setenv("VICINAL_CUDA_LIBRARY", path, 1) == 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(MEM_04_each_request_to_cuda_refused_loses_nothing_of_float_rows, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(MEM_04_each_request_to_cuda_refused_loses_nothing_of_int8_rows, scratch_open,
                                        scratch_close),
    };
    if (!object_choose()) return EXIT_FAILURE;
    if (!devices_begin()) return SKIPPED;
    int failed = cmocka_run_group_tests_name("gpu/allocation", tests, NULL, NULL);
    devices_end();
    return failed;
}
