/* The bin family: types that only the name or the caller says, sizes in 64 bits. */
#include "support/foreign.h"
#include "support/oracle.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static struct blob bin_make(uint32_t n, uint32_t dim, size_t element_bytes) {
    struct blob blob = {0};
    blob_add_u32(&blob, n);
    blob_add_u32(&blob, dim);
    for (uint32_t c = 0; c < n * dim; c++) {
        const float value = (float)c + 0.5f;
        blob_add(&blob, &value, element_bytes);
    }
    return blob;
}

static void files_of_other_programs_are_read(void **state) {
    (void)state;
    static const struct {
        const char *path;
        enum vic_dtype dtype;
    } files[] = {{"test/data/f.fbin", VIC_F32},
                 {"test/data/u.u8bin", VIC_U8},
                 {"test/data/i.i8bin", VIC_I8},
                 {"test/data/f.f16bin", VIC_F16}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        float rows[GOLDEN_ROWS * GOLDEN_DIM];
        golden_values(files[i].dtype, rows);
        foreign_check(files[i].path, NULL, files[i].dtype, GOLDEN_ROWS, GOLDEN_DIM, rows);
    }
}

static void a_bin_without_a_type_asks_for_one(void **state) {
    (void)state;
    static const struct {
        size_t bytes;
        enum vic_dtype dtype;
        const char *words;
    } rows[] = {{1, VIC_U8, "i8 or u8"},
                {1, VIC_I8, "i8 or u8"},
                {2, VIC_F16, "f16 or bf16"},
                {2, VIC_BF16, "f16 or bf16"},
                {4, VIC_F32, "f32"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct vic_reader_options options = {.size = sizeof options, .dtype = rows[i].dtype};
        struct blob blob = bin_make(3, 7, rows[i].bytes);
        const char *path = scratch_path("x.bin");
        blob_write(path, blob.bytes, blob.size);
        foreign_refused(path, NULL, VIC_TYPE, rows[i].words);
        foreign_check(path, &options, rows[i].dtype, 3, 7, blob.bytes + 8);
        blob_free(&blob);
    }
    struct blob odd = bin_make(3, 7, 3);
    blob_write(scratch_path("x.bin"), odd.bytes, odd.size);
    foreign_refused(scratch_path("x.bin"), NULL, VIC_FORMAT,
                    "expected 8 bytes and 3 rows of dim 7 of 1, 2 or 4 bytes, found 71 bytes");
    blob_free(&odd);
}

/* A name without an ending: the caller says format and type, by the format's name or by an ending's. */
static void the_caller_may_force_the_format(void **state) {
    (void)state;
    struct blob blob = bin_make(3, 7, 4);
    const char *path = scratch_path("nameless");
    blob_write(path, blob.bytes, blob.size);
    const struct vic_reader_options both = {.size = sizeof both, .format = "bin", .dtype = VIC_F32};
    const struct vic_reader_options ending = {.size = sizeof ending, .format = "fbin"};
    const struct vic_reader_options type = {.size = sizeof type, .dtype = VIC_F32};
    const struct vic_reader_options narrow = {.size = sizeof narrow, .format = "u8bin"};
    const struct vic_reader_options wrong = {.size = sizeof wrong, .format = "parquet"};
    foreign_check(path, &both, VIC_F32, 3, 7, blob.bytes + 8);
    foreign_check(path, &ending, VIC_F32, 3, 7, blob.bytes + 8);
    foreign_check(path, &type, VIC_F32, 3, 7, blob.bytes + 8);
    foreign_refused(path, &narrow, VIC_FORMAT, "expected 29 bytes (its header says 3 rows of dim 7, u8), found 92 bytes");
    foreign_refused(path, &wrong, VIC_ARGUMENT, "found \"parquet\"");
    blob_free(&blob);
}

static void FMT_02_every_cut_and_a_byte_too_many_are_refused(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 4, 7, 8, 167, 169};
    struct blob blob = bin_make(10, 4, 4);
    const char *path = scratch_path("ten.fbin");
    char words[48];
    assert_int_equal(blob.size, 168);
    foreign_check_cuts(&blob, "ten.fbin", NULL, 0);
    blob_add(&blob, "", 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        blob_write(path, blob.bytes, sizes[i]);
        (void)snprintf(words, sizeof words, "found %zu bytes", sizes[i]);
        foreign_refused(path, NULL, VIC_FORMAT, words);
        foreign_refused(path, NULL, VIC_FORMAT, sizes[i] < 8 ? "expected at least 8 bytes" : "expected 168 bytes");
    }
    blob_free(&blob);
}

