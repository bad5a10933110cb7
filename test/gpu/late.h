/* Kernels of the tests: one that is late, one that is everywhere. */
#ifndef TEST_GPU_LATE_H
#define TEST_GPU_LATE_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Waits `ms` milliseconds on the device, then copies `count` floats. */
cudaError_t launch_late_copy(float *target, const float *source, int count, int ms, cudaStream_t stream);
/* Keeps every multiprocessor busy for `ms` milliseconds with more blocks than there is room for. */
cudaError_t launch_busy(int ms, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
