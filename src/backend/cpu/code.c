/* Rows into planes: for each row the best of a few steps, its codes, and the error that they leave, measured and not
 * estimated. In parallel over blocks of rows; a row's bytes depend on that row alone. */
#include "backend/cpu/cpu.h"

#include <math.h>

enum { BLOCK_ROWS = 256 };
/* Steps are tried on so many dimensions and a fourth of the others: on real rows as good as all of them. */
enum { TRIED_DIMS = 128 };

struct code_job {
    const struct backend *backend;
    const struct plane_coding *coding;
    float *buffers; /* a row a worker, as float32 */
};

/* What a row's codes are made from: its values (for cosine scaled as its norm was), and what they are divided by. */
struct row_values {
    const float *values;
    float divisor, largest, norm;
    double square;
};

static struct row_values row_read(const struct code_job *job, int64_t row, float *values) {
    const struct rows *rows = job->coding->rows;
    const struct kernels *kernels = &job->backend->kernels;
    const char *source = (const char *)rows->data + row * rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
    kernels->to_float[rows->dtype](source, rows->dim, values);
    float divisor = rows->metric == VIC_COSINE ? rows->norms[row] : 1;
    if (divisor < 0) divisor = -vector_norm(kernels, values, rows->dim, values);
    double square = kernels->planes->code[PLANE_8](values, rows->dim, 0, 0, NULL);
    return (struct row_values){values, divisor, kernels->largest(values, rows->dim), bound_norm(square), square};
}

/* The scale as it is stored is rounded; the step that codes and error are taken for is what that stands for, exactly. */
static double step_of(float scale, float divisor) { return (double)scale * (double)divisor; }

static void row_code(const struct code_job *job, int64_t row, float *values) {
    const struct plane_coding *coding = job->coding;
    const struct rows *rows = coding->rows;
    double (*code)(const float *, int64_t, double, float, uint8_t *) = job->backend->kernels.planes->code[coding->kind];
    int64_t slot = coding->places ? (int64_t)coding->places[row] : row, stride = plane_stride(coding->kind, rows->dim);
    struct row_values read = row_read(job, row, values);
    uint8_t *codes = coding->codes + slot * stride;
    float steps[PLANE_STEPS], best = 0;
    double least = INFINITY;
    bool fits = bound_row_fits(read.largest, read.norm) && read.divisor > 0;
    int count = fits ? coding->steps(read.largest, read.square / (double)rows->dim, steps) : 0;
    int64_t tried = rows->dim <= TRIED_DIMS ? rows->dim : TRIED_DIMS + (rows->dim - TRIED_DIMS) / 4;
    for (int i = 0; i < count; i++) {
        float scale = steps[i] / read.divisor;
        double step = step_of(scale, read.divisor);
        double rest = count == 1 ? 0 : code(values, tried, step, (float)(1 / step), NULL);
        if (rest < least) least = rest, best = scale;
    }
    double step = step_of(best, read.divisor);
    double rest = code(values, rows->dim, step, step > 0 ? (float)(1 / step) : 0, codes);
    bool nothing = read.divisor == 0 || read.largest == 0; /* all codes are the offset, and they are right */
    coding->scale[slot] = best;
    coding->error[slot] = nothing ? 0 : fits ? bound_error(rest, read.divisor) : INFINITY;
    if (coding->norms) coding->norms[slot] = fits ? read.norm : 0;
}

static void code_part(void *argument, int worker, int64_t part) {
    const struct code_job *job = argument;
    int64_t n = job->coding->rows->n, end = (part + 1) * BLOCK_ROWS < n ? (part + 1) * BLOCK_ROWS : n;
    for (int64_t row = part * BLOCK_ROWS; row < end; row++) {
        if (row + ROWS_AHEAD < end) row_prefetch(job->coding->rows, (uint32_t)(row + ROWS_AHEAD));
        row_code(job, row, job->buffers + (int64_t)worker * job->coding->rows->dim);
    }
}

enum vic_status cpu_code(struct backend *backend, const struct plane_coding *coding) {
    uint64_t buffers_bytes = (uint64_t)thread_pool_size(backend->pool) * (uint64_t)coding->rows->dim * sizeof(float);
    void *buffers = NULL;
    enum vic_status status = mem_alloc(backend->mem, buffers_bytes, "the coding of rows", &buffers);
    if (status != VIC_OK) return status;
    struct code_job job = {backend, coding, buffers};
    (void)thread_pool_run(backend->pool, (coding->rows->n + BLOCK_ROWS - 1) / BLOCK_ROWS, code_part, &job);
    mem_free(backend->mem, buffers, buffers_bytes);
    return VIC_OK;
}
