/* fvecs, bvecs, ivecs: what is read, and what is refused. */
#include "support/foreign.h"
#include "support/oracle.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* n rows of dim; every value is its cell's number. */
static struct blob vecs_make(int64_t n, int64_t dim, enum vic_dtype dtype) {
    struct blob blob = {0};
    unsigned char *row = take((size_t)dim * 4);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < dim; j++) element_set(dtype, row, j, (float)((i * dim + j) % 251));
        blob_add_u32(&blob, (uint32_t)dim);
        blob_add(&blob, row, (size_t)dim * vic_dtype_bytes(dtype));
    }
    free(row);
    return blob;
}

static void files_of_other_programs_are_read(void **state) {
    (void)state;
    float f[GOLDEN_ROWS * GOLDEN_DIM];
    uint8_t u[GOLDEN_ROWS * GOLDEN_DIM];
    golden_values(VIC_F32, f);
    golden_values(VIC_U8, u);
    foreign_check("test/data/f.fvecs", NULL, VIC_F32, GOLDEN_ROWS, GOLDEN_DIM, f);
    foreign_check("test/data/u.bvecs", NULL, VIC_U8, GOLDEN_ROWS, GOLDEN_DIM, u);
}

/* More than a block of a million bytes, rows that do not divide it, and the largest dim. */
static void rows_across_blocks_are_whole(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {5000, 77}, {40, 10007}, {3, 65536}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t n = shapes[s][0], dim = shapes[s][1];
        struct blob blob = vecs_make(n, dim, VIC_F32);
        float *rows = take((size_t)(n * dim) * sizeof *rows);
        for (int64_t c = 0; c < n * dim; c++) rows[c] = (float)(c % 251);
        blob_write(scratch_path("big.fvecs"), blob.bytes, blob.size);
        foreign_check(scratch_path("big.fvecs"), NULL, VIC_F32, n, dim, rows);
        free(rows);
        blob_free(&blob);
    }
}

static void every_cut_is_refused_but_whole_rows(void **state) {
    (void)state;
    struct blob f = vecs_make(4, 6, VIC_F32), u = vecs_make(4, 6, VIC_U8);
    foreign_check_cuts(&f, "cut.fvecs", NULL, 28);
    foreign_check_cuts(&u, "cut.bvecs", NULL, 10);
    blob_free(&f);
    blob_free(&u);
}

static void changed_bytes_stay_in_bounds(void **state) {
    (void)state;
    struct blob f = vecs_make(4, 6, VIC_F32), u = vecs_make(4, 6, VIC_U8);
    foreign_check_flips(&f, "flip.fvecs", NULL, 400);
    foreign_check_flips(&u, "flip.bvecs", NULL, 400);
    blob_free(&f);
    blob_free(&u);
}

/* A size that fits says nothing about the rows in the middle. */
static void a_row_of_another_dim_is_named(void **state) {
    (void)state;
    struct blob blob = vecs_make(300, 6, VIC_F32);
    const char *path = scratch_path("row.fvecs");
    blob.bytes[28 * 123] = 7;
    blob_write(path, blob.bytes, blob.size);
    foreign_refused(path, NULL, VIC_FORMAT, "row.fvecs: expected row 123 to begin with dim 6 as row 0 does, found 7");
    /* Rows that do not touch it are read. */
    struct vic_reader *reader = NULL;
    float rows[100 * 6] = {0};
    struct vic_matrix out = matrix_of(rows, 100, 6, VIC_F32);
    must(vic_reader_open(path, NULL, &reader));
    must(vic_reader_read(reader, 0, 100, &out));
    must(vic_reader_read(reader, 124, 100, &out));
    assert_int_equal(vic_reader_read(reader, 100, 100, &out), VIC_FORMAT);
    vic_reader_close(reader);
    blob_free(&blob);
}

static void a_dim_of_none_is_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t dim;
        enum vic_status status;
        const char *words;
    } rows[] = {{0, VIC_FORMAT, "found 0"},
                {0xffffffffu, VIC_FORMAT, "found -1"},
                {0x80000000u, VIC_FORMAT, "found -2147483648"},
                {0x7fffffffu, VIC_FORMAT, "expected a multiple of 8589934592 bytes"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct blob blob = {0};
        blob_add_u32(&blob, rows[i].dim);
        blob_add_u32(&blob, 1);
        blob_write(scratch_path("dim.fvecs"), blob.bytes, blob.size);
        foreign_refused(scratch_path("dim.fvecs"), NULL, rows[i].status, rows[i].words);
        blob_free(&blob);
    }
    struct blob wide = vecs_make(1, 65537, VIC_U8);
    blob_write(scratch_path("wide.bvecs"), wide.bytes, wide.size);
    foreign_refused(scratch_path("wide.bvecs"), NULL, VIC_DIMENSION, "expected vectors of dim 1 to 65536, found dim 65537");
    blob_free(&wide);
}

