/* A set of DiskANN's files over another of the same shape, so that files of both would fit each other: killed at every call, or
 * with a call that fails, a save leaves one of the two sets or no file that leads to the others; and who opens the set while it
 * is replaced has one of the two, or a sentence. */
#include "index/index.h"
#include "support/oracle.h"
#include "support/sample.h"
#include "support/tracer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { N = 20, DIM = 8, FILES_MOST = 5 };
enum which { OLD, NEW, NEITHER, MIXED };

static const struct form {
    const char *format, *files[FILES_MOST]; /* the one that leads to the others first */
    int count;
} forms[] = {
    {"diskann", {"x", "x.data", "x_metadata.bin"}, 3},
    {"diskann-disk",
     {"x_disk.index", "x_disk.index_max_base_norm.bin", "x_pq_pivots.bin", "x_pq_compressed.bin", "x_metadata.bin"},
     5},
};
enum { FORMS = sizeof forms / sizeof *forms };

/* What a save writes of each index in each form, and what opening that gives. */
static struct vic_index *built[2], *read_back[2][FORMS];
static struct blob blobs[2][FORMS][FILES_MOST];

struct job {
    int form;
    char path[256]; /* scratch_path would take memory in the child */
};

static enum vic_status save(const struct job *job, enum which which) {
    const struct vic_save_options options = {.size = sizeof options, .format = forms[job->form].format};
    return vic_index_save(built[which], job->path, &options);
}

static struct job job_of(int form) {
    struct job job = {.form = form};
    (void)snprintf(job.path, sizeof job.path, "%s", scratch_path(forms[form].files[0]));
    return job;
}

static int open_all(void **state) {
    const struct vic_graph_options graph = {.size = sizeof graph, .force = 1, .degree = 4};
    const struct vic_build_options options = {.size = sizeof options, .metric = VIC_DOT, .graph = &graph};
    int status = scratch_open(state);
    test_device = device_of(1); /* threads are not there in a child */
    for (int which = OLD; which <= NEW; which++) {
        struct random random = {.state = (uint64_t)which + 1};
        float values[N * DIM];
        random_fill(&random, VALUES_UNIT, VIC_F32, N * DIM, values);
        const struct vic_matrix rows = matrix_of(values, N, DIM, VIC_F32);
        must(vic_index_build(test_device, &rows, &options, &built[which]));
        for (int form = 0; form < FORMS; form++) {
            const struct job job = job_of(form);
            must(save(&job, (enum which)which));
            must(vic_index_open(test_device, job.path, NULL, &read_back[which][form]));
            for (int i = 0; i < forms[form].count; i++) blobs[which][form][i] = blob_read(scratch_path(forms[form].files[i]));
        }
    }
    return status;
}

static int close_all(void **state) {
    for (int which = OLD; which <= NEW; which++) {
        vic_index_free(built[which]);
        for (int form = 0; form < FORMS; form++) {
            vic_index_free(read_back[which][form]);
            for (int i = 0; i < forms[form].count; i++) blob_free(&blobs[which][form][i]);
        }
    }
    return device_teardown(state) || scratch_close(state);
}

static bool set_is(int form, enum which which) {
    bool is = true;
    for (int i = 0; i < forms[form].count && is; i++)
        is = scratch_has(forms[form].files[i]) && blob_equals_file(&blobs[which][form][i], scratch_path(forms[form].files[i]));
    return is;
}

static enum which set_look(int form) {
    if (!scratch_has(forms[form].files[0])) return NEITHER;
    return set_is(form, OLD) ? OLD : set_is(form, NEW) ? NEW : MIXED;
}

static void set_reset(int form, bool there) {
    scratch_clear();
    for (int i = 0; there && i < forms[form].count; i++)
        blob_write(scratch_path(forms[form].files[i]), blobs[OLD][form][i].bytes, blobs[OLD][form][i].size);
}

/* In the child: the status, with the top bit when a failure has no sentence. */
static int save_new(void *argument) {
    enum vic_status status = save(argument, NEW);
    return (int)status | (status != VIC_OK && !*vic_last_error() ? 128 : 0);
}

static int need_tracer(void) {
    if (tracer_available()) return 0;
    print_message("skipped: this system does not let a process trace its child\n");
    return -1;
}

