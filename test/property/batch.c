/* A query's answer is its own: whatever batch it is in, wherever it stands there, however the matrix lies in memory. And
 * rows are what a matrix says they are, packed or not. */
#include "support/scene.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#define COUNT(array) (int64_t)(sizeof(array) / sizeof *(array))

/* A matrix whose row i is packed row (first + i) mod packed->rows, one every `stride_bytes` (negative: from the end of its
 * memory backwards), `shift` bytes off any alignment, with bytes of 0xFF, which no float may be, in between. */
struct layout {
    char *memory;
    struct vic_matrix matrix;
};

static struct layout layout_make(const struct vic_matrix *packed, int64_t first, int64_t rows, int64_t stride_bytes,
                                 int64_t shift) {
    int64_t row_bytes = packed->dim * (int64_t)vic_dtype_bytes(packed->dtype), step = llabs(stride_bytes);
    size_t bytes = (size_t)((rows > 0 ? rows - 1 : 0) * step + row_bytes);
    struct layout layout = {.memory = take(bytes + (size_t)shift), .matrix = *packed};
    memset(layout.memory, 0xFF, bytes + (size_t)shift);
    char *start = layout.memory + shift + (stride_bytes < 0 ? (rows - 1) * step : 0);
    for (int64_t i = 0; i < rows; i++)
        memcpy(start + i * stride_bytes, (const char *)packed->data + (first + i) % packed->rows * row_bytes,
               (size_t)row_bytes);
    layout.matrix.data = start;
    layout.matrix.rows = rows;
    layout.matrix.stride_bytes = stride_bytes;
    return layout;
}

/* Strides that keep rows apart: packed, odd, a power of two, and all of them backwards. */
static int64_t stride_draw(struct random *random, int64_t row_bytes) {
    int64_t stride = row_bytes;
    switch (random_below(random, 3)) {
    case 0: break;
    case 1: stride += 1 + random_below(random, 77); break;
    default:
        while (stride & (stride - 1)) stride += stride & -stride;
        stride *= 2;
    }
    return random_below(random, 2) ? stride : -stride;
}

static void answers_do_not_depend_on_batch_or_place(void **state) {
    (void)state;
    static const int64_t batches[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64, 65, 511, 512, 513, 1000, 1024};
    struct random random = test_random(1);
    for (int pair = 0; pair < TYPE_PAIRS; pair++) {
        struct shape shape = {.n = 300 + random_below(&random, 300),
                              .nq = 19,
                              .dim = 20 + random_below(&random, 150),
                              .dtype = type_pairs[pair][0],
                              .query_dtype = type_pairs[pair][1],
                              .metric = (enum vic_metric)(1 + pair % 3),
                              .values = pair % 2 ? VALUES_SMALL_INT : VALUES_UNIT,
                              .ids = IDS_SHUFFLED};
        struct scene scene;
        scene_make(&random, &shape, &scene);
        for (int threads = 1; threads <= 3; threads++) {
            struct vic_device *device = device_of(threads);
            struct vic_index *index = index_of(device, &scene.data);
            for (int64_t b = 0; b < COUNT(batches); b++) {
                int64_t first = random_below(&random, shape.nq), k = 1 + random_below(&random, 40);
                test_says("batch %lld from query %lld, k %lld, pair %d, dim %lld, threads %d", (long long)batches[b],
                          (long long)first, (long long)k, pair, (long long)shape.dim, threads);
                struct layout layout = layout_make(&scene.order.queries, first, batches[b],
                                                   shape.dim * (int64_t)vic_dtype_bytes(shape.query_dtype), 0);
                order_check_search(&scene.order, index, &layout.matrix, first, k, NULL);
                free(layout.memory);
            }
            vic_index_free(index);
            vic_device_free(device);
        }
        scene_free(&scene);
    }
    test_done();
}

