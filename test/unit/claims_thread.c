/* Things that threads take turns with: each is held by one thread at a time, who finds none waits, and a child after fork()
 * finds all of them free. Runs under ThreadSanitizer too. */
#include "base/claims.h"

#include <sys/wait.h>
#include <unistd.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { THREADS = 8, ROUNDS = 5000 };

static void as_many_as_there_are_can_be_had_each_once(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 63, CLAIMS_MAX};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        struct claims claims;
        bool seen[CLAIMS_MAX] = {false};
        claims_start(&claims, counts[c]);
        for (int i = 0; i < counts[c]; i++) {
            int number = claims_take(&claims);
            assert_in_range(number, 0, counts[c] - 1);
            assert_false(seen[number]);
            seen[number] = true;
        }
        claims_give(&claims, counts[c] / 2);
        assert_int_equal(claims_take(&claims), counts[c] / 2);
        for (int i = 0; i < counts[c]; i++) claims_give(&claims, i);
        claims_stop(&claims);
    }
}

struct crowd {
    struct claims claims;
    int64_t turns[3]; /* not atomic: who holds a number is alone with it */
};

static void *crowd_main(void *argument) {
    struct crowd *crowd = argument;
    for (int round = 0; round < ROUNDS; round++) {
        int number = claims_take(&crowd->claims);
        crowd->turns[number]++;
        claims_give(&crowd->claims, number);
    }
    return NULL;
}

static void who_holds_one_is_alone_with_it(void **state) {
    (void)state;
    for (int count = 1; count <= 3; count++) {
        struct crowd crowd = {.turns = {0}};
        pthread_t threads[THREADS];
        claims_start(&crowd.claims, count);
        for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, crowd_main, &crowd), 0);
        for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(crowd.turns[0] + crowd.turns[1] + crowd.turns[2], THREADS * ROUNDS);
        claims_stop(&crowd.claims);
    }
}

static void a_child_after_fork_finds_all_of_them_free(void **state) {
    (void)state;
    struct claims claims;
    claims_start(&claims, 2);
    (void)claims_take(&claims);
    (void)claims_take(&claims);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(20);
        int sum = claims_take(&claims) + claims_take(&claims);
        claims_give(&claims, 0);
        claims_give(&claims, 1);
        claims_stop(&claims);
        _exit(sum != 1);
    }
    int how = 1;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    claims_give(&claims, 1); /* in the parent nothing has changed */
    assert_int_equal(claims_take(&claims), 1);
    claims_give(&claims, 0);
    claims_give(&claims, 1);
    claims_stop(&claims);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_there_are_can_be_had_each_once),
        cmocka_unit_test(who_holds_one_is_alone_with_it),
        cmocka_unit_test(a_child_after_fork_finds_all_of_them_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
