/* Vectors in columns: every table's sums are those of a plain loop, bit for bit; the two best of `nearest` are as good as its
 * contract says; nothing past columns, vectors or sums is touched. */
#include "backend/cpu/kernels.h"
#include "support/guarded.h"
#include "support/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const int64_t dims[] = {1, 2, 3, 8, 33, 384};
static const int64_t counts[] = {1, 2, 15, 16, 17, 96, 128, 129, 255, 256, 257, 300};
enum { DIMS = 6, COUNTS = 12, POINTS = 7 };

static float plain_sum(bool l2, const struct columns *columns, const float *vector, int64_t c) {
    volatile float sum = 0;
    for (int64_t d = 0; d < columns->dim; d++) {
        volatile float other = columns->values[d * columns->stride + c];
        volatile float term = l2 ? vector[d] - other : other;
        volatile float product = (l2 ? term : vector[d]) * term;
        sum = sum + product;
    }
    return sum;
}

static void sums_check(const struct column_kernels *kernels, int64_t dim, int64_t count, struct random *random) {
    struct guarded columns = guarded_take((size_t)(dim * count) * sizeof(float), PLACE_END);
    struct guarded vector = guarded_take((size_t)dim * sizeof(float), PLACE_END);
    struct guarded sums = guarded_take((size_t)count * sizeof(float), PLACE_END);
    const struct columns asked = {columns.data, dim, count, count};
    random_fill(random, VALUES_UNIT, VIC_F32, dim * count, columns.data);
    random_fill(random, VALUES_UNIT, VIC_F32, dim, vector.data);
    for (int l2 = 0; l2 < 2; l2++) {
        memset(sums.data, 0xAA, (size_t)count * sizeof(float));
        (l2 ? kernels->l2 : kernels->dot)(&asked, vector.data, sums.data);
        for (int64_t c = 0; c < count; c++) {
            float expected = plain_sum(l2, &asked, vector.data, c);
            assert_memory_equal((const float *)sums.data + c, &expected, sizeof expected);
        }
    }
    guarded_give(&sums), guarded_give(&vector), guarded_give(&columns);
}

static void every_table_sums_as_a_plain_loop(void **state) {
    (void)state;
    struct random random = {31};
    for (int t = 0; kernels_list[t]; t++) {
        if (!kernels_list[t]->available() || !kernels_list[t]->columns) continue;
        for (int d = 0; d < DIMS; d++)
            for (int c = 0; c < COUNTS; c++) sums_check(kernels_list[t]->columns, dims[d], counts[c], &random);
    }
}

/* What the contract allows a score to be off by. */
static double error_allowed(const struct columns *columns, float half, const float *point, int64_t c) {
    double size = (double)half;
    for (int64_t d = 0; d < columns->dim; d++)
        size += fabs((double)point[d] * (double)columns->values[d * columns->stride + c]);
    return (double)(columns->dim + 3) * 0x1p-24 * 1.01 * size;
}

static double score_of(const struct columns *columns, float half, const float *point, int64_t c) {
    double sum = (double)half;
    for (int64_t d = 0; d < columns->dim; d++) sum -= (double)point[d] * (double)columns->values[d * columns->stride + c];
    return sum;
}

/* The one it names, the margin it states, against every score in double. */
static void best_check(const struct columns *columns, const float *halves, const float *point, int64_t nearest, float margin) {
    double off = 0, named, best_other = INFINITY;
    assert_in_range(nearest, 0, columns->count - 1);
    for (int64_t c = 0; c < columns->count; c++) {
        double error = error_allowed(columns, halves[c], point, c), score = score_of(columns, halves[c], point, c);
        if (error > off) off = error;
        if (c != nearest && score < best_other) best_other = score;
    }
    named = score_of(columns, halves[nearest], point, nearest);
    if (columns->count == 1) {
        assert_true(isinf(margin) && margin > 0);
        return;
    }
    assert_true(margin >= 0);
    assert_true(fabs(best_other - named - (double)margin) <= 2 * off + fabs((double)margin) * 0x1p-23);
}

static void nearest_check(const struct column_kernels *kernels, int64_t dim, int64_t count, struct random *random) {
    int64_t stride = (count + COLUMNS_UNIT - 1) / COLUMNS_UNIT * COLUMNS_UNIT, apart = dim + 2;
    struct guarded values = guarded_take((size_t)(dim * stride) * sizeof(float), PLACE_END);
    struct guarded halves = guarded_take((size_t)stride * sizeof(float), PLACE_END);
    struct guarded points = guarded_take((size_t)((POINTS - 1) * apart + dim) * sizeof(float), PLACE_END);
    const struct columns columns = {values.data, dim, count, stride};
    float *value = values.data, *half = halves.data;
    int32_t nearest[POINTS];
    float margins[POINTS];
    random_fill(random, VALUES_UNIT, VIC_F32, (POINTS - 1) * apart + dim, points.data);
    for (int64_t c = 0; c < stride; c++) {
        double square = 0;
        for (int64_t d = 0; d < dim; d++) {
            float one = c < count ? random_unit(random) : 0;
            value[d * stride + c] = one, square += (double)one * (double)one;
        }
        half[c] = c < count ? (float)(square / 2) : INFINITY;
    }
    for (int64_t n = 1; n <= POINTS; n++) {
        kernels->nearest(&columns, half, points.data, apart, n, nearest, margins);
        for (int64_t i = 0; i < n; i++)
            best_check(&columns, half, (const float *)points.data + i * apart, nearest[i], margins[i]);
    }
    guarded_give(&points), guarded_give(&halves), guarded_give(&values);
}

static void every_table_finds_the_two_best(void **state) {
    (void)state;
    struct random random = {32};
    for (int t = 0; kernels_list[t]; t++) {
        if (!kernels_list[t]->available() || !kernels_list[t]->columns) continue;
        for (int d = 0; d < DIMS; d++)
            for (int c = 0; c < COUNTS; c++) nearest_check(kernels_list[t]->columns, dims[d], counts[c], &random);
    }
}

static void equal_columns_have_no_margin(void **state) {
    (void)state;
    float values[2 * 48] = {0}, halves[48], point[2] = {1, 1}, margin;
    int32_t nearest;
    for (int t = 0; kernels_list[t]; t++) {
        if (!kernels_list[t]->available() || !kernels_list[t]->columns) continue;
        for (int other = 1; other < 48; other++) {
            const struct columns columns = {values, 2, 48, 48};
            for (int c = 0; c < 48; c++) halves[c] = c == 0 || c == other ? 1.0f : 9.0f;
            values[0] = values[48] = values[other] = values[48 + other] = 1;
            kernels_list[t]->columns->nearest(&columns, halves, point, 2, 1, &nearest, &margin);
            assert_true(margin == 0);
            values[other] = values[48 + other] = 0;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_sums_as_a_plain_loop),
        cmocka_unit_test(every_table_finds_the_two_best),
        cmocka_unit_test(equal_columns_have_no_margin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
