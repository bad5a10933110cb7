/* Ground truth in all its forms, read and written. */
#include "support/foreign.h"
#include "support/oracle.h"
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

static struct vic_truth read_or_end(const char *path) {
    struct vic_truth truth = {0};
    must(vic_truth_read(path, &truth));
    return truth;
}

static void refused(const char *path, enum vic_status status, const char *words) {
    struct vic_truth truth = {0};
    enum vic_status found = vic_truth_read(path, &truth);
    if (found != status || !strstr(vic_last_error(), words))
        print_message("%s: %s: \"%s\"\n", path, vic_status_name(found), vic_last_error());
    assert_int_equal(found, status);
    assert_non_null(strstr(vic_last_error(), words));
    assert_null(truth.ids); /* written only on success */
}

static void check_golden(const char *path, bool distances) {
    float expected[GOLDEN_ROWS * GOLDEN_DIM];
    struct vic_truth truth = read_or_end(path);
    golden_values(VIC_F32, expected);
    assert_int_equal(truth.nq, GOLDEN_ROWS);
    assert_int_equal(truth.k, GOLDEN_DIM);
    for (int64_t c = 0; c < GOLDEN_ROWS * GOLDEN_DIM; c++) assert_int_equal(truth.ids[c], c * 1000);
    assert_int_equal(truth.distances != NULL, distances);
    if (distances) assert_memory_equal(truth.distances, expected, sizeof expected);
    vic_truth_free(&truth);
    assert_null(truth.ids);
    assert_null(truth.distances);
}

static void files_of_other_programs_are_read(void **state) {
    (void)state;
    static const char *const alone[] = {"test/data/ids_only.bin", "test/data/ids.ivecs", "test/data/i4.npy",
                                        "test/data/i4_big.npy",   "test/data/i8.npy",    "test/data/u4.npy",
                                        "test/data/u8.npy"};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) check_golden(alone[i], false);
    check_golden("test/data/ids_distances.bin", true);
}

static void neighbours_in_hdf5_are_read_with_their_distances(void **state) {
    (void)state;
    struct vic_truth truth = {0};
    if (vic_truth_read("test/data/plain.hdf5", &truth) == VIC_UNSUPPORTED) {
        print_message("no libhdf5 here: not tested\n");
        skip();
    }
    vic_truth_free(&truth);
    check_golden("test/data/plain.hdf5", true);
    check_golden("test/data/packed.h5", true); /* 64-bit, most significant byte first */
    (void)vic_truth_read("test/data/f.fvecs", &truth);
    char before[512];
    (void)snprintf(before, sizeof before, "%s", vic_last_error());
    check_golden("test/data/sets.hdf5", false); /* has none, which is no failure and leaves no sentence */
    assert_string_equal(vic_last_error(), before);
}

static void what_is_no_truth_is_named(void **state) {
    (void)state;
    refused("test/data/f.fvecs", VIC_TYPE, "expected ids (i32, u32, i64, u64), found fvecs of f32");
    refused("test/data/f4.npy", VIC_TYPE, "found npy of f32");
    refused("test/data/f.fbin", VIC_TYPE, "found bin of f32");
    refused("test/data/bool.npy", VIC_TYPE, "found |b1");
    refused("test/data/README.md", VIC_FORMAT, "found lines of text");
    refused(scratch_path("nowhere.bin"), VIC_NOT_FOUND, "nowhere.bin");
    assert_int_equal(vic_truth_read("test/data/ids_only.bin", NULL), VIC_ARGUMENT);
    struct blob npy = blob_read("test/data/i4.npy");
    blob_write(scratch_path("array.bin"), npy.bytes, npy.size);
    refused(scratch_path("array.bin"), VIC_FORMAT, "it looks like an npy file of 5 rows of dim 3");
    blob_free(&npy);
}

