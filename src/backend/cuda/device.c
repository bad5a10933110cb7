/* GPUs as devices: what is here, opening one, and the care that each call takes of the caller's thread. */
#include "backend/cuda/cuda.h"

#include <stdio.h>
#include <unistd.h>

enum vic_status cuda_status(cudaError_t error, const char *doing) {
    if (error == cudaSuccess) return VIC_OK;
    (void)cudaGetLastError();
    enum vic_status status = error == cudaErrorMemoryAllocation ? VIC_NO_MEMORY : VIC_DEVICE_ERROR;
    return status_fail(status, "%s: CUDA says \"%s\" (%s)", doing, cudaGetErrorString(error), cudaGetErrorName(error));
}

/* ---- fork: CUDA's state does not exist in a child */

static _Atomic bool forked;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static void fork_child(void) { atomic_store(&forked, true); }
static void fork_watch(void) { (void)pthread_atfork(NULL, NULL, fork_child); }
bool device_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed); }

enum vic_status device_enter(const struct backend *backend, int *previous) {
    if (device_forked())
        return status_fail(VIC_FORKED,
                           "expected the process that opened the GPU, found its child after fork(): open the device "
                           "and the index in the child instead");
    cudaError_t error = cudaGetDevice(previous);
    if (error == cudaSuccess && *previous != backend->ordinal) error = cudaSetDevice(backend->ordinal);
    return cuda_status(error, "choosing the GPU");
}

void device_leave(const struct backend *backend, int previous) {
    if (previous != backend->ordinal) (void)cudaSetDevice(previous);
}

/* ---- what is here */

/* Why there is no GPU to be used, in a sentence. */
static void absence_write(cudaError_t error, char *sentence, size_t bytes) {
    int driver = 0, runtime = 0;
    (void)cudaGetLastError();
    (void)cudaRuntimeGetVersion(&runtime);
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        (void)snprintf(sentence, bytes, "expected an NVIDIA driver, found none on this machine");
    else if (error == cudaErrorInsufficientDriver)
        (void)snprintf(sentence, bytes, "expected an NVIDIA driver for CUDA %d.%d or newer, found one for %d.%d",
                       runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10);
    else
        (void)snprintf(sentence, bytes, "expected an NVIDIA GPU, found none: CUDA says \"%s\"", cudaGetErrorString(error));
}

static void gpu_describe(int ordinal, struct vic_device_info *info) {
    struct cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        (void)snprintf(info->sentence, sizeof info->sentence,
                       "expected a working GPU, found that CUDA says \"%s\" of number %d", cudaGetErrorString(error), ordinal);
        return;
    }
    (void)snprintf(info->model, sizeof info->model, "%.*s", (int)sizeof info->model - 1, properties.name);
    (void)snprintf(info->kernels, sizeof info->kernels, "sm_%d%d", properties.major, properties.minor);
    info->device_bytes = properties.totalGlobalMem;
    info->usable = properties.major >= 8;
    if (!info->usable)
        (void)snprintf(info->sentence, sizeof info->sentence,
                       "expected a GPU of compute capability 8.0 or newer, found %.60s with %d.%d", properties.name,
                       properties.major, properties.minor);
}

enum vic_status cuda_describe(int ordinal, struct vic_device_info *info) {
    int count = 0;
    cudaError_t error = device_forked() ? cudaSuccess : cudaGetDeviceCount(&count);
    bool none = error != cudaSuccess || count == 0;
    if (ordinal < 0 || (ordinal >= count && !(none && ordinal == 0)))
        return status_fail(VIC_NOT_FOUND, "expected a GPU from 0 to %d, found number %d", count - 1, ordinal);
    (void)snprintf(info->name, sizeof info->name, ordinal == 0 ? "cuda" : "cuda:%d", ordinal);
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page_bytes > 0) info->host_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    info->threads = thread_cores();
    if (device_forked())
        (void)snprintf(info->sentence, sizeof info->sentence,
                       "expected a process that has not forked, found a child after fork()");
    else if (none)
        absence_write(error != cudaSuccess ? error : cudaErrorNoDevice, info->sentence, sizeof info->sentence);
    else
        gpu_describe(ordinal, info);
    return VIC_OK;
}

/* ---- opening */

/* The device's memory is counted by a struct mem like all other; a search that is being captured may still allocate. */
static void *device_allocate(void *user, size_t bytes, size_t alignment) {
    (void)user, (void)alignment; /* CUDA aligns to 256 */
    void *memory = NULL;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) return NULL;
    cudaError_t error = cudaMalloc(&memory, bytes);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    if (error == cudaSuccess) return memory;
    (void)cudaGetLastError();
    return NULL;
}

static void device_release(void *user, void *memory, size_t bytes) {
    (void)user, (void)bytes;
    if (!device_forked()) (void)cudaFree(memory);
}

enum vic_status cuda_open(int ordinal, int threads, struct mem *host, struct mem *device, struct backend **backend) {
    (void)pthread_once(&fork_once, fork_watch);
    void *memory = NULL;
    int shared = 0;
    enum vic_status status = mem_alloc(host, sizeof(struct backend), "the GPU device", &memory);
    if (status != VIC_OK) return status;
    struct backend *made = memory;
    *made = (struct backend){.host = host, .device = device, .ordinal = ordinal, .threads = threads};
    device->hooks = (struct vic_allocator){device_allocate, device_release, made};
    int previous = ordinal;
    TRY(device_enter(made, &previous));
    TRY(cuda_status(cudaDeviceGetAttribute(&made->multiprocessors, cudaDevAttrMultiProcessorCount, ordinal), "asking the GPU"));
    TRY(cuda_status(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal), "asking the GPU"));
    made->shared_most = shared;
    device_leave(made, previous);
    *backend = made;
    return VIC_OK;
done:
    mem_free(host, made, sizeof *made);
    return status;
}

void cuda_close(struct backend *backend) {
    if (backend) mem_free(backend->host, backend, sizeof *backend);
}
