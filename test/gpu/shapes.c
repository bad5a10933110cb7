/* Every kernel at small shapes: each pair of types, each metric, dimensions at the edges of chunks, units and stages; one
 * query, batches, selection, filters, threshold searches, scores of given rows. Small enough to run under the checkers of
 * memory, races, uninitialised reads and barriers. */
#include "gpu/pair.h"

#include <stdlib.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static const int64_t dims[] = {1, 31, 33, 96, 100, 128, 130, 225, 384};

/* Under a checker a launch takes a thousand times as long: VICINAL_TEST_BRIEF asks for fewer rows and sizes, the same
 * kernels. */
static bool brief(void) { return getenv("VICINAL_TEST_BRIEF") != NULL; }

static void queries_from(struct random *random, const struct data *data, enum vic_dtype dtype, enum values values, int64_t nq,
                         void **queries) {
    *queries = take((size_t)(nq * data->dim) * vic_dtype_bytes(dtype));
    random_fill(random, values, dtype, nq * data->dim, *queries);
}

/* All questions about one corpus. */
static void ask_all(const struct data *data, enum vic_dtype query_dtype, enum values values, struct random *random) {
    struct pair pair = pair_build(data);
    void *vectors = NULL;
    int64_t nq = 35, passing = data->n / 3;
    queries_from(random, data, query_dtype, values, nq, &vectors);
    struct vic_matrix one = matrix_of(vectors, 1, data->dim, query_dtype), some = matrix_of(vectors, 5, data->dim, query_dtype),
                      many = matrix_of(vectors, nq, data->dim, query_dtype);
    int64_t *ids = take((size_t)data->n * 8);
    for (int64_t i = 0; i < data->n; i++) ids[i] = random_below(random, data->n);
    pair_check(&pair, &one, 7, VIC_PATH_SCAN, NULL, 0);
    pair_check(&pair, &one, data->n + 3, VIC_PATH_SCAN, NULL, 0);
    pair_check(&pair, &one, 50, VIC_PATH_SELECT, NULL, 0);
    pair_check(&pair, &one, 20, 0, ids, passing);
    pair_check(&pair, &some, 3, 0, NULL, 0);
    pair_check(&pair, &some, 9, VIC_PATH_SELECT, ids, passing);
    pair_check(&pair, &many, 60, 0, NULL, 0);
    pair_check(&pair, &many, 60, 0, ids, passing);
    pair_check_within(&pair, &one, pair_threshold(&pair, &one, 9), ids, passing);
    pair_check_within(&pair, &some, data->metric == VIC_L2 ? 20.0f : 0.25f, NULL, 0);
    pair_check_within(&pair, &many, pair_threshold(&pair, &many, 1 + data->n / 4), ids, passing);
    pair_check_score(&pair, &some, ids, data->n / 5);
    free(ids);
    free(vectors);
    pair_free(&pair);
}

static void every_kernel_gives_the_cpus_bytes(void **state) {
    (void)state;
    struct random random = test_random(1);
    int turn = 0;
    for (int pair = 0; pair < TYPE_PAIRS; pair++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++, turn++) {
            if (brief() && (pair + (int)metric) % 3 != 0) continue;
            enum values values = (enum values)(turn % VALUES_COUNT);
            int64_t dim = dims[turn % (int)(sizeof dims / sizeof *dims)];
            test_says("types %s and %s, %s, dim %lld", vic_dtype_name(type_pairs[pair][0]), vic_dtype_name(type_pairs[pair][1]),
                      vic_metric_name(metric), (long long)dim);
            struct data data = data_make(random_next(&random), brief() ? 100 : 300, dim, type_pairs[pair][0], metric, values);
            ask_all(&data, type_pairs[pair][1], values, &random);
            free(data.rows);
        }
    test_done();
}

/* Queries that do not fit a block's shared memory take another way in; sectors that do not fit a stage come in blocks. */
static void large_dimensions_give_the_cpus_bytes(void **state) {
    (void)state;
    static const int64_t large[] = {2000, 5000, 65536};
    struct random random = test_random(2);
    for (int i = 0; i < (brief() ? 1 : 3); i++)
        for (int pair = 0; pair < TYPE_PAIRS; pair += brief() ? 4 : 2) {
            enum vic_metric metric = (enum vic_metric)(1 + (i + pair) % 3);
            test_says("dim %lld, rows %s, %s", (long long)large[i], vic_dtype_name(type_pairs[pair][0]),
                      vic_metric_name(metric));
            struct data data = data_make(random_next(&random), 40, large[i], type_pairs[pair][0], metric, VALUES_UNIT);
            ask_all(&data, type_pairs[pair][1], VALUES_UNIT, &random);
            free(data.rows);
        }
    test_done();
}

