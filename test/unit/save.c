/* Saving whole or not at all: links, permissions, names, what is no file, leftovers. */
#include "base/save.h"
#include "support/oracle.h"
#include "support/scratch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const unsigned char old_bytes[] = "old contents", new_bytes[] = "new contents, longer than the old ones";

static enum vic_status save_all(const char *path) {
    struct save save;
    enum vic_status status = save_open(&save, path);
    if (status == VIC_OK) status = save_reserve(&save, 0, sizeof new_bytes);
    if (status == VIC_OK) status = save_write(&save, 0, new_bytes, sizeof new_bytes);
    if (status == VIC_OK) status = save_commit(&save, sizeof new_bytes);
    save_close(&save);
    return status;
}

static bool holds(const char *path, const unsigned char *bytes, size_t size) {
    struct blob blob = {(unsigned char *)(uintptr_t)bytes, size};
    return blob_equals_file(&blob, path);
}

static mode_t mode_of(const char *path) {
    struct stat found;
    assert_int_equal(lstat(path, &found), 0);
    return found.st_mode;
}

static void the_file_gets_its_name_at_the_end_and_nothing_stays(void **state) {
    (void)state;
    struct save save;
    const char *path = scratch_path("file");
    blob_write(path, old_bytes, sizeof old_bytes);
    must(save_open(&save, path));
    assert_true(scratch_has(".file.vicinal-tmp"));
    must(save_write(&save, 4, new_bytes + 4, sizeof new_bytes - 4));
    must(save_write(&save, 0, new_bytes, 4));
    unsigned char back[sizeof new_bytes];
    must(save_read(&save, 2, back, sizeof back - 2));
    assert_memory_equal(back, new_bytes + 2, sizeof back - 2);
    assert_int_equal(save_read(&save, 2, back, sizeof back), VIC_IO); /* more than was written */
    assert_non_null(strstr(vic_last_error(), "Input/output error"));
    assert_true(holds(path, old_bytes, sizeof old_bytes));
    must(save_commit(&save, sizeof new_bytes));
    save_close(&save);
    assert_true(holds(path, new_bytes, sizeof new_bytes));
    assert_int_equal(scratch_count(), 1);
}

static void without_a_commit_all_is_as_before(void **state) {
    (void)state;
    struct save save;
    blob_write(scratch_path("file"), old_bytes, sizeof old_bytes);
    must(save_open(&save, scratch_path("file")));
    must(save_write(&save, 0, new_bytes, sizeof new_bytes));
    save_close(&save);
    save_close(&save); /* twice is once */
    assert_true(holds(scratch_path("file"), old_bytes, sizeof old_bytes));
    assert_int_equal(scratch_count(), 1);
}

static void the_size_is_the_committed_one(void **state) {
    (void)state;
    static const uint64_t sizes[] = {0, 5, sizeof new_bytes, 10000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct save save;
        must(save_open(&save, scratch_path("file")));
        must(save_reserve(&save, 0, 4096));
        must(save_write(&save, 0, new_bytes, sizeof new_bytes));
        must(save_commit(&save, sizes[i]));
        save_close(&save);
        struct blob blob = blob_read(scratch_path("file"));
        assert_int_equal(blob.size, sizes[i]);
        for (size_t j = sizeof new_bytes; j < blob.size; j++) assert_int_equal(blob.bytes[j], 0);
        blob_free(&blob);
    }
}

static void permissions_are_the_old_files_or_the_umasks(void **state) {
    (void)state;
    mode_t mask = umask(027);
    must(save_all(scratch_path("fresh")));
    assert_int_equal(mode_of(scratch_path("fresh")) & 07777, 0640);
    blob_write(scratch_path("private"), old_bytes, sizeof old_bytes);
    assert_int_equal(chmod(scratch_path("private"), 0604), 0);
    must(save_all(scratch_path("private")));
    assert_int_equal(mode_of(scratch_path("private")) & 07777, 0604);
    assert_true(holds(scratch_path("private"), new_bytes, sizeof new_bytes));
    (void)umask(mask);
}

