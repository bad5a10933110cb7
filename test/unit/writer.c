/* Writers: the bytes of every form, and files that appear whole or not at all whatever fails on the way. */
#define _GNU_SOURCE
#include "support/foreign.h"
#include "support/oracle.h"
#include "support/tracer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

/* ---- what is written */

static void fill(void *rows, int64_t cells, enum vic_dtype dtype) {
    for (int64_t c = 0; c < cells; c++) element_set(dtype, rows, c, (float)(c % 100));
}

static const struct form {
    const char *name;
    enum vic_dtype dtype;
} good_forms[] = {
    {"w.fvecs", VIC_F32},  {"w.bvecs", VIC_U8}, {"w.fbin", VIC_F32}, {"w.u8bin", VIC_U8}, {"w.i8bin", VIC_I8},
    {"w.f16bin", VIC_F16}, {"w.bin", VIC_F32},  {"w.bin", VIC_BF16}, {"w.bin", VIC_I8},   {"w.npy", VIC_F32},
    {"w.npy", VIC_F16},    {"w.npy", VIC_I8},   {"w.npy", VIC_U8},   {"W.NPY", VIC_F32},
};
enum { GOOD_FORMS = sizeof good_forms / sizeof *good_forms };

static void every_form_is_read_back_as_it_was_written(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {7, 3}, {3000, 129}, {5, 65536}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t f = 0; f < GOOD_FORMS; f++) {
            int64_t n = shapes[s][0], dim = shapes[s][1];
            enum vic_dtype dtype = good_forms[f].dtype;
            const struct vic_reader_options options = {.size = sizeof options, .dtype = dtype};
            void *rows = take((size_t)(n * dim) * 4);
            fill(rows, n * dim, dtype);
            const struct vic_matrix matrix = matrix_of(rows, n, dim, dtype);
            must(vic_matrix_write(scratch_path(good_forms[f].name), &matrix, NULL));
            foreign_check(scratch_path(good_forms[f].name), &options, dtype, n, dim, rows);
            free(rows);
        }
    scratch_clear();
}

/* The same array as NumPy and others wrote it. */
static void bytes_are_those_of_other_programs(void **state) {
    (void)state;
    static const struct form forms[] = {{"f.fvecs", VIC_F32}, {"u.bvecs", VIC_U8}, {"f.fbin", VIC_F32},   {"u.u8bin", VIC_U8},
                                        {"i.i8bin", VIC_I8},  {"f4.npy", VIC_F32}, {"f.f16bin", VIC_F16}, {"f2.npy", VIC_F16},
                                        {"i1.npy", VIC_I8},   {"u1.npy", VIC_U8}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char golden[64];
        float rows[GOLDEN_ROWS * GOLDEN_DIM];
        golden_values(forms[i].dtype, rows);
        const struct vic_matrix matrix = matrix_of(rows, GOLDEN_ROWS, GOLDEN_DIM, forms[i].dtype);
        (void)snprintf(golden, sizeof golden, "test/data/%s", forms[i].name);
        must(vic_matrix_write(scratch_path(forms[i].name), &matrix, NULL));
        struct blob expected = blob_read(golden), found = blob_read(scratch_path(forms[i].name));
        assert_int_equal(found.size, expected.size);
        bool npy = strstr(golden, ".npy") != NULL; /* the header's spaces are each program's own; the data are not */
        size_t from = npy ? 128 : 0;
        assert_memory_equal(found.bytes + from, expected.bytes + from, found.size - from);
        blob_free(&expected);
        blob_free(&found);
    }
    scratch_clear();
}

/* Rows in pieces of any size, with gaps between them, make the same file as all at once. */
static void pieces_and_gaps_do_not_matter(void **state) {
    (void)state;
    enum { N = 500, DIM = 37, PITCH = DIM * 4 + 12 };
    float *packed = take(N * DIM * sizeof *packed);
    char *gapped = take(N * PITCH);
    memset(gapped, 0xEE, N * PITCH);
    fill(packed, N * DIM, VIC_F32);
    for (int64_t i = 0; i < N; i++) memcpy(gapped + i * PITCH, packed + i * DIM, DIM * sizeof *packed);
    static const char *const names[] = {"p.fvecs", "p.fbin", "p.npy"};
    for (size_t f = 0; f < 3; f++) {
        struct vic_writer *writer = NULL;
        must(vic_writer_open(scratch_path(names[f]), N, DIM, VIC_F32, NULL, &writer));
        for (int64_t first = 0, piece = 1; first < N; first += piece, piece = piece * 2 + 1) {
            struct vic_matrix rows = matrix_of(gapped + first * PITCH, piece < N - first ? piece : N - first, DIM, VIC_F32);
            rows.stride_bytes = PITCH;
            must(vic_writer_write(writer, &rows));
        }
        assert_false(scratch_has(names[f]));
        must(vic_writer_finish(writer));
        assert_true(scratch_has(names[f]));
        vic_writer_free(writer);
        foreign_check(scratch_path(names[f]), NULL, VIC_F32, N, DIM, packed);
    }
    free(packed);
    free(gapped);
    scratch_clear();
}

