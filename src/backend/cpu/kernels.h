/* The CPU's kernels: pointers and sizes in, numbers out; no allocation, no error path, no threads.
 *
 * Each ISA file exports one constant table; pick.c copies the scalar table and lets every table that this processor can
 * run overwrite the slots it fills (NULL keeps what is there). The scalar table is complete: it is the reference, what an
 * old processor runs, and what every other kernel must equal by memcmp. Tests and benchmarks walk the tables, so a new
 * kernel needs no edit in them.
 *
 * All float32 results follow the canonical order of docs/numerics.md: 128 accumulators by fma, then the halving tree.
 * Dimensions past `dim` in the last chunk of 128 count as zeros; whole blocks of 16 past it may be skipped, since adding
 * +0 changes nothing but the sign of a zero, and the final `+ 0.0f` clears that. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include "backend/bound.h"
#include "backend/columns.h"
#include "backend/sums.h"

/* What a kernel sums; cosine is OP_DOT and a division afterwards. */
enum kernel_op { OP_DOT, OP_L2, OP_COUNT };
enum { DTYPE_COUNT = VIC_U8 + 1 }; /* arrays are indexed by vic_dtype; slot 0 is unused */

/* scores[i] = canonical op of row i (packed, `dim` elements of the slot's type) and the float32 query, for i < n.
 * Streams: every row is read once, in order, with software prefetch where it helps. No padding behind rows or query may
 * be read. */
typedef void scan_kernel(const void *rows, int64_t n, int64_t dim, const void *query, float *scores);

/* The same for rows which[0..n), wherever they lie; those to come are asked for ahead of time. */
typedef void gather_kernel(const void *rows, const uint32_t *which, int64_t n, int64_t dim, const void *query, float *scores);

/* A block of queries against a tile of rows, the arithmetic units the limit. Both sides are packed first, by the same
 * table's functions, into the order that `run` wants; what that order is, is the table's own business.
 *   rows:    `row_tile` rows a tile; a tile of fewer rows is padded with zero rows by pack_rows.
 *   queries: `query_tile` queries a group, groups one after another; the last one is padded with zero queries.
 * run computes scores[q * ld + r] for all r < row_tile and all q < nq rounded up to query_tile: one packed row tile
 * against nq packed queries. ld >= row_tile, a multiple of 16; scores aligned to 64. */
struct tile_kernel {
    int64_t row_tile, query_tile;
    /* Bytes of one packed row tile and of one packed query group, multiples of 64. */
    int64_t (*row_tile_bytes)(int64_t dim);
    int64_t (*query_group_bytes)(int64_t dim);
    void (*pack_rows)(const void *rows, int64_t n, int64_t dim, void *packed); /* 1 <= n <= row_tile rows of the slot's type */
    void (*pack_queries)(const void *queries, int64_t nq, int64_t dim, void *packed); /* 1 <= nq <= query_tile */
    void (*run)(const void *packed_rows, const void *packed_queries, int64_t nq, int64_t dim, float *scores, int64_t ld);
};

/* Rows whose scores are looked at together in a batch: wide enough that the look costs little beside the arithmetic. */
enum { GROUP_ROWS = 64 };

/* Rows of a plane and a block of queries that meets them. */
struct plane_group {
    const struct plane *plane;
    enum plane_kind kind;
    const float *norms;    /* of all rows; NULL: R = 0 */
    int64_t first, n, dim; /* rows first .. first + n - 1, n <= GROUP_ROWS */
    const void *queries;   /* packed */
    int64_t nq;
    const float *least; /* a query; as many as there are with nq rounded up to 16 can be read, aligned to 64 */
    void *decoded;      /* decoded_bytes of room, aligned to 64 */
};

/* Batches on planes, the arithmetic units the limit: queries of one byte a dimension (plane_query.high NULL), packed once by
 * the same table's function. A query without codes (low NULL) has constants of 0. */
struct plane_tile {
    int64_t (*queries_bytes)(int64_t nq, int64_t dim); /* of packed queries; they are aligned to 64 */
    int64_t (*decoded_bytes)(int64_t dim);
    void (*pack)(const struct plane_query *queries, int64_t nq, enum plane_kind kind, int64_t dim, void *packed);
    /* Pairs whose `upper` (as in plane_kernels, A = 0) is not below the query's least, NaN included, in no order: query *
     * GROUP_ROWS + row - first, and `upper`. Room for n * nq. Returns how many. */
    int64_t (*run)(const struct plane_group *group, uint32_t *pairs, float *uppers);
};

