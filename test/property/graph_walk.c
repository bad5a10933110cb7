/* Searches of drawn graphs against the definition (test/support/walker.h): the same hits byte for byte at every beam and
 * number of parents, for one query and for batches, and true statistics: hops, rows looked at, rows scored, bytes. */
#include "support/graphs.h"
#include "support/scene.h"
#include "support/walker.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const int64_t row_counts[] = {1, 2, 3, 4, 5, 10, 63, 64, 65, 255, 256, 257, 1000};
static const int64_t dims[] = {1, 2, 3, 7, 17, 97, 100, 127, 128};
static const int32_t degrees[] = {1, 2, 5, 31, 32, 33, 64, 96, 128, 512};
static const int64_t beams[] = {1, 2, 7, 33, 64, 160, 161, 400}, parents[] = {1, 2, 3, 8}, ks[] = {1, 3, 10, 40, 300};
#define PICK(random, array) array[random_below(random, (int64_t)(sizeof(array) / sizeof *(array)))]
enum { QUERIES = 6 };

struct drawn {
    struct data data;
    enum vic_dtype query_dtype;
    int64_t *ids;
    void *queries; /* of which some are rows */
};

/* None, a quarter, half or all of the rows are copies. */
static struct drawn draw(struct random *random, int64_t n) {
    const enum vic_dtype *types = type_pairs[random_below(random, TYPE_PAIRS)];
    struct drawn drawn = {.data = {.n = n,
                                   .dim = PICK(random, dims),
                                   .dtype = types[0],
                                   .metric = (enum vic_metric)(VIC_DOT + random_below(random, 3))},
                          .query_dtype = types[1]};
    int64_t copies = random_below(random, 4), count = QUERIES * drawn.data.dim;
    size_t row_bytes = (size_t)drawn.data.dim * vic_dtype_bytes(types[0]);
    char *rows = take((size_t)n * row_bytes);
    random_fill(random, random_below(random, 4) ? VALUES_UNIT : VALUES_SMALL_INT, types[0], n * drawn.data.dim, rows);
    for (int64_t i = 1; i < n; i++)
        if (random_below(random, 4) < copies + (copies == 3))
            memcpy(rows + (size_t)i * row_bytes, rows + (size_t)(copies == 3 ? 0 : random_below(random, i)) * row_bytes,
                   row_bytes);
    drawn.ids = take((size_t)n * sizeof *drawn.ids);
    for (int64_t i = 0, id = 0; i < n; i++) drawn.ids[i] = id += 1 + random_below(random, 1000);
    drawn.queries = take((size_t)count * vic_dtype_bytes(types[1]));
    random_fill(random, VALUES_UNIT, types[1], count, drawn.queries);
    for (int64_t i = 0; i < count / 2; i++)
        element_set(types[1], drawn.queries, i, element_get(types[0], rows, i % (n * drawn.data.dim)));
    drawn.data.rows = rows;
    if (random_below(random, 2)) drawn.data.ids = drawn.ids;
    return drawn;
}

static void drawn_free(struct drawn *drawn) { free(drawn->data.rows), free(drawn->ids), free(drawn->queries); }

/* What the reads of a search amount to: codes and what turns them into distances, or rows and norms; slots; rows. */
static int64_t bytes_of(const struct walker *walker, const struct vic_search_stats *stats) {
    const struct data *data = walker->data;
    int64_t row_bytes = data->dim * (int64_t)vic_dtype_bytes(data->dtype), look = row_bytes;
    if (data->metric == VIC_COSINE) look += 4;
    int64_t terms = data->metric == VIC_L2 ? 8 : 4; /* a scale, and where lengths count one of those */
    if (stats->codes == VIC_CODES_8) look = (data->dim + 63) / 64 * 64 + terms;
    if (stats->codes == VIC_CODES_4) look = (data->dim + 127) / 128 * 64 + terms;
    return stats->distances * look + stats->hops * walker->degree * 4 + stats->rows_rescored * row_bytes;
}

static void stats_check(const struct walker *walker, const struct vic_search_stats *stats, int64_t nq,
                        const struct walker_wish *wish, const struct walked *walked) {
    assert_true(stats->path == VIC_PATH_GRAPH && stats->fallback == VIC_FALLBACK_NONE && stats->fallbacks == 0);
    assert_true(stats->queries == nq && stats->beam == wish->beam && stats->parents == wish->parents);
    assert_int_equal(stats->codes, wish->codes);
    assert_int_equal(stats->hops, walked->hops);
    assert_in_range(stats->distances, walked->met, walked->offered);
    if (walker->data->n <= 1000) assert_int_equal(stats->distances, walked->met); /* so few rows are all remembered */
    assert_int_equal(stats->rows_coded[0], wish->codes == VIC_CODES_8 ? stats->distances : 0);
    assert_int_equal(stats->rows_coded[1], wish->codes == VIC_CODES_4 ? stats->distances : 0);
    assert_int_equal(stats->rows_rescored, walked->kept);
    assert_int_equal(stats->bytes_read, bytes_of(walker, stats));
}

