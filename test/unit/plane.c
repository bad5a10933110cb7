/* Planes: every kernel of every table equals the reference byte by byte, sums at the edge of 32 bits included; and the codes
 * of rows are the same bytes whatever the table and the number of threads. */
#include "quant/quantizer.h"
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

static const int64_t dims[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 384, 1000, 4097};
static const int64_t counts[] = {1, 2, 7, 8, 9, 15, 16, 17, 33};
#define COUNT(array) (int64_t)(sizeof(array) / sizeof *(array))

/* The tables with planes that this processor can run. */
static const struct plane_kernels *tables[8];
static int tables_find(void **state) {
    (void)state;
    int count = 0;
    for (int t = 0; kernels_list[t]; t++)
        if (kernels_list[t]->available() && kernels_list[t]->planes) tables[count++] = kernels_list[t]->planes;
    return 0;
}

/* n rows of codes in memory that ends where they end, through every table. */
static void scans_check(enum plane_kind kind, int64_t n, int64_t dim, struct random *random, bool extreme, bool with_norms) {
    int64_t stride = plane_stride(kind, dim), elements = plane_query_elements(dim);
    struct guarded codes = guarded_take((size_t)(n * stride), PLACE_END), numbers[3], upper;
    for (int i = 0; i < 3; i++) numbers[i] = guarded_take((size_t)n * sizeof(float), PLACE_END);
    upper = guarded_take((size_t)n * sizeof(float), PLACE_END);
    float *expected = take((size_t)n * sizeof(float)), *query = take((size_t)dim * sizeof(float));
    int8_t *query_codes = take((size_t)(2 * elements));
    memset(query_codes, 0, (size_t)(2 * elements));
    struct plane_query constants;
    for (int64_t i = 0; i < dim; i++) query[i] = extreme ? 1 : random_normal(random);
    assert_true(bound_query(VIC_L2, query, dim, 0, query_codes, query_codes + elements, &constants));
    for (int64_t i = 0; i < n * stride; i++)
        ((uint8_t *)codes.data)[i] = extreme ? (i / stride % 2 ? 255 : 0) : (uint8_t)random_next(random);
    for (int i = 0; i < 3; i++)
        for (int64_t row = 0; row < n; row++)
            ((float *)numbers[i].data)[row] = ldexpf(random_unit(random), (int)random_below(random, 40) - 20);
    const struct plane plane = {codes.data, stride, numbers[0].data, numbers[1].data};
    const float *norms = with_norms ? numbers[2].data : NULL;
    plane_kernels_scalar.scan[kind](&plane, norms, 0, n, dim, &constants, expected);
    for (int t = 0; tables[t]; t++) {
        memset(upper.data, 0xAA, (size_t)n * sizeof(float));
        tables[t]->scan[kind](&plane, norms, 0, n, dim, &constants, upper.data);
        if (memcmp(upper.data, expected, (size_t)n * sizeof(float)) != 0)
            fail_msg("table %d, plane %d, n %d, dim %d, extreme %d differs from the reference", t, kind, (int)n, (int)dim,
                     extreme);
        if (n < 2) continue; /* from a row in the middle, as the parts of a search begin */
        memset(upper.data, 0xAA, (size_t)n * sizeof(float));
        tables[t]->scan[kind](&plane, norms, 1, n - 1, dim, &constants, upper.data);
        assert_memory_equal(upper.data, expected + 1, (size_t)(n - 1) * sizeof(float));
    }
    free(expected), free(query), free(query_codes);
    guarded_give(&codes), guarded_give(&upper);
    for (int i = 0; i < 3; i++) guarded_give(&numbers[i]);
}

static void every_scan_equals_the_reference(void **state) {
    (void)state;
    struct random random = test_random(1);
    for (int kind = 0; kind < PLANE_COUNT; kind++)
        for (int64_t d = 0; d < COUNT(dims); d++)
            for (int64_t c = 0; c < COUNT(counts); c++)
                scans_check((enum plane_kind)kind, counts[c], dims[d], &random, false, (d + c) % 2 == 0);
    test_done();
}

/* Codes all 0 or all 255 against a query of the largest codes, at the largest dimension: sums of 2^31 less a little, and the
 * true ones known without a kernel. */
