/* Walks over every kind of points: each is the walk that the definition names, over distances taken with plain loops from the
 * codes or the rows; the same hits from every table of kernels; the exact answer when the list holds all rows. */
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

enum { N_MOST = 400, QUERIES = 4, K = 10 };

static const int64_t row_counts[] = {1, 2, 3, 10, 64, 65, 257, N_MOST};
static const int64_t dims[] = {1, 2, 7, 63, 64, 65, 127, 128, 129, 384};
#define PICK(random, array) array[random_below(random, (int64_t)(sizeof(array) / sizeof *(array)))]

/* Codes of 4 bits too, where the rows may have them, and product codes of chunks of up to five dimensions. */
static struct vic_index *coded_graph(struct vic_device *device, const struct data *data, int32_t degree) {
    const struct vic_graph_options graph = {
        .size = sizeof graph, .degree = degree, .beam = 40, .force = 1, .pq_chunks = (int32_t)(data->dim + 4) / 5};
    const struct vic_build_options options = {
        .size = sizeof options, .metric = data->metric, .dtype = data->dtype, .planes = VIC_PLANES_4, .graph = &graph};
    const struct vic_matrix rows = matrix_of(data->rows, data->n, data->dim, data->dtype);
    struct vic_index *index = NULL;
    must(vic_index_build(device, &rows, &options, &index));
    return index;
}

/* Rows of any type with copies, zero rows, and for cosine rows that are scaled before they are scored. */
static struct data rows_draw(struct random *random, enum vic_dtype dtype) {
    struct data data = {.n = PICK(random, row_counts),
                        .dim = PICK(random, dims),
                        .dtype = dtype,
                        .metric = (enum vic_metric)(1 + random_below(random, 3))};
    size_t row_bytes = (size_t)data.dim * vic_dtype_bytes(dtype);
    char *rows = take((size_t)data.n * row_bytes);
    random_fill(random, VALUES_UNIT, dtype, data.n * data.dim, rows);
    for (int64_t i = 1; i < data.n; i++) {
        int64_t chance = random_below(random, 12);
        if (chance == 0) memset(rows + (size_t)i * row_bytes, 0, row_bytes);
        if (chance == 1) memcpy(rows + (size_t)i * row_bytes, rows + (size_t)random_below(random, i) * row_bytes, row_bytes);
        float factor = chance == 2 ? 0x1p60f : chance == 3 ? 0x1p-60f : 1;
        for (int64_t j = 0; data.metric == VIC_COSINE && dtype == VIC_F32 && j < data.dim; j++)
            ((float *)rows)[i * data.dim + j] *= factor;
    }
    data.rows = rows;
    return data;
}

/* ---- distances by plain loops */

static float code_distance(const struct plane *plane, enum plane_kind kind, uint32_t row, const float *query, int64_t dim,
                           bool euclidean) {
    float largest = 0;
    for (int64_t i = 0; i < dim; i++) largest = fmaxf(largest, fabsf(query[i]));
    float inverse = largest > 0 ? 127 / largest : 0, scale = plane->scale[row];
    int64_t sum = 0, square = 0;
    for (int64_t i = 0; i < dim; i++) {
        int code = plane->codes[row * plane->stride_bytes + plane_byte(kind, i)] >> plane_shift(kind, i);
        code = (code & (kind == PLANE_8 ? 255 : 15)) - plane_offset(kind);
        sum += code * (int64_t)rintf(query[i] * inverse);
        square += code * code;
    }
    if (!euclidean) return -scale * (float)sum;
    return -2 * (largest / 127) * scale * (float)sum + scale * scale * (float)square;
}

/* Chunk after chunk; within one, element after element. */
static float product_distance(const struct graph_product *product, enum vic_metric metric, uint32_t row, const float *query) {
    const struct pq_parts *parts = &product->pq.parts;
    float largest = 0;
    double factor = -1;
    for (int64_t i = 0; i < parts->dim; i++) largest = fmaxf(largest, fabsf(query[i]));
    while (largest > 0 && largest < 1) largest *= 2, factor *= 2;
    while (largest >= 2) largest /= 2, factor /= 2;
    volatile float distance = 0;
    for (int64_t i = 0; metric != VIC_L2 && i < parts->dim; i++) {
        volatile float product_of_both = (float)(factor * (double)query[i]) * parts->centroid[i];
        distance = distance + product_of_both;
    }
    for (int64_t j = 0; j < parts->chunks; j++) {
        const float *pivot = parts->pivots + product->codes[row * (uint32_t)parts->chunks + (uint32_t)j] * parts->dim;
        volatile float entry = 0;
        for (int64_t i = parts->offsets[j]; i < parts->offsets[j + 1]; i++) {
            volatile float moved = query[i] - parts->centroid[i];
            volatile float apart = moved - pivot[i];
            volatile float term = metric == VIC_L2 ? apart * apart : (float)(factor * (double)query[i]) * pivot[i];
            entry = entry + term;
        }
        distance = distance + entry;
    }
    return distance;
}

