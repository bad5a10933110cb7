/* The rows' way up: workers bring pieces into pinned memory, send them, and have them put into the kernels' order there.
 *
 * Each worker has a stream and UPLOAD_EACH pieces of its own and waits for nobody: one piece is filled while the other is on
 * the link, and between twelve workers the link is never idle. (All workers on one piece after another, a barrier between,
 * reached half of the link.) Rows of a mapped file are read from the file straight into pinned memory: as fast as copies
 * out of the mapping, and an error where those would be a signal. On the device the pieces lie in the first workspace, which
 * nobody uses yet. A worker keeps what went wrong, not a sentence: sentences belong to the caller's thread, which is the first
 * worker and so can tell how far all are between two pieces of its own. */
#include "backend/cuda/cuda.h"

struct lane { /* what one worker has; its slots follow one another */
    cudaStream_t stream;
    cudaEvent_t sent[UPLOAD_EACH];
    int64_t turn;
};

/* Things of one size that lie one after another, here and there. */
struct stretch {
    const char *from;
    char *to; /* NULL: they are rows, and packed */
    int64_t count, bytes_each;
};

/* What went wrong in a worker. */
struct failure {
    cudaError_t error; /* cudaSuccess: the file could not be read */
    struct read_fault fault;
};

struct upload {
    struct resident *resident;
    const struct mapped *mapped;
    struct thread_pool *pool;
    char *pinned;
    uint64_t piece_bytes;   /* of each piece, here and there */
    struct stretch stretch; /* that is being sent */
    int64_t piece_count;    /* things of it in a piece */
    struct lane lanes[UPLOAD_WORKERS];
    struct progress progress;
    _Atomic int64_t sent_rows;
    enum vic_status told;   /* what the progress callback wants; the caller's thread alone looks */
    struct failure failure; /* the first one */
    _Atomic int failures;
    _Atomic bool stopped; /* by a failure or the callback: no worker begins another piece */
};

static bool piece_send(struct upload *upload, struct lane *lane, uint64_t slot, int64_t first, int64_t count,
                       struct failure *failure) {
    struct resident *resident = upload->resident;
    const struct stretch *stretch = &upload->stretch;
    uint64_t bytes = (uint64_t)(count * stretch->bytes_each), at = slot * upload->piece_bytes;
    char *pinned = upload->pinned + at;
    char *there = stretch->to ? stretch->to + first * stretch->bytes_each : resident->workspaces[0].device + at;
    cudaEvent_t sent = lane->sent[slot % UPLOAD_EACH];
    struct pack_args args = {.source = there,
                             .source_dtype = resident->source.dtype,
                             .first = first,
                             .count = count,
                             .target = resident->rows,
                             .norms = (float *)(uintptr_t)resident->rows.norms};
    cudaError_t *error = &failure->error;
    if ((*error = cudaEventSynchronize(sent)) != cudaSuccess) return false;
    if (!mapped_copy(upload->mapped, stretch->from + first * stretch->bytes_each, bytes, pinned, &failure->fault)) return false;
    *error = cudaMemcpyAsync(there, pinned, bytes, cudaMemcpyHostToDevice, lane->stream);
    if (*error == cudaSuccess) *error = cudaEventRecord(sent, lane->stream);
    if (*error == cudaSuccess && !stretch->to) *error = launch_pack(&args, lane->stream);
    return *error == cudaSuccess;
}

/* The device's piece is written again only behind the packing of what it held: both are in the worker's stream. */
static void piece_upload(void *argument, int worker, int64_t part) {
    struct upload *upload = argument;
    struct lane *lane = &upload->lanes[worker];
    uint64_t slot = (uint64_t)worker * UPLOAD_EACH + (uint64_t)(lane->turn++ % UPLOAD_EACH);
    int64_t n = upload->stretch.count, first = part * upload->piece_count;
    int64_t count = n - first < upload->piece_count ? n - first : upload->piece_count;
    if (atomic_load(&upload->stopped)) return;
    /* A worker's thread has not chosen a device yet. */
    struct failure failure = {.error = cudaSetDevice(upload->resident->backend->ordinal)};
    if (failure.error != cudaSuccess || !piece_send(upload, lane, slot, first, count, &failure)) {
        if (atomic_fetch_add(&upload->failures, 1) == 0) upload->failure = failure;
        atomic_store(&upload->stopped, true);
        return;
    }
    if (upload->stretch.to) return;
    int64_t sent = atomic_fetch_add(&upload->sent_rows, count) + count;
    if (worker > 0 || sent == n) return; /* that all are there is said when they are */
    upload->told = progress_step(&upload->progress, sent);
    if (upload->told != VIC_OK) atomic_store(&upload->stopped, true);
}

static enum vic_status stretch_upload(struct upload *upload, const void *from, const void *to, int64_t bytes_each) {
    int64_t n = upload->resident->source.n;
    upload->stretch = (struct stretch){from, (char *)(uintptr_t)to, n, bytes_each};
    upload->piece_count = (int64_t)upload->piece_bytes / bytes_each;
    (void)thread_pool_run(upload->pool, (n + upload->piece_count - 1) / upload->piece_count, piece_upload, upload);
    if (atomic_load(&upload->failures) == 0) return upload->told;
    if (upload->failure.error == cudaSuccess) return mapped_fail(upload->mapped, &upload->failure.fault);
    return cuda_status(upload->failure.error, "sending rows to the GPU");
}

