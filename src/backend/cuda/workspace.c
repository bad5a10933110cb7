/* Workspaces: made, claimed, given back; and the order of one search's work behind another's. */
#include "backend/cuda/cuda.h"

#include <string.h>

enum vic_status pinned_alloc(struct mem *mem, uint64_t bytes, const char *what, void **memory) {
    enum vic_status status = mem_check(mem, bytes, what);
    if (status != VIC_OK) return status;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaError_t error = cudaThreadExchangeStreamCaptureMode(&mode);
    if (error != cudaSuccess) return cuda_status(error, what);
    error = cudaHostAlloc(memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    if (error != cudaSuccess) return cuda_status(error, what);
    uint64_t used = atomic_fetch_add(&mem->used, bytes) + bytes, peak = atomic_load(&mem->peak);
    while (used > peak && !atomic_compare_exchange_weak(&mem->peak, &peak, used)) {
    }
    return VIC_OK;
}

void pinned_free(struct mem *mem, void *memory, uint64_t bytes) {
    if (!memory) return;
    if (!device_forked()) (void)cudaFreeHost(memory);
    atomic_fetch_sub(&mem->used, bytes);
}

void workspace_destroy(struct resident *resident, struct workspace *workspace) {
    struct backend *backend = resident->backend;
    if (!device_forked()) {
        if (workspace->pending) (void)cudaEventSynchronize(workspace->free_event);
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
    workspace->pending = workspace->made = true;
    workspace->last_stream = workspace->stream;
    return VIC_OK;
done:
    workspace_destroy(resident, workspace);
    return status;
}

/* Whether all that was enqueued with it is done. */
static bool workspace_idle(struct workspace *workspace) {
    if (workspace->pending && cudaEventQuery(workspace->free_event) == cudaSuccess) workspace->pending = false;
    return !workspace->pending;
}

/* The best there is: idle, or last used on the same stream; else a new one; else any that no thread holds. */
static struct workspace *workspace_find(struct resident *resident, const void *stream, bool capturing) {
    struct workspace *late = NULL, *room = NULL;
    for (int i = 0; i < WORKSPACES_MAX; i++) {
        struct workspace *at = &resident->workspaces[i];
        if (!at->made) {
            if (!room) room = at;
        } else if (!at->busy && !at->captured) {
            if ((!capturing && stream && at->last_stream == stream) || workspace_idle(at)) return at;
            late = at;
        }
    }
    if (room && workspace_make(resident, room) == VIC_OK) return room;
    return late;
}

/* Waits on the host when a capture could not express the wait, or when pinned memory will be written. */
static cudaError_t workspace_order(struct run *run) {
    struct workspace *workspace = run->workspace;
    if (!workspace->pending) return cudaSuccess;
    bool host_waits = run->capturing || run->call->queries->place == VIC_HOST || run->call->filter;
    if (host_waits) return cudaEventSynchronize(workspace->free_event);
    return workspace->last_stream == run->stream ? cudaSuccess : cudaStreamWaitEvent(run->stream, workspace->free_event, 0);
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
        if (!wait) run->workspace = workspace_find(resident, run->call->stream, run->capturing);
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

static enum vic_status capture_check(struct run *run) {
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

enum vic_status run_begin(struct resident *resident, const struct search_call *call, bool selecting, struct run *run) {
    *run = (struct run){.resident = resident, .call = call, .stream = call->stream, .selecting = selecting};
    enum vic_status status = device_enter(resident->backend, &run->previous_device);
    if (status != VIC_OK) return status;
    status = capture_check(run);
    if (status != VIC_OK) {
        device_leave(resident->backend, run->previous_device);
        return status;
    }
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    if (run->capturing) (void)cudaThreadExchangeStreamCaptureMode(&mode);
    status = run_claim(run);
    if (run->workspace && !call->stream) run->stream = run->workspace->stream;
    cudaError_t error = run->workspace ? workspace_order(run) : cudaSuccess;
    if (run->workspace && error == cudaSuccess && selecting && resident->select.pending)
        error = cudaStreamWaitEvent(run->stream, resident->select.free_event, 0);
    if (run->capturing) (void)cudaThreadExchangeStreamCaptureMode(&mode);
    if (status == VIC_OK) status = cuda_status(error, "waiting for a workspace");
    if (status == VIC_OK) return VIC_OK;
    if (run->workspace) return run_end(run, status, false);
    device_leave(resident->backend, run->previous_device);
    return status;
}

enum vic_status run_end(struct run *run, enum vic_status status, bool asynchronous) {
    struct resident *resident = run->resident;
    struct workspace *workspace = run->workspace;
    cudaError_t error = cudaSuccess;
    /* After a failure something may still be enqueued: the workspace is free when the stream is. */
    bool pending = asynchronous || status != VIC_OK;
    if (pending && !run->capturing) {
        error = cudaEventRecord(workspace->free_event, run->stream);
        if (error == cudaSuccess && run->selecting) error = cudaEventRecord(resident->select.free_event, run->stream);
    }
    (void)pthread_mutex_lock(&resident->mutex);
    workspace->busy = false;
    workspace->pending = pending && !run->capturing && error == cudaSuccess;
    workspace->captured = run->capturing && status == VIC_OK;
    workspace->last_stream = run->stream;
    if (run->selecting) resident->select.busy = false, resident->select.pending = workspace->pending;
    (void)pthread_cond_broadcast(&resident->freed);
    (void)pthread_mutex_unlock(&resident->mutex);
    device_leave(resident->backend, run->previous_device);
    return status != VIC_OK ? status : cuda_status(error, "marking the end of a search");
}

enum vic_status run_wait(const struct run *run) {
    return cuda_status(cudaStreamSynchronize(run->stream), "waiting for the GPU");
}
