/* Every scan and gather kernel of every table against the reference, byte by byte, on inputs that end at a page that may not
 * be read.
 * The tables and slots are walked: a new kernel is tested without an edit here. */
#include "backend/cpu/kernels.h"
#include "support/guarded.h"

#include <stdlib.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const int64_t dims[] = {1,   2,   3,   7,   8,   15,  16,  17,  31,  32,  33,   63,   64,   65,
                               100, 127, 128, 129, 255, 256, 257, 384, 385, 511, 1000, 1007, 4097, 65536};
static const int64_t counts[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65};
enum { DIMS = sizeof dims / sizeof *dims, COUNTS = sizeof counts / sizeof *counts };

/* One slot: which reference, and the type of its query. */
struct slot {
    bool exact;
    enum vic_dtype dtype;
    enum kernel_op op;
};
static scan_kernel *slot_kernel(const struct kernels *table, struct slot slot) {
    return slot.exact ? table->scan_exact[slot.dtype][slot.op] : table->scan[slot.dtype][slot.op];
}

/* Rows here and there as scores; exact sums come as they are. false: the table has none. */
static bool gather_call(const struct kernels *table, struct slot slot, const void *rows, const uint32_t *which, int64_t n,
                        int64_t dim, const void *query, float *scores) {
    gather_kernel *kernel = table->gather[slot.dtype][slot.op];
    byte_sums *sums = table->gather_exact[slot.dtype][slot.op];
    if (slot.exact && sums) {
        sums(rows, which, n, dim, query, (uint32_t *)scores);
        for (int64_t i = 0; i < n; i++) {
            uint32_t sum;
            memcpy(&sum, &scores[i], sizeof sum);
            scores[i] = slot.dtype == VIC_I8 && slot.op == OP_DOT ? (float)(int32_t)sum : (float)sum;
        }
    }
    if (!slot.exact && kernel) kernel(rows, which, n, dim, query, scores);
    return slot.exact ? sums != NULL : kernel != NULL;
}

/* Rows in some order, with repeats: the scores that the scan gave them. */
static void gather_check(const struct kernels *table, struct slot slot, const void *rows, int64_t n, int64_t dim,
                         const void *query, const float *expected) {
    if (!table->available()) return;
    struct guarded which = guarded_take((size_t)n * sizeof(uint32_t), PLACE_END);
    struct guarded scores = guarded_take((size_t)n * sizeof(float), PLACE_END);
    uint32_t *row = which.data;
    const float *found = scores.data;
    for (int64_t i = 0; i < n; i++) row[i] = (uint32_t)((i * 7 + 3) % n);
    memset(scores.data, 0xAA, (size_t)n * sizeof(float));
    bool there = gather_call(table, slot, rows, row, n, dim, query, scores.data);
    for (int64_t i = 0; there && i < n; i++)
        if (memcmp(&found[i], &expected[row[i]], sizeof(float)) != 0)
            fail_msg("table %s, type %s, op %d, exact %d, n %d, dim %d: gathered row %d differs from the reference",
                     table->name, vic_dtype_name(slot.dtype), slot.op, slot.exact, (int)n, (int)dim, (int)row[i]);
    guarded_give(&scores), guarded_give(&which);
}

/* n rows and a query of one kind of values, through every table that has the slot. */
static void slot_check(struct slot slot, int64_t n, int64_t dim, enum adverse kind, enum place place) {
    size_t element = vic_dtype_bytes(slot.dtype), query_element = slot.exact ? 1 : 4;
    struct guarded rows = guarded_take((size_t)(n * dim) * element, place);
    struct guarded query = guarded_take((size_t)dim * query_element, place);
    struct guarded scores = guarded_take((size_t)n * sizeof(float), PLACE_END);
    float *expected = malloc((size_t)n * sizeof *expected);
    adverse_fill(kind, slot.dtype, (uint64_t)(n * dim), n * dim, rows.data);
    adverse_fill(kind, slot.exact ? slot.dtype : VIC_F32, 7, dim, query.data);
    slot_kernel(&kernels_scalar, slot)(rows.data, n, dim, query.data, expected);
    for (int t = 0; kernels_list[t]; t++) {
        scan_kernel *kernel = slot_kernel(kernels_list[t], slot);
        gather_check(kernels_list[t], slot, rows.data, n, dim, query.data, expected);
        if (!kernel || !kernels_list[t]->available()) continue;
        memset(scores.data, 0xAA, (size_t)n * sizeof(float));
        kernel(rows.data, n, dim, query.data, scores.data);
        if (memcmp(scores.data, expected, (size_t)n * sizeof(float)) != 0)
            fail_msg("table %s, type %s, op %d, exact %d, n %d, dim %d, kind %d differs from the reference",
                     kernels_list[t]->name, vic_dtype_name(slot.dtype), slot.op, slot.exact, (int)n, (int)dim, kind);
    }
    free(expected);
    guarded_give(&scores), guarded_give(&query), guarded_give(&rows);
}

