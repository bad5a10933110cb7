/* vic_writer_*: streaming writers of the field's formats.
 *
 * A form is one row of the table: an ending, the element type it can hold, and how its header and rows begin. All else,
 * the file that appears whole or not at all included, is the same for every form. */
#include "base/options.h"
#include "data/matrix.h"
#include "data/npy.h"
#include "data/reader.h"
#include "data/sink.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum header { HEADER_NONE, HEADER_BIN, HEADER_NPY };

struct writer_form {
    const char *ending;
    enum element element; /* ELEMENT_NONE: any that the header can say */
    enum header header;   /* HEADER_NONE: each row begins with its dim instead */
};
static const struct writer_form forms[] = {
    {"fvecs", ELEMENT_F32, HEADER_NONE}, {"bvecs", ELEMENT_U8, HEADER_NONE}, {"ivecs", ELEMENT_I32, HEADER_NONE},
    {"fbin", ELEMENT_F32, HEADER_BIN},   {"u8bin", ELEMENT_U8, HEADER_BIN},  {"i8bin", ELEMENT_I8, HEADER_BIN},
    {"f16bin", ELEMENT_F16, HEADER_BIN}, {"bin", ELEMENT_NONE, HEADER_BIN},  {"npy", ELEMENT_NONE, HEADER_NPY},
};
enum { FORMS = sizeof forms / sizeof *forms };

struct vic_writer {
    struct sink *sink;
    const struct writer_form *form;
    int64_t rows, dim, written;
    enum vic_dtype dtype;
    bool closed; /* finished, or a write failed and nobody knows what the file holds */
};

static enum vic_status form_find(const char *path, const char *format, const struct writer_form **form) {
    char ending[12], known[96] = "";
    if (!path) return status_fail(VIC_ARGUMENT, "expected a path to write, found NULL");
    path_ending(path, ending, sizeof ending);
    const char *wanted = format ? format : ending;
    for (int i = 0; i < FORMS; i++) {
        if (strcasecmp(forms[i].ending, wanted) == 0) {
            *form = &forms[i];
            return VIC_OK;
        }
        (void)snprintf(known + strlen(known), sizeof known - strlen(known), "%s.%s", i ? " " : "", forms[i].ending);
    }
    if (format) return status_fail(VIC_ARGUMENT, "expected a format that is one of %s, found \"%.40s\"", known, format);
    return status_fail(VIC_ARGUMENT, "expected a path that ends in one of %s, found %.200s", known, path);
}

/* numpy's code of a type, or NULL. */
static const char *npy_descr(enum vic_dtype dtype) {
    static const char *const codes[] = {
        [VIC_F32] = "<f4", [VIC_F16] = "<f2", [VIC_BF16] = NULL, [VIC_I8] = "|i1", [VIC_U8] = "|u1"};
    return codes[dtype];
}

static enum vic_status form_check(const struct writer_form *form, int64_t rows, int64_t dim, enum vic_dtype dtype) {
    if (rows < 0) return status_fail(VIC_ARGUMENT, "expected 0 or more rows to write, found %lld", (long long)rows);
    if (dim < 1 || dim > DIM_MAX)
        return status_fail(VIC_DIMENSION, "expected rows of dim 1 to %lld to write, found %lld", (long long)DIM_MAX,
                           (long long)dim);
    if (!dtype_valid(dtype)) return status_fail(VIC_TYPE, "expected a vic_dtype to write, found %d", (int)dtype);
    if (form->element && (enum element)dtype != form->element)
        return status_fail(VIC_TYPE, "expected %s, which is what a .%s file holds, found %s", element_name(form->element),
                           form->ending, vic_dtype_name(dtype));
    if (form->header == HEADER_NPY && !npy_descr(dtype))
        return status_fail(VIC_TYPE, "expected f32, f16, i8 or u8 for a .npy file, which has no %s", vic_dtype_name(dtype));
    if (form->header == HEADER_BIN && rows > UINT32_MAX)
        return status_fail(VIC_ARGUMENT, "expected at most %lld rows in a .%s file, whose header has 32 bits, found %lld",
                           (long long)UINT32_MAX, form->ending, (long long)rows);
    if (form->header == HEADER_NONE && rows == 0)
        return status_fail(VIC_ARGUMENT, "expected at least 1 row: a .%s file of none would not say its dim", form->ending);
    return VIC_OK;
}

static enum vic_status header_write(struct vic_writer *writer) {
    unsigned char text[NPY_HEADER_BYTES];
    const uint32_t words[2] = {(uint32_t)writer->rows, (uint32_t)writer->dim};
    switch (writer->form->header) {
    case HEADER_NONE: return VIC_OK;
    case HEADER_BIN: return sink_write(writer->sink, words, sizeof words);
    case HEADER_NPY: npy_header(npy_descr(writer->dtype), writer->rows, writer->dim, text);
    }
    return sink_write(writer->sink, text, sizeof text);
}

