/* npy: versions, types, byte orders, Fortran order, and the little language of its header. */
#include "support/foreign.h"
#include "support/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const struct vic_reader_options as_f32 = {.size = sizeof as_f32, .dtype = VIC_F32};

/* A file of version 1.0 with this header text and these data. */
static struct blob npy_make(const char *header, const void *data, size_t bytes) {
    struct blob blob = {0};
    const uint16_t length = (uint16_t)strlen(header);
    blob_add(&blob, "\x93NUMPY\x01\0", 8);
    blob_add(&blob, &length, 2);
    blob_add(&blob, header, length);
    blob_add(&blob, data, bytes);
    return blob;
}

static void npy_save(const char *path, const char *header, const void *data, size_t bytes) {
    struct blob blob = npy_make(header, data, bytes);
    blob_write(path, blob.bytes, blob.size);
    blob_free(&blob);
}

static void files_of_other_programs_are_read(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum vic_dtype dtype;
        bool converted;
    } files[] = {
        {"f4", VIC_F32, false},        {"f4_fortran", VIC_F32, false},
        {"f4_big", VIC_F32, false},    {"f4_big_fortran", VIC_F32, false},
        {"f4_v2", VIC_F32, false},     {"f4_v3", VIC_F32, false},
        {"f2", VIC_F16, false},        {"f2_big", VIC_F16, false},
        {"f8", VIC_F32, true},         {"f8_big", VIC_F32, true},
        {"i1", VIC_I8, false},         {"u1", VIC_U8, false},
        {"u1_fortran", VIC_U8, false},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[64];
        float rows[GOLDEN_ROWS * GOLDEN_DIM];
        (void)snprintf(path, sizeof path, "test/data/%s.npy", files[i].name);
        golden_values(files[i].dtype, rows);
        foreign_check(path, files[i].converted ? &as_f32 : NULL, files[i].dtype, GOLDEN_ROWS, GOLDEN_DIM, rows);
    }
    foreign_check("test/data/empty.npy", NULL, VIC_F32, 0, GOLDEN_DIM, "");
}

static void what_does_not_fit_is_refused_by_its_name(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum vic_status status;
        const char *words;
    } files[] = {
        {"f8", VIC_TYPE, "holds float64 (f64), which is no type of ours; set the reader's dtype to f32 to convert"},
        {"i8", VIC_TYPE, "found npy of i64, ids perhaps"},
        {"u4", VIC_TYPE, "found npy of u32, ids perhaps"},
        {"flat", VIC_DIMENSION, "expected an array of 2 dimensions (rows, dim), found 1"},
        {"cube", VIC_DIMENSION, "expected an array of 2 dimensions (rows, dim), found 3"},
        {"bool", VIC_TYPE, "found |b1"},
        {"record", VIC_FORMAT, "expected an npy header of descr (a plain type)"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "test/data/%s.npy", files[i].name);
        foreign_refused(path, NULL, files[i].status, files[i].words);
    }
}

/* The same dictionary as it could also be written. */
static void headers_may_be_written_in_many_ways(void **state) {
    (void)state;
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\n",
        "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (2, 3)}",
        "{'shape': (2, 3), 'fortran_order': False, 'descr': '<f4'}",
        "{'descr':'<f4','fortran_order':False,'shape':(2,3)}",
        "  {  'descr' :\t'<f4' ,\n'fortran_order' : False , 'shape' : ( 2 , 3 , ) }   \n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
        "{'descr': '=f4', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '|f4', 'fortran_order': False, 'shape': (02, 3), }",
    };
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        npy_save(scratch_path("h.npy"), headers[i], values, sizeof values);
        foreign_check(scratch_path("h.npy"), NULL, VIC_F32, 2, 3, values);
    }
}

static void broken_headers_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *header;
        enum vic_status status;
    } rows[] = {
        {"", VIC_FORMAT},
        {"{}", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), ", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 3), }", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 3), }", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False}", VIC_FORMAT},
        {"{'descr': '<f4', 'shape': (2, 3)}", VIC_FORMAT},
        {"{'fortran_order': False, 'shape': (2, 3)}", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} again", VIC_FORMAT},
        {"{'descr': '<f4 'fortran_order': False, 'shape': (2, 3)}", VIC_FORMAT},
        {"{'descr': '<f4444444444444444444', 'fortran_order': False, 'shape': (2, 3)}", VIC_FORMAT},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3)}", VIC_TYPE},
        {"{'descr': 'xf4', 'fortran_order': False, 'shape': (2, 3)}", VIC_TYPE},
        {"{'descr': '<V2', 'fortran_order': False, 'shape': (2, 3)}", VIC_TYPE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 1)}", VIC_DIMENSION},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", VIC_DIMENSION},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)}", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616, 3)}", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 3)}", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", VIC_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 0)}", VIC_FORMAT},
    };
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        npy_save(scratch_path("h.npy"), rows[i].header, values, sizeof values);
        foreign_refused(scratch_path("h.npy"), NULL, rows[i].status, "h.npy");
    }
    npy_save(scratch_path("h.npy"), "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 0)}", "", 0);
    foreign_refused(scratch_path("h.npy"), NULL, VIC_DIMENSION, "found dim 0");
}

