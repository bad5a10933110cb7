/* NULL and nonsense for every argument of every call on devices, indexes and searches: a status and a sentence that names
 * the argument or both numbers, never a signal, and what the caller holds is as it was. */
#include "support/scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static const float vectors[] = {1, 0, 0, 1, 1, 1}; /* three rows of dimension 2 */

struct fixture {
    struct vic_device *device;
    struct vic_index *index;
    struct vic_matrix rows, queries;
};

static int setup(void **state) {
    static struct fixture fixture;
    fixture.device = device_within(0, 2, NULL);
    fixture.rows = matrix_of(vectors, 3, 2, VIC_F32);
    fixture.queries = matrix_of(vectors, 2, 2, VIC_F32);
    must(vic_index_build(fixture.device, &fixture.rows, NULL, &fixture.index));
    *state = &fixture;
    return 0;
}

static int teardown(void **state) {
    struct fixture *fixture = *state;
    vic_index_free(fixture->index);
    vic_device_free(fixture->device);
    return 0;
}

/* The status, and each of the given words in the sentence. */
static void refused(enum vic_status status, enum vic_status right, const char *first, const char *second) {
    if (status != right || !strstr(vic_last_error(), first) || (second && !strstr(vic_last_error(), second)))
        fail_msg("expected %s with \"%s\" and \"%s\", found %s: %s", vic_status_name(right), first, second ? second : "",
                 vic_status_name(status), vic_last_error());
}

/* ---- devices */

static void devices_refuse_what_they_cannot_be(void **state) {
    (void)state;
    static const int32_t threads[] = {-1, INT32_MIN, 1025, INT32_MAX};
    struct vic_device *mark = (struct vic_device *)&mark, *device = mark;
    struct vic_device_options options = {.size = sizeof options, .name = "cpu"};
    refused(vic_device_open(&options, NULL), VIC_ARGUMENT, "NULL", NULL);
    for (int i = 0; i < 4; i++) {
        options.threads = threads[i];
        refused(vic_device_open(&options, &device), VIC_ARGUMENT, "threads", "1024");
    }
    options.threads = 1;
    static const char *const unknown[] = {"",     "gpu",   "cp", "cpuu", "cpu:", "cpu:x", "cpu:-1", "cpu:99999999999999999999",
                                          "CPU ", "cpu:0 "};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        options.name = unknown[i];
        refused(vic_device_open(&options, &device), VIC_ARGUMENT, "expected a device", "cpu");
    }
    options.name = "cpu:1";
    assert_true(vic_device_open(&options, &device) != VIC_OK);
    assert_non_null(strstr(vic_last_error(), "one CPU"));
    assert_ptr_equal(device, mark);
    vic_device_free(NULL);
}

static void one_allocator_function_alone_is_refused(void **state) {
    (void)state;
    struct vic_device *device = NULL;
    struct vic_device_options options = {.size = sizeof options, .name = "cpu", .threads = 1};
    options.allocator.allocate = (void *(*)(void *, size_t, size_t))(void (*)(void))setup; /* never called */
    refused(vic_device_open(&options, &device), VIC_ARGUMENT, "allocator", "both");
    options.allocator.allocate = NULL;
    options.allocator.release = (void (*)(void *, void *, size_t))(void (*)(void))setup;
    refused(vic_device_open(&options, &device), VIC_ARGUMENT, "allocator", "both");
    assert_null(device);
}

