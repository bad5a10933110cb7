/* The kernels' launchers: plain C, pointers and sizes in, stream last, a cudaError_t out.
 *
 * They neither allocate nor synchronise, so every one of them can be captured into a graph. Everything a launch needs to
 * know about the rows is in struct packed_rows; the sizes of the scratch memory follow from struct scan_shape, which the
 * host side computes too. */
#ifndef CUDA_KERNELS_H
#define CUDA_KERNELS_H

#include "vicinal.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    INLINE_QUERY_BYTES = 4096, /* a query up to this size travels with the launch itself */
    SMALL_KEEP = 2048,         /* hits that one block can sort in its shared memory, with room for as many candidates */
    ROW_PAD = 16,              /* rows are allocated up to a multiple of this, so the last load of a warp needs no test */
    SCAN_THREADS = 512,
    SCAN_BESTS = 4,   /* keys that a warp keeps of its rows */
    CUT_SLACK = 1024, /* keys that a list may hold beyond those kept, at least */
    RANGE_KEYS = 4096 /* hits of a threshold search that one block sorts */
};

/* Rows as they lie on the device. Elements are permuted within each chunk of 128 so that the canonical tree becomes
 * neighbours first (common.cuh); the rest behind the last whole chunk lies in units of 32. */
struct packed_rows {
    const void *data;
    int64_t n, stride_bytes;
    int32_t dim, chunks, units; /* whole chunks of 128, and units of 32 behind them (0 to 3) */
    enum vic_dtype dtype;       /* as it lies here */
    enum vic_metric metric;
    const float *norms; /* cosine: magnitudes, 0 for a zero row; else NULL */
    const int64_t *ids; /* NULL: the row number */
};

/* How a scan deals rows out: unit u (of `units`) of `unit_rows` rows belongs to warp u mod warps. Scores are stored by warp, so
 * that a warp's own lie together: `per_warp` of them. */
struct scan_shape {
    uint32_t blocks, warps, unit_rows, per_warp, units;
};
struct scan_shape scan_shape_of(const struct packed_rows *rows, int32_t multiprocessors);

/* Where hits go: all of them device memory or mapped host memory. */
struct hit_slots {
    int64_t *ids;
    float *scores;   /* may be NULL */
    int32_t *counts; /* may be NULL */
    int64_t k;       /* slots a query */
};

/* Rows as they came (packed, row after row) to their form on the device; scaled where the norm is negative. */
struct pack_args {
    const void *source;
    enum vic_dtype source_dtype;
    int64_t first, count;
    struct packed_rows target; /* its data is written */
    float *norms;              /* in: as the host has them; out: magnitudes. NULL: not cosine */
};
cudaError_t launch_pack(const struct pack_args *args, cudaStream_t stream);

/* One query against all rows. */
struct scan_args {
    struct packed_rows rows;
    struct scan_shape shape;
    /* The query as it came: device memory, packed. Or NULL, and it is up to INLINE_QUERY_BYTES of host memory that travel with
     * the launch. Or, for dimensions whose query does not fit a block's shared memory, as launch_queries prepares it, with
     * its norm and square. */
    const void *query, *host_query, *prepared;
    int32_t query_bytes;
    const float *prepared_norm;
    const int64_t *prepared_square;
    enum vic_dtype query_dtype;
    const uint64_t *filter; /* device memory, or NULL */
    uint32_t *orders;       /* warps * per_warp */
    uint64_t *maxima;       /* warps */
    uint64_t *bests;        /* warps * SCAN_BESTS: each warp's rows dealt out again, the best key of each part */
    uint32_t *rests;        /* warps: the largest order of a row that is not among its warp's bests */
    uint32_t *done;         /* 0 before and after */
    uint32_t keep;          /* hits wanted, at most SMALL_KEEP; 0: orders and maxima only */
    uint32_t epoch;
    struct hit_slots hits;
    bool mapped;             /* the hits are in mapped host memory: they are there before the word is */
    volatile uint32_t *word; /* mapped host memory: becomes `epoch` when nothing of the above is in use; NULL: not wanted */
};
cudaError_t launch_scan(const struct scan_args *args, cudaStream_t stream);

/* All of a scan's scores to the `keep` best keys, sorted, for any keep; or, with `least` not 0, all keys from there on. */
struct select_args {
    struct packed_rows rows;
    struct scan_shape shape;
    const uint32_t *orders;
    const uint64_t *maxima;
    struct select_state *state; /* SELECT_STATE_BYTES, zero before and after the first launch */
    uint64_t *keys, *spare;     /* room for keep rounded up to SORT_TILE, twice */
    int64_t keep;
    uint64_t least;
    struct hit_slots hits;
    int32_t multiprocessors;
};
enum { SELECT_STATE_BYTES = 16384, SORT_TILE = 4096 };
/* Keys into args->keys, in no order; how many is the first 32-bit word of the state. */
cudaError_t launch_select(const struct select_args *args, cudaStream_t stream);
/* The first `count` of args->keys sorted, best first; *sorted says in which of keys and spare they are then. */
cudaError_t launch_sort(const struct select_args *args, int64_t count, uint64_t **sorted, cudaStream_t stream);
/* Sorted keys to args->hits: ids, scores and count; the rest unused slots. */
cudaError_t launch_hits(const struct select_args *args, const uint64_t *sorted, int64_t count, cudaStream_t stream);

