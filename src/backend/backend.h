/* Where the arithmetic runs: one struct of operations a backend, one opened device, rows made resident on it.
 *
 * Everything above (data, quant, index) calls these operations and never a kernel; everything below (backend/cpu,
 * backend/cuda) sees pointers and sizes and never a corpus or an index. The rule that makes backends simple: rows are in
 * ascending order of id, so "smaller id" is "smaller row number", and a hit is one 64-bit key (base/topk.h). */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "backend/bound.h"
#include "backend/columns.h"
#include "backend/sums.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/read.h"
#include "base/thread.h"

struct backend;  /* a backend's own opened device */
struct resident; /* a backend's own form of rows made ready for search */

/* n packed vectors as they are stored: row i at data + i * dim * element bytes. */
struct rows {
    const void *data;
    int64_t n, dim;
    enum vic_dtype dtype;
    enum vic_metric metric;
    /* Cosine only, else NULL. norms[i] is the row's norm; 0: a zero row; negative: the row was scaled by an exact power
     * of two before its norm was taken (docs/numerics.md), and its scores need the same scaling. */
    const float *norms;
    const int64_t *ids; /* ascending; NULL: the row number is the id */
    struct plane planes[PLANE_COUNT];
    const float *plane_norms; /* with planes, dot and l2: at least each row's norm, 0 for a row without codes */
};

/* Vectors on their way in: conversion, check and norms in one pass over them. */
struct ingest {
    const struct vic_matrix *source; /* host memory; dtype and place resolved, stride_bytes not 0 */
    const char *what;                /* "row" or "query", for sentences */
    int64_t first;                   /* number of the first one, for sentences */
    enum vic_dtype dtype;            /* stored type */
    void *rows;                      /* out: source->rows packed vectors, or scattered by `places`; NULL: check only */
    const uint32_t *places;          /* vector i goes to slot places[i]; NULL: slot i */
    float *norms;                    /* out, by slot; NULL: not wanted */
};

/* Rows on their way into a plane. */
struct plane_coding {
    const struct rows *rows; /* as stored, with norms for cosine; float types only */
    enum plane_kind kind;
    int (*steps)(float largest, double mean_square, float steps[PLANE_STEPS]); /* steps to try for a row, how many */
    const uint32_t *places;                                                    /* row i goes to slot places[i]; NULL: slot i */
    uint8_t *codes;                                                            /* out, by slot */
    float *scale, *error, *norms;                                              /* out, by slot; norms NULL: cosine */
};

struct search_call {
    const struct vic_matrix *queries; /* dtype and place resolved, stride_bytes not 0; at least one */
    int64_t first;                    /* number of the first one, for sentences */
    int64_t k;                        /* search: hits a query. score: ids a query */
    const uint64_t *filter;           /* bit i: row i may answer; NULL: all may. Host memory */
    enum vic_path path;               /* 0: the backend chooses among those that score every row */
    enum plane_kind plane;            /* path certified: which plane, if it is there */
    void *stream;                     /* a GPU's */
    int64_t beam, parents;            /* for graphs; 0: open */
    enum vic_codes codes;
    struct vic_search_stats *stats; /* never NULL; zeroed by the caller */
    double left_most[PLANE_COUNT];  /* path certified: a plane that leaves a larger share of the rows is given up */
};

/* Bytes that residency costs, beside the rows themselves, for a plan. */
struct resident_plan {
    uint64_t workspace_bytes; /* host */
    uint64_t device_bytes;
};

/* Rows to score. Backends ask for the numbers as they have room for them, each slot once, in order, from the caller's thread.
 */
struct row_source {
    /* The numbers of slots [first, first + count), UINT32_MAX for an unused one; what this fails with is the call's failure. */
    enum vic_status (*take)(const struct row_source *source, int64_t first, int64_t count, uint32_t *rows);
};

