/* Every search equals the oracle, byte by byte: all types, metrics and dimensions with all tables of kernels, numbers of
 * rows, queries and hits at the edges of blocks and tiles, any ids, any number of threads, both paths.
 *
 * The tables come from the library's own list and the thread counts take turns, so that each situation is asked of all
 * tables and all counts are seen by all types. */
#include "support/scene.h"

#include <stdlib.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static const int64_t dims[] = {1,  2,  3,   7,   8,   15,  16,  17,  31,  32,  33,  48,  63,  64,
                               65, 97, 100, 127, 128, 129, 255, 256, 257, 384, 385, 960, 1007};
static const int64_t counts[] = {1,  2,  3,  5,  7,  8,  9,   15,  16,  17,  31,  32,  33,
                                 63, 64, 65, 66, 95, 96, 127, 128, 129, 255, 256, 257, 1000};
static const int32_t threads_tried[] = {1, 2, 3, 16};
static const int32_t planes_tried[] = {VIC_PLANES_8 | VIC_PLANES_4, VIC_PLANES_NONE, VIC_PLANES_4, VIC_PLANES_8};
#define COUNT(array) (int64_t)(sizeof(array) / sizeof *(array))

/* One device a table and thread count, opened once. */
static struct vic_device *devices[16][COUNT(threads_tried)];

static int devices_open(void **state) {
    (void)state;
    for (int table = 0; kernels_here()[table]; table++)
        for (int64_t i = 0; i < COUNT(threads_tried); i++)
            devices[table][i] = device_with(kernels_here()[table], threads_tried[i]);
    return 0;
}

static int devices_close(void **state) {
    (void)state;
    for (int table = 0; kernels_here()[table]; table++)
        for (int64_t i = 0; i < COUNT(threads_tried); i++) vic_device_free(devices[table][i]);
    return 0;
}

/* All tables, each path and each k; `turn` picks the number of threads and the planes. */
static void check_everywhere(const struct shape *shape, const struct scene *scene, const int64_t *ks, int64_t ks_count,
                             int64_t turn) {
    for (int table = 0; kernels_here()[table]; table++) {
        int64_t slot = (turn + table) % COUNT(threads_tried);
        test_says_shape(shape, kernels_here()[table], threads_tried[slot]);
        struct vic_index *index =
            index_with_planes(devices[table][slot], &scene->data, planes_tried[turn / 4 % COUNT(planes_tried)]);
        for (int64_t p = 0; p < PATHS; p++)
            for (int64_t i = 0; i < ks_count; i++) {
                struct vic_search_options options = {.size = sizeof options, .path = paths[p]};
                order_check_search(&scene->order, index, &scene->order.queries, 0, ks[i], &options);
            }
        vic_index_free(index);
    }
}

static void shape_check(struct random *random, const struct shape *shape, int64_t turn) {
    struct scene scene;
    int64_t ks[] = {1 + random_below(random, shape->n ? shape->n : 1), 1 + random_below(random, 12)};
    scene_make(random, shape, &scene);
    check_everywhere(shape, &scene, ks, COUNT(ks), turn);
    scene_free(&scene);
}

static void every_dimension_type_and_metric_gives_the_oracles_bytes(void **state) {
    (void)state;
    struct random random = test_random(1);
    int64_t turn = 0;
    for (int64_t d = 0; d < COUNT(dims); d++)
        for (int pair = 0; pair < TYPE_PAIRS; pair++)
            for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
                struct shape shape = {.n = 1 + random_below(&random, 40),
                                      .nq = 1 + random_below(&random, 10),
                                      .dim = dims[d],
                                      .dtype = type_pairs[pair][0],
                                      .query_dtype = type_pairs[pair][1],
                                      .metric = metric,
                                      .values = (enum values)random_below(&random, VALUES_COUNT),
                                      .ids = (enum scene_ids)random_below(&random, IDS_COUNT)};
                shape_check(&random, &shape, turn++);
            }
    test_done();
}

