/* The kernels over plain arrays (conversions, checks, what happens to scores) of every table against the reference: all
 * short lengths, every pattern of the narrow types, arrays that end at a page that may not be touched. */
#include "backend/cpu/kernels.h"
#include "base/rng.h"
#include "base/topk.h"
#include "support/guarded.h"

#include <math.h>
#include <stdlib.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const int64_t lengths[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,  14,  15,  16,  17,  18,  19,
                                  20, 23, 24, 25, 30, 31, 32, 33, 47, 48, 63, 64, 65, 100, 127, 128, 129, 255, 257, 1007};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* The tables that this processor runs; `t` counts on from where it is. */
static const struct kernels *next_table(int *t) {
    while (kernels_list[*t] && !kernels_list[*t]->available()) ++*t;
    return kernels_list[*t] ? kernels_list[(*t)++] : NULL;
}

/* Equal bits, or both NaN: which NaN a conversion gives is not promised, and none is ever stored. */
static void assert_floats_equal(const float *found, const float *expected, int64_t n, const char *what) {
    for (int64_t i = 0; i < n; i++)
        if (float_bits(found[i]) != float_bits(expected[i]) && !(isnan(found[i]) && isnan(expected[i])))
            fail_msg("%s: element %d of %d is %a, the reference says %a", what, (int)i, (int)n, (double)found[i],
                     (double)expected[i]);
}

static void every_to_float_equals_the_reference(void **state) {
    (void)state;
    const struct kernels *table;
    for (int t = 0; (table = next_table(&t));)
        for (int dtype = VIC_F32; dtype < DTYPE_COUNT; dtype++)
            for (int l = 0; table->to_float[dtype] && l < LENGTHS; l++) {
                int64_t n = lengths[l];
                struct guarded source = guarded_take((size_t)n * vic_dtype_bytes((enum vic_dtype)dtype), PLACE_END);
                struct guarded target = guarded_take((size_t)n * sizeof(float), PLACE_END);
                float expected[1008];
                adverse_fill(ADVERSE_BITS, (enum vic_dtype)dtype, (uint64_t)n, n, source.data);
                kernels_scalar.to_float[dtype](source.data, n, expected);
                table->to_float[dtype](source.data, n, target.data);
                assert_floats_equal(target.data, expected, n, table->name);
                guarded_give(&target), guarded_give(&source);
            }
}

static void every_pattern_converts_as_the_reference_does(void **state) {
    (void)state;
    static uint16_t patterns[65536];
    static float found[65536], expected[65536];
    for (uint32_t i = 0; i < 65536; i++) patterns[i] = (uint16_t)i;
    const struct kernels *table;
    for (int t = 0; (table = next_table(&t));)
        for (int dtype = VIC_F16; dtype < DTYPE_COUNT; dtype++)
            if (table->to_float[dtype]) {
                kernels_scalar.to_float[dtype](patterns, 65536, expected);
                table->to_float[dtype](patterns, 65536, found);
                assert_floats_equal(found, expected, 65536, table->name);
            }
}

/* Numbers at and beside every tie of the narrow types, the denormal ranges, infinity and NaN. */
static void from_float_check(const struct kernels *table, enum vic_dtype dtype, const float *values, int64_t n) {
    struct guarded source = guarded_take((size_t)n * sizeof(float), PLACE_END);
    struct guarded target = guarded_take((size_t)n * vic_dtype_bytes(dtype), PLACE_END);
    uint32_t *expected = malloc((size_t)n * sizeof *expected + 1);
    memcpy(source.data, values, (size_t)n * sizeof(float));
    kernels_scalar.from_float[dtype](values, n, expected);
    table->from_float[dtype](source.data, n, target.data);
    for (int64_t i = 0; i < n; i++) {
        float a = dtype_load(dtype, target.data, i), b = dtype_load(dtype, expected, i);
        if (float_bits(a) != float_bits(b) && !(isnan(a) && isnan(b)))
            fail_msg("%s, type %s: %a became %a, the reference says %a", table->name, vic_dtype_name(dtype), (double)values[i],
                     (double)a, (double)b);
    }
    free(expected);
    guarded_give(&target), guarded_give(&source);
}

