/* Whole matrices from and to files. */
#include "data/matrix.h"

#include "data/reader.h"

#include <string.h>

enum vic_status matrix_resolve(const struct vic_matrix *given, const char *name, struct vic_matrix *resolved) {
    if (!given) return status_fail(VIC_ARGUMENT, "expected %s, found NULL", name);
    struct vic_matrix m = *given;
    if (m.dtype == 0) m.dtype = VIC_F32;
    if (m.place == 0) m.place = VIC_HOST;
    if (!dtype_valid(m.dtype)) return status_fail(VIC_TYPE, "expected a vic_dtype in %s, found %d", name, (int)m.dtype);
    if (m.place != VIC_HOST)
        return status_fail(VIC_UNSUPPORTED, "expected %s in host memory, found place %d", name, (int)m.place);
    if (m.rows < 0) return status_fail(VIC_ARGUMENT, "expected %s of 0 or more rows, found %lld", name, (long long)m.rows);
    if (m.dim < 1 || m.dim > DIM_MAX)
        return status_fail(VIC_DIMENSION, "expected %s of dim 1 to %lld, found %lld", name, (long long)DIM_MAX,
                           (long long)m.dim);
    int64_t row_bytes = m.dim * (int64_t)vic_dtype_bytes(m.dtype);
    if (m.stride_bytes == 0) m.stride_bytes = row_bytes;
    if (m.stride_bytes < row_bytes)
        return status_fail(VIC_ARGUMENT, "expected %s with 0 or at least %lld as stride_bytes, found %lld", name,
                           (long long)row_bytes, (long long)m.stride_bytes);
    if (m.rows > INT64_MAX / m.stride_bytes)
        return status_fail(VIC_ARGUMENT, "expected %s to fit in memory, found %lld rows of %lld bytes", name, (long long)m.rows,
                           (long long)m.stride_bytes);
    if (!m.data && m.rows > 0)
        return status_fail(VIC_ARGUMENT, "expected %s with data, found NULL for %lld rows", name, (long long)m.rows);
    *resolved = m;
    return VIC_OK;
}

enum vic_status vic_matrix_read(const char *path, const struct vic_reader_options *options, struct vic_matrix *matrix) {
    enum vic_status status = VIC_OK;
    struct vic_reader *reader = NULL;
    struct vic_matrix made = {.place = VIC_HOST};
    if (!matrix) return status_fail(VIC_ARGUMENT, "expected a matrix to fill, found NULL");
    TRY(vic_reader_open(path, options, &reader));
    made.rows = reader->layout.rows, made.dim = reader->layout.dim, made.dtype = reader->dtype;
    made.stride_bytes = made.dim * (int64_t)vic_dtype_bytes(made.dtype);
    TRY(mem_alloc_array(&mem_default, (uint64_t)made.rows, (uint64_t)made.stride_bytes, "a file's rows", &made.data));
    TRY(vic_reader_read(reader, 0, made.rows, &made));
    *matrix = made;
    made.data = NULL;
done:
    vic_matrix_free(&made);
    vic_reader_close(reader);
    return status;
}

void vic_matrix_free(struct vic_matrix *matrix) {
    if (!matrix) return;
    mem_free(&mem_default, matrix->data, (uint64_t)matrix->rows * (uint64_t)matrix->stride_bytes);
    memset(matrix, 0, sizeof *matrix);
}

enum vic_status vic_matrix_write(const char *path, const struct vic_matrix *matrix, const struct vic_writer_options *options) {
    enum vic_status status = VIC_OK;
    struct vic_writer *writer = NULL;
    struct vic_matrix rows;
    TRY(matrix_resolve(matrix, "the matrix to write", &rows));
    TRY(vic_writer_open(path, rows.rows, rows.dim, rows.dtype, options, &writer));
    TRY(vic_writer_write(writer, &rows));
    TRY(vic_writer_finish(writer));
done:
    vic_writer_free(writer);
    return status;
}
