/* Memory as a caller sees it: plans that hold, budgets that refuse before anything is taken, hooks that get all of it back,
 * a search that takes none, and callbacks that stop a build. */
#include "support/counting.h"
#include "support/failing.h"
#include "support/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static uint64_t used_by(const struct vic_device *device) {
    struct vic_device_info info = {.size = sizeof info};
    must(vic_device_info(device, &info));
    return info.host_used;
}

/* What there is to build: any type and metric, ids in any order, texts, metadata, planes. */
struct order_form {
    struct scene scene;
    struct vic_matrix rows;
    struct vic_texts texts;
    struct vic_build_options options;
};

static void form_make(struct random *random, int64_t n, int64_t dim, struct order_form *form) {
    int pair = (int)random_below(random, TYPE_PAIRS);
    struct shape shape = {.n = n,
                          .nq = 1,
                          .dim = dim,
                          .dtype = type_pairs[pair][0],
                          .query_dtype = type_pairs[pair][1],
                          .metric = (enum vic_metric)(1 + random_below(random, 3)),
                          .values = VALUES_SMALL_INT,
                          .ids = (enum scene_ids)random_below(random, IDS_COUNT)};
    scene_make(random, &shape, &form->scene);
    bool integers = shape.dtype == VIC_I8 || shape.dtype == VIC_U8;
    form->rows = matrix_of(form->scene.data.rows, n, dim, shape.dtype);
    int64_t *offsets = take((size_t)(n + 1) * 8);
    for (int64_t i = 0; i <= n; i++) offsets[i] = i * 3;
    char *bytes = take((size_t)n * 3 + 1);
    memset(bytes, 't', (size_t)n * 3 + 1);
    form->texts = (struct vic_texts){bytes, offsets, n};
    form->options = (struct vic_build_options){.size = sizeof form->options,
                                               .metric = shape.metric,
                                               .dtype = shape.dtype, /* a plan does not see the rows */
                                               .ids = form->scene.ids,
                                               .texts = random_below(random, 2) ? &form->texts : NULL,
                                               .metadata = random_below(random, 2) ? "{\"kept\": \"with the index\"}" : NULL,
                                               .planes = integers                  ? VIC_PLANES_NONE
                                                         : random_below(random, 2) ? VIC_PLANES_8 | VIC_PLANES_4
                                                                                   : VIC_PLANES_NONE};
}

static void form_free(struct order_form *form) {
    free((void *)(uintptr_t)form->texts.bytes);
    free((void *)(uintptr_t)form->texts.offsets);
    scene_free(&form->scene);
}

/* ---- plans and budgets */

static void a_budget_of_the_plan_is_enough_and_one_byte_less_is_not(void **state) {
    (void)state;
    static const int64_t rows[] = {0, 1, 100, 3000, 20000};
    struct random random = test_random(1);
    for (int turn = 0; turn < 30; turn++) {
        struct order_form form;
        struct vic_plan plan = {.size = sizeof plan};
        form_make(&random, rows[turn % 5], 1 + random_below(&random, 40), &form);
        int32_t threads = 1 + turn % 3;
        struct vic_device *device = device_within(0, threads, NULL);
        uint64_t alone = used_by(device);
        must(vic_index_plan(device, form.rows.rows, form.rows.dim, &form.options, &plan));
        assert_true(plan.host_bytes == plan.row_bytes + plan.extra_bytes + plan.workspace_bytes);
        assert_true(plan.row_bytes == (uint64_t)(form.rows.rows * form.rows.dim) * vic_dtype_bytes(form.rows.dtype));
        vic_device_free(device);
        test_says("turn %d: plan %llu, device alone %llu", turn, (unsigned long long)plan.host_bytes,
                  (unsigned long long)alone);

        struct vic_index *index = NULL;
        device = device_within(alone + plan.host_bytes, threads, NULL);
        must(vic_index_build(device, &form.rows, &form.options, &index));
        order_check_search(&form.scene.order, index, &form.scene.order.queries, 0, 10, NULL);
        assert_true(used_by(device) <= alone + plan.host_bytes);
        vic_index_free(index);
        assert_true(used_by(device) == alone);
        vic_device_free(device);

        struct counting counting = {0};
        device = device_within(alone + plan.host_bytes - 1, threads, &counting);
        int64_t requests = atomic_load(&counting.requests);
        index = NULL;
        assert_int_equal(vic_index_build(device, &form.rows, &form.options, &index), VIC_BUDGET);
        assert_true(error_says_number(plan.host_bytes) && error_says_number(alone + plan.host_bytes - 1) &&
                    error_says("host_bytes"));
        assert_null(index);
        assert_int_equal(atomic_load(&counting.requests), requests); /* not even tried */
        assert_true(used_by(device) == alone);
        vic_device_free(device);
        assert_int_equal(atomic_load(&counting.live_bytes), 0);
        form_free(&form);
    }
    test_done();
}

