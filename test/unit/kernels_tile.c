/* Every tile kernel of every table against the reference scan, byte by byte: packed sizes are kept to the byte, padding
 * rows and queries count as zeros, and nothing is written between row_tile and ld. */
#include "backend/cpu/kernels.h"
#include "support/guarded.h"

#include <stdlib.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const int64_t dims[] = {1,   2,   3,   7,   8,   15,  16,  17,  31,  32,  33,   63,   64,  65,
                               100, 127, 128, 129, 255, 256, 257, 384, 385, 511, 1000, 1007, 4097};
enum { DIMS = sizeof dims / sizeof *dims };

struct slot {
    bool exact;
    enum vic_dtype dtype;
    enum kernel_op op;
};
static const struct tile_kernel *slot_kernel(const struct kernels *table, struct slot slot) {
    return slot.exact ? table->tile_exact[slot.dtype][slot.op] : table->tile[slot.dtype][slot.op];
}

/* What one tile is made of: n rows and nq queries, filled up with zeros to `rows_padded` and `queries_padded`, and the
 * reference's score of every pair. */
struct sample {
    struct slot slot;
    int64_t n, nq, dim, rows_padded, queries_padded;
    struct guarded rows, queries; /* n and nq */
    float *expected;              /* [queries_padded][rows_padded] */
};

static struct sample sample_take(struct slot slot, int64_t n, int64_t nq, int64_t dim, const struct tile_kernel *tile,
                                 enum adverse kind, enum place place) {
    struct sample s = {slot, n, nq, dim, tile->row_tile, 0, {0}, {0}, NULL};
    s.queries_padded = (nq + tile->query_tile - 1) / tile->query_tile * tile->query_tile;
    int64_t element = (int64_t)vic_dtype_bytes(slot.dtype), query_element = slot.exact ? 1 : 4;
    s.rows = guarded_take((size_t)(n * dim * element), place);
    s.queries = guarded_take((size_t)(nq * dim * query_element), place);
    adverse_fill(kind, slot.dtype, (uint64_t)(n * dim), n * dim, s.rows.data);
    adverse_fill(kind, slot.exact ? slot.dtype : VIC_F32, 7, nq * dim, s.queries.data);
    char *padded = calloc((size_t)(s.rows_padded * dim), (size_t)element);
    char *padded_queries = calloc((size_t)(s.queries_padded * dim), (size_t)query_element);
    memcpy(padded, s.rows.data, (size_t)(n * dim * element));
    memcpy(padded_queries, s.queries.data, (size_t)(nq * dim * query_element));
    s.expected = malloc((size_t)(s.queries_padded * s.rows_padded) * sizeof(float));
    scan_kernel *scan = slot.exact ? kernels_scalar.scan_exact[slot.dtype][slot.op] : kernels_scalar.scan[slot.dtype][slot.op];
    for (int64_t q = 0; q < s.queries_padded; q++)
        scan(padded, s.rows_padded, dim, padded_queries + q * dim * query_element, s.expected + q * s.rows_padded);
    free(padded), free(padded_queries);
    return s;
}
static void sample_give(struct sample *s) {
    free(s->expected);
    guarded_give(&s->queries), guarded_give(&s->rows);
}

static void tile_check(const char *name, const struct tile_kernel *tile, const struct sample *s) {
    int64_t ld = (tile->row_tile + 15) / 16 * 16 + 16, query_bytes = s->dim * (s->slot.exact ? 1 : 4);
    int64_t group_bytes = tile->query_group_bytes(s->dim), groups = s->queries_padded / tile->query_tile;
    struct guarded packed = guarded_take((size_t)tile->row_tile_bytes(s->dim), PLACE_END);
    struct guarded packed_queries = guarded_take((size_t)(groups * group_bytes), PLACE_END);
    struct guarded scores = guarded_take((size_t)(s->queries_padded * ld) * sizeof(float), PLACE_END);
    assert_int_equal(tile->row_tile_bytes(s->dim) % 64, 0);
    assert_int_equal(group_bytes % 64, 0);
    tile->pack_rows(s->rows.data, s->n, s->dim, packed.data);
    for (int64_t g = 0; g < groups; g++) {
        int64_t first = g * tile->query_tile, count = s->nq - first < tile->query_tile ? s->nq - first : tile->query_tile;
        tile->pack_queries((char *)s->queries.data + first * query_bytes, count, s->dim,
                           (char *)packed_queries.data + g * group_bytes);
    }
    tile->run(packed.data, packed_queries.data, s->nq, s->dim, scores.data, ld);
    float untouched;
    memset(&untouched, 0xAA, sizeof untouched);
    for (int64_t q = 0; q < s->queries_padded; q++) {
        const float *line = (const float *)scores.data + q * ld;
        if (memcmp(line, s->expected + q * tile->row_tile, (size_t)tile->row_tile * sizeof(float)) != 0)
            fail_msg("table %s, type %s, op %d, exact %d, n %d, nq %d, dim %d: query %d differs from the reference", name,
                     vic_dtype_name(s->slot.dtype), s->slot.op, s->slot.exact, (int)s->n, (int)s->nq, (int)s->dim, (int)q);
        for (int64_t r = tile->row_tile; r < ld; r++) assert_memory_equal(line + r, &untouched, sizeof untouched);
    }
    guarded_give(&scores), guarded_give(&packed_queries), guarded_give(&packed);
}

