/* Lists of keys: those that a block of queries fills, and the select area, which takes one of any length to be sorted. */
#include "backend/cuda/cuda.h"

void tile_prepare(const struct run *run, int64_t count, const uint64_t *filter, struct tile_args *args) {
    const struct layout *layout = &run->resident->layout;
    char *device = run->workspace->device;
    int64_t capacity = layout->list_keys / count;
    *args = (struct tile_args){.rows = run->resident->rows,
                               .count = layout->rows.n,
                               .queries = device + layout->prepared_at,
                               .query_stride = query_stride_of(&layout->rows),
                               .nq = count,
                               .query_norms = (const float *)(const void *)(device + layout->norms_at),
                               .query_dtype = run->call->queries->dtype,
                               .filter = filter,
                               .floors = (uint64_t *)(void *)(device + layout->floors_at),
                               .lists = (uint64_t *)(void *)(device + layout->lists_at),
                               .counts = (uint32_t *)(void *)(device + layout->counts_at),
                               .capacity = capacity < layout->rows.n ? capacity : layout->rows.n,
                               .shared_most = (int32_t)run->resident->backend->shared_most,
                               .multiprocessors = run->resident->backend->multiprocessors,
                               .engine = run->resident->tile_engine};
}

struct select_args select_prepare(const struct run *run) {
    struct resident *resident = run->resident;
    return (struct select_args){.rows = resident->rows,
                                .shape = resident->layout.shape,
                                .state = (struct select_state *)(void *)(run->workspace->device + resident->layout.state_at),
                                .keys = resident->select.keys,
                                .spare = resident->select.spare,
                                .multiprocessors = resident->backend->multiprocessors};
}

enum vic_status list_select(const struct run *run, const struct tile_args *lists, int64_t j, int64_t most,
                            const struct select_args *args) {
    const uint64_t *list = lists->lists + j * lists->capacity;
    cudaError_t error = cudaMemcpyAsync(args->keys, list, (size_t)most * 8, cudaMemcpyDeviceToDevice, run->stream);
    if (error == cudaSuccess) error = cudaMemcpyAsync(args->state, lists->counts + j, 4, cudaMemcpyDeviceToDevice, run->stream);
    return cuda_status(error, "moving a list");
}
