/* Files of lines: what a line is, across blocks too. */
#include "support/foreign.h"
#include "support/oracle.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static void check_lines(const char *bytes, size_t size, const char *const *lines, const size_t *lengths, int64_t count) {
    const char *path = scratch_path("lines");
    struct vic_texts texts = {0};
    blob_write(path, (const unsigned char *)bytes, size);
    must(vic_texts_read(path, &texts));
    assert_int_equal(texts.count, count);
    assert_int_equal(texts.offsets[0], 0);
    for (int64_t i = 0; i < count; i++) {
        size_t length = lengths ? lengths[i] : strlen(lines[i]);
        assert_int_equal(texts.offsets[i + 1] - texts.offsets[i], length);
        assert_memory_equal(texts.bytes + texts.offsets[i], lines[i], length);
    }
    vic_texts_free(&texts);
    assert_null(texts.bytes);
    assert_null(texts.offsets);
    assert_int_equal(texts.count, 0);
}

static void a_line_ends_at_lf_or_crlf_and_nowhere_else(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        int64_t count;
        const char *lines[6];
    } files[] = {
        {"", 0, {0}},
        {"\n", 1, {""}},
        {"\r\n", 1, {""}},
        {"\r", 1, {"\r"}},
        {"a", 1, {"a"}},
        {"a\n", 1, {"a"}},
        {"a\nb", 2, {"a", "b"}},
        {"a\r\nb\r\n", 2, {"a", "b"}},
        {"a\rb\n", 1, {"a\rb"}},
        {"a\r\r\n", 1, {"a\r"}},
        {"a\r", 1, {"a\r"}},
        {"\n\na\n\n", 4, {"", "", "a", ""}},
        {"\r\n\r\n", 2, {"", ""}},
        {"\n\r", 2, {"", "\r"}},
        {"\xc3\xa9\nsnow \xe2\x98\x83\n", 2, {"\xc3\xa9", "snow \xe2\x98\x83"}},
        {"not \xff utf-8\n", 1, {"not \xff utf-8"}},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        check_lines(files[i].bytes, strlen(files[i].bytes), files[i].lines, NULL, files[i].count);
    static const char *const zeros[] = {"a\0b", "\0"};
    static const size_t lengths[] = {3, 1};
    check_lines("a\0b\n\0\n", 6, zeros, lengths, 2);
}

/* Random bytes from a small alphabet, ends and carriage returns included, against a plain loop; larger than the block of a
 * million bytes that files are read in, so that CR and LF also fall on both sides of a border. */
static void blocks_do_not_matter(void **state) {
    (void)state;
    static const char alphabet[] = "ab\r\n\r\n";
    enum { BYTES = 2 * 1048576 + 12345 };
    struct random random = {.state = 3};
    char *bytes = take(BYTES), *kept = take(BYTES);
    int64_t *offsets = take((BYTES + 1) * sizeof *offsets), count = 0, length = 0;
    for (int64_t i = 0; i < BYTES; i++) bytes[i] = alphabet[random_below(&random, 6)];
    for (int64_t block = 1; block <= 2; block++)
        bytes[block * 1048576 - 1] = '\r', bytes[block * 1048576] = block == 1 ? '\n' : 'a';
    offsets[0] = 0;
    for (int64_t i = 0; i < BYTES; i++) {
        if (bytes[i] == '\r' && i + 1 < BYTES && bytes[i + 1] == '\n') continue;
        if (bytes[i] == '\n')
            offsets[++count] = length;
        else
            kept[length++] = bytes[i];
    }
    if (bytes[BYTES - 1] != '\n') offsets[++count] = length;
    const char *path = scratch_path("lines");
    struct vic_texts texts = {0};
    struct vic_file_info info = {.size = sizeof info};
    blob_write(path, (const unsigned char *)bytes, BYTES);
    must(vic_texts_read(path, &texts));
    assert_int_equal(texts.count, count);
    assert_memory_equal(texts.offsets, offsets, (size_t)(count + 1) * sizeof *offsets);
    assert_memory_equal(texts.bytes, kept, (size_t)length);
    must(vic_file_info(path, &info));
    assert_int_equal(info.rows, count);
    vic_texts_free(&texts);
    free(bytes);
    free(kept);
    free(offsets);
}

static void files_of_vectors_are_no_texts(void **state) {
    (void)state;
    struct vic_texts texts = {0};
    assert_int_equal(vic_texts_read("test/data/f4.npy", &texts), VIC_FORMAT);
    assert_non_null(strstr(vic_last_error(), "expected lines of text, found an npy file"));
    assert_int_equal(vic_texts_read("test/data/plain.hdf5", &texts), VIC_FORMAT);
    blob_write(scratch_path("index"), (const unsigned char *)"VICINAL\n and more", 17);
    assert_int_equal(vic_texts_read(scratch_path("index"), &texts), VIC_FORMAT);
    assert_non_null(strstr(vic_last_error(), "found an index of this library"));
    assert_int_equal(vic_texts_read(scratch_path("nowhere"), &texts), VIC_NOT_FOUND);
    assert_int_equal(vic_texts_read(scratch_folder(), &texts), VIC_IO);
    assert_int_equal(vic_texts_read(NULL, &texts), VIC_ARGUMENT);
    assert_int_equal(vic_texts_read(scratch_path("index"), NULL), VIC_ARGUMENT);
    assert_null(texts.bytes); /* written only on success */
    vic_texts_free(&texts);
    vic_texts_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_ends_at_lf_or_crlf_and_nowhere_else),
        cmocka_unit_test(blocks_do_not_matter),
        cmocka_unit_test(files_of_vectors_are_no_texts),
    };
    return cmocka_run_group_tests_name("texts", tests, scratch_open, scratch_close);
}
