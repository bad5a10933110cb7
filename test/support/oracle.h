/* The oracle: what every search must answer, by plain loops and the library's sort, sharing no code with src/.
 *
 * It is the definition of docs/numerics.md written out once more: 128 accumulators, the halving tree,
 * exact integers, power-of-two scaling for cosine, better score first and equal scores by the smaller id. Slow on purpose. */
#ifndef TEST_ORACLE_H
#define TEST_ORACLE_H

#include "support/devices.h"
#include "vicinal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A data set of a test: packed rows of one type, their ids (NULL: numbers). */
struct data {
    void *rows;
    int64_t n, dim;
    enum vic_dtype dtype;
    enum vic_metric metric;
    const int64_t *ids;
};

/* Canonical score of row `row` of the data for a packed query of `query_dtype` (VIC_F32 or the rows' type). */
float oracle_score(const struct data *data, int64_t row, const void *query, enum vic_dtype query_dtype);

/* The k best for one query among the rows that `allowed` lets pass (NULL: all): ids, scores, and how many are real;
 * the rest is filled as semantics say. */
int32_t oracle_search(const struct data *data, const void *query, enum vic_dtype query_dtype, int64_t k, const bool *allowed,
                      int64_t *ids, float *scores);

/* ---- data for tests: seeded, the same everywhere */
struct random {
    uint64_t state;
};
uint64_t random_next(struct random *random);
int64_t random_below(struct random *random, int64_t bound);
float random_unit(struct random *random);   /* [-1, 1) */
float random_normal(struct random *random); /* about a unit Gaussian */

/* Kinds of values that rows are made of; random_fill picks what a type can hold. */
enum values {
    VALUES_UNIT,      /* uniform in [-1, 1) */
    VALUES_SMALL_INT, /* -3 .. 3 (0 .. 6 for u8): ties by the thousand */
    VALUES_WILD,      /* denormals, zeros of both signs, huge and tiny, any finite bits */
    VALUES_COUNT
};
/* count elements of dtype at target. */
void random_fill(struct random *random, enum values values, enum vic_dtype dtype, int64_t count, void *target);

/* One element, converted exactly from or rounded to the type; for tests that say what their rows are. */
void element_set(enum vic_dtype dtype, void *vector, int64_t index, float value);
float element_get(enum vic_dtype dtype, const void *vector, int64_t index);

/* An index over the data. */
struct vic_index *index_of(struct vic_device *device, const struct data *data);
/* The matrix over nq packed vectors. */
struct vic_matrix matrix_of(const void *vectors, int64_t nq, int64_t dim, enum vic_dtype dtype);

/* Searches and holds ids, scores and counts against the oracle, byte by byte; buffers are filled with 0xAA before. */
void check_search(const struct vic_index *index, const struct data *data, const void *queries, int64_t nq,
                  enum vic_dtype query_dtype, int64_t k);

/* The whole order of a data set for each of nq packed queries: what every k, threshold, filter and batch is a part of. The
 * oracle is slow, so that a test asks it once and holds many answers against what it said. */
struct order {
    const struct data *data;
    struct vic_matrix queries; /* packed; borrowed like the data */
    int64_t nq;
    int64_t *ids;    /* query j's at j * data->n, the best first */
    float *scores;   /* as many */
    int32_t *counts; /* how many of them are real: data->n without a filter */
};
struct order order_of(const struct data *data, const void *queries, int64_t nq, enum vic_dtype query_dtype);
/* The part of it that a list of ids lets pass, or does not. */
struct order order_filtered(const struct order *order, const int64_t *ids, int64_t count, bool exclude);
void order_free(struct order *order);
/* One query's k slots against the order of query j: hits, then unused slots, each byte. */
void order_check_hits(const struct order *order, int64_t j, int64_t k, const int64_t *ids, const float *scores, int32_t count);
/* A search whose query i is the order's (first + i) mod nq, into buffers filled with 0xAA before. */
void order_check_search(const struct order *order, const struct vic_index *index, const struct vic_matrix *queries,
                        int64_t first, int64_t k, const struct vic_search_options *options);
/* A threshold search of all its queries. */
void order_check_within(const struct order *order, const struct vic_index *index, float score,
                        const struct vic_search_options *options);

/* malloc that ends the test instead of returning NULL. */
void *take(size_t bytes);

#endif