static void devices_say_their_names_and_are_found_by_them(void **state) {
    (void)state;
    static const char *const names[] = {NULL, "auto", "cpu", "cpu:0"};
    struct vic_device_info infos[4] = {
        {.size = sizeof infos[0]}, {.size = sizeof infos[0]}, {.size = sizeof infos[0]}, {.size = sizeof infos[0]}};
    int64_t count = -1, without = -1;
    must(vic_device_list(infos, 4, &count));
    must(vic_device_list(NULL, 0, &without));
    assert_true(count >= 1 && count == without);
    bool cpu = false;
    for (int64_t i = 0; i < count && i < 4; i++)
        cpu |= strcmp(infos[i].name, "cpu") == 0 && infos[i].usable && !infos[i].sentence[0];
    assert_true(cpu);
    for (int i = 0; i < 4; i++) {
        struct vic_device *device = NULL;
        struct vic_device_options options = {.size = sizeof options, .name = names[i], .threads = 2};
        struct vic_device_info info = {.size = sizeof info};
        must(vic_device_open(&options, &device));
        must(vic_device_info(device, &info));
        assert_int_equal(info.threads, 2);
        assert_true(info.usable && info.kernels[0] && info.model[0] && !info.sentence[0]);
        assert_true(info.host_bytes > 0 && info.host_used > 0 && info.host_peak >= info.host_used);
        vic_device_free(device);
    }
    refused(vic_device_list(infos, 4, NULL), VIC_ARGUMENT, "count", NULL);
    refused(vic_device_list(NULL, 1, &count), VIC_ARGUMENT, "1 devices", NULL);
    refused(vic_device_list(infos, -1, &count), VIC_ARGUMENT, "-1", NULL);
}

static void an_unknown_table_of_kernels_is_told_the_known(void **state) {
    (void)state;
    struct vic_device *device = NULL;
    struct vic_device_options options = {.size = sizeof options, .name = "cpu", .threads = 1};
    assert_int_equal(setenv("VICINAL_KERNELS", "avx1024", 1), 0);
    enum vic_status status = vic_device_open(&options, &device);
    assert_int_equal(unsetenv("VICINAL_KERNELS"), 0);
    assert_true(status == VIC_UNAVAILABLE || status == VIC_ARGUMENT);
    assert_non_null(strstr(vic_last_error(), "avx1024"));
    assert_non_null(strstr(vic_last_error(), "scalar"));
    assert_null(device);
}

/* ---- building */

static void building_refuses_null_and_contradictions(void **state) {
    struct fixture *fixture = *state;
    struct vic_index *mark = (struct vic_index *)&mark, *index = mark;
    struct vic_matrix rows = fixture->rows;
    refused(vic_index_build(NULL, &rows, NULL, &index), VIC_ARGUMENT, "a device", "NULL");
    refused(vic_index_build(fixture->device, NULL, NULL, &index), VIC_ARGUMENT, "rows", "NULL");
    refused(vic_index_build(fixture->device, &rows, NULL, NULL), VIC_ARGUMENT, "index", "NULL");
    rows.data = NULL;
    refused(vic_index_build(fixture->device, &rows, NULL, &index), VIC_ARGUMENT, "data for 3 rows", "NULL");
    rows = fixture->rows, rows.rows = -1;
    refused(vic_index_build(fixture->device, &rows, NULL, &index), VIC_ARGUMENT, "rows", "-1");
    rows = fixture->rows, rows.dim = 0;
    refused(vic_index_build(fixture->device, &rows, NULL, &index), VIC_DIMENSION, "65536", "found 0");
    rows = fixture->rows, rows.dim = 65537;
    refused(vic_index_build(fixture->device, &rows, NULL, &index), VIC_DIMENSION, "65536", "65537");
    rows = fixture->rows, rows.dtype = (enum vic_dtype)77;
    refused(vic_index_build(fixture->device, &rows, NULL, &index), VIC_ARGUMENT, "dtype", "77");
    rows = fixture->rows, rows.place = VIC_DEVICE;
    refused(vic_index_build(fixture->device, &rows, NULL, &index), VIC_ARGUMENT, "rows", "host memory");
    rows = fixture->rows, rows.place = (enum vic_place)9;
    refused(vic_index_build(fixture->device, &rows, NULL, &index), VIC_ARGUMENT, "place", "9");
    rows = fixture->rows, rows.rows = INT64_C(1) << 40, rows.stride_bytes = INT64_C(1) << 40;
    refused(vic_index_build(fixture->device, &rows, NULL, &index), VIC_ARGUMENT, "1099511627776", "larger than memory");
    rows.stride_bytes = INT64_MIN;
    refused(vic_index_build(fixture->device, &rows, NULL, &index), VIC_ARGUMENT, "larger than memory", NULL);
    rows = fixture->rows, rows.rows = INT64_C(4294967295);
    refused(vic_index_build(fixture->device, &rows, NULL, &index), VIC_ARGUMENT, "4294967294", "4294967295");
    assert_ptr_equal(index, mark);
}

