/* Between the CUDA backend and the CUDA runtime, and files, in the tests' object alone: the linker's --wrap sends the backend's
 * calls of a function here as __wrap_NAME, and the runtime's own is __real_NAME. Those names are given as symbols, as no C name
 * may begin with two underscores. */
#include "gpu/failing_cuda.h"

#include <cuda_runtime_api.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

cudaError_t real_malloc(void **memory, size_t bytes) __asm__("__real_cudaMalloc");
cudaError_t real_free(void *memory) __asm__("__real_cudaFree");
cudaError_t real_host_alloc(void **memory, size_t bytes, unsigned flags) __asm__("__real_cudaHostAlloc");
cudaError_t real_free_host(void *memory) __asm__("__real_cudaFreeHost");
cudaError_t real_host_register(void *memory, size_t bytes, unsigned flags) __asm__("__real_cudaHostRegister");
cudaError_t real_host_unregister(void *memory) __asm__("__real_cudaHostUnregister");
cudaError_t real_stream_create(cudaStream_t *stream, unsigned flags) __asm__("__real_cudaStreamCreateWithFlags");
cudaError_t real_stream_destroy(cudaStream_t stream) __asm__("__real_cudaStreamDestroy");
cudaError_t real_event_create(cudaEvent_t *event, unsigned flags) __asm__("__real_cudaEventCreateWithFlags");
cudaError_t real_event_destroy(cudaEvent_t event) __asm__("__real_cudaEventDestroy");
ssize_t real_pread(int file, void *to, size_t bytes, off_t offset) __asm__("__real_pread");

cudaError_t wrap_malloc(void **memory, size_t bytes) __asm__("__wrap_cudaMalloc");
cudaError_t wrap_free(void *memory) __asm__("__wrap_cudaFree");
cudaError_t wrap_host_alloc(void **memory, size_t bytes, unsigned flags) __asm__("__wrap_cudaHostAlloc");
cudaError_t wrap_free_host(void *memory) __asm__("__wrap_cudaFreeHost");
cudaError_t wrap_host_register(void *memory, size_t bytes, unsigned flags) __asm__("__wrap_cudaHostRegister");
cudaError_t wrap_host_unregister(void *memory) __asm__("__wrap_cudaHostUnregister");
cudaError_t wrap_stream_create(cudaStream_t *stream, unsigned flags) __asm__("__wrap_cudaStreamCreateWithFlags");
cudaError_t wrap_stream_destroy(cudaStream_t stream) __asm__("__wrap_cudaStreamDestroy");
cudaError_t wrap_event_create(cudaEvent_t *event, unsigned flags) __asm__("__wrap_cudaEventCreateWithFlags");
cudaError_t wrap_event_destroy(cudaEvent_t event) __asm__("__wrap_cudaEventDestroy");
ssize_t wrap_pread(int file, void *to, size_t bytes, off_t offset) __asm__("__wrap_pread");

static _Atomic int64_t requests, refused, live, fail_at;

static bool chosen(void) {
    if (atomic_fetch_add(&requests, 1) + 1 != atomic_load(&fail_at)) return false;
    atomic_fetch_add(&refused, 1);
    return true;
}

/* Asking for more than there can be leaves CUDA's record of a failure in this thread, as a refusal does that is none of ours.
 */
static bool refuse(void) {
    void *none = NULL;
    if (!chosen()) return false;
    (void)real_malloc(&none, (size_t)1 << 60);
    return true;
}

static cudaError_t taken(cudaError_t error) {
    if (error == cudaSuccess) atomic_fetch_add(&live, 1);
    return error;
}

static cudaError_t given_back(bool there, cudaError_t error) {
    if (there && error == cudaSuccess) atomic_fetch_sub(&live, 1);
    return error;
}

cudaError_t wrap_malloc(void **memory, size_t bytes) {
    return refuse() ? cudaErrorMemoryAllocation : taken(real_malloc(memory, bytes));
}
cudaError_t wrap_free(void *memory) { return given_back(memory != NULL, real_free(memory)); }

cudaError_t wrap_host_alloc(void **memory, size_t bytes, unsigned flags) {
    return refuse() ? cudaErrorMemoryAllocation : taken(real_host_alloc(memory, bytes, flags));
}
cudaError_t wrap_free_host(void *memory) { return given_back(memory != NULL, real_free_host(memory)); }

cudaError_t wrap_host_register(void *memory, size_t bytes, unsigned flags) {
    return refuse() ? cudaErrorMemoryAllocation : taken(real_host_register(memory, bytes, flags));
}
cudaError_t wrap_host_unregister(void *memory) { return given_back(true, real_host_unregister(memory)); }

cudaError_t wrap_stream_create(cudaStream_t *stream, unsigned flags) {
    return refuse() ? cudaErrorMemoryAllocation : taken(real_stream_create(stream, flags));
}
cudaError_t wrap_stream_destroy(cudaStream_t stream) { return given_back(true, real_stream_destroy(stream)); }

cudaError_t wrap_event_create(cudaEvent_t *event, unsigned flags) {
    return refuse() ? cudaErrorMemoryAllocation : taken(real_event_create(event, flags));
}
cudaError_t wrap_event_destroy(cudaEvent_t event) { return given_back(true, real_event_destroy(event)); }

ssize_t wrap_pread(int file, void *to, size_t bytes, off_t offset) {
    if (!chosen()) return real_pread(file, to, bytes, offset);
    errno = EIO;
    return -1;
}

static struct failing_cuda_counts look(void) {
    return (struct failing_cuda_counts){atomic_load(&requests), atomic_load(&refused), atomic_load(&live)};
}

static void start(int64_t n) {
    atomic_store(&requests, 0);
    atomic_store(&refused, 0);
    atomic_store(&fail_at, n);
}

static struct failing_cuda_counts stop(void) {
    atomic_store(&fail_at, 0);
    return look();
}

__attribute__((visibility("default"))) extern const struct failing_cuda failing_cuda_object;
const struct failing_cuda failing_cuda_object = {start, look, stop};
