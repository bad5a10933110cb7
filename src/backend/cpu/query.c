/* Queries of a call: checked all at once, then made ready block by block in a workspace. */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

static const char *matrix_row(const struct vic_matrix *matrix, int64_t row) {
    return (const char *)matrix->data + row * matrix->stride_bytes;
}

struct check_job {
    const struct kernels *kernels;
    const struct vic_matrix *queries;
    _Atomic int64_t first_bad;
};

enum { CHECK_ROWS = 64 };

static void check_part(void *argument, int worker, int64_t part) {
    struct check_job *job = argument;
    (void)worker;
    const struct vic_matrix *queries = job->queries;
    int64_t end = (part + 1) * CHECK_ROWS < queries->rows ? (part + 1) * CHECK_ROWS : queries->rows;
    for (int64_t row = part * CHECK_ROWS; row < end; row++) {
        if (job->kernels->first_not_finite[queries->dtype](matrix_row(queries, row), queries->dim) == queries->dim) continue;
        int64_t known = atomic_load(&job->first_bad);
        while (row < known && !atomic_compare_exchange_weak(&job->first_bad, &known, row)) {
        }
        return;
    }
}

enum vic_status queries_check(struct backend *backend, const struct rows *rows, const struct search_call *call) {
    const struct vic_matrix *queries = call->queries;
    if (queries->dtype != VIC_F32 && queries->dtype != rows->dtype)
        return status_fail(VIC_TYPE, "expected queries of type f32 or of the index's type %s, found %s",
                           vic_dtype_name(rows->dtype), vic_dtype_name(queries->dtype));
    if (dtype_is_integer(queries->dtype)) return VIC_OK;
    struct check_job job = {&backend->kernels, queries, INT64_MAX};
    (void)thread_pool_run(backend->pool, (queries->rows + CHECK_ROWS - 1) / CHECK_ROWS, check_part, &job);
    int64_t row = atomic_load(&job.first_bad);
    if (row == INT64_MAX) return VIC_OK;
    int64_t column = job.kernels->first_not_finite[queries->dtype](matrix_row(queries, row), queries->dim);
    return status_fail(VIC_NOT_FINITE, "expected finite numbers, found %g in query %lld, column %lld",
                       (double)dtype_load(queries->dtype, matrix_row(queries, row), column), (long long)(call->first + row),
                       (long long)column);
}

/* A query whose magnitude could overflow or vanish in its norm is replaced by itself times a power of two: its cosine
 * is the same and every step stays in range. */
static float query_norm(const struct kernels *kernels, float *query, int64_t dim) {
    float norm = vector_norm(kernels, query, dim, query);
    return norm < 0 ? -norm : norm;
}

float query_prepare(const struct kernels *kernels, const struct rows *rows, const struct vic_matrix *queries, int64_t j,
                    void *target) {
    const char *source = matrix_row(queries, j);
    bool exact = queries_exact(rows, queries);
    if (exact)
        memcpy(target, source, (size_t)rows->dim);
    else
        kernels->to_float[queries->dtype](source, rows->dim, target);
    if (rows->metric != VIC_COSINE) return 0;
    return exact ? vector_norm_exact(kernels, rows->dtype, target, rows->dim) : query_norm(kernels, target, rows->dim);
}

void queries_prepare(struct resident *resident, struct workspace *workspace, const struct vic_matrix *queries, int64_t first,
                     int64_t count, bool pack) {
    const struct rows *rows = &resident->rows;
    const struct kernels *kernels = &resident->backend->kernels;
    bool exact = queries_exact(rows, queries);
    size_t element = exact ? 1 : 4;
    int64_t dim = rows->dim;
    for (int64_t j = 0; j < count; j++)
        workspace->query_norms[j] =
            query_prepare(kernels, rows, queries, first + j, (char *)workspace->queries + (size_t)(j * dim) * element);
    if (!pack) return;
    enum kernel_op op = rows->metric == VIC_L2 ? OP_L2 : OP_DOT;
    const struct tile_kernel *tile = exact ? kernels->tile_exact[rows->dtype][op] : kernels->tile[rows->dtype][op];
    for (int64_t j = 0; j < count; j += tile->query_tile) {
        int64_t group = count - j < tile->query_tile ? count - j : tile->query_tile;
        tile->pack_queries((const char *)workspace->queries + (size_t)(j * dim) * element, group, dim,
                           (char *)workspace->packed_queries + j / tile->query_tile * tile->query_group_bytes(dim));
    }
}
