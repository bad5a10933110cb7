/* The judge of `vicinal bench`: the answer to a query by the plainest loops, written from docs/numerics.md alone. */
#ifndef CLI_REFERENCE_H
#define CLI_REFERENCE_H

#include <vicinal.h>

#include <stdbool.h>
#include <stdint.h>

/* Compares the k hits of each query with the reference's, ids and the bits of scores. False: they differ, or something
 * failed; it has been said. hits are those of a search with the same index and queries (packed float32, or the index's
 * own integer type). Costs a plain pass over all rows and 16 bytes a row and query. */
bool reference_agrees(const struct vic_index *index, const struct vic_matrix *queries, int64_t k, int threads,
                      const struct vic_hits *hits);

#endif
