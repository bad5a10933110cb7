/* What the host side of the CUDA backend shares: the opened GPU, rows resident on it, and the workspaces of searches.
 *
 * Memory picture of one resident, all on the device: the rows in the kernels' order, norms and ids; one select area for
 * large k and threshold searches, used by one search at a time; workspaces, of which the first is made at attach and
 * more when more searches than ever run at once, up to WORKSPACES_MAX (then a search waits its turn). Each workspace has
 * a stream of its own and pinned host memory that the device sees, for queries on their way in and hits on their way out.
 * The surprising rule: a search with device hits and a caller's stream returns while its workspace is still in use. Whoever
 * claims that next waits, on the device where he can: for an event, or for a word of pinned memory that the search's own kernel
 * writes last (struct workspace). */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/kernels.h"

#include <cuda.h>
#include <pthread.h>

/* The driver's cuStreamWaitValue32: the stream goes on when the word at an address has reached a value. */
typedef CUresult word_awaiter(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);

struct backend {
    struct mem *host, *device;
    int ordinal, multiprocessors, threads;
    int64_t shared_most; /* bytes of shared memory a block may ask for */
};

enum { WORKSPACES_MAX = 16, QUERIES_MAX = 256 };
/* Pinned memory for hits, at least; and slots of scores that one launch fills, at most. */
enum { HITS_PINNED_LEAST = 64 << 10, SCORE_SLOTS_MAX = 64 << 10 };
/* Rows on their way up: threads at most, batches at once, pieces of one. */
enum { UPLOAD_WORKERS = 12, UPLOAD_BATCHES = 4, UPLOAD_PIECES = 32 };

/* Sizes that follow from the shape and the device; the plan and the allocation read the same numbers. */
struct layout {
    struct packed_rows rows; /* pointers NULL */
    struct scan_shape shape;
    int64_t queries_count, list_keys, score_slots;
    uint64_t batch_bytes; /* of rows on their way up, UPLOAD_BATCHES at once */
    uint64_t rows_bytes, norms_bytes, ids_bytes, select_keys_bytes, select_scores_bytes;
    /* one workspace: device block and pinned block */
    uint64_t orders_at, maxima_at, bests_at, rests_at, done_at, state_at, raw_at, prepared_at, norms_at, squares_at, floors_at,
        counts_at, lists_at, filter_at, wanted_at, scores_at, device_bytes;
    uint64_t raw_pinned_at, filter_pinned_at, hits_pinned_at, hits_pinned_bytes, pinned_bytes;
};

/* What tells that a workspace's work is done: `free_event`, or that its word has become `epoch`. To look at the word costs
 * nothing where an event takes 1.3 us, and to record the event takes a search of one query, just enqueued, 5 % longer. */
enum pending { PENDING_NOTHING, PENDING_EVENT, PENDING_WORD };

struct workspace {
    bool made, busy, captured; /* captured: belongs to a caller's graph until detach */
    enum pending pending;
    cudaStream_t stream;
    cudaStream_t last_stream; /* of what is pending, and its number (workspace.c); NULL: not known */
    unsigned long long last_number;
    cudaEvent_t free_event;
    char *device, *pinned; /* the word comes first in `pinned` */
    uint32_t epoch;
};

struct select_area {
    bool busy, pending;
    cudaEvent_t free_event;
    uint64_t *keys, *spare;
    float *scores;
};

struct resident {
    struct backend *backend;
    struct rows source; /* the host's, borrowed */
    struct layout layout;
    struct packed_rows rows;
    bool tile_engine; /* of load_tile */
    struct select_area select;
    pthread_mutex_t mutex;
    pthread_cond_t freed;
    word_awaiter *word_await; /* NULL: this driver or GPU has no such thing */
    struct workspace workspaces[WORKSPACES_MAX];
};

/* One call on its way: where it runs and with what. */
struct run {
    struct resident *resident;
    const struct search_call *call;
    struct workspace *workspace;
    cudaStream_t stream;
    bool capturing, selecting; /* selecting: the select area is claimed too */
    bool follows;              /* the workspace's work comes earlier in the run's stream */
    bool marked;               /* the kernel will write the workspace's word at its end */
    int previous_device;
};

