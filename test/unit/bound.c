/* The bound of docs/certified.md attacked: for no row, query, metric and plane may `upper` lie below the threshold that the
 * row's own canonical score gives. Each part of the bound is recomputed in extended precision, and a climber changes rows and
 * queries, one element at a time, towards where the gap is smallest. */
#include "support/coded.h"
#include "support/guarded.h"
#include "support/scene.h"

#include <math.h>
#include <stdlib.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { DIM_MOST = 600 };
static struct backend *backend;

static int backend_start(void **state) {
    (void)state;
    backend = coded_backend(NULL, 1);
    return 0;
}
static int backend_stop(void **state) {
    (void)state;
    cpu_backend.close(backend);
    return 0;
}

/* How far above its threshold the row is, in units of what the bound allows; below zero is a wrong answer. */
static double gap_with(const struct coded *coded, enum plane_kind kind, const struct plane_query *constants, float score,
                       float upper) {
    float least = bound_threshold(constants, score);
    if (least == -INFINITY || upper == INFINITY) return INFINITY;
    if (!(upper >= least))
        fail_msg("metric %s, plane %d, dim %d: a row with score %a has upper %a below the threshold %a",
                 vic_metric_name(coded->rows.metric), kind, (int)coded->rows.dim, (double)score, (double)upper, (double)least);
    double allowed = (double)constants->alpha * (double)coded->error[kind] + (double)constants->gamma + 1e-300;
    return ((double)upper - (double)least) / allowed;
}

/* The smaller gap of one query alone and of a batch. */
static double gap_of(const struct coded *coded, enum plane_kind kind) {
    if (!coded->bounded) return INFINITY;
    struct data data = {(void *)(uintptr_t)coded->rows.data, 1, coded->rows.dim, VIC_F32, coded->rows.metric, NULL};
    float score = oracle_score(&data, 0, coded->query, VIC_F32);
    double alone = gap_with(coded, kind, &coded->constants, score, coded_upper(backend, coded, kind));
    double batch = gap_with(coded, kind, &coded->batch_constants, score, coded_batch_upper(coded, kind));
    return alone < batch ? alone : batch;
}

static double gap_at(enum vic_metric metric, enum plane_kind kind, const float *values, const float *query, int64_t dim) {
    struct coded coded;
    coded_make(backend, metric, values, query, dim, &coded);
    double gap = gap_of(&coded, kind);
    coded_free(&coded);
    return gap;
}

/* The query along what the codes leave over: there the Cauchy-Schwarz inequality is an equality. */
static void query_align(enum vic_metric metric, enum plane_kind kind, const float *values, int64_t dim, float *query) {
    struct coded coded;
    coded_make(backend, metric, values, values, dim, &coded);
    double divisor = metric == VIC_COSINE ? fabs((double)coded.norm) : 1;
    for (int64_t i = 0; i < dim; i++) query[i] = (float)((double)values[i] - divisor * coded_value(&coded, kind, i));
    coded_free(&coded);
}

static float mutate(struct random *random, float value) {
    float changed = value;
    switch (random_below(random, 7)) {
    case 0: changed = -value; break;
    case 1: changed = nextafterf(value, INFINITY); break;
    case 2: changed = nextafterf(value, -INFINITY); break;
    case 3: changed = value * 0.5f; break;
    case 4: changed = value * 2.0f; break;
    case 5: changed = 0; break;
    default: changed = random_unit(random) * 4; break;
    }
    return float_finite(changed) ? changed : value;
}

/* From one start, as many steps as are worth it at this dimension. */
static double climb(struct random *random, enum vic_metric metric, enum plane_kind kind, int64_t dim, int64_t steps) {
    float values[DIM_MOST], query[DIM_MOST];
    for (int64_t i = 0; i < dim; i++) values[i] = random_normal(random), query[i] = random_normal(random);
    if (random_below(random, 2)) query_align(metric, kind, values, dim, query);
    double best = gap_at(metric, kind, values, query, dim);
    for (int64_t step = 0; step < steps; step++) {
        float *changed = (random_below(random, 2) ? values : query) + random_below(random, dim), before = *changed;
        *changed = mutate(random, before);
        double gap = gap_at(metric, kind, values, query, dim);
        if (gap <= best)
            best = gap;
        else
            *changed = before;
    }
    return best;
}

