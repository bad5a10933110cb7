/* A search through a graph written down once more, from docs/numerics.md and docs/format.md alone: it reads slots and codes
 * from the bytes of a saved file, keeps its list as an array and what it has met as a set that forgets nothing, and shares no
 * code with src/. It says what a search must answer, and what it must say of its work. */
#ifndef TEST_WALKER_H
#define TEST_WALKER_H

#include "support/oracle.h"
#include "support/scratch.h"

/* A plane taken apart: dim codes a row, without their offset. Not there when codes is NULL. */
struct walker_codes {
    int8_t *codes;
    float *scale, *square;
};

struct walker {
    struct blob file;
    const struct data *data; /* borrowed */
    const uint32_t *slots, *entries;
    int64_t degree, entry_count;
    struct walker_codes plane8, plane4;
};

/* Of an index with a graph over the data, which it saves into the scratch folder. */
struct walker walker_of(const struct vic_index *index, const struct data *data);
void walker_free(struct walker *walker);

struct walked {
    int64_t hops;    /* rows whose neighbours were looked at */
    int64_t met;     /* different rows whose codes were looked at */
    int64_t offered; /* the same with each repeat counted: the most that a search which remembers nothing looks at */
    int64_t kept;    /* rows in the list at the end */
};

/* What to walk over, and how. beam is at least min(k, n). */
struct walker_wish {
    enum vic_codes codes;
    int64_t beam, parents;
};

/* The k nearest for one packed query (VIC_F32 or the rows' type), unused slots filled; returns how many are real. What the
 * walk took is added to *walked. */
int32_t walker_search(const struct walker *walker, const void *query, enum vic_dtype query_dtype, int64_t k,
                      const struct walker_wish *wish, int64_t *ids, float *scores, struct walked *walked);

#endif
