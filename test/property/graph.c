/* Graphs drawn at random: the same bytes for any number of threads and every table of kernels, hits that are what the oracle
 * scores, prefixes of longer answers, equal to the exact answer when the beam holds all rows; saved, opened and saved again
 * the same file. */
#include "support/graphs.h"
#include "support/scene.h"
#include "support/scratch.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const int64_t row_counts[] = {1, 2, 3, 4, 5, 10, 63, 64, 65, 255, 256, 257, 1000};
static const int64_t dims[] = {1, 2, 3, 7, 17, 97, 100, 127, 128, 960, 1008, 1536, 4097};
static const int32_t degrees[] = {1, 2, 31, 32, 33, 64, 96, 128, 512};
#define PICK(random, array) array[random_below(random, (int64_t)(sizeof(array) / sizeof *(array)))]

/* Of every `each` rows one is a copy of an earlier one; 0: none, 1: all are one row. */
static void rows_fill(struct random *random, struct data *data, int64_t each) {
    size_t row_bytes = (size_t)data->dim * vic_dtype_bytes(data->dtype);
    int64_t chance = random_below(random, 8);
    enum values values = chance == 0 ? VALUES_WILD : chance < 3 ? VALUES_SMALL_INT : VALUES_UNIT;
    char *rows = data->rows = take((size_t)data->n * row_bytes);
    random_fill(random, values, data->dtype, data->n * data->dim, rows);
    for (int64_t i = 1; each && i < data->n; i += each)
        memcpy(rows + (size_t)i * row_bytes, rows + (size_t)(each == 1 ? 0 : random_below(random, i)) * row_bytes, row_bytes);
}

/* Rows of any type, a part of them copies. */
static struct data data_draw(struct random *random) {
    struct data data = {.n = PICK(random, row_counts),
                        .dim = PICK(random, dims),
                        .dtype = (enum vic_dtype)(VIC_F32 + random_below(random, 5)),
                        .metric = (enum vic_metric)(VIC_DOT + random_below(random, 3))};
    rows_fill(random, &data, random_below(random, 2) ? 2 : 0);
    return data;
}

static struct blob saved(const struct vic_index *index, const char *name) {
    must(vic_index_save(index, scratch_path(name), NULL));
    return blob_read(scratch_path(name));
}

/* Ids are distinct and in range, scores the oracle's, in order. */
static void hits_check(const struct data *data, const void *queries, int64_t nq, int64_t k, const int64_t *ids,
                       const float *scores) {
    enum vic_dtype type = query_type_of(data->dtype);
    int64_t real = k < data->n ? k : data->n;
    for (int64_t j = 0; j < nq; j++)
        for (int64_t i = 0; i < k; i++) {
            int64_t id = ids[j * k + i];
            const char *query = (const char *)queries + j * data->dim * (int64_t)vic_dtype_bytes(type);
            if (i >= real) {
                assert_int_equal(id, -1);
                continue;
            }
            assert_in_range(id, 0, data->n - 1);
            float score = oracle_score(data, id, query, type);
            assert_memory_equal(&scores[j * k + i], &score, sizeof score);
            if (i == 0) continue;
            float before = scores[j * k + i - 1];
            bool ordered = data->metric == VIC_L2 ? before < score : before > score;
            assert_true(ordered || (before == score && ids[j * k + i - 1] < id));
        }
}

enum { QUERIES = 5, K_MOST = 40 };

static void answers_check(const struct vic_index *index, const struct data *data, const void *queries, int32_t beam,
                          int32_t parents, int64_t *all, float *scores) {
    static const int64_t ks[] = {1, 7};
    graph_ask(index, data, queries, QUERIES, K_MOST, beam, parents, all, scores);
    hits_check(data, queries, QUERIES, K_MOST, all, scores);
    for (int i = 0; i < 2; i++) {
        int64_t ids[QUERIES * 7];
        float found[QUERIES * 7];
        graph_ask(index, data, queries, QUERIES, ks[i], beam, parents, ids, found);
        for (int64_t j = 0; j < QUERIES; j++)
            assert_memory_equal(ids + j * ks[i], all + j * K_MOST, (size_t)ks[i] * sizeof *ids);
    }
}