static void every_count_of_rows_and_queries_gives_the_oracles_bytes(void **state) {
    (void)state;
    struct random random = test_random(2);
    for (int64_t i = 0; i < COUNT(counts); i++)
        for (int64_t j = 0; j < COUNT(counts); j++) {
            int pair = (int)random_below(&random, TYPE_PAIRS);
            if (counts[i] * counts[j] > 80000) continue;
            struct shape shape = {.n = counts[i],
                                  .nq = counts[j],
                                  .dim = 1 + random_below(&random, 9),
                                  .dtype = type_pairs[pair][0],
                                  .query_dtype = type_pairs[pair][1],
                                  .metric = (enum vic_metric)(1 + random_below(&random, 3)),
                                  .values = (enum values)random_below(&random, VALUES_COUNT),
                                  .ids = (enum scene_ids)random_below(&random, IDS_COUNT)};
            struct scene scene;
            scene_make(&random, &shape, &scene);
            int slot = (int)random_below(&random, 2), table = 0;
            while (kernels_here()[table + 1] && random_below(&random, 3)) table++;
            struct vic_index *index = index_of(devices[table][slot], &scene.data);
            int64_t ks[] = {1, 10, shape.n};
            for (int64_t k = 0; k < COUNT(ks); k++) {
                test_says_shape(&shape, kernels_here()[table], threads_tried[slot]);
                order_check_search(&scene.order, index, &scene.order.queries, 0, ks[k], NULL);
            }
            vic_index_free(index);
            scene_free(&scene);
        }
    test_done();
}

/* Rows enough for several parts a worker, k around the number of rows and where the library changes its way. */
static void every_k_is_a_prefix_of_the_whole_order(void **state) {
    (void)state;
    static const int64_t row_counts[] = {1, 2, 63, 64, 65, 1000, 4100};
    struct random random = test_random(3);
    for (int64_t i = 0; i < COUNT(row_counts); i++)
        for (int turn = 0; turn < 3; turn++) {
            int pair = (int)random_below(&random, TYPE_PAIRS);
            int64_t n = row_counts[i];
            struct shape shape = {.n = n,
                                  .nq = 1 + random_below(&random, 5),
                                  .dim = 1 + random_below(&random, 6),
                                  .dtype = type_pairs[pair][0],
                                  .query_dtype = type_pairs[pair][1],
                                  .metric = (enum vic_metric)(1 + turn),
                                  .values = turn == 2 ? VALUES_WILD : VALUES_SMALL_INT,
                                  .ids = (enum scene_ids)random_below(&random, IDS_COUNT)};
            struct scene scene;
            int64_t ks[] = {1, 2, 31, 32, 33, 64, 65, 100, 1023, 1024, 1025, 1026, n - 1, n, n + 1, 2 * n};
            for (int64_t k = 0; k < COUNT(ks); k++)
                if (ks[k] < 1) ks[k] = 1;
            scene_make(&random, &shape, &scene);
            for (int table = 0; kernels_here()[table]; table++)
                for (int slot = 0; slot < COUNT(threads_tried); slot += 1 + (table + turn) % 2) {
                    test_says_shape(&shape, kernels_here()[table], threads_tried[slot]);
                    struct vic_index *index = index_with_planes(devices[table][slot], &scene.data,
                                                                planes_tried[(i + turn + slot) % COUNT(planes_tried)]);
                    for (int64_t k = 0; k < COUNT(ks); k++)
                        for (int64_t p = 0; p < PATHS; p++) {
                            struct vic_search_options options = {.size = sizeof options, .path = paths[p]};
                            order_check_search(&scene.order, index, &scene.order.queries, 0, ks[k], &options);
                        }
                    vic_index_free(index);
                }
            scene_free(&scene);
        }
    test_done();
}

static void random_situations_give_the_oracles_bytes(void **state) {
    (void)state;
    struct random random = test_random(4);
    for (int64_t turn = 0; turn < 30; turn++) {
        int pair = (int)random_below(&random, TYPE_PAIRS);
        struct shape shape = {.n = 1 + random_below(&random, 2500),
                              .nq = 1 + random_below(&random, 70),
                              .dim = 1 + random_below(&random, 300),
                              .dtype = type_pairs[pair][0],
                              .query_dtype = type_pairs[pair][1],
                              .metric = (enum vic_metric)(1 + random_below(&random, 3)),
                              .values = (enum values)random_below(&random, VALUES_COUNT),
                              .ids = (enum scene_ids)random_below(&random, IDS_COUNT)};
        int64_t most = 1500000 / (shape.n * (shape.dim + 128));
        if (shape.nq > most) shape.nq = most < 1 ? 1 : most;
        shape_check(&random, &shape, turn);
    }
    test_done();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_dimension_type_and_metric_gives_the_oracles_bytes, test_tell),
        cmocka_unit_test_teardown(every_count_of_rows_and_queries_gives_the_oracles_bytes, test_tell),
        cmocka_unit_test_teardown(every_k_is_a_prefix_of_the_whole_order, test_tell),
        cmocka_unit_test_teardown(random_situations_give_the_oracles_bytes, test_tell),
    };
    return cmocka_run_group_tests(tests, devices_open, devices_close);
}
