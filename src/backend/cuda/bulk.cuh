/* Boxes of vectors from memory to shared memory by the copy engine of sm_90 and later: one thread asks, and a barrier in
 * shared memory knows when all bytes are there. One box is 16 neighbouring places of every chunk of many vectors.
 *
 * The surprising rule: the engine is told of vectors as three dimensions (place in a chunk, vector, chunk), so it can be used
 * only where a vector is whole chunks; and places 16 bytes of a 64-byte row by the row's bits 1 and 2 (its 64-byte swizzle),
 * which `swizzled` in tile.cu does for those who write without it. Older GPUs have no such engine; the host asks first. */
#ifndef CUDA_BULK_CUH
#define CUDA_BULK_CUH

#include "backend/cuda/common.cuh"

#include <cuda.h>

/* What the host describes: vectors of whole chunks of 128 elements (or words) of `bytes` bytes each. */
struct bulk_source {
    const void *data;
    int64_t vectors, stride_bytes;
    int chunks, bytes;
};

using bulk_encoder = CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                                  const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                                  CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
/* The driver's; NULL where it has none. */
static inline bulk_encoder bulk_encoder_find() {
    void *found = NULL;
    cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
#else
    cudaError_t error = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#endif
    if (error == cudaSuccess && result == cudaDriverEntryPointSuccess) return (bulk_encoder)found;
    (void)cudaGetLastError();
    return NULL;
}

/* The map of a source for boxes of `vectors` x `chunks`; rows of 64 bytes are swizzled. False where the driver cannot. */
static inline bool bulk_describe(const bulk_source &source, int vectors, int chunks, CUtensorMap *map) {
    static const bulk_encoder encoder = bulk_encoder_find(); /* once: asking takes longer than a launch may */
    if (!encoder) return false;
    CUtensorMapDataType type = source.bytes == 4   ? CU_TENSOR_MAP_DATA_TYPE_UINT32
                               : source.bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                                   : CU_TENSOR_MAP_DATA_TYPE_UINT8;
    const cuuint64_t sizes[] = {128, (cuuint64_t)source.vectors, (cuuint64_t)source.chunks},
                     strides[] = {(cuuint64_t)source.stride_bytes, (cuuint64_t)(128 * source.bytes)};
    const cuuint32_t box[] = {16, (cuuint32_t)vectors, (cuuint32_t)chunks}, steps[] = {1, 1, 1};
    return encoder(map, type, 3, (void *)(uintptr_t)source.data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                   source.bytes == 4 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_NONE,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

__device__ inline uint32_t shared_address(const void *at) { return (uint32_t)__cvta_generic_to_shared(at); }

/* One thread, before a __syncthreads(). */
__device__ inline void bulk_start(uint64_t *barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.proxy.async.shared::cta;" ::"r"(shared_address(barrier))
                 : "memory");
}
/* One thread: so many bytes will come before this turn of the barrier is over. */
__device__ inline void bulk_expect(uint64_t *barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}
/* What lies outside the source comes as zeroes. */
__device__ inline void bulk_copy(void *to, const CUtensorMap *map, int place, int vector, int chunk, uint64_t *barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
                 "[%5];" ::"r"(shared_address(to)),
                 "l"(map), "r"(place), "r"(vector), "r"(chunk), "r"(shared_address(barrier))
                 : "memory");
}
/* Every thread that reads what has come. */
__device__ inline void bulk_wait(uint64_t *barrier, uint32_t turn) {
    uint32_t over = 0;
    while (!over)
        asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(over)
                     : "r"(shared_address(barrier)), "r"(turn & 1)
                     : "memory");
}

#else

__device__ inline void bulk_start(uint64_t *) {}
__device__ inline void bulk_expect(uint64_t *, uint32_t) {}
__device__ inline void bulk_copy(void *, const CUtensorMap *, int, int, int, uint64_t *) {}
__device__ inline void bulk_wait(uint64_t *, uint32_t) {}

#endif
#endif