/* Enough rows to meet all edges of groups of rows where dim is small; fewer where the reference would take long. */
static void type_check(bool exact, enum vic_dtype dtype) {
    for (int op = 0; op < OP_COUNT; op++)
        for (int d = 0; d < DIMS; d++)
            for (int c = 0; c < COUNTS; c++)
                for (int kind = 0; kind < ADVERSE_COUNT; kind++) {
                    bool small = counts[c] * dims[d] <= 20000, once = counts[c] == 2 && kind != ADVERSE_UNIT;
                    if (!small && !once) continue;
                    enum place place = (enum place)((d + c + kind) % PLACE_COUNT);
                    slot_check((struct slot){exact, dtype, (enum kernel_op)op}, counts[c], dims[d], (enum adverse)kind, place);
                }
}

static void every_scan_equals_the_reference(void **state) {
    (void)state;
    for (int dtype = VIC_F32; dtype < DTYPE_COUNT; dtype++) type_check(false, (enum vic_dtype)dtype);
}

static void every_exact_scan_equals_the_reference(void **state) {
    (void)state;
    type_check(true, VIC_I8);
    type_check(true, VIC_U8);
}

static void every_dim_up_to_300_equals_the_reference(void **state) {
    (void)state;
    for (int64_t dim = 1; dim <= 300; dim++)
        for (int dtype = VIC_F32; dtype < DTYPE_COUNT; dtype++)
            for (int op = 0; op < OP_COUNT; op++) {
                enum place place = (enum place)(dim % PLACE_COUNT);
                slot_check((struct slot){false, (enum vic_dtype)dtype, (enum kernel_op)op}, 3, dim, ADVERSE_BITS, place);
                if (dtype_is_integer((enum vic_dtype)dtype))
                    slot_check((struct slot){true, (enum vic_dtype)dtype, (enum kernel_op)op}, 3, dim, ADVERSE_BITS, place);
            }
}

/* Sums at the very top of 32 bits, and dimensions where a 16-bit or a signed 32-bit sum on the way would wrap. */
static void exact_scans_hold_the_largest_sums(void **state) {
    (void)state;
    static const int64_t large[] = {4096, 33100, 33101, 65535, 65536};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        for (int op = 0; op < OP_COUNT; op++)
            for (int kind = ADVERSE_HUGE; kind <= ADVERSE_EXTREME; kind++) {
                slot_check((struct slot){true, VIC_I8, (enum kernel_op)op}, 2, large[i], (enum adverse)kind, PLACE_END);
                slot_check((struct slot){true, VIC_U8, (enum kernel_op)op}, 2, large[i], (enum adverse)kind, PLACE_START);
            }
}

/* A negative product too small for a denormal rounds to -0; where all 128 accumulators are -0, so is their sum. */
static void products_that_vanish_leave_no_minus_zero(void **state) {
    (void)state;
    static float row[1024], query[1024];
    for (int i = 0; i < 1024; i++) row[i] = -0x1p-100f, query[i] = 0x1p-100f;
    for (int t = 0; kernels_list[t]; t++) {
        scan_kernel *kernel = kernels_list[t]->scan[VIC_F32][OP_DOT];
        for (int64_t dim = 1; kernel && kernels_list[t]->available() && dim <= 1024; dim++) {
            float score = 1;
            kernel(row, 1, dim, query, &score);
            assert_int_equal(float_bits(score), 0);
        }
    }
}

static void no_rows_write_nothing(void **state) {
    (void)state;
    struct guarded nothing = guarded_take(0, PLACE_END);
    float query[4] = {1, 2, 3, 4};
    for (int t = 0; kernels_list[t]; t++)
        for (int dtype = VIC_F32; kernels_list[t]->available() && dtype < DTYPE_COUNT; dtype++) {
            scan_kernel *kernel = kernels_list[t]->scan[dtype][OP_DOT], *exact = kernels_list[t]->scan_exact[dtype][OP_DOT];
            if (kernel) kernel(nothing.data, 0, 4, query, nothing.data);
            if (exact) exact(nothing.data, 0, 4, query, nothing.data);
        }
    guarded_give(&nothing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scan_equals_the_reference),          cmocka_unit_test(every_exact_scan_equals_the_reference),
        cmocka_unit_test(every_dim_up_to_300_equals_the_reference), cmocka_unit_test(exact_scans_hold_the_largest_sums),
        cmocka_unit_test(products_that_vanish_leave_no_minus_zero), cmocka_unit_test(no_rows_write_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
