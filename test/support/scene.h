/* A drawn situation of a property test: rows with copies and zero rows among them, ids, queries of which some are rows, and
 * the oracle's whole order. Everything follows from one seed, which VICINAL_TEST_SEED replaces and a failing test prints. */
#ifndef TEST_SCENE_H
#define TEST_SCENE_H

#include "support/oracle.h"

enum scene_ids {
    IDS_NONE,      /* row numbers */
    IDS_ASCENDING, /* sparse, up to 2^62, in order */
    IDS_SHUFFLED,  /* the same in random order */
    IDS_COUNT
};

struct shape {
    int64_t n, nq, dim;
    enum vic_dtype dtype, query_dtype;
    enum vic_metric metric;
    enum values values;
    enum scene_ids ids;
};

struct scene {
    struct data data;
    int64_t *ids; /* data.ids when there are any */
    void *queries;
    struct order order;
};

/* The order borrows from the scene, which must therefore stay where it is. */
void scene_make(struct random *random, const struct shape *shape, struct scene *scene);
void scene_free(struct scene *scene);

/* Rows' and queries' types that go together: every pair there is. */
extern const enum vic_dtype type_pairs[][2];
enum { TYPE_PAIRS = 9 };

/* The run's seed, and a generator for one test of it. */
struct random test_random(uint64_t test);
/* Remembers what is tried now. A teardown of test_tell prints it when the test ends without test_done. */
void test_says(const char *format, ...) __attribute__((format(printf, 1, 2)));
void test_says_shape(const struct shape *shape, const char *kernels, int32_t threads);
void test_done(void);
int test_tell(void **state);

/* An index with given planes (enum vic_planes added up); integer rows get none. */
struct vic_index *index_with_planes(struct vic_device *device, const struct data *data, int32_t planes);
/* Every path there is, beginning with 0, which leaves the choice to the library. */
extern const enum vic_path paths[];
enum { PATHS = 4 };

/* A CPU device that runs a table of kernels and those below it; NULL: the best. */
struct vic_device *device_with(const char *kernels, int32_t threads);
/* The names of the tables that this processor can run, ended by NULL. */
const char *const *kernels_here(void);

#endif