static void answers_are_scored_ordered_and_the_same_from_every_processor(void **state) {
    (void)state;
    struct random random = test_random(71);
    for (int round = 0; round < 24; round++) {
        struct data data = data_draw(&random);
        int32_t degree = PICK(&random, degrees), beam = K_MOST + (int32_t)random_below(&random, 60);
        int32_t parents = 1 + (int32_t)random_below(&random, 8);
        enum vic_dtype type = query_type_of(data.dtype);
        char *queries = take((size_t)(QUERIES * data.dim) * vic_dtype_bytes(type));
        random_fill(&random, VALUES_UNIT, type, QUERIES * data.dim, queries);
        struct blob first = {NULL, 0};
        int64_t first_ids[QUERIES * K_MOST], ids[QUERIES * K_MOST];
        float scores[QUERIES * K_MOST];
        const char *const *tables = kernels_here();
        for (int t = 0; tables[t]; t++) {
            test_says("round %d: n %d, dim %d, type %d, metric %d, degree %d, beam %d, parents %d, %s", round, (int)data.n,
                      (int)data.dim, (int)data.dtype, (int)data.metric, degree, beam, parents, tables[t]);
            struct vic_device *device = device_with(tables[t], 1 + t % 3);
            struct vic_index *index = graph_of(device, &data, degree, 30);
            struct blob blob = saved(index, "one");
            answers_check(index, &data, queries, beam, parents, ids, scores);
            if (t == 0) {
                first = blob;
                memcpy(first_ids, ids, sizeof ids);
            } else {
                assert_int_equal(blob.size, first.size);
                assert_memory_equal(blob.bytes, first.bytes, first.size);
                assert_memory_equal(ids, first_ids, sizeof ids);
                blob_free(&blob);
            }
            vic_index_free(index);
            vic_device_free(device);
        }
        blob_free(&first);
        free(queries);
        free(data.rows);
    }
    test_done();
}

static void a_beam_of_all_rows_is_exact(void **state) {
    (void)state;
    struct random random = test_random(72);
    struct vic_device *device = device_of(2);
    for (int round = 0; round < 20; round++) {
        struct data data = data_draw(&random);
        enum vic_dtype type = query_type_of(data.dtype);
        char *queries = take((size_t)(QUERIES * data.dim) * vic_dtype_bytes(type));
        random_fill(&random, VALUES_UNIT, type, QUERIES * data.dim, queries);
        test_says("round %d: n %d, dim %d, type %d, metric %d", round, (int)data.n, (int)data.dim, (int)data.dtype,
                  (int)data.metric);
        struct vic_index *index = graph_of(device, &data, PICK(&random, degrees), 30);
        int64_t k = data.n, *ids = take((size_t)(QUERIES * k) * 8);
        float *scores = take((size_t)(QUERIES * k) * 4);
        struct order order = order_of(&data, queries, QUERIES, type);
        graph_ask(index, &data, queries, QUERIES, k, 1, 0, ids, scores); /* k raises the beam */
        for (int64_t j = 0; j < QUERIES; j++) order_check_hits(&order, j, k, ids + j * k, scores + j * k, (int32_t)k);
        order_free(&order);
        free(scores), free(ids), free(queries), free(data.rows);
        vic_index_free(index);
    }
    vic_device_free(device);
    test_done();
}

