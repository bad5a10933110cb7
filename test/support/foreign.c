/* Making files, and reading them in every way. */
#include "support/foreign.h"

#include "support/oracle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <cmocka.h>

void blob_add(struct blob *blob, const void *bytes, size_t count) {
    unsigned char *grown = realloc(blob->bytes, blob->size + count + 1);
    assert_non_null(grown);
    if (count) memcpy(grown + blob->size, bytes, count);
    blob->bytes = grown, blob->size += count;
}

void blob_add_u32(struct blob *blob, uint32_t word) { blob_add(blob, &word, sizeof word); }

void golden_values(enum vic_dtype dtype, void *rows) {
    for (int c = 0; c < GOLDEN_ROWS * GOLDEN_DIM; c++) {
        double value = dtype == VIC_U8 ? c * 17 : dtype == VIC_I8 ? (c - 6) * 7 : (c - 6) * 0.375;
        element_set(dtype, rows, c, (float)value);
    }
}

enum { GAP = 5, GAP_BYTE = 0xA5 };

/* Reads `first` and more into a matrix with gaps between the rows, and compares with the packed rows. */
static enum vic_status read_with_gaps(struct vic_reader *reader, const struct vic_matrix *packed, int64_t first,
                                      int64_t count) {
    size_t row_bytes = (size_t)packed->dim * vic_dtype_bytes(packed->dtype), pitch = row_bytes + GAP;
    unsigned char *gapped = take(pitch * (size_t)count + 1);
    memset(gapped, GAP_BYTE, pitch * (size_t)count);
    struct vic_matrix out = *packed;
    out.data = gapped, out.rows = count, out.stride_bytes = (int64_t)pitch;
    enum vic_status status = vic_reader_read(reader, first, count, &out);
    for (int64_t i = 0; i < count && status == VIC_OK; i++) {
        const unsigned char *row = gapped + pitch * (size_t)i;
        assert_memory_equal(row, (const char *)packed->data + row_bytes * (size_t)(first + i), row_bytes);
        for (size_t j = 0; j < GAP; j++) assert_int_equal(row[row_bytes + j], GAP_BYTE);
    }
    free(gapped);
    return status;
}

static enum vic_status read_in_pieces(struct vic_reader *reader, const struct vic_matrix *packed) {
    enum vic_status status = VIC_OK;
    static const int64_t pieces[] = {1, 3, 1000};
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++)
        for (int64_t first = 0; first < packed->rows && status == VIC_OK; first += pieces[p]) {
            int64_t left = packed->rows - first;
            status = read_with_gaps(reader, packed, first, left < pieces[p] ? left : pieces[p]);
        }
    return status;
}

enum vic_status foreign_read(const char *path, const struct vic_reader_options *options, struct vic_matrix *rows) {
    struct vic_reader *reader = NULL;
    struct vic_file_info info = {.size = sizeof info};
    struct vic_matrix packed = {0};
    enum vic_status status = vic_reader_open(path, options, &reader);
    if (status != VIC_OK) {
        assert_null(reader);
        assert_true(vic_last_error()[0] != '\0');
        return status;
    }
    must(vic_reader_info(reader, &info));
    status = vic_matrix_read(path, options, &packed);
    if (status == VIC_OK) {
        assert_int_equal(packed.rows, info.rows);
        assert_int_equal(packed.dim, info.dim);
        assert_int_equal(packed.dtype, info.dtype);
        status = read_in_pieces(reader, &packed);
    }
    vic_reader_close(reader);
    if (status == VIC_OK && rows)
        *rows = packed;
    else
        vic_matrix_free(&packed);
    return status;
}

void foreign_check(const char *path, const struct vic_reader_options *options, enum vic_dtype dtype, int64_t n, int64_t dim,
                   const void *rows) {
    struct vic_matrix found = {0};
    enum vic_status status = foreign_read(path, options, &found);
    if (status != VIC_OK) print_message("%s\n", vic_last_error());
    assert_int_equal(status, VIC_OK);
    assert_int_equal(found.rows, n);
    assert_int_equal(found.dim, dim);
    assert_int_equal(found.dtype, dtype);
    assert_memory_equal(found.data, rows, (size_t)(n * dim) * vic_dtype_bytes(dtype));
    vic_matrix_free(&found);
}

void foreign_refused(const char *path, const struct vic_reader_options *options, enum vic_status status, const char *words) {
    enum vic_status found = foreign_read(path, options, NULL);
    if (found != status || !strstr(vic_last_error(), words))
        print_message("%s: %s: \"%s\" should hold \"%s\"\n", path, vic_status_name(found), vic_last_error(), words);
    assert_int_equal(found, status);
    assert_non_null(strstr(vic_last_error(), words));
}

void foreign_check_cuts(const struct blob *whole, const char *name, const struct vic_reader_options *options, size_t unit) {
    const char *path = scratch_path(name);
    char words[48];
    struct blob longer = blob_copy(whole);
    longer.bytes[longer.size++] = 0;
    for (size_t size = 0; size <= longer.size; size++) {
        blob_write(path, longer.bytes, size);
        bool good = size == whole->size || (unit && size > 0 && size % unit == 0);
        if (good) {
            must(foreign_read(path, options, NULL));
            continue;
        }
        (void)snprintf(words, sizeof words, "%zu", size);
        foreign_refused(path, options, VIC_FORMAT, name);
        foreign_refused(path, options, VIC_FORMAT, words);
    }
    blob_free(&longer);
}

void foreign_check_flips(const struct blob *whole, const char *name, const struct vic_reader_options *options, int count) {
    const char *path = scratch_path(name);
    struct random random = {.state = 17};
    for (int i = 0; i < count; i++) {
        struct blob changed = blob_copy(whole);
        int flips = 1 + (int)random_below(&random, 3);
        for (int j = 0; j < flips; j++)
            changed.bytes[random_below(&random, (int64_t)changed.size)] ^= (unsigned char)(1 + random_below(&random, 255));
        blob_write(path, changed.bytes, changed.size);
        (void)foreign_read(path, options, NULL); /* any status will do, a wild access will not */
        blob_free(&changed);
    }
}
