/* Graphs over test data. */
#include "support/graphs.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum vic_dtype query_type_of(enum vic_dtype dtype) { return dtype == VIC_I8 || dtype == VIC_U8 ? dtype : VIC_F32; }

struct vic_index *graph_of(struct vic_device *device, const struct data *data, int32_t degree, int32_t beam) {
    return graph_with_planes(device, data, degree, beam, 0);
}

struct vic_index *graph_with_planes(struct vic_device *device, const struct data *data, int32_t degree, int32_t beam,
                                    int32_t planes) {
    const struct vic_graph_options graph = {.size = sizeof graph, .degree = degree, .beam = beam, .force = 1};
    const struct vic_build_options options = {.size = sizeof options,
                                              .metric = data->metric,
                                              .dtype = data->dtype,
                                              .ids = data->ids,
                                              .planes = planes,
                                              .graph = &graph};
    const struct vic_matrix rows = matrix_of(data->rows, data->n, data->dim, data->dtype);
    struct vic_index *index = NULL;
    must(vic_index_build(device, &rows, &options, &index));
    must(vic_index_check(index, NULL));
    return index;
}

void graph_ask(const struct vic_index *index, const struct data *data, const void *queries, int64_t nq, int64_t k, int32_t beam,
               int32_t parents, int64_t *ids, float *scores) {
    struct vic_search_stats stats = {.size = sizeof stats};
    const struct vic_search_options options = {
        .size = sizeof options, .path = VIC_PATH_GRAPH, .stats = &stats, .beam = beam, .parents = parents};
    const struct vic_matrix matrix = matrix_of(queries, nq, data->dim, query_type_of(data->dtype));
    const struct vic_hits hits = {.ids = ids, .scores = scores};
    memset(ids, 0xAA, (size_t)(nq * k) * sizeof *ids);
    memset(scores, 0xAA, (size_t)(nq * k) * sizeof *scores);
    must(vic_index_search(index, &matrix, k, &options, &hits));
    assert_int_equal(stats.path, VIC_PATH_GRAPH);
}

double graph_recall(const struct vic_index *index, const struct data *data, const void *queries, int64_t nq, int64_t k,
                    int32_t beam) {
    size_t slots = (size_t)(nq * k);
    struct vic_truth truth = {nq, k, take(slots * 8), take(slots * 4)}, found = {nq, k, take(slots * 8), take(slots * 4)};
    const struct vic_search_options exact = {.size = sizeof exact, .path = VIC_PATH_SCAN};
    const struct vic_matrix matrix = matrix_of(queries, nq, data->dim, query_type_of(data->dtype));
    const struct vic_hits hits = {.ids = truth.ids, .scores = truth.distances};
    double recall = 0;
    must(vic_index_search(index, &matrix, k, &exact, &hits));
    graph_ask(index, data, queries, nq, k, beam, 0, found.ids, found.distances);
    must(vic_recall(&found, &truth, k, 0, &recall));
    free(truth.ids), free(truth.distances), free(found.ids), free(found.distances);
    return recall;
}

float *copies_random(uint64_t seed, int64_t n, int64_t dim, int64_t distinct) {
    struct random random = {seed};
    float *rows = take((size_t)(n * dim) * sizeof *rows);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < dim; j++) rows[i * dim + j] = i < distinct ? random_unit(&random) : 0;
    for (int64_t i = distinct; i < n; i++)
        memcpy(rows + i * dim, rows + random_below(&random, distinct) * dim, (size_t)dim * sizeof *rows);
    return rows;
}

int64_t seen_put(struct seen *list, int64_t count, int64_t most, uint64_t key) {
    int64_t at = count;
    for (int64_t i = 0; i < count; i++)
        if (list[i].key == key) return count;
    while (at > 0 && list[at - 1].key > key) {
        if (at < most) list[at] = list[at - 1];
        at--;
    }
    if (at < most) list[at] = (struct seen){key, false};
    return count < most ? count + 1 : most;
}
