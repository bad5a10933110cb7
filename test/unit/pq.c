/* Product quantisation piece by piece: chunks, parts and their refusals, tables and distances against plain loops, rotations,
 * decoding, padding centres, and codes that name no centre. */
#include "quant/pq.h"
#include "support/product.h"
#include "support/counting.h"
#include "support/scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void the_first_chunks_are_one_larger(void **state) {
    (void)state;
    static const struct {
        int64_t dim, chunks;
        uint32_t offsets[8];
    } rows[] = {{10, 4, {0, 3, 6, 8, 10}},
                {8, 4, {0, 2, 4, 6, 8}},
                {7, 7, {0, 1, 2, 3, 4, 5, 6, 7}},
                {7, 1, {0, 7}},
                {5, 3, {0, 2, 4, 5}}};
    for (int i = 0; i < 5; i++) {
        uint32_t offsets[8] = {0};
        pq_offsets(rows[i].chunks, rows[i].dim, offsets);
        assert_memory_equal(offsets, rows[i].offsets, (size_t)(rows[i].chunks + 1) * sizeof(uint32_t));
    }
}

/* Parts of a sound quantiser that a test may spoil. */
struct small {
    uint32_t offsets[4];
    float pivots[5 * 7], centroid[7], rotation[49];
    struct pq_parts parts;
};

static void small_make(struct small *small) {
    struct random random = {3};
    pq_offsets(3, 7, small->offsets);
    random_fill(&random, VALUES_UNIT, VIC_F32, 35, small->pivots);
    random_fill(&random, VALUES_UNIT, VIC_F32, 7, small->centroid);
    memset(small->rotation, 0, sizeof small->rotation);
    for (int i = 0; i < 7; i++) small->rotation[i * 7 + (i + 2) % 7] = i % 2 ? 1.0f : -1.0f;
    small->parts = (struct pq_parts){7, 3, 5, small->offsets, small->pivots, small->centroid, small->rotation, 0};
}

static void expect_refusal(const struct small *small, const char *says) {
    struct pq pq;
    assert_int_equal(pq_open(test_device, &small->parts, "here", &pq), VIC_FORMAT);
    if (!strstr(vic_last_error(), says)) fail_msg("expected \"%s\", found \"%s\"", says, vic_last_error());
}

static void parts_that_cannot_be_are_refused_by_name(void **state) {
    (void)state;
    struct small small;
    small_make(&small), small.parts.chunks = 0;
    expect_refusal(&small, "here: expected from 1 to 7 chunks for rows of 7 dimensions, found 0 chunks");
    small_make(&small), small.parts.chunks = 8;
    expect_refusal(&small, "found 8 chunks");
    small_make(&small), small.parts.centres = 0;
    expect_refusal(&small, "from 1 to 256 centres a chunk, found 0");
    small_make(&small), small.parts.centres = 257;
    expect_refusal(&small, "found 257");
    small_make(&small), small.offsets[0] = 1;
    expect_refusal(&small, "found 1 for the beginning of chunk 0");
    small_make(&small), small.offsets[2] = 3;
    expect_refusal(&small, "found 3 for the beginning of chunk 2");
    small_make(&small), small.offsets[3] = 8;
    expect_refusal(&small, "found 8 for the beginning of chunk 3");
    small_make(&small), small.offsets[3] = 6;
    expect_refusal(&small, "found 6 for the beginning of chunk 3");
    small_make(&small), small.pivots[3 * 7 + 4] = NAN;
    expect_refusal(&small, "centre 3 is not finite in dimension 4");
    small_make(&small), small.centroid[6] = INFINITY;
    expect_refusal(&small, "the centroid is not finite in dimension 6");
    small_make(&small), small.rotation[5 * 7 + 1] = -INFINITY;
    expect_refusal(&small, "the rotation is not finite in row 5, column 1");
}

/* ---- tables */

