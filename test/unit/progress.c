/* Progress reports: how often, what they say, and that a callback's wish to stop is a status. */
#include "base/progress.h"
#include "support/oracle.h"

#include <stdatomic.h>

#include <string.h>
#include <time.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

struct heard {
    int64_t reports, last_done, last_total;
    double last_seconds;
    char stage[32];
    int64_t stop_at; /* the report that answers non-zero; 0: none */
    bool ended;      /* a report with done == total came */
};

static int hear(void *user, const struct vic_progress_state *state) {
    struct heard *heard = user;
    heard->reports++;
    heard->last_done = state->done;
    heard->last_total = state->total;
    heard->last_seconds = state->seconds;
    strncpy(heard->stage, state->stage, sizeof heard->stage - 1);
    heard->ended |= state->done == state->total;
    return heard->reports == heard->stop_at ? 17 : 0;
}

static void nap_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

static void a_stage_without_a_callback_is_silent(void **state) {
    (void)state;
    struct vic_progress empty = {NULL, NULL};
    struct progress none = progress_start(NULL, "reading", 10), blank = progress_start(&empty, "reading", 10);
    for (int64_t i = 0; i <= 10; i++) {
        must(progress_step(&none, i));
        must(progress_step(&blank, i));
    }
}

static void a_quick_stage_reports_its_end_once_and_little_else(void **state) {
    (void)state;
    struct heard heard = {0};
    struct vic_progress hook = {hear, &heard};
    struct progress progress = progress_start(&hook, "reading", 100000);
    for (int64_t i = 1; i <= 100000; i++) must(progress_step(&progress, i));
    assert_true(heard.ended);
    assert_int_equal(heard.last_done, 100000);
    assert_int_equal(heard.last_total, 100000);
    assert_string_equal(heard.stage, "reading");
    assert_true(heard.last_seconds >= 0);
    assert_true((double)heard.reports <= 2 + heard.last_seconds * 10);
}

static void a_slow_stage_is_heard_of_before_its_end(void **state) {
    (void)state;
    struct heard heard = {0};
    struct vic_progress hook = {hear, &heard};
    struct progress progress = progress_start(&hook, "writing", 1000);
    must(progress_step(&progress, 1));
    assert_int_equal(heard.reports, 0);
    nap_ms(110);
    must(progress_step(&progress, 2));
    assert_int_equal(heard.reports, 1);
    assert_int_equal(heard.last_done, 2);
    assert_true(heard.last_seconds >= 0.1);
}

static void a_non_zero_answer_cancels_naming_stage_and_place(void **state) {
    (void)state;
    struct heard heard = {.stop_at = 1};
    struct vic_progress hook = {hear, &heard};
    struct progress progress = progress_start(&hook, "writing", 50);
    assert_int_equal(progress_step(&progress, 50), VIC_CANCELLED);
    assert_non_null(strstr(vic_last_error(), "writing"));
    assert_non_null(strstr(vic_last_error(), "50 of 50"));
}

/* A job that counts how often each part ran, and takes its time. */
enum { PARTS = 700 };
struct parts {
    _Atomic int ran[PARTS];
    long ms;
};
static void part_run(void *argument, int worker, int64_t part) {
    struct parts *parts = argument;
    (void)worker;
    atomic_fetch_add(&parts->ran[part], 1);
    if (parts->ms) nap_ms(parts->ms);
}

static void a_job_in_parts_runs_each_once_whoever_listens(void **state) {
    (void)state;
    struct thread_pool *pool = NULL;
    must(thread_pool_open(&mem_default, 2, &pool));
    for (int round = 0; round < 4; round++) {
        static struct parts parts;
        struct heard heard = {0};
        struct vic_progress hook = {hear, &heard};
        struct progress progress = progress_start(round % 2 ? &hook : NULL, "working", PARTS);
        const struct progress_job job = {part_run, &parts, round < 2 ? PARTS : 1, 0, 1};
        parts = (struct parts){.ms = 0};
        must(progress_run(&progress, pool, &job));
        for (int i = 0; i < PARTS; i++) assert_int_equal(parts.ran[i], i < job.parts);
        assert_false(heard.ended); /* that is for the stage to say */
    }
    thread_pool_close(pool);
}

/* 700 parts of a millisecond on two threads take three reports' time at least. */
static void a_slow_job_is_heard_of_and_stopped_before_its_end(void **state) {
    (void)state;
    static struct parts parts;
    struct thread_pool *pool = NULL;
    struct heard heard = {.stop_at = 2};
    struct vic_progress hook = {hear, &heard};
    must(thread_pool_open(&mem_default, 2, &pool));
    parts = (struct parts){.ms = 1};
    struct progress progress = progress_start(&hook, "working", 1000 + PARTS);
    const struct progress_job job = {part_run, &parts, PARTS, 1000, 1};
    assert_int_equal(progress_run(&progress, pool, &job), VIC_CANCELLED);
    assert_int_equal(heard.reports, 2);
    assert_true(heard.last_done > 1000 && heard.last_done < 1000 + PARTS);
    for (int i = 0; i < PARTS; i++) assert_int_equal(parts.ran[i], i < heard.last_done - 1000);
    thread_pool_close(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_without_a_callback_is_silent),
        cmocka_unit_test(a_quick_stage_reports_its_end_once_and_little_else),
        cmocka_unit_test(a_slow_stage_is_heard_of_before_its_end),
        cmocka_unit_test(a_non_zero_answer_cancels_naming_stage_and_place),
        cmocka_unit_test(a_job_in_parts_runs_each_once_whoever_listens),
        cmocka_unit_test(a_slow_job_is_heard_of_and_stopped_before_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