/* Ties by the thousand: more rows reach the threshold than a block holds, and more than lists hold between cuts. */
static void ties_beyond_every_buffer_go_to_the_smaller_row(void **state) {
    (void)state;
    struct random random = test_random(3);
    struct data data = data_make(9, brief() ? 5200 : 30000, 2, VIC_F32, VIC_DOT, VALUES_SMALL_INT);
    float queries[40 * 2];
    random_fill(&random, VALUES_SMALL_INT, VIC_F32, 80, queries);
    queries[0] = queries[1] = 0; /* all scores equal */
    struct pair pair = pair_build(&data);
    struct vic_matrix one = matrix_of(queries, 1, 2, VIC_F32), many = matrix_of(queries, 40, 2, VIC_F32);
    static const int64_t ks[] = {100, 2049, 1, 2048, 30000};
    for (int i = 0; i < (brief() ? 2 : 5); i++) {
        pair_check(&pair, &one, ks[i], 0, NULL, 0);
        pair_check(&pair, &one, ks[i], VIC_PATH_SELECT, NULL, 0);
        pair_check(&pair, &many, ks[i], 0, NULL, 0);
    }
    pair_check_within(&pair, &many, 0.0f, NULL, 0); /* the first list is too long for a block to sort */
    pair_free(&pair);
    free(data.rows);
}

/* Rows in rising order make every key enter its list; all the best in one warp's rows make its neighbours useless. */
static void unlucky_orders_of_rows_change_nothing(void **state) {
    (void)state;
    int64_t n = brief() ? 9000 : 200000;
    struct data data = {take((size_t)n * 4), n, 1, VIC_F32, VIC_DOT, NULL};
    float *rows = data.rows, queries[3] = {1, -1, 0.5f};
    struct vic_matrix one = matrix_of(queries, 1, 1, VIC_F32), three = matrix_of(queries, 3, 1, VIC_F32);
    for (int order = 0; order < 2; order++) {
        for (int64_t i = 0; i < n; i++)
            rows[i] = order == 0 ? (float)i : i / 4 % 4224 == 5 ? 1000.0f + (float)(i / 16896) : (float)(i % 7);
        struct pair pair = pair_build(&data);
        pair_check(&pair, &one, brief() ? 200 : 2000, 0, NULL, 0);
        pair_check(&pair, &one, 10, 0, NULL, 0);
        pair_check(&pair, &three, brief() ? 100 : 1000, 0, NULL, 0);
        pair_free(&pair);
    }
    free(rows);
}

/* With dozens of rows a warp, some of the winning warps have more hits than they keep apart, some have not. */
static void winners_with_one_hit_and_with_many_give_all(void **state) {
    (void)state;
    static const enum vic_dtype types[] = {VIC_F32, VIC_BF16, VIC_I8};
    static const int64_t ks[] = {1, 3, 30, 300, 1000, 2048};
    for (int i = brief() ? 2 : 0; i < 3; i++) {
        enum values values = types[i] == VIC_I8 ? VALUES_SMALL_INT : VALUES_UNIT;
        struct data data = data_make(20 + (uint64_t)i, brief() ? 2000 : 300000, 32, types[i], VIC_DOT, values);
        struct pair pair = pair_build(&data);
        for (int j = 0; j < (brief() ? 2 : 6); j++) {
            struct vic_matrix query = matrix_of(data.rows, 1, 32, types[i]);
            pair_check(&pair, &query, ks[j], VIC_PATH_SCAN, NULL, 0);
        }
        pair_free(&pair);
        free(data.rows);
    }
}

static void an_empty_index_answers(void **state) {
    (void)state;
    float query[8] = {0};
    struct data data = {query, 0, 8, VIC_F32, VIC_L2, NULL};
    struct pair pair = pair_build(&data);
    struct vic_matrix one = matrix_of(query, 1, 8, VIC_F32);
    struct answer right = answer_make(1, 5), found = answer_make(1, 5);
    struct vic_hits hits = answer_hits(&right), device = hits_on_device(1, 5);
    pair_check(&pair, &one, 5, 0, NULL, 0);
    pair_check_within(&pair, &one, 1.0f, NULL, 0);
    must(vic_index_search(pair.cpu, &one, 5, NULL, &hits));
    must(vic_index_search(pair.gpu, &one, 5, NULL, &device));
    hits_fetch(&device, &found);
    answers_equal(&found, &right);
    hits_release(&device);
    answer_free(&right);
    answer_free(&found);
    pair_free(&pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_kernel_gives_the_cpus_bytes, test_tell),
        cmocka_unit_test_teardown(large_dimensions_give_the_cpus_bytes, test_tell),
        cmocka_unit_test(ties_beyond_every_buffer_go_to_the_smaller_row),
        cmocka_unit_test(unlucky_orders_of_rows_change_nothing),
        cmocka_unit_test(winners_with_one_hit_and_with_many_give_all),
        cmocka_unit_test(an_empty_index_answers),
    };
    if (!devices_begin()) return SKIPPED;
    int failed = cmocka_run_group_tests_name("gpu/shapes", tests, NULL, NULL);
    devices_end();
    return failed;
}