/* ---- killed */

static void killed_at_each_call(int form, bool there) {
    struct job job = job_of(form);
    int64_t seen_as[4] = {0};
    struct tracer_seen seen;
    struct tracer_plan plan = {.action = TRACER_KILL, .files_only = true};
    do {
        plan.at++;
        set_reset(form, there);
        seen = tracer_run(&plan, save_new, &job);
        enum which which = set_look(form);
        seen_as[which]++;
        if (which == MIXED || (which == OLD && !there))
            fail_msg("%s: killed at call %lld (%s): a mixed set", forms[form].format, (long long)plan.at, seen.name);
        must(save(&job, NEW)); /* the next one goes through and leaves nothing else */
        assert_int_equal(set_look(form), NEW);
        assert_int_equal(scratch_count(), forms[form].count);
    } while (seen.hit);
    assert_int_equal(seen.exit_code, VIC_OK);
    /* Before the first rename, among them, after the last. */
    assert_true(there ? seen_as[OLD] > 10 : seen_as[OLD] == 0);
    assert_true(seen_as[NEITHER] >= 2 * forms[form].count && seen_as[NEW] >= forms[form].count);
}

static void a_save_killed_at_any_call_mixes_no_sets(void **state) {
    (void)state;
    if (need_tracer() != 0) skip();
    for (int form = 0; form < FORMS; form++)
        for (int there = 0; there < 2; there++) killed_at_each_call(form, there);
}

/* ---- calls that fail */

static bool may_be_survived(const char *name) {
    return strcmp(name, "close") == 0 || strcmp(name, "flock") == 0 || strcmp(name, "unlink") == 0;
}

/* A rename that failed is undone; a look at what is in the way, which may be another file's, ends in a refusal. */
static void judge(int form, bool there, const struct tracer_seen *seen, int error) {
    enum which which = set_look(form);
    const char *name = seen->name;
    bool reported = seen->exit_code != VIC_OK;
    if (which == MIXED || (which == NEITHER && there))
        fail_msg("%s: %s failing with %s left no whole set", forms[form].format, name, strerror(error));
    if (seen->exit_code & 128) fail_msg("%s failing with %s has no sentence", name, strerror(error));
    if (!reported && (which != NEW || !may_be_survived(name)))
        fail_msg("%s: %s failing with %s was not reported", forms[form].format, name, strerror(error));
    if (reported && which == NEW && strcmp(name, "fsync") != 0)
        fail_msg("%s: %s failed with %s after the last rename", forms[form].format, name, strerror(error));
    int64_t right = which == NEITHER ? 0 : forms[form].count;
    if (scratch_count() != right && strcmp(name, "unlink") != 0)
        fail_msg("%s: %s failing with %s left other files", forms[form].format, name, strerror(error));
}

static void every_call_failing_leaves_one_set(void **state) {
    static const int errors[] = {EIO, ENOSPC, EACCES};
    (void)state;
    if (need_tracer() != 0) skip();
    for (int form = 0; form < FORMS; form++)
        for (size_t i = 0; i < 2 * (sizeof errors / sizeof *errors); i++) {
            struct job job = job_of(form);
            struct tracer_plan plan = {.action = TRACER_FAIL, .error = errors[i / 2], .files_only = true};
            struct tracer_seen seen;
            int64_t reported = 0;
            for (plan.at = 1; set_reset(form, i % 2), seen = tracer_run(&plan, save_new, &job), seen.hit; plan.at++) {
                judge(form, i % 2, &seen, plan.error);
                reported += seen.exit_code != VIC_OK;
            }
            assert_int_equal(seen.exit_code, VIC_OK);
            assert_true(reported >= 8 * forms[form].count);
        }
}

/* What is in buffers when all is written meets a full disk as late as can be: nothing has been renamed then. */
static void a_disk_full_at_any_write_leaves_the_old_set(void **state) {
    (void)state;
    if (need_tracer() != 0) skip();
    for (int form = 0; form < FORMS; form++) {
        struct job job = job_of(form);
        struct tracer_plan plan = {.action = TRACER_FAIL, .error = ENOSPC, .of_name = "pwrite"};
        struct tracer_seen seen;
        for (plan.at = 1; set_reset(form, true), seen = tracer_run(&plan, save_new, &job), seen.hit; plan.at++) {
            assert_int_equal(seen.exit_code, VIC_NO_SPACE);
            assert_int_equal(set_look(form), OLD);
            assert_int_equal(scratch_count(), forms[form].count);
        }
        assert_true(plan.at > forms[form].count);
    }
}