static void other_versions_and_lengths_are_refused(void **state) {
    (void)state;
    struct blob blob = npy_make("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}", "1234", 4);
    const char *path = scratch_path("v.npy");
    blob.bytes[6] = 4;
    blob_write(path, blob.bytes, blob.size);
    foreign_refused(path, NULL, VIC_VERSION, "expected npy version 1, 2 or 3, found 4.0");
    blob.bytes[6] = 1, blob.bytes[8] = 0xff, blob.bytes[9] = 0xff; /* a header of 65,535 bytes */
    blob_write(path, blob.bytes, blob.size);
    foreign_refused(path, NULL, VIC_FORMAT, "found 65535");
    blob.bytes[6] = 2; /* four bytes of length: the header's first two count too */
    blob_write(path, blob.bytes, blob.size);
    foreign_refused(path, NULL, VIC_FORMAT, "expected an npy header of at most 4096 bytes");
    blob_free(&blob);
}

/* More columns and rows than a block holds, in both orders of bytes, against the same array in C order. */
static void fortran_order_is_turned_in_blocks(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {1, 700}, {700, 1}, {9001, 50}, {70, 9000}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t n = shapes[s][0], dim = shapes[s][1];
        uint32_t *columns = take((size_t)(n * dim) * 4), *rows = take((size_t)(n * dim) * 4);
        for (int big = 0; big < 2; big++) {
            char header[128];
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < dim; j++) {
                    uint32_t word = (uint32_t)(i * 100003 + j * 7);
                    rows[i * dim + j] = word;
                    columns[j * n + i] = big ? __builtin_bswap32(word) : word;
                }
            (void)snprintf(header, sizeof header, "{'descr': '%cf4', 'fortran_order': True, 'shape': (%lld, %lld), }",
                           big ? '>' : '<', (long long)n, (long long)dim);
            npy_save(scratch_path("f.npy"), header, columns, (size_t)(n * dim) * 4);
            foreign_check(scratch_path("f.npy"), NULL, VIC_F32, n, dim, rows);
        }
        free(columns);
        free(rows);
    }
}

/* Every value that float32 cannot hold exactly is rounded to nearest even; the bits are computed here from the halfway
 * points. */
static void float64_is_rounded_once_and_never_to_infinity(void **state) {
    (void)state;
    static const char header[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 4)}";
    const double up = 1.0 + 0x1p-24 + 0x1p-40, tie_even = 1.0 + 0x1p-24, tie_odd = 1.0 + 0x1p-23 + 0x1p-24;
    double wide[8] = {up, tie_even, tie_odd, 0x1p-149 * 1.5, -0.0, 0x1.fffffep127, (double)INFINITY, 1e-50};
    static const float narrow[8] = {1.0f + 0x1p-23f, 1.0f, 1.0f + 0x1p-22f, 0x1p-148f, -0.0f, 0x1.fffffep127f, INFINITY, 0};
    npy_save(scratch_path("wide.npy"), header, wide, sizeof wide);
    foreign_check(scratch_path("wide.npy"), &as_f32, VIC_F32, 2, 4, narrow);
    wide[6] = -1e39;
    npy_save(scratch_path("wide.npy"), header, wide, sizeof wide);
    foreign_refused(scratch_path("wide.npy"), &as_f32, VIC_TYPE, "wide.npy: row 1 column 2 is -1e+39, beyond float32");
    const struct vic_reader_options half = {.size = sizeof half, .dtype = VIC_F16};
    foreign_refused(scratch_path("wide.npy"), &half, VIC_TYPE, "set the reader's dtype to f32");
}

/* The conversion must not depend on the caller's rounding mode or flush-to-zero. */
static void float64_does_not_see_the_callers_environment(void **state) {
    (void)state;
#if defined(__x86_64__)
    double wide[3] = {1.0 + 0x1p-30, 0x1p-140, -1.0 - 0x1p-30};
    static const float narrow[3] = {1.0f, 0x1p-140f, -1.0f};
    npy_save(scratch_path("wide.npy"), "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 3)}", wide, sizeof wide);
    struct vic_matrix rows = {0};
    unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040u | 0x4000u); /* flush to zero, denormals are zero, round up */
    enum vic_status status = vic_matrix_read(scratch_path("wide.npy"), &as_f32, &rows);
    unsigned after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before);
    must(status);
    assert_int_equal(after & 0xffc0u, (before | 0x8040u | 0x4000u) & 0xffc0u);
    assert_memory_equal(rows.data, narrow, sizeof narrow);
    vic_matrix_free(&rows);
#else
    print_message("not on x86-64: nothing to set here\n");
    skip();
#endif
}

static void every_cut_is_refused(void **state) {
    (void)state;
    static const char *const names[] = {"f4_big_fortran.npy", "f4_v2.npy", "u1.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "test/data/%s", names[i]);
        struct blob blob = blob_read(path);
        foreign_check_cuts(&blob, names[i], NULL, 0);
        blob_free(&blob);
    }
}

static void changed_bytes_stay_in_bounds(void **state) {
    (void)state;
    static const char *const names[] = {"f4_big_fortran.npy", "f4_v3.npy", "f8.npy", "u1_fortran.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "test/data/%s", names[i]);
        struct blob blob = blob_read(path);
        foreign_check_flips(&blob, names[i], strcmp(names[i], "f8.npy") == 0 ? &as_f32 : NULL, 500);
        blob_free(&blob);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_other_programs_are_read),
        cmocka_unit_test(what_does_not_fit_is_refused_by_its_name),
        cmocka_unit_test(headers_may_be_written_in_many_ways),
        cmocka_unit_test(broken_headers_are_refused),
        cmocka_unit_test(other_versions_and_lengths_are_refused),
        cmocka_unit_test(fortran_order_is_turned_in_blocks),
        cmocka_unit_test(float64_is_rounded_once_and_never_to_infinity),
        cmocka_unit_test(float64_does_not_see_the_callers_environment),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(changed_bytes_stay_in_bounds),
    };
    return cmocka_run_group_tests_name("reader_npy", tests, scratch_open, scratch_close);
}
