/* Workspaces: made, claimed, given back; and the order of one search's work behind another's. */
#include "backend/cuda/cuda.h"

#include <string.h>

/* ---- whether a workspace's work is done */

enum { SPINS_PER_QUESTION = 1 << 16 };

static bool word_reached(const struct workspace *workspace, uint32_t epoch) {
    const _Atomic uint32_t *word = (const _Atomic uint32_t *)(const void *)workspace->pinned;
    return atomic_load_explicit(word, memory_order_acquire) == epoch;
}

bool word_spin(const struct workspace *workspace, uint32_t epoch) {
    for (int spins = 0; spins < SPINS_PER_QUESTION; spins++) {
        if (word_reached(workspace, epoch)) return true;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    return false;
}

static bool workspace_idle(struct workspace *workspace) {
    bool done = workspace->pending == PENDING_EVENT  ? cudaEventQuery(workspace->free_event) == cudaSuccess
                : workspace->pending == PENDING_WORD ? word_reached(workspace, workspace->epoch)
                                                     : true;
    if (done) workspace->pending = PENDING_NOTHING;
    return done;
}

/* On the host. A device that has failed writes no word, and says so to whoever asks a stream; ours, since the caller's may
 * be gone. */
static cudaError_t workspace_await(struct workspace *workspace) {
    cudaError_t error = cudaSuccess;
    if (workspace->pending == PENDING_EVENT) error = cudaEventSynchronize(workspace->free_event);
    while (workspace->pending == PENDING_WORD && error == cudaSuccess && !word_spin(workspace, workspace->epoch)) {
        error = cudaStreamQuery(workspace->stream);
        if (error == cudaErrorNotReady) error = cudaSuccess;
    }
    return error;
}

static CUresult word_follow(word_awaiter *await, cudaStream_t stream, const struct workspace *workspace) {
    return await(stream, (CUdeviceptr)(uintptr_t)workspace->pinned, workspace->epoch, CU_STREAM_WAIT_VALUE_GEQ);
}

/* On the device: what is enqueued in the run's stream from now on comes after the workspace's work. */
static cudaError_t workspace_follow(const struct run *run) {
    const struct workspace *workspace = run->workspace;
    if (workspace->pending == PENDING_EVENT) return cudaStreamWaitEvent(run->stream, workspace->free_event, 0);
    CUresult result = word_follow(run->resident->word_await, run->stream, workspace);
    return (cudaError_t)result; /* their numbers agree */
}

word_awaiter *word_awaiter_find(const struct workspace *workspace) {
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &found, 12000, cudaEnableDefault, &result);
#else
    cudaError_t error = cudaGetDriverEntryPoint("cuStreamWaitValue32", &found, cudaEnableDefault, &result);
#endif
    if (error != cudaSuccess) (void)cudaGetLastError();
    if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) return NULL;
    word_awaiter *await = (word_awaiter *)found;
    return word_follow(await, workspace->stream, workspace) == CUDA_SUCCESS ? await : NULL;
}

/* ---- making and destroying */

void workspace_destroy(struct resident *resident, struct workspace *workspace) {
    struct backend *backend = resident->backend;
    if (!device_forked()) {
        (void)workspace_await(workspace);
        if (workspace->stream) (void)cudaStreamDestroy(workspace->stream);
        if (workspace->free_event) (void)cudaEventDestroy(workspace->free_event);
    }
    mem_free(backend->device, workspace->device, resident->layout.device_bytes);
    pinned_free(backend->host, workspace->pinned, resident->layout.pinned_bytes);
    *workspace = (struct workspace){0};
}

