/* The rows' way up: pieces are copied into pinned memory by several threads, sent, and put into the kernels' order there.
 *
 * PIECES of them are in flight, so that the copy on the host, the link and the packing kernel overlap; the link is the limit.
 * On the device the pieces lie in the first workspace, which nobody uses yet. */
#include "backend/cuda/cuda.h"

#include <string.h>

enum { COPY_PARTS = 32, COPY_THREADS = 12 };

struct upload {
    struct resident *resident;
    struct thread_pool *pool;
    void *pinned;
    uint64_t piece_bytes; /* of each piece, here and there */
    int64_t piece_rows, row_bytes;
    cudaEvent_t sent[PIECES];
};

struct copy_job {
    char *target;
    const char *source;
    uint64_t bytes;
};

static void copy_part(void *argument, int worker, int64_t part) {
    const struct copy_job *job = argument;
    (void)worker;
    uint64_t each = round_up((job->bytes + COPY_PARTS - 1) / COPY_PARTS, 4096), first = each * (uint64_t)part;
    if (first >= job->bytes) return;
    memcpy(job->target + first, job->source + first, job->bytes - first < each ? job->bytes - first : each);
}

static enum vic_status upload_piece(const struct upload *upload, int64_t first, int number) {
    struct resident *resident = upload->resident;
    const struct rows *source = &resident->source;
    struct workspace *workspace = &resident->workspaces[0];
    cudaStream_t stream = workspace->stream;
    enum vic_status status = VIC_OK;
    int64_t count = source->n - first < upload->piece_rows ? source->n - first : upload->piece_rows;
    uint64_t bytes = (uint64_t)(count * upload->row_bytes), at = (uint64_t)(number % PIECES) * upload->piece_bytes;
    struct copy_job job = {(char *)upload->pinned + at, (const char *)source->data + first * upload->row_bytes, bytes};
    TRY(cuda_status(cudaEventSynchronize(upload->sent[number % PIECES]), "sending rows to the GPU"));
    (void)thread_pool_run(upload->pool, COPY_PARTS, copy_part, &job);
    TRY(cuda_status(cudaMemcpyAsync(workspace->device + at, job.target, bytes, cudaMemcpyHostToDevice, stream),
                    "sending rows to the GPU"));
    TRY(cuda_status(cudaEventRecord(upload->sent[number % PIECES], stream), "sending rows to the GPU"));
    struct pack_args args = {.source = workspace->device + at,
                             .source_dtype = source->dtype,
                             .first = first,
                             .count = count,
                             .target = resident->rows,
                             .norms = (float *)(uintptr_t)resident->rows.norms};
    TRY(cuda_status(launch_pack(&args, stream), "packing rows on the GPU"));
done:
    return status;
}

/* What is not rows: padding behind them, norms, ids. */
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
done:
    return status;
}

static enum vic_status upload_begin(struct resident *resident, struct upload *upload) {
    struct backend *backend = resident->backend;
    const struct rows *source = &resident->source;
    enum vic_status status = VIC_OK;
    *upload = (struct upload){.resident = resident,
                              .piece_bytes = resident->layout.piece_bytes,
                              .row_bytes = source->dim * element_bytes(source->dtype)};
    upload->piece_rows = (int64_t)upload->piece_bytes / upload->row_bytes;
    TRY(pinned_alloc(backend->host, PIECES * upload->piece_bytes, "rows on their way to the GPU", &upload->pinned));
    int cores = thread_cores(), threads = backend->threads > 0 && backend->threads < cores ? backend->threads : cores;
    TRY(thread_pool_open(backend->host, threads < COPY_THREADS ? threads : COPY_THREADS, &upload->pool));
    for (int i = 0; i < PIECES; i++)
        TRY(cuda_status(cudaEventCreateWithFlags(&upload->sent[i], cudaEventDisableTiming), "making an event"));
done:
    return status;
}

static void upload_end(struct upload *upload) {
    for (int i = 0; i < PIECES; i++)
        if (upload->sent[i]) (void)cudaEventDestroy(upload->sent[i]);
    thread_pool_close(upload->pool);
    pinned_free(upload->resident->backend->host, upload->pinned, PIECES * upload->piece_bytes);
}

enum vic_status rows_upload(struct resident *resident) {
    struct workspace *workspace = &resident->workspaces[0];
    struct upload upload;
    int number = 0;
    if (resident->source.n == 0) return VIC_OK;
    enum vic_status status = VIC_OK;
    TRY(upload_begin(resident, &upload));
    TRY(upload_rest(resident, workspace->stream));
    for (int64_t first = 0; first < resident->source.n; first += upload.piece_rows, number++)
        TRY(upload_piece(&upload, first, number));
    TRY(cuda_status(cudaMemsetAsync(workspace->device, 0, resident->layout.device_bytes, workspace->stream),
                    "clearing a workspace"));
done:
    if (status == VIC_OK)
        status = cuda_status(cudaStreamSynchronize(workspace->stream), "sending rows to the GPU");
    else
        (void)cudaStreamSynchronize(workspace->stream); /* nothing may still read the pinned pieces */
    upload_end(&upload);
    return status;
}