/* Planes that the library would choose by itself are no part of a plan, and so they must not break its budget. */
static void planes_nobody_asked_for_are_left_out_where_there_is_no_room(void **state) {
    (void)state;
    struct random random = test_random(6);
    struct shape shape = {.n = 40000, .nq = 1, .dim = 64, .dtype = VIC_F32, .query_dtype = VIC_F32, .metric = VIC_DOT};
    struct scene scene;
    scene_make(&random, &shape, &scene);
    struct vic_matrix rows = matrix_of(scene.data.rows, shape.n, shape.dim, VIC_F32);
    struct vic_build_options options = {.size = sizeof options, .metric = VIC_DOT};
    struct vic_plan plan = {.size = sizeof plan};
    struct vic_device *device = device_within(0, 2, NULL);
    uint64_t alone = used_by(device);
    int32_t last = 0;
    must(vic_index_plan(device, shape.n, shape.dim, &options, &plan));
    vic_device_free(device);
    for (uint64_t more = 0; more < 40 << 20; more += 4 << 20) {
        struct vic_index *index = NULL;
        device = device_within(alone + plan.host_bytes + more, 2, NULL);
        must(vic_index_build(device, &rows, &options, &index));
        order_check_search(&scene.order, index, &scene.order.queries, 0, 10, NULL);
        struct vic_index_info info = {.size = sizeof info};
        must(vic_index_info(index, &info));
        last = info.planes;
        if (more == 0) assert_int_equal(info.planes, VIC_PLANES_NONE);
        vic_index_free(index);
        assert_true(used_by(device) == alone);
        vic_device_free(device);
    }
    assert_int_not_equal(last, VIC_PLANES_NONE); /* these rows do want them */
    scene_free(&scene);
}

static void a_plan_takes_nothing_and_grows_with_what_is_asked(void **state) {
    (void)state;
    struct counting counting = {0};
    struct vic_device *device = device_within(0, 2, &counting);
    int64_t requests = atomic_load(&counting.requests);
    static const int64_t ids[] = {0};
    struct vic_build_options options = {.size = sizeof options, .metric = VIC_DOT, .planes = VIC_PLANES_NONE};
    struct vic_plan plain = {.size = sizeof plain}, cosine = plain, with_ids = plain, half = plain, huge = plain;
    must(vic_index_plan(device, 1000, 100, &options, &plain));
    options.ids = ids; /* whose contents a plan does not read */
    must(vic_index_plan(device, 1000, 100, &options, &with_ids));
    assert_true(with_ids.extra_bytes == plain.extra_bytes + 8000);
    options.ids = NULL, options.metric = VIC_COSINE;
    must(vic_index_plan(device, 1000, 100, &options, &cosine));
    assert_true(cosine.extra_bytes == plain.extra_bytes + 4000);
    options.dtype = VIC_F16;
    must(vic_index_plan(device, 1000, 100, &options, &half));
    assert_true(half.row_bytes == 200000 && plain.row_bytes == 400000);
    must(vic_index_plan(device, INT64_C(4294967294), 65536, NULL, &huge));
    assert_true(huge.row_bytes == UINT64_C(4294967294) * 65536 * 4);
    assert_true(huge.host_bytes > huge.row_bytes && huge.file_bytes > huge.row_bytes);
    assert_int_equal(atomic_load(&counting.requests), requests);
    vic_device_free(device);
}

