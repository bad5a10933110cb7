/* The rows' way up: workers fill batches of pieces in pinned memory, each batch is sent by one copy, and the device puts it
 * into the kernels' order.
 *
 * Whoever fills the last piece of a batch sends it, and nobody waits but for a batch's place to come free: pieces are handed
 * out in ascending order, so all that a worker waits for is in other workers' hands already. A batch is as large as the link
 * asks for, which is idle between two copies (1 MiB at a time reaches 44 GB/s of its 55, 2 MiB 48, 8 MiB 53.6, whatever
 * threads, streams and pieces there are); a piece is what twelve threads can share; and all places together stay within the
 * cores' caches, out of which the link then reads (H200, Xeon of 16 cores, November 2026). Rows of a mapped file are read from
 * the file straight into pinned memory: a core does 6.5 GB/s so, 7.5 by copies out of the mapping, which would be a signal
 * where a read is an error. On the device the places lie in the first workspace, which nobody uses yet. A worker keeps what
 * went wrong, not a sentence: sentences belong to the caller's thread, which is the first worker and so can tell how far all
 * are between two pieces of its own. */
#include "backend/cuda/cuda.h"

#include <sched.h>

struct batch { /* one place for them, here and there */
    cudaStream_t stream;
    cudaEvent_t sent;         /* the place here may be filled again */
    _Atomic int64_t launched; /* batches that went from here, of the stretch that is being sent */
    _Atomic int64_t filled;   /* pieces of the next one that are there */
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
    uint64_t batch_bytes;                     /* of each, here and there */
    struct stretch stretch;                   /* that is being sent, and of it: */
    int64_t batch_count, piece_count, pieces; /* things in a batch and in a piece, pieces in a batch */
    struct batch batches[UPLOAD_BATCHES];
    struct progress progress;
    _Atomic int64_t sent_rows;
    enum vic_status told;   /* what the progress callback wants; the caller's thread alone looks */
    struct failure failure; /* the first one */
    _Atomic int failures;
    _Atomic bool stopped; /* by a failure or the callback: no worker begins another piece */
};

/* Things of the stretch: [first, first + count). Pieces are numbered through all batches. */
struct piece {
    int64_t turn, place; /* of its batch: the turn-th one in batches[place] */
    int64_t first, count, batch_first, batch_count;
};

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static struct piece piece_at(const struct upload *upload, int64_t number) {
    int64_t batch = number / upload->pieces, at = number % upload->pieces * upload->piece_count;
    struct piece piece = {.turn = batch / UPLOAD_BATCHES, .place = batch % UPLOAD_BATCHES};
    piece.batch_first = batch * upload->batch_count;
    piece.batch_count = least_of(upload->batch_count, upload->stretch.count - piece.batch_first);
    piece.first = piece.batch_first + at;
    piece.count = least_of(upload->piece_count, piece.batch_count - at);
    return piece;
}

static int64_t pieces_of(const struct upload *upload, int64_t count) {
    return (count + upload->piece_count - 1) / upload->piece_count;
}

/* The device's place is written again only behind the packing of what it held: both are in the batch's stream. */
static cudaError_t batch_send(struct upload *upload, const struct piece *piece) {
    struct resident *resident = upload->resident;
    const struct stretch *stretch = &upload->stretch;
    struct batch *batch = &upload->batches[piece->place];
    uint64_t bytes = (uint64_t)(piece->batch_count * stretch->bytes_each);
    uint64_t at = (uint64_t)piece->place * upload->batch_bytes;
    char *there = resident->workspaces[0].device + at;
    if (stretch->to) there = stretch->to + piece->batch_first * stretch->bytes_each;
    struct pack_args args = {.source = there,
                             .source_dtype = resident->source.dtype,
                             .first = piece->batch_first,
                             .count = piece->batch_count,
                             .target = resident->rows,
                             .norms = (float *)(uintptr_t)resident->rows.norms};
    cudaError_t error = cudaMemcpyAsync(there, upload->pinned + at, bytes, cudaMemcpyHostToDevice, batch->stream);
    if (error == cudaSuccess) error = cudaEventRecord(batch->sent, batch->stream);
    if (error == cudaSuccess && !stretch->to) error = launch_pack(&args, batch->stream);
    return error;
}

/* Fills the piece when its place is free; the last one sends the batch. */
static bool piece_send(struct upload *upload, const struct piece *piece, struct failure *failure) {
    const struct stretch *stretch = &upload->stretch;
    struct batch *batch = &upload->batches[piece->place];
    uint64_t at = (uint64_t)((piece->first - piece->batch_first) * stretch->bytes_each);
    char *here = upload->pinned + (uint64_t)piece->place * upload->batch_bytes + at;
    while (atomic_load(&batch->launched) < piece->turn) {
        if (atomic_load(&upload->stopped)) return true;
        (void)sched_yield();
    }
    if ((failure->error = cudaEventSynchronize(batch->sent)) != cudaSuccess) return false;
    if (!mapped_copy(upload->mapped, stretch->from + piece->first * stretch->bytes_each,
                     (uint64_t)(piece->count * stretch->bytes_each), here, &failure->fault))
        return false;
    if (atomic_fetch_add(&batch->filled, 1) + 1 < pieces_of(upload, piece->batch_count)) return true;
    atomic_store(&batch->filled, 0);
    failure->error = batch_send(upload, piece);
    atomic_fetch_add(&batch->launched, 1);
    return failure->error == cudaSuccess;
}

