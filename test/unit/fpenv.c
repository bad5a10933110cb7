/* The floating-point environment around a call changes no byte of its answer and is as it was afterwards: flush-to-zero,
 * denormals-are-zero, every rounding, and exceptions that trap. The device is opened inside it too, so that its threads
 * are born with it.
 *
 * The surprising rule: the oracle and all comparisons run in the default environment; only the library's calls run in the
 * other one. */
#include "base/fpenv.h"
#include "support/scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#if defined(__x86_64__)

static const struct environment {
    const char *name;
    unsigned mxcsr;
} environments[] = {{"flush to zero", 0x9f80},
                    {"denormals are zero", 0x1fc0},
                    {"both", 0x9fc0},
                    {"round down", 0x3f80},
                    {"round up", 0x5f80},
                    {"round to zero", 0x7f80},
                    {"both and round up", 0xdfc0},
                    {"every exception traps", 0x0000},
                    {"old flags are set", 0x1fbf},
                    {"all of it", 0xdfff & ~0x1f80u}};
enum { ENVIRONMENTS = sizeof environments / sizeof *environments };

static void a_guard_sets_the_default_and_restores_the_callers(void **state) {
    (void)state;
    unsigned before = _mm_getcsr();
    for (int i = 0; i < ENVIRONMENTS; i++) {
        unsigned flags = environments[i].mxcsr & 0x1f80 ? environments[i].mxcsr : environments[i].mxcsr & ~0x3fu;
        _mm_setcsr(flags);
        fpenv caller = fpenv_enter();
        unsigned inside = _mm_getcsr();
        fpenv_leave(caller);
        unsigned after = _mm_getcsr();
        _mm_setcsr(before);
        assert_int_equal(inside & ~0x3fu, 0x1f80);
        assert_int_equal(after & ~0x3fu, flags & ~0x3fu);
    }
}

enum { N = 300, NQ = 12, K = 30, ALLOWED = 150 };

/* Everything that a call can answer. */
struct answers {
    int64_t ids[3][NQ * K];
    float scores[3][NQ * K];
    int32_t counts[3][NQ];
    int64_t offsets[NQ + 1], within_ids[NQ * N];
    float within_scores[NQ * N], given_scores[NQ * K];
    int64_t filtered_ids[NQ * K];
    float filtered_scores[NQ * K];
};

struct asked {
    struct vic_device *device;
    struct scene *scene;
    float threshold;
    int64_t given[NQ * K];
    int64_t allowed[ALLOWED];
};

/* A device, an index and all questions; each status is kept, none is looked at here. */
static enum vic_status ask(const struct asked *asked, struct answers *answers) {
    const struct data *data = &asked->scene->data;
    struct vic_index *index = NULL;
    struct vic_filter *filter = NULL;
    struct vic_matrix rows = matrix_of(data->rows, data->n, data->dim, data->dtype), queries = asked->scene->order.queries;
    struct vic_build_options build = {.size = sizeof build, .metric = data->metric, .ids = data->ids};
    enum vic_status status = vic_index_build(asked->device, &rows, &build, &index);
    for (int path = 0; status == VIC_OK && path < 3; path++) {
        struct vic_search_options options = {.size = sizeof options, .path = (enum vic_path)path};
        struct vic_hits hits = {answers->ids[path], answers->scores[path], answers->counts[path], VIC_HOST};
        status = vic_index_search(index, &queries, K, &options, &hits);
    }
    struct vic_ranges ranges = {answers->offsets, answers->within_ids, answers->within_scores, NQ * N};
    if (status == VIC_OK) status = vic_index_within(index, &queries, asked->threshold, NULL, &ranges);
    if (status == VIC_OK) status = vic_index_score(index, &queries, asked->given, K, NULL, answers->given_scores);
    if (status == VIC_OK) status = vic_filter_create(index, asked->allowed, ALLOWED, NULL, &filter);
    struct vic_search_options options = {.size = sizeof options, .filter = filter};
    struct vic_hits hits = {answers->filtered_ids, answers->filtered_scores, NULL, VIC_HOST};
    if (status == VIC_OK) status = vic_index_search(index, &queries, K, &options, &hits);
    vic_filter_free(filter);
    vic_index_free(index);
    return status;
}

