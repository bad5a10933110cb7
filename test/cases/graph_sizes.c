/* Graphs beyond 2^31 and 2^32 bytes. Offsets are tested on address space that is reserved and never filled: a graph of as many
 * rows and slots as there can be, of which a walk touches some pages. Plans are held against wider arithmetic.
 *
 * GRB-18, the same with 17,000,000 real rows, takes 12 GB and half an hour of a core: it runs when VICINAL_TEST_LARGE is set.
 */
#define _GNU_SOURCE /* MAP_NORESERVE */

#include "support/graphs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* Zeroes that take no memory until they are written; NULL where the system does not give so much. */
static void *reserve(uint64_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* A chain of rows through a graph of n rows whose other slots are never read; each row lies nearer to the query. */
enum { CHAIN = 40, STRIDE = 64 };

struct vast {
    uint64_t slot_bytes, code_bytes, term_bytes;
    uint32_t *slots;
    uint8_t *codes;
    struct point_term *terms;
    uint32_t chain[CHAIN], entry;
    struct rows rows;
    struct graph graph;
};

static bool vast_make(struct vast *vast, int64_t n, int64_t degree) {
    vast->slot_bytes = (uint64_t)n * (uint64_t)degree * 4;
    vast->code_bytes = (uint64_t)n * STRIDE, vast->term_bytes = (uint64_t)n * sizeof *vast->terms;
    vast->slots = reserve(vast->slot_bytes), vast->codes = reserve(vast->code_bytes), vast->terms = reserve(vast->term_bytes);
    if (!vast->slots || !vast->codes || !vast->terms) return false;
    for (int64_t i = 0; i < CHAIN; i++) vast->chain[i] = (uint32_t)(i % 2 ? n - 1 - i : i * (n / CHAIN));
    for (int64_t i = 0; i < CHAIN; i++) {
        int64_t row = vast->chain[i];
        uint32_t *slots = vast->slots + row * degree;
        memset(vast->codes + row * STRIDE, 128, STRIDE);
        vast->codes[row * STRIDE] = (uint8_t)(130 + 2 * i);
        vast->terms[row] = (struct point_term){1, (float)((2 + 2 * i) * (2 + 2 * i))};
        for (int64_t slot = 0; slot < degree; slot++) slots[slot] = slot_unused;
        if (i + 1 < CHAIN) slots[degree - 1] = vast->chain[i + 1]; /* the last slot; those before it lead back */
        for (int64_t slot = 0; i + 1 < CHAIN && slot < degree - 1; slot++) slots[slot] = vast->chain[i > 0 ? i - 1 : 0];
    }
    vast->entry = vast->chain[0];
    vast->rows = (struct rows){.n = n, .dim = 1, .dtype = VIC_F32, .metric = VIC_L2};
    vast->graph = (struct graph){.neighbours = vast->slots,
                                 .n = n,
                                 .degree = degree,
                                 .entries = &vast->entry,
                                 .entry_count = 1,
                                 .points = {.kind = &points_8,
                                            .n = n,
                                            .ahead = (const char *)vast->terms,
                                            .ahead_bytes = sizeof *vast->terms,
                                            .rows = &vast->rows,
                                            .codes = vast->codes,
                                            .stride_bytes = STRIDE,
                                            .terms = vast->terms,
                                            .sums = test_device->host_ops->sums(test_device->host_backend, PLANE_8)}};
    return true;
}

static void vast_free(struct vast *vast) {
    if (vast->slots) (void)munmap(vast->slots, vast->slot_bytes);
    if (vast->codes) (void)munmap(vast->codes, vast->code_bytes);
    if (vast->terms) (void)munmap(vast->terms, vast->term_bytes);
}

static void GRB_18_a_walk_follows_row_numbers_beyond_4_gigabytes_of_slots(void **state) {
    (void)state;
    const int64_t counts[] = {17000000, (INT64_C(1) << 24) + 1, (INT64_C(1) << 30) + 7, graph_rows_most};
    static const int64_t degrees[] = {64, 512, 1, 33};
    int walked = 0;
    for (int c = 0; c < 4; c++)
        for (int d = 0; d < 4; d++) {
            struct vast vast = {0};
            if (vast_make(&vast, counts[c], degrees[d])) {
                int8_t codes[STRIDE];
                float query[1] = {(float)(2 * CHAIN)};
                uint64_t keys[8];
                const struct vic_matrix matrix = matrix_of(query, 1, 1, VIC_F32);
                struct aim aim;
                points_8.aim(&vast.graph.points, &matrix, codes, &aim);
                struct walk walk = {.keys = keys, .beam = 8, .parents = 1};
                graph_walk(&vast.graph, 1, &aim, &walk);
                assert_int_equal(walk.count, 8);
                assert_int_equal(walk.hops, CHAIN);
                for (int64_t i = 0; i < 8; i++) assert_int_equal(walk_key_row(keys[i]), vast.chain[CHAIN - 1 - i]);
                walked++;
            }
            vast_free(&vast);
        }
    if (walked == 0) skip();
}

static double product(double n, double each) { return n * each; }

static void SIZ_05_the_plan_of_the_largest_graph_does_not_wrap(void **state) {
    (void)state;
    static const int32_t degrees[] = {1, 64, 512};
    const int64_t n = graph_rows_most;
    for (int d = 0; d < 3; d++)
        for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++) {
            const struct vic_graph_options graph = {.size = sizeof graph, .degree = degrees[d]};
            const struct vic_build_options options = {
                .size = sizeof options, .dtype = dtype, .metric = VIC_L2, .graph = &graph};
            struct vic_plan plan = {.size = sizeof plan};
            must(vic_index_plan(test_device, n, 65536, &options, &plan));
            double rows = product((double)n, 65536.0 * (double)vic_dtype_bytes(dtype));
            double codes = dtype <= VIC_BF16 ? 65536 : 0; /* integer rows are their own */
            double extra = product((double)n, codes + degrees[d] * 4.0);
            assert_true((double)plan.row_bytes == rows);
            assert_true((double)plan.extra_bytes > extra && (double)plan.extra_bytes < 1.01 * extra + 65536);
            assert_true((double)plan.host_bytes > rows + extra && (double)plan.host_bytes < 1.1 * (rows + extra));
        }
    const struct vic_graph_options graph = {.size = sizeof graph, .degree = 512};
    const struct vic_build_options options = {.size = sizeof options, .graph = &graph};
    struct vic_plan plan = {.size = sizeof plan};
    /* A batch's edges are counted in 32 bits and take 16 bytes each. */
    must(vic_index_plan(test_device, n, 8, &options, &plan));
    assert_true((double)plan.workspace_bytes < product((double)n, 1.4 * 512 * 4) + 16 * 4294967296.0);
    assert_int_equal(vic_index_plan(test_device, n + 1, 8, &options, &plan), VIC_UNSUPPORTED);
    assert_non_null(strstr(vic_last_error(), "2147483648"));
    assert_non_null(strstr(vic_last_error(), "2147483649"));
}

