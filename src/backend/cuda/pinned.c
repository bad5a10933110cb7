/* Host memory that the GPU reads and writes by itself: pinned, and counted with all other host memory.
 *
 * Small blocks that live as long as a workspace are CUDA's. The large one of an upload, which lives for a tenth of a second, is
 * mapped, touched by all of the upload's workers and then registered: CUDA takes 11 ms to make 24 MiB and 2.4 to give them
 * back, an eighth of the time that 4 GiB of rows are on the link; registered, huge pages cost 0.6 and 0.5 (Xeon, Emerald
 * Rapids, November 2026). */
#include "backend/cuda/cuda.h"

#include <string.h>
#include <sys/mman.h>

static void pinned_count(struct mem *mem, uint64_t bytes) {
    uint64_t used = atomic_fetch_add(&mem->used, bytes) + bytes, peak = atomic_load(&mem->peak);
    while (used > peak && !atomic_compare_exchange_weak(&mem->peak, &peak, used)) {
    }
}

/* Another thread may be capturing a stream: this call has nothing to do with it. */
static cudaError_t relaxed_begin(enum cudaStreamCaptureMode *mode) {
    *mode = cudaStreamCaptureModeRelaxed;
    return cudaThreadExchangeStreamCaptureMode(mode);
}

enum vic_status pinned_alloc(struct mem *mem, uint64_t bytes, const char *what, void **memory) {
    enum cudaStreamCaptureMode mode;
    enum vic_status status = VIC_OK;
    TRY(mem_check(mem, bytes, what));
    TRY(cuda_status(relaxed_begin(&mode), what));
    cudaError_t error = cudaHostAlloc(memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable);
    (void)cudaThreadExchangeStreamCaptureMode(&mode);
    TRY(cuda_status(error, what));
    pinned_count(mem, bytes);
done:
    return status;
}

void pinned_free(struct mem *mem, void *memory, uint64_t bytes) {
    if (!memory) return;
    if (!device_forked()) (void)cudaFreeHost(memory);
    atomic_fetch_sub(&mem->used, bytes);
}

/* ---- an upload's */

struct touching {
    char *memory;
    uint64_t bytes;
};
static const uint64_t touch_bytes = UINT64_C(2) << 20; /* a huge page */

static void pages_touch(void *argument, int worker, int64_t part) {
    const struct touching *touching = argument;
    uint64_t at = (uint64_t)part * touch_bytes, left = touching->bytes - at;
    (void)worker;
    memset(touching->memory + at, 0, left < touch_bytes ? left : touch_bytes);
}

enum vic_status staging_alloc(struct mem *mem, struct thread_pool *pool, uint64_t bytes, const char *what, void **memory) {
    enum cudaStreamCaptureMode mode;
    enum vic_status status = mem_check(mem, bytes, what);
    if (status != VIC_OK) return status;
    struct touching touching = {mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), bytes};
    if (touching.memory == MAP_FAILED)
        return status_fail(VIC_NO_MEMORY, "%s need %llu bytes and the system has no more", what, (unsigned long long)bytes);
    (void)madvise(touching.memory, bytes, MADV_HUGEPAGE);
    (void)thread_pool_run(pool, (int64_t)((bytes + touch_bytes - 1) / touch_bytes), pages_touch, &touching);
    cudaError_t error = relaxed_begin(&mode);
    if (error == cudaSuccess) {
        error = cudaHostRegister(touching.memory, bytes, cudaHostRegisterPortable);
        (void)cudaThreadExchangeStreamCaptureMode(&mode);
    }
    if (error != cudaSuccess) {
        (void)munmap(touching.memory, bytes);
        return cuda_status(error, what);
    }
    pinned_count(mem, bytes);
    *memory = touching.memory;
    return VIC_OK;
}

void staging_free(struct mem *mem, void *memory, uint64_t bytes) {
    if (!memory) return;
    (void)cudaHostUnregister(memory);
    (void)munmap(memory, bytes);
    atomic_fetch_sub(&mem->used, bytes);
}
