/* Product quantisation (Jegou, Douze, Schmid, PAMI 2011): a row as a few bytes. Its dimensions are cut into chunks, and each
 * chunk is replaced by the number of the nearest of up to 256 centres that k-means found for it.
 *
 *     row  ->  r = (row - centroid), then r times the rotation if there is one  ->  code[j] = nearest centre to chunk j of r
 *
 * For cosine, `row` is the row divided by its norm; a row without a direction is all zeros. Chunks are as DiskANN makes them:
 * dim / chunks dimensions each, the first (dim mod chunks) of them one more.
 *
 * A query is compared with codes by a table: 256 numbers a chunk, the distance of the query's chunk from every centre. The
 * distance of a code is the table's base plus the entries of its bytes, added in float32 in the order of the chunks; entries
 * have a fixed order of operations too (backend/columns.h). So walks over codes are the same everywhere, to the bit.
 *
 * Inner products have a second form, DiskANN's (Bachrach et al., RecSys 2014), which parts with a `max_norm` say: a row is
 * divided by the largest norm and gets one more coordinate, which makes it of unit length; a query of unit length gets 0 there.
 * Squared distances then fall as inner products rise, and dim is one more than the rows'.
 *
 * The surprising rule: a byte of a damaged file may name a centre that is not there. Tables have 256 entries a chunk
 * whatever the number of centres, the ones past it infinite. */
#ifndef QUANT_PQ_H
#define QUANT_PQ_H

#include "data/corpus.h"
#include "quant/nearest.h"

enum { PQ_CENTRES = 256 };

/* What a quantiser consists of, as files have it. */
struct pq_parts {
    int64_t dim, chunks, centres;
    const uint32_t *offsets; /* chunks + 1: the first dimension of each, ascending from 0, and dim */
    const float *pivots;     /* centre c's elements at pivots + c * dim, those of chunk j from offsets[j] on */
    const float *centroid;   /* dim; subtracted before anything else */
    const float *rotation;   /* dim x dim, row-major: row vector times matrix; NULL: none */
    float max_norm;          /* what rows for inner products are divided by; 0: rows are coded as they are */
};

struct pq {
    struct pq_parts parts;  /* in memory of its own */
    struct centres *coders; /* one a chunk; copies of centre 0 at the end do not count */
    const struct column_kernels *kernels;
    struct mem *mem;
    void *memory;
    uint64_t bytes;
};

/* Dimensions of each chunk, as offsets (chunks + 1). VIC_ARGUMENT names chunks and dim when there cannot be so many. */
enum vic_status pq_chunks_check(int64_t chunks, int64_t dim);
void pq_offsets(int64_t chunks, int64_t dim, uint32_t *offsets);

/* A quantiser from its parts, which are copied. VIC_FORMAT, after "`where`: ": chunks out of order, a number of centres out
 * of range, a part that is not finite. */
enum vic_status pq_open(struct vic_device *device, const struct pq_parts *parts, const char *where, struct pq *pq);
/* Memory that it holds. */
uint64_t pq_bytes(int64_t dim, int64_t chunks, int64_t centres, bool rotation);
/* Frees what it owns and zeroes it. */
void pq_free(struct pq *pq);

/* ---- training */
struct pq_training {
    int64_t chunks;
    int64_t centres; /* 0: 256; fewer are found where a sample has fewer distinct rows */
    int64_t rounds;  /* of k-means; 0: 12 */
    uint64_t seed;
    const float *rotation; /* dim x dim, applied; NULL: none */
    float max_norm;        /* as in pq_parts */
};
/* Centres from a sample of rows (pq_train.c says which). */
enum vic_status pq_train(struct vic_device *device, const struct rows *rows, const struct pq_training *training,
                         const struct vic_progress *hook, struct pq *pq);
/* Memory that training holds meanwhile. */
uint64_t pq_train_bytes(int64_t n, int64_t dim, const struct pq_training *training, int threads);

/* ---- codes */
struct pq_error { /* squared Euclidean distances of rows from what their codes stand for */
    double mean, largest;
};
/* codes: rows->n * chunks bytes. error may be NULL. */
enum vic_status pq_encode(struct vic_device *device, const struct pq *pq, const struct rows *rows,
                          const struct vic_progress *hook, uint8_t *codes, struct pq_error *error);
/* The error of codes that are there, each of which names a centre: what pq_encode said when it made them. */
enum vic_status pq_measure(struct vic_device *device, const struct pq *pq, const struct rows *rows,
                           const struct vic_progress *hook, const uint8_t *codes, struct pq_error *error);
uint64_t pq_encode_bytes(int64_t n, int64_t dim, int threads);
/* What a code stands for: dim elements. Rows of cosine and of a max_norm come back at unit length. */
void pq_decode(const struct pq *pq, const uint8_t *code, float *row);

/* ---- searching */
struct pq_table {
    float base;
    const float *values; /* chunks * PQ_CENTRES */
};
/* Floats of room that a table and its making need. */
int64_t pq_table_room(const struct pq *pq);
/* Distances from a query (as many elements of dtype as rows have), smaller is nearer: squared, or negative inner products of a
 * query whose length does not matter. With a max_norm, whatever the metric, squared distances as said above. The table lies in
 * `room`. */
void pq_table_fill(const struct pq *pq, enum vic_metric metric, enum vic_dtype dtype, const void *query, float *room,
                   struct pq_table *table);
/* distances[i] of the code of row rows[i], i < n; codes are `chunks` bytes a row. NaN is infinity. */
void pq_distances(const struct pq_table *table, const uint8_t *codes, int64_t chunks, const uint32_t *rows, int64_t n,
                  float *distances);

/* ---- for the files beside this one: rows on their way to codes. */
/* Row `row` as float32, for cosine at unit length; with a max_norm above 0 divided by it, and a coordinate more. */
void pq_row_load(const struct rows *rows, float max_norm, int64_t row, float *values);
/* The dim of what is coded. */
static inline int64_t pq_row_dim(const struct rows *rows, float max_norm) { return rows->dim + (max_norm > 0 ? 1 : 0); }
/* In place: without the centroid, rotated. scratch: dim floats. */
void pq_row_turn(const struct pq_parts *parts, const struct column_kernels *kernels, float *values, float *scratch);

#endif