static void no_rows_are_written_where_the_format_can_say_so(void **state) {
    (void)state;
    const struct vic_matrix none = matrix_of(NULL, 0, 9, VIC_F32);
    must(vic_matrix_write(scratch_path("none.fbin"), &none, NULL));
    foreign_check(scratch_path("none.fbin"), NULL, VIC_F32, 0, 9, "");
    must(vic_matrix_write(scratch_path("none.npy"), &none, NULL));
    foreign_check(scratch_path("none.npy"), NULL, VIC_F32, 0, 9, "");
    assert_int_equal(vic_matrix_write(scratch_path("none.fvecs"), &none, NULL), VIC_ARGUMENT);
    assert_non_null(strstr(vic_last_error(), "would not say its dim"));
    scratch_clear();
}

/* ---- what is refused */

static void what_a_form_cannot_hold_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *name, *format;
        int64_t rows, dim;
        enum vic_dtype dtype;
        enum vic_status status;
        const char *words;
    } rows[] = {
        {"a.fvecs", NULL, 1, 1, VIC_U8, VIC_TYPE, "expected f32, which is what a .fvecs file holds, found u8"},
        {"a.ivecs", NULL, 1, 1, VIC_F32, VIC_TYPE, "expected i32"},
        {"a.f16bin", NULL, 1, 1, VIC_BF16, VIC_TYPE, "expected f16"},
        {"a.npy", NULL, 1, 1, VIC_BF16, VIC_TYPE, "which has no bf16"},
        {"a.npy", NULL, 1, 1, 77, VIC_TYPE, "found 77"},
        {"a.csv", NULL, 1, 1, VIC_F32, VIC_ARGUMENT, "expected a path that ends in one of .fvecs"},
        {"a", NULL, 1, 1, VIC_F32, VIC_ARGUMENT, ".npy, found"},
        {"a.fbin", "parquet", 1, 1, VIC_F32, VIC_ARGUMENT, "found \"parquet\""},
        {"a.fbin", NULL, -1, 1, VIC_F32, VIC_ARGUMENT, "found -1"},
        {"a.fbin", NULL, 1, 0, VIC_F32, VIC_DIMENSION, "found 0"},
        {"a.fbin", NULL, 1, 65537, VIC_F32, VIC_DIMENSION, "found 65537"},
        {"a.fbin", NULL, INT64_C(4294967296), 1, VIC_F32, VIC_ARGUMENT, "whose header has 32 bits"},
        {"a.npy", NULL, INT64_MAX, 65536, VIC_F32, VIC_ARGUMENT, "more than a file can hold"},
        {"no/folder.fbin", NULL, 1, 1, VIC_F32, VIC_NOT_FOUND, "no"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct vic_writer_options options = {.size = sizeof options, .format = rows[i].format};
        struct vic_writer *writer = NULL;
        enum vic_status status =
            vic_writer_open(scratch_path(rows[i].name), rows[i].rows, rows[i].dim, rows[i].dtype, &options, &writer);
        if (status != rows[i].status || !strstr(vic_last_error(), rows[i].words)) print_message("%s\n", vic_last_error());
        assert_int_equal(status, rows[i].status);
        assert_non_null(strstr(vic_last_error(), rows[i].words));
        assert_null(writer);
        assert_int_equal(scratch_count(), 0);
    }
    struct vic_writer *writer = NULL;
    assert_int_equal(vic_writer_open(NULL, 1, 1, VIC_F32, NULL, &writer), VIC_ARGUMENT);
    assert_int_equal(vic_writer_open(scratch_path("a.npy"), 1, 1, VIC_F32, NULL, NULL), VIC_ARGUMENT);
    assert_int_equal(vic_writer_write(NULL, NULL), VIC_ARGUMENT);
    assert_int_equal(vic_writer_finish(NULL), VIC_ARGUMENT);
    vic_writer_free(NULL);
    const struct vic_writer_options npy = {.size = sizeof npy, .format = "npy"};
    must(vic_writer_open(scratch_path("array.data"), 0, 1, VIC_F32, &npy, &writer)); /* a forced form needs no ending */
    must(vic_writer_finish(writer));
    vic_writer_free(writer);
    assert_true(scratch_has("array.data"));
    scratch_clear();
}