/* Planes (backend/bound.h). A table that has any of these has all. */
struct plane_kernels {
    /* upper[i] for rows first .. first + n - 1, in exactly this order of float32 operations, A and B the sums over
     * dimensions of (code - offset) * high and (code - offset) * low, exact in 32 bits; norms NULL: R = 0.
     *     m = fma(256, A, B)   slack = fma(alpha, error, fma(R, fma(kappa, R, beta), gamma))   upper = fma(m * scale, step,
     * slack) */
    void (*scan[PLANE_COUNT])(const struct plane *plane, const float *norms, int64_t first, int64_t n, int64_t dim,
                              const struct plane_query *query, float *upper);
    /* Codes of one row at `step` (float32 values times `inverse`, to nearest even, held to the width) into a stride of bytes,
     * and the sum of squares of what they leave over, fma(-step, code, value) in double: 16 sums by dimension mod 16, then
     * the halving tree. codes NULL: only the sum. */
    double (*code[PLANE_COUNT])(const float *values, int64_t dim, double step, float inverse, uint8_t *codes);
    const struct plane_tile *tile; /* batches */
};

struct kernels {
    const char *name; /* "scalar", "avx2", "avx512", "avx512vnni" */
    /* Whether this processor has what the table needs. The scalar table says true. */
    bool (*available)(void);

    /* Float32 query (packed), rows of any type. */
    scan_kernel *scan[DTYPE_COUNT][OP_COUNT];
    /* Query of the rows' own integer type: the exact sum, rounded once to float32. VIC_I8 and VIC_U8 only. */
    scan_kernel *scan_exact[DTYPE_COUNT][OP_COUNT];
    /* Both for rows that lie anywhere; the exact sums as they are, for whoever goes on with integers. */
    gather_kernel *gather[DTYPE_COUNT][OP_COUNT];
    byte_sums *gather_exact[DTYPE_COUNT][OP_COUNT];

    /* The same two, many queries at once: float32 queries for every type; queries of the rows' integer type. */
    const struct tile_kernel *tile[DTYPE_COUNT][OP_COUNT];
    const struct tile_kernel *tile_exact[DTYPE_COUNT][OP_COUNT];

    /* In place: score / (norm * query_norm), clamped to [-1, 1]; -inf where the norm is 0. A negative norm is used as it
     * is (the caller replaces those rows' scores). query_norm > 0. NaN stays. */
    void (*cosine)(float *scores, const float *norms, int64_t n, float query_norm);
    /* In place: NaN becomes -inf (the worst score of dot and cosine). */
    void (*replace_nan)(float *scores, int64_t n);
    /* Writes the positions i < n, ascending, whose order (score_to_order of base/topk.h) is at least `least`; returns
     * how many. positions has room for n. */
    int64_t (*above)(const float *scores, int64_t n, bool smaller_better, uint32_t least, uint32_t *positions);

    /* n elements of the slot's type to float32, exactly. */
    void (*to_float[DTYPE_COUNT])(const void *source, int64_t n, float *target);
    /* n float32 to the slot's type: nearest even for the narrow floats. NULL for the integers. */
    void (*from_float[DTYPE_COUNT])(const float *source, int64_t n, void *target);
    /* Index of the first element that is NaN or infinite, or n. NULL for the integers. */
    int64_t (*first_not_finite[DTYPE_COUNT])(const void *source, int64_t n);
    /* Largest magnitude of n finite float32. */
    float (*largest)(const float *source, int64_t n);

    const struct plane_kernels *planes;
    code_sums *sums[PLANE_COUNT];
    const struct column_kernels *columns;
};

extern const struct plane_tile plane_tile_scalar, plane_tile_avx2, plane_tile_avx512vnni;
extern const struct column_kernels column_kernels_scalar, column_kernels_avx2, column_kernels_avx512;
extern const struct plane_kernels plane_kernels_scalar, plane_kernels_avx2, plane_kernels_avx512vnni;
extern const struct kernels kernels_scalar, kernels_avx2, kernels_avx512, kernels_avx512vnni;

/* Every table compiled in, slowest first, ended by NULL: what tests walk. */
extern const struct kernels *const kernels_list[];

/* The best kernels this processor can run, merged; or up to and including the table that VICINAL_KERNELS names ("scalar",
 * "avx2" ...). VIC_ARGUMENT: no such table; VIC_UNAVAILABLE: this processor cannot run it. `name` (64 bytes) gets what
 * was merged, "avx512+vnni". */
enum vic_status kernels_pick(struct kernels *merged, char *name);
/* The same up to a given table: what tests use. */
enum vic_status kernels_merge(const char *last, struct kernels *merged, char *name);

#endif
