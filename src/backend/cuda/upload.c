/* The rows' way up: workers copy pieces into pinned memory, send them, and have them put into the kernels' order there.
 *
 * Each worker has a stream and UPLOAD_EACH pieces of its own and waits for nobody: one piece is filled while the other is on
 * the link, and between twelve workers the link is never idle, whatever a page fault costs one of them. (All workers on one
 * piece after another, a barrier between, reached half of the link.) On the device the pieces lie in the first workspace, which
 * nobody uses yet. A worker keeps CUDA's error, not a sentence: sentences belong to the caller's thread, which is the first
 * worker and so can tell how far all are between two pieces of its own. */
#include "backend/cuda/cuda.h"

#include <string.h>

struct lane { /* what one worker has; its slots follow one another */
    cudaStream_t stream;
    cudaEvent_t sent[UPLOAD_EACH];
    int64_t turn;
};

struct upload {
    struct resident *resident;
    struct thread_pool *pool;
    char *pinned;
    uint64_t piece_bytes; /* of each piece, here and there */
    int64_t piece_rows, row_bytes;
    struct lane lanes[UPLOAD_WORKERS];
    struct progress progress;
    _Atomic int64_t sent_rows;
    enum vic_status told; /* what the progress callback wants; the caller's thread alone looks */
    _Atomic int error;    /* the first one, a cudaError_t */
    _Atomic bool stopped; /* by an error or the callback: no worker begins another piece */
};

static cudaError_t piece_send(struct upload *upload, struct lane *lane, uint64_t slot, int64_t first, int64_t count) {
    struct resident *resident = upload->resident;
    const struct rows *source = &resident->source;
    uint64_t bytes = (uint64_t)(count * upload->row_bytes), at = slot * upload->piece_bytes;
    char *there = resident->workspaces[0].device + at;
    cudaEvent_t sent = lane->sent[slot % UPLOAD_EACH];
    struct pack_args args = {.source = there,
                             .source_dtype = source->dtype,
                             .first = first,
                             .count = count,
                             .target = resident->rows,
                             .norms = (float *)(uintptr_t)resident->rows.norms};
    cudaError_t error = cudaEventSynchronize(sent);
    if (error != cudaSuccess) return error;
    memcpy(upload->pinned + at, (const char *)source->data + first * upload->row_bytes, bytes);
    error = cudaMemcpyAsync(there, upload->pinned + at, bytes, cudaMemcpyHostToDevice, lane->stream);
    if (error == cudaSuccess) error = cudaEventRecord(sent, lane->stream);
    return error == cudaSuccess ? launch_pack(&args, lane->stream) : error;
}

/* The device's piece is written again only behind the packing of what it held: both are in the worker's stream. */
static void piece_upload(void *argument, int worker, int64_t part) {
    struct upload *upload = argument;
    struct lane *lane = &upload->lanes[worker];
    uint64_t slot = (uint64_t)worker * UPLOAD_EACH + (uint64_t)(lane->turn++ % UPLOAD_EACH);
    int none = cudaSuccess, ordinal = upload->resident->backend->ordinal;
    int64_t n = upload->resident->source.n, first = part * upload->piece_rows;
    int64_t count = n - first < upload->piece_rows ? n - first : upload->piece_rows;
    if (atomic_load(&upload->stopped)) return;
    cudaError_t error = cudaSetDevice(ordinal); /* a worker's thread has not chosen one yet */
    if (error == cudaSuccess) error = piece_send(upload, lane, slot, first, count);
    if (error != cudaSuccess) {
        (void)atomic_compare_exchange_strong(&upload->error, &none, (int)error);
        atomic_store(&upload->stopped, true);
        return;
    }
    int64_t sent = atomic_fetch_add(&upload->sent_rows, count) + count;
    if (worker > 0 || sent == n) return; /* that all are there is said when they are */
    upload->told = progress_step(&upload->progress, sent);
    if (upload->told != VIC_OK) atomic_store(&upload->stopped, true);
}