/* Eight bits a dimension and all that searches on them need: 1.28 times the rows of 384 float32, whatever the processor. Of the
 * CPU, also where another device is tested: a GPU needs pinned pieces to send rows up, and no planes. */
static void planes_take_little_more_than_their_codes(void **state) {
    (void)state;
    for (int threads = 1; threads <= 64; threads *= 4)
        for (int metric = VIC_DOT; metric <= VIC_L2; metric++) {
            struct vic_device_options cpu = {.size = sizeof cpu, .name = "cpu", .threads = threads};
            struct vic_device *device = NULL;
            must(vic_device_open(&cpu, &device));
            struct vic_build_options options = {
                .size = sizeof options, .metric = (enum vic_metric)metric, .planes = VIC_PLANES_8};
            struct vic_plan plan = {.size = sizeof plan};
            must(vic_index_plan(device, 117659, 384, &options, &plan));
            test_says("%d threads: %llu bytes for %llu of rows", threads, (unsigned long long)plan.host_bytes,
                      (unsigned long long)plan.row_bytes);
            if (threads <= 4) assert_true(plan.host_bytes <= plan.row_bytes / 100 * 128 + (16 << 20));
            must(vic_index_plan(device, 10000000, 384, &options, &plan));
            assert_true(plan.host_bytes <= plan.row_bytes / 100 * 128 + (16 << 20));
            vic_device_free(device);
        }
    test_done();
}

static void a_budget_too_small_for_the_device_itself_opens_nothing(void **state) {
    (void)state;
    for (uint64_t budget = 1; budget < 100000; budget = budget * 3 + 1) {
        struct counting counting = {0};
        struct vic_device_options options = {.size = sizeof options,
                                             .name = "cpu",
                                             .threads = 2,
                                             .host_bytes = budget,
                                             .allocator = counting_allocator(&counting)};
        struct vic_device *device = NULL;
        enum vic_status status = vic_device_open(&options, &device);
        assert_true(status == VIC_OK || (status == VIC_BUDGET && error_says_number(budget)));
        assert_int_equal(status == VIC_OK, device != NULL);
        vic_device_free(device);
        assert_int_equal(atomic_load(&counting.live_blocks), 0);
    }
}

/* Hits are the caller's own memory, and so large answers need no budget of the device. */
static void a_small_budget_does_not_limit_the_callers_arrays(void **state) {
    (void)state;
    static const float vectors[] = {1, 2, 3};
    struct vic_device *device = device_within(32 << 20, 1, NULL);
    struct vic_matrix rows = matrix_of(vectors, 3, 1, VIC_F32);
    struct vic_index *index = NULL;
    struct vic_build_options options = {.size = sizeof options, .metric = VIC_DOT};
    must(vic_index_build(device, &rows, &options, &index));
    int64_t k = 4 << 20, *ids = take((size_t)k * 8);
    float *scores = take((size_t)k * 4);
    struct vic_matrix query = matrix_of(vectors, 1, 1, VIC_F32);
    struct vic_hits hits = {.ids = ids, .scores = scores};
    must(vic_index_search(index, &query, k, NULL, &hits));
    assert_true(ids[0] == 2 && ids[2] == 0 && ids[3] == -1 && ids[k - 1] == -1);
    free(ids);
    free(scores);
    vic_index_free(index);
    vic_device_free(device);
}

/* ---- hooks */

