/* The reference kernels against the definition of docs/numerics.md written a second time and another way: an accumulator
 * is a strided sum, the tree is recursion. Then numbers that can be checked by hand. */
#include "backend/cpu/kernels.h"
#include "base/fpenv.h"
#include "support/guarded.h"

#include <math.h>
#include <stdlib.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const enum vic_dtype types[] = {VIC_F32, VIC_F16, VIC_BF16, VIC_I8, VIC_U8};
enum { TYPES = sizeof types / sizeof *types };

/* Accumulator j: dimensions j, j + 128, j + 256 ... */
static float leaf(enum vic_dtype dtype, enum kernel_op op, const void *row, const float *query, int64_t dim, int64_t j) {
    float sum = 0;
    for (int64_t d = j; d < dim; d += 128) {
        float x = dtype_load(dtype, row, d), difference = x - query[d];
        sum = op == OP_DOT ? fmaf(x, query[d], sum) : fmaf(difference, difference, sum);
    }
    return sum;
}
/* What stands in place j before the halving step of `width`. */
static float node(enum vic_dtype dtype, enum kernel_op op, const void *row, const float *query, int64_t dim, int64_t j,
                  int64_t width) {
    if (width == 128) return leaf(dtype, op, row, query, dim, j);
    return node(dtype, op, row, query, dim, j, 2 * width) + node(dtype, op, row, query, dim, j + width, 2 * width);
}

static void scalar_scan_is_the_canonical_sum(void **state) {
    (void)state;
    static const int64_t dims[] = {1, 2, 3, 16, 17, 64, 65, 127, 128, 129, 255, 256, 257, 384, 385, 1007, 4097};
    static float query[4097], scores[3];
    static uint32_t rows[3 * 4097];
    for (int t = 0; t < TYPES; t++)
        for (int kind = 0; kind < ADVERSE_COUNT; kind++)
            for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
                for (int op = 0; op < OP_COUNT; op++) {
                    int64_t dim = dims[i];
                    adverse_fill((enum adverse)kind, types[t], 1, 3 * dim, rows);
                    adverse_fill((enum adverse)kind, VIC_F32, 2, dim, query);
                    kernels_scalar.scan[types[t]][op](rows, 3, dim, query, scores);
                    for (int64_t r = 0; r < 3; r++) {
                        const char *row = (const char *)rows + r * dim * (int64_t)vic_dtype_bytes(types[t]);
                        float expected = node(types[t], (enum kernel_op)op, row, query, dim, 0, 1) + 0.0f;
                        assert_memory_equal(&scores[r], &expected, sizeof expected);
                    }
                }
}

/* One chunk can be followed by hand: 2^24 + 1 is lost beside a large neighbour and kept beside its own partner. */
static void the_tree_halves_from_64_down(void **state) {
    (void)state;
    float row[128] = {0}, ones[128], score = 0;
    for (int j = 0; j < 128; j++) ones[j] = 1;
    row[0] = 0x1p24f, row[64] = 1, row[1] = -0x1p24f, row[65] = 1;
    kernels_scalar.scan[VIC_F32][OP_DOT](row, 1, 128, ones, &score);
    assert_float_equal(score, 1, 0); /* (2^24 + 1 rounds to 2^24) + (-2^24 + 1 is exact) */
    row[64] = 0, row[32] = 1, row[65] = 0, row[33] = 1;
    kernels_scalar.scan[VIC_F32][OP_DOT](row, 1, 128, ones, &score);
    assert_float_equal(score, 1, 0);
    row[32] = row[33] = 0, row[2] = row[3] = 1; /* (2^24 + 1) + (-2^24 + 1), the step of 2 */
    kernels_scalar.scan[VIC_F32][OP_DOT](row, 1, 128, ones, &score);
    assert_float_equal(score, 1, 0);
}

static void a_score_is_never_minus_zero(void **state) {
    (void)state;
    float row[2] = {-0.0f, 0.0f}, query[2] = {1.0f, -0.0f}, score = 1;
    for (int op = 0; op < OP_COUNT; op++) {
        kernels_scalar.scan[VIC_F32][op](row, 1, 1, op == OP_DOT ? query : row, &score);
        assert_int_equal(float_bits(score), 0);
    }
    float tiny = -0x1p-149f, norm = 4;
    kernels_scalar.cosine(&tiny, &norm, 1, 1);
    assert_int_equal(float_bits(tiny), 0);
}

static void NUM_10_half_precision_dot_is_exact_where_it_can_be(void **state) {
    (void)state;
    static uint16_t row[1024];
    static float query[1024];
    float score = 0;
    for (int i = 0; i < 1024; i++) row[i] = f16_from_float(300), query[i] = 300;
    kernels_scalar.scan[VIC_F16][OP_DOT](row, 1, 1024, query, &score);
    assert_true(score == 92160000.0f);
}

static void NUM_10_half_precision_l2_equals_its_float32_copy(void **state) {
    (void)state;
    enum { N = 1000, DIM = 128 };
    uint16_t *rows = malloc(N * DIM * sizeof *rows);
    float *copy = malloc(N * DIM * sizeof *copy), *scores = malloc(2 * N * sizeof *scores);
    for (int i = 0; i < N * DIM; i++) {
        rows[i] = f16_from_float((float)((unsigned)i * 2654435761u >> 8) * (100.0f / 0x1p24f));
        copy[i] = float_from_f16(rows[i]);
    }
    for (int q = 0; q < 10; q++) {
        kernels_scalar.scan[VIC_F16][OP_L2](rows, N, DIM, copy + q * DIM, scores);
        kernels_scalar.scan[VIC_F32][OP_L2](copy, N, DIM, copy + q * DIM, scores + N);
        assert_memory_equal(scores, scores + N, N * sizeof *scores);
        for (int i = 0; i < N; i++) assert_true(float_finite(scores[i]));
    }
    free(rows), free(copy), free(scores);
}

