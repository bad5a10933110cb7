/* What the files of the CPU backend share: the opened backend, resident rows, and the workspaces of searches.
 *
 * Memory picture of one resident: the rows (borrowed), `count` workspaces of equal size, one scratch a pool worker, and
 * one array of a key a row for large k. A search claims a workspace and gives it back; when all are out it waits. Worker 0
 * of a job is the caller and uses its workspace's own scratch; workers 1 and up use the resident's, which is safe because
 * the pool runs one job at a time. Nothing is allocated after attach. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include "backend/backend.h"
#include "backend/cpu/kernels.h"
#include "base/claims.h"
#include "base/topk.h"

struct backend {
    struct mem *mem;
    struct thread_pool *pool;
    struct kernels kernels;
    char kernels_name[64];
};

enum { QUERIES_MAX = 256, WORKSPACES_MAX = 8, SURVEYS_MAX = 4, K_RANGES = 16 };

/* One thread's own memory. */
struct scratch {
    float *scores;       /* scores_count of them */
    uint32_t *positions; /* as many */
    float *row;          /* dim: a row scaled or converted */
    void *packed_rows;   /* one row tile; NULL when dim is too large for tiles */
    void *decoded;       /* with planes: a group's codes as the tiles want them, */
    float *least;        /* and a threshold for each query of a block */
};

struct workspace {
    void *queries;        /* queries_count packed queries, float32 or the rows' integer type */
    void *packed_queries; /* the same for the tile kernel */
    float *query_norms;
    uint64_t *keys; /* keys_count of them */
    struct topk *tops;
    /* With planes only. */
    int8_t *query_codes;
    struct plane_query *plane_queries; /* of a batch: one a query, the codes packed for tiles, and the largest threshold */
    void *packed_query_codes;          /* that a worker has found for a query, as an order */
    _Atomic uint32_t *reached;
    struct scratch own;
};

/* What a pass over all codes leaves. Several bytes a row, so there are fewer of them than workspaces: as many as threads, and
 * four keep the memory busy whatever the number of callers. */
struct survey {
    float *upper;         /* one a row */
    uint32_t *candidates; /* candidates_count rows */
};

/* Sizes that follow from shape and thread count alone; the plan and the allocation read the same numbers. */
struct layout {
    int threads, workspaces, surveys;
    int64_t chunk_rows;    /* rows a part of a scan */
    int64_t queries_count; /* queries a block */
    int64_t keys_count;    /* keys of a workspace */
    int64_t tops_count;
    int64_t scores_count;
    int64_t candidates_count; /* rows that may be left after a plane; more of them are a scan's work. 0: no planes */
    uint64_t queries_bytes, packed_queries_bytes, row_bytes, packed_rows_bytes;
    uint64_t scratch_bytes, workspace_bytes, select_bytes, total_bytes;
    bool tiles; /* whether the tile kernels can be used at this dim */
    bool plane_tiles;
    uint64_t query_codes_bytes, packed_query_codes_bytes, decoded_bytes, least_bytes;
};

struct resident {
    struct backend *backend;
    struct rows rows;
    struct layout layout;
    void *memory;
    struct workspace *workspaces;
    struct scratch *workers; /* layout.threads - 1 */
    struct survey surveys[SURVEYS_MAX];
    uint64_t *select_keys; /* rows.n: one search at a time */
    /* By plane and size of k: searches that first try a part of the plane, the first one and some after each that it did not
     * decide. */
    atomic_int doubt[PLANE_COUNT][K_RANGES];
    struct claims free_workspaces, free_surveys, free_select;
};

/* ---- workspace.c */
struct layout layout_plan(const struct backend *backend, const struct rows *shape);
enum vic_status cpu_plan(const struct backend *backend, const struct rows *shape, struct resident_plan *plan);
enum vic_status cpu_attach(struct backend *backend, const struct rows *rows, const struct mapped *mapped,
                           const struct vic_progress *progress, struct resident **resident);
void cpu_detach(struct resident *resident);
/* Waits for a free one. */
struct workspace *workspace_claim(struct resident *resident);
void workspace_release(struct resident *resident, struct workspace *workspace);
/* The same for a survey; by a search that has a workspace. */
struct survey *survey_claim(struct resident *resident);
void survey_release(struct resident *resident, struct survey *survey);
void select_claim(struct resident *resident);
void select_release(struct resident *resident);

/* ---- ingest.c */
enum vic_status cpu_ingest(struct backend *backend, const struct ingest *ingest);
/* ---- code.c */
enum vic_status cpu_code(struct backend *backend, const struct plane_coding *coding);
/* Norm as backend.h stores it: negative when the vector was scaled. `values` is the vector as float32; `scaled` (dim
 * floats, may be `values`) receives it scaled when it was. Float types only. */
float vector_norm(const struct kernels *kernels, const float *values, int64_t dim, float *scaled);
/* The same for an integer type, from the exact sum. */
float vector_norm_exact(const struct kernels *kernels, enum vic_dtype dtype, const void *values, int64_t dim);

/* ---- query.c: queries of a call, made ready block by block */
/* Whether the queries are of the rows' integer type and go through the exact kernels. */
static inline bool queries_exact(const struct rows *rows, const struct vic_matrix *queries) {
    return dtype_is_integer(rows->dtype) && queries->dtype == rows->dtype;
}
/* All queries of a call: type fits, every element finite. */
enum vic_status queries_check(struct backend *backend, const struct rows *rows, const struct search_call *call);
/* Query j into `target` (dim elements); returns its norm for cosine, else 0. */
float query_prepare(const struct kernels *kernels, const struct rows *rows, const struct vic_matrix *queries, int64_t j,
                    void *target);
