/* The kernels of late.h: a loop that watches the device's clock of nanoseconds. */
#include "gpu/late.h"

__device__ static void wait_ms(int ms) {
    unsigned long long began, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(began));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - began < (unsigned long long)ms * 1000000);
}

__global__ static void late_copy(float *target, const float *source, int count, int ms) {
    wait_ms(ms);
    for (int i = threadIdx.x; i < count; i += blockDim.x) target[i] = source[i];
}

__global__ static void busy(int ms) { wait_ms(ms); }

cudaError_t launch_late_copy(float *target, const float *source, int count, int ms, cudaStream_t stream) {
    late_copy<<<1, 128, 0, stream>>>(target, source, count, ms);
    return cudaPeekAtLastError();
}

cudaError_t launch_busy(int ms, cudaStream_t stream) {
    busy<<<4096, 1024, 0, stream>>>(ms / 8 + 1);
    return cudaPeekAtLastError();
}