enum vic_status workspace_make(struct resident *resident, struct workspace *workspace) {
    struct backend *backend = resident->backend;
    const struct layout *layout = &resident->layout;
    void *device = NULL, *pinned = NULL;
    enum vic_status status = VIC_OK;
    *workspace = (struct workspace){0};
    TRY(mem_alloc(backend->device, layout->device_bytes, "a search's workspace on the GPU", &device));
    workspace->device = device;
    TRY(pinned_alloc(backend->host, layout->pinned_bytes, "a search's pinned memory", &pinned));
    workspace->pinned = pinned;
    TRY(cuda_status(cudaStreamCreateWithFlags(&workspace->stream, cudaStreamNonBlocking), "making a stream"));
    TRY(cuda_status(cudaEventCreateWithFlags(&workspace->free_event, cudaEventDisableTiming), "making an event"));
    /* The counter of finished blocks must start at 0; the rest is cleared so that no byte is ever read unwritten. */
    TRY(cuda_status(cudaMemsetAsync(device, 0, layout->device_bytes, workspace->stream), "clearing a workspace"));
    TRY(cuda_status(cudaEventRecord(workspace->free_event, workspace->stream), "clearing a workspace"));
    memset(pinned, 0, layout->pinned_bytes);
    workspace->made = true;
    workspace->pending = PENDING_EVENT;
    return VIC_OK;
done:
    workspace_destroy(resident, workspace);
    return status;
}

/* ---- claiming */

static bool stream_number(cudaStream_t stream, unsigned long long *number) {
    if (cudaStreamGetId(stream, number) == cudaSuccess) return true;
    (void)cudaGetLastError();
    return false;
}

/* Whether all that was enqueued with it is done, or comes before what will be in the run's stream: then run->follows. Handles
 * of a stream that is gone and of a new one may be equal, and every thread's own stream has the same one; numbers differ. */
static bool workspace_suits(struct run *run, struct workspace *workspace) {
    unsigned long long number = 0;
    if (workspace->pending != PENDING_EVENT && workspace_idle(workspace)) return true;
    run->follows = run->call->stream && !run->capturing && workspace->last_stream == run->stream &&
                   stream_number(run->stream, &number) && number == workspace->last_number;
    return run->follows || workspace_idle(workspace);
}

/* The best there is: idle, or last used on the same stream; else a new one; else any that no thread holds. */
static struct workspace *workspace_find(struct run *run) {
    struct resident *resident = run->resident;
    struct workspace *late = NULL, *room = NULL;
    for (int i = 0; i < WORKSPACES_MAX; i++) {
        struct workspace *at = &resident->workspaces[i];
        if (!at->made) {
            if (!room) room = at;
        } else if (!at->busy && !at->captured) {
            if (workspace_suits(run, at)) return at;
            late = at;
        }
    }
    if (room && workspace_make(resident, room) == VIC_OK) return room;
    return late;
}

/* Waits on the host when a capture could not express the wait, or when pinned memory will be written. */
static cudaError_t workspace_order(const struct run *run) {
    struct workspace *workspace = run->workspace;
    if (workspace->pending == PENDING_NOTHING) return cudaSuccess;
    bool host_waits = run->capturing || run->call->queries->place == VIC_HOST || run->call->filter;
    if (host_waits) return workspace_await(workspace);
    return run->follows ? cudaSuccess : workspace_follow(run);
}

/* Whether a thread will give a workspace back. */
static bool workspace_coming(const struct resident *resident) {
    for (int i = 0; i < WORKSPACES_MAX; i++)
        if (resident->workspaces[i].busy) return true;
    return false;
}

static enum vic_status run_claim(struct run *run) {
    struct resident *resident = run->resident;
    enum vic_status status = VIC_OK;
    (void)pthread_mutex_lock(&resident->mutex);
    for (;;) {
        bool wait = run->selecting && resident->select.busy;
        if (!wait) run->workspace = workspace_find(run);
        if (run->workspace) break;
        if (!workspace_coming(resident)) {
            status = status_fail(VIC_NO_MEMORY,
                                 "expected one of %d workspaces, found that captured graphs hold those there are "
                                 "and no other could be made",
                                 WORKSPACES_MAX);
            break;
        }
        (void)pthread_cond_wait(&resident->freed, &resident->mutex);
    }
    if (run->workspace) run->workspace->busy = true;
    if (run->workspace && run->selecting) resident->select.busy = true;
    (void)pthread_mutex_unlock(&resident->mutex);
    return status;
}

