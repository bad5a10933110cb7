/* What a build measures over integer rows: distances by plain loops in every metric, the same both ways and none to a copy,
 * robust prune by its definition, and nothing kept beside the rows when it is done. */
#include "support/graphs.h"
#include "support/scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { N = 96, DIM_MOST = 200 };

/* Rows with copies, multiples and zeros among them. */
static struct data bytes_draw(struct random *random, enum vic_dtype dtype, enum vic_metric metric, int64_t dim) {
    int8_t *rows = take((size_t)(N * dim));
    random_fill(random, VALUES_UNIT, dtype, N * dim, rows);
    for (int64_t i = 1; i < N; i++) {
        int64_t chance = random_below(random, 8), other = random_below(random, i);
        if (chance == 0) memset(rows + i * dim, 0, (size_t)dim);
        if (chance == 1) memcpy(rows + i * dim, rows + other * dim, (size_t)dim);
        for (int64_t j = 0; chance == 2 && j < dim; j++) { /* one direction, two lengths */
            rows[other * dim + j] = (int8_t)(rows[other * dim + j] & 31);
            rows[i * dim + j] = (int8_t)(3 * rows[other * dim + j]);
        }
    }
    return (struct data){rows, N, dim, dtype, metric, NULL};
}

static int64_t product_of(const struct data *data, int64_t a, int64_t b) {
    int64_t sum = 0;
    for (int64_t i = 0; i < data->dim; i++)
        sum += (int64_t)element_get(data->dtype, data->rows, a * data->dim + i) *
               (int64_t)element_get(data->dtype, data->rows, b * data->dim + i);
    return sum;
}

static float apart_plainly(const struct data *data, int64_t a, int64_t b) {
    int64_t both = product_of(data, a, b), one = product_of(data, a, a), two = product_of(data, b, b);
    if (data->metric == VIC_L2) return (float)(one + two - 2 * both);
    if (data->metric == VIC_DOT) return -(float)both;
    double inverse = one > 0 ? 1 / sqrt((double)one) : 0, other = two > 0 ? 1 / sqrt((double)two) : 0;
    double apart = (double)((one > 0) + (two > 0)) - 2 * ((double)both * (inverse * other));
    return apart < 0x1p-44 ? 0 : (float)apart;
}

static bool is_copy(const struct data *data, int64_t a, int64_t b) {
    int64_t both = product_of(data, a, b), one = product_of(data, a, a), two = product_of(data, b, b);
    return data->metric == VIC_L2 ? one + two == 2 * both : both >= 0 && both * both == one * two && (one > 0) == (two > 0);
}

/* An index's points as its build had them. */
struct opened {
    struct vic_index *index;
    struct graph graph; /* owns what they need */
    struct points points;
};
static struct opened points_of(struct vic_device *device, const struct data *data) {
    struct opened opened = {.index = graph_of(device, data, 8, 20), .graph = {.mem = &device->host, .n = data->n}};
    must(points_bytes_open(device, &opened.index->corpus.rows, &opened.graph, &opened.points));
    return opened;
}
static void opened_free(struct opened *opened) {
    graph_free(&opened->graph);
    vic_index_free(opened->index);
}

static void distances_check(const struct points *points, const struct data *data) {
    uint32_t all[N];
    float distances[N], apart[N];
    static struct rivals rivals;
    for (uint32_t i = 0; i < N; i++) all[i] = rivals.rows[i] = i;
    rivals.count = N;
    points->pairs->rivals_read(points, &rivals);
    for (uint32_t i = 0; i < N; i++) {
        struct aim aim = aim_at_row(points, i, NULL);
        float square = (float)product_of(data, i, i);
        points_distances(points, &aim, all, N, distances);
        points->pairs->rivals_apart(points, &rivals, i, 0, N, apart);
        assert_memory_equal(apart, distances, sizeof distances);
        assert_true(points->pairs->square(points, i) == square && (!points->inner || rivals.square[i] == square));
        for (uint32_t j = 0; j < N; j++) {
            float expected = apart_plainly(data, i, j);
            assert_memory_equal(&distances[j], &expected, sizeof expected);
            if (data->metric != VIC_DOT) assert_int_equal(distances[j] == 0, is_copy(data, i, j));
        }
    }
}

