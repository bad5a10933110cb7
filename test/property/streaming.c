/* Rows that come in blocks, from memory or from a file, into memory or straight into an index file: whichever way, the same
 * answers and the same file, byte by byte; and what goes wrong in a later block is named by its own row and leaves nothing. */
#include "support/counting.h"
#include "support/scene.h"
#include "support/scratch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void expect_same_file(const struct vic_index *index, const struct blob *right) {
    must(vic_index_save(index, scratch_path("again"), NULL));
    assert_true(blob_equals_file(right, scratch_path("again")));
}

/* From memory and from a vector file, into memory and into an index file. */
static void check_ways(struct vic_device *device, const struct scene *scene, int32_t planes, int64_t k) {
    const struct data *data = &scene->data;
    struct vic_matrix rows = matrix_of(data->rows, data->n, data->dim, data->dtype);
    struct vic_build_options options = {
        .size = sizeof options, .metric = data->metric, .ids = data->ids, .metadata = "{\"way\":1}", .planes = planes};
    struct vic_reader_options reader = {.size = sizeof reader, .dtype = data->dtype, .format = "bin"};
    struct vic_index *index = NULL;
    must(vic_index_build(device, &rows, &options, &index));
    order_check_search(&scene->order, index, &scene->order.queries, 0, k, NULL);
    must(vic_index_save(index, scratch_path("first"), NULL));
    vic_index_free(index);
    struct blob right = blob_read(scratch_path("first"));
    must(vic_matrix_write(scratch_path("vectors.bin"), &rows, NULL));
    for (int way = 1; way < 4; way++) {
        options.path = way & 1 ? scratch_path("built") : NULL;
        options.reader = &reader;
        index = NULL;
        if (way & 2)
            must(vic_index_build_file(device, scratch_path("vectors.bin"), &options, &index));
        else
            must(vic_index_build(device, &rows, &options, &index));
        test_says("way %d, n %lld, dim %lld, %s, %s", way, (long long)data->n, (long long)data->dim,
                  vic_dtype_name(data->dtype), vic_metric_name(data->metric));
        order_check_search(&scene->order, index, &scene->order.queries, 0, k, NULL);
        must(vic_index_check(index, NULL));
        if (options.path) assert_true(blob_equals_file(&right, options.path));
        expect_same_file(index, &right);
        struct vic_index_info info = {.size = sizeof info};
        must(vic_index_info(index, &info));
        assert_int_equal(info.mapped_bytes != 0, options.path != NULL);
        assert_string_equal(info.metadata, "{\"way\":1}");
        vic_index_free(index);
    }
    blob_free(&right);
}

static void every_way_in_makes_the_same_index(void **state) {
    (void)state;
    /* the second shape is three blocks of 8 MiB and a part of one */
    static const int64_t shapes[][2] = {{700, 9}, {1100, 6000}, {0, 5}, {1, 1}};
    struct random random = test_random(1);
    struct vic_device *device = device_within(0, 2, NULL);
    for (int s = 0; s < 4; s++)
        for (int pair = 0; pair < TYPE_PAIRS; pair += s == 1 ? 5 : 1) {
            bool integers = type_pairs[pair][0] == VIC_I8 || type_pairs[pair][0] == VIC_U8;
            bool writable = type_pairs[pair][0] != VIC_BF16; /* no vector file has that type */
            struct shape shape = {.n = shapes[s][0],
                                  .nq = 2,
                                  .dim = shapes[s][1],
                                  .dtype = writable ? type_pairs[pair][0] : VIC_F16,
                                  .query_dtype = VIC_F32,
                                  .metric = (enum vic_metric)(1 + (pair + s) % 3),
                                  .values = pair % 2 ? VALUES_SMALL_INT : VALUES_UNIT,
                                  .ids = (enum scene_ids)(pair % 3)};
            struct scene scene;
            scene_make(&random, &shape, &scene);
            check_ways(device, &scene, integers || s > 1 ? VIC_PLANES_NONE : 2 << pair % 2, 50);
            scene_free(&scene);
        }
    vic_device_free(device);
    test_done();
}

/* 64 MB of rows through a budget of 40. */
static void rows_need_not_fit_in_memory_on_their_way_into_a_file(void **state) {
    (void)state;
    enum { N = 16000, DIM = 1000 };
    struct random random = test_random(2);
    struct shape shape = {
        .n = N, .nq = 1, .dim = DIM, .dtype = VIC_F32, .query_dtype = VIC_F32, .metric = VIC_COSINE, .ids = IDS_SHUFFLED};
    struct scene scene;
    struct counting counting = {0};
    scene_make(&random, &shape, &scene);
    struct vic_matrix rows = matrix_of(scene.data.rows, N, DIM, VIC_F32);
    struct vic_device *device = device_within(40 << 20, 2, &counting);
    struct vic_build_options options = {.size = sizeof options, .ids = scene.ids, .planes = VIC_PLANES_NONE};
    struct vic_reader_options reader = {.size = sizeof reader};
    struct vic_index *index = NULL;
    must(vic_matrix_write(scratch_path("vectors.fbin"), &rows, NULL));
    assert_int_equal(vic_index_build(device, &rows, &options, &index), VIC_BUDGET);
    options.path = scratch_path("built");
    options.reader = &reader;
    for (int way = 0; way < 2; way++) {
        if (way)
            must(vic_index_build_file(device, scratch_path("vectors.fbin"), &options, &index));
        else
            must(vic_index_build(device, &rows, &options, &index));
        order_check_search(&scene.order, index, &scene.order.queries, 0, 100, NULL);
        vic_index_free(index);
        assert_true(atomic_load(&counting.peak_bytes) <= 40 << 20);
    }
    vic_device_free(device);
    assert_int_equal(atomic_load(&counting.live_bytes), 0);
    scene_free(&scene);
}