static float distance_of(const struct vic_index *index, const struct data *data, enum vic_codes codes, uint32_t row,
                         const void *query, enum vic_dtype type) {
    const struct rows *rows = &index->corpus.rows;
    if (codes == VIC_CODES_ROWS) {
        float score = oracle_score(data, row, query, type);
        return data->metric == VIC_L2 ? score : -score;
    }
    enum plane_kind kind = codes == VIC_CODES_4 ? PLANE_4 : PLANE_8;
    float values[512];
    for (int64_t i = 0; i < data->dim; i++) values[i] = element_get(type, query, i);
    if (codes == VIC_CODES_PQ) return product_distance(index->graph.product, data->metric, row, values);
    return code_distance(&rows->planes[kind], kind, row, values, data->dim, data->metric == VIC_L2);
}

/* ---- the walk by its definition, with a list that is longer than the beam */

static int64_t walk_plainly(const struct graph *graph, const float *distances, int64_t beam, int64_t most, struct seen *list) {
    int64_t count = 0;
    for (int64_t i = 0; i < graph->entry_count; i++)
        count = seen_put(list, count, most, walk_key(distances[graph->entries[i]], graph->entries[i]));
    for (;;) {
        int64_t at = 0;
        while (at < count && at < beam && list[at].expanded) at++;
        if (at == count || at == beam) return count;
        list[at].expanded = true;
        const uint32_t *slots = graph_row(graph, walk_key_row(list[at].key));
        for (int64_t i = 0; i < graph->degree && slots[i] != slot_unused; i++)
            count = seen_put(list, count, most, walk_key(distances[slots[i]], slots[i]));
    }
}

/* The hits that the definition gives: the list's rows by their canonical scores. */
static int64_t hits_plainly(const struct vic_index *index, const struct data *data, enum vic_codes codes, const void *query,
                            enum vic_dtype type, int64_t beam, int64_t *ids, int64_t *kept) {
    float distances[N_MOST];
    struct seen list[N_MOST];
    uint64_t keys[N_MOST];
    for (int64_t row = 0; row < data->n; row++) distances[row] = distance_of(index, data, codes, (uint32_t)row, query, type);
    int64_t most = codes == VIC_CODES_PQ ? 2 * beam : codes == VIC_CODES_4 && beam < 32 + beam / 4 ? 32 + beam / 4 : beam;
    *kept = walk_plainly(&index->graph, distances, beam, most, list);
    for (int64_t i = 0; i < *kept; i++) {
        uint32_t row = walk_key_row(list[i].key);
        keys[i] = key_make(oracle_score(data, row, query, type), row, data->metric == VIC_L2);
    }
    keys_sort(keys, *kept, NULL);
    for (int64_t i = 0; i < K; i++) ids[i] = i < *kept ? (int64_t)key_row(keys[i]) : -1;
    return *kept < K ? *kept : K;
}

static void walk_check(const struct vic_index *index, const struct data *data, enum vic_codes codes, const char *queries,
                       enum vic_dtype type, int32_t beam) {
    int64_t ids[QUERIES * K], expected[K], kept = 0, all = 0;
    float scores[QUERIES * K];
    int32_t counts[QUERIES];
    struct vic_search_stats stats = {.size = sizeof stats};
    const struct vic_search_options options = {
        .size = sizeof options, .path = VIC_PATH_GRAPH, .stats = &stats, .beam = beam, .codes = codes};
    const struct vic_matrix matrix = matrix_of(queries, QUERIES, data->dim, type);
    must(vic_index_search(index, &matrix, K, &options, &(struct vic_hits){.ids = ids, .scores = scores, .counts = counts}));
    for (int64_t j = 0; j < QUERIES; j++) {
        const char *query = queries + j * data->dim * (int64_t)vic_dtype_bytes(type);
        assert_int_equal(counts[j], hits_plainly(index, data, codes, query, type, beam, expected, &kept));
        assert_memory_equal(ids + j * K, expected, sizeof expected);
        for (int64_t i = 0; i < counts[j]; i++) {
            float score = oracle_score(data, ids[j * K + i], query, type);
            assert_memory_equal(&scores[j * K + i], &score, sizeof score);
        }
        all += kept;
    }
    assert_int_equal(stats.codes, codes);
    assert_int_equal(stats.rows_rescored, all);
    assert_int_equal(stats.rows_coded[0], codes == VIC_CODES_8 ? stats.distances : 0);
    assert_int_equal(stats.rows_coded[1], codes == VIC_CODES_4 ? stats.distances : 0);
}

