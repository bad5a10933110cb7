/* Sums of codes: every table equals a plain loop, at the edge of 32 bits too, and reads nothing behind codes or query. */
#include "backend/cpu/kernels.h"
#include "support/guarded.h"
#include "support/oracle.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { ROWS = 23, ASKED = 45 };

/* value < 0: random codes and queries; else extremes of that sign. */
static void sums_check(const struct kernels *table, int64_t stride, int64_t asked, int extreme, struct random *random) {
    struct guarded codes = guarded_take((size_t)(ROWS * stride), PLACE_END), query = guarded_take((size_t)stride, PLACE_END);
    struct guarded rows = guarded_take((size_t)asked * sizeof(uint32_t), PLACE_END);
    struct guarded sums = guarded_take((size_t)asked * sizeof(int32_t), PLACE_END);
    uint8_t *code = codes.data;
    int8_t *element = query.data;
    uint32_t *row = rows.data;
    const int32_t *found = sums.data;
    for (int64_t i = 0; i < ROWS * stride; i++) code[i] = extreme ? 255 : (uint8_t)random_next(random);
    for (int64_t i = 0; i < stride; i++) element[i] = extreme ? (int8_t)extreme : (int8_t)random_next(random);
    for (int64_t i = 0; i < asked; i++) row[i] = (uint32_t)(i == asked - 1 ? ROWS - 1 : random_below(random, ROWS));
    memset(sums.data, 0xAA, (size_t)asked * sizeof(int32_t));
    table->sums(code, stride, row, asked, element, sums.data);
    for (int64_t i = 0; i < asked; i++) {
        int64_t expected = 0;
        for (int64_t j = 0; j < stride; j++) expected += (int64_t)code[row[i] * stride + j] * element[j];
        assert_int_equal(found[i], expected);
    }
    guarded_give(&sums), guarded_give(&rows), guarded_give(&query), guarded_give(&codes);
}

static void every_table_sums_as_a_plain_loop(void **state) {
    (void)state;
    static const int64_t strides[] = {64, 128, 192, 384, 1024, 4160};
    struct random random = {7};
    for (int t = 0; kernels_list[t]; t++) {
        if (!kernels_list[t]->available() || !kernels_list[t]->sums) continue;
        for (int s = 0; s < 6; s++)
            for (int64_t asked = 1; asked <= ASKED; asked++) sums_check(kernels_list[t], strides[s], asked, 0, &random);
    }
}

static void sums_of_the_widest_rows_do_not_wrap(void **state) {
    (void)state;
    struct random random = {8};
    for (int t = 0; kernels_list[t]; t++) {
        if (!kernels_list[t]->available() || !kernels_list[t]->sums) continue;
        sums_check(kernels_list[t], 65536, 3, 127, &random);
        sums_check(kernels_list[t], 65536, 3, -128, &random);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_sums_as_a_plain_loop),
        cmocka_unit_test(sums_of_the_widest_rows_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