static float plain_entry(const struct pq_parts *parts, enum vic_metric metric, const float *vector, int64_t chunk,
                         int64_t centre) {
    volatile float sum = 0;
    for (int64_t i = parts->offsets[chunk]; i < parts->offsets[chunk + 1]; i++) {
        volatile float pivot = parts->pivots[centre * parts->dim + i], term = vector[i] - pivot;
        volatile float product = metric == VIC_L2 ? term * term : vector[i] * pivot;
        sum = sum + product;
    }
    return sum;
}

static void tables_and_distances_are_those_of_plain_loops(void **state) {
    (void)state;
    struct small small;
    small_make(&small);
    enum { ROWS = 31 };
    uint8_t codes[ROWS * 3];
    uint32_t rows[ROWS];
    struct random random = {4};
    float query[7], distances[ROWS];
    random_fill(&random, VALUES_UNIT, VIC_F32, 7, query);
    for (int i = 0; i < ROWS * 3; i++) codes[i] = (uint8_t)random_below(&random, 5);
    for (int i = 0; i < ROWS; i++) rows[i] = (uint32_t)(ROWS - 1 - i);
    for (int turned = 0; turned < 2; turned++) {
        small.parts.rotation = turned ? small.rotation : NULL;
        struct pq pq;
        must(pq_open(test_device, &small.parts, "here", &pq));
        float *room = take((size_t)pq_table_room(&pq) * sizeof *room);
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
            struct pq_table table;
            float vector[7], rotated[7];
            volatile float base = 0;
            float factor = -1, largest = 0; /* for inner products the query's largest element is brought to [1, 2) */
            for (int i = 0; i < 7; i++) largest = fmaxf(largest, fabsf(query[i]));
            while (largest < 1) largest *= 2, factor *= 2;
            for (int i = 0; i < 7; i++) {
                vector[i] = metric == VIC_L2 ? query[i] - small.centroid[i] : query[i] * factor;
                volatile float product = vector[i] * small.centroid[i];
                if (metric != VIC_L2) base = base + product;
            }
            for (int i = 0; i < 7; i++) rotated[(i + 2) % 7] = i % 2 ? vector[i] : -vector[i];
            pq_table_fill(&pq, metric, VIC_F32, query, room, &table);
            assert_true(table.base == base);
            for (int j = 0; j < 3; j++)
                for (int c = 0; c < PQ_CENTRES; c++) {
                    float expected = c < 5 ? plain_entry(&small.parts, metric, turned ? rotated : vector, j, c) : INFINITY;
                    assert_true(table.values[j * PQ_CENTRES + c] == expected);
                }
            for (int64_t n = 1; n <= ROWS; n++) {
                memset(distances, 0xAA, sizeof distances);
                pq_distances(&table, codes, 3, rows, n, distances);
                for (int64_t i = 0; i < n; i++) {
                    volatile float sum = base;
                    for (int j = 0; j < 3; j++) sum = sum + table.values[j * PQ_CENTRES + codes[rows[i] * 3 + (uint32_t)j]];
                    assert_true(distances[i] == sum);
                }
            }
        }
        free(room);
        pq_free(&pq);
    }
}

static void codes_without_a_centre_are_infinitely_far(void **state) {
    (void)state;
    struct small small;
    struct pq pq;
    struct pq_table table;
    uint8_t codes[6] = {0, 255, 1, 4, 4, 5};
    uint32_t rows[2] = {0, 1};
    float query[7] = {1, 2, 3, 4, 5, 6, 7}, distances[2], row[7];
    small_make(&small);
    must(pq_open(test_device, &small.parts, "here", &pq));
    float *room = take((size_t)pq_table_room(&pq) * sizeof *room);
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        pq_table_fill(&pq, metric, VIC_F32, query, room, &table);
        pq_distances(&table, codes, 3, rows, 2, distances);
        assert_true(distances[0] == INFINITY && distances[1] == INFINITY);
    }
    pq_decode(&pq, codes, row);
    for (int i = 0; i < 7; i++) assert_true(isfinite(row[i]));
    free(room);
    pq_free(&pq);
}

