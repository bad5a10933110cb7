/* The public structs that begin with `size`, each through the calls that take or fill it: a caller compiled against an older
 * header has a smaller one, one compiled against a newer header a larger one, and both work as long as they ask for nothing
 * that this library does not know. A new struct is a row of a table. */
#include "support/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static struct vic_index *index_made;
static const float vectors[] = {1, 0, 0, 1};

static int setup(void **state) {
    struct vic_matrix rows = matrix_of(vectors, 2, 2, VIC_F32);
    (void)device_setup(state);
    must(vic_index_build(test_device, &rows, NULL, &index_made));
    return 0;
}

static int teardown(void **state) {
    vic_index_free(index_made);
    return device_teardown(state);
}

/* ---- structs that are taken: what the call says of options that are fine */

static enum vic_status take_device(const void *options) {
    struct vic_device *made = NULL;
    enum vic_status status = vic_device_open(options, &made);
    assert_int_equal(status == VIC_OK, made != NULL);
    vic_device_free(made);
    return status;
}
static enum vic_status take_build(const void *options) {
    struct vic_matrix rows = matrix_of(vectors, 2, 2, VIC_F32);
    struct vic_index *made = NULL;
    enum vic_status status = vic_index_build(test_device, &rows, options, &made);
    assert_int_equal(status == VIC_OK, made != NULL);
    vic_index_free(made);
    return status;
}
static enum vic_status take_plan(const void *options) {
    struct vic_plan plan = {.size = sizeof plan};
    return vic_index_plan(test_device, 2, 2, options, &plan);
}
static enum vic_status take_filter(const void *options) {
    struct vic_filter *made = NULL;
    enum vic_status status = vic_filter_create(index_made, NULL, 0, options, &made);
    assert_int_equal(status == VIC_OK, made != NULL);
    vic_filter_free(made);
    return status;
}
static enum vic_status take_search(const void *options) {
    int64_t ids[4];
    struct vic_matrix queries = matrix_of(vectors, 2, 2, VIC_F32);
    struct vic_hits hits = {.ids = ids};
    return vic_index_search(index_made, &queries, 2, options, &hits);
}
static enum vic_status take_within(const void *options) {
    int64_t ids[4], offsets[3];
    struct vic_matrix queries = matrix_of(vectors, 2, 2, VIC_F32);
    struct vic_ranges ranges = {offsets, ids, NULL, 4};
    return vic_index_within(index_made, &queries, 0.0f, options, &ranges);
}
static enum vic_status take_score(const void *options) {
    static const int64_t ids[] = {0, 1};
    float scores[2];
    struct vic_matrix queries = matrix_of(vectors, 2, 2, VIC_F32);
    return vic_index_score(index_made, &queries, ids, 1, options, scores);
}
static enum vic_status take_open(const void *options) {
    struct vic_index *made = NULL;
    return vic_index_open(test_device, "/no/such/index", options, &made);
}
static enum vic_status take_save(const void *options) { return vic_index_save(index_made, "/no/such/folder/index", options); }

static const struct taken {
    const char *name;
    size_t bytes;
    enum vic_status (*call)(const void *options);
    enum vic_status right;
} taken[] = {
    {"vic_device_options", sizeof(struct vic_device_options), take_device, VIC_OK},
    {"vic_build_options", sizeof(struct vic_build_options), take_build, VIC_OK},
    {"vic_build_options", sizeof(struct vic_build_options), take_plan, VIC_OK},
    {"vic_filter_options", sizeof(struct vic_filter_options), take_filter, VIC_OK},
    {"vic_search_options", sizeof(struct vic_search_options), take_search, VIC_OK},
    {"vic_search_options", sizeof(struct vic_search_options), take_within, VIC_OK},
    {"vic_search_options", sizeof(struct vic_search_options), take_score, VIC_OK},
    {"vic_open_options", sizeof(struct vic_open_options), take_open, VIC_NOT_FOUND},
    {"vic_save_options", sizeof(struct vic_save_options), take_save, VIC_NOT_FOUND},
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void expect(const struct taken *row, const void *options, enum vic_status right) {
    enum vic_status status = row->call(options);
    if (status != right)
        fail_msg("%s: expected %s, found %s: %s", row->name, vic_status_name(right), vic_status_name(status), vic_last_error());
}

static void options_of_any_older_or_newer_header_are_accepted(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(taken); i++) {
        expect(&taken[i], NULL, taken[i].right);
        for (size_t size = sizeof(size_t); size <= taken[i].bytes + 300; size++) {
            /* exactly as large as it says: a sanitizer sees a read behind it */
            char *options = take(size);
            memset(options, 0, size);
            memcpy(options, &size, sizeof size);
            expect(&taken[i], options, taken[i].right);
            free(options);
        }
    }
}

