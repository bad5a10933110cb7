/* What a caller may rely on, rule by rule, where no random draw is needed to see it: bad numbers are named where they
 * stand, conversions are exact or refused, unused slots and empty indexes look as promised, statistics add up. */
#include "support/scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static bool says_place(const char *what, int64_t row, int64_t column) {
    char words[64];
    (void)snprintf(words, sizeof words, "%s %lld, column %lld", what, (long long)row, (long long)column);
    return error_says(words);
}

static enum vic_status build_as(const void *rows, int64_t n, int64_t dim, enum vic_dtype from, enum vic_dtype to,
                                struct vic_index **index) {
    struct vic_matrix matrix = matrix_of(rows, n, dim, from);
    struct vic_build_options options = {.size = sizeof options, .dtype = to, .metric = VIC_DOT};
    return vic_index_build(test_device, &matrix, &options, index);
}

/* ---- NaN and infinity */

static const enum vic_dtype float_types[] = {VIC_F32, VIC_F16, VIC_BF16};

static void a_row_that_is_not_finite_is_named_wherever_it_stands(void **state) {
    (void)state;
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    static const int64_t places[][2] = {{0, 0}, {3, 1}, {255, 16}, {256, 36}, {511, 15}, {699, 36}};
    unsigned char *rows = take(700 * 37 * 4);
    for (size_t t = 0; t < 3; t++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++)
            for (size_t b = 0; b < 4; b++) {
                struct vic_index *mark = (struct vic_index *)&mark, *index = mark;
                struct random random = {p};
                random_fill(&random, VALUES_UNIT, float_types[t], 700 * 37, rows);
                /* the first in order of rows is named, not the first that was found */
                for (int64_t later = 699; later > places[p][0]; later -= 50)
                    element_set(float_types[t], rows, later * 37, INFINITY);
                element_set(float_types[t], rows, places[p][0] * 37 + places[p][1], bad[b]);
                assert_int_equal(build_as(rows, 700, 37, float_types[t], 0, &index), VIC_NOT_FINITE);
                assert_true(says_place("row", places[p][0], places[p][1]));
                assert_ptr_equal(index, mark);
            }
    free(rows);
}

static void a_query_that_is_not_finite_is_named_in_every_question(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    unsigned char *rows = take(10 * 37 * 4), *queries = take(200 * 37 * 4);
    int64_t *ids = take(200 * 3000 * 8), *offsets = take(201 * 8);
    float *scores = take(200 * 3000 * 4);
    memset(ids, 0, 200 * 3000 * 8);
    for (size_t t = 0; t < 3; t++)
        for (size_t b = 0; b < 3; b++) {
            struct random random = {t};
            struct vic_index *index = NULL;
            random_fill(&random, VALUES_UNIT, float_types[t], 10 * 37, rows);
            random_fill(&random, VALUES_UNIT, float_types[t], 200 * 37, queries);
            must(build_as(rows, 10, 37, float_types[t], 0, &index));
            element_set(float_types[t], queries, 150 * 37 + 2, bad[b]);
            struct vic_matrix matrix = matrix_of(queries, 200, 37, float_types[t]);
            struct vic_hits hits = {.ids = ids};
            struct vic_ranges ranges = {offsets, ids, scores, 2000};
            assert_int_equal(vic_index_search(index, &matrix, 3, NULL, &hits), VIC_NOT_FINITE);
            assert_true(says_place("query", 150, 2));
            assert_int_equal(vic_index_within(index, &matrix, 0, NULL, &ranges), VIC_NOT_FINITE);
            assert_true(says_place("query", 150, 2));
            memset(ids, 0, 200 * 3000 * 8);
            assert_int_equal(vic_index_score(index, &matrix, ids, 1, NULL, scores), VIC_NOT_FINITE);
            assert_true(says_place("query", 150, 2));
            assert_int_equal(vic_index_score(index, &matrix, ids, 3000, NULL, scores), VIC_NOT_FINITE);
            assert_true(says_place("query", 150, 2));
            struct vic_matrix good = matrix_of(queries, 150, 37, float_types[t]);
            must(vic_index_search(index, &good, 3, NULL, &hits));
            vic_index_free(index);
        }
    free(rows);
    free(queries);
    free(ids);
    free(offsets);
    free(scores);
}

/* ---- types */