static void a_distance_that_is_no_number_is_infinite(void **state) {
    (void)state;
    struct small small;
    struct pq pq;
    struct pq_table table;
    uint8_t code[3] = {0, 0, 0};
    uint32_t row = 0;
    float query[7] = {1, 1, 1, 1, 1, 1, 1}, distance = 0;
    small_make(&small);
    small.parts.rotation = NULL;
    for (int i = 0; i < 7; i++) small.pivots[i] = i < 3 ? 3e38f : -3e38f; /* chunks of -inf and of inf */
    must(pq_open(test_device, &small.parts, "here", &pq));
    float *room = take((size_t)pq_table_room(&pq) * sizeof *room);
    pq_table_fill(&pq, VIC_DOT, VIC_F32, query, room, &table);
    assert_true(isinf(table.values[0]) && isinf(table.values[PQ_CENTRES]) && table.values[0] != table.values[PQ_CENTRES]);
    pq_distances(&table, code, 3, &row, 1, &distance);
    assert_true(distance == INFINITY);
    free(room);
    pq_free(&pq);
}

/* ---- rows */

/* A rotation moves nothing but the axes: distances, errors and decoded rows stay what they were. */
static void a_rotation_is_applied_and_undone(void **state) {
    (void)state;
    enum { N = 300, DIM = 6 };
    static const float turn[DIM][DIM] = {{0, 0, 0.6f, 0.8f, 0, 0}, {0, 0, -0.8f, 0.6f, 0, 0}, {0, 0, 0, 0, 1, 0},
                                         {1, 0, 0, 0, 0, 0},       {0, 0, 0, 0, 0, 1},        {0, 1, 0, 0, 0, 0}};
    struct product product;
    product_make(&product, test_device, N, DIM, VIC_F32, VIC_L2, VALUES_UNIT, 9);
    const struct pq_training training = {.chunks = 3, .centres = 64, .rotation = turn[0]};
    struct pq_error error;
    product_train(&product, &training, &error);
    double sum = 0;
    for (int64_t i = 0; i < N; i++) {
        float row[DIM];
        pq_decode(&product.pq, product.codes + i * 3, row);
        for (int d = 0; d < DIM; d++) {
            double apart = (double)row[d] - (double)((const float *)product.data.rows)[i * DIM + d];
            sum += apart * apart;
        }
    }
    assert_true(fabs(sum / (double)N - error.mean) < 1e-6 && error.mean > 1e-4 && error.mean < 0.2);
    product_free(&product);
}

static void the_error_is_that_of_the_decoded_rows(void **state) {
    (void)state;
    enum { N = 1000, DIM = 12 };
    struct product product;
    product_make(&product, test_device, N, DIM, VIC_F32, VIC_COSINE, VALUES_UNIT, 10);
    const struct pq_training training = {.chunks = 4, .centres = 32};
    struct pq_error error;
    product_train(&product, &training, &error);
    double sum = 0, largest = 0;
    for (int64_t i = 0; i < N; i++) {
        float row[DIM], unit[DIM];
        double one = 0;
        pq_decode(&product.pq, product.codes + i * 4, row);
        pq_row_load(&product.index->corpus.rows, 0, i, unit);
        for (int d = 0; d < DIM; d++) one += ((double)row[d] - (double)unit[d]) * ((double)row[d] - (double)unit[d]);
        sum += one;
        if (one > largest) largest = one;
    }
    assert_true(fabs(sum / (double)N - error.mean) < 1e-6 && fabs(largest - error.largest) < 1e-6);
    product_free(&product);
}

