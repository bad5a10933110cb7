/* IDS: ids that are the caller's. Public cases, distilled from bug reports of this field, as far as an index that is built
 * once can have them. */
#include "support/hits.h"
#include "support/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void IDS_01_leaving_a_row_out_shifts_no_id(void **state) {
    (void)state;
    static const float values[] = {0, 0, 1, 0, 2, 0, 3, 0, 4, 0}, query[] = {1, 0}, scores[] = {1, 1, 4, 9};
    static const int64_t gone[] = {1}, ids[] = {0, 2, 3, 4};
    struct vic_index *index = index_of_values(test_device, VIC_L2, values, 5, 2, NULL);
    struct vic_filter_options exclude = {.size = sizeof exclude, .exclude = 1};
    struct vic_filter *filter = NULL;
    must(vic_filter_create(index, gone, 1, &exclude, &filter));
    expect_hits_filtered(index, filter, query, 4, 4, ids, scores);
    expect_hits_filtered(index, filter, query, 5, 4, ids, scores);
    vic_filter_free(filter);
    vic_index_free(index);
}

static void IDS_04_equal_rows_are_both_hits_under_their_own_ids(void **state) {
    (void)state;
    static const float values[] = {1, 2, 3, 1, 2, 3}, query[] = {1, 2, 3};
    static const int64_t given[] = {9, 5}, both[] = {5, 9}, gone[] = {5}, left[] = {9};
    struct vic_index *index = index_of_values(test_device, VIC_L2, values, 2, 3, given);
    struct vic_filter_options exclude = {.size = sizeof exclude, .exclude = 1};
    struct vic_filter *filter = NULL;
    expect_hits(index, query, 2, 2, both, NULL);
    must(vic_filter_create(index, gone, 1, &exclude, &filter));
    expect_hits_filtered(index, filter, query, 2, 1, left, NULL);
    vic_filter_free(filter);
    vic_index_free(index);
}

/* ---- ids that cannot be */

static void check_refused(const int64_t *ids, int64_t n, const char *id) {
    float *values = values_random(9, n * 3);
    struct vic_matrix rows = matrix_of(values, n, 3, VIC_F32);
    struct vic_build_options options = {.size = sizeof options, .ids = ids};
    struct vic_device_info before = {.size = sizeof before}, after = before;
    struct vic_index *mark = (struct vic_index *)&mark, *index = mark;
    must(vic_device_info(test_device, &before));
    assert_int_equal(vic_index_build(test_device, &rows, &options, &index), VIC_ID);
    assert_true(error_says(id));
    assert_ptr_equal(index, mark);
    must(vic_device_info(test_device, &after));
    assert_true(after.host_used == before.host_used);
    free(values);
}

static void IDS_09_repeated_and_negative_ids_are_refused_by_name(void **state) {
    (void)state;
    static const int64_t twice[] = {4, 8, 4}, neighbours[] = {1, 2, 2}, negative[] = {0, -5, 2}, least[] = {INT64_MIN, 1, 2},
                         minus_one[] = {-1, 0, 1}, most[] = {INT64_MAX, 0, 1}, same[] = {7, 7, 7};
    check_refused(twice, 3, "found 4");
    check_refused(neighbours, 3, "found 2");
    check_refused(negative, 3, "-5");
    check_refused(least, 3, "-9223372036854775808");
    check_refused(minus_one, 3, "-1");             /* what an unused slot holds */
    check_refused(most, 3, "9223372036854775807"); /* no id could follow it */
    check_refused(same, 3, "found 7");
    /* the one pair among many, far apart, in any order */
    enum { N = 100000 };
    int64_t *ids = take(N * 8);
    struct random random = {9};
    for (int turn = 0; turn < 3; turn++) {
        for (int64_t i = 0; i < N; i++) ids[i] = turn == 1 ? N - i : i * 7919 % N;
        int64_t at = random_below(&random, N / 2), other = N / 2 + random_below(&random, N / 2);
        char id[32];
        ids[other] = ids[at];
        (void)snprintf(id, sizeof id, "found %lld", (long long)ids[at]);
        check_refused(ids, N, id);
    }
    free(ids);
}

static void IDS_09_automatic_ids_go_on_after_the_largest(void **state) {
    (void)state;
    static const float values[] = {1, 2, 3, 4, 5};
    static const int64_t given[] = {3, 100, 7, INT64_C(1) << 62, 0};
    struct vic_index_info info = {.size = sizeof info};
    struct vic_index *index = index_of_values(test_device, VIC_DOT, values, 5, 1, NULL);
    must(vic_index_info(index, &info));
    assert_true(info.next_id == 5);
    vic_index_free(index);
    index = index_of_values(test_device, VIC_DOT, values, 5, 1, given);
    must(vic_index_info(index, &info));
    assert_true(info.next_id == (INT64_C(1) << 62) + 1);
    vic_index_free(index);
}