static void changed_bytes_stay_in_bounds(void **state) {
    (void)state;
    struct blob blob = bin_make(10, 4, 2);
    foreign_check_flips(&blob, "flip.f16bin", NULL, 800);
    blob_free(&blob);
}

/* Headers whose product wraps around 2^32 and 2^64 bits of size, over a file of few bytes: refused before any allocation. */
static void huge_headers_are_refused(void **state) {
    (void)state;
    static const uint32_t shapes[][2] = {{0xffffffffu, 0xffffffffu}, {0x80000000u, 0x80000000u}, {0x10000u, 0x10000u},
                                         {0xffffffffu, 1},           {1, 0xffffffffu},           {0x40000000u, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct blob blob = {0};
        blob_add_u32(&blob, shapes[i][0]);
        blob_add_u32(&blob, shapes[i][1]);
        blob_add(&blob, "16 bytes of data", 16);
        blob_write(scratch_path("huge.fbin"), blob.bytes, blob.size);
        foreign_refused(scratch_path("huge.fbin"), NULL, VIC_FORMAT, "found 24 bytes");
        blob_free(&blob);
    }
}

static void no_rows_are_an_honest_file(void **state) {
    (void)state;
    struct blob blob = bin_make(0, 9, 4);
    blob_write(scratch_path("none.fbin"), blob.bytes, blob.size);
    foreign_check(scratch_path("none.fbin"), NULL, VIC_F32, 0, 9, "");
    memset(blob.bytes + 4, 0, 4);
    blob_write(scratch_path("none.fbin"), blob.bytes, blob.size);
    foreign_refused(scratch_path("none.fbin"), NULL, VIC_DIMENSION, "found dim 0");
    blob_free(&blob);
}

/* Sparse files around 2^31 and 2^32 bytes: the last row is all 255, the others are holes. */
static void SIZ_07_the_last_row_beyond_32_bits_is_right(void **state) {
    (void)state;
    static const uint32_t counts[] = {16777215, 16777216, 33554431, 33554432};
    enum { DIM = 128 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const char *path = scratch_path("sparse.u8bin");
        unsigned char row[DIM], found[3 * DIM], zeros[DIM] = {0};
        const uint32_t header[2] = {counts[i], DIM};
        memset(row, 255, sizeof row);
        int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        assert_true(file >= 0);
        assert_int_equal(pwrite(file, header, sizeof header, 0), (ssize_t)sizeof header);
        assert_int_equal(pwrite(file, row, DIM, 8 + (off_t)(counts[i] - 1) * DIM), DIM);
        (void)close(file);
        struct vic_reader *reader = NULL;
        struct vic_file_info info = {.size = sizeof info};
        struct vic_matrix out = matrix_of(found, 3, DIM, VIC_U8);
        must(vic_reader_open(path, NULL, &reader));
        must(vic_reader_info(reader, &info));
        assert_int_equal(info.rows, counts[i]);
        assert_int_equal(info.bytes, 8 + (uint64_t)counts[i] * DIM);
        must(vic_reader_read(reader, (int64_t)counts[i] - 2, 2, &out));
        assert_memory_equal(found, zeros, DIM);
        assert_memory_equal(found + DIM, row, DIM);
        out.stride_bytes = DIM + DIM / 2; /* the way through a block */
        must(vic_reader_read(reader, (int64_t)counts[i] - 2, 2, &out));
        assert_memory_equal(found + DIM + DIM / 2, row, DIM);
        assert_int_equal(vic_reader_read(reader, (int64_t)counts[i] - 1, 2, &out), VIC_ARGUMENT);
        vic_reader_close(reader);
        assert_int_equal(truncate(path, 8 + (off_t)counts[i] * DIM - 1), 0);
        assert_int_equal(vic_reader_open(path, NULL, &reader), VIC_FORMAT);
        assert_int_equal(unlink(path), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_other_programs_are_read), cmocka_unit_test(a_bin_without_a_type_asks_for_one),
        cmocka_unit_test(the_caller_may_force_the_format),  cmocka_unit_test(FMT_02_every_cut_and_a_byte_too_many_are_refused),
        cmocka_unit_test(changed_bytes_stay_in_bounds),     cmocka_unit_test(huge_headers_are_refused),
        cmocka_unit_test(no_rows_are_an_honest_file),       cmocka_unit_test(SIZ_07_the_last_row_beyond_32_bits_is_right),
    };
    return cmocka_run_group_tests_name("reader_bin", tests, scratch_open, scratch_close);
}