static void sums_at_the_edge_of_32_bits_are_exact(void **state) {
    (void)state;
    struct random random = test_random(2);
    for (int kind = 0; kind < PLANE_COUNT; kind++) scans_check((enum plane_kind)kind, 9, 65536, &random, true, true);
    enum { DIM = 65536 };
    float *query = take(DIM * sizeof *query), scale = 1, error = 0, upper = 0;
    int8_t *codes = take(2 * DIM);
    uint8_t *row = take(DIM);
    struct plane_query constants;
    for (int sign = -1; sign <= 1; sign += 2) {
        for (int i = 0; i < DIM; i++) query[i] = (float)sign;
        memset(row, 0, DIM); /* code -128 in every place */
        assert_true(bound_query(VIC_DOT, query, DIM, 0, codes, codes + DIM, &constants));
        struct plane plane = {row, DIM, &scale, &error};
        for (int t = 0; tables[t]; t++) {
            tables[t]->scan[PLANE_8](&plane, NULL, 0, 1, DIM, &constants, &upper);
            double exact = -128.0 * (double)DIM * sign;
            assert_true(fabs((double)upper - exact) <= fabs(exact) * 1e-4);
        }
    }
    free(query), free(codes), free(row);
    test_done();
}

/* ---- batches */

enum { PAIRS_MOST = GROUP_ROWS * 70 };
/* A table's answer in the order of pairs. */
struct pairs {
    int64_t count;
    struct pair {
        uint32_t pair, bits; /* of upper */
    } found[PAIRS_MOST];
};

static int pair_compare(const void *a, const void *b) {
    uint32_t left = ((const struct pair *)a)->pair, right = ((const struct pair *)b)->pair;
    return left < right ? -1 : left > right;
}

/* A block of queries and a group of rows in memory that ends where they end. */
struct block {
    struct plane_group group;
    struct plane plane;
    struct plane_query *queries;
    int8_t *query_codes;
    struct guarded codes, numbers[3], least;
};

static struct block block_make(enum plane_kind kind, int64_t n, int64_t nq, int64_t dim, bool with_norms,
                               struct random *random) {
    struct block block = {.queries = take((size_t)nq * sizeof(struct plane_query)), .query_codes = take((size_t)(nq * dim))};
    int64_t stride = plane_stride(kind, dim);
    float *query = take((size_t)dim * sizeof *query);
    for (int64_t j = 0; j < nq; j++) {
        for (int64_t i = 0; i < dim; i++) query[i] = random_normal(random);
        enum vic_metric metric = with_norms ? VIC_L2 : VIC_COSINE;
        assert_true(bound_query(metric, query, dim, 1, NULL, block.query_codes + j * dim, &block.queries[j]));
        if (random_below(random, 9) == 0) block.queries[j] = (struct plane_query){0}; /* one that no bound covers */
    }
    block.codes = guarded_take((size_t)(n * stride), PLACE_END);
    for (int64_t i = 0; i < n * stride; i++) ((uint8_t *)block.codes.data)[i] = (uint8_t)random_next(random);
    for (int i = 0; i < 3; i++) {
        block.numbers[i] = guarded_take((size_t)n * sizeof(float), PLACE_END);
        for (int64_t row = 0; row < n; row++) ((float *)block.numbers[i].data)[row] = random_unit(random);
    }
    if (n > 3) ((float *)block.numbers[1].data)[2] = NAN; /* only a damaged file has that: it counts as reaching */
    block.least = guarded_take((size_t)((nq + 15) / 16 * 64), PLACE_END);
    for (int64_t j = 0; j < (nq + 15) / 16 * 16; j++) {
        float most = 300 * sqrtf((float)dim);
        ((float *)block.least.data)[j] = random_below(random, 7) ? most * (random_unit(random) - 0.5f) : -INFINITY;
    }
    block.plane = (struct plane){block.codes.data, stride, block.numbers[0].data, block.numbers[1].data};
    block.group = (struct plane_group){.kind = kind,
                                       .norms = with_norms ? block.numbers[2].data : NULL,
                                       .n = n,
                                       .dim = dim,
                                       .nq = nq,
                                       .least = block.least.data};
    free(query);
    return block;
}