static void building_refuses_options_out_of_range(void **state) {
    struct fixture *fixture = *state;
    static const int64_t offsets[] = {0, 1, 2, 3};
    struct vic_texts four = {"abcd", offsets, 4}, none = {"", NULL, 3};
    struct vic_index *mark = (struct vic_index *)&mark, *index = mark;
    struct vic_build_options options = {.size = sizeof options, .metric = (enum vic_metric)4};
    refused(vic_index_build(fixture->device, &fixture->rows, &options, &index), VIC_ARGUMENT, "metric", "4");
    options.metric = (enum vic_metric) - 1;
    refused(vic_index_build(fixture->device, &fixture->rows, &options, &index), VIC_ARGUMENT, "metric", "-1");
    options = (struct vic_build_options){.size = sizeof options, .dtype = (enum vic_dtype)6};
    refused(vic_index_build(fixture->device, &fixture->rows, &options, &index), VIC_ARGUMENT, "dtype", "6");
    options = (struct vic_build_options){.size = sizeof options, .texts = &four};
    refused(vic_index_build(fixture->device, &fixture->rows, &options, &index), VIC_DIMENSION, "3 rows", "4 texts");
    options.texts = &none;
    refused(vic_index_build(fixture->device, &fixture->rows, &options, &index), VIC_ARGUMENT, "texts", "NULL");
    options = (struct vic_build_options){.size = sizeof options, .metadata = "[1]"};
    refused(vic_index_build(fixture->device, &fixture->rows, &options, &index), VIC_ARGUMENT, "JSON object", NULL);
    refused(vic_index_build_file(NULL, "x", NULL, &index), VIC_ARGUMENT, "a device", NULL);
    refused(vic_index_build_file(fixture->device, NULL, NULL, &index), VIC_ARGUMENT, "path", NULL);
    refused(vic_index_build_file(fixture->device, "x", NULL, NULL), VIC_ARGUMENT, "index", NULL);
    refused(vic_index_build_file(fixture->device, "/no/such/file.fvecs", NULL, &index), VIC_NOT_FOUND, "/no/such/file.fvecs",
            NULL);
    refused(vic_index_open(NULL, "x", NULL, &index), VIC_ARGUMENT, "a device", NULL);
    refused(vic_index_open(fixture->device, NULL, NULL, &index), VIC_ARGUMENT, "path", NULL);
    refused(vic_index_open(fixture->device, "x", NULL, NULL), VIC_ARGUMENT, "index", NULL);
    refused(vic_index_open(fixture->device, "/no/such/index", NULL, &index), VIC_NOT_FOUND, "/no/such/index", NULL);
    refused(vic_index_save(NULL, "x", NULL), VIC_ARGUMENT, "an index", NULL);
    refused(vic_index_save(fixture->index, NULL, NULL), VIC_ARGUMENT, "path", NULL);
    assert_ptr_equal(index, mark);
}

static void planning_refuses_null_and_shapes_beyond_the_limits(void **state) {
    struct fixture *fixture = *state;
    struct vic_plan plan = {.size = sizeof plan, .row_bytes = 77};
    refused(vic_index_plan(NULL, 1, 1, NULL, &plan), VIC_ARGUMENT, "a device", NULL);
    refused(vic_index_plan(fixture->device, 1, 1, NULL, NULL), VIC_ARGUMENT, "vic_plan", "NULL");
    refused(vic_index_plan(fixture->device, -1, 1, NULL, &plan), VIC_ARGUMENT, "-1", "4294967294");
    refused(vic_index_plan(fixture->device, INT64_C(4294967295), 1, NULL, &plan), VIC_ARGUMENT, "4294967295", "4294967294");
    refused(vic_index_plan(fixture->device, 1, 0, NULL, &plan), VIC_DIMENSION, "found 0", "65536");
    refused(vic_index_plan(fixture->device, 1, 65537, NULL, &plan), VIC_DIMENSION, "65537", "65536");
    assert_int_equal(plan.row_bytes, 77);
}