static void every_from_float_equals_the_reference(void **state) {
    (void)state;
    enum { N = 6 * 65536 };
    float *values = malloc(N * sizeof *values);
    /* the midpoints between neighbouring narrow numbers and the floats on both sides of them */
    for (uint32_t i = 0; i < 65536; i++)
        for (uint32_t k = 0; k < 3; k++) {
            values[6 * i + k] = float_from_bits((i << 16 | 0x8000u) - 1 + k);
            float narrow = float_from_f16((uint16_t)i);
            values[6 * i + 3 + k] = float_from_bits(float_bits(narrow) + 0x1000u - 1 + k);
        }
    const struct kernels *table;
    for (int t = 0; (table = next_table(&t));)
        for (int dtype = VIC_F32; dtype < DTYPE_COUNT; dtype++)
            if (table->from_float[dtype]) {
                from_float_check(table, (enum vic_dtype)dtype, values, N);
                for (int l = 0; l < LENGTHS; l++)
                    from_float_check(table, (enum vic_dtype)dtype, values + 12345 * (l + 1) % 60000, lengths[l]);
                adverse_fill(ADVERSE_DENORMAL, VIC_F32, 3, 4096, values);
                adverse_fill(ADVERSE_BITS, VIC_F32, 4, 65536, values + 4096);
                from_float_check(table, (enum vic_dtype)dtype, values, 4096 + 65536);
            }
    free(values);
}

static void integers_have_no_from_float_and_no_check(void **state) {
    (void)state;
    for (int t = 0; kernels_list[t]; t++)
        for (int dtype = VIC_I8; dtype <= VIC_U8; dtype++) {
            assert_null(kernels_list[t]->from_float[dtype]);
            assert_null(kernels_list[t]->first_not_finite[dtype]);
        }
}

static void first_not_finite_finds_every_place(void **state) {
    (void)state;
    static const uint32_t bad[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00001u, 0x7f800001u};
    const struct kernels *table;
    for (int t = 0; (table = next_table(&t));)
        for (int dtype = VIC_F32; dtype < VIC_I8; dtype++)
            for (int l = 0; table->first_not_finite[dtype] && l < LENGTHS; l++) {
                int64_t n = lengths[l], element = (int64_t)vic_dtype_bytes((enum vic_dtype)dtype);
                struct guarded source = guarded_take((size_t)(n * element), PLACE_END);
                adverse_fill(l % 2 ? ADVERSE_HUGE : ADVERSE_BITS, (enum vic_dtype)dtype, 5, n, source.data);
                assert_int_equal(table->first_not_finite[dtype](source.data, n), n);
                /* from the back, so that the first is the new one each time */
                for (int64_t i = n - 1; i >= 0; i--) {
                    uint32_t bits = bad[i % 5];
                    uint16_t half = (uint16_t)(dtype == VIC_F16 ? (bits >> 16 & 0x8000u) | 0x7c00u | (i & 1) : bits >> 16);
                    if (dtype == VIC_F32)
                        memcpy((char *)source.data + i * element, &bits, 4);
                    else
                        memcpy((char *)source.data + i * element, &half, 2);
                    assert_int_equal(table->first_not_finite[dtype](source.data, n), i);
                }
                guarded_give(&source);
            }
}

static void largest_finds_every_place_and_either_sign(void **state) {
    (void)state;
    const struct kernels *table;
    for (int t = 0; (table = next_table(&t));)
        for (int l = 0; table->largest && l < LENGTHS; l++) {
            int64_t n = lengths[l];
            struct guarded source = guarded_take((size_t)n * sizeof(float), PLACE_END);
            float *values = source.data;
            adverse_fill(ADVERSE_DENORMAL, VIC_F32, 6, n, values);
            assert_true(table->largest(values, n) == kernels_scalar.largest(values, n));
            for (int64_t i = 0; i < n; i++) {
                float kept = values[i];
                values[i] = i % 2 ? -3e38f : 3e38f;
                assert_true(table->largest(values, n) == 3e38f);
                values[i] = kept;
            }
            for (int64_t i = 0; i < n; i++) values[i] = -0.0f;
            assert_int_equal(float_bits(table->largest(values, n)), 0);
            guarded_give(&source);
        }
}

/* ---------------------------------------------------------------- scores */

