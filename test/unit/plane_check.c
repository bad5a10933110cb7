/* What a plane says of its rows, held against them: the check that an index's file gets. */
#include "support/oracle.h"
#include "support/sample.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const struct sample planed = {20, 70, VIC_F32, VIC_L2, false, false, NULL, 9, VIC_PLANES_8 | VIC_PLANES_4};

static struct blob planed_blob(void) {
    vic_index_free(sample_build(test_device, &planed, scratch_path("planed")));
    return blob_read(scratch_path("planed"));
}

static void check_names_the_plane_that_is_not_its_rows(void **state) {
    (void)state;
    static const struct {
        const char *section, *says;
        size_t at;
        unsigned char mask;
    } wrong[] = {
        {"plane8", "section plane8_error: expected at least the error of row 0's codes", 0, 0x40},
        {"plane8", "of row 19's", 19 * 128 + 69, 0x40},
        {"plane8", "section plane8: expected no codes past dimension 70 of row 3", 3 * 128 + 70, 1},
        {"plane4", "section plane4_error: expected at least the error of row 2's codes", 2 * 64 + 63, 0x08},
        {"plane4", "section plane4: expected no codes past dimension 70 of row 2", 2 * 64 + 63, 0x10},
        {"plane4", "of row 2's", 2 * 64 + 5, 0x80}, /* dimension 69 */
        {"plane8_scale", "of row 7's", 7 * 4 + 2, 0x40},
        {"plane8_error", "of row 7's", 7 * 4 + 3, 0x08}, /* a 65,536th of it */
        {"plane8_error", "of row 7's", 7 * 4 + 3, 0x80},
        {"plane4_error", "of row 19's", 19 * 4 + 3, 0x08},
        {"plane_norms", "section plane_norms: expected at least", 4 * 4 + 3, 0x80},
    };
    struct blob good = planed_blob();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t bytes = 0;
        struct blob blob = blob_copy(&good);
        unsigned char *byte = section_bytes(&blob, wrong[i].section, &bytes) + wrong[i].at;
        assert_true(wrong[i].at < bytes);
        *byte ^= wrong[i].mask;
        page_seal(&blob);
        blob_found_by_check(test_device, &blob, wrong[i].says);
        blob_free(&blob);
    }
    blob_free(&good);
}

/* A larger error and a larger norm are true as well; a search just leaves fewer rows out. */
static void planes_that_promise_less_pass_their_check(void **state) {
    (void)state;
    static const char *const names[] = {"plane8_error", "plane4_error", "plane_norms"};
    const float more = 1e30f;
    struct blob blob = planed_blob();
    struct vic_index *index = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t bytes = 0;
        memcpy(section_bytes(&blob, names[i], &bytes) + 12, &more, sizeof more);
    }
    page_seal(&blob);
    must(blob_open(test_device, &blob, 1, &index));
    struct vic_index *plain = sample_open(test_device, scratch_path("planed"));
    assert_int_equal(sample_hash(index), sample_hash(plain));
    vic_index_free(plain);
    vic_index_free(index);
    blob_free(&blob);
}

static void planes_of_wild_rows_pass_their_check(void **state) {
    (void)state;
    enum { N = 300, DIM = 37 };
    float *rows = take(N * DIM * sizeof *rows);
    struct random random = {3};
    for (int values = 0; values < VALUES_COUNT; values++)
        for (int metric = VIC_DOT; metric <= VIC_L2; metric++)
            for (int dtype = VIC_F32; dtype <= VIC_BF16; dtype++) {
                random_fill(&random, (enum values)values, (enum vic_dtype)dtype, N * DIM, rows);
                memset(rows, 0, DIM * sizeof *rows); /* a zero row, and whole numbers, whose codes are exact */
                for (int i = 0; i < DIM; i++) element_set((enum vic_dtype)dtype, rows, DIM + i, (float)(i % 3 - 1));
                struct vic_matrix matrix = matrix_of(rows, N, DIM, (enum vic_dtype)dtype);
                struct vic_build_options options = {
                    .size = sizeof options, .metric = (enum vic_metric)metric, .planes = VIC_PLANES_8 | VIC_PLANES_4};
                struct vic_index *index = NULL;
                must(vic_index_build(test_device, &matrix, &options, &index));
                must(vic_index_check(index, NULL));
                vic_index_free(index);
            }
    free(rows);
}

static void a_part_of_a_plane_is_refused(void **state) {
    (void)state;
    static const char *const names[] = {"plane8_scale", "plane8_error", "plane4_scale", "plane4_error", "plane_norms"};
    struct blob blob = planed_blob();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t entry = page_entry(&blob, names[i]);
        blob.bytes[entry] = 'x';
        page_seal(&blob);
        blob_refused(test_device, &blob, VIC_FORMAT, names[i]);
        blob.bytes[entry] = 'p';
    }
    blob_free(&blob);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_names_the_plane_that_is_not_its_rows),
        cmocka_unit_test(planes_that_promise_less_pass_their_check),
        cmocka_unit_test(planes_of_wild_rows_pass_their_check),
        cmocka_unit_test(a_part_of_a_plane_is_refused),
    };
    return cmocka_run_group_tests(tests, place_of_one_setup, place_teardown);
}
