/* CON: fork, and threads that cannot be started. Public cases, distilled from bug reports of this field; searches from many
 * threads are property/threads_search.c's.
 *
 * The surprising rule: pthread_create is this program's, in front of the C library's, and refuses when it is told to. A child
 * never runs into cmocka: it answers by its exit status, and an alarm ends it when it hangs. */
#define _GNU_SOURCE
#include "support/counting.h"
#include "support/hits.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* ---- threads that cannot be started */

static atomic_int create_fails_at; /* the call to refuse, counted down to 0; 0: none */

typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

#pragma GCC visibility push(default)
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    if (atomic_load(&create_fails_at) > 0 && atomic_fetch_sub(&create_fails_at, 1) == 1) return EAGAIN;
    void *symbol = dlsym(RTLD_NEXT, "pthread_create");
    create_function *next;
    memcpy(&next, &symbol, sizeof next);
    return next(thread, attributes, start, argument);
}
#pragma GCC visibility pop

static int64_t threads_alive(void) {
    int64_t count = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    while (readdir(folder)) count++;
    assert_int_equal(closedir(folder), 0);
    return count;
}

static void CON_07_a_thread_that_cannot_be_started_is_a_status(void **state) {
    (void)state;
    for (int32_t threads = 2; threads <= 17; threads += 5)
        for (int32_t n = 1; n < threads; n++) {
            struct counting counting = {0};
            struct vic_device_options options = {
                .size = sizeof options, .name = "cpu", .threads = threads, .allocator = counting_allocator(&counting)};
            struct vic_device *device = NULL;
            int64_t before = threads_alive();
            atomic_store(&create_fails_at, n);
            enum vic_status status = vic_device_open(&options, &device);
            assert_int_equal(atomic_load(&create_fails_at), 0);
            assert_int_equal(status, VIC_NO_MEMORY);
            assert_non_null(strstr(vic_last_error(), "thread"));
            assert_null(device);
            assert_int_equal(atomic_load(&counting.live_blocks), 0);
            assert_int_equal(threads_alive(), before); /* those that had started are gone */
            must(vic_device_open(&options, &device));
            vic_device_free(device);
            assert_int_equal(threads_alive(), before);
        }
}

static void CON_07_no_number_of_threads_means_all_cores(void **state) {
    (void)state;
    cpu_set_t set;
    struct vic_device *device = device_of(0);
    struct vic_device_info info = {.size = sizeof info};
    must(vic_device_info(device, &info));
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(info.threads, CPU_COUNT(&set));
    vic_device_free(device);
}

static void CON_07_the_most_threads_there_can_be_answer_the_same(void **state) {
    (void)state;
    float *values = values_random(7, 3000 * 8), *queries = values_random(8, 9 * 8);
    struct data data = {values, 3000, 8, VIC_F32, VIC_DOT, NULL};
    struct order order = order_of(&data, queries, 9, VIC_F32);
    static const int32_t counts[] = {64, 257, 1024};
    for (int i = 0; i < 3; i++) {
        struct vic_device *device = device_of(counts[i]);
        struct vic_index *index = index_of(device, &data);
        static const int64_t ks[] = {1, 10, 100, 3000};
        for (int k = 0; k < 4; k++) order_check_search(&order, index, &order.queries, 0, ks[k], NULL);
        order_check_within(&order, index, order.scores[50], NULL);
        vic_index_free(index);
        vic_device_free(device);
    }
    order_free(&order);
    free(values);
    free(queries);
}

/* ---- fork */

struct family {
    struct vic_device *device;
    struct vic_index *index;
    struct data data;
    struct order order;
    atomic_bool stop;
    atomic_int failures;
    atomic_int asked;
};

enum { N = 1000, DIM = 24, NQ = 6, K = 400 };

/* All questions; the number of wrong answers. Prints and asserts nothing, since it runs in children and threads, and takes no
 * memory, since a sanitizer's allocator may be locked for good in a child. */
static int family_ask(const struct family *family) {
    int failures = 0;
    int64_t ids[NQ * K], offsets[NQ + 1], within[NQ * N];
    float scores[NQ * K], threshold = family->order.scores[20];
    int32_t counts[NQ];
    struct vic_hits hits = {ids, scores, counts, VIC_HOST};
    for (int p = 0; p < PATHS; p++) {
        struct vic_search_options options = {.size = sizeof options, .path = paths[p]};
        failures += vic_index_search(family->index, &family->order.queries, K, &options, &hits) != VIC_OK;
        for (int64_t j = 0; j < NQ; j++) {
            failures += memcmp(ids + j * K, family->order.ids + j * N, K * 8) != 0;
            failures += memcmp(scores + j * K, family->order.scores + j * N, K * 4) != 0;
        }
    }
    struct vic_ranges ranges = {offsets, within, NULL, NQ * N};
    failures += vic_index_within(family->index, &family->order.queries, threshold, NULL, &ranges) != VIC_OK;
    failures += memcmp(within, family->order.ids, 21 * 8) != 0;
    failures += vic_index_score(family->index, &family->order.queries, family->order.ids, 10, NULL, scores) != VIC_OK;
    failures += memcmp(scores, family->order.scores, 40) != 0;
    return failures;
}

static void *family_main(void *argument) {
    struct family *family = argument;
    while (!atomic_load(&family->stop)) {
        if (family_ask(family) != 0) atomic_fetch_add(&family->failures, 1);
        atomic_fetch_add(&family->asked, 1);
    }
    return NULL;
}

static void *family_once(void *argument) {
    struct family *family = argument;
    for (int i = 0; i < 3; i++)
        if (family_ask(family) != 0) atomic_fetch_add(&family->failures, 1);
    return NULL;
}