struct backend_ops {
    const char *name; /* "cpu", "cuda" */
    /* Fills a device's description, also when it cannot be used; ordinal counts devices of this backend from 0 and
     * VIC_NOT_FOUND ends the list. */
    enum vic_status (*describe)(int ordinal, struct vic_device_info *info);
    enum vic_status (*open)(int ordinal, int threads, struct mem *host, struct mem *device, struct backend **backend);
    void (*close)(struct backend *backend);
    struct thread_pool *(*pool)(struct backend *backend); /* for parallel work above; may be NULL */
    /* Host vectors in; only the CPU backend has it. The sentence names row and column of the first bad element. */
    enum vic_status (*ingest)(struct backend *backend, const struct ingest *ingest);
    /* Codes of rows; the same bytes whatever the processor and the number of threads. Only the CPU backend has it. */
    enum vic_status (*code)(struct backend *backend, const struct plane_coding *coding);
    enum vic_status (*plan)(const struct backend *backend, const struct rows *shape, struct resident_plan *plan);
    /* Makes rows searchable and all workspaces. The pointers in `rows` stay valid until detach. Where rows are copied, progress
     * (NULL: none) hears how far that is, from this thread; it has the backend's GPU for its device then, and what lies in
     * `mapped` (NULL: nothing does; valid during the call alone) is read from its file. */
    enum vic_status (*attach)(struct backend *backend, const struct rows *rows, const struct mapped *mapped,
                              const struct vic_progress *progress, struct resident **resident);
    void (*detach)(struct resident *resident);
    /* The three questions. Any number of threads at once; nothing is allocated. */
    enum vic_status (*search)(struct resident *resident, const struct search_call *call, const struct vic_hits *hits);
    enum vic_status (*within)(struct resident *resident, const struct search_call *call, float score,
                              const struct vic_ranges *ranges);
    /* nq * call->k rows, query j's at j * call->k */
    enum vic_status (*score)(struct resident *resident, const struct search_call *call, const struct row_source *wanted,
                             float *scores);
    /* Whether all queries of a call (in host memory) can be asked: their type fits, every element is finite. Only the CPU
     * backend has it. */
    enum vic_status (*check)(struct backend *backend, const struct rows *rows, const struct search_call *call);
    /* What a walk through a graph measures with: over codes of a width, between integer rows (squares of differences, else
     * products), and over rows of any type for a query; only the CPU backend has them. aim: one query (host memory, finite, of
     * a type that rows are asked with) made ready in `room`, 2 * dim floats. `rows` and `room` are borrowed by the aim. */
    code_sums *(*sums)(const struct backend *backend, enum plane_kind kind);
    byte_sums *(*byte_sums)(const struct backend *backend, enum vic_dtype dtype, bool squares);
    void (*aim)(const struct backend *backend, const struct rows *rows, const struct vic_matrix *query, float *room,
                struct row_aim *aim);
    /* What k-means and product quantisation compare vectors with. Only the CPU backend has it. */
    const struct column_kernels *(*columns)(const struct backend *backend);
};

extern const struct backend_ops cpu_backend;
/* Stands for the CUDA backend, which lies in a shared object of its own and is opened when it is asked for (load.c). */
extern const struct backend_ops cuda_backend;

/* What such an object exports, under the name vicinal_backend_object. */
enum { BACKEND_ABI = 10 }; /* raised with every change of a struct in this header, base/mem.h, base/read.h or vicinal.h */
struct backend_object {
    uint32_t abi; /* BACKEND_ABI of its build; nothing else may be read when it is another */
    const struct backend_ops *ops;
    /* Called once: a failure inside goes to `fail`, which writes the library's sentence and returns the status. */
    void (*start)(enum vic_status (*fail)(enum vic_status status, const char *sentence));
};

/* The backends there are, best first, ended by NULL. */
extern const struct backend_ops *const backend_list[];

/* What work costs on the CPU here, for index/planner.c: built in, or measured once by index/calibrate.c. */
struct costs {
    double scan_bytes_s, plane_bytes_s[PLANE_COUNT]; /* read in a second by a scan of rows, by a pass over codes */
    double rescore_cost;                             /* a row read here and there over one that streams by */
    double handover_us;                              /* steps of a certified search, apart from what they read */
};
extern const struct costs costs_builtin;

/* An opened device: the CPU always (ingest is its work), and the backend that searches, which may be the same. */
struct vic_device {
    struct mem host, device;
    const struct backend_ops *host_ops, *ops;
    struct backend *host_backend, *backend;
    struct vic_device_info info;
    struct costs costs;
};

/* options resolved by options_take. */
enum vic_status device_open(const struct vic_device_options *options, struct vic_device **device);
void device_free(struct vic_device *device);
enum vic_status device_info(const struct vic_device *device, struct vic_device_info *info);

#endif