static void rows_must_be_as_announced(void **state) {
    (void)state;
    float values[6] = {1, 2, 3, 4, 5, 6};
    struct vic_writer *writer = NULL;
    struct vic_matrix two = matrix_of(values, 2, 3, VIC_F32), other = two;
    must(vic_writer_open(scratch_path("r.fbin"), 3, 3, VIC_F32, NULL, &writer));
    other.dim = 2;
    assert_int_equal(vic_writer_write(writer, &other), VIC_DIMENSION);
    other = two, other.dtype = VIC_I8;
    assert_int_equal(vic_writer_write(writer, &other), VIC_TYPE);
    must(vic_writer_write(writer, &two));
    assert_int_equal(vic_writer_write(writer, &two), VIC_DIMENSION);
    assert_non_null(strstr(vic_last_error(), "expected 3 rows in all, found 2 more after 2"));
    assert_int_equal(vic_writer_finish(writer), VIC_DIMENSION);
    assert_non_null(strstr(vic_last_error(), "expected 3 rows as the writer was opened for, found 2 written"));
    two.rows = 1;
    must(vic_writer_write(writer, &two)); /* none of this harmed the writer */
    must(vic_writer_finish(writer));
    assert_int_equal(vic_writer_finish(writer), VIC_ARGUMENT);
    assert_int_equal(vic_writer_write(writer, &two), VIC_ARGUMENT);
    vic_writer_free(writer);
    static const float expected[9] = {1, 2, 3, 4, 5, 6, 1, 2, 3};
    foreign_check(scratch_path("r.fbin"), NULL, VIC_F32, 3, 3, expected);
    scratch_clear();
}

static void a_writer_given_up_leaves_nothing(void **state) {
    (void)state;
    float values[6] = {1, 2, 3, 4, 5, 6};
    const struct vic_matrix two = matrix_of(values, 2, 3, VIC_F32);
    struct vic_writer *writer = NULL;
    must(vic_writer_open(scratch_path("gone.npy"), 2, 3, VIC_F32, NULL, &writer));
    must(vic_writer_write(writer, &two));
    vic_writer_free(writer);
    assert_int_equal(scratch_count(), 0);
    /* Two writers of one file: the second is told, the first goes on. */
    struct vic_writer *second = NULL;
    must(vic_writer_open(scratch_path("one.npy"), 2, 3, VIC_F32, NULL, &writer));
    assert_int_equal(vic_writer_open(scratch_path("one.npy"), 2, 3, VIC_F32, NULL, &second), VIC_LOCKED);
    must(vic_writer_write(writer, &two));
    must(vic_writer_finish(writer));
    vic_writer_free(writer);
    foreign_check(scratch_path("one.npy"), NULL, VIC_F32, 2, 3, values);
    scratch_clear();
}

/* ---- what fails half-way */

enum { OLD_ROWS = 3, NEW_ROWS = 40000, DIM = 16 }; /* the new file is written in several calls */

struct change {
    const char *path;
    float old[OLD_ROWS * DIM], *new;
};

static struct change change_of(const char *name) {
    struct change change = {.path = scratch_path(name), .new = take((size_t)NEW_ROWS * DIM * sizeof(float))};
    for (int64_t c = 0; c < OLD_ROWS * DIM; c++) change.old[c] = (float)-c;
    fill(change.new, (int64_t)NEW_ROWS * DIM, VIC_F32);
    return change;
}

static void old_write(const struct change *change) {
    const struct vic_matrix rows = matrix_of(change->old, OLD_ROWS, DIM, VIC_F32);
    must(vic_matrix_write(change->path, &rows, NULL));
}

static int new_write(void *argument) {
    const struct change *change = argument;
    const struct vic_matrix rows = matrix_of(change->new, NEW_ROWS, DIM, VIC_F32);
    enum vic_status status = vic_matrix_write(change->path, &rows, NULL);
    return (int)status | (status != VIC_OK && !vic_last_error()[0] ? 128 : 0);
}