/* ---- ids of 64 bits */

static const int64_t wide[] = {0, INT64_C(1) << 31, (INT64_C(1) << 32) + 1, INT64_C(1) << 62};

static void check_wide(const struct vic_index *index, const int64_t *by_score) {
    static const float query[] = {1, 0}, scores[] = {4, 3, 2, 1};
    int64_t ids[4], offsets[2];
    float found[4];
    struct vic_matrix queries = matrix_of(query, 1, 2, VIC_F32);
    struct vic_ranges ranges = {offsets, ids, found, 4};
    expect_hits(index, query, 4, 4, by_score, scores);
    must(vic_index_ids(index, 0, 4, ids));
    assert_memory_equal(ids, wide, sizeof wide);
    must(vic_index_within(index, &queries, 2, NULL, &ranges));
    assert_int_equal(offsets[1], 3);
    assert_memory_equal(ids, by_score, 24);
    must(vic_index_score(index, &queries, by_score, 4, NULL, found));
    assert_memory_equal(found, scores, sizeof scores);
    for (int i = 0; i < 4; i++) {
        float row[2];
        must(vic_index_vector(index, by_score[i], row));
        assert_true(row[0] == scores[i] && row[1] == 0);
        /* the id cut to 32 bits is another one, or none */
        int64_t cut = by_score[i] & 0xffffffff;
        if (cut != 0 && cut != by_score[i] && cut != wide[1])
            assert_int_equal(vic_index_vector(index, cut, row), VIC_NOT_FOUND);
    }
}

static void IDS_10_wide_ids_are_returned_exactly_also_after_save_and_open(void **state) {
    (void)state;
    static const float values[] = {1, 0, 2, 0, 3, 0, 4, 0};
    static const int64_t shuffled[] = {INT64_C(1) << 62, 0, (INT64_C(1) << 32) + 1, INT64_C(1) << 31};
    const int64_t rising[] = {wide[3], wide[2], wide[1], wide[0]},
                  mixed[] = {shuffled[3], shuffled[2], shuffled[1], shuffled[0]};
    const char *path = scratch_path("wide");
    for (int turn = 0; turn < 2; turn++) {
        struct vic_index *index = index_of_values(test_device, VIC_DOT, values, 4, 2, turn ? shuffled : wide), *opened = NULL;
        check_wide(index, turn ? mixed : rising);
        must(vic_index_save(index, path, NULL));
        vic_index_free(index);
        must(vic_index_open(test_device, path, NULL, &opened));
        check_wide(opened, turn ? mixed : rising);
        vic_index_free(opened);
    }
}

static void IDS_11_the_vector_comes_back_as_it_was_given(void **state) {
    (void)state;
    static const float values[] = {3, 4};
    static const int64_t ids[] = {17}, offsets[] = {0, 8};
    struct vic_texts texts = {"sku-0017", offsets, 1};
    struct vic_matrix rows = matrix_of(values, 1, 2, VIC_F32);
    struct vic_build_options options = {.size = sizeof options, .metric = VIC_COSINE, .ids = ids, .texts = &texts};
    struct vic_index *index = NULL;
    float vector[2];
    const char *text = NULL;
    size_t bytes = 0;
    must(vic_index_build(test_device, &rows, &options, &index));
    must(vic_index_vector(index, 17, vector));
    assert_true(vector[0] == 3 && vector[1] == 4);
    must(vic_index_text(index, 17, &text, &bytes));
    assert_true(bytes == 8 && memcmp(text, "sku-0017", 8) == 0);
    expect_hits(index, values, 1, 1, ids, (const float[]){1});
    vic_index_free(index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(IDS_01_leaving_a_row_out_shifts_no_id),
        cmocka_unit_test(IDS_04_equal_rows_are_both_hits_under_their_own_ids),
        cmocka_unit_test(IDS_09_repeated_and_negative_ids_are_refused_by_name),
        cmocka_unit_test(IDS_09_automatic_ids_go_on_after_the_largest),
        cmocka_unit_test(IDS_10_wide_ids_are_returned_exactly_also_after_save_and_open),
        cmocka_unit_test(IDS_11_the_vector_comes_back_as_it_was_given),
    };
    return cmocka_run_group_tests(tests, place_setup, place_teardown);
}