static void hooks_serve_everything_and_get_everything_back(void **state) {
    (void)state;
    struct random random = test_random(2);
    for (int turn = 0; turn < 10; turn++) {
        struct counting counting = {0};
        struct order_form form;
        struct vic_index *index = NULL;
        struct vic_filter *filter = NULL;
        form_make(&random, 2000, 20, &form);
        struct vic_device *device = device_within(0, 3, &counting);
        must(vic_index_build(device, &form.rows, &form.options, &index));
        must(vic_filter_create(index, NULL, 0, NULL, &filter));
        struct vic_device_info info = {.size = sizeof info};
        must(vic_device_info(device, &info));
        assert_true(info.host_used == (uint64_t)atomic_load(&counting.live_bytes));
        assert_true(info.host_peak >= info.host_used && (int64_t)info.host_peak <= atomic_load(&counting.peak_bytes));
        assert_int_equal(atomic_load(&counting.misaligned), 0);
        struct vic_index_info index_info = {.size = sizeof index_info};
        must(vic_index_info(index, &index_info));
        assert_true(index_info.host_bytes <= info.host_used && index_info.workspace_bytes < index_info.host_bytes);
        vic_filter_free(filter);
        vic_index_free(index);
        vic_device_free(device);
        assert_int_equal(atomic_load(&counting.live_blocks), 0);
        assert_int_equal(atomic_load(&counting.live_bytes), 0);
        form_free(&form);
    }
}

static void each_refused_request_of_a_build_leaves_nothing(void **state) {
    (void)state;
    struct random random = test_random(3);
    struct order_form form;
    form_make(&random, 300, 12, &form);
    for (int64_t n = 1;; n++) {
        struct counting counting = {0};
        struct vic_index *index = NULL;
        struct vic_device *device = device_within(0, 2, &counting);
        int64_t blocks = atomic_load(&counting.live_blocks);
        counting.fail_at = atomic_load(&counting.requests) + n;
        enum vic_status status = vic_index_build(device, &form.rows, &form.options, &index);
        bool refused = atomic_load(&counting.refused) > 0;
        if (refused) {
            assert_int_equal(status, VIC_NO_MEMORY);
            assert_null(index);
            assert_int_equal(atomic_load(&counting.live_blocks), blocks);
            must(vic_index_build(device, &form.rows, &form.options, &index)); /* the next one works */
        }
        order_check_search(&form.scene.order, index, &form.scene.order.queries, 0, 300, NULL);
        vic_index_free(index);
        vic_device_free(device);
        assert_int_equal(atomic_load(&counting.live_bytes), 0);
        if (!refused) break;
    }
    form_free(&form);
}

/* All questions, on all paths, once, without a look at the answers. */
static void ask_all(const struct vic_index *index, const struct scene *scene, const struct vic_filter *filter, int64_t *ids,
                    float *scores) {
    int64_t n = scene->data.n, nq = scene->order.nq, offsets[64];
    for (int p = 0; p < PATHS; p++)
        for (int64_t k = 1; k <= 2 * n; k = k * 7 + 1) {
            struct vic_search_options options = {.size = sizeof options, .path = paths[p], .filter = k % 2 ? filter : NULL};
            struct vic_hits hits = {.ids = ids, .scores = scores};
            must(vic_index_search(index, &scene->order.queries, k, &options, &hits));
        }
    struct vic_ranges ranges = {offsets, ids, scores, n * nq};
    must(vic_index_within(index, &scene->order.queries, scene->order.scores[n / 2], NULL, &ranges));
    for (int64_t i = 0; i < n * nq; i++) ids[i] = i % n;
    must(vic_index_score(index, &scene->order.queries, ids, n, NULL, scores));
    /* and a search that is refused: the sentence is no allocation either */
    struct vic_hits hits = {.ids = ids};
    assert_int_equal(vic_index_search(index, &scene->order.queries, 0, NULL, &hits), VIC_ARGUMENT);
}

