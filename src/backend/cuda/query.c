/* Queries and filters on their way to the device. */
#include "backend/cuda/cuda.h"

#include <string.h>

static const char *query_at(const struct vic_matrix *queries, int64_t row) {
    return (const char *)queries->data + row * queries->stride_bytes;
}

static uint32_t exponent_mask(enum vic_dtype dtype) {
    return dtype == VIC_F32 ? 0x7f800000u : dtype == VIC_F16 ? 0x7c00u : 0x7f80u;
}

/* Whether some element has all exponent bits set. No early end, so that the compiler makes vectors of it: half a
 * microsecond for 1,024 dimensions would be a twentieth of a search. */
static bool vector_not_finite(enum vic_dtype dtype, const char *vector, int64_t dim) {
    uint32_t found = 0, mask = exponent_mask(dtype);
    if (dtype == VIC_F32) {
        for (int64_t i = 0; i < dim; i++) {
            uint32_t bits;
            memcpy(&bits, vector + 4 * i, 4);
            found |= (bits & mask) == mask;
        }
    } else {
        for (int64_t i = 0; i < dim; i++) {
            uint16_t bits;
            memcpy(&bits, vector + 2 * i, 2);
            found |= (bits & mask) == mask;
        }
    }
    return found != 0;
}

/* The element as a number for the sentence: NaN or an infinity. */
static bool element_not_finite(enum vic_dtype dtype, const char *vector, int64_t column, const char **found) {
    uint32_t bits = 0, mask = exponent_mask(dtype);
    memcpy(&bits, vector + column * element_bytes(dtype), (size_t)element_bytes(dtype)); /* little-endian */
    if ((bits & mask) != mask) return false;
    uint32_t mantissa = bits & (dtype == VIC_F32 ? 0x7fffffu : dtype == VIC_F16 ? 0x3ffu : 0x7fu);
    bool negative = bits >> (dtype == VIC_F32 ? 31 : 15);
    *found = mantissa ? negative ? "-nan" : "nan" : negative ? "-inf" : "inf";
    return true;
}

enum vic_status queries_check(const struct resident *resident, const struct search_call *call) {
    const struct vic_matrix *queries = call->queries;
    static const char *const names[] = {"?", "f32", "f16", "bf16", "i8", "u8"};
    enum vic_dtype rows_dtype = resident->source.dtype;
    if (queries->dtype != VIC_F32 && queries->dtype != rows_dtype)
        return status_fail(VIC_TYPE, "expected queries of type f32 or of the index's type %s, found %s", names[rows_dtype],
                           names[queries->dtype]);
    if (dtype_is_integer(queries->dtype) || queries->place == VIC_DEVICE) return VIC_OK;
    for (int64_t row = 0; row < queries->rows; row++) {
        const char *vector = query_at(queries, row), *found = "";
        if (!vector_not_finite(queries->dtype, vector, queries->dim)) continue;
        int64_t column = 0;
        while (!element_not_finite(queries->dtype, vector, column, &found)) column++;
        return status_fail(VIC_NOT_FINITE, "expected finite numbers, found %s in query %lld, column %lld", found,
                           (long long)(call->first + row), (long long)column);
    }
    return VIC_OK;
}

enum vic_status filter_upload(const struct run *run, const uint64_t **filter) {
    const struct layout *layout = &run->resident->layout;
    *filter = NULL;
    if (!run->call->filter) return VIC_OK;
    uint64_t bytes = (uint64_t)((layout->rows.n + 63) / 64) * 8;
    char *pinned = run->workspace->pinned + layout->filter_pinned_at, *device = run->workspace->device + layout->filter_at;
    memcpy(pinned, run->call->filter, bytes);
    *filter = (const uint64_t *)(const void *)device;
    return cuda_status(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, run->stream), "sending the filter");
}