static void every_file_is_durable_before_any_is_renamed(void **state) {
    (void)state;
    if (need_tracer() != 0) skip();
    for (int form = 0; form < FORMS; form++) {
        struct job job = job_of(form);
        const struct tracer_plan plan = {.action = TRACER_WATCH, .files_only = true};
        set_reset(form, true);
        struct tracer_seen seen = tracer_run(&plan, save_new, &job);
        const char *rename = strstr(seen.trail, "renameat"), *last = seen.trail;
        int count = 0;
        for (const char *at = seen.trail; (at = strstr(at, "fsync")) && at < rename; at++) count++, last = at;
        if (!rename || count != forms[form].count || strstr(rename, "pwrite") || !strstr(last, "fsync renameat"))
            fail_msg("found: %s", seen.trail);
    }
}

/* ---- opened meanwhile */

static bool same_graph(const struct vic_index *one, const struct vic_index *other) {
    size_t slots = (size_t)(one->graph.n * one->graph.degree);
    const struct graph_product *mine = one->graph.product, *its = other->graph.product;
    if (one->graph.degree != other->graph.degree || !mine != !its ||
        memcmp(one->graph.neighbours, other->graph.neighbours, slots * sizeof(uint32_t)) != 0 ||
        memcmp(one->corpus.rows.data, other->corpus.rows.data, N * DIM * sizeof(float)) != 0)
        return false;
    return !mine || (mine->pq.parts.max_norm == its->pq.parts.max_norm &&
                     memcmp(mine->codes, its->codes, (size_t)(N * mine->pq.parts.chunks)) == 0 &&
                     memcmp(&mine->error, &its->error, sizeof mine->error) == 0);
}

/* In the child. NEITHER: refused. */
static int open_it(void *argument) {
    const struct job *job = argument;
    struct vic_index *index = NULL;
    enum vic_status status = vic_index_open(test_device, job->path, NULL, &index);
    if (status != VIC_OK) return status == VIC_IO || status == VIC_NOT_FOUND ? NEITHER : MIXED;
    int found = same_graph(index, read_back[OLD][job->form]) ? OLD : same_graph(index, read_back[NEW][job->form]) ? NEW : MIXED;
    vic_index_free(index);
    return found;
}

static void meanwhile(void *argument) { must(save(argument, NEW)); }

static void a_set_that_is_replaced_while_it_is_opened_is_whole_or_refused(void **state) {
    (void)state;
    if (need_tracer() != 0) skip();
    for (int form = 0; form < FORMS; form++) {
        struct job job = job_of(form);
        struct tracer_plan plan = {.action = TRACER_MEET, .files_only = true, .meet = meanwhile};
        struct tracer_seen seen;
        int64_t seen_as[4] = {0};
        for (plan.at = 1; set_reset(form, true), seen = tracer_run(&plan, open_it, &job), seen.hit; plan.at++) {
            assert_in_range(seen.exit_code, OLD, MIXED);
            if (seen.exit_code == MIXED)
                fail_msg("%s: replaced before call %lld (%s), a mixed set was opened", forms[form].format, (long long)plan.at,
                         seen.name);
            seen_as[seen.exit_code]++;
        }
        assert_int_equal(seen.exit_code, OLD);
        assert_true(seen_as[OLD] > 0 && seen_as[NEW] > 0 && seen_as[NEITHER] > 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_save_killed_at_any_call_mixes_no_sets),
        cmocka_unit_test(every_call_failing_leaves_one_set),
        cmocka_unit_test(a_disk_full_at_any_write_leaves_the_old_set),
        cmocka_unit_test(every_file_is_durable_before_any_is_renamed),
        cmocka_unit_test(a_set_that_is_replaced_while_it_is_opened_is_whole_or_refused),
    };
    return cmocka_run_group_tests_name("diskann_set", tests, open_all, close_all);
}
