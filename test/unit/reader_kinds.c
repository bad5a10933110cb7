/* Telling files apart: a wrong file is named for what it is, and vic_file_info knows every kind. */
#include "support/foreign.h"
#include "support/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static struct blob vecs_make(int64_t n, int64_t dim, uint32_t first_word) {
    struct blob blob = {0};
    for (int64_t i = 0; i < n; i++) {
        blob_add_u32(&blob, (uint32_t)dim);
        for (int64_t j = 0; j < dim; j++) {
            const float value = (float)(i - j) * 0.25f;
            uint32_t word;
            memcpy(&word, &value, sizeof word);
            blob_add_u32(&blob, i + j == 0 ? first_word : word);
        }
    }
    return blob;
}

static struct vic_file_info info_of(const char *path) {
    struct vic_file_info info = {.size = sizeof info};
    must(vic_file_info(path, &info));
    return info;
}

/* As .fbin by its name, and by the caller's word. */
static void FMT_01_a_wrong_file_is_named_for_what_it_is(void **state) {
    (void)state;
    static const struct {
        uint32_t first_word;
        const char *found;
    } rows[] = {{0, "128 rows of dim 0"}, {0x3f800000u, "128 rows of dim 1065353216"}};
    const struct vic_reader_options forced = {.size = sizeof forced, .format = "fbin"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct blob blob = vecs_make(40, 128, rows[i].first_word);
        const char *path = scratch_path("sift.fbin"), *nameless = scratch_path("sift");
        blob_write(path, blob.bytes, blob.size);
        blob_write(nameless, blob.bytes, blob.size);
        foreign_refused(path, NULL, VIC_FORMAT, rows[i].found);
        foreign_refused(path, NULL, VIC_FORMAT, "sift.fbin: expected ");
        foreign_refused(path, NULL, VIC_FORMAT, "found 20640 bytes; it looks like an fvecs file of 40 rows of dim 128");
        foreign_refused(nameless, &forced, VIC_FORMAT, "it looks like an fvecs file of 40 rows of dim 128");
        struct vic_file_info info = info_of(path);
        assert_string_equal(info.format, "fvecs");
        assert_int_equal(info.rows, 40);
        assert_int_equal(info.dim, 128);
        assert_non_null(strstr(info.note, "it looks like an fvecs file of 40 rows of dim 128"));
        struct vic_matrix read = {0}; /* a name that says nothing lets the bytes choose */
        must(foreign_read(nameless, NULL, &read));
        for (int64_t r = 0; r < 40; r++) assert_memory_equal((const char *)read.data + r * 512, blob.bytes + r * 516 + 4, 512);
        vic_matrix_free(&read);
        blob_free(&blob);
    }
    struct blob npy = blob_read("test/data/f4.npy");
    blob_write(scratch_path("array.fbin"), npy.bytes, npy.size);
    foreign_refused(scratch_path("array.fbin"), NULL, VIC_FORMAT, "1297436307 rows");
    foreign_refused(scratch_path("array.fbin"), NULL, VIC_FORMAT, "it looks like an npy file of 5 rows of dim 3");
    assert_string_equal(info_of(scratch_path("array.fbin")).format, "npy");
    blob_free(&npy);
}

struct kind_row {
    const char *path, *format, *element;
    int64_t rows, dim;
    enum vic_dtype dtype;
    const char *note; /* "" where it can be read as it is */
};

static void check_kind(const struct kind_row *row) {
    struct vic_file_info info = info_of(row->path);
    struct stat facts;
    if (strcmp(info.format, row->format) != 0 || !strstr(info.note, row->note))
        print_message("%s: %s, \"%s\"\n", row->path, info.format, info.note);
    assert_string_equal(info.format, row->format);
    assert_string_equal(info.element, row->element);
    assert_int_equal(info.rows, row->rows);
    assert_int_equal(info.dim, row->dim);
    assert_int_equal(info.dtype, row->dtype);
    assert_int_equal(info.metric, 0);
    assert_int_equal(info.version, 0);
    assert_int_equal(info.section_count, 0);
    assert_non_null(strstr(info.note, row->note));
    assert_true(row->note[0] || !info.note[0]);
    assert_int_equal(stat(row->path, &facts), 0);
    assert_int_equal(info.bytes, facts.st_size);
}