static void every_kind_walks_as_its_definition_says_from_every_processor(void **state) {
    (void)state;
    struct random random = test_random(81);
    for (int round = 0; round < 36; round++) {
        const enum vic_dtype *types = type_pairs[round % TYPE_PAIRS];
        struct data data = rows_draw(&random, types[0]);
        int32_t degree = 1 + (int32_t)random_below(&random, 12), beam = K + (int32_t)random_below(&random, 60);
        char *queries = take((size_t)(QUERIES * data.dim) * vic_dtype_bytes(types[1]));
        random_fill(&random, VALUES_UNIT, types[1], QUERIES * data.dim, queries);
        const char *const *tables = kernels_here();
        for (int t = 0; tables[t]; t++) {
            test_says("round %d: n %d, dim %d, type %d, queries %d, metric %d, degree %d, beam %d, %s", round, (int)data.n,
                      (int)data.dim, (int)data.dtype, (int)types[1], (int)data.metric, degree, beam, tables[t]);
            struct vic_device *device = device_with(tables[t], 1 + t % 3);
            struct vic_index *index = coded_graph(device, &data, degree);
            walk_check(index, &data, VIC_CODES_ROWS, queries, types[1], beam);
            for (enum vic_codes codes = VIC_CODES_8; data.dtype <= VIC_BF16 && codes <= VIC_CODES_4; codes++)
                walk_check(index, &data, codes, queries, types[1], beam);
            walk_check(index, &data, VIC_CODES_PQ, queries, types[1], beam);
            vic_index_free(index);
            vic_device_free(device);
        }
        free(queries), free(data.rows);
    }
    test_done();
}

static void codes_that_are_not_there_are_refused(void **state) {
    (void)state;
    struct vic_device *device = device_of(1);
    uint8_t rows[64 * 8];
    for (int i = 0; i < 64 * 8; i++) rows[i] = (uint8_t)(i * 37);
    struct data data = {rows, 64, 8, VIC_U8, VIC_L2, NULL};
    struct vic_index *index = graph_of(device, &data, 8, 20);
    const struct vic_matrix query = matrix_of(rows, 1, 8, VIC_U8);
    int64_t ids[K];
    struct vic_search_options options = {.size = sizeof options, .codes = VIC_CODES_4};
    assert_int_equal(vic_index_search(index, &query, K, &options, &(struct vic_hits){.ids = ids}), VIC_UNSUPPORTED);
    assert_string_equal(vic_last_error(), "expected a graph that can be walked over codes 4, found one for rows");
    options.path = VIC_PATH_SCAN; /* where nothing is walked nothing is refused */
    must(vic_index_search(index, &query, K, &options, &(struct vic_hits){.ids = ids}));
    options.path = 0, options.codes = (enum vic_codes)99;
    assert_int_equal(vic_index_search(index, &query, K, &options, &(struct vic_hits){.ids = ids}), VIC_ARGUMENT);
    vic_index_free(index);
    vic_device_free(device);
}

static void a_query_that_is_not_finite_is_refused_whatever_is_walked_over(void **state) {
    (void)state;
    struct vic_device *device = device_of(1);
    float *rows = copies_random(5, 100, 16, 100), query[16] = {0};
    struct data data = {rows, 100, 16, VIC_F32, VIC_COSINE, NULL};
    struct vic_index *index = coded_graph(device, &data, 8);
    const struct vic_matrix matrix = matrix_of(query, 1, 16, VIC_F32);
    int64_t ids[K];
    for (enum vic_codes codes = VIC_CODES_ROWS; codes <= VIC_CODES_PQ; codes++)
        for (int kind = 0; kind < 2; kind++) {
            const struct vic_search_options options = {.size = sizeof options, .codes = codes};
            query[3] = kind ? NAN : -INFINITY;
            assert_int_equal(vic_index_search(index, &matrix, K, &options, &(struct vic_hits){.ids = ids}), VIC_NOT_FINITE);
        }
    vic_index_free(index);
    vic_device_free(device);
    free(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_kind_walks_as_its_definition_says_from_every_processor, test_tell),
        cmocka_unit_test(codes_that_are_not_there_are_refused),
        cmocka_unit_test(a_query_that_is_not_finite_is_refused_whatever_is_walked_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
