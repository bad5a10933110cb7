/* The container by itself: what is written is read, what is wrong is refused before it is used. */
#include "index/file.h"
#include "support/oracle.h"
#include "support/sample.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const char small[] = "twelve bytes";

/* A file of four sections: large, empty, small, and one that is written backwards. */
static const char *four_sections(void) {
    const char *path = scratch_path("four");
    struct file_writer *writer = NULL;
    unsigned char large[10000];
    for (size_t i = 0; i < sizeof large; i++) large[i] = (unsigned char)(i * 7 + i / 256);
    must(file_create(path, &writer));
    must(file_section(writer, "large", sizeof large));
    must(file_append(writer, large, 1));
    must(file_append(writer, large + 1, 0));
    must(file_append(writer, large + 1, sizeof large - 1));
    must(file_section(writer, "empty", 0));
    must(file_section(writer, "small", sizeof small));
    must(file_append(writer, small, sizeof small));
    must(file_section(writer, "backwards", 200000));
    for (int i = 199; i >= 0; i--) {
        memset(large, i, 1000);
        must(file_put(writer, (uint64_t)i * 1000, large, 1000));
    }
    must(file_commit(writer));
    file_writer_free(writer);
    return path;
}

static void sections_come_back_as_they_were_written(void **state) {
    (void)state;
    struct file_map map;
    uint64_t bytes = 0;
    must(file_map_open(four_sections(), &map));
    assert_int_equal(map.count, 4);
    assert_int_equal(map.version, 1);
    const unsigned char *large = file_map_find(&map, "large", &bytes);
    assert_int_equal(bytes, 10000);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(large[i], (unsigned char)(i * 7 + i / 256));
    assert_non_null(file_map_find(&map, "empty", &bytes));
    assert_int_equal(bytes, 0);
    assert_memory_equal(file_map_find(&map, "small", &bytes), small, sizeof small);
    assert_int_equal(bytes, sizeof small);
    const unsigned char *backwards = file_map_find(&map, "backwards", &bytes);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(backwards[i], i / 1000);
    assert_null(file_map_find(&map, "small2", &bytes));
    assert_int_equal(bytes, 0);
    must(file_map_verify(&map, NULL));
    file_map_close(&map);
    assert_null(map.bytes);
}

static void the_page_is_as_the_specification_says(void **state) {
    (void)state;
    struct blob blob = blob_read(four_sections()), sealed = blob_read(scratch_path("four"));
    assert_memory_equal(blob.bytes, "VICINAL\n", 8);
    assert_int_equal(page_get(&blob, PAGE_VERSION, 4), 1);
    assert_int_equal(blob.bytes[PAGE_ORDER], 4);
    assert_int_equal(page_get(&blob, PAGE_REQUIRED, 8), 0);
    assert_int_equal(page_get(&blob, PAGE_OPTIONAL, 8), 0);
    assert_int_equal(page_get(&blob, PAGE_FILE_BYTES, 8), blob.size);
    assert_int_equal(page_get(&blob, PAGE_COUNT, 4), 4);
    assert_int_equal(page_get(&blob, page_entry(&blob, "large") + ENTRY_OFFSET, 8), 4096);
    assert_int_equal(page_get(&blob, page_entry(&blob, "small") + ENTRY_OFFSET, 8) % 64, 0);
    assert_int_equal(page_get(&blob, page_entry(&blob, "small") + ENTRY_OFFSET, 8), (4096 + 10000 + 63) / 64 * 64);
    assert_int_equal(page_get(&blob, page_entry(&blob, "backwards") + ENTRY_OFFSET, 8) % 4096, 0);
    page_seal(&sealed); /* recomputing every checksum changes nothing */
    assert_memory_equal(blob.bytes, sealed.bytes, blob.size);
    blob_free(&blob);
    blob_free(&sealed);
}

static void a_section_must_get_exactly_its_bytes(void **state) {
    (void)state;
    struct file_writer *writer = NULL;
    const char *path = scratch_path("wrong");
    must(file_create(path, &writer));
    assert_int_equal(file_append(writer, small, 1), VIC_INTERNAL);
    must(file_section(writer, "a", 8));
    assert_int_equal(file_append(writer, small, 9), VIC_INTERNAL);
    assert_int_equal(file_put(writer, 7, small, 2), VIC_INTERNAL);
    assert_int_equal(file_put(writer, UINT64_MAX, small, 2), VIC_INTERNAL);
    must(file_append(writer, small, 7));
    assert_int_equal(file_section(writer, "b", 1), VIC_INTERNAL);
    assert_int_equal(file_commit(writer), VIC_INTERNAL);
    assert_non_null(strstr(vic_last_error(), "section a"));
    file_writer_free(writer);
    assert_false(scratch_has("wrong"));
    assert_int_equal(scratch_count(), 0);
}

