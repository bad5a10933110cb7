/* Which rows may answer: one bit a row. */
#ifndef INDEX_FILTER_H
#define INDEX_FILTER_H

#include "index/index.h"

struct vic_filter {
    const struct vic_index *index;
    uint64_t *bits; /* (n + 63) / 64 words */
    int64_t count;  /* bits set */
    struct mem *mem;
    uint64_t bytes;
};

enum vic_status filter_create(const struct vic_index *index, const int64_t *ids, int64_t count, bool exclude,
                              struct vic_filter **filter);
void filter_free(struct vic_filter *filter);

#endif
