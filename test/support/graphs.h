/* Indexes with graphs for tests, whatever their size, and the graph inside one. */
#ifndef TEST_GRAPHS_H
#define TEST_GRAPHS_H

#include "index/index.h"
#include "support/oracle.h"

/* Degree and beam 0: the defaults. The index is checked: every row reached, no slot wrong. */
struct vic_index *graph_of(struct vic_device *device, const struct data *data, int32_t degree, int32_t beam);
/* The same with planes beside those that a graph brings (enum vic_planes; 0: none), where the rows can have them. */
struct vic_index *graph_with_planes(struct vic_device *device, const struct data *data, int32_t degree, int32_t beam,
                                    int32_t planes);
/* The k nearest of nq packed queries (of the rows' type for integers, else float32) by the graph. */
void graph_ask(const struct vic_index *index, const struct data *data, const void *queries, int64_t nq, int64_t k, int32_t beam,
               int32_t parents, int64_t *ids, float *scores);
/* The share of the k exact nearest that the graph finds, equal scores counting as found. */
double graph_recall(const struct vic_index *index, const struct data *data, const void *queries, int64_t nq, int64_t k,
                    int32_t beam);
/* n rows of `distinct` different ones, in no order: random, uniform in [-1, 1). */
float *copies_random(uint64_t seed, int64_t n, int64_t dim, int64_t distinct);
/* A walk's list, ascending, by its definition: the keys of rows that were seen (walk_key), and which were expanded. */
struct seen {
    uint64_t key;
    bool expanded;
};
/* Keeps the `most` smallest of `count` and one more, each once; how many those are. */
int64_t seen_put(struct seen *list, int64_t count, int64_t most, uint64_t key);
enum vic_dtype query_type_of(enum vic_dtype dtype);

#endif