static void no_climb_gets_below_the_bound(void **state) {
    (void)state;
    static const int64_t dims[] = {1, 2, 3, 8, 16, 31, 64, 128, 129, 200};
    struct random random = test_random(1);
    for (size_t d = 0; d < sizeof dims / sizeof *dims; d++)
        for (int metric = VIC_DOT; metric <= VIC_L2; metric++)
            for (int kind = 0; kind < PLANE_COUNT; kind++) {
                test_says("metric %d plane %d dim %d", metric, kind, (int)dims[d]);
                for (int start = 0; start < 6; start++) {
                    double gap = climb(&random, (enum vic_metric)metric, (enum plane_kind)kind, dims[d], 4000);
                    assert_true(gap >= 0);
                }
            }
    test_done();
}

/* The bound is not only right, it is near: with the query along the rest, next to nothing is given away. */
static void an_aligned_query_comes_near_the_bound(void **state) {
    (void)state;
    struct random random = test_random(2);
    float values[DIM_MOST], query[DIM_MOST];
    for (int kind = 0; kind < PLANE_COUNT; kind++) {
        for (int64_t i = 0; i < 384; i++) values[i] = random_normal(&random);
        query_align(VIC_DOT, (enum plane_kind)kind, values, 384, query);
        double gap = gap_at(VIC_DOT, (enum plane_kind)kind, values, query, 384);
        assert_true(gap < 0.05);
    }
    test_done();
}

/* Values that bring out overflow, underflow, cancellation and ties. */
static void drawn(struct random *random, int64_t dim, float *values) {
    int sort = (int)random_below(random, ADVERSE_COUNT + 3);
    float size = ldexpf(1, (int)random_below(random, 240) - 140);
    if (sort < ADVERSE_COUNT) {
        adverse_fill((enum adverse)sort, VIC_F32, random_next(random), dim, values);
        return;
    }
    for (int64_t i = 0; i < dim; i++) {
        float value = random_normal(random);
        if (sort == ADVERSE_COUNT + 1) value = value * value * value * value * value;
        if (sort == ADVERSE_COUNT + 2 && random_below(random, 8)) value = 0;
        values[i] = float_finite(value * size) ? value * size : value;
    }
}

static void no_draw_gets_below_the_bound(void **state) {
    (void)state;
    struct random random = test_random(3);
    float values[DIM_MOST], query[DIM_MOST];
    for (int64_t trial = 0; trial < 120000; trial++) {
        int64_t dim = 1 + random_below(&random, trial % 8 == 0 ? DIM_MOST : 40);
        drawn(&random, dim, values);
        drawn(&random, dim, query);
        int sort = (int)random_below(&random, 8);
        if (sort == 0) memcpy(query, values, sizeof values);
        if (sort == 1)
            for (int64_t i = 0; i < dim; i++) query[i] = nextafterf(values[i], 0);
        for (int metric = VIC_DOT; metric <= VIC_L2; metric++) {
            test_says("trial %lld metric %d dim %d", (long long)trial, metric, (int)dim);
            struct coded coded;
            coded_make(backend, (enum vic_metric)metric, values, query, dim, &coded);
            for (int kind = 0; kind < PLANE_COUNT; kind++) assert_true(gap_of(&coded, (enum plane_kind)kind) >= 0);
            coded_free(&coded);
        }
    }
    test_done();
}

/* ||x - codes|| <= error and ||x|| <= norm, the sums taken in extended precision. */
static void errors_and_norms_are_never_too_small(void **state) {
    (void)state;
    struct random random = test_random(4);
    float values[DIM_MOST];
    for (int64_t trial = 0; trial < 20000; trial++) {
        int64_t dim = 1 + random_below(&random, 300);
        drawn(&random, dim, values);
        struct coded coded;
        coded_make(backend, VIC_DOT, values, values, dim, &coded);
        long double square = 0, rest_square[PLANE_COUNT] = {0};
        for (int64_t i = 0; i < dim; i++) {
            square += (long double)values[i] * (long double)values[i];
            for (int kind = 0; kind < PLANE_COUNT; kind++) {
                long double rest = (long double)values[i] - (long double)coded_value(&coded, (enum plane_kind)kind, i);
                rest_square[kind] += rest * rest;
            }
        }
        for (int kind = 0; kind < PLANE_COUNT; kind++) {
            assert_true((long double)coded.error[kind] >= sqrtl(rest_square[kind]));
            if (coded.error[kind] < INFINITY) {
                assert_true((long double)coded.plane_norm >= sqrtl(square));
                assert_true((long double)coded.error[kind] <= sqrtl(rest_square[kind]) * (1 + 0x1p-20L) + 0x1p-149L);
            }
        }
        coded_free(&coded);
    }
    test_done();
}