static void a_narrower_type_takes_the_nearest_and_gives_it_back(void **state) {
    (void)state;
    struct random random = test_random(1);
    for (size_t t = 0; t < 3; t++)
        for (size_t to = 0; to < 3; to++) {
            float right[40 * 9], found[9];
            unsigned char given[40 * 9 * 4];
            struct vic_index *index = NULL;
            struct vic_index_info info = {.size = sizeof info};
            for (int64_t i = 0; i < 40 * 9; i++) {
                element_set(float_types[t], given, i, random_normal(&random) * 100.0f);
                element_set(float_types[to], found, 0, element_get(float_types[t], given, i));
                right[i] = element_get(float_types[to], found, 0);
            }
            must(build_as(given, 40, 9, float_types[t], float_types[to], &index));
            must(vic_index_info(index, &info));
            assert_int_equal(info.dtype, float_types[to]);
            for (int64_t row = 0; row < 40; row++) {
                must(vic_index_vector(index, row, found));
                for (int64_t i = 0; i < 9; i++) {
                    float value = element_get(float_types[to], found, i);
                    assert_memory_equal(&value, &right[row * 9 + i], 4);
                }
            }
            vic_index_free(index);
        }
}

static void what_a_type_cannot_hold_is_refused_where_it_stands(void **state) {
    (void)state;
    static const struct {
        float value;
        enum vic_dtype to;
        enum vic_status right;
    } rows[] = {{65519.0f, VIC_F16, VIC_OK},     {65520.0f, VIC_F16, VIC_TYPE},     {-1e30f, VIC_F16, VIC_TYPE},
                {0x1.fep127f, VIC_BF16, VIC_OK}, {0x1.ffp127f, VIC_BF16, VIC_TYPE}, {-0x1.fffffep127f, VIC_BF16, VIC_TYPE},
                {127.0f, VIC_I8, VIC_OK},        {128.0f, VIC_I8, VIC_TYPE},        {-128.0f, VIC_I8, VIC_OK},
                {-129.0f, VIC_I8, VIC_TYPE},     {0.5f, VIC_I8, VIC_TYPE},          {-0x1p-149f, VIC_I8, VIC_TYPE},
                {255.0f, VIC_U8, VIC_OK},        {256.0f, VIC_U8, VIC_TYPE},        {-1.0f, VIC_U8, VIC_TYPE},
                {-0.0f, VIC_U8, VIC_OK},         {254.99998f, VIC_U8, VIC_TYPE},    {1e30f, VIC_U8, VIC_TYPE},
                {0x1p-149f, VIC_F16, VIC_OK},    {NAN, VIC_U8, VIC_NOT_FINITE},     {INFINITY, VIC_F16, VIC_NOT_FINITE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float vectors[6 * 11] = {0};
        struct vic_index *index = NULL;
        vectors[4 * 11 + 7] = rows[i].value;
        enum vic_status status = build_as(vectors, 6, 11, VIC_F32, rows[i].to, &index);
        if (status != rows[i].right) fail_msg("%g: %s: %s", (double)rows[i].value, vic_status_name(status), vic_last_error());
        assert_int_equal(status == VIC_OK, index != NULL);
        if (status != VIC_OK) assert_true(says_place("row", 4, 7));
        vic_index_free(index);
    }
}

static void integers_become_any_type_that_holds_them(void **state) {
    (void)state;
    static const unsigned char wide[] = {0, 1, 127, 128, 255};
    static const signed char narrow[] = {0, 1, 127, -128, -1};
    struct vic_index *index = NULL;
    for (size_t t = 0; t < 3; t++) {
        unsigned char found[5 * 4];
        must(build_as(wide, 1, 5, VIC_U8, float_types[t], &index));
        must(vic_index_vector(index, 0, found));
        for (int64_t i = 0; i < 5; i++) assert_true(element_get(float_types[t], found, i) == (float)wide[i]);
        vic_index_free(index);
        must(build_as(narrow, 1, 5, VIC_I8, float_types[t], &index));
        must(vic_index_vector(index, 0, found));
        for (int64_t i = 0; i < 5; i++) assert_true(element_get(float_types[t], found, i) == (float)narrow[i]);
        vic_index_free(index);
    }
    assert_int_equal(build_as(wide, 1, 5, VIC_U8, VIC_I8, &index), VIC_TYPE);
    assert_true(says_place("row", 0, 3));
    assert_int_equal(build_as(narrow, 1, 5, VIC_I8, VIC_U8, &index), VIC_TYPE);
    assert_true(says_place("row", 0, 3));
    must(build_as(wide, 1, 3, VIC_U8, VIC_I8, &index));
    vic_index_free(index);
}

/* ---- slots, rows, queries */

static void all_defaults_mean_cosine_float32_and_row_numbers(void **state) {
    (void)state;
    static const float vectors[] = {3, 4, 0, 5};
    struct vic_matrix rows = {.data = (void *)(uintptr_t)vectors, .rows = 2, .dim = 2}; /* type and place left open */
    struct vic_index *index = NULL;
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_build(test_device, &rows, NULL, &index));
    must(vic_index_info(index, &info));
    assert_int_equal(info.metric, VIC_COSINE);
    assert_int_equal(info.dtype, VIC_F32);
    assert_true(info.rows == 2 && info.dim == 2 && info.next_id == 2 && !info.has_ids && !info.has_texts);
    assert_string_equal(info.metadata, "{}");
    assert_string_equal(info.kind, "flat");
    int64_t ids[2];
    float scores[2];
    struct vic_hits hits = {.ids = ids, .scores = scores};
    struct vic_matrix query = {.data = rows.data, .rows = 1, .dim = 2};
    must(vic_index_search(index, &query, 2, NULL, &hits));
    assert_true(ids[0] == 0 && ids[1] == 1 && scores[0] == 1.0f && scores[1] == 0.8f);
    vic_index_free(index);
}