static void a_search_allocates_nothing(void **state) {
    (void)state;
    if (!failing_available()) skip();
    struct random random = test_random(4);
    for (int pair = 0; pair < TYPE_PAIRS; pair++) {
        struct shape shape = {.n = 600,
                              .nq = 9,
                              .dim = 40,
                              .dtype = type_pairs[pair][0],
                              .query_dtype = type_pairs[pair][1],
                              .metric = (enum vic_metric)(1 + pair % 3)};
        struct scene scene;
        struct counting counting = {0};
        scene_make(&random, &shape, &scene);
        struct vic_device *device = device_within(0, 3, &counting);
        struct vic_index *index = index_with_planes(device, &scene.data, VIC_PLANES_8 | VIC_PLANES_4);
        struct vic_filter *filter = NULL;
        static const int64_t some[] = {1, 5, 9, 100, 599};
        must(vic_filter_create(index, some, 5, NULL, &filter));
        int64_t *ids = take(9 * 1200 * 8), requests = atomic_load(&counting.requests);
        float *scores = take(9 * 1200 * 4);
        ask_all(index, &scene, filter, ids, scores);
        failing_start(0);
        ask_all(index, &scene, filter, ids, scores);
        struct failing_counts counts = failing_stop();
        assert_int_equal(counts.calls, 0);
        assert_int_equal(atomic_load(&counting.requests), requests);
        free(ids);
        free(scores);
        vic_filter_free(filter);
        vic_index_free(index);
        vic_device_free(device);
        scene_free(&scene);
    }
}

/* ---- progress */

struct listener {
    int64_t reports, last, total;
    bool backwards;
    int64_t stop_at;
};

static int listen(void *user, const struct vic_progress_state *state) {
    struct listener *listener = user;
    listener->backwards |= state->done < listener->last || state->done > state->total || !state->stage[0];
    listener->last = state->done;
    listener->total = state->total;
    return ++listener->reports == listener->stop_at;
}

static void a_build_tells_how_far_it_is_and_can_be_stopped(void **state) {
    (void)state;
    struct random random = test_random(5);
    struct order_form form;
    struct listener listener = {0}, stopper = {.stop_at = 1};
    struct counting counting = {0};
    form_make(&random, 5000, 30, &form);
    struct vic_device *device = device_within(0, 2, &counting);
    int64_t blocks = atomic_load(&counting.live_blocks);
    struct vic_index *index = NULL;
    form.options.progress = (struct vic_progress){listen, &listener};
    must(vic_index_build(device, &form.rows, &form.options, &index));
    assert_true(listener.reports >= 1 && !listener.backwards);
    assert_int_equal(listener.last, listener.total);
    vic_index_free(index);
    index = NULL;
    form.options.progress = (struct vic_progress){listen, &stopper};
    assert_int_equal(vic_index_build(device, &form.rows, &form.options, &index), VIC_CANCELLED);
    assert_null(index);
    assert_int_equal(stopper.reports, 1);
    assert_int_equal(atomic_load(&counting.live_blocks), blocks);
    vic_device_free(device);
    form_free(&form);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_budget_of_the_plan_is_enough_and_one_byte_less_is_not, test_tell),
        cmocka_unit_test(planes_nobody_asked_for_are_left_out_where_there_is_no_room),
        cmocka_unit_test(a_plan_takes_nothing_and_grows_with_what_is_asked),
        cmocka_unit_test_teardown(planes_take_little_more_than_their_codes, test_tell),
        cmocka_unit_test(a_budget_too_small_for_the_device_itself_opens_nothing),
        cmocka_unit_test(a_small_budget_does_not_limit_the_callers_arrays),
        cmocka_unit_test(hooks_serve_everything_and_get_everything_back),
        cmocka_unit_test(each_refused_request_of_a_build_leaves_nothing),
        cmocka_unit_test(a_search_allocates_nothing),
        cmocka_unit_test(a_build_tells_how_far_it_is_and_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