static void NUM_11_exact_sums_of_the_extremes(void **state) {
    (void)state;
    static uint8_t row[65536];
    float score = 0;
    memset(row, 0x80, sizeof row);
    kernels_scalar.scan_exact[VIC_I8][OP_DOT](row, 1, 4096, row, &score);
    assert_true(score == 67108864.0f);
    memset(row, 0xff, sizeof row);
    kernels_scalar.scan_exact[VIC_U8][OP_DOT](row, 1, 33100, row, &score);
    assert_true(score == 2152327424.0f); /* the integer is 2,152,327,500 */
    kernels_scalar.scan_exact[VIC_U8][OP_DOT](row, 1, 65536, row, &score);
    assert_true(score == (float)INT64_C(4261478400));
    static uint8_t zeros[65536];
    kernels_scalar.scan_exact[VIC_U8][OP_L2](row, 1, 65536, zeros, &score);
    assert_true(score == (float)INT64_C(4261478400));
}

static void NUM_13_one_pair_each(void **state) {
    (void)state;
    float zero[] = {0, 0}, three_four[] = {3, 4}, one_two[] = {1, 2}, x_axis[] = {1, 0}, diagonal[] = {1, 1}, score = 0;
    kernels_scalar.scan[VIC_F32][OP_L2](three_four, 1, 2, zero, &score);
    assert_true(score == 25.0f);
    kernels_scalar.scan[VIC_F32][OP_DOT](three_four, 1, 2, one_two, &score);
    assert_true(score == 11.0f);
    float norm = sqrtf(2);
    kernels_scalar.scan[VIC_F32][OP_DOT](diagonal, 1, 2, x_axis, &score);
    kernels_scalar.cosine(&score, &norm, 1, 1);
    assert_true(score == 0.70710677f);
}

static void cosine_of_itself_is_clamped_and_of_zero_is_worst(void **state) {
    (void)state;
    float scores[] = {2, 2, -9, NAN, 5}, norms[] = {1.41421354f, 0, 1, 1, -2};
    kernels_scalar.cosine(scores, norms, 1, norms[0]);
    assert_true(scores[0] == 1.0f);
    kernels_scalar.cosine(scores + 1, norms + 1, 4, 1);
    assert_true(scores[1] == -INFINITY && scores[2] == -1.0f && isnan(scores[3]) && scores[4] == -1.0f);
}

/* Loading narrow floats and storing them again gives the same bits, for every pattern that is a number. */
static void narrow_floats_round_trip(void **state) {
    (void)state;
    static const enum vic_dtype narrow[] = {VIC_F16, VIC_BF16};
    for (int t = 0; t < 2; t++)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            uint16_t half = (uint16_t)bits, back = 0;
            float value = 0;
            kernels_scalar.to_float[narrow[t]](&half, 1, &value);
            kernels_scalar.from_float[narrow[t]](&value, 1, &back);
            bool nan = value != value;
            assert_true(nan ? (back & 0x7fff) > (narrow[t] == VIC_F16 ? 0x7c00 : 0x7f80) : back == half);
            assert_int_equal(kernels_scalar.first_not_finite[narrow[t]](&half, 1), float_finite(value) ? 1 : 0);
        }
}

static void rounding_to_narrow_floats_is_to_nearest_even(void **state) {
    (void)state;
    static const struct {
        float value;
        uint16_t f16, bf16;
    } known[] = {
        {1.0f, 0x3c00, 0x3f80},           {1.0f + 0x1p-11f, 0x3c00, 0x3f80},    {1.0f + 3 * 0x1p-11f, 0x3c02, 0x3f80},
        {1.0f + 0x1p-8f, 0x3c04, 0x3f80}, {1.0f + 3 * 0x1p-8f, 0x3c0c, 0x3f82}, {65504.0f, 0x7bff, 0x4780},
        {65519.996f, 0x7bff, 0x4780},     {65520.0f, 0x7c00, 0x4780},           {0x1p-24f, 0x0001, 0x3380},
        {0x1p-25f, 0x0000, 0x3300},       {0x1.8p-25f, 0x0001, 0x3340},         {-0.0f, 0x8000, 0x8000},
        {0x1p-149f, 0x0000, 0x0000},      {3.4028235e38f, 0x7c00, 0x7f80},      {-0x1p-133f, 0x8000, 0x8001},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint16_t half = 0;
        kernels_scalar.from_float[VIC_F16](&known[i].value, 1, &half);
        assert_int_equal(half, known[i].f16);
        kernels_scalar.from_float[VIC_BF16](&known[i].value, 1, &half);
        assert_int_equal(half, known[i].bf16);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_scan_is_the_canonical_sum),
        cmocka_unit_test(the_tree_halves_from_64_down),
        cmocka_unit_test(a_score_is_never_minus_zero),
        cmocka_unit_test(NUM_10_half_precision_dot_is_exact_where_it_can_be),
        cmocka_unit_test(NUM_10_half_precision_l2_equals_its_float32_copy),
        cmocka_unit_test(NUM_11_exact_sums_of_the_extremes),
        cmocka_unit_test(NUM_13_one_pair_each),
        cmocka_unit_test(cosine_of_itself_is_clamped_and_of_zero_is_worst),
        cmocka_unit_test(narrow_floats_round_trip),
        cmocka_unit_test(rounding_to_narrow_floats_is_to_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