static void scores_and_counts_may_be_left_out(void **state) {
    (void)state;
    struct random random = test_random(2);
    struct shape shape = {.n = 500, .nq = 9, .dim = 6, .dtype = VIC_F32, .query_dtype = VIC_F32, .metric = VIC_L2};
    struct scene scene;
    scene_make(&random, &shape, &scene);
    struct vic_index *index = index_of(test_device, &scene.data);
    for (int p = 0; p < PATHS; p++)
        for (int given = 0; given < 4; given++) {
            int64_t ids[9 * 20];
            float scores[9 * 20];
            int32_t counts[9];
            struct vic_search_options options = {.size = sizeof options, .path = paths[p]};
            struct vic_hits hits = {ids, given & 1 ? scores : NULL, given & 2 ? counts : NULL, 0};
            must(vic_index_search(index, &scene.order.queries, 20, &options, &hits));
            for (int64_t j = 0; j < 9; j++) {
                assert_memory_equal(ids + j * 20, scene.order.ids + j * 500, 20 * 8);
                if (given & 1) assert_memory_equal(scores + j * 20, scene.order.scores + j * 500, 20 * 4);
                if (given & 2) assert_int_equal(counts[j], 20);
            }
        }
    int64_t offsets[10], *ids = take(9 * 500 * 8);
    struct vic_ranges ranges = {offsets, ids, NULL, 9 * 500};
    must(vic_index_within(index, &scene.order.queries, scene.order.scores[100], NULL, &ranges));
    assert_memory_equal(ids, scene.order.ids, 101 * 8);
    free(ids);
    vic_index_free(index);
    scene_free(&scene);
}

static void the_callers_rows_and_ids_may_go_after_the_build(void **state) {
    (void)state;
    struct random random = test_random(3);
    struct shape shape = {
        .n = 90, .nq = 3, .dim = 5, .dtype = VIC_F16, .query_dtype = VIC_F32, .metric = VIC_COSINE, .ids = IDS_SHUFFLED};
    struct scene scene;
    static const int64_t offsets[91] = {0};
    struct vic_texts texts = {"", offsets, 90};
    char metadata[] = "{\"a\":1}";
    scene_make(&random, &shape, &scene);
    size_t row_bytes = 90 * 5 * 2;
    void *rows = take(row_bytes);
    int64_t *ids = take(90 * 8);
    memcpy(rows, scene.data.rows, row_bytes);
    memcpy(ids, scene.ids, 90 * 8);
    struct vic_matrix matrix = matrix_of(rows, 90, 5, VIC_F16);
    struct vic_build_options options = {.size = sizeof options, .ids = ids, .texts = &texts, .metadata = metadata};
    struct vic_index *index = NULL;
    must(vic_index_build(test_device, &matrix, &options, &index));
    memset(rows, 0xFF, row_bytes);
    memset(ids, 0xFF, 90 * 8);
    memset(metadata, 'x', sizeof metadata - 1);
    free(rows);
    free(ids);
    order_check_search(&scene.order, index, &scene.order.queries, 0, 90, NULL);
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    assert_string_equal(info.metadata, "{\"a\":1}");
    vic_index_free(index);
    scene_free(&scene);
}

