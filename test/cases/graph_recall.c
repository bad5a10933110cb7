/* What graphs find, against the exact index: gates on structured data of every type and metric, wide rows, copies, outliers;
 * and the cases GRB-11 and GRB-14, distilled from bug reports of this field, whose timed halves are the benchmarks'. Builds
 * are the same bytes everywhere, so a gate that holds once holds always. */
#include "support/graphs.h"
#include "support/sanitizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { QUERIES = 200 };

/* n generated rows and the queries that follow them in the endless set. */
static struct data generated(const struct vic_generate_options *options, int64_t n, int64_t dim, enum vic_dtype dtype,
                             enum vic_metric metric, int64_t nq, void **queries) {
    enum vic_dtype query_dtype = query_type_of(dtype);
    struct data data = {take((size_t)(n * dim) * vic_dtype_bytes(dtype)), n, dim, dtype, metric, NULL};
    *queries = take((size_t)(nq * dim) * vic_dtype_bytes(query_dtype));
    const struct vic_matrix rows = matrix_of(data.rows, n, dim, dtype), asked = matrix_of(*queries, nq, dim, query_dtype);
    must(vic_generate(options, 0, 0, &rows));
    must(vic_generate(options, n, 0, &asked));
    return data;
}

static void gate(const struct vic_generate_options *options, int64_t n, int64_t dim, enum vic_dtype dtype,
                 enum vic_metric metric, int32_t beam, double least) {
    void *queries = NULL;
    struct data data = generated(options, n, dim, dtype, metric, QUERIES, &queries);
    struct vic_index *index = graph_of(test_device, &data, 32, 64);
    double recall = graph_recall(index, &data, queries, QUERIES, 10, beam);
    if (recall < least)
        fail_msg("%s, %lld x %lld %s, %s: recall %.4f at beam %d, expected %.3f", options->kind, (long long)n, (long long)dim,
                 vic_dtype_name(dtype), vic_metric_name(metric), recall, beam, least);
    vic_index_free(index);
    free(queries), free(data.rows);
}

static void every_type_and_metric_is_found(void **state) {
    (void)state;
    const struct vic_generate_options manifold = {.size = sizeof manifold, .kind = "manifold", .seed = 5};
    for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
            gate(&manifold, 5000, 96, dtype, metric, 64, 0.99);
            gate(&manifold, 5000, 96, dtype, metric, 10, 0.9);
        }
}

static void tight_groups_are_found(void **state) {
    (void)state;
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        const struct vic_generate_options clusters = {.size = sizeof clusters, .kind = "clusters", .seed = 5};
        gate(&clusters, 5000, 64, VIC_F32, metric, 32, 0.99);
    }
}

/* A quarter, half and nearly all rows are copies, of rows that have no structure else. */
static void rows_among_copies_are_found(void **state) {
    (void)state;
    static const double shares[] = {0.25, 0.5, 0.95};
    for (int s = 0; s < 3; s++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
            const struct vic_generate_options copies = {
                .size = sizeof copies, .kind = "duplicates", .seed = 5, .duplicate_share = shares[s]};
            gate(&copies, 5000, 64, VIC_F32, metric, 100, 0.95);
        }
}

static void wide_rows_are_found(void **state) {
    (void)state;
    static const struct {
        int64_t dim;
        enum vic_dtype dtype;
        enum vic_metric metric;
    } shapes[] = {{960, VIC_F32, VIC_L2},   {1007, VIC_I8, VIC_COSINE}, {1008, VIC_F16, VIC_COSINE},
                  {1536, VIC_F32, VIC_DOT}, {4097, VIC_U8, VIC_L2},     {4097, VIC_BF16, VIC_DOT}};
    const struct vic_generate_options manifold = {.size = sizeof manifold, .kind = "manifold", .seed = 6};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        gate(&manifold, 1500, shapes[s].dim, shapes[s].dtype, shapes[s].metric, 64, 0.99);
}

/* One row in a hundred lies a thousand times as far out: it is found, and hides nothing. */
static void outliers_are_found_and_hide_nothing(void **state) {
    (void)state;
    enum { N = 5000, DIM = 48, EACH = 100 };
    const struct vic_generate_options manifold = {.size = sizeof manifold, .kind = "manifold", .seed = 7};
    void *queries = NULL;
    struct data data = generated(&manifold, N, DIM, VIC_F32, VIC_L2, QUERIES, &queries);
    float *rows = data.rows, *far = take(N / EACH * DIM * sizeof *far);
    for (int64_t i = 0; i < N; i += EACH)
        for (int64_t j = 0; j < DIM; j++) far[i / EACH * DIM + j] = rows[i * DIM + j] *= 1000;
    struct vic_index *index = graph_of(test_device, &data, 32, 64);
    assert_true(graph_recall(index, &data, queries, QUERIES, 10, 64) >= 0.99);
    assert_true(graph_recall(index, &data, far, N / EACH, 1, 100) == 1);
    vic_index_free(index);
    free(far), free(queries), free(rows);
}

