/* The other questions against the oracle: searches through filters on all paths, threshold searches, scores of given rows. */
#include "support/scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static struct shape shape_draw(struct random *random, int64_t rows_most) {
    int pair = (int)random_below(random, TYPE_PAIRS);
    return (struct shape){.n = 1 + random_below(random, rows_most),
                          .nq = 1 + random_below(random, 9),
                          .dim = 1 + random_below(random, 150),
                          .dtype = type_pairs[pair][0],
                          .query_dtype = type_pairs[pair][1],
                          .metric = (enum vic_metric)(1 + random_below(random, 3)),
                          .values = (enum values)random_below(random, VALUES_COUNT),
                          .ids = (enum scene_ids)random_below(random, IDS_COUNT)};
}

static int64_t id_of(const struct scene *scene, int64_t row) { return scene->ids ? scene->ids[row] : row; }

/* About one id in `sparse`, some of them twice, and some that the index does not have. */
static int64_t ids_pick(struct random *random, const struct scene *scene, int64_t sparse, int64_t *ids) {
    int64_t count = 0;
    for (int64_t row = 0; row < scene->data.n; row++) {
        if (random_below(random, sparse) == 0) ids[count++] = id_of(scene, row);
        if (random_below(random, 20) == 0 && count) ids[count] = ids[random_below(random, count)], count++;
    }
    ids[count++] = INT64_MAX;
    ids[count++] = -7;
    return count;
}

static void check_filter(const struct scene *scene, const struct vic_index *index, const int64_t *ids, int64_t count,
                         bool exclude, struct random *random) {
    struct vic_filter_options filter_options = {.size = sizeof filter_options, .exclude = exclude};
    struct vic_filter *filter = NULL;
    must(vic_filter_create(index, ids, count, &filter_options, &filter));
    struct order order = order_filtered(&scene->order, ids, count, exclude);
    assert_int_equal(vic_filter_count(filter), order.counts[0]);
    for (int p = 0; p < PATHS; p++) {
        struct vic_search_options options = {.size = sizeof options, .filter = filter, .path = paths[p]};
        int64_t k = 1 + random_below(random, 2 * scene->data.n);
        order_check_search(&order, index, &order.queries, 0, k, &options);
        order_check_search(&order, index, &order.queries, 0, 1, &options);
        order_check_within(&order, index, scene->order.scores[random_below(random, scene->data.n)], &options);
    }
    order_free(&order);
    vic_filter_free(filter);
}

static void filters_choose_before_the_best_are_chosen(void **state) {
    (void)state;
    static const int64_t sparse[] = {1, 2, 5, 40, 100000};
    struct random random = test_random(1);
    for (int turn = 0; turn < 60; turn++) {
        struct shape shape = shape_draw(&random, turn % 2 ? 900 : 130);
        struct scene scene;
        const char *table = kernels_here()[0];
        for (int i = 0; kernels_here()[i] && i <= turn % 4; i++) table = kernels_here()[i];
        scene_make(&random, &shape, &scene);
        struct vic_device *device = device_with(table, 1 + turn % 3);
        struct vic_index *index =
            index_with_planes(device, &scene.data, turn % 3 ? VIC_PLANES_8 | VIC_PLANES_4 : VIC_PLANES_NONE);
        int64_t *ids = take((size_t)(2 * shape.n + 2) * 8);
        for (size_t i = 0; i < sizeof sparse / sizeof *sparse; i++) {
            int64_t count = ids_pick(&random, &scene, sparse[i], ids);
            test_says_shape(&shape, table, 1 + turn % 3);
            check_filter(&scene, index, ids, count, false, &random);
            check_filter(&scene, index, ids, count, true, &random);
        }
        free(ids);
        vic_index_free(index);
        vic_device_free(device);
        scene_free(&scene);
    }
    test_done();
}

static void thresholds_take_all_that_reach_them_and_the_equal(void **state) {
    (void)state;
    struct random random = test_random(2);
    for (int turn = 0; turn < 60; turn++) {
        struct shape shape = shape_draw(&random, turn % 3 ? 200 : 3000);
        struct scene scene;
        int tables = 0;
        while (kernels_here()[tables]) tables++;
        const char *table = kernels_here()[turn % tables];
        scene_make(&random, &shape, &scene);
        struct vic_device *device = device_with(table, 1 + turn % 3);
        struct vic_index *index = index_of(device, &scene.data);
        float at = scene.order.scores[random_below(&random, shape.n)];
        float thresholds[] = {at,   nextafterf(at, INFINITY), nextafterf(at, -INFINITY), 0.0f, -0.0f, INFINITY, -INFINITY,
                              1.0f, scene.order.scores[0]};
        test_says_shape(&shape, table, 1 + turn % 3);
        for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds; i++)
            order_check_within(&scene.order, index, thresholds[i], NULL);
        vic_index_free(index);
        vic_device_free(device);
        scene_free(&scene);
    }
    test_done();
}

