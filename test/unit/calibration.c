/* The file of what searches cost: believed when it is ours and possible, else as if it were not there; and answers have the
 * same bytes whatever it says. */
#include "index/calibration.h"
#include "support/scene.h"
#include "support/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The costs that a device has which opens now. */
static struct costs costs_now(void) {
    struct vic_device *device = device_within(0, 2, NULL);
    struct costs costs = device->costs;
    vic_device_free(device);
    return costs;
}

static void assert_builtin(const char *what) {
    struct costs costs = costs_now();
    if (memcmp(&costs, &costs_builtin, sizeof costs) != 0) fail_msg("believed: %s", what);
}

static const char *file_path(void) {
    (void)mkdir(scratch_path("vicinal"), 0700);
    return scratch_path("vicinal/calibration.json");
}

static void file_put(const char *text) { blob_write(file_path(), (const unsigned char *)text, strlen(text)); }

/* A file for this processor: all five numbers, the one called `name` replaced by `value`; NULL: none. */
static void file_make(const char *name, const char *value) {
    static const char *const numbers[][2] = {{"scan_bytes_s", "3e10"},
                                             {"plane_8_bytes_s", "2e10"},
                                             {"plane_4_bytes_s", "1e10"},
                                             {"rescore_cost", "3"},
                                             {"handover_us", "50"}};
    struct vic_device_info info = {.size = sizeof info};
    char text[2048];
    must(cpu_backend.describe(0, &info));
    int at = snprintf(text, sizeof text, "{\"vicinal_calibration\": 1, \"model\": \"%s\", \"kernels\": \"%s\"", info.model,
                      info.kernels);
    for (size_t i = 0; i < COUNT(numbers); i++)
        at += snprintf(text + at, sizeof text - (size_t)at, ", \"%s\": %s", numbers[i][0],
                       name && strcmp(name, numbers[i][0]) == 0 ? value : numbers[i][1]);
    (void)snprintf(text + at, sizeof text - (size_t)at, "}");
    file_put(text);
}

static int setup(void **state) {
    int failed = scratch_open(state);
    return failed || setenv("XDG_CACHE_HOME", scratch_folder(), 1);
}

static void our_file_is_believed(void **state) {
    (void)state;
    file_make(NULL, NULL);
    struct costs costs = costs_now();
    assert_true(costs.scan_bytes_s == 3e10 && costs.plane_bytes_s[PLANE_8] == 2e10 && costs.plane_bytes_s[PLANE_4] == 1e10);
    assert_true(costs.rescore_cost == 3 && costs.handover_us == 50);
}

static void numbers_that_no_machine_has_change_nothing(void **state) {
    (void)state;
    static const char *const names[] = {"scan_bytes_s", "plane_8_bytes_s", "plane_4_bytes_s", "rescore_cost", "handover_us"};
    static const char *const values[] = {"0",      "-1",   "-3e10", "1e15", "1e300", "1e999",
                                         "1e-300", "null", "\"3\"", "[3]",  "true",  "NaN"};
    for (size_t i = 0; i < COUNT(names); i++)
        for (size_t j = 0; j < COUNT(values); j++) {
            file_make(names[i], values[j]);
            assert_builtin(values[j]);
        }
}

static void files_that_are_not_ours_change_nothing(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        " ",
                                        "{",
                                        "{}",
                                        "[]",
                                        "null",
                                        "\xff\xfe",
                                        "{\"vicinal_calibration\": 1}",
                                        "{\"vicinal_calibration\": 2, \"model\": \"\"}",
                                        "{\"vicinal_calibration\": 1, \"model\": 7, \"kernels\": []}"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        file_put(texts[i]);
        assert_builtin(texts[i]);
    }
    /* another processor's, another table of kernels', another version's, and one cut short anywhere */
    file_make(NULL, NULL);
    struct blob good = blob_read(file_path());
    static const char *const keys[] = {"\"vicinal_calibration\": 1", "\"model\": \"", "\"kernels\": \""};
    for (size_t i = 0; i < COUNT(keys); i++) {
        struct blob other = blob_copy(&good);
        other.bytes[other.size] = '\0';
        char *place = strstr((char *)other.bytes, keys[i]);
        assert_non_null(place);
        place[strlen(keys[i]) - (i == 0)] = '7';
        blob_write(file_path(), other.bytes, other.size);
        assert_builtin(keys[i]);
        blob_free(&other);
    }
    for (size_t size = 0; size < good.size; size += 7) {
        blob_write(file_path(), good.bytes, size);
        assert_builtin("a file cut short");
    }
    blob_free(&good);
}

static void what_is_no_small_file_changes_nothing(void **state) {
    (void)state;
    static unsigned char large[1 << 20];
    memset(large, ' ', sizeof large);
    blob_write(file_path(), large, sizeof large);
    assert_builtin("a large file");
    assert_int_equal(unlink(file_path()), 0);
    assert_builtin("no file");
    assert_int_equal(mkfifo(file_path(), 0600), 0);
    assert_builtin("a pipe");
    assert_int_equal(unlink(file_path()), 0);
    assert_int_equal(mkdir(file_path(), 0700), 0);
    assert_builtin("a folder");
    assert_int_equal(rmdir(file_path()), 0);
    assert_int_equal(symlink("calibration.json", file_path()), 0);
    assert_builtin("a link to itself");
    assert_int_equal(unlink(file_path()), 0);
}

