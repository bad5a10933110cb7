/* The pool: every part once whoever runs it, never waiting for another's job, whole again after a failed start. The rest,
 * with many callers at once, is property/threads_pool.c's. */
#define _GNU_SOURCE
#include "base/thread.h"
#include "support/counting.h"
#include "support/oracle.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum { PARTS_MOST = 5000 };

struct job {
    struct thread_pool *pool;
    atomic_int done[PARTS_MOST];
    atomic_int inside[1024]; /* by worker */
    atomic_int wrong;
};

static void part_run(void *argument, int worker, int64_t part) {
    struct job *job = argument;
    if (worker < 0 || worker >= thread_pool_size(job->pool) || atomic_fetch_add(&job->inside[worker], 1) != 0)
        atomic_fetch_add(&job->wrong, 1);
    atomic_fetch_add(&job->done[part], 1);
    atomic_fetch_sub(&job->inside[worker], 1);
}

static void job_check(struct thread_pool *pool, int64_t parts) {
    struct job *job = take(sizeof *job);
    memset(job, 0, sizeof *job);
    job->pool = pool;
    int asked = thread_pool_run(pool, parts, part_run, job);
    assert_in_range(asked, parts > 0 ? 1 : 0, thread_pool_size(pool));
    for (int64_t part = 0; part < PARTS_MOST; part++) assert_int_equal(atomic_load(&job->done[part]), part < parts ? 1 : 0);
    assert_int_equal(atomic_load(&job->wrong), 0);
    free(job);
}

static void every_part_runs_once_and_a_worker_is_one_thread(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 8, 16};
    static const int64_t parts[] = {0, 1, 2, 3, 7, 16, 17, 100, 1024, PARTS_MOST};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct thread_pool *pool = NULL;
        must(thread_pool_open(&mem_default, sizes[i], &pool));
        assert_int_equal(thread_pool_size(pool), sizes[i]);
        for (size_t j = 0; j < sizeof parts / sizeof *parts; j++) job_check(pool, parts[j]);
        for (int again = 0; again < 300; again++) job_check(pool, 1 + again % 20);
        thread_pool_close(pool);
    }
}

static void without_a_pool_the_caller_does_it_all(void **state) {
    (void)state;
    assert_int_equal(thread_pool_size(NULL), 1);
    job_check(NULL, 0);
    job_check(NULL, 100);
    thread_pool_close(NULL);
}

/* ---- a job in a job: the pool is busy, so that the inner one runs in the thread that asked */

struct nest {
    struct thread_pool *pool;
    atomic_int outer, inner, wrong;
    struct nest_self {
        struct nest *nest;
        pthread_t thread;
    } self[64];
};

static void inner_run(void *argument, int worker, int64_t part) {
    struct nest_self *self = argument;
    (void)part;
    if (worker != 0 || !pthread_equal(self->thread, pthread_self())) atomic_fetch_add(&self->nest->wrong, 1);
    atomic_fetch_add(&self->nest->inner, 1);
}

static void outer_run(void *argument, int worker, int64_t part) {
    struct nest *nest = argument;
    struct nest_self *self = &nest->self[part];
    (void)worker;
    *self = (struct nest_self){nest, pthread_self()};
    if (thread_pool_run(nest->pool, 10, inner_run, self) != 1) atomic_fetch_add(&nest->wrong, 1);
    atomic_fetch_add(&nest->outer, 1);
}

static void a_job_inside_a_job_runs_where_it_was_asked(void **state) {
    (void)state;
    static struct nest nest;
    must(thread_pool_open(&mem_default, 4, &nest.pool));
    (void)thread_pool_run(nest.pool, 64, outer_run, &nest);
    assert_int_equal(atomic_load(&nest.outer), 64);
    assert_int_equal(atomic_load(&nest.inner), 640);
    assert_int_equal(atomic_load(&nest.wrong), 0);
    thread_pool_close(nest.pool);
}

/* ---- a busy pool */

struct gate {
    atomic_bool entered, open;
};

static void gate_run(void *argument, int worker, int64_t part) {
    struct gate *gate = argument;
    (void)worker, (void)part;
    atomic_store(&gate->entered, true);
    while (!atomic_load(&gate->open)) (void)sched_yield();
}

struct holder {
    struct thread_pool *pool;
    struct gate gate;
};

