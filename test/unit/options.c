/* Options structs of other versions: older and smaller, newer and larger, and what was never set. */
#include "base/options.h"
#include "support/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* The library's struct, and the same of a header before and after. */
struct ours {
    size_t size;
    int64_t first, second;
};
struct older {
    size_t size;
    int64_t first;
};
struct newer {
    size_t size;
    int64_t first, second, third;
};

static void no_options_are_all_defaults(void **state) {
    (void)state;
    struct ours ours = {1, 2, 3};
    must(options_take(&ours, sizeof ours, NULL, "ours"));
    assert_true(ours.size == sizeof ours && ours.first == 0 && ours.second == 0);
}

static void an_older_callers_missing_fields_are_defaults(void **state) {
    (void)state;
    struct ours ours = {1, 2, 3};
    struct older older = {sizeof older, 42};
    must(options_take(&ours, sizeof ours, &older, "ours"));
    assert_true(ours.size == sizeof ours && ours.first == 42 && ours.second == 0);
}

static void a_newer_callers_unset_fields_are_accepted(void **state) {
    (void)state;
    struct ours ours = {0};
    struct newer newer = {sizeof newer, 42, 43, 0};
    must(options_take(&ours, sizeof ours, &newer, "ours"));
    assert_true(ours.size == sizeof ours && ours.first == 42 && ours.second == 43);
}

static void a_newer_callers_set_field_is_refused_at_its_byte(void **state) {
    (void)state;
    for (size_t byte = sizeof(struct ours); byte < sizeof(struct newer); byte++) {
        struct ours ours = {0};
        struct newer newer = {sizeof newer, 42, 43, 0};
        char number[16];
        ((unsigned char *)&newer)[byte] = 1;
        assert_int_equal(options_take(&ours, sizeof ours, &newer, "ours"), VIC_UNSUPPORTED);
        (void)snprintf(number, sizeof number, "byte %zu", byte);
        assert_true(error_says(number) && error_says("ours") && error_says(vic_version()));
    }
}

static void a_size_that_was_never_set_is_refused_with_the_right_one(void **state) {
    (void)state;
    static const size_t wrong[] = {0, 1, sizeof(size_t) - 1, 65537, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ours ours = {0}, theirs = {wrong[i], 5, 6}, before = theirs;
        assert_int_equal(options_take(&ours, sizeof ours, &theirs, "the struct"), VIC_ARGUMENT);
        assert_true(error_says("the struct") && error_says("24"));
        assert_int_equal(options_give(&theirs, &ours, sizeof ours, "the struct"), VIC_ARGUMENT);
        assert_memory_equal(&theirs, &before, sizeof theirs);
    }
}

static void the_largest_size_that_is_believed_is_read_to_its_end(void **state) {
    (void)state;
    struct ours ours = {0};
    unsigned char *large = take(65536);
    size_t size = 65536;
    memset(large, 0, size);
    memcpy(large, &size, sizeof size);
    must(options_take(&ours, sizeof ours, large, "ours"));
    large[65535] = 1;
    assert_int_equal(options_take(&ours, sizeof ours, large, "ours"), VIC_UNSUPPORTED);
    assert_true(error_says("65535"));
    free(large);
}

static void results_fill_what_the_caller_has_and_zero_the_rest(void **state) {
    (void)state;
    struct ours ours = {sizeof ours, 1, 2};
    struct {
        struct older older;
        int64_t behind;
    } small = {{sizeof(struct older), -1}, 77};
    struct newer newer = {sizeof newer, -1, -1, -1};
    must(options_give(&small, &ours, sizeof ours, "ours"));
    assert_true(small.older.size == sizeof(struct older) && small.older.first == 1);
    assert_true(small.behind == 77);
    must(options_give(&newer, &ours, sizeof ours, "ours"));
    assert_true(newer.size == sizeof newer && newer.first == 1 && newer.second == 2 && newer.third == 0);
    assert_int_equal(options_give(NULL, &ours, sizeof ours, "the_name"), VIC_ARGUMENT);
    assert_true(error_says("the_name"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_options_are_all_defaults),
        cmocka_unit_test(an_older_callers_missing_fields_are_defaults),
        cmocka_unit_test(a_newer_callers_unset_fields_are_accepted),
        cmocka_unit_test(a_newer_callers_set_field_is_refused_at_its_byte),
        cmocka_unit_test(a_size_that_was_never_set_is_refused_with_the_right_one),
        cmocka_unit_test(the_largest_size_that_is_believed_is_read_to_its_end),
        cmocka_unit_test(results_fill_what_the_caller_has_and_zero_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