/* ---- questions about an index */

static void an_index_is_asked_only_for_what_it_has(void **state) {
    struct fixture *fixture = *state;
    const char *text = NULL;
    size_t bytes = 0;
    float out[2];
    int64_t ids[4] = {71, 72, 73, 74};
    struct vic_index_info info = {.size = sizeof info};
    refused(vic_index_info(NULL, &info), VIC_ARGUMENT, "an index", NULL);
    refused(vic_index_info(fixture->index, NULL), VIC_ARGUMENT, "vic_index_info", NULL);
    refused(vic_index_check(NULL, NULL), VIC_ARGUMENT, "an index", NULL);
    refused(vic_index_text(NULL, 0, &text, &bytes), VIC_ARGUMENT, "an index", NULL);
    refused(vic_index_text(fixture->index, 0, NULL, &bytes), VIC_ARGUMENT, "text", NULL);
    refused(vic_index_text(fixture->index, 0, &text, NULL), VIC_ARGUMENT, "length", NULL);
    refused(vic_index_text(fixture->index, 0, &text, &bytes), VIC_NOT_FOUND, "no texts", NULL);
    refused(vic_index_text(fixture->index, 3, &text, &bytes), VIC_NOT_FOUND, "id 3", NULL);
    refused(vic_index_vector(NULL, 0, out), VIC_ARGUMENT, "an index", NULL);
    refused(vic_index_vector(fixture->index, 0, NULL), VIC_ARGUMENT, "vector", NULL);
    refused(vic_index_vector(fixture->index, -1, out), VIC_NOT_FOUND, "id -1", NULL);
    refused(vic_index_vector(fixture->index, INT64_MAX, out), VIC_NOT_FOUND, "9223372036854775807", NULL);
    refused(vic_index_ids(NULL, 0, 1, ids), VIC_ARGUMENT, "an index", NULL);
    refused(vic_index_ids(fixture->index, 0, 1, NULL), VIC_ARGUMENT, "ids", NULL);
    refused(vic_index_ids(fixture->index, -1, 1, ids), VIC_ARGUMENT, "row -1", NULL);
    refused(vic_index_ids(fixture->index, 0, -1, ids), VIC_ARGUMENT, "-1 rows", NULL);
    refused(vic_index_ids(fixture->index, 0, 4, ids), VIC_ARGUMENT, "4 rows", "to 3");
    refused(vic_index_ids(fixture->index, 4, 0, ids), VIC_ARGUMENT, "row 4", NULL);
    refused(vic_index_ids(fixture->index, 2, INT64_MAX, ids), VIC_ARGUMENT, "9223372036854775807", NULL);
    refused(vic_index_ids(fixture->index, INT64_MAX, INT64_MAX, ids), VIC_ARGUMENT, "9223372036854775807", NULL);
    must(vic_index_ids(fixture->index, 3, 0, NULL));
    must(vic_index_ids(fixture->index, 1, 2, ids));
    assert_true(ids[0] == 1 && ids[1] == 2 && ids[2] == 73);
    vic_index_free(NULL);
}

/* ---- the three searches, which share their first arguments */

enum question { SEARCH, WITHIN, SCORE, QUESTIONS };

struct arrays {
    int64_t ids[16], offsets[9];
    float scores[16];
    int32_t counts[8];
};

static enum vic_status ask(enum question question, const struct vic_index *index, const struct vic_matrix *queries, int64_t k,
                           const struct vic_search_options *options, struct arrays *arrays) {
    static const int64_t given[16];
    struct vic_hits hits = {arrays->ids, arrays->scores, arrays->counts, VIC_HOST};
    struct vic_ranges ranges = {arrays->offsets, arrays->ids, arrays->scores, 16};
    if (question == SEARCH) return vic_index_search(index, queries, k, options, &hits);
    if (question == WITHIN) return vic_index_within(index, queries, 0.5f, options, &ranges);
    return vic_index_score(index, queries, given, k, options, arrays->scores);
}

