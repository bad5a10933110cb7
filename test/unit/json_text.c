/* src/base/json_text: wrong text is told from memory that ran out, and says where it is wrong. */
#include "base/json_text.h"
#include "support/failing.h"

#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static enum vic_status parse(const char *text, json_t **object) {
    return json_text_parse(text, strlen(text), "the thing", VIC_FORMAT, object);
}

static void an_object_is_parsed(void **state) {
    (void)state;
    json_t *object = NULL;
    assert_int_equal(parse("{\"a\": 7}", &object), VIC_OK);
    assert_int_equal(json_integer_value(json_object_get(object, "a")), 7);
    json_decref(object);
}

static void bytes_behind_the_end_are_not_looked_at(void **state) {
    (void)state;
    json_t *object = NULL;
    assert_int_equal(json_text_parse("{}garbage", 2, "the thing", VIC_FORMAT, &object), VIC_OK);
    json_decref(object);
}

static void what_is_no_object_is_refused_with_a_reason(void **state) {
    (void)state;
    static const struct {
        const char *text, *reason;
    } cases[] = {{"", "line 1"},
                 {"[1]", "another JSON value"},
                 {"{\"a\": 1, \"a\": 2}", "duplicate"},
                 {"{\n\"a\" 1}", "line 2"},
                 {"{\"a\": 1} x", "line 1"},
                 {"7", "found"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *object = NULL;
        assert_int_equal(parse(cases[i].text, &object), VIC_FORMAT);
        assert_null(object);
        assert_ptr_equal(strstr(vic_last_error(), "the thing: expected a JSON object, found"), vic_last_error());
        assert_non_null(strstr(vic_last_error(), cases[i].reason));
    }
}

static void the_status_of_a_wrong_text_is_the_callers(void **state) {
    (void)state;
    json_t *object = NULL;
    assert_int_equal(json_text_parse("{", 1, "metadata", VIC_ARGUMENT, &object), VIC_ARGUMENT);
}

static void no_memory_is_never_called_wrong_text(void **state) {
    (void)state;
    if (!failing_available()) skip();
    for (int64_t n = 1;; n++) {
        json_t *object = NULL;
        failing_start(n);
        enum vic_status status = parse("{\"key\": \"value\", \"list\": [1, 2.5, \"x\", {\"inner\": null}]}", &object);
        json_decref(object);
        struct failing_counts counts = failing_stop();
        assert_int_equal(counts.kept, 0);
        if (counts.refused == 0) {
            assert_int_equal(status, VIC_OK);
            assert_true(n > 10);
            return;
        }
        assert_int_equal(status, VIC_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_is_parsed),
        cmocka_unit_test(bytes_behind_the_end_are_not_looked_at),
        cmocka_unit_test(what_is_no_object_is_refused_with_a_reason),
        cmocka_unit_test(the_status_of_a_wrong_text_is_the_callers),
        cmocka_unit_test(no_memory_is_never_called_wrong_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
