/* SAV-04: one writer a path. The second is refused while the first lives, and the lock dies with its owner however that
 * ends; many at once leave one whole file and nothing else. */
#include "support/oracle.h"
#include "support/pair.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { WRITERS = 6, SAVES = 30 };

static const struct sample small_sample = {50, 8, VIC_F32, VIC_COSINE, true, true, NULL, 1, 0};
static const struct sample large_sample = {150, 8, VIC_F32, VIC_COSINE, true, true, NULL, 2, 0};

static int open_all(void **state) {
    *state = pair_open(&small_sample, &large_sample);
    return 0;
}

/* Progress that says "I hold the lock" and then waits to be killed, or for a byte. */
struct gate {
    int ready[2], go[2];
};
static int gate_wait(void *user, const struct vic_progress_state *state) {
    const struct gate *gate = user;
    char byte = 1;
    (void)state;
    if (write(gate->ready[1], &byte, 1) != 1) return 1;
    return read(gate->go[0], &byte, 1) == 1 ? 0 : 1;
}

/* A child in the middle of a save. */
static pid_t hold(const struct pair *pair, struct gate *gate) {
    char byte = 0;
    assert_int_equal(pipe(gate->ready), 0);
    assert_int_equal(pipe(gate->go), 0);
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct vic_save_options options = {.size = sizeof options, .progress = {gate_wait, gate}};
        _exit((int)vic_index_save(pair->index[NEW], pair->path, &options));
    }
    assert_int_equal(read(gate->ready[0], &byte, 1), 1);
    return child;
}

static void let_go(struct gate *gate) {
    for (int i = 0; i < 2; i++) {
        (void)close(gate->ready[i]);
        (void)close(gate->go[i]);
    }
}

static void SAV_04_a_second_writer_is_refused_and_the_first_succeeds(void **state) {
    struct pair *pair = *state;
    struct gate gate;
    int status = 0;
    pid_t child = hold(pair, &gate);
    assert_int_equal(vic_index_save(pair->index[OLD], pair->path, NULL), VIC_LOCKED);
    assert_non_null(strstr(vic_last_error(), pair->path));
    must(vic_index_save(pair->index[OLD], scratch_path("beside"), NULL)); /* another path is another lock */
    assert_int_equal(write(gate.go[1], "x", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == VIC_OK);
    assert_true(pair_is(pair, NEW));
    must(vic_index_save(pair->index[OLD], pair->path, NULL));
    assert_int_equal(scratch_count(), 2);
    let_go(&gate);
}

static void SAV_04_the_lock_dies_with_its_owner(void **state) {
    struct pair *pair = *state;
    struct gate gate;
    pair_reset(pair);
    pid_t child = hold(pair, &gate);
    assert_int_equal(vic_index_save(pair->index[OLD], pair->path, NULL), VIC_LOCKED);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(scratch_count(), 2); /* the dead one's temporary */
    assert_true(pair_is(pair, OLD));
    must(vic_index_save(pair->index[NEW], pair->path, NULL));
    assert_true(pair_is(pair, NEW));
    assert_int_equal(scratch_count(), 1);
    let_go(&gate);
}

/* Readers need no lock: they have the old file or the new one, and keep what they have. */
static void an_open_index_stays_as_it_was_while_others_save(void **state) {
    struct pair *pair = *state;
    must(vic_index_save(pair->index[OLD], pair->path, NULL));
    struct vic_index *opened = sample_open(pair->device, pair->path);
    must(vic_index_save(pair->index[NEW], pair->path, NULL));
    assert_int_equal(sample_hash(opened), sample_hash(pair->index[OLD]));
    must(vic_index_check(opened, NULL));
    vic_index_free(opened);
}

/* Saves the two in turn until it succeeded often enough; VIC_OK, or what was neither success nor "locked". */
static enum vic_status save_often(const struct pair *pair, int writer) {
    for (int saved = 0; saved < SAVES;) {
        enum vic_status status = vic_index_save(pair->index[(writer + saved) % 2], pair->path, NULL);
        if (status != VIC_OK && status != VIC_LOCKED) return status;
        saved += status == VIC_OK;
        if (status == VIC_LOCKED) (void)sched_yield();
    }
    return VIC_OK;
}

static void one_whole_file(const struct pair *pair) {
    assert_true(pair_is(pair, OLD) || pair_is(pair, NEW));
    assert_int_equal(scratch_count(), 1);
}

static void many_processes_leave_one_whole_file(void **state) {
    struct pair *pair = *state;
    pid_t children[WRITERS];
    scratch_clear();
    (void)fflush(NULL);
    for (int i = 0; i < WRITERS; i++) {
        children[i] = fork();
        if (children[i] == 0) _exit((int)save_often(pair, i));
    }
    for (int i = 0; i < WRITERS; i++) {
        int status = 0;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == VIC_OK);
    }
    one_whole_file(pair);
}

struct writer {
    const struct pair *pair;
    int number;
    enum vic_status status;
};
static void *writer_run(void *argument) {
    struct writer *writer = argument;
    writer->status = save_often(writer->pair, writer->number);
    return NULL;
}

static void many_threads_leave_one_whole_file(void **state) {
    struct pair *pair = *state;
    pthread_t threads[WRITERS];
    struct writer writers[WRITERS];
    scratch_clear();
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){pair, i, VIC_OK};
        assert_int_equal(pthread_create(&threads[i], NULL, writer_run, &writers[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(writers[i].status, VIC_OK);
    }
    one_whole_file(pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SAV_04_a_second_writer_is_refused_and_the_first_succeeds),
        cmocka_unit_test(SAV_04_the_lock_dies_with_its_owner),
        cmocka_unit_test(an_open_index_stays_as_it_was_while_others_save),
        cmocka_unit_test(many_processes_leave_one_whole_file),
        cmocka_unit_test(many_threads_leave_one_whole_file),
    };
    return cmocka_run_group_tests(tests, open_all, pair_close);
}