static void *holder_main(void *argument) {
    struct holder *holder = argument;
    (void)thread_pool_run(holder->pool, 2, gate_run, &holder->gate);
    return NULL;
}

static void a_busy_pool_is_not_waited_for(void **state) {
    (void)state;
    static struct holder holder;
    pthread_t thread;
    must(thread_pool_open(&mem_default, 2, &holder.pool));
    assert_int_equal(pthread_create(&thread, NULL, holder_main, &holder), 0);
    while (!atomic_load(&holder.gate.entered)) (void)sched_yield();
    struct job *job = take(sizeof *job);
    memset(job, 0, sizeof *job);
    job->pool = holder.pool;
    assert_int_equal(thread_pool_run(holder.pool, 50, part_run, job), 1); /* would never return if it waited */
    for (int part = 0; part < 50; part++) assert_int_equal(atomic_load(&job->done[part]), 1);
    atomic_store(&holder.gate.open, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    job_check(holder.pool, 100);
    thread_pool_close(holder.pool);
    free(job);
}

/* ---- starting and ending */

static void no_threads_means_one_for_each_core(void **state) {
    (void)state;
    cpu_set_t before, one;
    struct thread_pool *pool = NULL;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_int_equal(thread_cores(), CPU_COUNT(&before));
    must(thread_pool_open(&mem_default, 0, &pool));
    assert_int_equal(thread_pool_size(pool), CPU_COUNT(&before));
    thread_pool_close(pool);
    CPU_ZERO(&one);
    for (size_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &before) && CPU_COUNT(&one) == 0) CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(thread_cores(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void thread_counts_out_of_range_are_refused_by_number(void **state) {
    (void)state;
    static const int wrong[] = {-1, INT32_MIN, 1025, INT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct thread_pool *pool = (struct thread_pool *)&wrong;
        char number[16];
        assert_int_equal(thread_pool_open(&mem_default, wrong[i], &pool), VIC_ARGUMENT);
        assert_ptr_equal(pool, &wrong);
        (void)snprintf(number, sizeof number, "%d", wrong[i]);
        assert_non_null(strstr(vic_last_error(), number));
        assert_non_null(strstr(vic_last_error(), "1024"));
    }
}

static void a_pool_gives_all_its_memory_back(void **state) {
    (void)state;
    struct counting counting = {0};
    struct mem mem = {.hooks = counting_allocator(&counting), .budget = UINT64_MAX, .budget_name = "host_bytes"};
    struct thread_pool *pool = NULL;
    must(thread_pool_open(&mem, 5, &pool));
    assert_true(atomic_load(&counting.live_blocks) > 0);
    int64_t requests = atomic_load(&counting.requests);
    job_check(pool, 1000);
    assert_int_equal(atomic_load(&counting.requests), requests); /* a job allocates nothing */
    thread_pool_close(pool);
    assert_int_equal(atomic_load(&counting.live_blocks), 0);
    assert_int_equal(atomic_load(&counting.live_bytes), 0);
    assert_true(atomic_load(&mem.used) == 0);
}

static void a_child_after_fork_does_the_parts_itself_and_may_close(void **state) {
    (void)state;
    struct thread_pool *pool = NULL;
    must(thread_pool_open(&mem_default, 3, &pool));
    job_check(pool, 100);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct job *job = take(sizeof *job);
        memset(job, 0, sizeof *job);
        job->pool = pool;
        (void)alarm(20);
        int bad = thread_pool_run(pool, 100, part_run, job) != 1;
        for (int part = 0; part < 100; part++) bad |= atomic_load(&job->done[part]) != 1;
        thread_pool_close(pool);
        _exit(bad);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    job_check(pool, 100);
    thread_pool_close(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_runs_once_and_a_worker_is_one_thread),
        cmocka_unit_test(without_a_pool_the_caller_does_it_all),
        cmocka_unit_test(a_job_inside_a_job_runs_where_it_was_asked),
        cmocka_unit_test(a_busy_pool_is_not_waited_for),
        cmocka_unit_test(no_threads_means_one_for_each_core),
        cmocka_unit_test(thread_counts_out_of_range_are_refused_by_number),
        cmocka_unit_test(a_pool_gives_all_its_memory_back),
        cmocka_unit_test(a_child_after_fork_does_the_parts_itself_and_may_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