/* Numbers of rows and of queries about those that kernels take at once. */
static void thresholds_of_many_queries_at_once_are_those_of_each(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 15, 16, 31, 32, 33, 63, 64, 65, 127, 129, 300},
                         nqs[] = {2, 15, 16, 17, 31, 32, 33, 40, 65};
    struct random random = test_random(4);
    for (int turn = 0; turn < 36; turn++) {
        struct shape shape = shape_draw(&random, 1);
        struct scene scene;
        shape.n = rows[random_below(&random, 12)], shape.nq = nqs[turn % 9];
        scene_make(&random, &shape, &scene);
        struct vic_device *device = device_with(NULL, 1 + turn % 3);
        struct vic_index *index = index_of(device, &scene.data);
        int64_t *ids = take((size_t)(2 * shape.n + 2) * 8), count = ids_pick(&random, &scene, 3, ids);
        struct vic_filter *filter = NULL;
        must(vic_filter_create(index, ids, count, NULL, &filter));
        struct vic_search_options options = {.size = sizeof options, .filter = filter};
        struct order passing = order_filtered(&scene.order, ids, count, false);
        float at = scene.order.scores[random_below(&random, shape.nq * shape.n)];
        test_says_shape(&shape, "the best", 1 + turn % 3);
        order_check_within(&scene.order, index, at, NULL);
        order_check_within(&passing, index, at, &options);
        order_check_within(&scene.order, index, shape.metric == VIC_L2 ? INFINITY : -INFINITY, NULL);
        order_free(&passing);
        vic_filter_free(filter);
        free(ids);
        vic_index_free(index);
        vic_device_free(device);
        scene_free(&scene);
    }
    test_done();
}

/* The score of an id, from the order: what a search would say. */
static float score_right(const struct order *order, int64_t j, int64_t id) {
    int64_t n = order->data->n;
    for (int64_t i = 0; i < n; i++)
        if (order->ids[j * n + i] == id) return order->scores[j * n + i];
    return order->data->metric == VIC_L2 ? INFINITY : -INFINITY;
}

/* Widths about and beyond what one slice of the library's holds, on a CPU and on a GPU. */
static void scores_of_given_ids_are_those_of_a_search(void **state) {
    (void)state;
    static const int64_t widths[] = {1, 2, 63, 64, 65, 130, 4095, 4096, 4097, 66000};
    struct random random = test_random(3);
    int tables = 0;
    while (kernels_here()[tables]) tables++;
    for (int turn = 0; turn < 40; turn++) {
        int64_t width = widths[turn % 10];
        struct shape shape = shape_draw(&random, 60);
        struct scene scene;
        scene_make(&random, &shape, &scene);
        struct vic_device *device = device_with(kernels_here()[turn % tables], 1 + turn % 3);
        struct vic_index *index = index_of(device, &scene.data);
        size_t slots = (size_t)(shape.nq * width);
        int64_t *ids = take(slots * 8);
        float *scores = take(slots * 4);
        for (size_t i = 0; i < slots; i++)
            ids[i] = random_below(&random, 10) ? id_of(&scene, random_below(&random, shape.n)) : -1;
        memset(scores, 0xAA, slots * 4);
        test_says_shape(&shape, kernels_here()[turn % tables], 1 + turn % 3);
        must(vic_index_score(index, &scene.order.queries, ids, width, NULL, scores));
        for (size_t i = 0; i < slots; i++) {
            float right = score_right(&scene.order, (int64_t)i / width, ids[i]);
            assert_memory_equal(&scores[i], &right, 4);
        }
        free(ids);
        free(scores);
        vic_index_free(index);
        vic_device_free(device);
        scene_free(&scene);
    }
    test_done();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(filters_choose_before_the_best_are_chosen, test_tell),
        cmocka_unit_test_teardown(thresholds_take_all_that_reach_them_and_the_equal, test_tell),
        cmocka_unit_test_teardown(thresholds_of_many_queries_at_once_are_those_of_each, test_tell),
        cmocka_unit_test_teardown(scores_of_given_ids_are_those_of_a_search, test_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