/* Both readings of a .bin are decided by the exact size, in 64 bits. */
static void a_bin_of_any_other_size_is_refused(void **state) {
    (void)state;
    struct blob blob = blob_read("test/data/ids_distances.bin");
    const char *path = scratch_path("cut.bin");
    char words[48];
    blob_add(&blob, "", 1);
    for (size_t size = 0; size <= blob.size; size++) {
        if (size == 68 || size == 128) continue;
        blob_write(path, blob.bytes, size);
        (void)snprintf(words, sizeof words, "found %zu bytes", size);
        refused(path, VIC_FORMAT, words);
    }
    static const uint32_t shapes[][2] = {{0xffffffffu, 0xffffffffu},
                                         {0x80000000u, 0x80000000u},
                                         {0x40000000u, 0x40000000u},
                                         {1, 0xffffffffu},
                                         {0x10000u, 0x10000u}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        memcpy(blob.bytes, shapes[i], 8);
        blob_write(path, blob.bytes, 16);
        refused(path, VIC_FORMAT, "found 16 bytes");
    }
    blob_free(&blob);
}

static void no_queries_are_a_file_and_no_neighbours_are_not(void **state) {
    (void)state;
    const char *path = scratch_path("none.bin");
    const uint32_t none[2] = {0, 10}, no_k[2] = {10, 0};
    blob_write(path, (const unsigned char *)none, 8);
    struct vic_truth truth = read_or_end(path);
    assert_int_equal(truth.nq, 0);
    assert_int_equal(truth.k, 10);
    vic_truth_free(&truth);
    vic_truth_free(NULL);
    blob_write(path, (const unsigned char *)no_k, 8);
    refused(path, VIC_DIMENSION, "expected at least 1 neighbour a query, found 0");
}

/* All ones and -1 are an unused slot; any other negative number is no id. */
static void unused_slots_and_what_is_no_id(void **state) {
    (void)state;
    struct blob ivecs = {0}, bin = {0};
    blob_add_u32(&ivecs, 2);
    blob_add_u32(&ivecs, 7);
    blob_add_u32(&ivecs, UINT32_MAX);
    blob_write(scratch_path("slots.ivecs"), ivecs.bytes, ivecs.size);
    struct vic_truth truth = read_or_end(scratch_path("slots.ivecs"));
    assert_int_equal(truth.ids[0], 7);
    assert_int_equal(truth.ids[1], -1);
    vic_truth_free(&truth);
    ivecs.bytes[8] = 0xfe; /* -2 */
    blob_write(scratch_path("slots.ivecs"), ivecs.bytes, ivecs.size);
    refused(scratch_path("slots.ivecs"), VIC_ID,
            "expected an id, or -1 for an unused slot, found another value at query 0 slot 1");
    blob_add_u32(&bin, 1);
    blob_add_u32(&bin, 3);
    blob_add_u32(&bin, 0xfffffffeu);
    blob_add_u32(&bin, UINT32_MAX);
    blob_add_u32(&bin, 0x80000000u);
    blob_write(scratch_path("slots.bin"), bin.bytes, bin.size);
    truth = read_or_end(scratch_path("slots.bin"));
    assert_int_equal(truth.ids[0], INT64_C(0xfffffffe));
    assert_int_equal(truth.ids[1], -1);
    assert_int_equal(truth.ids[2], INT64_C(0x80000000));
    vic_truth_free(&truth);
    struct blob npy = blob_read("test/data/u8.npy");
    npy.bytes[npy.size - 1] = 0x80; /* beyond 2^63 */
    blob_write(scratch_path("slots.npy"), npy.bytes, npy.size);
    refused(scratch_path("slots.npy"), VIC_ID, "query 4 slot 2");
    blob_free(&npy);
    blob_free(&bin);
    blob_free(&ivecs);
}

static struct vic_truth truth_make(int64_t nq, int64_t k, bool distances) {
    struct random random = {.state = 5};
    struct vic_truth truth = {.nq = nq, .k = k, .ids = take((size_t)(nq * k) * sizeof(int64_t))};
    if (distances) truth.distances = take((size_t)(nq * k) * sizeof(float));
    for (int64_t c = 0; c < nq * k; c++) {
        truth.ids[c] = random_below(&random, 12) == 0 ? -1 : random_below(&random, INT64_C(0x7fffffff) + 1);
        if (distances) truth.distances[c] = random_unit(&random);
    }
    return truth;
}