/* ---- what goes wrong */

static int stop_at_once(void *user, const struct vic_progress_state *state) {
    int64_t *reports = user;
    return state->done > 0 && ++*reports > 0;
}

static void a_build_into_a_file_that_fails_leaves_the_old_file_and_nothing_else(void **state) {
    (void)state;
    enum { N = 3000, DIM = 2000 };
    float *values = take(N * DIM * 4L), good[] = {1, 2};
    struct random random = test_random(3);
    random_fill(&random, VALUES_UNIT, VIC_F32, N * DIM, values);
    struct vic_device *device = device_within(0, 2, NULL);
    struct vic_matrix rows = matrix_of(values, N, DIM, VIC_F32), small = matrix_of(good, 1, 2, VIC_F32);
    struct vic_build_options options = {.size = sizeof options, .path = scratch_path("built"), .planes = VIC_PLANES_NONE};
    struct vic_index *index = NULL;
    int64_t reports = 0;
    scratch_clear();
    must(vic_index_build(device, &small, &options, &index));
    vic_index_free(index);
    index = NULL;
    struct blob old = blob_read(scratch_path("built"));
    int64_t entries = scratch_count();

    values[2500 * DIM + 1999] = NAN; /* in the third block */
    assert_int_equal(vic_index_build(device, &rows, &options, &index), VIC_NOT_FINITE);
    assert_true(error_says("row 2500") && error_says("column 1999"));
    values[2500 * DIM + 1999] = 1e6f;
    options.dtype = VIC_F16;
    assert_int_equal(vic_index_build(device, &rows, &options, &index), VIC_TYPE);
    assert_true(error_says("row 2500") && error_says("column 1999"));
    options.dtype = 0;
    options.progress = (struct vic_progress){stop_at_once, &reports};
    assert_int_equal(vic_index_build(device, &rows, &options, &index), VIC_CANCELLED);
    options.progress = (struct vic_progress){NULL, NULL};
    struct vic_device *poor = device_within(8 << 20, 2, NULL);
    assert_int_equal(vic_index_build(poor, &rows, &options, &index), VIC_BUDGET);
    vic_device_free(poor);
    int64_t twice[N];
    for (int64_t i = 0; i < N; i++) twice[i] = i / 2;
    options.ids = twice;
    assert_int_equal(vic_index_build(device, &rows, &options, &index), VIC_ID);

    assert_null(index);
    assert_true(reports > 0);
    assert_true(blob_equals_file(&old, scratch_path("built")));
    assert_int_equal(scratch_count(), entries);
    blob_free(&old);
    vic_device_free(device);
    free(values);
}

/* Every budget between nothing and enough: either a whole index, or a refusal that leaves no file. */
static void no_budget_leaves_a_file_without_an_index(void **state) {
    (void)state;
    struct random random = test_random(4);
    struct shape shape = {
        .n = 3000, .nq = 1, .dim = 50, .dtype = VIC_F32, .query_dtype = VIC_F32, .metric = VIC_DOT, .ids = IDS_SHUFFLED};
    struct scene scene;
    scene_make(&random, &shape, &scene);
    struct vic_matrix rows = matrix_of(scene.data.rows, shape.n, shape.dim, VIC_F32);
    struct vic_build_options options = {
        .size = sizeof options, .metric = VIC_DOT, .ids = scene.ids, .path = scratch_path("built"), .planes = VIC_PLANES_4};
    bool refused = false, built = false;
    for (uint64_t budget = 1 << 20; budget < 24 << 20; budget += 300007) {
        scratch_clear();
        struct vic_device *device = device_within(budget, 2, NULL);
        struct vic_index *index = NULL;
        enum vic_status status = vic_index_build(device, &rows, &options, &index);
        test_says("budget %llu", (unsigned long long)budget);
        assert_true(status == VIC_OK || status == VIC_BUDGET);
        assert_int_equal(status == VIC_OK, index != NULL);
        assert_int_equal(status == VIC_OK, scratch_has("built"));
        if (index) order_check_search(&scene.order, index, &scene.order.queries, 0, 10, NULL);
        vic_index_free(index);
        vic_device_free(device);
        refused |= status == VIC_BUDGET;
        built |= status == VIC_OK;
    }
    assert_true(refused && built);
    scene_free(&scene);
    test_done();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_way_in_makes_the_same_index, test_tell),
        cmocka_unit_test(rows_need_not_fit_in_memory_on_their_way_into_a_file),
        cmocka_unit_test(a_build_into_a_file_that_fails_leaves_the_old_file_and_nothing_else),
        cmocka_unit_test_teardown(no_budget_leaves_a_file_without_an_index, test_tell),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