/* Whether the file is the new one; it is the old one otherwise, to the byte. */
static bool is_new(const struct change *change) {
    struct vic_matrix rows = {0};
    must(vic_matrix_read(change->path, NULL, &rows));
    bool new = rows.rows == NEW_ROWS;
    assert_true(new || rows.rows == OLD_ROWS);
    assert_memory_equal(rows.data, new ? change->new : change->old, (size_t)(rows.rows * DIM) * sizeof(float));
    vic_matrix_free(&rows);
    return new;
}

/* Until fewer calls are made than the one that is to fail. The last one, the folder's fsync, comes after the rename: the
 * new file is then there although a failure is reported. */
static void the_nth_failing_call_leaves_the_old_file_whole(void **state) {
    (void)state;
    static const char *const names[] = {"n.fvecs", "n.fbin", "n.npy"};
    static const int errors[] = {ENOSPC, EIO};
    if (!tracer_available()) {
        print_message("this system does not let a process trace its child: not tested\n");
        skip();
    }
    for (size_t f = 0; f < sizeof names / sizeof *names; f++) {
        struct change change = change_of(names[f]);
        for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
            struct tracer_plan plan = {.action = TRACER_FAIL, .error = errors[e], .files_only = true};
            struct tracer_seen seen;
            int reported = 0;
            for (plan.at = 1;; plan.at++) {
                old_write(&change);
                seen = tracer_run(&plan, new_write, &change);
                if (!seen.hit) break;
                bool new = is_new(&change);
                assert_int_equal(scratch_count(), 1);
                assert_true(seen.exit_code == VIC_OK || seen.exit_code == (errors[e] == ENOSPC ? VIC_NO_SPACE : VIC_IO));
                assert_true(seen.exit_code != VIC_OK || new);
                assert_true(seen.exit_code == VIC_OK || !new || strcmp(seen.name, "fsync") == 0);
                reported += seen.exit_code != VIC_OK;
            }
            assert_int_equal(seen.exit_code, VIC_OK);
            assert_true(reported >= 7); /* open, reserve, several writes, size, fsync, rename */
        }
        free(change.new);
        scratch_clear();
    }
}

static void writes_that_move_half_are_gone_on_with(void **state) {
    (void)state;
    if (!tracer_available()) skip();
    struct change change = change_of("half.fvecs");
    const struct tracer_plan plan = {.action = TRACER_SHORTEN, .of_name = "pwrite"};
    old_write(&change);
    struct tracer_seen seen = tracer_run(&plan, new_write, &change);
    assert_true(seen.hit);
    assert_int_equal(seen.exit_code, VIC_OK);
    assert_true(is_new(&change));
    free(change.new);
    scratch_clear();
}

/* A real file system of one mebibyte, filled. Only root may mount one. */
static void a_full_disk_leaves_the_old_file_whole(void **state) {
    (void)state;
    const char *folder = scratch_path("small");
    assert_int_equal(mkdir(folder, 0700), 0);
    if (mount("none", folder, "tmpfs", 0, "size=1m") != 0) {
        print_message("cannot mount a small file system here (%s): not tested\n", strerror(errno));
        assert_int_equal(rmdir(folder), 0);
        skip();
    }
    struct change change = change_of("small/rows.fbin");
    old_write(&change);
    enum vic_status status = (enum vic_status)new_write(&change);
    bool new = is_new(&change);
    int unlinked = unlink(change.path);
    int empty = umount2(folder, 0) == 0 ? rmdir(folder) : -1; /* and so nothing else was left in it */
    free(change.new);
    assert_int_equal(status, VIC_NO_SPACE);
    assert_false(new);
    assert_int_equal(unlinked, 0);
    assert_int_equal(empty, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_read_back_as_it_was_written),
        cmocka_unit_test(bytes_are_those_of_other_programs),
        cmocka_unit_test(pieces_and_gaps_do_not_matter),
        cmocka_unit_test(no_rows_are_written_where_the_format_can_say_so),
        cmocka_unit_test(what_a_form_cannot_hold_is_refused),
        cmocka_unit_test(rows_must_be_as_announced),
        cmocka_unit_test(a_writer_given_up_leaves_nothing),
        cmocka_unit_test(the_nth_failing_call_leaves_the_old_file_whole),
        cmocka_unit_test(writes_that_move_half_are_gone_on_with),
        cmocka_unit_test(a_full_disk_leaves_the_old_file_whole),
    };
    return cmocka_run_group_tests_name("writer", tests, scratch_open, scratch_close);
}