static void every_search_refuses_null_and_wrong_queries(void **state) {
    struct fixture *fixture = *state;
    static const float wide[8];
    static const signed char bytes[4];
    struct arrays arrays, before;
    memset(&arrays, 0x5A, sizeof arrays);
    before = arrays;
    for (enum question question = 0; question < QUESTIONS; question++) {
        struct vic_matrix queries = fixture->queries;
        refused(ask(question, NULL, &queries, 1, NULL, &arrays), VIC_ARGUMENT, "an index", NULL);
        refused(ask(question, fixture->index, NULL, 1, NULL, &arrays), VIC_ARGUMENT, "queries", "NULL");
        queries.data = NULL;
        refused(ask(question, fixture->index, &queries, 1, NULL, &arrays), VIC_ARGUMENT, "queries", "NULL");
        queries = matrix_of(wide, 2, 4, VIC_F32);
        refused(ask(question, fixture->index, &queries, 1, NULL, &arrays), VIC_DIMENSION, "queries of dimension 2", "found 4");
        queries = fixture->queries, queries.rows = -2;
        refused(ask(question, fixture->index, &queries, 1, NULL, &arrays), VIC_ARGUMENT, "queries", "-2");
        queries = fixture->queries, queries.place = VIC_DEVICE;
        refused(ask(question, fixture->index, &queries, 1, NULL, &arrays), VIC_ARGUMENT, "queries", "host memory");
        queries = matrix_of(bytes, 2, 2, VIC_I8);
        refused(ask(question, fixture->index, &queries, 1, NULL, &arrays), VIC_TYPE, "f32", "i8");
        queries = matrix_of(bytes, 1, 2, VIC_F16);
        refused(ask(question, fixture->index, &queries, 1, NULL, &arrays), VIC_TYPE, "f32", "f16");
        queries = matrix_of(bytes, 1, 2, (enum vic_dtype)8);
        refused(ask(question, fixture->index, &queries, 1, NULL, &arrays), VIC_ARGUMENT, "dtype", "8");
    }
    arrays.offsets[0] = before.offsets[0]; /* a threshold search may have begun to count */
    assert_memory_equal(&arrays, &before, sizeof arrays);
}

static void every_search_refuses_wrong_options(void **state) {
    struct fixture *fixture = *state;
    struct arrays arrays;
    for (enum question question = 0; question < QUESTIONS; question++) {
        struct vic_search_options options = {.size = 0};
        refused(ask(question, fixture->index, &fixture->queries, 1, &options, &arrays), VIC_ARGUMENT, "vic_search_options",
                NULL);
        options = (struct vic_search_options){.size = sizeof options, .stream = &arrays};
        refused(ask(question, fixture->index, &fixture->queries, 1, &options, &arrays), VIC_ARGUMENT, "stream", "CPU");
        options = (struct vic_search_options){.size = sizeof options, .path = (enum vic_path)99};
        refused(ask(question, fixture->index, &fixture->queries, 1, &options, &arrays), VIC_ARGUMENT, "path", "99");
        options.path = (enum vic_path) - 1;
        refused(ask(question, fixture->index, &fixture->queries, 1, &options, &arrays), VIC_ARGUMENT, "path", "-1");
        struct vic_search_stats unset = {0};
        options = (struct vic_search_options){.size = sizeof options, .stats = &unset};
        refused(ask(question, fixture->index, &fixture->queries, 1, &options, &arrays), VIC_ARGUMENT, "vic_search_stats", NULL);
    }
}

