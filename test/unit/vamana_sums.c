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

/* Products of one row's codes as docs/format.md lays them out. */
static int64_t sum_plainly(enum plane_kind kind, const uint8_t *codes, int64_t stride, const int8_t *query) {
    int64_t sum = 0, dims = kind == PLANE_8 ? stride : 2 * stride;
    for (int64_t i = 0; i < dims; i++) {
        int code = kind == PLANE_8 ? codes[i] : codes[i / 128 * 64 + i % 64] >> (i % 128 < 64 ? 0 : 4) & 15;
        sum += (int64_t)code * query[i];
    }
    return sum;
}

/* extreme 0: random codes and queries; else the largest codes and that element. */
static void sums_check(const struct kernels *table, enum plane_kind kind, int64_t stride, int64_t asked, int extreme,
                       struct random *random) {
    int64_t elements = kind == PLANE_8 ? stride : 2 * stride;
    struct guarded codes = guarded_take((size_t)(ROWS * stride), PLACE_END), query = guarded_take((size_t)elements, PLACE_END);
    struct guarded rows = guarded_take((size_t)asked * sizeof(uint32_t), PLACE_END);
    struct guarded sums = guarded_take((size_t)asked * sizeof(int32_t), PLACE_END);
    uint8_t *code = codes.data;
    int8_t *element = query.data;
    uint32_t *row = rows.data;
    const int32_t *found = sums.data;
    for (int64_t i = 0; i < ROWS * stride; i++) code[i] = extreme ? 255 : (uint8_t)random_next(random);
    for (int64_t i = 0; i < elements; i++) element[i] = extreme ? (int8_t)extreme : (int8_t)random_next(random);
    for (int64_t i = 0; i < asked; i++) row[i] = (uint32_t)(i == asked - 1 ? ROWS - 1 : random_below(random, ROWS));
    memset(sums.data, 0xAA, (size_t)asked * sizeof(int32_t));
    table->sums[kind](code, stride, row, asked, element, sums.data);
    for (int64_t i = 0; i < asked; i++) assert_int_equal(found[i], sum_plainly(kind, code + row[i] * stride, stride, element));
    guarded_give(&sums), guarded_give(&rows), guarded_give(&query), guarded_give(&codes);
}

static void every_table_sums_as_a_plain_loop(void **state) {
    (void)state;
    static const int64_t strides[] = {64, 128, 192, 384, 1024, 4160};
    struct random random = {7};
    for (int t = 0; kernels_list[t]; t++)
        for (int kind = 0; kind < PLANE_COUNT; kind++) {
            if (!kernels_list[t]->available() || !kernels_list[t]->sums[kind]) continue;
            for (int s = 0; s < 6; s++)
                for (int64_t asked = 1; asked <= ASKED; asked++)
                    sums_check(kernels_list[t], (enum plane_kind)kind, strides[s], asked, 0, &random);
        }
}

static void sums_of_the_widest_rows_do_not_wrap(void **state) {
    (void)state;
    struct random random = {8};
    for (int t = 0; kernels_list[t]; t++)
        for (int kind = 0; kind < PLANE_COUNT; kind++) {
            if (!kernels_list[t]->available() || !kernels_list[t]->sums[kind]) continue;
            int64_t stride = plane_stride((enum plane_kind)kind, 65536);
            sums_check(kernels_list[t], (enum plane_kind)kind, stride, 3, 127, &random);
            sums_check(kernels_list[t], (enum plane_kind)kind, stride, 3, -128, &random);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_table_sums_as_a_plain_loop),
        cmocka_unit_test(sums_of_the_widest_rows_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