/* Two thousand queries are cut into blocks inside; with a large k the blocks are short. */
static void answers_do_not_depend_on_how_a_batch_is_cut(void **state) {
    (void)state;
    static const int64_t ks[] = {1, 100, 450, 3000};
    struct random random = test_random(2);
    struct shape shape = {.n = 3000,
                          .nq = 11,
                          .dim = 24,
                          .dtype = VIC_F32,
                          .query_dtype = VIC_F32,
                          .metric = VIC_L2,
                          .values = VALUES_SMALL_INT,
                          .ids = IDS_NONE};
    struct scene scene;
    scene_make(&random, &shape, &scene);
    struct vic_device *device = device_of(2);
    struct vic_index *index = index_of(device, &scene.data);
    for (int64_t i = 0; i < COUNT(ks); i++) {
        struct layout layout = layout_make(&scene.order.queries, 3, ks[i] > 100 ? 300 : 2000, shape.dim * 4, 0);
        test_says("%lld queries, k %lld", (long long)layout.matrix.rows, (long long)ks[i]);
        order_check_search(&scene.order, index, &layout.matrix, 3, ks[i], NULL);
        free(layout.memory);
    }
    vic_index_free(index);
    vic_device_free(device);
    scene_free(&scene);
    test_done();
}

static void queries_may_lie_in_memory_in_any_way(void **state) {
    (void)state;
    struct random random = test_random(3);
    struct vic_device *device = device_of(2);
    for (int turn = 0; turn < 120; turn++) {
        int pair = turn % TYPE_PAIRS;
        struct shape shape = {.n = 1 + random_below(&random, 100),
                              .nq = 1 + random_below(&random, 20),
                              .dim = 1 + random_below(&random, 70),
                              .dtype = type_pairs[pair][0],
                              .query_dtype = type_pairs[pair][1],
                              .metric = (enum vic_metric)(1 + random_below(&random, 3)),
                              .values = (enum values)random_below(&random, VALUES_COUNT)};
        struct scene scene;
        scene_make(&random, &shape, &scene);
        struct vic_index *index = index_of(device, &scene.data);
        int64_t stride = stride_draw(&random, shape.dim * (int64_t)vic_dtype_bytes(shape.query_dtype));
        int64_t shift = random_below(&random, 5);
        test_says("stride %lld, shift %lld, pair %d, dim %lld", (long long)stride, (long long)shift, pair,
                  (long long)shape.dim);
        struct layout layout = layout_make(&scene.order.queries, 0, shape.nq, stride, shift);
        order_check_search(&scene.order, index, &layout.matrix, 0, 1 + random_below(&random, 30), NULL);
        struct order moved = scene.order;
        moved.queries = layout.matrix;
        order_check_within(&moved, index, scene.order.scores[shape.n / 2], NULL);
        free(layout.memory);
        vic_index_free(index);
        scene_free(&scene);
    }
    vic_device_free(device);
    test_done();
}

static void rows_may_lie_in_memory_in_any_way(void **state) {
    (void)state;
    struct random random = test_random(4);
    struct vic_device *device = device_of(3);
    for (int turn = 0; turn < 120; turn++) {
        int pair = turn % TYPE_PAIRS;
        struct shape shape = {.n = 1 + random_below(&random, 700),
                              .nq = 3,
                              .dim = 1 + random_below(&random, 40),
                              .dtype = type_pairs[pair][0],
                              .query_dtype = type_pairs[pair][1],
                              .metric = (enum vic_metric)(1 + random_below(&random, 3)),
                              .values = (enum values)random_below(&random, VALUES_COUNT),
                              .ids = (enum scene_ids)random_below(&random, IDS_COUNT)};
        struct scene scene;
        scene_make(&random, &shape, &scene);
        struct vic_matrix packed = matrix_of(scene.data.rows, shape.n, shape.dim, shape.dtype);
        int64_t stride = stride_draw(&random, shape.dim * (int64_t)vic_dtype_bytes(shape.dtype));
        int64_t shift = random_below(&random, 5);
        test_says("stride %lld, shift %lld, pair %d, n %lld, dim %lld", (long long)stride, (long long)shift, pair,
                  (long long)shape.n, (long long)shape.dim);
        struct layout layout = layout_make(&packed, 0, shape.n, stride, shift);
        struct vic_build_options options = {.size = sizeof options, .metric = shape.metric, .ids = scene.ids};
        struct vic_index *index = NULL;
        must(vic_index_build(device, &layout.matrix, &options, &index));
        free(layout.memory);
        order_check_search(&scene.order, index, &scene.order.queries, 0, shape.n, NULL);
        vic_index_free(index);
        scene_free(&scene);
    }
    vic_device_free(device);
    test_done();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(answers_do_not_depend_on_batch_or_place, test_tell),
        cmocka_unit_test_teardown(answers_do_not_depend_on_how_a_batch_is_cut, test_tell),
        cmocka_unit_test_teardown(queries_may_lie_in_memory_in_any_way, test_tell),
        cmocka_unit_test_teardown(rows_may_lie_in_memory_in_any_way, test_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
