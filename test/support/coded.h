/* One row in one plane against one query, without an index: what the tests of planes and of the bound take apart. */
#ifndef TEST_CODED_H
#define TEST_CODED_H

#include "backend/cpu/cpu.h"
#include "support/oracle.h"

/* A row made ready: its codes and the numbers kept with them. */
struct coded {
    struct rows rows; /* one row of float32, with its norm for cosine and its planes */
    float norm, scale[PLANE_COUNT], error[PLANE_COUNT], plane_norm;
    uint8_t *codes[PLANE_COUNT];
    float *query; /* as a search prepares it: scaled for cosine when needed */
    int8_t *query_codes;
    struct plane_query constants;
    int8_t *batch_codes; /* the same with codes of one byte, as batches have them */
    struct plane_query batch_constants;
    bool bounded; /* whether bound_query covers the query */
};

/* A backend of one thread that runs a table of kernels (NULL: the best). */
struct backend *coded_backend(const char *kernels, int threads);
/* values and query: dim float32, finite. Free with coded_free. */
void coded_make(struct backend *backend, enum vic_metric metric, const float *values, const float *query, int64_t dim,
                struct coded *coded);
void coded_free(struct coded *coded);
/* What the table's kernel computes for the row. */
float coded_upper(struct backend *backend, const struct coded *coded, enum plane_kind kind);
/* What a batch computes. */
float coded_batch_upper(const struct coded *coded, enum plane_kind kind);
/* The value that a code stands for, in double, for dimension i. */
double coded_value(const struct coded *coded, enum plane_kind kind, int64_t i);

#endif
