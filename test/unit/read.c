/* Exact reads: all of it, or how much came and why; and what is mapped, copied by reads, whatever becomes of the file. */
#include "base/read.h"
#include "support/oracle.h"
#include "support/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { BYTES = 20000 };

static unsigned char contents[BYTES];

static struct mapped file_mapped(void) {
    static char path[4096];
    struct random random = {1};
    random_fill(&random, VALUES_WILD, VIC_U8, BYTES, contents);
    (void)snprintf(path, sizeof path, "%s", scratch_path("file"));
    blob_write(path, contents, BYTES);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(file >= 0);
    void *bytes = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, file, 0);
    assert_true(bytes != MAP_FAILED);
    return (struct mapped){file, bytes, BYTES, path};
}

static void file_unmap(struct mapped *mapped) {
    (void)munmap((void *)(uintptr_t)mapped->bytes, BYTES);
    (void)close(mapped->file);
}

/* The file's bytes from `offset`, by their place in the mapping, and nothing beyond them is written. */
static void copy_is_right(const struct mapped *mapped, uint64_t offset, uint64_t bytes) {
    unsigned char *to = take(bytes + 1);
    struct read_fault fault;
    to[bytes] = 0x5A;
    assert_true(mapped_copy(mapped, (const char *)mapped->bytes + offset, bytes, to, &fault));
    assert_memory_equal(to, contents + offset, (size_t)bytes);
    assert_int_equal(to[bytes], 0x5A);
    free(to);
}

static void what_is_mapped_comes_from_the_file_at_every_edge(void **state) {
    (void)state;
    struct mapped mapped = file_mapped();
    static const uint64_t edges[] = {0, 1, 4095, 4096, 4097, 8192, BYTES - 1, BYTES};
    /* Bytes that were in memory alone would be other ones: the mapping is replaced by zeroes, at the same place. */
    void *same = mmap((void *)(uintptr_t)mapped.bytes, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(same, mapped.bytes);
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        for (size_t j = i; j < sizeof edges / sizeof *edges; j++) copy_is_right(&mapped, edges[i], edges[j] - edges[i]);
    file_unmap(&mapped);
}

/* Not a byte of it lies in the file, or only a part does: then the mapping may be read past its end, which is memory here. */
static void what_is_not_mapped_is_copied_from_memory(void **state) {
    (void)state;
    unsigned char memory[300], to[300];
    struct read_fault fault;
    for (size_t i = 0; i < sizeof memory; i++) memory[i] = (unsigned char)(i * 7);
    const struct mapped middle = {-1, memory + 100, 100, "no file"}; /* a read would fail */
    static const struct { int64_t from, bytes; } parts[] = {{0, 100}, {200, 100}, {0, 300}, {99, 2}, {199, 2}, {200, 0}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        memset(to, 0, sizeof to);
        assert_true(mapped_copy(&middle, memory + parts[i].from, (uint64_t)parts[i].bytes, to, &fault));
        assert_memory_equal(to, memory + parts[i].from, (size_t)parts[i].bytes);
    }
    assert_false(mapped_copy(&middle, memory + 100, 100, to, &fault));
    assert_int_equal(fault.error, EBADF);
    assert_true(mapped_copy(NULL, memory, 300, to, &fault));
    assert_memory_equal(to, memory, 300);
}

/* Through the mapping each of these would be SIGBUS. */
static void a_file_that_became_shorter_is_a_sentence_and_no_signal(void **state) {
    (void)state;
    static unsigned char to[BYTES];
    static const uint64_t lengths[] = {BYTES - 1, 8192, 5000, 1, 0};
    char wanted[64];
    struct mapped mapped = file_mapped();
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct read_fault fault;
        assert_int_equal(truncate(mapped.path, (off_t)lengths[i]), 0);
        assert_false(mapped_copy(&mapped, mapped.bytes, BYTES, to, &fault));
        assert_true(fault.error == 0 && fault.offset == lengths[i]);
        copy_is_right(&mapped, 0, lengths[i]); /* what is left */
        assert_int_equal(mapped_fail(&mapped, &fault), VIC_IO);
        assert_non_null(strstr(vic_last_error(), mapped.path));
        assert_non_null(strstr(vic_last_error(), "expected 20000 bytes"));
        (void)snprintf(wanted, sizeof wanted, "by byte %llu", (unsigned long long)lengths[i]);
        assert_non_null(strstr(vic_last_error(), wanted));
    }
    file_unmap(&mapped);
}

static void a_file_that_is_replaced_is_read_as_it_was(void **state) {
    (void)state;
    struct mapped mapped = file_mapped();
    blob_write(scratch_path("other"), contents, 1);
    assert_int_equal(rename(scratch_path("other"), scratch_path("file")), 0);
    copy_is_right(&mapped, 0, BYTES);
    file_unmap(&mapped);
}

/* A process's own memory, as a file, cannot be read where nothing is mapped. */
static void a_read_that_fails_is_told_with_the_systems_words(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int flags, error;
    } rows[] = {{"/proc/self/mem", O_RDONLY, EIO}, {"/", O_RDONLY, EISDIR}, {"/dev/null", O_WRONLY, EBADF}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char to[16];
        uint64_t got = 99;
        struct read_fault fault;
        int file = open(rows[i].path, rows[i].flags | O_CLOEXEC);
        struct mapped mapped = {file, contents, BYTES, "rows.vic"};
        assert_true(file >= 0);
        assert_int_equal(read_at(file, 0, to, sizeof to, &got), rows[i].error);
        assert_int_equal(got, 0);
        assert_false(mapped_copy(&mapped, contents + 5, sizeof to, to, &fault));
        assert_true(fault.error == rows[i].error && fault.offset == 5);
        assert_int_equal(mapped_fail(&mapped, &fault), VIC_IO);
        assert_non_null(strstr(vic_last_error(), "cannot read rows.vic: "));
        assert_non_null(strstr(vic_last_error(), strerror(rows[i].error)));
        (void)close(file);
    }
}

static void an_error_behind_good_bytes_says_how_many_came(void **state) {
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), to[200];
    assert_true(pages != MAP_FAILED && munmap(pages + page, page) == 0);
    memset(pages, 7, page);
    int file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    uint64_t got = 0;
    assert_int_equal(read_at(file, (uintptr_t)pages + page - 60, to, sizeof to, &got), EIO);
    assert_int_equal(got, 60);
    for (int i = 0; i < 60; i++) assert_int_equal(to[i], 7);
    (void)close(file);
    (void)munmap(pages, page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_mapped_comes_from_the_file_at_every_edge),
        cmocka_unit_test(what_is_not_mapped_is_copied_from_memory),
        cmocka_unit_test(a_file_that_became_shorter_is_a_sentence_and_no_signal),
        cmocka_unit_test(a_file_that_is_replaced_is_read_as_it_was),
        cmocka_unit_test(a_read_that_fails_is_told_with_the_systems_words),
        cmocka_unit_test(an_error_behind_good_bytes_says_how_many_came),
    };
    return cmocka_run_group_tests_name("unit/read", tests, scratch_open, scratch_close);
}