/* Squared Euclidean distances are what the definition of docs names; under an inner product slots are filled up after it. */
static void prune_check(const struct points *points, const struct data *data, struct random *random) {
    uint64_t keys[2 * N], chosen[GRAPH_DEGREE_MAX];
    uint32_t row = (uint32_t)random_below(random, N);
    int64_t degree = 1 + random_below(random, 12), kept = 0;
    float alpha = 1 + (float)random_below(random, 3) / 10, factor[N] = {0};
    for (uint32_t i = 0; i < N; i++) keys[i] = walk_key(apart_plainly(data, row, i), i);
    int64_t count = points_prune(points, row, keys, N, degree, alpha, chosen);
    for (uint32_t i = 0; i < N; i++) keys[i] = ~walk_key(apart_plainly(data, row, i), i);
    keys_sort(keys, N, NULL);
    for (float most = 1; kept < degree; most = fminf(most * 1.2f, alpha)) {
        for (int64_t i = 0; i < N && kept < degree; i++) {
            uint32_t candidate = walk_key_row(~keys[i]);
            if (candidate == row || factor[i] > most) continue;
            assert_true(kept < count);
            assert_int_equal(walk_key_row(chosen[kept++]), candidate);
            factor[i] = INFINITY;
            for (int64_t t = i + 1; t < N; t++) {
                uint32_t other = walk_key_row(~keys[t]);
                float apart = apart_plainly(data, candidate, other);
                factor[t] = fmaxf(factor[t], apart > 0 ? apart_plainly(data, row, other) / apart : INFINITY);
            }
        }
        if (most >= alpha) break;
    }
    assert_int_equal(count, kept);
}

static void distances_of_integer_rows_are_exact_on_every_processor(void **state) {
    (void)state;
    static const int64_t dims[] = {1, 5, 63, 64, 65, 130, DIM_MOST};
    struct random random = test_random(91);
    const char *const *tables = kernels_here();
    for (int t = 0; tables[t]; t++) {
        struct vic_device *device = device_with(tables[t], 2);
        for (int round = 0; round < 12; round++) {
            enum vic_dtype dtype = round % 2 ? VIC_U8 : VIC_I8;
            enum vic_metric metric = (enum vic_metric)(VIC_DOT + round / 2 % 3);
            struct data data = bytes_draw(&random, dtype, metric, dims[random_below(&random, 7)]);
            test_says("%s of %s, dim %d, %s", vic_metric_name(metric), vic_dtype_name(dtype), (int)data.dim, tables[t]);
            struct opened opened = points_of(device, &data);
            distances_check(&opened.points, &data);
            for (int i = 0; metric != VIC_DOT && i < 4; i++) prune_check(&opened.points, &data, &random);
            opened_free(&opened);
            free(data.rows);
        }
        vic_device_free(device);
    }
    test_done();
}

/* The row in the middle is where walks begin: of a crowd and a few far ones it is one of the crowd. */
static void walks_begin_in_the_middle_of_integer_rows(void **state) {
    (void)state;
    enum { DIM = 40 };
    struct vic_device *device = device_of(1);
    struct random random = {6};
    for (int round = 0; round < 4; round++) {
        int8_t *rows = take(N * DIM);
        enum vic_dtype dtype = round % 2 ? VIC_U8 : VIC_I8;
        for (int64_t i = 0; i < N * DIM; i++) {
            bool crowd = i / DIM % 10 < 8, half = i % DIM < DIM / 2;
            rows[i] = (int8_t)((crowd == half ? 100 : 10) + random_below(&random, 8));
        }
        struct data data = {rows, N, DIM, dtype, round < 2 ? VIC_L2 : VIC_COSINE, NULL};
        struct vic_index *index = graph_of(device, &data, 8, 20);
        assert_true(index->graph.entries[0] % 10 < 8);
        vic_index_free(index);
        free(rows);
    }
    vic_device_free(device);
}

