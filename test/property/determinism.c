/* The same question has the same bytes every time: a thousand repeats, fresh devices and indexes, any table of kernels, any
 * number of threads, rows given in any order; and an index that was saved is the same file. */
#include "support/scene.h"
#include "support/scratch.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum { NQ = 7, K = 60 };

/* One number for all the answers of an index to a scene's queries. */
static uint64_t answers_hash(const struct vic_index *index, const struct scene *scene) {
    int64_t ids[NQ * K], offsets[NQ + 1], n = scene->data.n, *within = take((size_t)(NQ * n) * 8);
    float scores[NQ * K], *within_scores = take((size_t)(NQ * n) * 4);
    int32_t counts[NQ];
    uint64_t hash = 0;
    for (int p = 0; p < PATHS; p++) {
        struct vic_search_options options = {.size = sizeof options, .path = paths[p]};
        struct vic_hits hits = {ids, scores, counts, VIC_HOST};
        must(vic_index_search(index, &scene->order.queries, K, &options, &hits));
        hash = XXH3_64bits_withSeed(ids, sizeof ids, hash);
        hash = XXH3_64bits_withSeed(scores, sizeof scores, hash);
        hash = XXH3_64bits_withSeed(counts, sizeof counts, hash);
    }
    struct vic_ranges ranges = {offsets, within, within_scores, NQ * n};
    must(vic_index_within(index, &scene->order.queries, scene->order.scores[n / 4], NULL, &ranges));
    hash = XXH3_64bits_withSeed(offsets, sizeof offsets, hash);
    hash = XXH3_64bits_withSeed(within, (size_t)offsets[NQ] * 8, hash);
    hash = XXH3_64bits_withSeed(within_scores, (size_t)offsets[NQ] * 4, hash);
    free(within);
    free(within_scores);
    return hash;
}

static void scene_draw(struct random *random, int pair, int64_t n, struct scene *scene) {
    struct shape shape = {.n = n,
                          .nq = NQ,
                          .dim = 1 + random_below(random, 40),
                          .dtype = type_pairs[pair][0],
                          .query_dtype = type_pairs[pair][1],
                          .metric = (enum vic_metric)(1 + random_below(random, 3)),
                          .values = (enum values)random_below(random, VALUES_COUNT),
                          .ids = IDS_SHUFFLED};
    scene_make(random, &shape, scene);
}

static void a_thousand_repeats_have_one_hash(void **state) {
    (void)state;
    struct random random = test_random(1);
    struct scene scene;
    scene_draw(&random, 0, 400, &scene);
    struct vic_device *device = device_of(3);
    struct vic_index *index = index_with_planes(device, &scene.data, VIC_PLANES_8 | VIC_PLANES_4);
    uint64_t right = answers_hash(index, &scene);
    for (int repeat = 0; repeat < 1000; repeat++) assert_true(answers_hash(index, &scene) == right);
    vic_index_free(index);
    vic_device_free(device);
    scene_free(&scene);
}

static void fresh_devices_tables_threads_and_planes_have_one_hash(void **state) {
    (void)state;
    static const int32_t planes[] = {VIC_PLANES_NONE, VIC_PLANES_8, VIC_PLANES_4, VIC_PLANES_8 | VIC_PLANES_4};
    struct random random = test_random(2);
    for (int pair = 0; pair < TYPE_PAIRS; pair++) {
        struct scene scene;
        uint64_t right = 0;
        scene_draw(&random, pair, 300, &scene);
        for (int table = 0; kernels_here()[table]; table++)
            for (int32_t threads = 1; threads <= 9; threads += 4)
                for (int p = 0; p < 4; p++) {
                    struct vic_device *device = device_with(kernels_here()[table], threads);
                    struct vic_index *index = index_with_planes(device, &scene.data, planes[p]);
                    uint64_t hash = answers_hash(index, &scene);
                    test_says("pair %d, kernels %s, threads %d, planes %d", pair, kernels_here()[table], threads, planes[p]);
                    if (right == 0) right = hash;
                    assert_true(hash == right);
                    vic_index_free(index);
                    vic_device_free(device);
                }
        scene_free(&scene);
    }
    test_done();
}

/* Rows and their ids in another order are the same set, and so the same index. */
static void rows_in_any_order_make_one_index_and_one_file(void **state) {
    (void)state;
    struct random random = test_random(3);
    for (int pair = 0; pair < TYPE_PAIRS; pair++) {
        struct scene scene;
        uint64_t right = 0, right_file = 0;
        scene_draw(&random, pair, 250, &scene);
        size_t row_bytes = (size_t)scene.data.dim * vic_dtype_bytes(scene.data.dtype);
        char *rows = scene.data.rows, *kept = take(row_bytes);
        for (int turn = 0; turn < 6; turn++) {
            struct vic_device *device = device_with(turn % 2 ? "scalar" : NULL, 1 + turn);
            struct vic_index *index = index_with_planes(device, &scene.data, VIC_PLANES_8 | VIC_PLANES_4);
            must(vic_index_save(index, scratch_path("index"), NULL));
            struct blob blob = blob_read(scratch_path("index"));
            uint64_t hash = answers_hash(index, &scene), file = XXH3_64bits(blob.bytes, blob.size);
            test_says("pair %d, turn %d", pair, turn);
            if (turn == 0) right = hash, right_file = file;
            assert_true(hash == right);
            assert_true(file == right_file);
            blob_free(&blob);
            vic_index_free(index);
            vic_device_free(device);
            for (int64_t i = scene.data.n - 1; i > 0; i--) {
                int64_t other = random_below(&random, i + 1), id = scene.ids[i];
                scene.ids[i] = scene.ids[other], scene.ids[other] = id;
                memcpy(kept, rows + (size_t)i * row_bytes, row_bytes);
                memmove(rows + (size_t)i * row_bytes, rows + (size_t)other * row_bytes, row_bytes);
                memcpy(rows + (size_t)other * row_bytes, kept, row_bytes);
            }
        }
        free(kept);
        scene_free(&scene);
    }
    test_done();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_repeats_have_one_hash),
        cmocka_unit_test_teardown(fresh_devices_tables_threads_and_planes_have_one_hash, test_tell),
        cmocka_unit_test_teardown(rows_in_any_order_make_one_index_and_one_file, test_tell),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
