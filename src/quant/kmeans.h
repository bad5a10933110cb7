/* k-means: a few centres that stand for many points. Deterministic: the same centres, byte for byte, for any number of
 * threads and on every processor.
 *
 * Seeds are drawn as k-means++ does (Arthur and Vassilvitskii, SODA 2007) among 8,192 evenly spaced points (or two a centre
 * where that is more), each with a probability proportional to its squared distance from the seeds there are; a point that
 * lies on a seed is never drawn, so as many distinct points as there are centres end as centres. Then Lloyd's rounds: every
 * point to its nearest centre (quant/nearest.h), every centre to the mean of its points, until nothing changes or the rounds
 * are over. Sums are doubles, point after point.
 *
 * The surprising rule: a centre that lost all its points takes over the point that is farthest from its own centre (the
 * smaller point among equals), as long as one is left that is not on its centre and not alone. What then still is empty
 * goes: fewer distinct points than centres make fewer centres. */
#ifndef QUANT_KMEANS_H
#define QUANT_KMEANS_H

#include "backend/columns.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/thread.h"

enum { KMEANS_CENTRES_MAX = 4096 };

struct kmeans {
    const float *points; /* finite; point i at points + i * stride */
    int64_t n, dim, stride;
    int64_t centres; /* 1 to KMEANS_CENTRES_MAX */
    int64_t rounds;  /* most of them, at least 1 */
    uint64_t seed, stream;
    struct progress *progress; /* a step a round, from progress_base on; NULL: none */
    int64_t progress_base;
};

/* Centres into `found` (room for `centres` of them, dim packed elements each), how many into *count: 0 for no points.
 * pool NULL: in the caller's thread. */
enum vic_status kmeans_run(const struct kmeans *task, const struct column_kernels *kernels, struct thread_pool *pool,
                           struct mem *mem, float *found, int64_t *count);
/* Memory that it holds meanwhile. */
uint64_t kmeans_bytes(int64_t n, int64_t dim, int64_t centres);

#endif