static void cosine_codes_do_not_depend_on_lengths(void **state) {
    (void)state;
    enum { N = 200, DIM = 8 };
    struct product product;
    product_make(&product, test_device, N, DIM, VIC_F32, VIC_COSINE, VALUES_UNIT, 11);
    float unit[DIM], other[DIM];
    for (int scale = -120; scale <= 120; scale += 60) { /* the widest are scaled before their norms are taken */
        float *rows = take(N * DIM * sizeof *rows);
        for (int64_t i = 0; i < N * DIM; i++) rows[i] = ldexpf(((const float *)product.data.rows)[i], scale);
        struct data data = product.data;
        data.rows = rows;
        struct vic_index *index = index_of(test_device, &data);
        for (int64_t i = 0; i < N; i++) {
            double square = 0;
            pq_row_load(&product.index->corpus.rows, 0, i, unit);
            pq_row_load(&index->corpus.rows, 0, i, other);
            for (int d = 0; d < DIM; d++) {
                square += (double)unit[d] * (double)unit[d];
                assert_true(fabsf(unit[d] - other[d]) <= 1e-6f);
            }
            assert_true(fabs(square - 1) < 1e-6);
        }
        vic_index_free(index);
        free(rows);
    }
    product_free(&product);
}

static void out_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    struct product product;
    product_make(&product, test_device, 300, 10, VIC_F32, VIC_L2, VALUES_UNIT, 12);
    const struct rows *rows = &product.index->corpus.rows;
    const struct pq_training training = {.chunks = 3, .centres = 16};
    uint8_t *codes = take(900);
    for (int64_t n = 1, refused = 1; refused; n++) {
        struct counting counting = {0};
        struct vic_device *device = device_within(0, 2, &counting);
        struct pq pq = {0};
        int64_t before = counting.live_blocks;
        counting.fail_at = counting.requests + n;
        enum vic_status status = pq_train(device, rows, &training, NULL, &pq);
        if (status == VIC_OK) status = pq_encode(device, &pq, rows, NULL, codes, NULL);
        refused = counting.refused;
        assert_int_equal(status, refused ? VIC_NO_MEMORY : VIC_OK);
        pq_free(&pq);
        assert_int_equal(counting.live_blocks, before);
        vic_device_free(device);
        assert_int_equal(counting.live_blocks, 0);
    }
    free(codes);
    product_free(&product);
}

struct stopper {
    const char *stage; /* in which to stop */
    int64_t calls;
};

static int stop(void *user, const struct vic_progress_state *state) {
    struct stopper *stopper = user;
    assert_in_range(state->done, 0, state->total);
    stopper->calls++;
    return strcmp(state->stage, stopper->stage) == 0;
}

static void both_stages_can_be_cancelled(void **state) {
    (void)state;
    static const char *const stages[] = {"training codes", "coding rows", "none"};
    struct product product;
    product_make(&product, test_device, 300, 10, VIC_F32, VIC_L2, VALUES_UNIT, 13);
    const struct rows *rows = &product.index->corpus.rows;
    const struct pq_training training = {.chunks = 3, .centres = 16};
    uint8_t *codes = take(900);
    for (int i = 0; i < 3; i++) {
        struct stopper stopper = {stages[i], 0};
        const struct vic_progress hook = {stop, &stopper};
        struct pq pq = {0};
        enum vic_status status = pq_train(test_device, rows, &training, &hook, &pq);
        assert_int_equal(status, i == 0 ? VIC_CANCELLED : VIC_OK);
        if (status == VIC_OK)
            assert_int_equal(pq_encode(test_device, &pq, rows, &hook, codes, NULL), i == 1 ? VIC_CANCELLED : VIC_OK);
        assert_true(stopper.calls > 0);
        pq_free(&pq);
    }
    free(codes);
    product_free(&product);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_chunks_are_one_larger),
        cmocka_unit_test(parts_that_cannot_be_are_refused_by_name),
        cmocka_unit_test(tables_and_distances_are_those_of_plain_loops),
        cmocka_unit_test(codes_without_a_centre_are_infinitely_far),
        cmocka_unit_test(a_distance_that_is_no_number_is_infinite),
        cmocka_unit_test(a_rotation_is_applied_and_undone),
        cmocka_unit_test(the_error_is_that_of_the_decoded_rows),
        cmocka_unit_test(cosine_codes_do_not_depend_on_lengths),
        cmocka_unit_test(out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(both_stages_can_be_cancelled),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
