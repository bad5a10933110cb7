/* One pool, many callers: every part of every job runs once, whoever runs it; jobs inside jobs; pools that open and close
 * beside one another. Runs under ThreadSanitizer too. */
#include "base/thread.h"
#include "support/oracle.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum { CALLERS = 16, JOBS = 200, PARTS = 257 };

/* Not atomic: two threads at one part, or a caller that returns too early, is a data race. */
struct job {
    struct thread_pool *pool;
    int done[PARTS];
    int64_t by_worker[64];
    int64_t nested;
};

static void part_run(void *argument, int worker, int64_t part) {
    struct job *job = argument;
    job->done[part]++;
    job->by_worker[worker]++; /* a worker is one thread at a time within a job */
}

struct caller {
    struct thread_pool *pool;
    int64_t failures;
    int number;
};

static int64_t job_failures(struct thread_pool *pool, int64_t parts) {
    struct job *job = take(sizeof *job);
    memset(job, 0, sizeof *job);
    int workers = thread_pool_run(pool, parts, part_run, job);
    int64_t failures = workers < 1 || workers > thread_pool_size(pool), sum = 0;
    for (int64_t part = 0; part < PARTS; part++) failures += job->done[part] != (part < parts);
    for (int worker = 0; worker < 64; worker++) sum += job->by_worker[worker];
    failures += sum != parts;
    free(job);
    return failures;
}

static void *caller_main(void *argument) {
    struct caller *caller = argument;
    for (int i = 0; i < JOBS; i++) caller->failures += job_failures(caller->pool, 1 + (caller->number * 31 + i * 17) % PARTS);
    return NULL;
}

static void callers_of_one_pool_all_get_their_parts_done(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 8};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct caller callers[CALLERS] = {0};
        pthread_t threads[CALLERS];
        struct thread_pool *pool = NULL;
        must(thread_pool_open(&mem_default, sizes[s], &pool));
        for (int i = 0; i < CALLERS; i++) {
            callers[i] = (struct caller){.pool = pool, .number = i};
            assert_int_equal(pthread_create(&threads[i], NULL, caller_main, &callers[i]), 0);
        }
        for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
        for (int i = 0; i < CALLERS; i++) assert_int_equal(callers[i].failures, 0);
        thread_pool_close(pool);
    }
}

struct outer {
    struct thread_pool *pool;
    int64_t failures[40];
};

static void outer_run(void *argument, int worker, int64_t part) {
    struct outer *outer = argument;
    (void)worker;
    outer->failures[part] = job_failures(outer->pool, 1 + part * 6);
}

static void jobs_inside_jobs_are_done_by_who_asks(void **state) {
    (void)state;
    struct thread_pool *pool = NULL;
    must(thread_pool_open(&mem_default, 4, &pool));
    for (int round = 0; round < 50; round++) {
        struct outer outer = {.pool = pool};
        (void)thread_pool_run(pool, 40, outer_run, &outer);
        for (int part = 0; part < 40; part++) assert_int_equal(outer.failures[part], 0);
    }
    thread_pool_close(pool);
}

static void *opener_main(void *argument) {
    struct caller *caller = argument;
    for (int i = 0; i < 30; i++) {
        struct thread_pool *pool = NULL;
        if (thread_pool_open(&mem_default, 1 + (caller->number + i) % 5, &pool) != VIC_OK) {
            caller->failures++;
            continue;
        }
        if (i % 3) caller->failures += job_failures(pool, i % 50 + 1); /* some are closed before they ever worked */
        thread_pool_close(pool);
    }
    return NULL;
}

static void pools_open_and_close_beside_one_another(void **state) {
    (void)state;
    struct caller callers[8] = {0};
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        callers[i].number = i;
        assert_int_equal(pthread_create(&threads[i], NULL, opener_main, &callers[i]), 0);
    }
    for (int i = 0; i < 8; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 8; i++) assert_int_equal(callers[i].failures, 0);
    assert_true(mem_default.used == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_of_one_pool_all_get_their_parts_done),
        cmocka_unit_test(jobs_inside_jobs_are_done_by_who_asks),
        cmocka_unit_test(pools_open_and_close_beside_one_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