static void every_kind_is_known_by_its_name_and_its_bytes(void **state) {
    (void)state;
    static const struct kind_row rows[] = {
        {"test/data/f.fvecs", "fvecs", "f32", 5, 3, VIC_F32, ""},
        {"test/data/u.bvecs", "bvecs", "u8", 5, 3, VIC_U8, ""},
        {"test/data/ids.ivecs", "ivecs", "i32", 5, 3, 0, "read it as ground truth"},
        {"test/data/f.fbin", "bin", "f32", 5, 3, VIC_F32, ""},
        {"test/data/u.u8bin", "bin", "u8", 5, 3, VIC_U8, ""},
        {"test/data/f.f16bin", "bin", "f16", 5, 3, VIC_F16, ""},
        {"test/data/ids_only.bin", "truth", "u32", 5, 3, 0, "read it as ground truth"},
        {"test/data/ids_distances.bin", "truth", "u32", 5, 3, 0, "read it as ground truth"},
        {"test/data/f4_fortran.npy", "npy", "f32", 5, 3, VIC_F32, ""},
        {"test/data/f8.npy", "npy", "f64", 5, 3, 0, "set the reader's dtype to f32 to convert"},
        {"test/data/i8.npy", "npy", "i64", 5, 3, 0, "read it as ground truth"},
        {"test/data/bool.npy", "npy", "", 0, 0, 0, "found |b1"},
        {"test/data/flat.npy", "npy", "", 0, 0, 0, "found 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_kind(&rows[i]);
    /* The same bytes under a name that says nothing; only the type of a bin is then unknown. */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kind_row nameless = rows[i];
        struct blob blob = blob_read(rows[i].path);
        nameless.path = scratch_path("nameless");
        blob_write(nameless.path, blob.bytes, blob.size);
        if (strcmp(nameless.format, "bin") == 0) {
            bool floats = strcmp(nameless.element, "f32") == 0;
            nameless.element = floats ? "f32" : "", nameless.dtype = floats ? VIC_F32 : 0;
            nameless.note = "expected the reader's dtype, which a .bin does not say";
        }
        check_kind(&nameless);
        blob_free(&blob);
    }
}

static void texts_and_strangers_are_told_apart(void **state) {
    (void)state;
    static const struct {
        const char *name, *bytes;
        size_t size;
        const char *format;
        int64_t rows;
    } files[] = {
        {"a", "one\ntwo\r\nthree", 14, "text", 3},
        {"b.txt", "\xc3\xa9t\xc3\xa9\n", 6, "text", 1},
        {"c", "\0\1\2\3 binary", 11, "unknown", 0},
        {"d.fvecs", "not vectors, a letter\n", 22, "text", 1},
        {"e", "", 0, "text", 0},
        {"f.fbin", "\1\0\0", 3, "unknown", 0},
        {"g", "VICINAL\n\0\0\0\0 and more", 21, "vicinal", 0},
        {"h.txt", "VICINAL\n\0\0\0\0 and more", 21, "vicinal", 0},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = scratch_path(files[i].name);
        struct vic_reader *reader = NULL;
        blob_write(path, (const unsigned char *)files[i].bytes, files[i].size);
        if (strcmp(files[i].format, "vicinal") != 0) { /* what is in a container is for the index's own layer to say */
            struct vic_file_info info = info_of(path);
            assert_string_equal(info.format, files[i].format);
            assert_int_equal(info.rows, files[i].rows);
            assert_true(info.note[0] != '\0');
        } else {
            const struct vic_reader_options fbin = {.size = sizeof fbin, .format = "fbin"};
            foreign_refused(path, &fbin, VIC_FORMAT, "it looks like a vicinal file");
        }
        assert_int_equal(vic_reader_open(path, NULL, &reader), VIC_FORMAT);
        assert_null(reader);
        assert_non_null(strstr(vic_last_error(), files[i].name));
    }
}

static void what_is_no_file_is_refused(void **state) {
    (void)state;
    struct vic_file_info info = {.size = sizeof info};
    struct vic_reader *reader = NULL;
    const char *pipe_path = scratch_path("pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(vic_file_info(pipe_path, &info), VIC_IO); /* and does not wait for a writer */
    assert_int_equal(vic_reader_open(pipe_path, NULL, &reader), VIC_IO);
    assert_int_equal(vic_file_info(scratch_folder(), &info), VIC_IO);
    assert_non_null(strstr(vic_last_error(), "found a folder"));
    assert_int_equal(vic_file_info(scratch_path("nowhere.npy"), &info), VIC_NOT_FOUND);
    assert_non_null(strstr(vic_last_error(), "nowhere.npy"));
    assert_int_equal(vic_file_info(NULL, &info), VIC_ARGUMENT);
    assert_int_equal(vic_file_info("test/data/f.fbin", NULL), VIC_ARGUMENT);
    info.size = 3;
    assert_int_equal(vic_file_info("test/data/f.fbin", &info), VIC_ARGUMENT);
    assert_int_equal(vic_reader_open("test/data/f.fbin", NULL, NULL), VIC_ARGUMENT);
    assert_int_equal(vic_matrix_read("test/data/f.fbin", NULL, NULL), VIC_ARGUMENT);
    assert_int_equal(vic_reader_info(NULL, &info), VIC_ARGUMENT);
}

/* A caller compiled against a shorter struct gets what fits, and nothing behind it is touched. */
static void a_shorter_description_is_filled_as_far_as_it_goes(void **state) {
    (void)state;
    struct vic_file_info whole = info_of("test/data/f.fbin");
    struct vic_file_info shorter;
    memset(&shorter, 0x5A, sizeof shorter);
    shorter.size = offsetof(struct vic_file_info, note);
    must(vic_file_info("test/data/f.fbin", &shorter));
    assert_string_equal(shorter.format, whole.format);
    assert_string_equal(shorter.element, whole.element);
    for (size_t i = offsetof(struct vic_file_info, note); i < sizeof shorter; i++)
        assert_int_equal(((const unsigned char *)&shorter)[i], 0x5A);
}

/* Attempts that are part of looking leave no sentence behind. */
static void success_leaves_the_last_sentence_alone(void **state) {
    (void)state;
    struct vic_reader *reader = NULL;
    struct vic_matrix rows = {0};
    struct blob blob = vecs_make(3, 5, 0);
    const char *nameless = scratch_path("quiet");
    blob_write(nameless, blob.bytes, blob.size);
    assert_int_equal(vic_reader_open(scratch_path("not there"), NULL, &reader), VIC_NOT_FOUND);
    char before[512];
    (void)snprintf(before, sizeof before, "%s", vic_last_error());
    (void)info_of("test/data/bool.npy");
    (void)info_of("test/data/ids_only.bin");
    must(vic_matrix_read(nameless, NULL, &rows));
    vic_matrix_free(&rows);
    vic_matrix_free(NULL);
    assert_string_equal(vic_last_error(), before);
    blob_free(&blob);
}

/* A sentence stays readable when the path is longer than it. */
static void long_paths_keep_their_end(void **state) {
    (void)state;
    char name[251], folder[600] = "", path[4000] = "";
    memset(name, 'n', sizeof name);
    memcpy(name + sizeof name - 6, ".fbin", 6);
    (void)snprintf(folder, sizeof folder, "%s/%0200d", scratch_folder(), 7);
    assert_int_equal(mkdir(folder, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    blob_write(path, (const unsigned char *)"123", 3);
    foreign_refused(path, NULL, VIC_FORMAT, "nnn.fbin: expected at least 8 bytes (the header of a bin file), found 3 bytes");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(FMT_01_a_wrong_file_is_named_for_what_it_is),
        cmocka_unit_test(every_kind_is_known_by_its_name_and_its_bytes),
        cmocka_unit_test(texts_and_strangers_are_told_apart),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(a_shorter_description_is_filled_as_far_as_it_goes),
        cmocka_unit_test(success_leaves_the_last_sentence_alone),
        cmocka_unit_test(long_paths_keep_their_end),
    };
    return cmocka_run_group_tests_name("reader_kinds", tests, scratch_open, scratch_close);
}
