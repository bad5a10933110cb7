/* What the tests' own CUDA object (libfailing_cuda.so) exports beside the backend: CUDA's memory, streams and events, and reads
 * of files, counted, and one request for them refused.
 *
 * It is the backend's object files, linked once more with test/gpu/failing_cuda.c between them and the CUDA runtime, which
 * lies inside the object and cannot be replaced from outside. Requests of all threads are counted together. */
#ifndef TEST_GPU_FAILING_CUDA_H
#define TEST_GPU_FAILING_CUDA_H

#include <stdint.h>

struct failing_cuda_counts {
    int64_t requests; /* since the start of the watch */
    int64_t refused;  /* 0 or 1 */
    int64_t live;     /* blocks, streams and events handed out and not given back, since the process began */
};

/* Exported under the name failing_cuda_object. */
struct failing_cuda {
    /* From here on the n-th request, counted from 1, is refused with cudaErrorMemoryAllocation, a read with EIO;
     * 0: only counts. */
    void (*start)(int64_t n);
    /* What was seen so far; the watch goes on. */
    struct failing_cuda_counts (*look)(void);
    /* The same, and nothing is refused from here on. */
    struct failing_cuda_counts (*stop)(void);
};

#endif