/* Values of a scene times powers of two: small enough that only denormals tell rows apart. */
static void scene_scale(struct scene *scene, int row_exponent, int query_exponent) {
    struct data *data = &scene->data;
    struct vic_matrix queries = scene->order.queries;
    for (int64_t i = 0; i < data->n * data->dim; i++)
        element_set(data->dtype, data->rows, i, ldexpf(element_get(data->dtype, data->rows, i), row_exponent));
    for (int64_t i = 0; i < queries.rows * data->dim; i++)
        element_set(queries.dtype, queries.data, i, ldexpf(element_get(queries.dtype, queries.data, i), query_exponent));
    order_free(&scene->order);
    scene->order = order_of(data, scene->queries, queries.rows, queries.dtype);
}

static void check_pair(struct random *random, int pair, enum vic_metric metric, int row_exponent, int query_exponent) {
    struct shape shape = {.n = N,
                          .nq = NQ,
                          .dim = 130,
                          .dtype = type_pairs[pair][0],
                          .query_dtype = type_pairs[pair][1],
                          .metric = metric,
                          .values = row_exponent ? VALUES_UNIT : VALUES_WILD};
    struct scene scene;
    struct asked asked = {.scene = &scene};
    struct answers *right = take(sizeof *right), *found = take(sizeof *found);
    scene_make(random, &shape, &scene);
    if (row_exponent) scene_scale(&scene, row_exponent, query_exponent);
    memset(right, 0, sizeof *right);
    asked.threshold = scene.order.scores[20];
    for (size_t i = 0; i < NQ * K; i++) asked.given[i] = random_below(random, N);
    for (size_t i = 0; i < ALLOWED; i++) asked.allowed[i] = (int64_t)i * 2;
    asked.device = device_of(3);
    must(ask(&asked, right));
    vic_device_free(asked.device);
    for (int64_t j = 0; j < NQ; j++)
        order_check_hits(&scene.order, j, K, right->ids[0] + j * K, right->scores[0] + j * K, right->counts[0][j]);
    for (int i = 0; i < ENVIRONMENTS; i++) {
        test_says("environment: %s, pair %d, metric %s", environments[i].name, pair, vic_metric_name(metric));
        memset(found, 0, sizeof *found);
        unsigned before = _mm_getcsr();
        struct vic_device_options options = {.size = sizeof options, .name = "cpu", .threads = 3};
        _mm_setcsr(environments[i].mxcsr & ~0x3fu);
        enum vic_status status = vic_device_open(&options, &asked.device);
        if (status == VIC_OK) status = ask(&asked, found);
        unsigned after = _mm_getcsr();
        _mm_setcsr(before);
        must(status);
        vic_device_free(asked.device);
        assert_int_equal(after & ~0x3fu, environments[i].mxcsr & ~0x3fu);
        assert_memory_equal(found, right, sizeof *right);
    }
    free(right);
    free(found);
    scene_free(&scene);
}

static void answers_are_the_same_in_every_environment(void **state) {
    (void)state;
    struct random random = test_random(1);
    for (int pair = 0; pair < TYPE_PAIRS; pair++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) check_pair(&random, pair, metric, 0, 0);
    test_done();
}

static void denormal_inputs_products_and_scores_survive(void **state) {
    (void)state;
    static const int exponents[][2] = {{-72, -72}, {-140, 20}, {-20, -130}, {-75, -75}};
    static const int pairs[] = {0, 3, 4};
    struct random random = test_random(2);
    for (int e = 0; e < 4; e++)
        for (int p = 0; p < 3; p++)
            for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++)
                check_pair(&random, pairs[p], metric, exponents[e][0], exponents[e][1]);
    test_done();
}