static void block_free(struct block *block) {
    free(block->queries), free(block->query_codes);
    guarded_give(&block->codes), guarded_give(&block->least);
    for (int i = 0; i < 3; i++) guarded_give(&block->numbers[i]);
}

/* From row `first` of the block on. */
static void pairs_take(const struct plane_tile *tile, const struct block *block, int64_t first, struct pairs *pairs) {
    struct plane_group group = block->group;
    struct guarded packed = guarded_take((size_t)((tile->queries_bytes(group.nq, group.dim) + 63) / 64 * 64), PLACE_END);
    struct guarded decoded = guarded_take((size_t)((tile->decoded_bytes(group.dim) + 64) / 64 * 64), PLACE_END);
    uint32_t *found = take(PAIRS_MOST * sizeof *found);
    float *uppers = take(PAIRS_MOST * sizeof *uppers);
    group.plane = &block->plane, group.queries = packed.data, group.decoded = decoded.data;
    group.first = first, group.n -= first;
    tile->pack(block->queries, group.nq, group.kind, group.dim, packed.data);
    pairs->count = tile->run(&group, found, uppers);
    for (int64_t i = 0; i < pairs->count; i++) pairs->found[i] = (struct pair){found[i], float_bits(uppers[i])};
    qsort(pairs->found, (size_t)pairs->count, sizeof *pairs->found, pair_compare);
    free(found), free(uppers);
    guarded_give(&packed), guarded_give(&decoded);
}

/* The reference against the bound's own words. */
static void reference_check(const struct block *block, const struct pairs *pairs) {
    int64_t at = 0;
    for (int64_t j = 0; j < block->group.nq; j++)
        for (int64_t i = 0; i < block->group.n; i++) {
            const struct plane_query *query = &block->queries[j];
            int64_t sum = 0;
            for (int64_t d = 0; query->low && d < block->group.dim; d++) {
                int32_t byte = block->plane.codes[i * block->plane.stride_bytes + plane_byte(block->group.kind, d)];
                int32_t code = block->group.kind == PLANE_8 ? byte : byte >> plane_shift(PLANE_4, d) & 15;
                sum += (code - plane_offset(block->group.kind)) * query->low[d];
            }
            float upper = bound_upper(query, (float)sum, block->plane.scale[i], block->plane.error[i],
                                      block->group.norms ? block->group.norms[i] : 0);
            if (upper < block->group.least[j]) continue;
            assert_true(at < pairs->count && pairs->found[at].pair == (uint32_t)(j * GROUP_ROWS + i));
            assert_true(pairs->found[at++].bits == float_bits(upper) || isnan(upper));
        }
    assert_int_equal(at, pairs->count);
}

static void every_tile_finds_the_pairs_that_reach(void **state) {
    (void)state;
    struct random random = test_random(5);
    static const int64_t batches[] = {1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 49, 64, 70};
    struct pairs *right = take(sizeof *right), *found = take(sizeof *found);
    bool some = false, not_all = false;
    for (int kind = 0; kind < PLANE_COUNT; kind++)
        for (int64_t n = 1; n <= GROUP_ROWS; n++) {
            int64_t nq = batches[random_below(&random, COUNT(batches))], dim = dims[n % COUNT(dims)];
            struct block block = block_make((enum plane_kind)kind, n, nq, dim, n % 2 == 0, &random);
            test_says("plane %d, n %d, nq %d, dim %d", kind, (int)n, (int)nq, (int)dim);
            for (int64_t first = 0; first < n && first < 2; first++) {
                pairs_take(&plane_tile_scalar, &block, first, right);
                if (first == 0) reference_check(&block, right);
                some = some || right->count > 0, not_all = not_all || right->count < n * nq;
                for (int t = 0; tables[t]; t++) {
                    pairs_take(tables[t]->tile, &block, first, found);
                    assert_int_equal(found->count, right->count);
                    for (int64_t i = 0; i < found->count; i++) {
                        assert_int_equal(found->found[i].pair, right->found[i].pair);
                        bool nan = isnan(float_from_bits(right->found[i].bits)); /* its sign is the processor's */
                        assert_true(nan ? isnan(float_from_bits(found->found[i].bits))
                                        : found->found[i].bits == right->found[i].bits);
                    }
                }
            }
            block_free(&block);
        }
    assert_true(some && not_all);
    free(right), free(found);
    test_done();
}