static cudaError_t lanes_wait(const struct upload *upload) {
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < UPLOAD_WORKERS; i++) {
        cudaError_t ended = upload->lanes[i].stream ? cudaStreamSynchronize(upload->lanes[i].stream) : cudaSuccess;
        if (error == cudaSuccess) error = ended;
    }
    return error;
}

/* A handle that could not be made is no handle: CUDA may have written something there all the same. */
static enum vic_status lane_open(struct lane *lane) {
    cudaError_t error = cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) lane->stream = NULL;
    for (int j = 0; j < UPLOAD_EACH && error == cudaSuccess; j++) {
        error = cudaEventCreateWithFlags(&lane->sent[j], cudaEventDisableTiming);
        if (error != cudaSuccess) lane->sent[j] = NULL;
    }
    return cuda_status(error, "making a stream");
}

static enum vic_status upload_begin(struct upload *upload, const struct vic_progress *progress) {
    struct backend *backend = upload->resident->backend;
    void *pinned = NULL;
    enum vic_status status = VIC_OK;
    upload->progress = progress_start(progress, "uploading", upload->resident->source.n);
    upload->piece_bytes = upload->resident->layout.piece_bytes;
    TRY(pinned_alloc(backend->host, UPLOAD_SLOTS * upload->piece_bytes, "rows on their way to the GPU", &pinned));
    upload->pinned = pinned;
    int cores = thread_cores(), threads = backend->threads > 0 && backend->threads < cores ? backend->threads : cores;
    TRY(thread_pool_open(backend->host, threads < UPLOAD_WORKERS ? threads : UPLOAD_WORKERS, &upload->pool));
    for (int i = 0; i < thread_pool_size(upload->pool); i++) TRY(lane_open(&upload->lanes[i]));
done:
    return status;
}

/* Nothing may still read the pinned pieces when they are given back. */
static cudaError_t upload_end(struct upload *upload) {
    cudaError_t error = lanes_wait(upload);
    for (int i = 0; i < UPLOAD_WORKERS; i++) {
        struct lane *lane = &upload->lanes[i];
        for (int j = 0; j < UPLOAD_EACH; j++)
            if (lane->sent[j]) (void)cudaEventDestroy(lane->sent[j]);
        if (lane->stream) (void)cudaStreamDestroy(lane->stream);
    }
    thread_pool_close(upload->pool);
    pinned_free(upload->resident->backend->host, upload->pinned, UPLOAD_SLOTS * upload->piece_bytes);
    return error;
}

/* Packing reads the norms: all of them are there before the first row is. */
static enum vic_status stretches_upload(struct upload *upload) {
    const struct rows *source = &upload->resident->source;
    const struct packed_rows *there = &upload->resident->rows;
    enum vic_status status = VIC_OK;
    if (there->norms) TRY(stretch_upload(upload, source->norms, there->norms, sizeof *source->norms));
    if (there->ids) TRY(stretch_upload(upload, source->ids, there->ids, sizeof *source->ids));
    if (there->norms) TRY(cuda_status(lanes_wait(upload), "sending norms to the GPU"));
    TRY(stretch_upload(upload, source->data, NULL, source->dim * element_bytes(source->dtype)));
done:
    return status;
}

/* Zeroes behind the rows, and in the workspace where the pieces lay. */
static enum vic_status rest_clear(struct resident *resident) {
    const struct packed_rows *rows = &resident->rows;
    const struct workspace *workspace = &resident->workspaces[0];
    uint64_t filled = (uint64_t)rows->n * (uint64_t)rows->stride_bytes;
    char *behind = (char *)(uintptr_t)rows->data + filled;
    enum vic_status status = VIC_OK;
    TRY(cuda_status(cudaMemsetAsync(behind, 0, resident->layout.rows_bytes - filled, workspace->stream),
                    "clearing behind the rows"));
    TRY(cuda_status(cudaMemsetAsync(workspace->device, 0, resident->layout.device_bytes, workspace->stream),
                    "clearing a workspace"));
    TRY(cuda_status(cudaStreamSynchronize(workspace->stream), "clearing a workspace"));
done:
    return status;
}

enum vic_status rows_upload(struct resident *resident, const struct mapped *mapped, const struct vic_progress *progress) {
    struct upload upload = {.resident = resident, .mapped = mapped};
    enum vic_status status = VIC_OK;
    if (resident->source.n == 0) return VIC_OK;
    /* What workspace_make has enqueued may not run into the pieces. */
    TRY(cuda_status(cudaStreamSynchronize(resident->workspaces[0].stream), "clearing a workspace"));
    TRY(upload_begin(&upload, progress));
    TRY(stretches_upload(&upload));
done:;
    cudaError_t error = upload_end(&upload);
    if (status == VIC_OK) status = cuda_status(error, "sending rows to the GPU");
    (void)cudaGetLastError(); /* the first failure has been told */
    if (status == VIC_OK) status = progress_step(&upload.progress, resident->source.n);
    return status == VIC_OK ? rest_clear(resident) : status;
}
