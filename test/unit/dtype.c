/* Element types and metrics: names as people write them, and conversions of every 16-bit pattern and of every edge of
 * rounding. */
#include "base/dtype.h"
#include "support/scene.h"

#include <math.h>
#include <stdlib.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* ---- names */

static void every_name_and_alias_is_known_in_any_case(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum vic_metric metric;
    } metrics[] = {{"dot", VIC_DOT},  {"DOT", VIC_DOT},       {"ip", VIC_DOT},       {"Inner_Product", VIC_DOT},
                   {"mips", VIC_DOT}, {"cosine", VIC_COSINE}, {"cos", VIC_COSINE},   {"Angular", VIC_COSINE},
                   {"l2", VIC_L2},    {"L2", VIC_L2},         {"euclidean", VIC_L2}, {"sqeuclidean", VIC_L2}};
    static const struct {
        const char *name;
        enum vic_dtype dtype;
    } dtypes[] = {{"f32", VIC_F32},  {"float32", VIC_F32}, {"Float", VIC_F32}, {"f16", VIC_F16},
                  {"half", VIC_F16}, {"float16", VIC_F16}, {"bf16", VIC_BF16}, {"BFloat16", VIC_BF16},
                  {"i8", VIC_I8},    {"int8", VIC_I8},     {"u8", VIC_U8},     {"UINT8", VIC_U8}};
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics; i++) {
        enum vic_metric metric = 0;
        must(vic_metric_parse(metrics[i].name, &metric));
        assert_int_equal(metric, metrics[i].metric);
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        enum vic_dtype dtype = 0;
        must(vic_dtype_parse(dtypes[i].name, &dtype));
        assert_int_equal(dtype, dtypes[i].dtype);
    }
}

static void what_is_shown_can_be_read_again(void **state) {
    (void)state;
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        enum vic_metric again = 0;
        must(vic_metric_parse(vic_metric_name(metric), &again));
        assert_int_equal(again, metric);
    }
    for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++) {
        enum vic_dtype again = 0;
        must(vic_dtype_parse(vic_dtype_name(dtype), &again));
        assert_int_equal(again, dtype);
    }
}

static void a_near_miss_is_told_the_name_that_was_meant(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"cosin", "cosine"}, {"dott", "dot"}, {"euclidian", "euclidean"}, {"l3", "l2"}};
    enum vic_metric metric = VIC_L2;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_int_equal(vic_metric_parse(pairs[i][0], &metric), VIC_ARGUMENT);
        assert_true(error_says(pairs[i][0]) && error_says("did you mean") && error_says(pairs[i][1]));
    }
    assert_int_equal(metric, VIC_L2);
    enum vic_dtype dtype = VIC_U8;
    assert_int_equal(vic_dtype_parse("flot32", &dtype), VIC_ARGUMENT);
    assert_true(error_says("float32"));
    assert_int_equal(dtype, VIC_U8);
}

static void other_words_are_told_all_that_is_known(void **state) {
    (void)state;
    enum vic_metric metric = 0;
    enum vic_dtype dtype = 0;
    char *endless = take(100001);
    memset(endless, 'x', 100000);
    endless[100000] = '\0';
    const char *const words[] = {"", "manhattan-distance", "\xff\xfe", "%s%n", endless};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_int_equal(vic_metric_parse(words[i], &metric), VIC_ARGUMENT);
        assert_true(error_says("dot") && error_says("cosine") && error_says("l2"));
        assert_int_equal(vic_dtype_parse(words[i], &dtype), VIC_ARGUMENT);
        assert_true(error_says("f32") && error_says("bf16") && error_says("u8"));
    }
    assert_int_equal(metric, 0);
    assert_int_equal(dtype, 0);
    free(endless);
}

static void a_name_or_place_that_is_null_is_an_argument(void **state) {
    (void)state;
    enum vic_metric metric = 0;
    enum vic_dtype dtype = 0;
    assert_int_equal(vic_metric_parse(NULL, &metric), VIC_ARGUMENT);
    assert_int_equal(vic_dtype_parse(NULL, &dtype), VIC_ARGUMENT);
    assert_int_equal(vic_metric_parse("dot", NULL), VIC_ARGUMENT);
    assert_int_equal(vic_dtype_parse("f32", NULL), VIC_ARGUMENT);
}

static void numbers_that_are_no_type_have_no_name_and_no_size(void **state) {
    (void)state;
    static const int wrong[] = {0, -1, 6, 99, INT32_MAX, INT32_MIN};
    static const size_t bytes[] = {0, 4, 2, 2, 1, 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_string_equal(vic_dtype_name((enum vic_dtype)wrong[i]), "?");
        assert_string_equal(vic_metric_name((enum vic_metric)wrong[i]), "?");
        assert_int_equal(vic_dtype_bytes((enum vic_dtype)wrong[i]), 0);
    }
    for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++) assert_int_equal(vic_dtype_bytes(dtype), bytes[dtype]);
}

/* ---- conversions */

static void every_half_and_bfloat16_becomes_the_float_that_it_is(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t half = (uint16_t)bits;
        float right = element_get(VIC_F16, &half, 0), found = float_from_f16(half), loaded = dtype_load(VIC_F16, &half, 0);
        if (isnan(right)) {
            assert_true(isnan(found) && isnan(loaded));
        } else {
            assert_memory_equal(&found, &right, 4);
            assert_memory_equal(&loaded, &right, 4);
        }
        right = element_get(VIC_BF16, &half, 0), found = float_from_bf16(half), loaded = dtype_load(VIC_BF16, &half, 0);
        assert_memory_equal(&found, &right, 4);
        assert_memory_equal(&loaded, &right, 4);
    }
}

