/* ann-benchmarks HDF5 through libhdf5, and the sentence where it is missing. Skipped with a message where this build or
 * this machine cannot read HDF5; one test then still holds. */
#include "support/foreign.h"
#include "support/oracle.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static bool available(void) {
    struct vic_reader *reader = NULL;
    enum vic_status status = vic_reader_open("test/data/plain.hdf5", NULL, &reader);
    vic_reader_close(reader);
    return status != VIC_UNSUPPORTED;
}

static struct vic_reader_options set_of(const char *dataset, enum vic_dtype dtype) {
    return (struct vic_reader_options){.size = sizeof(struct vic_reader_options), .dataset = dataset, .dtype = dtype};
}

static void without_libhdf5_the_sentence_says_so(void **state) {
    (void)state;
    if (available()) {
        const struct vic_reader_options options = set_of("nothing", 0);
        foreign_refused("test/data/plain.hdf5", &options, VIC_NOT_FOUND, "expected a data set named nothing, found none");
        return;
    }
    foreign_refused("test/data/plain.hdf5", NULL, VIC_UNSUPPORTED, "hdf5");
    struct vic_file_info info = {.size = sizeof info};
    must(vic_file_info("test/data/plain.hdf5", &info));
    assert_string_equal(info.format, "hdf5");
    assert_non_null(strstr(info.note, "hdf5"));
}

static void data_sets_of_other_programs_are_read(void **state) {
    (void)state;
    if (!available()) skip();
    static const struct {
        const char *path, *dataset;
        enum vic_dtype asked, dtype;
        int64_t n;
    } sets[] = {
        {"test/data/plain.hdf5", NULL, 0, VIC_F32, 5},        {"test/data/plain.hdf5", "test", 0, VIC_F32, 2},
        {"test/data/plain.hdf5", "distances", 0, VIC_F32, 5}, {"test/data/packed.h5", NULL, 0, VIC_F32, 5},
        {"test/data/packed.h5", "test", VIC_F32, VIC_F32, 5}, {"test/data/packed.h5", "half", 0, VIC_F16, 5},
        {"test/data/packed.h5", "bytes", 0, VIC_U8, 5},       {"test/data/packed.h5", "signed", VIC_I8, VIC_I8, 5},
        {"test/data/packed.h5", "empty", 0, VIC_F32, 0},
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const struct vic_reader_options options = set_of(sets[i].dataset, sets[i].asked);
        float rows[GOLDEN_ROWS * GOLDEN_DIM];
        golden_values(sets[i].dtype, rows);
        foreign_check(sets[i].path, &options, sets[i].dtype, sets[i].n, GOLDEN_DIM, rows);
    }
}

static void the_metric_of_the_file_is_told(void **state) {
    (void)state;
    if (!available()) skip();
    static const struct {
        const char *path;
        enum vic_metric metric;
    } files[] = {{"test/data/plain.hdf5", VIC_COSINE}, {"test/data/packed.h5", VIC_L2}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct vic_file_info info = {.size = sizeof info};
        must(vic_file_info(files[i].path, &info));
        assert_int_equal(info.metric, files[i].metric);
        assert_int_equal(info.dtype, VIC_F32);
        assert_int_equal(info.rows, GOLDEN_ROWS);
        assert_string_equal(info.note, "");
    }
}

static void what_does_not_fit_is_refused_by_its_name(void **state) {
    (void)state;
    if (!available()) skip();
    static const struct {
        const char *path, *dataset;
        enum vic_status status;
        const char *words;
    } rows[] = {
        {"test/data/packed.h5", "test", VIC_TYPE, "holds float64"},
        {"test/data/packed.h5", "flat", VIC_DIMENSION, "expected data set flat to have 2 dimensions (rows, dim), found 1"},
        {"test/data/packed.h5", "short", VIC_TYPE, "data set short"},
        {"test/data/packed.h5", "neighbors", VIC_TYPE, "found hdf5 of i64, ids perhaps"},
        {"test/data/packed.h5", "unwritten", VIC_FORMAT, "found 0 bytes of it in a file of 9288"},
        {"test/data/packed.h5", "no such", VIC_NOT_FOUND, "expected a data set named no such"},
        {"test/data/sets.hdf5", NULL, VIC_TYPE, "data set train"},
        {"test/data/f.fbin", NULL, VIC_FORMAT, "it looks like a bin file of 5 rows of dim 3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct vic_reader_options options = set_of(rows[i].dataset, 0);
        options.format = "hdf5";
        foreign_refused(rows[i].path, &options, rows[i].status, rows[i].words);
    }
}

static void cut_files_are_refused(void **state) {
    (void)state;
    if (!available()) skip();
    struct blob blob = blob_read("test/data/packed.h5");
    const char *path = scratch_path("cut.h5");
    for (size_t size = 8; size < blob.size; size += 1 + size / 16) {
        blob_write(path, blob.bytes, size);
        foreign_refused(path, NULL, VIC_FORMAT, "expected an HDF5 file, found one that libhdf5 cannot open");
    }
    blob_free(&blob);
}

/* libhdf5 keeps one state for the whole process: readers of several threads must not meet inside it. */
static void *thread_read(void *argument) {
    bool *right = argument;
    float rows[GOLDEN_ROWS * GOLDEN_DIM];
    golden_values(VIC_F32, rows);
    for (int i = 0; i < 50 && *right; i++) {
        struct vic_matrix found = {0};
        const char *path = i % 2 ? "test/data/plain.hdf5" : "test/data/packed.h5";
        *right = vic_matrix_read(path, NULL, &found) == VIC_OK && memcmp(found.data, rows, sizeof rows) == 0;
        vic_matrix_free(&found);
    }
    return NULL;
}

static void readers_of_many_threads_do_not_meet(void **state) {
    (void)state;
    if (!available()) skip();
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    bool right[THREADS];
    for (int i = 0; i < THREADS; i++) {
        right[i] = true;
        assert_int_equal(pthread_create(&threads[i], NULL, thread_read, &right[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(right[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_libhdf5_the_sentence_says_so),
        cmocka_unit_test(data_sets_of_other_programs_are_read),
        cmocka_unit_test(the_metric_of_the_file_is_told),
        cmocka_unit_test(what_does_not_fit_is_refused_by_its_name),
        cmocka_unit_test(cut_files_are_refused),
        cmocka_unit_test(readers_of_many_threads_do_not_meet),
    };
    if (!available()) print_message("no libhdf5 here: most tests of HDF5 are skipped\n");
    return cmocka_run_group_tests_name("reader_hdf5", tests, scratch_open, scratch_close);
}