/* What is not rows: padding behind them, norms, ids. Packing reads the norms. */
static enum vic_status upload_rest(struct resident *resident, cudaStream_t stream) {
    const struct layout *layout = &resident->layout;
    const struct packed_rows *rows = &resident->rows;
    uint64_t filled = (uint64_t)rows->n * (uint64_t)rows->stride_bytes;
    enum vic_status status = VIC_OK;
    TRY(cuda_status(cudaMemsetAsync((char *)(uintptr_t)rows->data + filled, 0, layout->rows_bytes - filled, stream),
                    "clearing behind the rows"));
    if (layout->norms_bytes)
        TRY(cuda_status(cudaMemcpyAsync((void *)(uintptr_t)rows->norms, resident->source.norms, layout->norms_bytes,
                                        cudaMemcpyHostToDevice, stream),
                        "sending norms to the GPU"));
    if (layout->ids_bytes)
        TRY(cuda_status(cudaMemcpyAsync((void *)(uintptr_t)rows->ids, resident->source.ids, layout->ids_bytes,
                                        cudaMemcpyHostToDevice, stream),
                        "sending ids to the GPU"));
    TRY(cuda_status(cudaStreamSynchronize(stream), "sending norms to the GPU"));
done:
    return status;
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

static enum vic_status upload_begin(struct resident *resident, const struct vic_progress *progress, struct upload *upload) {
    struct backend *backend = resident->backend;
    const struct rows *source = &resident->source;
    void *pinned = NULL;
    enum vic_status status = VIC_OK;
    *upload = (struct upload){.resident = resident,
                              .piece_bytes = resident->layout.piece_bytes,
                              .row_bytes = source->dim * element_bytes(source->dtype),
                              .progress = progress_start(progress, "uploading", source->n)};
    upload->piece_rows = (int64_t)upload->piece_bytes / upload->row_bytes;
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
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < UPLOAD_WORKERS; i++) {
        struct lane *lane = &upload->lanes[i];
        cudaError_t ended = lane->stream ? cudaStreamSynchronize(lane->stream) : cudaSuccess;
        if (error == cudaSuccess) error = ended;
        for (int j = 0; j < UPLOAD_EACH; j++)
            if (lane->sent[j]) (void)cudaEventDestroy(lane->sent[j]);
        if (lane->stream) (void)cudaStreamDestroy(lane->stream);
    }
    thread_pool_close(upload->pool);
    pinned_free(upload->resident->backend->host, upload->pinned, UPLOAD_SLOTS * upload->piece_bytes);
    return error;
}

enum vic_status rows_upload(struct resident *resident, const struct vic_progress *progress) {
    struct workspace *workspace = &resident->workspaces[0];
    struct upload upload = {.resident = resident};
    int64_t n = resident->source.n;
    enum vic_status status = VIC_OK;
    if (n == 0) return VIC_OK;
    TRY(upload_rest(resident, workspace->stream));
    TRY(upload_begin(resident, progress, &upload));
    (void)thread_pool_run(upload.pool, (n + upload.piece_rows - 1) / upload.piece_rows, piece_upload, &upload);
    TRY(cuda_status((cudaError_t)atomic_load(&upload.error), "sending rows to the GPU"));
    status = upload.told;
done:;
    cudaError_t error = upload_end(&upload);
    if (status == VIC_OK) status = cuda_status(error, "sending rows to the GPU");
    (void)cudaGetLastError(); /* the first failure has been told */
    if (status == VIC_OK) status = progress_step(&upload.progress, n);
    if (status != VIC_OK) return status;
    status = cuda_status(cudaMemsetAsync(workspace->device, 0, resident->layout.device_bytes, workspace->stream),
                         "clearing a workspace");
    if (status == VIC_OK) status = cuda_status(cudaStreamSynchronize(workspace->stream), "clearing a workspace");
    return status;
}