static void names_are_short_plain_and_unique(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "a b", "A", "twenty-four-bytes-long-x", "slash/", "\x80"};
    struct file_writer *writer = NULL;
    must(file_create(scratch_path("names"), &writer));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_int_equal(file_section(writer, wrong[i], 0), VIC_INTERNAL);
    must(file_section(writer, "twenty-three-bytes-long", 0));
    assert_int_equal(file_section(writer, "twenty-three-bytes-long", 0), VIC_INTERNAL);
    for (int i = 1; i < FILE_SECTIONS_MAX; i++)
        must(file_section(writer, (char[]){'n', (char)('a' + i / 8), (char)('a' + i % 8), 0}, 0));
    assert_int_equal(file_section(writer, "one-more", 0), VIC_INTERNAL);
    must(file_commit(writer));
    file_writer_free(writer);
    struct file_map map;
    must(file_map_open(scratch_path("names"), &map));
    assert_int_equal(map.count, FILE_SECTIONS_MAX);
    file_map_close(&map);
}

static void a_size_no_file_can_have_is_refused(void **state) {
    (void)state;
    struct file_writer *writer = NULL;
    must(file_create(scratch_path("vast"), &writer));
    assert_int_equal(file_section(writer, "vast", UINT64_MAX), VIC_ARGUMENT);
    assert_int_equal(file_section(writer, "vast", INT64_MAX), VIC_ARGUMENT);
    file_writer_free(writer);
}

static void every_prefix_and_a_longer_file_are_refused(void **state) {
    (void)state;
    struct blob blob = blob_read(four_sections());
    const char *path = scratch_path("prefix");
    struct file_map map;
    for (size_t size = 0; size < blob.size; size += size < 4200 ? 1 : 997) {
        blob_write(path, blob.bytes, size);
        assert_int_equal(file_map_open(path, &map), VIC_FORMAT);
        assert_non_null(strstr(vic_last_error(), path));
    }
    blob.bytes[blob.size] = 0;
    blob_write(path, blob.bytes, blob.size + 1);
    assert_int_equal(file_map_open(path, &map), VIC_FORMAT);
    blob_free(&blob);
}

static void what_is_no_file_is_refused_without_waiting(void **state) {
    (void)state;
    struct file_map map;
    assert_int_equal(file_map_open(scratch_folder(), &map), VIC_FORMAT);
    assert_int_equal(file_map_open("/dev/zero", &map), VIC_FORMAT);
    assert_int_equal(mkfifo(scratch_path("pipe"), 0600), 0);
    assert_int_equal(file_map_open(scratch_path("pipe"), &map), VIC_FORMAT);
    assert_int_equal(file_map_open(scratch_path("nowhere"), &map), VIC_NOT_FOUND);
    assert_int_equal(file_map_open("", &map), VIC_NOT_FOUND);
    blob_write(scratch_path("foreign"), (const unsigned char *)"\x93NUMPY\x01", 8);
    assert_int_equal(file_map_open(scratch_path("foreign"), &map), VIC_FORMAT);
}

