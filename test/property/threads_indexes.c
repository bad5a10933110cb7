/* Many indexes on one device at once: built, filtered, asked and freed by different threads, refused ones among them, and the
 * device's account of its memory is even at the end. Runs under ThreadSanitizer too. */
#include "support/counting.h"
#include "support/sanitizer.h"
#include "support/scene.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#if UNDER_THREAD_SANITIZER
enum { ROUNDS = 30 };
#else
enum { ROUNDS = 60 };
#endif
enum { THREADS = 8, SCENES = 6, K = 40 };

struct fixture {
    struct scene scenes[SCENES];
    struct vic_device *device;
    atomic_int failures;
};

static bool answers_right(const struct vic_index *index, const struct order *order, const struct vic_search_options *options) {
    int64_t nq = order->nq, n = order->data->n, ids[8 * K];
    float scores[8 * K];
    int32_t counts[8];
    struct vic_hits hits = {ids, scores, counts, VIC_HOST};
    if (vic_index_search(index, &order->queries, K, options, &hits) != VIC_OK) return false;
    for (int64_t j = 0; j < nq; j++) {
        size_t real = (size_t)(order->counts[j] < K ? order->counts[j] : K);
        if (counts[j] != (int32_t)real || memcmp(ids + j * K, order->ids + j * n, real * 8) != 0 ||
            memcmp(scores + j * K, order->scores + j * n, real * 4) != 0)
            return false;
    }
    return true;
}

static enum vic_status build(struct fixture *fixture, const struct scene *scene, const float *bad, struct vic_index **index) {
    struct vic_matrix rows = matrix_of(scene->data.rows, scene->data.n, scene->data.dim, scene->data.dtype);
    struct vic_build_options options = {
        .size = sizeof options, .metric = scene->data.metric, .ids = scene->ids, .planes = VIC_PLANES_4};
    if (bad) rows = matrix_of(bad, 1, 3, VIC_F32), options.ids = NULL;
    return vic_index_build(fixture->device, &rows, &options, index);
}

struct worker {
    struct fixture *fixture;
    uint64_t seed;
};

/* Each thread its own indexes, one after another. */
static void *worker_main(void *argument) {
    struct worker *worker = argument;
    struct random random = {worker->seed};
    const float bad[] = {1, NAN, 2};
    for (int round = 0; round < ROUNDS; round++) {
        const struct scene *scene = &worker->fixture->scenes[random_below(&random, SCENES)];
        struct vic_index *index = NULL, *refused = NULL;
        struct vic_filter *filter = NULL;
        struct order filtered = {0};
        bool right = build(worker->fixture, scene, NULL, &index) == VIC_OK;
        right = right && build(worker->fixture, scene, bad, &refused) == VIC_NOT_FINITE && !refused;
        right = right && vic_filter_create(index, scene->ids, scene->data.n / 2, NULL, &filter) == VIC_OK;
        struct vic_search_options options = {.size = sizeof options, .path = paths[random_below(&random, PATHS)]};
        right = right && answers_right(index, &scene->order, &options);
        options.filter = filter;
        filtered = order_filtered(&scene->order, scene->ids, scene->data.n / 2, false);
        right = right && answers_right(index, &filtered, &options);
        order_free(&filtered);
        vic_filter_free(filter);
        vic_index_free(index);
        if (!right) atomic_fetch_add(&worker->fixture->failures, 1);
    }
    return NULL;
}

static void indexes_of_one_device_come_and_go_in_all_threads(void **state) {
    (void)state;
    static struct fixture fixture;
    struct random random = test_random(1);
    struct counting counting = {0};
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    fixture.device = device_within(0, 3, &counting);
    struct vic_device_info before = {.size = sizeof before}, after = before;
    must(vic_device_info(fixture.device, &before));
    for (int i = 0; i < SCENES; i++) {
        int pair = i * 2 % TYPE_PAIRS; /* planes are for floats, and so are the first of these */
        struct shape shape = {.n = 20 + 150 * i,
                              .nq = 1 + i,
                              .dim = 3 + 11 * i,
                              .dtype = pair < 5 ? type_pairs[pair][0] : VIC_F32,
                              .query_dtype = VIC_F32,
                              .metric = (enum vic_metric)(1 + i % 3),
                              .values = i % 2 ? VALUES_SMALL_INT : VALUES_UNIT,
                              .ids = IDS_SHUFFLED};
        scene_make(&random, &shape, &fixture.scenes[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){&fixture, (uint64_t)i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&fixture.failures), 0);
    must(vic_device_info(fixture.device, &after));
    assert_true(after.host_used == before.host_used);
    vic_device_free(fixture.device);
    assert_int_equal(atomic_load(&counting.live_blocks), 0);
    assert_int_equal(atomic_load(&counting.live_bytes), 0);
    for (int i = 0; i < SCENES; i++) scene_free(&fixture.scenes[i]);
}

/* Devices, too, are each thread's own business. */
static void *device_main(void *argument) {
    struct worker *worker = argument;
    const struct scene *scene = &worker->fixture->scenes[0];
    for (int round = 0; round < ROUNDS / 3; round++) {
        struct fixture own = {0};
        struct vic_index *index = NULL;
        struct vic_device_options options = {.size = sizeof options, .name = "cpu", .threads = 1 + round % 4};
        struct vic_search_options plain = {.size = sizeof plain};
        bool right = vic_device_open(&options, &own.device) == VIC_OK;
        right = right && build(&own, scene, NULL, &index) == VIC_OK && answers_right(index, &scene->order, &plain);
        vic_index_free(index);
        vic_device_free(own.device);
        if (!right) atomic_fetch_add(&worker->fixture->failures, 1);
    }
    return NULL;
}

static void devices_come_and_go_in_all_threads(void **state) {
    (void)state;
    static struct fixture fixture;
    struct random random = test_random(2);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    struct shape shape = {
        .n = 500, .nq = 4, .dim = 20, .dtype = VIC_F32, .query_dtype = VIC_F32, .metric = VIC_DOT, .ids = IDS_SHUFFLED};
    scene_make(&random, &shape, &fixture.scenes[0]);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){&fixture, (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, device_main, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&fixture.failures), 0);
    scene_free(&fixture.scenes[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indexes_of_one_device_come_and_go_in_all_threads),
        cmocka_unit_test(devices_come_and_go_in_all_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