/* ---- device.c */
/* VIC_OK, or the sentence: what was being done, what CUDA says. Clears CUDA's own record of it. */
enum vic_status cuda_status(cudaError_t error, const char *doing);
/* Makes the backend's GPU this thread's; *previous for device_leave. VIC_FORKED in a child. */
enum vic_status device_enter(const struct backend *backend, int *previous);
void device_leave(const struct backend *backend, int previous);
bool device_forked(void);
enum vic_status cuda_describe(int ordinal, struct vic_device_info *info);
enum vic_status cuda_open(int ordinal, int threads, struct mem *host, struct mem *device, struct backend **backend);
void cuda_close(struct backend *backend);

/* ---- resident.c */
enum vic_status cuda_plan(const struct backend *backend, const struct rows *shape, struct resident_plan *plan);
enum vic_status cuda_attach(struct backend *backend, const struct rows *rows, const struct mapped *mapped,
                            const struct vic_progress *progress, struct resident **resident);
void cuda_detach(struct resident *resident);
/* Copies rows, norms and ids up; resident->rows has memory for them. What lies in `mapped` (or NULL) is read from its file.
 * progress (or NULL) hears of it, in rows. */
enum vic_status rows_upload(struct resident *resident, const struct mapped *mapped, const struct vic_progress *progress);

/* ---- pinned.c */
enum vic_status pinned_alloc(struct mem *mem, uint64_t bytes, const char *what, void **memory);
void pinned_free(struct mem *mem, void *memory, uint64_t bytes);
/* For a short time and much at once, filled by the pool's threads; copied from and to, never seen by a kernel. what: plural. */
enum vic_status staging_alloc(struct mem *mem, struct thread_pool *pool, uint64_t bytes, const char *what, void **memory);
void staging_free(struct mem *mem, void *memory, uint64_t bytes);

/* ---- workspace.c */
enum vic_status workspace_make(struct resident *resident, struct workspace *workspace);
void workspace_destroy(struct resident *resident, struct workspace *workspace);
/* Tried on a workspace that nobody uses yet. */
word_awaiter *word_awaiter_find(const struct workspace *workspace);
/* Claims a workspace (and the select area) and orders it behind its last use. Everything claimed is given back by
 * run_end, which `asynchronous` tells that work was enqueued and not waited for. */
enum vic_status run_begin(struct resident *resident, const struct search_call *call, bool selecting, struct run *run);
enum vic_status run_end(struct run *run, enum vic_status status, bool asynchronous);
/* Waits for all that the run has enqueued. */
enum vic_status run_wait(const struct run *run);
/* Waits a while, at work, until the workspace's word is `epoch`; false: not yet. */
bool word_spin(const struct workspace *workspace, uint32_t epoch);

/* ---- query.c */
/* The type fits, and host queries are finite. */
enum vic_status queries_check(const struct resident *resident, const struct search_call *call);
/* The call's filter on the device, or NULL. */
enum vic_status filter_upload(const struct run *run, const uint64_t **filter);
/* Queries [first, first + count) prepared in the workspace; the second with an empty list for each, which any key may enter. */
enum vic_status queries_upload(const struct run *run, int64_t first, int64_t count);
enum vic_status batch_upload(const struct run *run, int64_t first, int64_t count);
static inline int64_t element_bytes(enum vic_dtype dtype) { return dtype == VIC_F32 ? 4 : dtype_is_integer(dtype) ? 1 : 2; }
/* Bytes of all rows, as statistics count them: what the caller stored. */
static inline int64_t rows_read(const struct resident *resident) {
    return resident->source.n * resident->source.dim * element_bytes(resident->source.dtype);
}
/* A scan of query `first`, without hits: query and scratch memory filled in. */
enum vic_status scan_prepare(const struct run *run, int64_t first, const uint64_t *filter, struct scan_args *args);

/* ---- lists.c */
/* All rows against the block's `count` prepared queries: floors and counts are the caller's to set on the device. */
void tile_prepare(const struct run *run, int64_t count, const uint64_t *filter, struct tile_args *args);
/* The select area, which the run has claimed; what is wanted of it is the caller's to set. */
struct select_args select_prepare(const struct run *run);
/* The first `most` keys of list j, and how many it has, to the select area. */
enum vic_status list_select(const struct run *run, const struct tile_args *lists, int64_t j, int64_t most,
                            const struct select_args *args);

/* ---- search.c, within.c, score.c */
enum vic_status cuda_search(struct resident *resident, const struct search_call *call, const struct vic_hits *hits);
enum vic_status cuda_within(struct resident *resident, const struct search_call *call, float score,
                            const struct vic_ranges *ranges);
enum vic_status cuda_score(struct resident *resident, const struct search_call *call, const struct row_source *wanted,
                           float *scores);

#endif
