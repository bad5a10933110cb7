/* Filters: the bits themselves, at every edge of a word, and whom they belong to. What a search makes of them is
 * property/questions.c's. */
#include "index/filter.h"
#include "support/counting.h"
#include "support/scene.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static struct vic_index *numbered_index(struct vic_device *device, int64_t n, const int64_t *ids) {
    unsigned char *rows = take((size_t)n);
    for (int64_t i = 0; i < n; i++) rows[i] = (unsigned char)i;
    struct data data = {rows, n, 1, VIC_U8, VIC_DOT, ids};
    struct vic_index *index = index_of(device, &data);
    free(rows);
    return index;
}

static bool passes(const struct vic_filter *filter, int64_t row) { return filter->bits[row / 64] >> (row % 64) & 1; }

static void bits_are_right_at_every_edge_of_a_word(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000};
    struct vic_device *device = device_of(1);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int64_t n = counts[c];
        struct vic_index *index = numbered_index(device, n, NULL);
        const int64_t listed[] = {0, n / 2, n - 1, n - 1, n, -1, INT64_MAX, INT64_MIN};
        int64_t distinct = n == 1 ? 1 : n == 2 ? 2 : 3;
        for (int exclude = 0; exclude <= 1; exclude++) {
            struct vic_filter_options options = {.size = sizeof options, .exclude = exclude};
            struct vic_filter *filter = NULL;
            must(vic_filter_create(index, listed, 8, &options, &filter));
            assert_int_equal(vic_filter_count(filter), exclude ? n - distinct : distinct);
            int64_t set = 0;
            for (int64_t row = 0; row < (n + 63) / 64 * 64; row++) {
                bool in = row < n && (row == 0 || row == n / 2 || row == n - 1) != (exclude == 1);
                assert_int_equal(passes(filter, row), in);
                set += in;
            }
            assert_int_equal(set, vic_filter_count(filter));
            vic_filter_free(filter);
        }
        vic_index_free(index);
    }
    vic_device_free(device);
}

static void no_ids_let_none_pass_or_exclude_none(void **state) {
    (void)state;
    struct vic_device *device = device_of(1);
    struct vic_index *index = numbered_index(device, 70, NULL), *empty = numbered_index(device, 0, NULL);
    struct vic_filter_options exclude = {.size = sizeof exclude, .exclude = -5};
    struct vic_filter *filter = NULL;
    must(vic_filter_create(index, NULL, 0, NULL, &filter));
    assert_int_equal(vic_filter_count(filter), 0);
    vic_filter_free(filter);
    must(vic_filter_create(index, NULL, 0, &exclude, &filter));
    assert_int_equal(vic_filter_count(filter), 70);
    vic_filter_free(filter);
    must(vic_filter_create(empty, NULL, 0, &exclude, &filter));
    assert_int_equal(vic_filter_count(filter), 0);
    vic_filter_free(filter);
    vic_filter_free(NULL);
    assert_int_equal(vic_filter_count(NULL), 0);
    vic_index_free(index);
    vic_index_free(empty);
    vic_device_free(device);
}

static void ids_are_the_callers_not_row_numbers_and_are_copied(void **state) {
    (void)state;
    static const int64_t ids[] = {INT64_C(1) << 62, 7, 0, INT64_C(1) << 31, (INT64_C(1) << 32) + 1};
    struct vic_device *device = device_of(1);
    struct vic_index *index = numbered_index(device, 5, ids);
    int64_t listed[] = {INT64_C(1) << 62, 1, (INT64_C(1) << 32) + 1, 1 << 30};
    struct vic_filter *filter = NULL;
    must(vic_filter_create(index, listed, 4, NULL, &filter));
    memset(listed, 0, sizeof listed);
    assert_int_equal(vic_filter_count(filter), 2);
    for (int64_t row = 0; row < 5; row++) assert_int_equal(passes(filter, row), row >= 3); /* rows ascend by id */
    vic_filter_free(filter);
    vic_index_free(index);
    vic_device_free(device);
}