static uint64_t file_bytes(const struct vic_writer *writer) {
    static const uint64_t header[] = {[HEADER_NONE] = 0, [HEADER_BIN] = 8, [HEADER_NPY] = NPY_HEADER_BYTES};
    uint64_t row = (uint64_t)writer->dim * vic_dtype_bytes(writer->dtype) + (writer->form->header == HEADER_NONE ? 4 : 0);
    uint64_t bytes = 0;
    if (!checked_mul(row, (uint64_t)writer->rows, &bytes) || !checked_add(bytes, header[writer->form->header], &bytes))
        return UINT64_MAX;
    return bytes;
}

enum vic_status vic_writer_open(const char *path, int64_t rows, int64_t dim, enum vic_dtype dtype,
                                const struct vic_writer_options *options, struct vic_writer **writer) {
    enum vic_status status = VIC_OK;
    struct vic_writer_options ours;
    const struct writer_form *form = NULL;
    struct vic_writer *made = NULL;
    void *memory = NULL;
    if (dtype == 0) dtype = VIC_F32;
    if (!writer) return status_fail(VIC_ARGUMENT, "expected a place for the writer, found NULL");
    TRY(options_take(&ours, sizeof ours, options, "writer options"));
    TRY(form_find(path, ours.format, &form));
    TRY(form_check(form, rows, dim, dtype));
    TRY(mem_alloc(&mem_default, sizeof *made, "a writer", &memory));
    made = memory;
    *made = (struct vic_writer){.form = form, .rows = rows, .dim = dim, .dtype = dtype};
    TRY(sink_open(path, file_bytes(made), &made->sink));
    TRY(header_write(made));
    *writer = made;
done:
    if (status != VIC_OK) vic_writer_free(made);
    return status;
}

static enum vic_status rows_append(struct vic_writer *writer, const struct vic_matrix *rows) {
    enum vic_status status = VIC_OK;
    const char *data = rows->data;
    const int32_t dim = (int32_t)writer->dim;
    uint64_t row_bytes = (uint64_t)writer->dim * vic_dtype_bytes(writer->dtype);
    if (writer->form->header != HEADER_NONE && (uint64_t)rows->stride_bytes == row_bytes)
        return sink_write(writer->sink, data, (uint64_t)rows->rows * row_bytes);
    for (int64_t i = 0; i < rows->rows; i++) {
        if (writer->form->header == HEADER_NONE) TRY(sink_write(writer->sink, &dim, sizeof dim));
        TRY(sink_write(writer->sink, data + i * rows->stride_bytes, row_bytes));
    }
done:
    return status;
}

enum vic_status vic_writer_write(struct vic_writer *writer, const struct vic_matrix *rows) {
    struct vic_matrix from;
    if (!writer) return status_fail(VIC_ARGUMENT, "expected a writer, found NULL");
    enum vic_status status = matrix_resolve(rows, "the rows to write", &from);
    if (status != VIC_OK) return status;
    if (writer->closed)
        return status_fail(VIC_ARGUMENT, "expected a writer that is open, found one that has finished or failed");
    if (from.dim != writer->dim)
        return status_fail(VIC_DIMENSION, "expected rows of dim %lld as the writer was opened for, found %lld",
                           (long long)writer->dim, (long long)from.dim);
    if (from.dtype != writer->dtype)
        return status_fail(VIC_TYPE, "expected rows of %s as the writer was opened for, found %s",
                           vic_dtype_name(writer->dtype), vic_dtype_name(from.dtype));
    if (from.rows > writer->rows - writer->written)
        return status_fail(VIC_DIMENSION, "expected %lld rows in all, found %lld more after %lld", (long long)writer->rows,
                           (long long)from.rows, (long long)writer->written);
    status = rows_append(writer, &from);
    writer->closed = status != VIC_OK;
    writer->written += from.rows;
    return status;
}

enum vic_status vic_writer_finish(struct vic_writer *writer) {
    if (!writer) return status_fail(VIC_ARGUMENT, "expected a writer, found NULL");
    if (writer->closed)
        return status_fail(VIC_ARGUMENT, "expected a writer that is open, found one that has finished or failed");
    if (writer->written != writer->rows)
        return status_fail(VIC_DIMENSION, "expected %lld rows as the writer was opened for, found %lld written",
                           (long long)writer->rows, (long long)writer->written);
    writer->closed = true;
    return sink_commit(writer->sink);
}

void vic_writer_free(struct vic_writer *writer) {
    if (!writer) return;
    sink_free(writer->sink);
    mem_free(&mem_default, writer, sizeof *writer);
}
