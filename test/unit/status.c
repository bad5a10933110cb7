/* Statuses and sentences: each name and meaning, whose thread a sentence belongs to, and what a failed system call becomes. */
#include "base/status.h"
#include "support/oracle.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static void the_first_sentence_is_empty_and_success_keeps_the_last(void **state) {
    (void)state;
    assert_string_equal(vic_last_error(), "");
    enum vic_metric metric = 0;
    assert_int_equal(vic_metric_parse("no such", &metric), VIC_ARGUMENT);
    char kept[STATUS_SENTENCE_BYTES];
    (void)snprintf(kept, sizeof kept, "%s", vic_last_error());
    must(vic_metric_parse("dot", &metric));
    assert_string_equal(vic_last_error(), kept);
}

static void every_status_has_its_own_name_and_meaning(void **state) {
    (void)state;
#define ROW(constant, value, sentence)                                                                                         \
    assert_int_equal(constant, value);                                                                                         \
    assert_string_equal(vic_status_name(constant), #constant);                                                                 \
    assert_string_equal(vic_status_meaning(constant), sentence);
    VIC_STATUS_LIST(ROW)
#undef ROW
    for (int i = 0; i <= VIC_INTERNAL; i++) {
        assert_memory_equal(vic_status_name((enum vic_status)i), "VIC_", 4);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(vic_status_name((enum vic_status)i), vic_status_name((enum vic_status)j));
            assert_string_not_equal(vic_status_meaning((enum vic_status)i), vic_status_meaning((enum vic_status)j));
        }
    }
}

static void other_numbers_are_said_to_be_unknown(void **state) {
    (void)state;
    static const int wrong[] = {-1, VIC_INTERNAL + 1, 1000, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_string_equal(vic_status_name((enum vic_status)wrong[i]), "unknown status");
        assert_non_null(vic_status_meaning((enum vic_status)wrong[i]));
    }
}

static void the_version_is_the_headers(void **state) {
    (void)state;
    char version[32];
    (void)snprintf(version, sizeof version, "%d.%d.%d", VIC_VERSION_MAJOR, VIC_VERSION_MINOR, VIC_VERSION_PATCH);
    assert_string_equal(vic_version(), version);
}

static void a_sentence_that_is_too_long_is_cut_and_ended(void **state) {
    (void)state;
    char large[2000];
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    assert_int_equal(status_fail(VIC_IO, "%s", large), VIC_IO);
    assert_int_equal(strlen(vic_last_error()), STATUS_SENTENCE_BYTES - 1);
}

static void system_errors_become_the_status_that_fits(void **state) {
    (void)state;
    static const struct {
        int error;
        enum vic_status status;
    } rows[] = {{ENOSPC, VIC_NO_SPACE}, {EDQUOT, VIC_NO_SPACE}, {ENOENT, VIC_NOT_FOUND}, {ENOMEM, VIC_NO_MEMORY},
                {EACCES, VIC_IO},       {EIO, VIC_IO},          {EROFS, VIC_IO},         {12345, VIC_IO}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(status_fail_errno(rows[i].error, "open", "/some/file"), rows[i].status);
        assert_memory_equal(vic_last_error(), "cannot open /some/file: ", 24);
        assert_true(strlen(vic_last_error()) > 24);
    }
}

/* ---- threads */

static void *fail_elsewhere(void *argument) {
    struct status_note *note = argument;
    bool clean = vic_last_error()[0] == '\0';
    status_keep(note, status_fail(VIC_ID, "from the worker, row %d", 7));
    return clean ? NULL : note;
}

static void a_sentence_is_its_threads_until_it_is_handed_over(void **state) {
    (void)state;
    struct status_note note = {VIC_OK, ""};
    pthread_t thread;
    void *unclean = NULL;
    (void)status_fail(VIC_IO, "mine");
    assert_int_equal(status_raise(&note), VIC_OK);
    assert_string_equal(vic_last_error(), "mine");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &note), 0);
    assert_int_equal(pthread_join(thread, &unclean), 0);
    assert_null(unclean);
    assert_string_equal(vic_last_error(), "mine");
    assert_int_equal(status_raise(&note), VIC_ID);
    assert_string_equal(vic_last_error(), "from the worker, row 7");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_sentence_is_empty_and_success_keeps_the_last),
        cmocka_unit_test(every_status_has_its_own_name_and_meaning),
        cmocka_unit_test(other_numbers_are_said_to_be_unknown),
        cmocka_unit_test(the_version_is_the_headers),
        cmocka_unit_test(a_sentence_that_is_too_long_is_cut_and_ended),
        cmocka_unit_test(system_errors_become_the_status_that_fits),
        cmocka_unit_test(a_sentence_is_its_threads_until_it_is_handed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