/* More than a block of cells, k larger than any dim may be, one cell. */
static void what_is_written_is_read_back(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1}, {3000, 150}, {2, 70001}, {1, 300000}};
    static const struct {
        const char *name;
        bool distances;
    } forms[] = {{"t.bin", true}, {"t.bin", false}, {"t.ivecs", false}, {"t.npy", false}, {"T.NPY", true}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            struct vic_truth truth = truth_make(shapes[s][0], shapes[s][1], forms[f].distances);
            size_t cells = (size_t)(truth.nq * truth.k);
            must(vic_truth_write(scratch_path(forms[f].name), &truth));
            struct vic_truth found = read_or_end(scratch_path(forms[f].name));
            assert_int_equal(found.nq, truth.nq);
            assert_int_equal(found.k, truth.k);
            assert_memory_equal(found.ids, truth.ids, cells * sizeof *truth.ids);
            bool kept = forms[f].distances && strcmp(forms[f].name, "t.bin") == 0;
            assert_int_equal(found.distances != NULL, kept);
            if (kept) assert_memory_equal(found.distances, truth.distances, cells * sizeof *truth.distances);
            vic_truth_free(&found);
            free(truth.ids);
            free(truth.distances);
        }
    scratch_clear();
}

/* The same cells as other programs wrote them. */
static void bytes_are_those_of_other_programs(void **state) {
    (void)state;
    static const struct {
        const char *golden, *name;
        size_t from;
    } forms[] = {
        {"test/data/ids_distances.bin", "g.bin", 0}, {"test/data/ids.ivecs", "g.ivecs", 0}, {"test/data/i8.npy", "g.npy", 128}};
    float distances[GOLDEN_ROWS * GOLDEN_DIM];
    int64_t ids[GOLDEN_ROWS * GOLDEN_DIM];
    golden_values(VIC_F32, distances);
    for (int64_t c = 0; c < GOLDEN_ROWS * GOLDEN_DIM; c++) ids[c] = c * 1000;
    const struct vic_truth truth = {.nq = GOLDEN_ROWS, .k = GOLDEN_DIM, .ids = ids, .distances = distances};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        must(vic_truth_write(scratch_path(forms[i].name), &truth));
        struct blob expected = blob_read(forms[i].golden), found = blob_read(scratch_path(forms[i].name));
        assert_int_equal(found.size, expected.size);
        assert_memory_equal(found.bytes + forms[i].from, expected.bytes + forms[i].from, found.size - forms[i].from);
        blob_free(&expected);
        blob_free(&found);
    }
    scratch_clear();
}

static void ids_that_do_not_fit_are_refused_before_a_file_is_made(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t id;
        enum vic_status status;
    } rows[] = {
        {"i.bin", INT64_C(0xfffffffe), VIC_OK},
        {"i.bin", INT64_C(0xffffffff), VIC_ID},
        {"i.bin", INT64_C(1) << 40, VIC_ID},
        {"i.bin", -2, VIC_ID},
        {"i.ivecs", 0x7fffffff, VIC_OK},
        {"i.ivecs", INT64_C(0x80000000), VIC_ID},
        {"i.ivecs", -2, VIC_ID},
        {"i.npy", INT64_MAX, VIC_OK},
        {"i.npy", INT64_MIN, VIC_ID},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t ids[6] = {1, 2, 3, -1, rows[i].id, 5};
        const struct vic_truth truth = {.nq = 2, .k = 3, .ids = ids};
        scratch_clear();
        assert_int_equal(vic_truth_write(scratch_path(rows[i].name), &truth), rows[i].status);
        assert_int_equal(scratch_count(), rows[i].status == VIC_OK);
        if (rows[i].status == VIC_OK) {
            struct vic_truth found = read_or_end(scratch_path(rows[i].name));
            assert_memory_equal(found.ids, ids, sizeof ids);
            vic_truth_free(&found);
        } else {
            assert_non_null(strstr(vic_last_error(), "at query 1 slot 1"));
        }
    }
    scratch_clear();
}