/* A change of the page, its checksums recomputed, and how it is refused. */
struct change {
    const char *what;
    size_t offset, bytes;
    uint64_t value;
    enum vic_status status;
    const char *says; /* part of the sentence */
};
#define SECOND (PAGE_ENTRIES + ENTRY) /* the empty section */
#define THIRD  (PAGE_ENTRIES + 2 * ENTRY)
#define FOURTH (PAGE_ENTRIES + 3 * ENTRY)
static const struct change changes[] = {
    {"magic", 0, 1, 'v', VIC_FORMAT, "VICINAL"},
    {"version 0", PAGE_VERSION, 4, 0, VIC_FORMAT, "version"},
    {"version 2", PAGE_VERSION, 4, 2, VIC_VERSION, "version 2"},
    {"the other byte order", PAGE_ORDER, 4, 0x04030201, VIC_FORMAT, "byte order"},
    {"a known required feature", PAGE_REQUIRED, 8, 1, VIC_VERSION, "\"removed rows\" (bit 0)"},
    {"an unknown required feature", PAGE_REQUIRED, 8, 1 << 7, VIC_VERSION, "needs feature bit 7, which this library (0.1.0)"},
    {"the last required feature", PAGE_REQUIRED, 8, UINT64_C(1) << 63, VIC_VERSION, "bit 63"},
    {"an unknown optional feature", PAGE_OPTIONAL, 8, UINT64_MAX, VIC_OK, ""},
    {"reserved bytes", 48, 8, 1, VIC_OK, ""},
    {"file bytes", PAGE_FILE_BYTES, 8, UINT64_MAX, VIC_FORMAT, "expected 18446744073709551615 bytes"},
    {"33 sections", PAGE_COUNT, 4, 33, VIC_FORMAT, "at most 32"},
    {"2^32-1 sections", PAGE_COUNT, 4, UINT32_MAX, VIC_FORMAT, "at most 32"},
    {"a section too many", PAGE_COUNT, 4, 5, VIC_FORMAT, "name"},
    {"a section too few", PAGE_COUNT, 4, 3, VIC_FORMAT, "end at byte"},
    {"no sections", PAGE_COUNT, 4, 0, VIC_FORMAT, "end at byte"},
    {"another name", SECOND + 5, 8, UINT64_C(0x6161616161616161), VIC_OK, ""},
    {"an empty name", SECOND, 8, 0, VIC_FORMAT, "name"},
    {"a name with a space", SECOND + 2, 1, ' ', VIC_FORMAT, "name"},
    {"bytes after a name's end", SECOND + 23, 1, 'x', VIC_FORMAT, "name"},
    {"an offset past the end", THIRD + ENTRY_OFFSET, 8, UINT64_C(1) << 40, VIC_FORMAT, "small"},
    {"an offset near 2^64", THIRD + ENTRY_OFFSET, 8, UINT64_MAX - 63, VIC_FORMAT, "small"},
    {"an offset in the page", PAGE_ENTRIES + ENTRY_OFFSET, 8, 0, VIC_FORMAT, "large"},
    {"an offset out of line", THIRD + ENTRY_OFFSET, 8, 14144 + 32, VIC_FORMAT, "multiple of 64"},
    {"a large section off its page", PAGE_ENTRIES + ENTRY_OFFSET, 8, 4096 + 64, VIC_FORMAT, "multiple of 4096"},
    {"overlapping sections", THIRD + ENTRY_OFFSET, 8, 4096 + 64, VIC_FORMAT, "or later"},
    {"sections out of order", SECOND + ENTRY_OFFSET, 8, 16384, VIC_FORMAT, "or later"},
    {"a length of 2^64-1", FOURTH + ENTRY_BYTES, 8, UINT64_MAX, VIC_FORMAT, "backwards"},
    {"a length that wraps to a small end", FOURTH + ENTRY_BYTES, 8, UINT64_MAX - 4095, VIC_FORMAT, "backwards"},
    {"a length one too long", FOURTH + ENTRY_BYTES, 8, 200001, VIC_FORMAT, "backwards"},
    {"a length one too short", FOURTH + ENTRY_BYTES, 8, 199999, VIC_FORMAT, "end at byte"},
};

static void FMT_05_hostile_pages_are_refused_by_what_is_wrong(void **state) {
    (void)state;
    struct blob good = blob_read(four_sections());
    const char *path = scratch_path("hostile");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct file_map map = {0};
        struct blob blob = blob_copy(&good);
        page_set(&blob, changes[i].offset, changes[i].bytes, changes[i].value);
        blob_write(path, blob.bytes, blob.size);
        assert_int_not_equal(file_map_open(path, &map), VIC_OK); /* the checksum alone finds every change */
        page_seal(&blob);
        blob_write(path, blob.bytes, blob.size);
        enum vic_status status = file_map_open(path, &map);
        if (status != changes[i].status || (status != VIC_OK && !strstr(vic_last_error(), changes[i].says)))
            fail_msg("%s: status %s, \"%s\"", changes[i].what, vic_status_name(status), vic_last_error());
        if (status != VIC_OK) assert_null(map.bytes);
        file_map_close(&map);
        blob_free(&blob);
    }
    blob_free(&good);
}