static void codes_check(enum plane_kind kind, int64_t dim, enum adverse values, uint64_t seed) {
    struct guarded row = guarded_take((size_t)dim * sizeof(float), PLACE_END);
    int64_t stride = plane_stride(kind, dim);
    struct guarded codes = guarded_take((size_t)stride, PLACE_END);
    uint8_t *expected = take((size_t)stride);
    float steps[] = {0.01f, 1.0f, 0x1p-130f, 0x1p100f, 0};
    adverse_fill(values, VIC_F32, seed, dim, row.data);
    for (int s = 0; s < 5; s++) {
        float inverse = steps[s] >= 0x1p-120f ? 1 / steps[s] : 0;
        double right = plane_kernels_scalar.code[kind](row.data, dim, (double)steps[s], inverse, expected);
        for (int t = 0; tables[t]; t++) {
            memset(codes.data, 0xAA, (size_t)stride);
            double found = tables[t]->code[kind](row.data, dim, (double)steps[s], inverse, codes.data);
            double alone = tables[t]->code[kind](row.data, dim, (double)steps[s], inverse, NULL);
            assert_memory_equal(codes.data, expected, (size_t)stride);
            assert_memory_equal(&found, &right, sizeof right);
            assert_memory_equal(&alone, &right, sizeof right);
        }
    }
    free(expected);
    guarded_give(&codes), guarded_give(&row);
}

static void every_coder_equals_the_reference(void **state) {
    (void)state;
    for (int kind = 0; kind < PLANE_COUNT; kind++)
        for (int64_t d = 0; d < COUNT(dims); d++)
            for (int values = 0; values < ADVERSE_COUNT; values++)
                codes_check((enum plane_kind)kind, dims[d], (enum adverse)values, (uint64_t)d);
}

/* ---- rows into planes through the backend */

struct planes_of_rows {
    uint8_t *codes;
    float *scale, *error, *norms;
};

static struct planes_of_rows rows_code(const char *table, int threads, const struct rows *rows, enum plane_kind kind,
                                       const uint32_t *places) {
    struct backend *backend = coded_backend(table, threads);
    size_t n = (size_t)rows->n;
    struct planes_of_rows planes = {take(n * (size_t)plane_stride(kind, rows->dim)), take(n * 4), take(n * 4),
                                    rows->metric == VIC_COSINE ? NULL : take(n * 4)};
    struct plane_coding coding = {rows,         kind,        quantizers[kind]->steps, places, planes.codes, planes.scale,
                                  planes.error, planes.norms};
    must(cpu_backend.code(backend, &coding));
    cpu_backend.close(backend);
    return planes;
}

static void planes_free(struct planes_of_rows *planes) {
    free(planes->codes), free(planes->scale), free(planes->error), free(planes->norms);
}

static void codes_are_the_same_for_every_table_and_thread_count(void **state) {
    (void)state;
    enum { N = 700, DIM = 100 };
    static const int threads[] = {1, 2, 16};
    struct random random = test_random(3);
    for (int dtype = VIC_F32; dtype <= VIC_BF16; dtype++)
        for (int metric = VIC_DOT; metric <= VIC_COSINE; metric++)
            for (int kind = 0; kind < PLANE_COUNT; kind++) {
                void *data = take(N * DIM * 4);
                float *norms = take(N * sizeof *norms);
                random_fill(&random, VALUES_UNIT, (enum vic_dtype)dtype, N * DIM, data);
                random_fill(&random, VALUES_WILD, (enum vic_dtype)dtype, N * DIM / 10, data);
                struct rows rows = {data, N, DIM, (enum vic_dtype)dtype, (enum vic_metric)metric, NULL, NULL, {{0}}, NULL};
                struct backend *backend = coded_backend(NULL, 1);
                struct vic_matrix source = {data, N, DIM, DIM * (int64_t)vic_dtype_bytes(rows.dtype), rows.dtype, VIC_HOST};
                struct ingest ingest = {.source = &source, .what = "row", .dtype = rows.dtype, .norms = norms};
                must(cpu_backend.ingest(backend, &ingest));
                cpu_backend.close(backend);
                if (metric == VIC_COSINE) rows.norms = norms;
                struct planes_of_rows right = rows_code("scalar", 1, &rows, (enum plane_kind)kind, NULL);
                for (int table = 0; kernels_here()[table]; table++)
                    for (int64_t t = 0; t < COUNT(threads); t++) {
                        struct planes_of_rows found =
                            rows_code(kernels_here()[table], threads[t], &rows, (enum plane_kind)kind, NULL);
                        assert_memory_equal(found.codes, right.codes, (size_t)(N * plane_stride((enum plane_kind)kind, DIM)));
                        assert_memory_equal(found.scale, right.scale, N * 4);
                        assert_memory_equal(found.error, right.error, N * 4);
                        if (right.norms) assert_memory_equal(found.norms, right.norms, N * 4);
                        planes_free(&found);
                    }
                planes_free(&right);
                free(data), free(norms);
            }
    test_done();
}