/* Bytes of one prepared query, whatever its type: whole chunks of float32. */
static inline int64_t query_stride_of(const struct packed_rows *rows) {
    return (int64_t)(rows->chunks + (rows->units > 0)) * 128 * 4;
}
/* Queries of a batch to the form that tiles read. */
struct queries_args {
    const void *source; /* device memory */
    int64_t stride_bytes, count;
    int32_t dim, chunks, units;
    enum vic_dtype dtype, rows_dtype;
    enum vic_metric metric;
    void *prepared; /* a query every query_stride bytes */
    int64_t query_stride;
    float *norms;     /* count */
    int64_t *squares; /* count; integers only */
    uint64_t *floors; /* count, set to 0, and so are the counts; or NULL */
    uint32_t *counts; /* count */
};
cudaError_t launch_queries(const struct queries_args *args, cudaStream_t stream);

/* Rows [first, first + count) against all prepared queries; keys that reach a query's floor are appended to its list, and
 * counted even where the list has no room for them any more. */
struct tile_args {
    struct packed_rows rows;
    int64_t first, count;
    const void *queries;
    int64_t query_stride, nq;
    const float *query_norms;
    enum vic_dtype query_dtype;
    const uint64_t *filter;
    uint64_t *floors; /* read; a cut raises them */
    uint64_t *lists;
    uint32_t *counts;
    int64_t capacity;    /* keys a list */
    int32_t shared_most; /* bytes of shared memory a block may have */
    int32_t multiprocessors;
    bool engine; /* what load_tile has said of these rows */
};
cudaError_t launch_tile(const struct tile_args *args, cudaStream_t stream);

/* Keys that a list may hold beyond the `keep` best before it is cut; a cut leaves fewer. */
static inline int64_t cut_slack(int64_t keep) { return keep / 4 + 32 > CUT_SLACK ? keep / 4 + 32 : CUT_SLACK; }
/* One list a query, cut back to little more than the `keep` best, the floor raised to match. At the end (`final`): up to
 * SMALL_KEEP sorted and written to the hits; for larger `keep` cut to exactly that, to be sorted by launch_sort. */
struct cut_args {
    struct packed_rows rows;
    uint64_t *lists, *floors;
    uint32_t *counts;
    int64_t nq, capacity;
    uint32_t keep, slack; /* cut_slack(keep) */
    int32_t final;
    struct hit_slots hits;
};
cudaError_t launch_cut(const struct cut_args *args, cudaStream_t stream);
/* Lists of queries [first, first + nq) of up to RANGE_KEYS keys, each sorted and written from its place on; RANGE_NONE as a
 * place: not this one. */
static const uint32_t RANGE_NONE = UINT32_MAX;
struct range_args {
    struct packed_rows rows;
    const uint64_t *lists; /* capacity keys a query, of which counts are there */
    int64_t capacity, first, nq;
    const uint32_t *counts, *places;
    int64_t *ids;
    float *scores;
};
cudaError_t launch_range(const struct range_args *args, cudaStream_t stream);
/* All slots of nq queries unused: the answer of an empty index. */
cudaError_t launch_unused(const struct hit_slots *hits, int64_t nq, enum vic_metric metric, cudaStream_t stream);

/* Scores of given rows (UINT32_MAX: none) for each prepared query. */
struct score_args {
    struct packed_rows rows;
    const void *queries;
    const float *query_norms;
    int64_t query_stride, nq, count; /* count: rows a query */
    enum vic_dtype query_dtype;
    const uint32_t *wanted;
    float *scores;
};
cudaError_t launch_score(const struct score_args *args, cudaStream_t stream);

/* Load what searches of these rows may launch, before any of them. */
cudaError_t load_scan(const struct packed_rows *rows, int shared_most);
/* *engine: the kernels that were loaded know the engine that copies stages (bulk.cuh), and it can count the rows. */
cudaError_t load_tile(const struct packed_rows *rows, int shared_most, bool *engine);
cudaError_t load_score(const struct packed_rows *rows);
cudaError_t load_select(void);
cudaError_t load_cut(void);
cudaError_t load_range(void);
cudaError_t load_queries(void);

#ifdef __cplusplus
}
#endif
#endif