/* Host queries [first, first + count) packed into pinned memory and sent; *source and *stride say where they are then. */
static enum vic_status queries_send(const struct run *run, int64_t first, int64_t count, const void **source, int64_t *stride) {
    const struct vic_matrix *queries = run->call->queries;
    const struct layout *layout = &run->resident->layout;
    *source = query_at(queries, first), *stride = queries->stride_bytes;
    if (queries->place == VIC_DEVICE) return VIC_OK;
    int64_t bytes = queries->dim * element_bytes(queries->dtype);
    char *pinned = run->workspace->pinned + layout->raw_pinned_at, *device = run->workspace->device + layout->raw_at;
    for (int64_t j = 0; j < count; j++) memcpy(pinned + j * bytes, query_at(queries, first + j), (size_t)bytes);
    *source = device, *stride = bytes;
    return cuda_status(cudaMemcpyAsync(device, pinned, (size_t)(count * bytes), cudaMemcpyHostToDevice, run->stream),
                       "sending queries");
}

static enum vic_status queries_prepare(const struct run *run, int64_t first, int64_t count, bool lists) {
    const struct layout *layout = &run->resident->layout;
    char *device = run->workspace->device;
    struct queries_args args = {.count = count,
                                .dim = layout->rows.dim,
                                .chunks = layout->rows.chunks,
                                .units = layout->rows.units,
                                .dtype = run->call->queries->dtype,
                                .rows_dtype = layout->rows.dtype,
                                .metric = layout->rows.metric,
                                .prepared = device + layout->prepared_at,
                                .query_stride = query_stride_of(&layout->rows),
                                .norms = (float *)(void *)(device + layout->norms_at),
                                .squares = (int64_t *)(void *)(device + layout->squares_at),
                                .floors = lists ? (uint64_t *)(void *)(device + layout->floors_at) : NULL,
                                .counts = (uint32_t *)(void *)(device + layout->counts_at)};
    enum vic_status status = queries_send(run, first, count, &args.source, &args.stride_bytes);
    return status == VIC_OK ? cuda_status(launch_queries(&args, run->stream), "preparing queries") : status;
}

enum vic_status queries_upload(const struct run *run, int64_t first, int64_t count) {
    return queries_prepare(run, first, count, false);
}
enum vic_status batch_upload(const struct run *run, int64_t first, int64_t count) {
    return queries_prepare(run, first, count, true);
}

enum vic_status scan_prepare(const struct run *run, int64_t first, const uint64_t *filter, struct scan_args *args) {
    struct resident *resident = run->resident;
    const struct layout *layout = &resident->layout;
    const struct vic_matrix *queries = run->call->queries;
    char *device = run->workspace->device;
    args->rows = resident->rows;
    args->shape = layout->shape;
    args->query = args->host_query = args->prepared = NULL;
    args->query_dtype = queries->dtype;
    args->filter = filter;
    args->orders = (uint32_t *)(void *)(device + layout->orders_at);
    args->maxima = (uint64_t *)(void *)(device + layout->maxima_at);
    args->bests = (uint64_t *)(void *)(device + layout->bests_at);
    args->rests = (uint32_t *)(void *)(device + layout->rests_at);
    args->done = (uint32_t *)(void *)(device + layout->done_at);
    args->keep = 0;
    args->word = NULL;
    args->mapped = false;
    args->hits = (struct hit_slots){0};
    int64_t bytes = queries->dim * element_bytes(queries->dtype), stride = 0;
    if (query_stride_of(&layout->rows) > resident->backend->shared_most - 256) { /* 256: what the kernel has besides */
        args->prepared = device + layout->prepared_at;
        args->prepared_norm = (const float *)(const void *)(device + layout->norms_at);
        args->prepared_square = (const int64_t *)(const void *)(device + layout->squares_at);
        return queries_upload(run, first, 1);
    }
    if (queries->place == VIC_HOST && bytes <= INLINE_QUERY_BYTES) {
        args->host_query = query_at(queries, first), args->query_bytes = (int32_t)bytes;
        return VIC_OK;
    }
    return queries_send(run, first, 1, &args->query, &stride);
}
