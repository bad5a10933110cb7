/* FMT-04: every prefix and every single flipped bit of a small index. A prefix is refused. A flip is refused at open, or
 * the index answers within its bounds (the sanitizers' build is what sees that) and a check finds it. */
#include "support/oracle.h"
#include "support/sample.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const struct sample samples[] = {
    {20, 3, VIC_F32, VIC_COSINE, true, true, "{\"a\":1}", 3, 0},
    {20, 5, VIC_U8, VIC_L2, false, false, NULL, 4, 0},
    {5, 3, VIC_F32, VIC_L2, false, false, NULL, 5, VIC_PLANES_8 | VIC_PLANES_4},
    {18, 3, VIC_F32, VIC_DOT, false, false, NULL, 6, SAMPLE_GRAPH},
    {7, 3, VIC_F32, VIC_L2, false, false, NULL, 7, SAMPLE_PRODUCT},
};

static void FMT_04_every_prefix_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        vic_index_free(sample_build(test_device, &samples[i], scratch_path("whole")));
        struct blob blob = blob_read(scratch_path("whole"));
        const char *path = scratch_path("prefix");
        blob_write(path, blob.bytes, blob.size);
        struct vic_index *index = NULL;
        for (size_t size = blob.size; size-- > 0;) {
            assert_int_equal(truncate(path, (off_t)size), 0);
            assert_int_equal(sample_try_open(test_device, path, (int32_t)(size & 1), &index), VIC_FORMAT);
            assert_null(index);
            struct vic_file_info info = {.size = sizeof info};
            if (size >= 8 && size % 16 == 0) {
                must(vic_file_info(path, &info));
                assert_string_equal(info.format, "vicinal");
            }
        }
        blob_free(&blob);
    }
}

/* One flipped bit in the file behind `path`; returns whether opening already refused it. */
static bool flip_refused_at_open(const char *path, size_t at) {
    struct vic_index *index = NULL;
    enum vic_status status = sample_try_open(test_device, path, 1, &index);
    assert_null(index);
    if (status != VIC_CHECKSUM && status != VIC_FORMAT) fail_msg("byte %zu: a check gave %s", at, vic_status_name(status));
    status = sample_try_open(test_device, path, 0, &index);
    if (status != VIC_OK) {
        assert_true(status == VIC_CHECKSUM || status == VIC_FORMAT);
        assert_null(index);
        return true;
    }
    status = sample_probe(index);
    if (status != VIC_CHECKSUM) fail_msg("byte %zu: checking the open index gave %s", at, vic_status_name(status));
    vic_index_free(index);
    return false;
}

static void FMT_04_every_flip_is_refused_or_within_bounds_and_always_found_by_check(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const char *path = scratch_path("flipped");
        vic_index_free(sample_build(test_device, &samples[i], path));
        struct blob blob = blob_read(path);
        int64_t opened = 0;
        int file = open(path, O_WRONLY);
        for (size_t at = 0; at < blob.size; at++) {
            for (unsigned bit = 0; bit < 8; bit++) {
                unsigned char flipped = (unsigned char)(blob.bytes[at] ^ (1u << bit));
                assert_int_equal(pwrite(file, &flipped, 1, (off_t)at), 1);
                bool refused = flip_refused_at_open(path, at);
                if (at < PAGE) assert_true(refused); /* the page is always verified */
                opened += !refused;
            }
            assert_int_equal(pwrite(file, &blob.bytes[at], 1, (off_t)at), 1);
        }
        (void)close(file);
        assert_true(blob_equals_file(&blob, path));
        assert_true(opened > 8 * samples[i].n * samples[i].dim); /* flips of rows do open: the other half was tested */
        blob_free(&blob);
    }
}

/* The same with the sums made right, as a hostile writer would: nothing but bounds is left to hold it. */
static void sealed_flips(const struct sample *sample) {
    const char *path = scratch_path("sealed");
    vic_index_free(sample_build(test_device, sample, path));
    struct blob good = blob_read(path);
    size_t unread = PAGE_ENTRIES + ENTRY * ((size_t)page_get(&good, PAGE_COUNT, 4) + 1); /* up to the checksum */
    int64_t opened = 0;
    for (size_t at = 0; at < good.size; at++) {
        if (at == unread) at = PAGE_CHECKSUM;
        for (unsigned bit = 0; bit < 8; bit++) {
            struct blob blob = blob_copy(&good);
            struct vic_index *index = NULL;
            blob.bytes[at] ^= (unsigned char)(1u << bit);
            page_seal(&blob);
            blob_write(path, blob.bytes, blob.size);
            if (sample_try_open(test_device, path, 0, &index) == VIC_OK) (void)sample_probe(index), opened++;
            vic_index_free(index);
            blob_free(&blob);
        }
    }
    assert_true(opened > 0);
    blob_free(&good);
}

static void every_flip_with_right_sums_stays_within_bounds(void **state) {
    (void)state;
    sealed_flips(&samples[0]);
    sealed_flips(&samples[2]);
    sealed_flips(&samples[3]);
    sealed_flips(&samples[4]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(FMT_04_every_prefix_is_refused),
        cmocka_unit_test(FMT_04_every_flip_is_refused_or_within_bounds_and_always_found_by_check),
        cmocka_unit_test(every_flip_with_right_sums_stays_within_bounds),
    };
    return cmocka_run_group_tests(tests, place_of_one_setup, place_teardown);
}