static void integer_rows_are_their_own_codes_and_nothing_is_kept_beside_them(void **state) {
    (void)state;
    enum { DIM = 50, K = 10 };
    struct vic_device *device = device_of(2);
    struct random random = {7};
    for (int round = 0; round < 6; round++) {
        struct data data = bytes_draw(&random, round % 2 ? VIC_U8 : VIC_I8, (enum vic_metric)(VIC_DOT + round / 2), DIM);
        struct vic_index *index = graph_of(device, &data, 8, 20);
        assert_int_equal(graph_host_bytes(&index->graph), (N * 8 + index->graph.entry_count) * 4);
        const struct vic_matrix queries = matrix_of(data.rows, 20, DIM, data.dtype);
        int64_t ids[2][20 * K];
        float scores[2][20 * K];
        for (int asked = 0; asked < 2; asked++) {
            struct vic_search_stats stats = {.size = sizeof stats};
            const struct vic_search_options options = {
                .size = sizeof options, .stats = &stats, .beam = 16, .codes = asked ? VIC_CODES_8 : VIC_CODES_ROWS};
            must(
                vic_index_search(index, &queries, K, &options, &(struct vic_hits){.ids = ids[asked], .scores = scores[asked]}));
            assert_true(stats.codes == VIC_CODES_ROWS && stats.rows_coded[0] == 0);
        }
        assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
        assert_memory_equal(scores[0], scores[1], sizeof scores[0]);
        vic_index_free(index);
        free(data.rows);
    }
    vic_device_free(device);
}

static int64_t hops_of(const struct vic_index *index, const void *query, int64_t dim, enum vic_dtype dtype, int32_t beam,
                       int64_t *ids) {
    struct vic_search_stats stats = {.size = sizeof stats};
    const struct vic_search_options options = {.size = sizeof options, .path = VIC_PATH_GRAPH, .stats = &stats, .beam = beam};
    const struct vic_matrix matrix = matrix_of(query, 1, dim, dtype);
    must(vic_index_search(index, &matrix, 10, &options, &(struct vic_hits){.ids = ids}));
    return stats.hops * 10000 + stats.distances;
}

/* Sums beyond 2^24, where canonical and exact ones part: a walk by whole numbers is the walk by the same bytes. Numbers that
 * are not of the rows' type are taken as what they are: with a list of all rows the answer is the exact one. */
static void float_queries_of_whole_numbers_walk_as_bytes(void **state) {
    (void)state;
    enum { DIM = 3000 };
    static const float odd[] = {0.25f, -129, 256, 1e9f, -1e9f, 0x1p-140f};
    static float query[DIM];
    struct vic_device *device = device_of(1);
    struct random random = {8};
    for (int round = 0; round < 6; round++) {
        enum vic_dtype dtype = round % 2 ? VIC_U8 : VIC_I8;
        struct data data = bytes_draw(&random, dtype, (enum vic_metric)(VIC_DOT + round / 2), DIM);
        struct vic_index *index = graph_of(device, &data, 6, 20);
        int64_t ids[10], same[10], exact[10];
        for (int64_t row = 3; row < 20; row++) {
            for (int64_t i = 0; i < DIM; i++) query[i] = element_get(dtype, data.rows, row * DIM + i);
            const void *bytes = (const char *)data.rows + row * DIM;
            assert_int_equal(hops_of(index, query, DIM, VIC_F32, 12, ids), hops_of(index, bytes, DIM, dtype, 12, same));
            for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
                const struct vic_search_options options = {.size = sizeof options, .path = VIC_PATH_SCAN};
                const struct vic_matrix matrix = matrix_of(query, 1, DIM, VIC_F32);
                query[row] = odd[i];
                (void)hops_of(index, query, DIM, VIC_F32, N, ids);
                must(vic_index_search(index, &matrix, 10, &options, &(struct vic_hits){.ids = exact}));
                assert_memory_equal(ids, exact, sizeof ids);
            }
        }
        vic_index_free(index);
        free(data.rows);
    }
    vic_device_free(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(distances_of_integer_rows_are_exact_on_every_processor, test_tell),
        cmocka_unit_test(walks_begin_in_the_middle_of_integer_rows),
        cmocka_unit_test(integer_rows_are_their_own_codes_and_nothing_is_kept_beside_them),
        cmocka_unit_test(float_queries_of_whole_numbers_walk_as_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