static void ivecs_are_ids_not_vectors(void **state) {
    (void)state;
    foreign_refused("test/data/ids.ivecs", NULL, VIC_TYPE, "found ivecs of i32, ids perhaps: read it as ground truth");
}

static void the_type_asked_for_must_be_the_files(void **state) {
    (void)state;
    const struct vic_reader_options bytes = {.size = sizeof bytes, .dtype = VIC_U8}, none = {.size = sizeof none, .dtype = 77};
    const struct vic_reader_options floats = {.size = sizeof floats, .dtype = VIC_F32};
    float f[GOLDEN_ROWS * GOLDEN_DIM];
    golden_values(VIC_F32, f);
    foreign_check("test/data/f.fvecs", &floats, VIC_F32, GOLDEN_ROWS, GOLDEN_DIM, f);
    foreign_refused("test/data/f.fvecs", &bytes, VIC_TYPE, "f.fvecs holds f32, expected u8");
    foreign_refused("test/data/f.fvecs", &none, VIC_ARGUMENT, "found 77");
}

/* The range, the matrix, the type: each is held against the reader before a byte moves. */
static void reads_outside_the_file_are_refused(void **state) {
    (void)state;
    static const int64_t ranges[][2] = {{-1, 1}, {0, 6}, {5, 1}, {6, 0}, {1, INT64_MAX}, {INT64_MAX, 1}, {0, -1}};
    struct vic_reader *reader = NULL;
    float rows[6 * GOLDEN_DIM] = {0};
    struct vic_matrix out = matrix_of(rows, 6, GOLDEN_DIM, VIC_F32);
    must(vic_reader_open("test/data/f.fvecs", NULL, &reader));
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        assert_int_equal(vic_reader_read(reader, ranges[i][0], ranges[i][1], &out), VIC_ARGUMENT);
        assert_non_null(strstr(vic_last_error(), "expected rows within 0 to 5"));
    }
    must(vic_reader_read(reader, 5, 0, &out));
    struct vic_matrix other = out;
    other.dim = 4;
    assert_int_equal(vic_reader_read(reader, 0, 1, &other), VIC_DIMENSION);
    other = out, other.rows = 2;
    assert_int_equal(vic_reader_read(reader, 0, 3, &other), VIC_DIMENSION);
    other = out, other.dtype = VIC_U8;
    assert_int_equal(vic_reader_read(reader, 0, 1, &other), VIC_TYPE);
    other = out, other.stride_bytes = 11;
    assert_int_equal(vic_reader_read(reader, 0, 1, &other), VIC_ARGUMENT);
    other = out, other.place = VIC_DEVICE;
    assert_int_equal(vic_reader_read(reader, 0, 1, &other), VIC_UNSUPPORTED);
    other = out, other.data = NULL;
    assert_int_equal(vic_reader_read(reader, 0, 1, &other), VIC_ARGUMENT);
    assert_int_equal(vic_reader_read(reader, 0, 1, NULL), VIC_ARGUMENT);
    assert_int_equal(vic_reader_read(NULL, 0, 1, &out), VIC_ARGUMENT);
    vic_reader_close(reader);
    vic_reader_close(NULL);
}

/* The file gets shorter while a reader has it open. */
static void a_file_that_shrinks_is_noticed(void **state) {
    (void)state;
    struct blob blob = vecs_make(10, 6, VIC_F32);
    const char *path = scratch_path("shrinks.fvecs");
    float rows[10 * 6] = {0};
    struct vic_matrix out = matrix_of(rows, 10, 6, VIC_F32);
    struct vic_reader *reader = NULL;
    blob_write(path, blob.bytes, blob.size);
    must(vic_reader_open(path, NULL, &reader));
    blob_write(path, blob.bytes, 100);
    assert_int_equal(vic_reader_read(reader, 0, 10, &out), VIC_IO);
    assert_non_null(strstr(vic_last_error(), "ends at byte 100 although it had 280 bytes"));
    vic_reader_close(reader);
    blob_free(&blob);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_other_programs_are_read),    cmocka_unit_test(rows_across_blocks_are_whole),
        cmocka_unit_test(every_cut_is_refused_but_whole_rows), cmocka_unit_test(changed_bytes_stay_in_bounds),
        cmocka_unit_test(a_row_of_another_dim_is_named),       cmocka_unit_test(a_dim_of_none_is_refused),
        cmocka_unit_test(ivecs_are_ids_not_vectors),           cmocka_unit_test(the_type_asked_for_must_be_the_files),
        cmocka_unit_test(reads_outside_the_file_are_refused),  cmocka_unit_test(a_file_that_shrinks_is_noticed),
    };
    return cmocka_run_group_tests_name("reader_vecs", tests, scratch_open, scratch_close);
}