static void asking_nothing_writes_nothing(void **state) {
    (void)state;
    static const float vectors[] = {1, 2, 3, 4};
    struct vic_index *index = NULL;
    must(build_as(vectors, 2, 2, VIC_F32, 0, &index));
    struct vic_matrix none = matrix_of(NULL, 0, 2, VIC_F32), other = matrix_of(NULL, 0, 3, VIC_F32);
    int64_t ids[1] = {77}, offsets[1] = {78};
    float scores[1] = {79};
    struct vic_hits nowhere = {0}, hits = {.ids = ids, .scores = scores};
    struct vic_ranges ranges = {offsets, ids, scores, 1}, empty = {offsets, NULL, NULL, 0};
    must(vic_index_search(index, &none, 5, NULL, &nowhere));
    must(vic_index_search(index, &none, 5, NULL, &hits));
    must(vic_index_within(index, &none, 0, NULL, &ranges));
    must(vic_index_within(index, &none, 0, NULL, &empty));
    must(vic_index_score(index, &none, ids, 1, NULL, scores));
    assert_true(ids[0] == 77 && scores[0] == 79.0f && offsets[0] == 0);
    assert_int_equal(vic_index_search(index, &other, 5, NULL, &hits), VIC_DIMENSION);
    vic_index_free(index);
}

static void too_little_room_for_a_threshold_says_how_much_is_needed(void **state) {
    (void)state;
    struct random random = test_random(4);
    struct shape shape = {.n = 50, .nq = 4, .dim = 3, .dtype = VIC_F32, .query_dtype = VIC_F32, .metric = VIC_DOT};
    struct scene scene;
    scene_make(&random, &shape, &scene);
    struct vic_index *index = index_of(test_device, &scene.data);
    int64_t offsets[5], wanted[5], ids[200];
    float scores[200], threshold = scene.order.scores[20];
    struct vic_ranges ranges = {wanted, ids, scores, 200};
    must(vic_index_within(index, &scene.order.queries, threshold, NULL, &ranges));
    assert_true(wanted[4] > 0);
    for (int64_t capacity = 0; capacity < wanted[4]; capacity++) {
        char needed[32], had[32];
        memset(offsets, 0xAA, sizeof offsets);
        ids[capacity] = -77;
        scores[capacity] = -77;
        struct vic_ranges small = {offsets, capacity ? ids : NULL, capacity ? scores : NULL, capacity};
        assert_int_equal(vic_index_within(index, &scene.order.queries, threshold, NULL, &small), VIC_CAPACITY);
        assert_memory_equal(offsets, wanted, sizeof offsets);
        assert_true(ids[capacity] == -77 && scores[capacity] == -77.0f);
        (void)snprintf(needed, sizeof needed, "%lld hits", (long long)wanted[4]);
        (void)snprintf(had, sizeof had, "capacity %lld", (long long)capacity);
        assert_true(error_says(needed) && error_says(had));
    }
    ranges = (struct vic_ranges){offsets, ids, scores, wanted[4]};
    must(vic_index_within(index, &scene.order.queries, threshold, NULL, &ranges));
    vic_index_free(index);
    scene_free(&scene);
}

/* ---- the sentence, the statistics */

static void a_success_leaves_the_last_sentence_alone(void **state) {
    (void)state;
    static const float vectors[] = {1, 2, NAN, 4};
    struct vic_index *index = NULL;
    int64_t ids[2];
    char kept[600];
    struct vic_matrix queries = matrix_of(vectors, 1, 2, VIC_F32);
    struct vic_hits hits = {.ids = ids};
    assert_int_equal(build_as(vectors, 2, 2, VIC_F32, 0, &index), VIC_NOT_FINITE);
    (void)snprintf(kept, sizeof kept, "%s", vic_last_error());
    must(build_as(vectors, 1, 2, VIC_F32, 0, &index));
    must(vic_index_search(index, &queries, 1, NULL, &hits));
    assert_string_equal(vic_last_error(), kept);
    vic_index_free(index);
}