static enum vic_status stream_check(struct run *run) {
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (!run->call->stream) return VIC_OK;
    enum vic_status status = cuda_status(cudaStreamIsCapturing(run->stream, &capture), "looking at the caller's stream");
    run->capturing = capture == cudaStreamCaptureStatusActive;
    if (status != VIC_OK || !run->capturing) return status;
    if (run->selecting) return status_fail(VIC_UNSUPPORTED, "expected k of at most %d in a captured search", SMALL_KEEP);
    if (run->call->queries->place != VIC_DEVICE || run->call->filter)
        return status_fail(VIC_UNSUPPORTED, "expected queries on the device and no filter in a captured search");
    return VIC_OK;
}

/* Gives back what was claimed, as it is. */
static void run_leave(const struct run *run) {
    struct resident *resident = run->resident;
    if (run->workspace) {
        (void)pthread_mutex_lock(&resident->mutex);
        run->workspace->busy = false;
        if (run->selecting) resident->select.busy = false;
        (void)pthread_cond_broadcast(&resident->freed);
        (void)pthread_mutex_unlock(&resident->mutex);
    }
    device_leave(resident->backend, run->previous_device);
}

/* A workspace, in which the stream comes after whoever had it before. */
static enum vic_status run_take(struct run *run) {
    struct select_area *select = &run->resident->select;
    enum vic_status status = run_claim(run);
    if (status != VIC_OK) return status;
    if (!run->call->stream) run->stream = run->workspace->stream;
    cudaError_t error = workspace_order(run);
    if (error == cudaSuccess && run->selecting && select->pending)
        error = cudaStreamWaitEvent(run->stream, select->free_event, 0);
    return cuda_status(error, "waiting for a workspace");
}

enum vic_status run_begin(struct resident *resident, const struct search_call *call, bool selecting, struct run *run) {
    *run = (struct run){.resident = resident, .call = call, .stream = call->stream, .selecting = selecting};
    enum vic_status status = device_enter(resident->backend, &run->previous_device);
    if (status != VIC_OK) return status;
    status = stream_check(run);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    if (run->capturing) (void)cudaThreadExchangeStreamCaptureMode(&mode);
    if (status == VIC_OK) status = run_take(run);
    if (run->capturing) (void)cudaThreadExchangeStreamCaptureMode(&mode);
    if (status != VIC_OK) run_leave(run);
    return status;
}

/* Keeps the number of a stream that was not there last time; asking for it takes as long as the rest of this. A number may
 * be of the stream that had this handle before: it then suits nobody. Not so where one handle is many streams' at once. */
static void stream_note(struct workspace *workspace, cudaStream_t stream) {
    if (workspace->last_stream == stream && stream != cudaStreamPerThread) return;
    workspace->last_stream = stream_number(stream, &workspace->last_number) ? stream : NULL;
}

enum vic_status run_end(struct run *run, enum vic_status status, bool asynchronous) {
    struct resident *resident = run->resident;
    struct workspace *workspace = run->workspace;
    cudaError_t error = cudaSuccess;
    /* After a failure something may still be enqueued: the workspace is free when the stream is. */
    bool enqueued = (asynchronous || status != VIC_OK) && !run->capturing, marked = run->marked && status == VIC_OK;
    if (enqueued && !marked) {
        error = cudaEventRecord(workspace->free_event, run->stream);
        if (error == cudaSuccess && run->selecting) error = cudaEventRecord(resident->select.free_event, run->stream);
        enqueued = error == cudaSuccess;
    }
    workspace->pending = !enqueued ? PENDING_NOTHING : marked ? PENDING_WORD : PENDING_EVENT;
    workspace->captured = run->capturing && status == VIC_OK;
    if (enqueued) stream_note(workspace, run->stream);
    if (run->selecting) resident->select.pending = enqueued;
    run_leave(run);
    return status != VIC_OK ? status : cuda_status(error, "marking the end of a search");
}

enum vic_status run_wait(const struct run *run) {
    return cuda_status(cudaStreamSynchronize(run->stream), "waiting for the GPU");
}