static void opened_graphs_answer_and_save_as_built_ones(void **state) {
    (void)state;
    struct random random = test_random(73);
    struct vic_device *device = device_of(2);
    for (int round = 0; round < 20; round++) {
        struct data data = data_draw(&random);
        test_says("round %d: n %d, dim %d, type %d, metric %d", round, (int)data.n, (int)data.dim, (int)data.dtype,
                  (int)data.metric);
        struct vic_index *built = graph_of(device, &data, 8, 20), *opened = NULL, *streamed = NULL;
        struct blob blob = saved(built, "built");
        const struct vic_open_options check = {.size = sizeof check, .check = 1};
        must(vic_index_open(device, scratch_path("built"), &check, &opened));
        struct blob again = saved(opened, "again");
        const struct vic_graph_options graph = {.size = sizeof graph, .degree = 8, .beam = 20, .force = 1};
        const struct vic_build_options options = {.size = sizeof options,
                                                  .metric = data.metric,
                                                  .dtype = data.dtype,
                                                  .graph = &graph,
                                                  .path = scratch_path("streamed")};
        const struct vic_matrix rows = matrix_of(data.rows, data.n, data.dim, data.dtype);
        must(vic_index_build(device, &rows, &options, &streamed));
        assert_int_equal(again.size, blob.size);
        assert_memory_equal(again.bytes, blob.bytes, blob.size);
        assert_true(blob_equals_file(&blob, scratch_path("streamed")));
        struct vic_index_info in_memory = {.size = sizeof in_memory}, in_file = {.size = sizeof in_file};
        must(vic_index_info(built, &in_memory));
        must(vic_index_info(streamed, &in_file));
        assert_int_equal(in_memory.repairs, in_file.repairs);
        int64_t ids[2][10];
        float scores[2][10];
        if (data.dtype <= VIC_BF16) {
            float *query = take((size_t)data.dim * sizeof *query);
            random_fill(&random, VALUES_UNIT, VIC_F32, data.dim, query);
            graph_ask(built, &data, query, 1, 10, 10, 1, ids[0], scores[0]);
            graph_ask(opened, &data, query, 1, 10, 10, 1, ids[1], scores[1]);
            assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
            free(query);
        }
        vic_index_free(streamed), vic_index_free(opened), vic_index_free(built);
        blob_free(&again), blob_free(&blob);
        free(data.rows);
    }
    vic_device_free(device);
    test_done();
}

/* Every count, dimension and degree there is above, with each kind of copies: the same file from 1, 2, 3 and 16 threads and
 * from every table of kernels, and every row is reached. */
static void every_size_dimension_and_degree_builds_one_file(void **state) {
    (void)state;
    static const int64_t copies[] = {0, 4, 2, 1}; /* none, a quarter, half, all */
    static const int32_t threads[] = {1, 2, 3, 16};
    enum { COUNTS = sizeof row_counts / sizeof *row_counts, DIMS = sizeof dims / sizeof *dims };
    enum { DEGREES = sizeof degrees / sizeof *degrees, ROUNDS = 52 }; /* a multiple of 13, 13 and 4, and above 9 */
    struct random random = test_random(74);
    for (int round = 0; round < ROUNDS; round++) {
        struct data data = {.n = row_counts[(round * 5 + round / COUNTS) % COUNTS],
                            .dim = dims[round % DIMS],
                            .dtype = (enum vic_dtype)(VIC_F32 + round % 5),
                            .metric = (enum vic_metric)(VIC_DOT + round % 3)};
        int32_t degree = degrees[round % DEGREES];
        rows_fill(&random, &data, copies[round % 4]);
        struct blob first = {NULL, 0};
        const char *const *tables = kernels_here();
        for (int t = 0; tables[t] || t < 4; t++) {
            const char *table = tables[t] ? tables[t] : NULL;
            test_says("round %d: n %d, dim %d, type %d, metric %d, degree %d, %s, %d threads", round, (int)data.n,
                      (int)data.dim, (int)data.dtype, (int)data.metric, degree, table ? table : "best", threads[t % 4]);
            struct vic_device *device = device_with(table, threads[t % 4]);
            struct vic_index *index = graph_of(device, &data, degree, 20);
            struct blob blob = saved(index, "one");
            if (t == 0) first = blob;
            assert_int_equal(blob.size, first.size);
            assert_memory_equal(blob.bytes, first.bytes, first.size);
            if (t > 0) blob_free(&blob);
            vic_index_free(index);
            vic_device_free(device);
        }
        blob_free(&first);
        free(data.rows);
    }
    test_done();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(answers_are_scored_ordered_and_the_same_from_every_processor, test_tell),
        cmocka_unit_test_teardown(a_beam_of_all_rows_is_exact, test_tell),
        cmocka_unit_test_teardown(every_size_dimension_and_degree_builds_one_file, test_tell),
        cmocka_unit_test_teardown(opened_graphs_answer_and_save_as_built_ones, test_tell),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