static void every_finite_half_and_bfloat16_comes_back_from_its_float(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        uint16_t half = (uint16_t)bits;
        if ((half & 0x7c00) != 0x7c00) assert_int_equal(f16_from_float(float_from_f16(half)), half);
        if ((half & 0x7f80) != 0x7f80) assert_int_equal(bf16_from_float(float_from_bf16(half)), half);
    }
    assert_int_equal(f16_from_float(INFINITY), 0x7c00);
    assert_int_equal(f16_from_float(-INFINITY), 0xfc00);
    assert_int_equal(bf16_from_float(INFINITY), 0x7f80);
    assert_true(isnan(float_from_f16(f16_from_float(NAN))));
    assert_true(isnan(float_from_bf16(bf16_from_float(NAN))));
    /* a NaN whose payload lies below what is kept must not become an infinity */
    assert_true(isnan(float_from_f16(f16_from_float(float_from_bits(0x7f800001)))));
    assert_true(isnan(float_from_bf16(bf16_from_float(float_from_bits(0xff800001)))));
}

/* Between two neighbours of the narrow type: their middle goes to the even one, all else to the nearer. */
static void rounding_check(uint16_t (*narrow)(float), float (*wide)(uint16_t), uint16_t low) {
    double a = (double)wide(low), b = (double)wide((uint16_t)(low + 1)), middle = (a + b) / 2;
    assert_true((double)(float)middle == middle);
    uint16_t even = (uint16_t)(low & 1 ? low + 1 : low);
    assert_int_equal(narrow((float)middle), even);
    assert_int_equal(narrow(nextafterf((float)middle, 0.0f)), low);
    assert_int_equal(narrow(nextafterf((float)middle, INFINITY)), low + 1);
    assert_int_equal(narrow(-(float)middle), even | 0x8000);
}

static float wide_bf16(uint16_t half) { return float_from_bf16(half); }

static void rounding_is_to_nearest_and_ties_to_even(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x7bff; bits++) rounding_check(f16_from_float, float_from_f16, (uint16_t)bits);
    for (uint32_t bits = 0x80; bits < 0x7f7f; bits++) rounding_check(bf16_from_float, wide_bf16, (uint16_t)bits);
    for (uint32_t bits = 0; bits < 0x80; bits++) rounding_check(bf16_from_float, wide_bf16, (uint16_t)bits);
}

static void numbers_too_large_for_the_narrow_type_become_infinite(void **state) {
    (void)state;
    assert_int_equal(f16_from_float(65504.0f), 0x7bff);
    assert_int_equal(f16_from_float(nextafterf(65520.0f, 0.0f)), 0x7bff);
    assert_int_equal(f16_from_float(65520.0f), 0x7c00);
    assert_int_equal(f16_from_float(-0x1.fffffep127f), 0xfc00);
    assert_int_equal(bf16_from_float(0x1.fffffep127f), 0x7f80);
    assert_int_equal(bf16_from_float(0x1.fep127f), 0x7f7f);
    assert_int_equal(bf16_from_float(nextafterf(0x1.ffp127f, 0.0f)), 0x7f7f);
}

static void tiny_numbers_keep_their_sign_and_round_to_denormals(void **state) {
    (void)state;
    assert_int_equal(f16_from_float(0.0f), 0);
    assert_int_equal(f16_from_float(-0.0f), 0x8000);
    assert_int_equal(f16_from_float(0x1p-24f), 1);
    assert_int_equal(f16_from_float(0x1p-25f), 0); /* a tie, to even */
    assert_int_equal(f16_from_float(0x1.000002p-25f), 1);
    assert_int_equal(f16_from_float(-0x1p-149f), 0x8000);
    assert_int_equal(bf16_from_float(-0x1p-149f), 0x8000);
    assert_int_equal(bf16_from_float(0x1p-133f), 1);
}

static void integers_and_unaligned_vectors_load_exactly(void **state) {
    (void)state;
    struct random random = test_random(1);
    char memory[64];
    for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++)
        for (int shift = 0; shift < 4; shift++) {
            random_fill(&random, VALUES_WILD, dtype, 8, memory + shift);
            for (int64_t i = 0; i < 8; i++) {
                float right = element_get(dtype, memory + shift, i), found = dtype_load(dtype, memory + shift, i);
                assert_memory_equal(&found, &right, 4);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_and_alias_is_known_in_any_case),
        cmocka_unit_test(what_is_shown_can_be_read_again),
        cmocka_unit_test(a_near_miss_is_told_the_name_that_was_meant),
        cmocka_unit_test(other_words_are_told_all_that_is_known),
        cmocka_unit_test(a_name_or_place_that_is_null_is_an_argument),
        cmocka_unit_test(numbers_that_are_no_type_have_no_name_and_no_size),
        cmocka_unit_test(every_half_and_bfloat16_becomes_the_float_that_it_is),
        cmocka_unit_test(every_finite_half_and_bfloat16_comes_back_from_its_float),
        cmocka_unit_test(rounding_is_to_nearest_and_ties_to_even),
        cmocka_unit_test(numbers_too_large_for_the_narrow_type_become_infinite),
        cmocka_unit_test(tiny_numbers_keep_their_sign_and_round_to_denormals),
        cmocka_unit_test(integers_and_unaligned_vectors_load_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
