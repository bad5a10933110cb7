/* The functions that generated data rest on, against the C library's within what their header promises. */
#include "data/elementary.h"

#include <float.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static void logarithms_are_right(void **state) {
    (void)state;
    for (int64_t i = 1; i < 100000; i++) {
        double above = (double)i * 1e-3, below = 1.0 / (double)i;
        assert_true(fabs(elementary_log(above) - log(above)) <= 1e-12 * (1 + fabs(log(above))));
        assert_true(fabs(elementary_log(below) - log(below)) <= 1e-12 * (1 + fabs(log(below))));
    }
    assert_true(elementary_log(1.0) == 0);
    assert_true(fabs(elementary_log(DBL_MAX) - log(DBL_MAX)) < 1e-10);
    assert_true(fabs(elementary_log(DBL_MIN) - log(DBL_MIN)) < 1e-10);
}

static void exponentials_are_right(void **state) {
    (void)state;
    for (int64_t i = -70000; i <= 70000; i++) {
        double x = (double)i * 1e-2;
        assert_true(fabs(elementary_exp(x) / exp(x) - 1) < 1e-12);
    }
    assert_true(elementary_exp(0) == 1);
}

static void tanh_is_odd_rises_and_ends_at_1(void **state) {
    (void)state;
    float before = -1;
    for (int64_t i = -80000; i <= 80000; i++) {
        float x = (float)i * 1e-4f, y = elementary_tanh(x);
        assert_true(fabs((double)y - tanh((double)x)) < 1e-4);
        assert_true(elementary_tanh(-x) == -y);
        assert_true(y >= before - 1e-6f);
        before = y;
    }
    assert_true(elementary_tanh(1e30f) == 1 && elementary_tanh(-1e30f) == -1);
}

/* The distribution function of the quantile gives back where it was asked, in both tails and in the middle. */
static void normal_quantiles_are_right(void **state) {
    (void)state;
    for (uint64_t word = 0; word <= UINT32_MAX; word += word < 100000 || word > UINT32_MAX - 100000 ? 1 : 65537) {
        double p = ((double)word + 0.5) * 0x1p-32, z = elementary_normal((uint32_t)word);
        double left = 0.5 * erfc(-z / sqrt(2.0)), right = 0.5 * erfc(z / sqrt(2.0));
        assert_true(p < 0.5 ? fabs(left / p - 1) < 1e-5 : fabs(right / (1 - p) - 1) < 1e-5);
    }
    for (uint32_t word = 0; word < 1000; word++) assert_true(elementary_normal(word) == -elementary_normal(UINT32_MAX - word));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logarithms_are_right),
        cmocka_unit_test(exponentials_are_right),
        cmocka_unit_test(tanh_is_odd_rises_and_ends_at_1),
        cmocka_unit_test(normal_quantiles_are_right),
    };
    return cmocka_run_group_tests_name("elementary", tests, NULL, NULL);
}
