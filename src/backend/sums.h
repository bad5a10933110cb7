/* What a walk through a graph asks of rows that lie anywhere: sums of codes or of integer rows, and canonical scores. */
#ifndef BACKEND_SUMS_H
#define BACKEND_SUMS_H

#include <stdint.h>

/* sums[i] = the sum of row rows[i]'s codes times the query's, for i < n, as they lie in a plane of the width: 8 bits, a byte an
 * element, stride_bytes of them; 4 bits, two a byte as backend/bound.h lays them out, 2 * stride_bytes of them. Codes are
 * taken as they are, without their offset. stride_bytes: a multiple of 64, for 65,536 dimensions at most, so that 32 bits hold
 * every sum. Who calls has asked for the rows ahead of time: asked for again here, cached ones cost half as much more. */
typedef void code_sums(const uint8_t *codes, int64_t stride_bytes, const uint32_t *rows, int64_t n, const int8_t *query,
                       int32_t *sums);

/* sums[i] = the exact sum of the products of row which[i]'s elements with the query's, or of the squares of their differences,
 * i < n, modulo 2^32, which holds every sum of at most 65,536 bytes: products of int8 as a signed number, all else unsigned.
 * Rows of dim bytes lie packed; the query is of their type. Who calls asks for the rows ahead of time, as above. */
typedef void byte_sums(const void *rows, const uint32_t *which, int64_t n, int64_t dim, const void *query, uint32_t *sums);

/* One query made ready for rows here and there. */
struct rows;
struct row_aim {
    /* scores[i]: the canonical score of row which[i], i < n. */
    void (*scores)(const struct row_aim *aim, const uint32_t *which, int64_t n, float *scores);
    const struct rows *rows;
    const void *kernels, *query; /* the backend's own */
    float *spare;                /* dim of them, for a row that has to be scaled */
    float query_norm;
    int32_t exact;
};

#endif