/* A graph of n rows of 8 random bytes, whose last rows look for themselves. */
static void last_rows_find_themselves(int64_t n, int32_t degree, int32_t beam, int level) {
    enum { DIM = 8, ASKED = 1000 };
    const char *wanted = getenv("VICINAL_TEST_LARGE");
    if (!wanted || atoi(wanted) < level) {
        print_message("not run: that needs VICINAL_TEST_LARGE=%d\n", level);
        skip();
    }
    uint8_t *rows = take((size_t)(n * DIM));
    struct random random = {18};
    for (int64_t i = 0; i < n; i++) {
        uint64_t word = random_next(&random);
        memcpy(rows + i * DIM, &word, DIM);
    }
    struct data data = {rows, n, DIM, VIC_U8, VIC_L2, NULL};
    struct vic_index *index = graph_of(test_device, &data, degree, beam); /* and a check that every row is reached */
    int64_t *ids = take(ASKED * sizeof *ids), found = 0;
    float *scores = take(ASKED * sizeof *scores);
    graph_ask(index, &data, rows + (n - ASKED) * DIM, ASKED, 1, 100, 1, ids, scores);
    for (int64_t j = 0; j < ASKED; j++) found += scores[j] == 0;
    assert_in_range(found, 990, ASKED);
    vic_index_free(index);
    free(scores), free(ids), free(rows);
}

static void GRB_18_seventeen_million_rows_find_themselves(void **state) {
    (void)state;
    last_rows_find_themselves(17000000, 64, 100, 2);
}

/* As many bytes of slots by other means, in a tenth of the time. */
static void GRB_18_two_million_rows_of_512_slots_find_themselves(void **state) {
    (void)state;
    last_rows_find_themselves(2200000, 512, 24, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(GRB_18_a_walk_follows_row_numbers_beyond_4_gigabytes_of_slots),
        cmocka_unit_test(SIZ_05_the_plan_of_the_largest_graph_does_not_wrap),
        cmocka_unit_test(GRB_18_two_million_rows_of_512_slots_find_themselves),
        cmocka_unit_test(GRB_18_seventeen_million_rows_find_themselves),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