static void a_refused_call_restores_the_environment_too(void **state) {
    (void)state;
    static const float bad[] = {1, 2, NAN, 4}, good[] = {1, 2, 3, 0x1p-140f};
    struct vic_device *device = device_of(2);
    struct vic_matrix rows = matrix_of(bad, 2, 2, VIC_F32), right = matrix_of(good, 2, 2, VIC_F32);
    struct vic_index *index = NULL;
    must(vic_index_build(device, &right, NULL, &index));
    for (int i = 0; i < ENVIRONMENTS; i++) {
        struct vic_index *none = NULL;
        int64_t ids[2];
        struct vic_hits hits = {.ids = ids};
        unsigned before = _mm_getcsr();
        _mm_setcsr(environments[i].mxcsr & ~0x3fu);
        enum vic_status build = vic_index_build(device, &rows, NULL, &none);
        enum vic_status search = vic_index_search(index, &rows, 1, NULL, &hits);
        unsigned after = _mm_getcsr();
        _mm_setcsr(before);
        assert_int_equal(build, VIC_NOT_FINITE);
        assert_int_equal(search, VIC_NOT_FINITE);
        assert_null(none);
        assert_int_equal(after & ~0x3fu, environments[i].mxcsr & ~0x3fu);
    }
    vic_index_free(index);
    vic_device_free(device);
}

#else

#include <fenv.h>

static void a_guard_sets_the_default_and_restores_the_callers(void **state) {
    (void)state;
    assert_int_equal(fesetround(FE_UPWARD), 0);
    fpenv caller = fpenv_enter();
    int inside = fegetround();
    fpenv_leave(caller);
    int after = fegetround();
    (void)fesetround(FE_TONEAREST);
    assert_int_equal(inside, FE_TONEAREST);
    assert_int_equal(after, FE_UPWARD);
}

static void answers_are_the_same_in_every_environment(void **state) {
    (void)state;
    struct random random = test_random(1);
    struct shape shape = {.n = 300, .nq = 5, .dim = 130, .dtype = VIC_F32, .query_dtype = VIC_F32, .metric = VIC_COSINE};
    struct scene scene;
    scene_make(&random, &shape, &scene);
    assert_int_equal(fesetround(FE_UPWARD), 0);
    struct vic_device *device = device_of(3);
    struct vic_index *index = index_of(device, &scene.data);
    order_check_search(&scene.order, index, &scene.order.queries, 0, 30, NULL);
    int after = fegetround();
    (void)fesetround(FE_TONEAREST);
    assert_int_equal(after, FE_UPWARD);
    vic_index_free(index);
    vic_device_free(device);
    scene_free(&scene);
    test_done();
}

static void denormal_inputs_products_and_scores_survive(void **state) {
    (void)state;
    static const float rows[] = {0x1p-140f, 0x1p-74f, 0x1p-149f, -0x1p-75f}, query[] = {0x1p10f, 0x1p-73f};
    struct data data = {(void *)(uintptr_t)rows, 2, 2, VIC_F32, VIC_DOT, NULL};
    struct vic_device *device = device_of(3);
    struct vic_index *index = index_of(device, &data);
    check_search(index, &data, query, 1, VIC_F32, 2);
    vic_index_free(index);
    vic_device_free(device);
}

static void a_refused_call_restores_the_environment_too(void **state) {
    (void)state;
    static const float bad[] = {1, NAN};
    struct vic_device *device = device_of(2);
    struct vic_matrix rows = matrix_of(bad, 1, 2, VIC_F32);
    struct vic_index *index = NULL;
    assert_int_equal(fesetround(FE_UPWARD), 0);
    enum vic_status status = vic_index_build(device, &rows, NULL, &index);
    int after = fegetround();
    (void)fesetround(FE_TONEAREST);
    assert_int_equal(status, VIC_NOT_FINITE);
    assert_int_equal(after, FE_UPWARD);
    vic_device_free(device);
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_guard_sets_the_default_and_restores_the_callers),
        cmocka_unit_test_teardown(answers_are_the_same_in_every_environment, test_tell),
        cmocka_unit_test_teardown(denormal_inputs_products_and_scores_survive, test_tell),
        cmocka_unit_test(a_refused_call_restores_the_environment_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