/* Scores of all kinds: ordinary, tiny, equal ones, infinities and, if so asked, NaN of both signs. */
static void scores_fill(float *scores, int64_t n, uint64_t seed, bool nan) {
    static const uint32_t special[] = {0x7fc00000u, 0xffc00000u, 0x7f800000u, 0xff800000u, 0,           0x80000000u,
                                       1,           0x80000001u, 0x3f800000u, 0xbf800000u, 0x7f7fffffu, 0xff7fffffu};
    for (int64_t i = 0; i < n; i++) {
        struct philox random = philox_block(seed, 9, (uint64_t)i);
        scores[i] = philox_unit(random.words[0]) * 2 - 1;
        if (random.words[1] % 3 == 0) scores[i] = float_from_bits(special[random.words[2] % 10 + (nan ? 0 : 2)]);
    }
}

static void every_cosine_equals_the_reference(void **state) {
    (void)state;
    static const float query_norms[] = {1, 1e-20f, 1e20f, 0x1p-149f, 3.4028235e38f, 0.1f};
    const struct kernels *table;
    for (int t = 0; (table = next_table(&t));)
        for (int l = 0; table->cosine && l < LENGTHS; l++)
            for (int q = 0; q < 6; q++) {
                int64_t n = lengths[l];
                struct guarded scores = guarded_take((size_t)n * sizeof(float), PLACE_END);
                struct guarded norms = guarded_take((size_t)n * sizeof(float), PLACE_END);
                float expected[1008];
                scores_fill(scores.data, n, (uint64_t)q, true);
                scores_fill(norms.data, n, (uint64_t)q + 77, false);
                memcpy(expected, scores.data, (size_t)n * sizeof(float));
                kernels_scalar.cosine(expected, norms.data, n, query_norms[q]);
                table->cosine(scores.data, norms.data, n, query_norms[q]);
                assert_floats_equal(scores.data, expected, n, table->name);
                guarded_give(&norms), guarded_give(&scores);
            }
}

static void every_replace_nan_makes_nan_the_worst_and_keeps_the_rest(void **state) {
    (void)state;
    const struct kernels *table;
    for (int t = 0; (table = next_table(&t));)
        for (int l = 0; table->replace_nan && l < LENGTHS; l++) {
            int64_t n = lengths[l];
            struct guarded scores = guarded_take((size_t)n * sizeof(float), PLACE_END);
            float before[1008], *after = scores.data;
            scores_fill(after, n, 12, true);
            memcpy(before, after, (size_t)n * sizeof(float));
            table->replace_nan(after, n);
            for (int64_t i = 0; i < n; i++)
                assert_int_equal(float_bits(after[i]), isnan(before[i]) ? 0xff800000u : float_bits(before[i]));
            guarded_give(&scores);
        }
}

static void every_above_lists_what_the_order_says(void **state) {
    (void)state;
    const struct kernels *table;
    for (int t = 0; (table = next_table(&t));)
        for (int l = 0; table->above && l < LENGTHS; l++)
            for (int round = 0; round < 12; round++) {
                int64_t n = lengths[l], expected = 0;
                bool smaller = round & 1;
                struct guarded scores = guarded_take((size_t)n * sizeof(float), PLACE_END);
                struct guarded positions = guarded_take((size_t)n * sizeof(uint32_t), PLACE_END);
                const uint32_t *found = positions.data;
                scores_fill(scores.data, n, (uint64_t)round, false);
                uint32_t least = round < 2   ? 0
                                 : round < 4 ? UINT32_MAX
                                             : score_to_order(n ? ((float *)scores.data)[round % n] : 0, smaller);
                int64_t count = table->above(scores.data, n, smaller, least, positions.data);
                for (int64_t i = 0; i < n; i++)
                    if (score_to_order(((float *)scores.data)[i], smaller) >= least) {
                        assert_true(expected < count);
                        assert_int_equal(found[expected++], i);
                    }
                assert_int_equal(count, expected);
                guarded_give(&positions), guarded_give(&scores);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_to_float_equals_the_reference),
        cmocka_unit_test(every_pattern_converts_as_the_reference_does),
        cmocka_unit_test(every_from_float_equals_the_reference),
        cmocka_unit_test(integers_have_no_from_float_and_no_check),
        cmocka_unit_test(first_not_finite_finds_every_place),
        cmocka_unit_test(largest_finds_every_place_and_either_sign),
        cmocka_unit_test(every_cosine_equals_the_reference),
        cmocka_unit_test(every_replace_nan_makes_nan_the_worst_and_keeps_the_rest),
        cmocka_unit_test(every_above_lists_what_the_order_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
