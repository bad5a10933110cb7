/* Vectors on their way in: one pass converts, checks and takes norms, in parallel over blocks of rows.
 *
 * The norm of a row whose largest magnitude lies outside [2^-40, 2^50) is taken of the row times an exact power of two,
 * and stored negative to say so: inside that range no square, sum of 65,536 squares or product of two norms can overflow
 * or lose bits to denormals (docs/numerics.md). */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { EXPONENT_LEAST = -40, EXPONENT_END = 50, BLOCK_ROWS = 256 };

/* The power of two that a vector is divided by before its norm, 0 for nearly all. */
static int scale_exponent(float largest) {
    if (largest == 0) return 0;
    int exponent = ilogbf(largest);
    return exponent < EXPONENT_LEAST || exponent >= EXPONENT_END ? exponent : 0;
}

float vector_norm(const struct kernels *kernels, const float *values, int64_t dim, float *scaled) {
    int exponent = scale_exponent(kernels->largest(values, dim));
    if (exponent != 0) {
        for (int64_t i = 0; i < dim; i++) scaled[i] = ldexpf(values[i], -exponent);
        values = scaled;
    }
    float square = 0;
    kernels->scan[VIC_F32][OP_DOT](values, 1, dim, values, &square);
    return exponent != 0 ? -sqrtf(square) : sqrtf(square);
}

float vector_norm_exact(const struct kernels *kernels, enum vic_dtype dtype, const void *values, int64_t dim) {
    float square = 0;
    kernels->scan_exact[dtype][OP_DOT](values, 1, dim, values, &square);
    return sqrtf(square);
}

struct ingest_job {
    const struct backend *backend;
    const struct ingest *ingest;
    float *buffers; /* two vectors a worker: the values as float32, and their scaled or narrowed form */
    _Atomic int64_t first_bad;
};

/* What is wrong with element `column`: not finite, or not to be had in the stored type. */
static enum vic_status element_fail(const struct ingest *ingest, int64_t row, int64_t column) {
    const char *vector = (const char *)ingest->source->data + row * ingest->source->stride_bytes;
    float value = dtype_load(ingest->source->dtype, vector, column);
    long long number = (long long)(ingest->first + row);
    if (!float_finite(value))
        return status_fail(VIC_NOT_FINITE, "expected finite numbers, found %g in %s %lld, column %lld", (double)value,
                           ingest->what, number, (long long)column);
    return status_fail(VIC_TYPE, "expected values that %s can hold, found %.9g in %s %lld, column %lld",
                       vic_dtype_name(ingest->dtype), (double)value, ingest->what, number, (long long)column);
}

/* float32 to an integer type: whole numbers in range only. Returns the first column that is not, or dim. */
static int64_t to_integer(enum vic_dtype dtype, const float *values, int64_t dim, void *target) {
    float low = dtype == VIC_I8 ? -128.0f : 0.0f, high = dtype == VIC_I8 ? 127.0f : 255.0f;
    for (int64_t i = 0; i < dim; i++) {
        if (!(values[i] >= low && values[i] <= high) || values[i] != truncf(values[i])) return i;
        if (dtype == VIC_I8)
            ((int8_t *)target)[i] = (int8_t)values[i];
        else
            ((uint8_t *)target)[i] = (uint8_t)values[i];
    }
    return dim;
}

/* Converts one vector to the stored type at `target`; returns the first column that cannot be, or dim. */
static int64_t vector_store(const struct kernels *kernels, const struct ingest *ingest, const void *source, float *values,
                            void *target) {
    enum vic_dtype from = ingest->source->dtype, to = ingest->dtype;
    int64_t dim = ingest->source->dim;
    if (!dtype_is_integer(from)) {
        int64_t bad = kernels->first_not_finite[from](source, dim);
        if (bad < dim) return bad;
    }
    if (from == to) {
        memcpy(target, source, (size_t)dim * vic_dtype_bytes(to));
        return dim;
    }
    kernels->to_float[from](source, dim, values);
    if (dtype_is_integer(to)) return to_integer(to, values, dim, target);
    kernels->from_float[to](values, dim, target);
    return kernels->first_not_finite[to](target, dim);
}

static float stored_norm(const struct kernels *kernels, const struct ingest *ingest, const void *stored, float *values) {
    int64_t dim = ingest->source->dim;
    if (dtype_is_integer(ingest->dtype)) return vector_norm_exact(kernels, ingest->dtype, stored, dim);
    kernels->to_float[ingest->dtype](stored, dim, values);
    return vector_norm(kernels, values, dim, values);
}

static void ingest_part(void *argument, int worker, int64_t part) {
    struct ingest_job *job = argument;
    const struct ingest *ingest = job->ingest;
    const struct kernels *kernels = &job->backend->kernels;
    int64_t dim = ingest->source->dim, row_bytes = dim * (int64_t)vic_dtype_bytes(ingest->dtype);
    float *values = job->buffers + (int64_t)worker * 2 * dim;
    int64_t end = (part + 1) * BLOCK_ROWS < ingest->source->rows ? (part + 1) * BLOCK_ROWS : ingest->source->rows;
    for (int64_t row = part * BLOCK_ROWS; row < end; row++) {
        int64_t slot = ingest->places ? (int64_t)ingest->places[row] : row;
        void *target = ingest->rows ? (char *)ingest->rows + slot * row_bytes : (void *)(values + dim);
        const char *source = (const char *)ingest->source->data + row * ingest->source->stride_bytes;
        if (vector_store(kernels, ingest, source, values, target) == dim) {
            if (ingest->norms) ingest->norms[slot] = stored_norm(kernels, ingest, target, values);
            continue;
        }
        int64_t known = atomic_load(&job->first_bad);
        while (row < known && !atomic_compare_exchange_weak(&job->first_bad, &known, row)) {
        }
        return;
    }
}

enum vic_status cpu_ingest(struct backend *backend, const struct ingest *ingest) {
    const struct vic_matrix *source = ingest->source;
    if (source->rows == 0) return VIC_OK;
    uint64_t buffers_bytes = (uint64_t)thread_pool_size(backend->pool) * 2 * (uint64_t)source->dim * sizeof(float);
    void *buffers = NULL;
    enum vic_status status = mem_alloc(backend->mem, buffers_bytes, "the conversion of vectors", &buffers);
    if (status != VIC_OK) return status;
    struct ingest_job job = {backend, ingest, buffers, INT64_MAX};
    (void)thread_pool_run(backend->pool, (source->rows + BLOCK_ROWS - 1) / BLOCK_ROWS, ingest_part, &job);
    int64_t row = atomic_load(&job.first_bad);
    if (row != INT64_MAX) {
        float *values = buffers;
        const char *vector = (const char *)source->data + row * source->stride_bytes;
        int64_t column = vector_store(&backend->kernels, ingest, vector, values, values + source->dim);
        status = element_fail(ingest, row, column);
    }
    mem_free(backend->mem, buffers, buffers_bytes);
    return status;
}