/* Queries [first, first + nq) in one call. */
static void search_check(const struct vic_index *index, const struct walker *walker, const struct drawn *drawn, int64_t first,
                         int64_t nq, int64_t k, struct walker_wish wish) {
    const struct data *data = walker->data;
    size_t slots = (size_t)(nq * k), query_bytes = (size_t)data->dim * vic_dtype_bytes(drawn->query_dtype);
    int64_t *ids = take(slots * 8), *right_ids = take(slots * 8), keep = k < data->n ? k : data->n;
    float *scores = take(slots * 4), *right_scores = take(slots * 4);
    int32_t counts[QUERIES];
    struct walked walked = {0};
    struct vic_search_stats stats = {.size = sizeof stats};
    const struct vic_search_options options = {.size = sizeof options,
                                               .path = VIC_PATH_GRAPH,
                                               .stats = &stats,
                                               .beam = (int32_t)wish.beam,
                                               .parents = (int32_t)wish.parents,
                                               .codes = wish.codes};
    const char *queries = (const char *)drawn->queries + (size_t)first * query_bytes;
    const struct vic_matrix matrix = matrix_of(queries, nq, data->dim, drawn->query_dtype);
    const struct vic_hits hits = {.ids = ids, .scores = scores, .counts = counts};
    memset(ids, 0xAA, slots * 8), memset(scores, 0xAA, slots * 4);
    must(vic_index_search(index, &matrix, k, &options, &hits));
    if (wish.beam < keep) wish.beam = keep;
    for (int64_t j = 0; j < nq; j++)
        assert_int_equal(counts[j], walker_search(walker, queries + (size_t)j * query_bytes, drawn->query_dtype, k, &wish,
                                                  right_ids + j * k, right_scores + j * k, &walked));
    assert_memory_equal(ids, right_ids, slots * 8);
    assert_memory_equal(scores, right_scores, slots * 4);
    stats_check(walker, &stats, nq, &wish, &walked);
    free(ids), free(right_ids), free(scores), free(right_scores);
}

static void searches_check(struct random *random, const struct vic_index *index, const struct drawn *drawn, int32_t degree) {
    struct walker walker = walker_of(index, &drawn->data);
    for (int round = 0; round < 12; round++) {
        int64_t nq = round % 3 ? 1 : QUERIES, first = nq == 1 ? random_below(random, QUERIES) : 0, k = PICK(random, ks);
        struct walker_wish wish = {(enum vic_codes)(VIC_CODES_ROWS + round / 3 % 3), PICK(random, beams),
                                   PICK(random, parents)};
        if (!walker.plane4.codes) wish.codes = VIC_CODES_ROWS; /* integers */
        test_says("n %d, dim %d, %s by %s, %s, ids %d, degree %d, query %d of %d, k %d, codes %d, beam %d, parents %d",
                  (int)drawn->data.n, (int)drawn->data.dim, vic_dtype_name(drawn->data.dtype),
                  vic_dtype_name(drawn->query_dtype), vic_metric_name(drawn->data.metric), drawn->data.ids != NULL, degree,
                  (int)first, (int)nq, (int)k, (int)wish.codes, (int)wish.beam, (int)wish.parents);
        search_check(index, &walker, drawn, first, nq, k, wish);
    }
    walker_free(&walker);
}

static void hits_and_statistics_are_those_of_the_definition(void **state) {
    (void)state;
    struct random random = test_random(81);
    struct vic_device *device = device_of(2);
    for (int round = 0; round < 120; round++) {
        struct drawn drawn = draw(&random, PICK(&random, row_counts));
        int32_t degree = PICK(&random, degrees);
        struct vic_index *index = graph_with_planes(device, &drawn.data, degree, 20, VIC_PLANES_4);
        searches_check(&random, index, &drawn, degree);
        vic_index_free(index);
        drawn_free(&drawn);
    }
    vic_device_free(device);
    test_done();
}

/* More rows than any memory of visited ones: some are looked at again, which the statistics say and the hits do not show. */
static void what_a_walk_forgets_cannot_be_seen_in_its_hits(void **state) {
    (void)state;
    struct random random = test_random(82);
    struct vic_device *device = device_of(2);
    for (int round = 0; round < 2; round++) {
        struct drawn drawn = draw(&random, 20000);
        drawn.data.metric = round ? VIC_DOT : VIC_L2;
        struct vic_index *index = graph_with_planes(device, &drawn.data, 16, 20, VIC_PLANES_4);
        searches_check(&random, index, &drawn, 16);
        vic_index_free(index);
        drawn_free(&drawn);
    }
    vic_device_free(device);
    test_done();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(hits_and_statistics_are_those_of_the_definition, test_tell),
        cmocka_unit_test_teardown(what_a_walk_forgets_cannot_be_seen_in_its_hits, test_tell),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