static void a_wish_that_is_not_known_is_refused_not_ignored(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(taken); i++)
        for (size_t byte = taken[i].bytes; byte < taken[i].bytes + 40; byte++) {
            size_t size = taken[i].bytes + 40;
            char *options = take(size);
            memset(options, 0, size);
            memcpy(options, &size, sizeof size);
            options[byte] = 1;
            expect(&taken[i], options, VIC_UNSUPPORTED);
            assert_non_null(strstr(vic_last_error(), taken[i].name));
            free(options);
        }
}

static void options_without_a_size_are_refused_by_name(void **state) {
    (void)state;
    static const size_t wrong[] = {0, 1, sizeof(size_t) - 1, 1 << 20, SIZE_MAX};
    for (size_t i = 0; i < COUNT(taken); i++)
        for (size_t j = 0; j < COUNT(wrong); j++) {
            char *options = take(taken[i].bytes);
            memset(options, 0, taken[i].bytes);
            memcpy(options, &wrong[j], sizeof(size_t));
            expect(&taken[i], options, VIC_ARGUMENT);
            assert_non_null(strstr(vic_last_error(), taken[i].name));
            free(options);
        }
}

/* ---- structs that are filled */

static enum vic_status fill_device_info(void *info) { return vic_device_info(test_device, info); }
static enum vic_status fill_device_list(void *info) {
    int64_t count = 0;
    return vic_device_list(info, 1, &count);
}
static enum vic_status fill_plan(void *plan) { return vic_index_plan(test_device, 1000, 10, NULL, plan); }
static enum vic_status fill_index_info(void *info) { return vic_index_info(index_made, info); }
static enum vic_status fill_stats(void *stats) {
    int64_t ids[2];
    struct vic_matrix queries = matrix_of(vectors, 2, 2, VIC_F32);
    struct vic_search_options options = {.size = sizeof options, .stats = stats};
    struct vic_hits hits = {.ids = ids};
    return vic_index_search(index_made, &queries, 1, &options, &hits);
}

static const struct filled {
    const char *name;
    size_t bytes;
    enum vic_status (*call)(void *result);
} filled[] = {
    {"vic_device_info", sizeof(struct vic_device_info), fill_device_info},
    {"vic_device_info", sizeof(struct vic_device_info), fill_device_list},
    {"vic_plan", sizeof(struct vic_plan), fill_plan},
    {"vic_index_info", sizeof(struct vic_index_info), fill_index_info},
    {"vic_search_stats", sizeof(struct vic_search_stats), fill_stats},
};

static void results_fill_any_size_to_its_end_and_no_further(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(filled); i++) {
        size_t large = filled[i].bytes + 40;
        char *whole = take(large);
        memset(whole, 0x5A, large);
        memcpy(whole, &large, sizeof large);
        must(filled[i].call(whole));
        assert_memory_equal(whole, &large, sizeof large);
        for (size_t byte = filled[i].bytes; byte < large; byte++) assert_int_equal(whole[byte], 0);
        for (size_t size = sizeof(size_t); size < filled[i].bytes; size++) {
            char *part = take(size + 1);
            memset(part, 0x5A, size + 1);
            memcpy(part, &size, sizeof size);
            must(filled[i].call(part));
            assert_memory_equal(part, &size, sizeof size);
            assert_memory_equal(part + sizeof size, whole + sizeof size, size - sizeof size);
            assert_int_equal(part[size], 0x5A);
            free(part);
        }
        free(whole);
    }
}

static void results_without_a_size_are_refused_untouched(void **state) {
    (void)state;
    static const size_t wrong[] = {0, 1, sizeof(size_t) - 1, 1 << 20, SIZE_MAX};
    for (size_t i = 0; i < COUNT(filled); i++)
        for (size_t j = 0; j < COUNT(wrong); j++) {
            char *result = take(filled[i].bytes), *before = take(filled[i].bytes);
            memset(result, 0x5A, filled[i].bytes);
            memcpy(result, &wrong[j], sizeof(size_t));
            memcpy(before, result, filled[i].bytes);
            assert_int_equal(filled[i].call(result), VIC_ARGUMENT);
            assert_non_null(strstr(vic_last_error(), filled[i].name));
            assert_memory_equal(result, before, filled[i].bytes);
            free(result);
            free(before);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_any_older_or_newer_header_are_accepted),
        cmocka_unit_test(a_wish_that_is_not_known_is_refused_not_ignored),
        cmocka_unit_test(options_without_a_size_are_refused_by_name),
        cmocka_unit_test(results_fill_any_size_to_its_end_and_no_further),
        cmocka_unit_test(results_without_a_size_are_refused_untouched),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