/* ---- wider than any sum here needs: products of float32 have 48 bits, and 600 of them are added in 113 */

#if defined(__x86_64__)
typedef __float128 wide;
#else
typedef long double wide;
#endif

/* What `upper` may never be below, in real numbers: q . x, for cosine over the stored norm, for l2 less half the square. */
static wide truth_of(const struct coded *coded) {
    const float *row = coded->rows.data;
    wide product = 0, square = 0;
    for (int64_t i = 0; i < coded->rows.dim; i++) {
        product += (wide)coded->query[i] * (wide)row[i];
        square += (wide)row[i] * (wide)row[i];
    }
    if (coded->rows.metric == VIC_L2) product -= square / 2;
    return coded->rows.metric == VIC_COSINE ? product / (wide)coded->norm : product;
}

/* The lengths that the constants are made of, from the codes as they are. */
static void constants_check(const struct coded *coded, const struct plane_query *constants) {
    long double square = 0, rest_square = 0;
    for (int64_t i = 0; i < coded->rows.dim; i++) {
        long double code = constants->low[i] + (constants->high ? 256.0L * constants->high[i] : 0);
        long double value = (long double)coded->query[i], rest = value - (long double)constants->step * code;
        square += value * value, rest_square += rest * rest;
    }
    assert_true((long double)constants->alpha >= sqrtl(square) + sqrtl(rest_square));
    if (coded->rows.metric != VIC_COSINE) assert_true((long double)constants->beta >= sqrtl(rest_square));
    assert_true((long double)constants->square <= square * (1 + 0x1p-60L));
}

static void no_upper_is_below_the_product_in_quadruple_precision(void **state) {
    (void)state;
    struct random random = test_random(6);
    float values[DIM_MOST], query[DIM_MOST];
    int64_t compared = 0;
    for (int64_t trial = 0; trial < 20000; trial++) {
        int64_t dim = 1 + random_below(&random, trial % 4 == 0 ? DIM_MOST : 70);
        drawn(&random, dim, values);
        drawn(&random, dim, query);
        enum vic_metric metric = (enum vic_metric)(1 + trial % 3);
        if (trial % 5 == 0) query_align(metric, (enum plane_kind)(trial % 2), values, dim, query);
        struct coded coded;
        coded_make(backend, metric, values, query, dim, &coded);
        bool scaled = metric == VIC_COSINE && !(coded.norm > 0); /* its norm is that of another vector */
        for (int kind = 0; kind < PLANE_COUNT && coded.bounded && !scaled; kind++) {
            test_says("trial %lld metric %d plane %d dim %d", (long long)trial, metric, kind, (int)dim);
            wide truth = truth_of(&coded);
            assert_true((wide)coded_upper(backend, &coded, (enum plane_kind)kind) >= truth);
            assert_true((wide)coded_batch_upper(&coded, (enum plane_kind)kind) >= truth);
            constants_check(&coded, &coded.constants);
            constants_check(&coded, &coded.batch_constants);
            compared += coded.error[kind] < INFINITY;
        }
        coded_free(&coded);
    }
    assert_true(compared > 10000);
    test_done();
}

/* A threshold lets the scores at it through and closes just below what the bound needs. */
static void thresholds_are_open_where_nothing_can_be_said(void **state) {
    (void)state;
    float query[4] = {1, 2, 3, 4};
    int8_t codes[2 * 128];
    struct plane_query constants;
    assert_true(bound_query(VIC_COSINE, query, 4, sqrtf(30), codes, codes + 128, &constants));
    assert_true(bound_threshold(&constants, -1) == -INFINITY); /* the clamp lifts lower quotients to -1 */
    assert_true(bound_threshold(&constants, -INFINITY) == -INFINITY);
    assert_true(bound_threshold(&constants, 1) <= sqrtf(30) && bound_threshold(&constants, 1) > 5.47f);
    assert_true(bound_query(VIC_DOT, query, 4, 0, codes, codes + 128, &constants));
    assert_true(bound_threshold(&constants, 7.25f) == 7.25f);
    assert_true(bound_query(VIC_L2, query, 4, 0, codes, codes + 128, &constants));
    assert_true(bound_threshold(&constants, INFINITY) == -INFINITY);
    assert_true(bound_threshold(&constants, 0) <= 15 && bound_threshold(&constants, 0) > 14.9999f);
}

