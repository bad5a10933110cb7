/* Saving over what is there: nothing of the old file is reused, strangers beside it are left alone. */
#include "support/oracle.h"
#include "support/sample.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static void SAV_03_own_leftovers_go_and_strangers_stay(void **state) {
    (void)state;
    static const struct sample sample = {30, 4, VIC_F32, VIC_L2, false, true, NULL, 1, 0};
    static const unsigned char stranger[] = "somebody else's";
    static const char *const strangers[] = {"index.tmp",           "index~", ".index", "index.vicinal-tmp",
                                            ".index2.vicinal-tmp", "indey"};
    const char *path = scratch_path("index");
    vic_index_free(sample_build(test_device, &sample, path));
    struct blob blob = blob_read(path);
    unsigned char *dead = take(3 * blob.size); /* of a writer that died: larger, and no byte of it zero */
    memset(dead, 0xaa, 3 * blob.size);
    blob_write(scratch_path(".index.vicinal-tmp"), dead, 3 * blob.size);
    free(dead);
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
        blob_write(scratch_path(strangers[i]), stranger, sizeof stranger);

    struct vic_index *index = NULL;
    must(sample_try_open(test_device, path, 1, &index)); /* opening minds none of them */
    assert_true(scratch_has(".index.vicinal-tmp"));
    must(vic_index_save(index, path, NULL));
    vic_index_free(index);
    assert_false(scratch_has(".index.vicinal-tmp"));
    assert_true(blob_equals_file(&blob, path));
    struct blob expected = {(unsigned char *)(uintptr_t)stranger, sizeof stranger};
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
        assert_true(blob_equals_file(&expected, scratch_path(strangers[i])));
    blob_free(&blob);
    scratch_clear();
}

static void SAV_05_a_smaller_index_over_a_larger_one_is_as_saved_afresh(void **state) {
    (void)state;
    static const struct sample large = {10000, 8, VIC_F32, VIC_COSINE, true, true, NULL, 1, 0};
    static const struct sample small = {1000, 8, VIC_F32, VIC_COSINE, true, true, NULL, 2, 0};
    vic_index_free(sample_build(test_device, &large, scratch_path("over")));
    struct vic_index *index = sample_build(test_device, &small, NULL);
    must(vic_index_save(index, scratch_path("over"), NULL));
    must(vic_index_save(index, scratch_path("fresh"), NULL));
    struct blob fresh = blob_read(scratch_path("fresh"));
    assert_true(blob_equals_file(&fresh, scratch_path("over")));
    vic_index_free(index);
    blob_free(&fresh);
    scratch_clear();
}

static void SAV_06_a_second_build_under_one_name_reuses_nothing_of_the_first(void **state) {
    (void)state;
    static const struct sample a = {5000, 32, VIC_F32, VIC_COSINE, false, false, NULL, 1, 0};
    static const struct sample b = {5000, 32, VIC_F32, VIC_COSINE, false, false, NULL, 2, 0};
    struct vic_index *first = sample_build(test_device, &a, scratch_path("index"));
    struct vic_index *second = sample_build(test_device, &b, scratch_path("index"));
    struct vic_index *clean = sample_build(test_device, &b, scratch_path("clean")),
                     *in_memory = sample_build(test_device, &b, NULL);
    assert_int_equal(sample_hash(second), sample_hash(clean));
    assert_int_equal(sample_hash(second), sample_hash(in_memory));
    assert_int_not_equal(sample_hash(first), sample_hash(second)); /* and the first, still open, is the first */
    struct blob blob = blob_read(scratch_path("clean"));
    assert_true(blob_equals_file(&blob, scratch_path("index")));
    vic_index_free(first);
    vic_index_free(second);
    vic_index_free(clean);
    vic_index_free(in_memory);
    blob_free(&blob);
    scratch_clear();
}

/* A build that fails late, at its last row, leaves the file that was there. */
static void a_failed_build_into_a_file_leaves_the_old_one(void **state) {
    (void)state;
    static const struct sample old = {100, 4, VIC_F32, VIC_DOT, false, false, NULL, 1, 0};
    vic_index_free(sample_build(test_device, &old, scratch_path("index")));
    struct blob blob = blob_read(scratch_path("index"));
    float *rows = take(4000 * 4 * sizeof *rows);
    for (int i = 0; i < 4000 * 4; i++) rows[i] = (float)i;
    const uint32_t nan_bits = 0x7fc00000;
    memcpy(&rows[4000 * 4 - 1], &nan_bits, 4);
    struct vic_matrix matrix = matrix_of(rows, 4000, 4, VIC_F32);
    struct vic_build_options options = {.size = sizeof options, .metric = VIC_DOT, .path = scratch_path("index")};
    struct vic_index *index = NULL;
    assert_int_equal(vic_index_build(test_device, &matrix, &options, &index), VIC_NOT_FINITE);
    assert_null(index);
    assert_true(blob_equals_file(&blob, scratch_path("index")));
    assert_int_equal(scratch_count(), 1);
    free(rows);
    blob_free(&blob);
    scratch_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SAV_03_own_leftovers_go_and_strangers_stay),
        cmocka_unit_test(SAV_05_a_smaller_index_over_a_larger_one_is_as_saved_afresh),
        cmocka_unit_test(SAV_06_a_second_build_under_one_name_reuses_nothing_of_the_first),
        cmocka_unit_test(a_failed_build_into_a_file_leaves_the_old_one),
    };
    return cmocka_run_group_tests(tests, place_of_one_setup, place_teardown);
}