static void two_sections_of_one_name_are_refused(void **state) {
    (void)state;
    struct blob blob = blob_read(four_sections());
    struct file_map map;
    memcpy(blob.bytes + THIRD, blob.bytes + SECOND, ENTRY_OFFSET);
    page_seal(&blob);
    blob_write(scratch_path("twice"), blob.bytes, blob.size);
    assert_int_equal(file_map_open(scratch_path("twice"), &map), VIC_FORMAT);
    assert_non_null(strstr(vic_last_error(), "empty"));
    blob_free(&blob);
}

static void verify_names_the_changed_section_and_the_gap(void **state) {
    (void)state;
    struct blob blob = blob_read(four_sections());
    static const struct {
        size_t at;
        const char *says;
    } places[] = {{4096, "section large"},
                  {14095, "section large"},
                  {14096, "before section"},
                  {14144, "section small"},
                  {14160, "before section backwards"},
                  {16384, "section backwards"},
                  {216383, "section backwards"}};
    assert_int_equal(blob.size, 216384);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct file_map map;
        blob.bytes[places[i].at] ^= 1;
        blob_write(scratch_path("changed"), blob.bytes, blob.size);
        blob.bytes[places[i].at] ^= 1;
        must(file_map_open(scratch_path("changed"), &map));
        assert_int_equal(file_map_verify(&map, NULL), VIC_CHECKSUM);
        assert_non_null(strstr(vic_last_error(), places[i].says));
        file_map_close(&map);
    }
    blob_free(&blob);
}

static int count_report(void *user, const struct vic_progress_state *state) {
    struct vic_progress_state *last = user;
    *last = *state;
    return 0;
}
static int refuse_report(void *user, const struct vic_progress_state *state) { return (void)user, (void)state, 1; }

static void verify_reports_its_end_and_can_be_stopped(void **state) {
    (void)state;
    struct file_map map;
    struct vic_progress_state last = {0};
    struct vic_progress count = {count_report, &last}, refuse = {refuse_report, NULL};
    must(file_map_open(four_sections(), &map));
    must(file_map_verify(&map, &count));
    assert_int_equal(last.done, map.size);
    assert_int_equal(last.total, map.size);
    assert_string_equal(last.stage, "checking");
    assert_int_equal(file_map_verify(&map, &refuse), VIC_CANCELLED);
    file_map_close(&map);
}

static void a_long_path_keeps_its_end_in_sentences(void **state) {
    (void)state;
    char name[200];
    memset(name, 'n', sizeof name);
    memcpy(name + 190, "-the-end", 9);
    struct blob blob = blob_read(four_sections());
    blob.bytes[5000] ^= 4;
    blob_write(scratch_path(name), blob.bytes, blob.size);
    struct file_map map;
    must(file_map_open(scratch_path(name), &map));
    assert_int_equal(file_map_verify(&map, NULL), VIC_CHECKSUM);
    assert_non_null(strstr(vic_last_error(), "nn-the-end: expected checksum"));
    file_map_close(&map);
    blob_free(&blob);
}

static void magic_alone_makes_a_container(void **state) {
    (void)state;
    assert_true(file_is_container("VICINAL\n and more", 17));
    assert_false(file_is_container("VICINAL\n", 7));
    assert_false(file_is_container("VICINAL\r\n", 9));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(sections_come_back_as_they_were_written, scratch_empty),
        cmocka_unit_test_teardown(the_page_is_as_the_specification_says, scratch_empty),
        cmocka_unit_test_teardown(a_section_must_get_exactly_its_bytes, scratch_empty),
        cmocka_unit_test_teardown(names_are_short_plain_and_unique, scratch_empty),
        cmocka_unit_test_teardown(a_size_no_file_can_have_is_refused, scratch_empty),
        cmocka_unit_test_teardown(every_prefix_and_a_longer_file_are_refused, scratch_empty),
        cmocka_unit_test_teardown(what_is_no_file_is_refused_without_waiting, scratch_empty),
        cmocka_unit_test_teardown(FMT_05_hostile_pages_are_refused_by_what_is_wrong, scratch_empty),
        cmocka_unit_test_teardown(two_sections_of_one_name_are_refused, scratch_empty),
        cmocka_unit_test_teardown(verify_names_the_changed_section_and_the_gap, scratch_empty),
        cmocka_unit_test_teardown(verify_reports_its_end_and_can_be_stopped, scratch_empty),
        cmocka_unit_test_teardown(a_long_path_keeps_its_end_in_sentences, scratch_empty),
        cmocka_unit_test(magic_alone_makes_a_container),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