static void shapes_and_names_that_do_not_fit_are_refused(void **state) {
    (void)state;
    int64_t id = 1;
    const struct vic_truth good = {.nq = 1, .k = 1, .ids = &id};
    struct vic_truth bad = good;
    assert_int_equal(vic_truth_write(scratch_path("t.csv"), &good), VIC_ARGUMENT);
    assert_non_null(strstr(vic_last_error(), "expected a path that ends in .bin, .ivecs or .npy"));
    assert_int_equal(vic_truth_write(scratch_path("t"), &good), VIC_ARGUMENT);
    assert_int_equal(vic_truth_write(NULL, &good), VIC_ARGUMENT);
    assert_int_equal(vic_truth_write(scratch_path("t.bin"), NULL), VIC_ARGUMENT);
    bad.k = 0;
    assert_int_equal(vic_truth_write(scratch_path("t.bin"), &bad), VIC_ARGUMENT);
    bad = good, bad.nq = INT64_C(1) << 32;
    assert_int_equal(vic_truth_write(scratch_path("t.bin"), &bad), VIC_ARGUMENT);
    bad = good, bad.ids = NULL;
    assert_int_equal(vic_truth_write(scratch_path("t.bin"), &bad), VIC_ARGUMENT);
    assert_int_equal(vic_truth_write(scratch_path("no/folder.bin"), &good), VIC_NOT_FOUND);
    assert_int_equal(scratch_count(), 0);
}

static void changed_bytes_stay_in_bounds(void **state) {
    (void)state;
    static const char *const names[] = {"ids_distances.bin", "ids_only.bin", "ids.ivecs", "u8.npy"};
    struct random random = {.state = 21};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char golden[64];
        (void)snprintf(golden, sizeof golden, "test/data/%s", names[i]);
        struct blob whole = blob_read(golden);
        for (int round = 0; round < 300; round++) {
            struct blob changed = blob_copy(&whole);
            struct vic_truth truth = {0};
            for (int flips = 0; flips < 2; flips++)
                changed.bytes[random_below(&random, (int64_t)changed.size)] ^= (unsigned char)(1 + random_below(&random, 255));
            blob_write(scratch_path(names[i]), changed.bytes, changed.size);
            if (vic_truth_read(scratch_path(names[i]), &truth) == VIC_OK)
                for (int64_t c = 0; c < truth.nq * truth.k; c++) assert_true(truth.ids[c] >= -1);
            vic_truth_free(&truth);
            blob_free(&changed);
        }
        blob_free(&whole);
    }
    scratch_clear();
}

static int truth_write_again(void *argument) { return (int)vic_truth_write(scratch_path("n.bin"), argument); }

static void the_nth_failing_call_leaves_the_old_file_whole(void **state) {
    (void)state;
    if (!tracer_available()) skip();
    struct vic_truth old = truth_make(5, 3, true), new = truth_make(200, 50, true);
    struct tracer_plan plan = {.action = TRACER_FAIL, .error = ENOSPC, .files_only = true};
    for (plan.at = 1;; plan.at++) {
        must(vic_truth_write(scratch_path("n.bin"), &old));
        struct tracer_seen seen = tracer_run(&plan, truth_write_again, &new);
        if (!seen.hit) break;
        struct vic_truth found = read_or_end(scratch_path("n.bin"));
        bool is_new = found.nq == new.nq;
        const struct vic_truth *expected = is_new ? &new : &old;
        assert_int_equal(found.nq, expected->nq);
        assert_memory_equal(found.ids, expected->ids, (size_t)(found.nq * found.k) * sizeof *found.ids);
        assert_true(seen.exit_code == VIC_NO_SPACE || (seen.exit_code == VIC_OK && is_new));
        assert_int_equal(scratch_count(), 1);
        vic_truth_free(&found);
    }
    assert_true(plan.at > 6);
    free(old.ids);
    free(old.distances);
    free(new.ids);
    free(new.distances);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_other_programs_are_read),
        cmocka_unit_test(neighbours_in_hdf5_are_read_with_their_distances),
        cmocka_unit_test(what_is_no_truth_is_named),
        cmocka_unit_test(a_bin_of_any_other_size_is_refused),
        cmocka_unit_test(no_queries_are_a_file_and_no_neighbours_are_not),
        cmocka_unit_test(unused_slots_and_what_is_no_id),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(bytes_are_those_of_other_programs),
        cmocka_unit_test(ids_that_do_not_fit_are_refused_before_a_file_is_made),
        cmocka_unit_test(shapes_and_names_that_do_not_fit_are_refused),
        cmocka_unit_test(changed_bytes_stay_in_bounds),
        cmocka_unit_test(the_nth_failing_call_leaves_the_old_file_whole),
    };
    return cmocka_run_group_tests_name("truth", tests, scratch_open, scratch_close);
}