static void piece_upload(void *argument, int worker, int64_t number) {
    struct upload *upload = argument;
    struct piece piece = piece_at(upload, number);
    if (atomic_load(&upload->stopped)) return;
    /* A worker's thread has not chosen a device yet. */
    struct failure failure = {.error = cudaSetDevice(upload->resident->backend->ordinal)};
    if (failure.error != cudaSuccess || !piece_send(upload, &piece, &failure)) {
        if (atomic_fetch_add(&upload->failures, 1) == 0) upload->failure = failure;
        atomic_store(&upload->stopped, true);
        return;
    }
    if (upload->stretch.to || atomic_load(&upload->stopped)) return;
    int64_t sent = atomic_fetch_add(&upload->sent_rows, piece.count) + piece.count;
    if (worker > 0 || sent == upload->stretch.count) return; /* that all are there is said when they are */
    upload->told = progress_step(&upload->progress, sent);
    if (upload->told != VIC_OK) atomic_store(&upload->stopped, true);
}

static enum vic_status stretch_upload(struct upload *upload, const void *from, const void *to, int64_t bytes_each) {
    int64_t n = upload->resident->source.n;
    upload->stretch = (struct stretch){from, (char *)(uintptr_t)to, n, bytes_each};
    upload->batch_count = (int64_t)upload->batch_bytes / bytes_each;
    upload->piece_count = (upload->batch_count + UPLOAD_PIECES - 1) / UPLOAD_PIECES;
    upload->pieces = pieces_of(upload, upload->batch_count);
    for (int i = 0; i < UPLOAD_BATCHES; i++) atomic_store(&upload->batches[i].launched, 0);
    int64_t whole = n / upload->batch_count, rest = n % upload->batch_count;
    (void)thread_pool_run(upload->pool, whole * upload->pieces + pieces_of(upload, rest), piece_upload, upload);
    if (atomic_load(&upload->failures) == 0) return upload->told;
    if (upload->failure.error == cudaSuccess) return mapped_fail(upload->mapped, &upload->failure.fault);
    return cuda_status(upload->failure.error, "sending rows to the GPU");
}

static cudaError_t batches_wait(const struct upload *upload) {
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < UPLOAD_BATCHES; i++) {
        cudaStream_t stream = upload->batches[i].stream;
        cudaError_t ended = stream ? cudaStreamSynchronize(stream) : cudaSuccess;
        if (error == cudaSuccess) error = ended;
    }
    return error;
}

/* A handle that could not be made is no handle: CUDA may have written something there all the same. */
static enum vic_status batch_open(struct batch *batch) {
    cudaError_t error = cudaStreamCreateWithFlags(&batch->stream, cudaStreamNonBlocking);
    if (error != cudaSuccess) batch->stream = NULL;
    if (error == cudaSuccess) {
        error = cudaEventCreateWithFlags(&batch->sent, cudaEventDisableTiming);
        if (error != cudaSuccess) batch->sent = NULL;
    }
    return cuda_status(error, "making a stream");
}

static enum vic_status upload_begin(struct upload *upload, const struct vic_progress *progress) {
    struct backend *backend = upload->resident->backend;
    void *pinned = NULL;
    enum vic_status status = VIC_OK;
    upload->progress = progress_start(progress, "uploading", upload->resident->source.n);
    upload->batch_bytes = upload->resident->layout.batch_bytes;
    int cores = thread_cores(), threads = backend->threads > 0 && backend->threads < cores ? backend->threads : cores;
    TRY(thread_pool_open(backend->host, threads < UPLOAD_WORKERS ? threads : UPLOAD_WORKERS, &upload->pool));
    TRY(staging_alloc(backend->host, upload->pool, UPLOAD_BATCHES * upload->batch_bytes, "rows on their way to the GPU",
                      &pinned));
    upload->pinned = pinned;
    for (int i = 0; i < UPLOAD_BATCHES; i++) TRY(batch_open(&upload->batches[i]));
done:
    return status;
}

/* Nothing may still read the pinned memory when it is given back. */
static cudaError_t upload_end(struct upload *upload) {
    cudaError_t error = batches_wait(upload);
    for (int i = 0; i < UPLOAD_BATCHES; i++) {
        if (upload->batches[i].sent) (void)cudaEventDestroy(upload->batches[i].sent);
        if (upload->batches[i].stream) (void)cudaStreamDestroy(upload->batches[i].stream);
    }
    staging_free(upload->resident->backend->host, upload->pinned, UPLOAD_BATCHES * upload->batch_bytes);
    thread_pool_close(upload->pool);
    return error;
}

/* Packing reads the norms: all of them are there before the first row is. */
static enum vic_status stretches_upload(struct upload *upload) {
    const struct rows *source = &upload->resident->source;
    const struct packed_rows *there = &upload->resident->rows;
    enum vic_status status = VIC_OK;
    if (there->norms) TRY(stretch_upload(upload, source->norms, there->norms, sizeof *source->norms));
    if (there->ids) TRY(stretch_upload(upload, source->ids, there->ids, sizeof *source->ids));
    if (there->norms) TRY(cuda_status(batches_wait(upload), "sending norms to the GPU"));
    TRY(stretch_upload(upload, source->data, NULL, source->dim * element_bytes(source->dtype)));
done:
    return status;
}

/* Zeroes behind the rows, and in the workspace where the batches lay. */
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
    /* What workspace_make has enqueued may not run into the batches. */
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
