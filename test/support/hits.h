/* For cases that say their answer in numbers: an index from a list of float32 values, and hits held against lists, on every
 * path the library has. */
#ifndef TEST_HITS_H
#define TEST_HITS_H

#include "support/scene.h"

/* n rows of dim values under ids (NULL: numbers). */
struct vic_index *index_of_values(struct vic_device *device, enum vic_metric metric, const float *values, int64_t n,
                                  int64_t dim, const int64_t *ids);
/* One query's k slots, on every path: the first `count` are ids (and scores, unless NULL), bit for bit; the rest is unused. */
void expect_hits(const struct vic_index *index, const float *query, int64_t k, int64_t count, const int64_t *ids,
                 const float *scores);
/* The same through a filter. */
void expect_hits_filtered(const struct vic_index *index, const struct vic_filter *filter, const float *query, int64_t k,
                          int64_t count, const int64_t *ids, const float *scores);
/* n vectors against nq queries: every slot of every path equals the oracle's. */
void expect_oracle(const struct vic_index *index, const struct order *order, int64_t k);
/* Indexes that `build` makes on the test's device, asked for more than they hold, by all rows and through a filter. */
void expect_short_answers(struct vic_index *(*build)(struct vic_device *device, const struct data *data));
/* Uniform in [-1, 1), seeded: the random rows and queries of the cases. */
float *values_random(uint64_t seed, int64_t count);

#endif