static void a_link_stays_and_its_target_is_replaced(void **state) {
    (void)state;
    assert_int_equal(mkdir(scratch_path("folder"), 0700), 0);
    const char *target = scratch_path("folder/target");
    blob_write(target, old_bytes, sizeof old_bytes);
    assert_int_equal(symlink("folder/target", scratch_path("link")), 0);
    must(save_all(scratch_path("link")));
    assert_true(S_ISLNK(mode_of(scratch_path("link"))));
    assert_true(holds(target, new_bytes, sizeof new_bytes));
    assert_int_equal(scratch_count(), 2);
    assert_int_equal(unlink(target), 0);
    must(save_all(scratch_path("link"))); /* leads nowhere now */
    assert_true(S_ISREG(mode_of(scratch_path("link"))));
    assert_true(holds(scratch_path("link"), new_bytes, sizeof new_bytes));
}

static void two_names_of_one_file_are_one_lock(void **state) {
    (void)state;
    struct save save;
    blob_write(scratch_path("file"), old_bytes, sizeof old_bytes);
    assert_int_equal(symlink("file", scratch_path("link")), 0);
    must(save_open(&save, scratch_path("file")));
    assert_int_equal(save_all(scratch_path("link")), VIC_LOCKED);
    assert_non_null(strstr(vic_last_error(), ".file.vicinal-tmp"));
    assert_true(scratch_has(".file.vicinal-tmp")); /* the refused one leaves the other's alone */
    must(save_write(&save, 0, new_bytes, sizeof new_bytes));
    must(save_commit(&save, sizeof new_bytes));
    save_close(&save);
    must(save_all(scratch_path("link")));
}

static void what_is_no_file_is_not_replaced(void **state) {
    (void)state;
    assert_int_equal(mkfifo(scratch_path("pipe"), 0600), 0);
    assert_int_equal(save_all(scratch_path("pipe")), VIC_IO);
    assert_true(S_ISFIFO(mode_of(scratch_path("pipe"))));
    assert_int_equal(save_all("/dev/null"), VIC_IO);
    assert_true(S_ISCHR(mode_of("/dev/null")));
    assert_int_equal(save_all(scratch_folder()), VIC_IO);
    assert_non_null(strstr(vic_last_error(), "folder"));
    assert_int_equal(scratch_count(), 1);
}

static void names_that_cannot_be_written_are_refused(void **state) {
    (void)state;
    char name[300];
    memset(name, 'n', sizeof name);
    name[299] = 0;
    assert_int_equal(save_all(""), VIC_ARGUMENT);
    assert_int_equal(save_all(scratch_path("nowhere/")), VIC_ARGUMENT);
    assert_int_equal(save_all(scratch_path("nowhere/file")), VIC_NOT_FOUND);
    assert_int_equal(save_all(scratch_path(name)), VIC_IO);
    char *path = take(70000);
    memset(path, 'n', 70000);
    path[69999] = 0;
    assert_int_equal(save_all(path), VIC_IO);
    free(path);
    assert_int_equal(scratch_count(), 0);
}

static void the_longest_name_can_be_saved(void **state) {
    (void)state;
    char name[256];
    for (size_t length = 240; length < sizeof name; length++) {
        memset(name, 'n', length);
        name[length] = 0;
        must(save_all(scratch_path(name)));
        assert_true(holds(scratch_path(name), new_bytes, sizeof new_bytes));
    }
    assert_int_equal(scratch_count(), 16);
}

static void a_relative_path_means_the_folder_of_then(void **state) {
    (void)state;
    struct save save;
    char *before = getcwd(NULL, 0);
    assert_int_equal(chdir(scratch_folder()), 0);
    must(save_open(&save, "file"));
    assert_int_equal(chdir("/"), 0);
    must(save_write(&save, 0, new_bytes, sizeof new_bytes));
    must(save_commit(&save, sizeof new_bytes));
    save_close(&save);
    assert_true(holds(scratch_path("file"), new_bytes, sizeof new_bytes));
    assert_int_equal(chdir(before), 0);
    free(before);
}