static void family_make(struct family *family, int32_t threads) {
    struct random random = {6};
    float *values = values_random(61, N * DIM), *queries = values_random(62, NQ * DIM);
    for (int64_t i = 1; i < N; i += 3) memcpy(values + i * DIM, values + random_below(&random, i) * DIM, DIM * 4);
    family->data = (struct data){values, N, DIM, VIC_F32, VIC_COSINE, NULL};
    family->order = order_of(&family->data, queries, NQ, VIC_F32);
    family->device = device_of(threads);
    family->index = index_with_planes(family->device, &family->data, VIC_PLANES_8 | VIC_PLANES_4);
    assert_int_equal(family_ask(family), 0);
}

static void family_free(struct family *family) {
    vic_index_free(family->index);
    vic_device_free(family->device);
    free(family->order.queries.data);
    order_free(&family->order);
    free(family->data.rows);
}

static void expect_well(pid_t child) {
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0)
        fail_msg("child: %s %d", WIFEXITED(how) ? "wrong answers" : "signal",
                 WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how));
}

static void CON_06_a_child_and_its_parent_get_the_same_bytes(void **state) {
    (void)state;
    for (int32_t threads = 1; threads <= 5; threads += 2) {
        static struct family family;
        memset(&family, 0, sizeof family);
        family_make(&family, threads);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)alarm(60);
            int failures = family_ask(&family);
            pid_t grandchild = fork();
            if (grandchild == 0) _exit(family_ask(&family) != 0);
            int how = 1;
            failures += waitpid(grandchild, &how, 0) != grandchild || how != 0;
            vic_index_free(family.index);
            vic_device_free(family.device);
            _exit(failures != 0);
        }
        assert_int_equal(family_ask(&family), 0);
        expect_well(child);
        assert_int_equal(family_ask(&family), 0);
        family_free(&family);
    }
}

/* Twelve threads hold pool, workspaces and the keys of large k at the moment of the fork, and some wait for them. */
static void CON_06_a_fork_while_the_parent_is_busy_leaves_the_child_free(void **state) {
    (void)state;
    static struct family family;
    pthread_t threads[12];
    memset(&family, 0, sizeof family);
    family_make(&family, 3);
    for (int i = 0; i < 12; i++) assert_int_equal(pthread_create(&threads[i], NULL, family_main, &family), 0);
    for (int turn = 0; turn < 40; turn++) {
        int asked = atomic_load(&family.asked);
        while (atomic_load(&family.asked) < asked + 3) (void)sched_yield();
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)alarm(60);
            int failures = turn % 3 == 0 ? 0 : family_ask(&family);
            vic_index_free(family.index); /* for some the first thing they do */
            vic_device_free(family.device);
            _exit(failures != 0);
        }
        expect_well(child);
    }
    atomic_store(&family.stop, true);
    for (int i = 0; i < 12; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&family.failures), 0);
    family_free(&family);
}

/* The first to ask in the child are many at once. */
static void CON_06_threads_of_a_child_share_the_index_from_the_first_moment(void **state) {
    (void)state;
    static struct family family;
    pthread_t threads[12];
    memset(&family, 0, sizeof family);
    family_make(&family, 2);
    for (int i = 0; i < 12; i++) assert_int_equal(pthread_create(&threads[i], NULL, family_main, &family), 0);
    for (int turn = 0; turn < 20; turn++) {
        int asked = atomic_load(&family.asked);
        while (atomic_load(&family.asked) < asked + 2) (void)sched_yield();
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            pthread_t own[10];
            int failures = 0;
            (void)alarm(60);
            atomic_store(&family.failures, 0);
            for (int i = 0; i < 10; i++) failures += pthread_create(&own[i], NULL, family_once, &family) != 0;
            for (int i = 0; i < 10; i++) failures += pthread_join(own[i], NULL) != 0;
            _exit(failures != 0 || atomic_load(&family.failures) != 0);
        }
        expect_well(child);
    }
    atomic_store(&family.stop, true);
    for (int i = 0; i < 12; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&family.failures), 0);
    family_free(&family);
}

static void CON_06_a_child_may_build_and_open_its_own(void **state) {
    (void)state;
    static struct family family;
    memset(&family, 0, sizeof family);
    family_make(&family, 3);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static struct family own;
        struct vic_device_options options = {.size = sizeof options, .name = "cpu", .threads = 3};
        struct vic_matrix rows = matrix_of(family.data.rows, N, DIM, VIC_F32);
        struct vic_build_options build = {.size = sizeof build, .metric = VIC_COSINE};
        (void)alarm(60);
        own = family;
        /* on the parent's device, then on one of its own */
        int failures = vic_index_build(family.device, &rows, &build, &own.index) != VIC_OK || family_ask(&own) != 0;
        vic_index_free(own.index);
        failures += vic_device_open(&options, &own.device) != VIC_OK;
        failures += vic_index_build(own.device, &rows, &build, &own.index) != VIC_OK || family_ask(&own) != 0;
        vic_index_free(own.index);
        vic_device_free(own.device);
        _exit(failures != 0);
    }
    expect_well(child);
    family_free(&family);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(CON_07_a_thread_that_cannot_be_started_is_a_status),
        cmocka_unit_test(CON_07_no_number_of_threads_means_all_cores),
        cmocka_unit_test(CON_07_the_most_threads_there_can_be_answer_the_same),
        cmocka_unit_test(CON_06_a_child_and_its_parent_get_the_same_bytes),
        cmocka_unit_test(CON_06_a_fork_while_the_parent_is_busy_leaves_the_child_free),
        cmocka_unit_test(CON_06_threads_of_a_child_share_the_index_from_the_first_moment),
        cmocka_unit_test(CON_06_a_child_may_build_and_open_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