static void another_indexs_filter_is_refused(void **state) {
    (void)state;
    static const float query[] = {1};
    struct vic_device *device = device_of(1);
    struct vic_index *one = numbered_index(device, 5, NULL), *other = numbered_index(device, 5, NULL);
    struct vic_filter *filter = NULL;
    must(vic_filter_create(one, NULL, 0, NULL, &filter));
    int64_t ids[2] = {11, 12}, offsets[2];
    float scores[2];
    struct vic_matrix queries = matrix_of(query, 1, 1, VIC_F32);
    struct vic_search_options options = {.size = sizeof options, .filter = filter};
    struct vic_hits hits = {.ids = ids};
    struct vic_ranges ranges = {.offsets = offsets};
    assert_int_equal(vic_index_search(other, &queries, 2, &options, &hits), VIC_ARGUMENT);
    assert_true(error_says("another index"));
    assert_int_equal(vic_index_within(other, &queries, 0, &options, &ranges), VIC_ARGUMENT);
    assert_int_equal(vic_index_score(other, &queries, ids, 2, &options, scores), VIC_ARGUMENT);
    assert_true(ids[0] == 11 && ids[1] == 12);
    vic_filter_free(filter);
    vic_index_free(one);
    vic_index_free(other);
    vic_device_free(device);
}

static void bad_arguments_leave_the_place_alone(void **state) {
    (void)state;
    static const int64_t ids[] = {1};
    struct vic_device *device = device_of(1);
    struct vic_index *index = numbered_index(device, 5, NULL);
    struct vic_filter *mark = (struct vic_filter *)&mark, *filter = mark;
    struct vic_filter_options unset = {0};
    assert_int_equal(vic_filter_create(NULL, ids, 1, NULL, &filter), VIC_ARGUMENT);
    assert_int_equal(vic_filter_create(index, NULL, 1, NULL, &filter), VIC_ARGUMENT);
    assert_int_equal(vic_filter_create(index, ids, -1, NULL, &filter), VIC_ARGUMENT);
    assert_true(error_says("-1"));
    assert_int_equal(vic_filter_create(index, ids, 1, &unset, &filter), VIC_ARGUMENT);
    assert_true(error_says("vic_filter_options"));
    assert_int_equal(vic_filter_create(index, ids, 1, NULL, NULL), VIC_ARGUMENT);
    assert_ptr_equal(filter, mark);
    vic_index_free(index);
    vic_device_free(device);
}

static void a_filter_counts_against_the_budget_and_gives_it_back(void **state) {
    (void)state;
    struct counting counting = {0};
    struct vic_device *device = device_within(0, 1, &counting);
    struct vic_index *index = numbered_index(device, 100000, NULL);
    struct vic_device_info before = {.size = sizeof before}, during = before, after = before;
    struct vic_filter *filter = NULL;
    must(vic_device_info(device, &before));
    must(vic_filter_create(index, NULL, 0, NULL, &filter));
    must(vic_device_info(device, &during));
    assert_in_range(during.host_used - before.host_used, 100000 / 8, 100000 / 8 + 1024);
    counting.fail_at = atomic_load(&counting.requests) + 1;
    struct vic_filter *refused = NULL;
    assert_int_equal(vic_filter_create(index, NULL, 0, NULL, &refused), VIC_NO_MEMORY);
    assert_null(refused);
    vic_filter_free(filter);
    must(vic_device_info(device, &after));
    assert_true(after.host_used == before.host_used);
    vic_index_free(index);
    vic_device_free(device);
    assert_int_equal(atomic_load(&counting.live_bytes), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_right_at_every_edge_of_a_word),
        cmocka_unit_test(no_ids_let_none_pass_or_exclude_none),
        cmocka_unit_test(ids_are_the_callers_not_row_numbers_and_are_copied),
        cmocka_unit_test(another_indexs_filter_is_refused),
        cmocka_unit_test(bad_arguments_leave_the_place_alone),
        cmocka_unit_test(a_filter_counts_against_the_budget_and_gives_it_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