/* Small ones are no count of hits; large ones cannot be had: both numbers, and nothing wraps. */
static void counts_of_hits_out_of_range_are_refused(void **state) {
    struct fixture *fixture = *state;
    static const int64_t small[] = {0, -1, INT64_MIN},
                         large[] = {INT64_C(1) << 40, INT64_C(1) << 60, INT64_C(1) << 62, INT64_MAX};
    struct arrays arrays, before;
    memset(&arrays, 0x5A, sizeof arrays);
    before = arrays;
    for (enum question question = SEARCH; question < QUESTIONS; question += SCORE) {
        for (int i = 0; i < 3; i++) {
            char number[24];
            (void)snprintf(number, sizeof number, "found %lld", (long long)small[i]);
            refused(ask(question, fixture->index, &fixture->queries, small[i], NULL, &arrays), VIC_ARGUMENT, "at least 1",
                    number);
        }
        for (int i = 0; i < 4; i++)
            refused(ask(question, fixture->index, &fixture->queries, large[i], NULL, &arrays), VIC_NO_MEMORY, "needs",
                    "available");
    }
    struct vic_matrix none = matrix_of(NULL, 0, 2, VIC_F32);
    refused(ask(SEARCH, fixture->index, &none, 0, NULL, &arrays), VIC_ARGUMENT, "at least 1", NULL);
    assert_memory_equal(&arrays, &before, sizeof arrays);
}

static void missing_places_for_answers_are_named(void **state) {
    struct fixture *fixture = *state;
    struct arrays arrays;
    struct vic_hits no_ids = {NULL, arrays.scores, arrays.counts, VIC_HOST};
    struct vic_hits on_device = {arrays.ids, arrays.scores, arrays.counts, VIC_DEVICE};
    struct vic_ranges no_offsets = {NULL, arrays.ids, arrays.scores, 16}, no_room = {arrays.offsets, NULL, NULL, 16};
    struct vic_ranges negative = {arrays.offsets, arrays.ids, arrays.scores, -1};
    refused(vic_index_search(fixture->index, &fixture->queries, 1, NULL, NULL), VIC_ARGUMENT, "hits", NULL);
    refused(vic_index_search(fixture->index, &fixture->queries, 1, NULL, &no_ids), VIC_ARGUMENT, "hits.ids", NULL);
    refused(vic_index_search(fixture->index, &fixture->queries, 1, NULL, &on_device), VIC_ARGUMENT, "hits", "host memory");
    refused(vic_index_within(fixture->index, &fixture->queries, 1, NULL, NULL), VIC_ARGUMENT, "ranges", NULL);
    refused(vic_index_within(fixture->index, &fixture->queries, 1, NULL, &no_offsets), VIC_ARGUMENT, "ranges.offsets", NULL);
    refused(vic_index_within(fixture->index, &fixture->queries, 1, NULL, &no_room), VIC_ARGUMENT, "ranges.ids", NULL);
    refused(vic_index_within(fixture->index, &fixture->queries, 1, NULL, &negative), VIC_ARGUMENT, "capacity", "-1");
    struct vic_ranges ranges = {arrays.offsets, arrays.ids, arrays.scores, 16};
    refused(vic_index_within(fixture->index, &fixture->queries, NAN, NULL, &ranges), VIC_ARGUMENT, "NaN", NULL);
    refused(vic_index_score(fixture->index, &fixture->queries, NULL, 1, NULL, arrays.scores), VIC_ARGUMENT, "ids", NULL);
    refused(vic_index_score(fixture->index, &fixture->queries, arrays.offsets, 1, NULL, NULL), VIC_ARGUMENT, "scores", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_refuse_what_they_cannot_be),
        cmocka_unit_test(one_allocator_function_alone_is_refused),
        cmocka_unit_test(devices_say_their_names_and_are_found_by_them),
        cmocka_unit_test(an_unknown_table_of_kernels_is_told_the_known),
        cmocka_unit_test(building_refuses_null_and_contradictions),
        cmocka_unit_test(building_refuses_options_out_of_range),
        cmocka_unit_test(planning_refuses_null_and_shapes_beyond_the_limits),
        cmocka_unit_test(an_index_is_asked_only_for_what_it_has),
        cmocka_unit_test(every_search_refuses_null_and_wrong_queries),
        cmocka_unit_test(every_search_refuses_wrong_options),
        cmocka_unit_test(counts_of_hits_out_of_range_are_refused),
        cmocka_unit_test(missing_places_for_answers_are_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