/* What a row gets must not depend on where it goes. */
static void places_move_rows_and_change_nothing(void **state) {
    (void)state;
    enum { N = 300, DIM = 40 };
    struct random random = test_random(4);
    float *data = take(N * DIM * 4);
    uint32_t places[N];
    random_fill(&random, VALUES_UNIT, VIC_F32, N * DIM, data);
    for (uint32_t i = 0; i < N; i++) places[i] = (i * 7 + 5) % N;
    struct rows rows = {data, N, DIM, VIC_F32, VIC_DOT, NULL, NULL, {{0}}, NULL};
    for (int kind = 0; kind < PLANE_COUNT; kind++) {
        size_t stride = (size_t)plane_stride((enum plane_kind)kind, DIM);
        struct planes_of_rows here = rows_code(NULL, 2, &rows, (enum plane_kind)kind, NULL);
        struct planes_of_rows there = rows_code(NULL, 2, &rows, (enum plane_kind)kind, places);
        for (size_t i = 0; i < N; i++) {
            assert_memory_equal(there.codes + places[i] * stride, here.codes + i * stride, stride);
            assert_memory_equal(&there.scale[places[i]], &here.scale[i], 4);
            assert_memory_equal(&there.error[places[i]], &here.error[i], 4);
            assert_memory_equal(&there.norms[places[i]], &here.norms[i], 4);
        }
        planes_free(&here), planes_free(&there);
    }
    free(data);
    test_done();
}

/* A zero row is exact; a row too large or too small for the bound is marked, so that it is always looked at. */
static void rows_that_no_plane_can_bound_are_marked(void **state) {
    (void)state;
    float data[5][4] = {{0, 0, 0, 0}, {0x1p61f, 0, 0, 0}, {0x1p-120f, 0, 0, 0}, {1, 2, 3, 4}, {0x1.fffffep127f, 1, 1, 1}};
    struct rows rows = {data, 5, 4, VIC_F32, VIC_DOT, NULL, NULL, {{0}}, NULL};
    for (int kind = 0; kind < PLANE_COUNT; kind++) {
        struct planes_of_rows planes = rows_code(NULL, 1, &rows, (enum plane_kind)kind, NULL);
        assert_true(planes.error[0] == 0 && planes.norms[0] == 0);
        assert_true(planes.error[1] == INFINITY && planes.scale[1] == 0 && planes.norms[1] == 0);
        assert_true(planes.error[2] == INFINITY && planes.scale[2] == 0);
        assert_true(planes.error[3] > 0 && planes.error[3] < 0.5f && planes.norms[3] >= sqrtf(30));
        assert_true(planes.error[4] == INFINITY);
        planes_free(&planes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_scan_equals_the_reference, test_tell),
        cmocka_unit_test_teardown(sums_at_the_edge_of_32_bits_are_exact, test_tell),
        cmocka_unit_test(every_coder_equals_the_reference),
        cmocka_unit_test_teardown(every_tile_finds_the_pairs_that_reach, test_tell),
        cmocka_unit_test_teardown(codes_are_the_same_for_every_table_and_thread_count, test_tell),
        cmocka_unit_test_teardown(places_move_rows_and_change_nothing, test_tell),
        cmocka_unit_test(rows_that_no_plane_can_bound_are_marked),
    };
    return cmocka_run_group_tests(tests, tables_find, NULL);
}
