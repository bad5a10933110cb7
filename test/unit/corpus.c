/* What belongs to rows: their order by id, texts that follow it, metadata, limits of shape. */
#include "data/corpus.h"
#include "support/counting.h"
#include "support/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* ---- shapes */

static void shapes_within_the_limits_pass(void **state) {
    (void)state;
    static const int64_t rows[] = {0, 1, ROWS_MAX}, dims[] = {1, 2, DIM_MAX};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) must(corpus_check_shape(rows[i], dims[j], VIC_U8, VIC_L2));
}

static void shapes_beyond_them_are_told_limit_and_number(void **state) {
    (void)state;
    static const struct {
        int64_t n, dim;
        enum vic_status status;
        const char *limit, *found;
    } rows[] = {{-1, 8, VIC_ARGUMENT, "4294967294", "-1"},
                {ROWS_MAX + 1, 8, VIC_ARGUMENT, "4294967294", "4294967295"},
                {INT64_MAX, 8, VIC_ARGUMENT, "4294967294", "9223372036854775807"},
                {INT64_MIN, 8, VIC_ARGUMENT, "4294967294", "-9223372036854775808"},
                {8, 0, VIC_DIMENSION, "65536", "found 0"},
                {8, -1, VIC_DIMENSION, "65536", "-1"},
                {8, 65537, VIC_DIMENSION, "65536", "65537"},
                {8, INT64_MAX, VIC_DIMENSION, "65536", "9223372036854775807"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(corpus_check_shape(rows[i].n, rows[i].dim, VIC_F32, VIC_DOT), rows[i].status);
        assert_true(error_says(rows[i].limit) && error_says(rows[i].found));
    }
    static const int wrong[] = {0, -1, 6, INT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(corpus_check_shape(1, 1, (enum vic_dtype)wrong[i], VIC_DOT), VIC_ARGUMENT);
    assert_int_equal(corpus_check_shape(1, 1, VIC_F32, (enum vic_metric)4), VIC_ARGUMENT);
    assert_int_equal(corpus_check_shape(1, 1, VIC_F32, (enum vic_metric)0), VIC_ARGUMENT);
}

/* ---- ids */

static void ids_in_order_need_no_places(void **state) {
    (void)state;
    static const int64_t ids[] = {0, 5, 6, INT64_C(1) << 62, INT64_MAX};
    uint32_t *places = (uint32_t *)&ids;
    must(corpus_places(&mem_default, ids, 5, &places));
    assert_null(places);
    must(corpus_places(&mem_default, ids, 0, &places));
    must(corpus_places(&mem_default, ids, 1, &places));
    assert_null(places);
}

static void ids_out_of_order_are_placed_so_that_they_ascend(void **state) {
    (void)state;
    struct random random = test_random(1);
    for (int64_t n = 2; n < 400; n += 7) {
        int64_t *ids = take((size_t)n * 8), *sorted = take((size_t)n * 8);
        uint32_t *places = NULL;
        for (int64_t i = 0; i < n; i++) ids[i] = (int64_t)(random_next(&random) >> 2);
        ids[0] = INT64_MAX - 1; /* never in order */
        must(corpus_places(&mem_default, ids, n, &places));
        assert_non_null(places);
        memset(sorted, 0xFF, (size_t)n * 8);
        for (int64_t i = 0; i < n; i++) {
            assert_true(places[i] < n);
            assert_true(sorted[places[i]] == -1);
            sorted[places[i]] = ids[i];
        }
        for (int64_t i = 1; i < n; i++) assert_true(sorted[i - 1] < sorted[i]);
        mem_free(&mem_default, places, (uint64_t)n * 4);
        free(ids);
        free(sorted);
    }
}

static void a_repeated_or_negative_id_is_named_with_its_rows(void **state) {
    (void)state;
    static const int64_t negative[] = {3, 4, -5, 7}, twice[] = {90, 7, 33, 7}, together[] = {1, 2, 2, 3};
    uint32_t *places = NULL;
    assert_int_equal(corpus_places(&mem_default, negative, 4, &places), VIC_ID);
    assert_true(error_says("-5") && error_says("row 2"));
    assert_int_equal(corpus_places(&mem_default, twice, 4, &places), VIC_ID);
    assert_true(error_says("found 7") && error_says("row 1") && error_says("row 3"));
    assert_int_equal(corpus_places(&mem_default, together, 4, &places), VIC_ID);
    assert_true(error_says("found 2") && error_says("row 1") && error_says("row 2"));
    assert_null(places);
}

static void an_id_is_found_where_it_is_and_nowhere_else(void **state) {
    (void)state;
    int64_t ids[64];
    struct corpus corpus = {.rows = {.n = 64, .ids = ids}}, numbers = {.rows = {.n = 64}}, empty = {.rows = {.ids = ids}};
    for (int64_t i = 0; i < 64; i++) ids[i] = i * i * INT64_C(1000000007);
    for (int64_t i = 0; i < 64; i++) {
        assert_true(corpus_find(&corpus, ids[i]) == i);
        assert_true(corpus_find(&corpus, ids[i] + 1) == -1);
        assert_true(corpus_find(&corpus, ids[i] - 1) == -1);
        assert_true(corpus_find(&numbers, i) == i);
        assert_true(corpus_find(&empty, ids[i]) == -1);
    }
    static const int64_t strange[] = {-1, INT64_MIN, INT64_MAX};
    for (int i = 0; i < 3; i++) assert_true(corpus_find(&corpus, strange[i]) == -1 && corpus_find(&numbers, strange[i]) == -1);
    assert_true(corpus_find(&numbers, 64) == -1);
}

/* ---- texts */

static void expect_text(const struct corpus *corpus, int64_t row, const char *right, size_t length) {
    const char *text = NULL;
    size_t bytes = 0;
    must(corpus_text(corpus, row, &text, &bytes));
    assert_int_equal(bytes, length);
    if (length) assert_memory_equal(text, right, length);
}

static void texts_go_where_their_rows_go(void **state) {
    (void)state;
    static const char bytes[] = "one\0two\xff"
                                "four";
    static const int64_t offsets[] = {0, 4, 4, 8, 12}; /* "one\0", "", "two\xff", "four" */
    static const uint32_t places[] = {2, 3, 0, 1};
    struct vic_texts texts = {bytes, offsets, 4};
    struct corpus corpus;
    must(corpus_alloc(&mem_default, 4, 1, VIC_U8, VIC_DOT, false, &corpus));
    must(corpus_set_texts(&corpus, &texts, places));
    expect_text(&corpus, 0, "two\xff", 4);
    expect_text(&corpus, 1, "four", 4);
    expect_text(&corpus, 2, "one", 4);
    expect_text(&corpus, 3, "", 0);
    corpus_free(&corpus);
    must(corpus_alloc(&mem_default, 4, 1, VIC_U8, VIC_DOT, false, &corpus));
    must(corpus_set_texts(&corpus, &texts, NULL));
    expect_text(&corpus, 0, "one", 4);
    expect_text(&corpus, 3, "four", 4);
    corpus_free(&corpus);
}

static void texts_that_contradict_themselves_are_refused(void **state) {
    (void)state;
    static const int64_t right[] = {0, 1, 2}, late[] = {1, 1, 2}, falling[] = {0, 2, 1}, below[] = {0, -1, 2};
    static const struct {
        struct vic_texts texts;
        enum vic_status status;
    } rows[] = {{{"ab", right, 3}, VIC_DIMENSION},  {{"ab", right, 1}, VIC_DIMENSION}, {{"ab", right, -1}, VIC_DIMENSION},
                {{NULL, right, 2}, VIC_ARGUMENT},   {{"ab", NULL, 2}, VIC_ARGUMENT},   {{"ab", late, 2}, VIC_ARGUMENT},
                {{"ab", falling, 2}, VIC_ARGUMENT}, {{"ab", below, 2}, VIC_ARGUMENT}};
    struct counting counting = {0};
    struct mem mem = {.hooks = counting_allocator(&counting), .budget = UINT64_MAX, .budget_name = "host_bytes"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct corpus corpus;
        must(corpus_alloc(&mem, 2, 1, VIC_U8, VIC_DOT, false, &corpus));
        assert_int_equal(corpus_set_texts(&corpus, &rows[i].texts, NULL), rows[i].status);
        assert_null(corpus.texts.offsets);
        corpus_free(&corpus);
        assert_int_equal(atomic_load(&counting.live_bytes), 0);
    }
    struct corpus corpus;
    static const int64_t nothing[] = {0, 0, 0};
    struct vic_texts empty = {NULL, nothing, 2};
    must(corpus_alloc(&mem, 2, 1, VIC_U8, VIC_DOT, false, &corpus));
    must(corpus_set_texts(&corpus, &empty, NULL));
    expect_text(&corpus, 1, "", 0);
    corpus_free(&corpus);
}

/* Offsets of a mapped file can say anything, at any time. */
static void offsets_that_leave_the_texts_are_a_bad_file(void **state) {
    (void)state;
    static const int64_t wrong[][2] = {{-1, 3}, {2, 1}, {0, 11}, {9, INT64_MAX}, {INT64_MIN, INT64_MIN}, {11, 11}};
    int64_t offsets[2];
    struct corpus corpus = {.rows = {.n = 1}, .texts = {"0123456789", offsets, 1}, .texts_bytes = 10};
    const char *text = NULL;
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        offsets[0] = wrong[i][0], offsets[1] = wrong[i][1];
        assert_int_equal(corpus_text(&corpus, 0, &text, &bytes), VIC_FORMAT);
        assert_true(error_says("row 0"));
    }
    assert_null(text);
    corpus.texts.offsets = NULL;
    assert_int_equal(corpus_text(&corpus, 0, &text, &bytes), VIC_NOT_FOUND);
}

/* ---- metadata */

static void metadata_is_a_json_object_kept_to_the_byte(void **state) {
    (void)state;
    static const char *const right[] = {"{}", " { \"a\" : [1, 2.50, null] } ", "{\"text\":\"\xc3\xa9\"}"};
    static const char *const wrong[] = {"",       "[]", "1", "\"{}\"", "{", "{}{}", "null", "{\"a\":1,\"a\":2}", "{\"a\":\xff}",
                                        "{'a':1}"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        struct corpus corpus;
        must(corpus_alloc(&mem_default, 0, 1, VIC_U8, VIC_DOT, false, &corpus));
        must(corpus_set_metadata(&corpus, right[i]));
        assert_string_equal(corpus.metadata, right[i]);
        corpus_free(&corpus);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct corpus corpus;
        must(corpus_alloc(&mem_default, 0, 1, VIC_U8, VIC_DOT, false, &corpus));
        assert_int_equal(corpus_set_metadata(&corpus, wrong[i]), VIC_ARGUMENT);
        assert_true(error_says("JSON object"));
        assert_null(corpus.metadata);
        corpus_free(&corpus);
    }
    struct corpus corpus;
    must(corpus_alloc(&mem_default, 0, 1, VIC_U8, VIC_DOT, false, &corpus));
    must(corpus_set_metadata(&corpus, NULL));
    assert_string_equal(corpus.metadata, "{}");
    corpus_free(&corpus);
}

static void all_memory_comes_back_also_after_each_failure(void **state) {
    (void)state;
    static const int64_t offsets[] = {0, 1, 2, 3};
    struct vic_texts texts = {"abc", offsets, 3};
    for (int64_t fail_at = 1;; fail_at++) {
        struct counting counting = {.fail_at = fail_at};
        struct mem mem = {.hooks = counting_allocator(&counting), .budget = UINT64_MAX, .budget_name = "host_bytes"};
        struct corpus corpus;
        enum vic_status status = corpus_alloc(&mem, 3, 5, VIC_F16, VIC_COSINE, true, &corpus);
        if (status == VIC_OK) status = corpus_set_texts(&corpus, &texts, NULL);
        if (status == VIC_OK) status = corpus_set_metadata(&corpus, "{\"a\":1}");
        corpus_free(&corpus);
        assert_int_equal(atomic_load(&counting.live_blocks), 0);
        assert_int_equal(atomic_load(&counting.live_bytes), 0);
        assert_true(mem.used == 0);
        if (status == VIC_OK) break;
        assert_int_equal(status, VIC_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_within_the_limits_pass),
        cmocka_unit_test(shapes_beyond_them_are_told_limit_and_number),
        cmocka_unit_test(ids_in_order_need_no_places),
        cmocka_unit_test(ids_out_of_order_are_placed_so_that_they_ascend),
        cmocka_unit_test(a_repeated_or_negative_id_is_named_with_its_rows),
        cmocka_unit_test(an_id_is_found_where_it_is_and_nowhere_else),
        cmocka_unit_test(texts_go_where_their_rows_go),
        cmocka_unit_test(texts_that_contradict_themselves_are_refused),
        cmocka_unit_test(offsets_that_leave_the_texts_are_a_bad_file),
        cmocka_unit_test(metadata_is_a_json_object_kept_to_the_byte),
        cmocka_unit_test(all_memory_comes_back_also_after_each_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