/* A subnormal constant would cost some processors 150 cycles a multiply-add, in every kernel and for every row. */
static void no_constant_is_subnormal(void **state) {
    (void)state;
    static const float sizes[] = {0, 0x1p-100f, 0x1p-60f, 1, 0x1p55f};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int metric = VIC_DOT; metric <= VIC_L2; metric++)
            for (int one_byte = 0; one_byte <= 1; one_byte++) {
                float query[4] = {sizes[s], -sizes[s] / 3, 0, sizes[s] / 7};
                int8_t codes[2 * 128];
                struct plane_query constants;
                assert_true(
                    bound_query((enum vic_metric)metric, query, 4, 1, one_byte ? NULL : codes, codes + 128, &constants));
                assert_true(constants.alpha >= 0x1p-126f && constants.beta >= 0x1p-126f && constants.gamma >= 0x1p-126f);
                assert_true(constants.step == 0 || constants.step >= 0x1p-126f);
            }
}

static void queries_beyond_the_range_are_refused(void **state) {
    (void)state;
    float huge[2] = {0x1p60f, 1}, tiny[2] = {0x1p-101f, 0}, zero[2] = {0, 0}, most[2] = {0x1p59f, 0};
    int8_t codes[2 * 128];
    struct plane_query constants;
    assert_false(bound_query(VIC_DOT, huge, 2, 0, codes, codes + 128, &constants));
    assert_false(bound_query(VIC_DOT, tiny, 2, 0, codes, codes + 128, &constants));
    assert_true(bound_query(VIC_DOT, zero, 2, 0, codes, codes + 128, &constants));
    assert_true(bound_query(VIC_DOT, most, 2, 0, codes, codes + 128, &constants));
}

/* high and low bytes put the query's code together again, and its rest is half a step and what rounding adds. */
static void query_codes_are_whole(void **state) {
    (void)state;
    struct random random = test_random(5);
    float query[130];
    int8_t codes[2 * 256] = {0};
    struct plane_query constants;
    for (int trial = 0; trial < 2000; trial++) {
        for (int i = 0; i < 130; i++) query[i] = random_normal(&random);
        assert_true(bound_query(VIC_DOT, query, 130, 0, codes, codes + 256, &constants));
        int64_t high = 0, low = 0;
        for (int i = 0; i < 130; i++) {
            double value = (double)constants.step * (256 * constants.high[i] + constants.low[i]);
            assert_true(fabs((double)query[i] - value) <= 0.505 * (double)constants.step);
            high += constants.high[i], low += constants.low[i];
        }
        for (int i = 130; i < 256; i++) assert_true(constants.high[i] == 0 && constants.low[i] == 0);
        for (int kind = 0; kind < PLANE_COUNT; kind++) {
            assert_int_equal(constants.bias_high[kind], high * plane_offset((enum plane_kind)kind));
            assert_int_equal(constants.bias_low[kind], low * plane_offset((enum plane_kind)kind));
        }
    }
    test_done();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(no_climb_gets_below_the_bound, test_tell),
        cmocka_unit_test_teardown(an_aligned_query_comes_near_the_bound, test_tell),
        cmocka_unit_test_teardown(no_draw_gets_below_the_bound, test_tell),
        cmocka_unit_test_teardown(errors_and_norms_are_never_too_small, test_tell),
        cmocka_unit_test_teardown(no_upper_is_below_the_product_in_quadruple_precision, test_tell),
        cmocka_unit_test(thresholds_are_open_where_nothing_can_be_said),
        cmocka_unit_test(no_constant_is_subnormal),
        cmocka_unit_test(queries_beyond_the_range_are_refused),
        cmocka_unit_test_teardown(query_codes_are_whole, test_tell),
    };
    return cmocka_run_group_tests(tests, backend_start, backend_stop);
}