/* Queries [first, first + count) into the workspace, with norms for cosine; packed too when `pack`. */
void queries_prepare(struct resident *resident, struct workspace *workspace, const struct vic_matrix *queries, int64_t first,
                     int64_t count, bool pack);

/* ---- scan.c: scores of a run of rows */
/* One search as its parts see it. */
struct scan {
    struct resident *resident;
    struct workspace *workspace;
    bool exact, smaller_better;
    scan_kernel *kernel;
    const struct tile_kernel *tile;
    const uint64_t *filter;
};
struct scan scan_start(struct resident *resident, struct workspace *workspace, const struct search_call *call);
struct scratch *scan_scratch(const struct scan *scan, int worker);
/* Prepared query j of the block. */
const void *scan_query(const struct scan *scan, int64_t j);
/* Final scores of rows [first, first + n), n <= scores_count, for prepared query j into scratch->scores. */
void scan_rows(const struct scan *scan, struct scratch *scratch, int64_t j, int64_t first, int64_t n);
/* The same for rows which[0 .. n), wherever they lie, into `scores`: several side by side, those to come asked for. */
void scan_gather(const struct scan *scan, struct scratch *scratch, int64_t j, const uint32_t *which, int64_t n, float *scores);
/* The score of a row that was scaled before its norm: its sum is taken from the scaled row. spare: dim floats. */
float row_rescale(const struct kernels *kernels, const struct rows *rows, int64_t row, const void *query, float query_norm,
                  float *spare);
/* Cosine's division, rows that need scaling, NaN: raw sums to final scores, in place. */
void scan_finish(const struct scan *scan, struct scratch *scratch, int64_t j, int64_t first, int64_t n, float *scores);
/* Rows that are scored one here, one there: how many before its turn a row is asked for. */
enum { ROWS_AHEAD = 4 };
static inline void row_prefetch(const struct rows *rows, uint32_t row) {
    int64_t row_bytes = rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
    const char *data = (const char *)rows->data + (int64_t)row * row_bytes;
    for (int64_t at = 0; at < row_bytes && at < 4096; at += 64) __builtin_prefetch(data + at);
}
static inline bool filter_passes(const uint64_t *filter, int64_t row) {
    return !filter || (filter[row >> 6] >> (row & 63) & 1);
}

/* ---- aim.c: rows here and there for a query, without a workspace */
/* aim->scores of what cpu_aim makes. */
void aim_scores(const struct row_aim *aim, const uint32_t *which, int64_t n, float *scores);
void cpu_aim(const struct backend *backend, const struct rows *rows, const struct vic_matrix *query, float *room,
             struct row_aim *aim);

/* ---- search.c, select.c, within.c, score.c: the questions */
enum vic_status cpu_search(struct resident *resident, const struct search_call *call, const struct vic_hits *hits);
void select_search(struct resident *resident, struct workspace *workspace, const struct search_call *call,
                   const struct vic_hits *hits);
enum vic_status cpu_within(struct resident *resident, const struct search_call *call, float score,
                           const struct vic_ranges *ranges);
enum vic_status cpu_score(struct resident *resident, const struct search_call *call, const struct row_source *wanted,
                          float *scores);
/* Offers scores of rows [first, first + n) to a buffer; only positions whose order reaches the floor are looked at. */
void scores_offer(const struct scan *scan, struct scratch *scratch, struct topk *top, const float *scores, bool smaller_better,
                  int64_t first, int64_t n);
/* The workers' buffers of one query, moved together at the first one's keys; returns how many keys there are. */
int64_t tops_gather(struct topk *tops, int threads);
/* Chooses the best `keep` of gathered keys, sorts and writes them as query j's hits. `keys` has room for 2 keep + 64. */
void keys_write(const struct rows *rows, const struct vic_hits *hits, int64_t j, int64_t k, int64_t keep, uint64_t *keys,
                int64_t count);
/* ---- certified.c: the k best with the help of a plane. Why not, when hits were not written. */
enum vic_fallback certified_search(struct resident *resident, struct workspace *workspace, const struct search_call *call,
                                   int64_t j, const struct vic_hits *hits);
/* Rows with the best bounds that are scored for a threshold: of k alone the worst would be it, and twice as many do not lower
 * what is left after it (real rows of 384, k = 10 to 1000, both planes). */
static inline int64_t seeds_count(int64_t keep) { return keep + keep / 2 + 8; }
/* The plane that a call is to use, one that is there. */
enum plane_kind plane_choose(const struct rows *rows, const struct search_call *call);
/* Codes of 16 bits and constants of the workspace's first prepared query, of float32. False: the bound does not cover it. */
bool certified_query(struct resident *resident, struct workspace *workspace, struct plane_query *query);
/* ---- certified_batch.c: the same for a block of queries. decided[i]: hits of query first + i were written. */
/* Queries that one block may have; 0: k is too large for batches. */
int64_t certified_block(const struct resident *resident, const struct search_call *call);
enum vic_fallback certified_batch(struct resident *resident, struct workspace *workspace, const struct search_call *call,
                                  int64_t first, int64_t count, const struct vic_hits *hits, bool *decided);
/* Sorted keys to query j's slots of the caller's arrays; the rest of the k slots become unused ones. */
void hits_write(const struct rows *rows, const struct vic_hits *hits, int64_t j, int64_t k, const uint64_t *keys,
                int64_t count);

#endif