static void a_leftover_is_taken_over(void **state) {
    (void)state;
    unsigned char *large = take(100000);
    memset(large, 0xaa, 100000);
    blob_write(scratch_path(".file.vicinal-tmp"), large, 100000);
    blob_write(scratch_path(".other.vicinal-tmp"), large, 100);
    must(save_all(scratch_path("file")));
    assert_true(holds(scratch_path("file"), new_bytes, sizeof new_bytes));
    assert_true(holds(scratch_path(".other.vicinal-tmp"), large, 100));
    assert_int_equal(scratch_count(), 2);
    free(large);
}

/* A name like our temporary that leads to somebody else's bytes must not empty them. */
static void a_trap_in_place_of_the_temporary_is_refused(void **state) {
    (void)state;
    blob_write(scratch_path("precious"), old_bytes, sizeof old_bytes);
    assert_int_equal(symlink("precious", scratch_path(".file.vicinal-tmp")), 0);
    assert_int_equal(save_all(scratch_path("file")), VIC_IO);
    assert_int_equal(unlink(scratch_path(".file.vicinal-tmp")), 0);
    assert_int_equal(link(scratch_path("precious"), scratch_path(".file.vicinal-tmp")), 0);
    assert_int_equal(save_all(scratch_path("file")), VIC_IO);
    assert_non_null(strstr(vic_last_error(), "second name"));
    assert_true(holds(scratch_path("precious"), old_bytes, sizeof old_bytes));
    assert_int_equal(unlink(scratch_path(".file.vicinal-tmp")), 0);
    assert_int_equal(mkfifo(scratch_path(".file.vicinal-tmp"), 0600), 0);
    assert_int_equal(save_all(scratch_path("file")), VIC_IO);
    assert_false(scratch_has("file"));
}

/* As in a child that was forked in the middle of a save and lives on. */
static void the_lock_is_gone_at_the_end_even_if_a_copy_of_the_descriptor_lives(void **state) {
    (void)state;
    struct save save;
    must(save_open(&save, scratch_path("file")));
    int copy = dup(save.file);
    must(save_commit(&save, 0));
    save_close(&save);
    int other = open(scratch_path("file"), O_RDWR);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    must(save_all(scratch_path("file"))); /* a lock on the target is no lock on the name */
    (void)close(other);
    (void)close(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_file_gets_its_name_at_the_end_and_nothing_stays, scratch_empty),
        cmocka_unit_test_teardown(without_a_commit_all_is_as_before, scratch_empty),
        cmocka_unit_test_teardown(the_size_is_the_committed_one, scratch_empty),
        cmocka_unit_test_teardown(permissions_are_the_old_files_or_the_umasks, scratch_empty),
        cmocka_unit_test_teardown(a_link_stays_and_its_target_is_replaced, scratch_empty),
        cmocka_unit_test_teardown(two_names_of_one_file_are_one_lock, scratch_empty),
        cmocka_unit_test_teardown(what_is_no_file_is_not_replaced, scratch_empty),
        cmocka_unit_test_teardown(names_that_cannot_be_written_are_refused, scratch_empty),
        cmocka_unit_test_teardown(the_longest_name_can_be_saved, scratch_empty),
        cmocka_unit_test_teardown(a_relative_path_means_the_folder_of_then, scratch_empty),
        cmocka_unit_test_teardown(a_leftover_is_taken_over, scratch_empty),
        cmocka_unit_test_teardown(a_trap_in_place_of_the_temporary_is_refused, scratch_empty),
        cmocka_unit_test_teardown(the_lock_is_gone_at_the_end_even_if_a_copy_of_the_descriptor_lives, scratch_empty),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