static void reading_leaves_no_trace(void **state) {
    (void)state;
    struct vic_device *none = NULL;
    struct vic_device_options wrong = {.size = sizeof wrong, .name = "abacus"};
    char before[512];
    assert_int_equal(vic_device_open(&wrong, &none), VIC_ARGUMENT);
    (void)snprintf(before, sizeof before, "%s", vic_last_error());
    file_put("{nothing");
    errno = 77;
    assert_builtin("{nothing");
    assert_int_equal(errno, 77);
    assert_string_equal(vic_last_error(), before);
    struct blob same = blob_read(file_path());
    assert_int_equal(same.size, strlen("{nothing"));
    blob_free(&same);
    assert_int_equal(unlink(file_path()), 0);
    (void)costs_now();
    assert_int_equal(access(file_path(), F_OK), -1);
}

/* The same searches with files at the ends of what is believed, on an index that has chosen its planes by them. */
static void answers_do_not_depend_on_it(void **state) {
    (void)state;
    enum { N = 9000, NQ = 9, DIM = 128, K = 20 };
    struct random random = test_random(1);
    float *values = take((N + NQ) * DIM * sizeof *values);
    for (int64_t i = 0; i < (N + NQ) * DIM; i++)
        values[i] = i < 50 * DIM ? random_normal(&random) : values[i % (50 * DIM)] + 0.1f * random_normal(&random);
    static const char *const files[][2] = {{NULL, NULL},
                                           {"rescore_cost", "1"},
                                           {"rescore_cost", "20"},
                                           {"handover_us", "0.1"},
                                           {"handover_us", "10000"},
                                           {"scan_bytes_s", "1e8"},
                                           {"scan_bytes_s", "1e13"}};
    int64_t right_ids[NQ * K], ids[NQ * K];
    float right_scores[NQ * K], scores[NQ * K];
    for (size_t i = 0; i <= COUNT(files); i++) {
        if (i > 0) file_make(files[i - 1][0], files[i - 1][1]);
        struct vic_device *device = device_within(0, 2, NULL);
        struct vic_index *index = NULL;
        struct vic_matrix rows = matrix_of(values, N, DIM, VIC_F32), queries = matrix_of(values + N * DIM, NQ, DIM, VIC_F32);
        struct vic_hits hits = {.ids = i ? ids : right_ids, .scores = i ? scores : right_scores};
        struct vic_build_options options = {
            .size = sizeof options, .metric = VIC_L2, .planes = i % 2 ? 0 : VIC_PLANES_8 | VIC_PLANES_4};
        must(vic_index_build(device, &rows, &options, &index));
        for (int64_t nq = 1; nq <= NQ; nq += NQ - 1) {
            queries.rows = nq;
            must(vic_index_search(index, &queries, K, NULL, &hits));
            if (i == 0) continue;
            assert_memory_equal(ids, right_ids, (size_t)(nq * K) * sizeof *ids);
            assert_memory_equal(scores, right_scores, (size_t)(nq * K) * sizeof *scores);
        }
        vic_index_free(index);
        vic_device_free(device);
    }
    free(values);
    test_done();
}

static void measuring_is_kept_and_read_again(void **state) {
    (void)state;
    (void)unlink(file_path());
    struct vic_device *device = device_within(0, 2, NULL);
    struct vic_calibration found = {.size = sizeof found};
    uint64_t held = atomic_load(&device->host.used);
    must(vic_device_calibrate(device, NULL, &found));
    assert_true(costs_sane(&device->costs));
    assert_true(atomic_load(&device->host.used) == held);
    assert_true(found.scan_bytes_s == device->costs.scan_bytes_s && found.rescore_cost == device->costs.rescore_cost);
    assert_true(found.plane_4_bytes_s == device->costs.plane_bytes_s[PLANE_4] && found.seconds > 0);
    struct costs again = costs_now();
    assert_true(again.scan_bytes_s > 0.9999 * found.scan_bytes_s && again.scan_bytes_s < 1.0001 * found.scan_bytes_s);
    assert_true(again.handover_us > 0.9999 * found.handover_us && again.handover_us < 1.0001 * found.handover_us);
    vic_device_free(device);
}

static void measuring_that_fails_says_why_and_leaves_the_costs(void **state) {
    (void)state;
    struct vic_device *device = NULL;
    struct vic_device_options small = {.size = sizeof small, .name = "cpu", .host_bytes = 40 << 20};
    assert_int_equal(vic_device_calibrate(NULL, NULL, NULL), VIC_ARGUMENT);
    (void)unlink(file_path());
    must(vic_device_open(&small, &device));
    uint64_t held = atomic_load(&device->host.used);
    assert_int_equal(vic_device_calibrate(device, NULL, NULL), VIC_BUDGET);
    assert_memory_equal(&device->costs, &costs_builtin, sizeof costs_builtin);
    assert_true(atomic_load(&device->host.used) == held);
    assert_int_equal(access(file_path(), F_OK), -1);
    vic_device_free(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_file_is_believed),
        cmocka_unit_test(numbers_that_no_machine_has_change_nothing),
        cmocka_unit_test(files_that_are_not_ours_change_nothing),
        cmocka_unit_test(what_is_no_small_file_changes_nothing),
        cmocka_unit_test(reading_leaves_no_trace),
        cmocka_unit_test_teardown(answers_do_not_depend_on_it, test_tell),
        cmocka_unit_test(measuring_is_kept_and_read_again),
        cmocka_unit_test(measuring_that_fails_says_why_and_leaves_the_costs),
    };
    return cmocka_run_group_tests(tests, setup, scratch_close);
}