/* n rows (at most a tile) and nq queries through every table that has the slot. */
static void slot_check(struct slot slot, int64_t n, int64_t nq, int64_t dim, enum adverse kind, enum place place) {
    for (int t = 0; kernels_list[t]; t++) {
        const struct tile_kernel *tile = slot_kernel(kernels_list[t], slot);
        if (!tile || !kernels_list[t]->available()) continue;
        struct sample s = sample_take(slot, n < tile->row_tile ? n : tile->row_tile, nq, dim, tile, kind, place);
        tile_check(kernels_list[t]->name, tile, &s);
        sample_give(&s);
    }
}

static void type_check(bool exact, enum vic_dtype dtype) {
    static const int64_t rows[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64}, queries[] = {1, 2, 3, 5, 6, 7, 8, 9, 13, 17};
    for (int op = 0; op < OP_COUNT; op++)
        for (int d = 0; d < DIMS; d++)
            for (int kind = 0; kind < ADVERSE_COUNT; kind++) {
                /* all sizes are met at each kind and at each group of dimensions, not at every one of both */
                int64_t n = rows[(d * 5 + kind * 7 + op) % 12], nq = queries[(d * 3 + kind + op) % 10];
                if (dims[d] > 1000) nq = 1 + kind % 2;
                enum place place = (enum place)((d + kind) % PLACE_COUNT);
                slot_check((struct slot){exact, dtype, (enum kernel_op)op}, n, nq, dims[d], (enum adverse)kind, place);
            }
}

static void every_tile_equals_the_reference(void **state) {
    (void)state;
    for (int dtype = VIC_F32; dtype < DTYPE_COUNT; dtype++) type_check(false, (enum vic_dtype)dtype);
}

static void every_exact_tile_equals_the_reference(void **state) {
    (void)state;
    type_check(true, VIC_I8);
    type_check(true, VIC_U8);
}

static void every_count_of_rows_and_queries_equals_the_reference(void **state) {
    (void)state;
    for (int64_t n = 1; n <= 64; n++)
        for (int64_t nq = 1; nq <= 17; nq += n % 4 + 1)
            for (int op = 0; op < OP_COUNT; op++) {
                slot_check((struct slot){false, VIC_F32, (enum kernel_op)op}, n, nq, 19, ADVERSE_BITS, PLACE_END);
                slot_check((struct slot){true, VIC_I8, (enum kernel_op)op}, n, nq, 67, ADVERSE_BITS, PLACE_END);
                slot_check((struct slot){true, VIC_U8, (enum kernel_op)op}, n, nq, 19, ADVERSE_BITS, PLACE_START);
            }
}

static void every_dim_up_to_300_equals_the_reference(void **state) {
    (void)state;
    for (int64_t dim = 1; dim <= 300; dim++)
        for (int op = 0; op < OP_COUNT; op++) {
            enum vic_dtype dtype = (enum vic_dtype)(VIC_F32 + dim % 5);
            slot_check((struct slot){false, dtype, (enum kernel_op)op}, 3, 1, dim, ADVERSE_BITS, PLACE_END);
            slot_check((struct slot){true, dim % 2 ? VIC_I8 : VIC_U8, (enum kernel_op)op}, 3, 1, dim, ADVERSE_BITS, PLACE_END);
        }
}

static void tiles_hold_the_largest_dimension_and_sums(void **state) {
    (void)state;
    static const int64_t large[] = {4096, 33100, 65535, 65536};
    for (int op = 0; op < OP_COUNT; op++)
        for (size_t i = 0; i < sizeof large / sizeof *large; i++)
            for (int kind = ADVERSE_HUGE; kind <= ADVERSE_EXTREME; kind++) {
                slot_check((struct slot){true, VIC_I8, (enum kernel_op)op}, 3, 1, large[i], (enum adverse)kind, PLACE_END);
                slot_check((struct slot){true, VIC_U8, (enum kernel_op)op}, 3, 1, large[i], (enum adverse)kind, PLACE_END);
            }
    slot_check((struct slot){false, VIC_F32, OP_DOT}, 2, 1, 65536, ADVERSE_BITS, PLACE_END);
    slot_check((struct slot){false, VIC_U8, OP_L2}, 2, 1, 65535, ADVERSE_EXTREME, PLACE_END);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_equals_the_reference),
        cmocka_unit_test(every_exact_tile_equals_the_reference),
        cmocka_unit_test(every_count_of_rows_and_queries_equals_the_reference),
        cmocka_unit_test(every_dim_up_to_300_equals_the_reference),
        cmocka_unit_test(tiles_hold_the_largest_dimension_and_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