static void statistics_say_what_was_done(void **state) {
    (void)state;
    struct random random = test_random(5);
    struct shape shape = {.n = 3000, .nq = 7, .dim = 10, .dtype = VIC_F16, .query_dtype = VIC_F32, .metric = VIC_DOT};
    struct scene scene;
    scene_make(&random, &shape, &scene);
    struct vic_index *index = index_of(test_device, &scene.data);
    for (enum vic_path path = 0; path <= VIC_PATH_SELECT; path++) {
        struct vic_search_stats stats;
        memset(&stats, 0x77, sizeof stats);
        stats.size = sizeof stats;
        struct vic_search_options options = {.size = sizeof options, .path = path, .stats = &stats};
        order_check_search(&scene.order, index, &scene.order.queries, 0, 10, &options);
        assert_true(path == 0 ? stats.path >= VIC_PATH_SCAN : stats.path == path);
        assert_true(stats.queries == 7 && stats.rows_scored == 7 * 3000 && stats.rows_rescored == 0);
        assert_in_range(stats.threads, 1, 2);
        assert_true(stats.bytes_read >= 3000 * 20 && stats.bytes_read <= 7 * 3000 * 20);
        order_check_within(&scene.order, index, 0.5f, &options);
        assert_true(stats.queries == 7 && stats.rows_scored == 7 * 3000 && stats.rows_rescored == 0);
        int64_t ids[7 * 5] = {0};
        float scores[7 * 5];
        must(vic_index_score(index, &scene.order.queries, ids, 5, &options, scores));
        assert_true(stats.queries == 7 && stats.rows_scored == 7 * 5);
    }
    vic_index_free(index);
    scene_free(&scene);
}

/* A scan keeps buffers for the best rows; a k beyond them is answered all the same, and told. */
static void a_path_that_cannot_be_taken_gives_way_and_says_so(void **state) {
    (void)state;
    struct data data = {.n = 200000, .dim = 1, .dtype = VIC_U8, .metric = VIC_DOT, .rows = take(200000)};
    struct random random = {6};
    random_fill(&random, VALUES_UNIT, VIC_U8, data.n, data.rows);
    struct vic_index *index = index_of(test_device, &data);
    const uint8_t query = 1;
    struct vic_matrix matrix = matrix_of(&query, 1, 1, VIC_U8);
    int64_t *right = take((size_t)data.n * 8), *ids = take((size_t)data.n * 8);
    struct vic_search_stats stats = {.size = sizeof stats};
    struct vic_search_options options = {.size = sizeof options, .path = VIC_PATH_SCAN, .stats = &stats};
    struct vic_hits right_hits = {.ids = right}, hits = {.ids = ids};
    must(vic_index_search(index, &matrix, 10, &options, &hits));
    assert_true(stats.path == VIC_PATH_SCAN && stats.fallback == VIC_FALLBACK_NONE);
    must(vic_index_search(index, &matrix, data.n, NULL, &right_hits));
    must(vic_index_search(index, &matrix, data.n, &options, &hits));
    assert_true(stats.path == VIC_PATH_SELECT && stats.fallback == VIC_FALLBACK_K);
    assert_memory_equal(ids, right, (size_t)data.n * 8);
    vic_index_free(index);
    free(right);
    free(ids);
    free(data.rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_that_is_not_finite_is_named_wherever_it_stands),
        cmocka_unit_test(a_query_that_is_not_finite_is_named_in_every_question),
        cmocka_unit_test(a_narrower_type_takes_the_nearest_and_gives_it_back),
        cmocka_unit_test(what_a_type_cannot_hold_is_refused_where_it_stands),
        cmocka_unit_test(integers_become_any_type_that_holds_them),
        cmocka_unit_test(all_defaults_mean_cosine_float32_and_row_numbers),
        cmocka_unit_test(scores_and_counts_may_be_left_out),
        cmocka_unit_test(the_callers_rows_and_ids_may_go_after_the_build),
        cmocka_unit_test(asking_nothing_writes_nothing),
        cmocka_unit_test(too_little_room_for_a_threshold_says_how_much_is_needed),
        cmocka_unit_test(a_success_leaves_the_last_sentence_alone),
        cmocka_unit_test(statistics_say_what_was_done),
        cmocka_unit_test(a_path_that_cannot_be_taken_gives_way_and_says_so),
    };
    return cmocka_run_group_tests(tests, device_setup, device_teardown);
}