static void GRB_11_half_the_rows_are_copies_of_ten_points(void **state) {
    (void)state;
    enum { N = 20000, DIM = 64, POINTS = 10, K = 10 };
    float *rows = copies_random(11, N, DIM, N), *queries = copies_random(12, QUERIES, DIM, QUERIES);
    struct data data = {rows, N / 2, DIM, VIC_F32, VIC_L2, NULL};
    struct vic_index *distinct = graph_of(test_device, &data, 32, 64);
    double expected = graph_recall(distinct, &data, queries, QUERIES, K, 100);
    vic_index_free(distinct);
    for (int64_t i = 1; i < N; i += 2) /* between the others */
        memcpy(rows + i * DIM, rows + i / 2 % POINTS * 2 * DIM, DIM * sizeof *rows);
    data.n = N;
    struct vic_index *copied = graph_of(test_device, &data, 32, 64);
    double found = graph_recall(copied, &data, queries, QUERIES, K, 100);
    if (found < expected - 0.01) fail_msg("recall %.4f among copies, %.4f without", found, expected);
    int64_t ids[POINTS * K];
    float scores[POINTS * K];
    for (int64_t point = 0; point < POINTS; point++) {
        graph_ask(copied, &data, rows + point * 2 * DIM, 1, K, 64, 1, ids, scores);
        for (int i = 0; i < K; i++) assert_true(scores[i] == 0);
    }
    vic_index_free(copied);
    free(queries), free(rows);
}

/* Whether there is one row more than a whole number of blocks. A sanitizer's build takes a tenth of the rows. */
static void GRB_14_one_row_more_changes_nothing(void **state) {
    (void)state;
#if UNDER_ADDRESS_SANITIZER
    enum { N = 5440 };
#else
    enum { N = 54400 };
#endif
    enum { DIM = 128, RANK = 16, ASKED = 1000 };
    struct random random = {14};
    float *basis = take(RANK * DIM * sizeof *basis), *rows = take((size_t)(N + 1 + ASKED) * DIM * sizeof *rows);
    for (int64_t i = 0; i < RANK * DIM; i++) basis[i] = random_normal(&random);
    for (int64_t i = 0; i < N + 1 + ASKED; i++) {
        float latent[RANK], *row = rows + i * DIM;
        for (int64_t r = 0; r < RANK; r++) latent[r] = random_normal(&random);
        for (int64_t j = 0; j < DIM; j++) {
            row[j] = 0.01f * random_normal(&random);
            for (int64_t r = 0; r < RANK; r++) row[j] += latent[r] * basis[r * DIM + j];
        }
    }
    double recall[2];
    for (int more = 0; more < 2; more++) {
        struct data data = {rows, N + more, DIM, VIC_F32, VIC_L2, NULL};
        struct vic_index *index = graph_of(test_device, &data, 64, 100);
        recall[more] = graph_recall(index, &data, rows + (N + 1) * DIM, ASKED, 10, 64);
        vic_index_free(index);
    }
    if (recall[0] < 0.95 || recall[0] - recall[1] > 0.01 || recall[1] - recall[0] > 0.01)
        fail_msg("recall %.4f, and %.4f with one row more", recall[0], recall[1]);
    free(rows), free(basis);
}

static void FIL_05_few_rows_pass_and_a_hundred_are_found(void **state) {
    (void)state;
#if UNDER_ADDRESS_SANITIZER
    enum { N = 10000 };
#else
    enum { N = 100000 };
#endif
    enum { DIM = 16, K = 100, ASKED = 20 };
    struct random random = {5};
    float *rows = copies_random(5, N, DIM, N), *queries = copies_random(6, ASKED, DIM, ASKED);
    struct data data = {rows, N, DIM, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = graph_of(test_device, &data, 16, 24);
    int64_t *allowed = take(N * sizeof *allowed), ids[ASKED * K];
    float scores[ASKED * K];
    for (int64_t one_in = 50; one_in <= 100; one_in += 50) { /* 2 % and 1 % */
        int64_t count = 0;
        for (int64_t i = 0; i < N; i++)
            if (random_below(&random, one_in) == 0) allowed[count++] = i;
        struct vic_filter *filter = NULL;
        must(vic_filter_create(index, allowed, count, NULL, &filter));
        const struct vic_search_options options = {.size = sizeof options, .path = VIC_PATH_GRAPH, .filter = filter};
        const struct vic_matrix asked = matrix_of(queries, ASKED, DIM, VIC_F32);
        const struct vic_hits hits = {.ids = ids, .scores = scores};
        must(vic_index_search(index, &asked, K, &options, &hits));
        bool *passes = take(N);
        memset(passes, 0, N);
        for (int64_t i = 0; i < count; i++) passes[allowed[i]] = true;
        for (int64_t j = 0; j < ASKED; j++) {
            int64_t right[K], real = count < K ? count : K;
            float right_scores[K];
            (void)oracle_search(&data, queries + j * DIM, VIC_F32, K, passes, right, right_scores);
            assert_memory_equal(ids + j * K, right, (size_t)real * sizeof *right);
        }
        free(passes);
        vic_filter_free(filter);
    }
    vic_index_free(index);
    free(allowed), free(queries), free(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_metric_is_found),
        cmocka_unit_test(tight_groups_are_found),
        cmocka_unit_test(rows_among_copies_are_found),
        cmocka_unit_test(wide_rows_are_found),
        cmocka_unit_test(outliers_are_found_and_hide_nothing),
        cmocka_unit_test(GRB_11_half_the_rows_are_copies_of_ten_points),
        cmocka_unit_test(FIL_05_few_rows_pass_and_a_hundred_are_found),
        cmocka_unit_test(GRB_14_one_row_more_changes_nothing),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
