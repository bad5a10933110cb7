/* The loader of the CUDA backend against objects that are missing, broken, foreign and of another interface: one device is
 * described, unusable, with the sentence that says which it is; "auto" goes on to the CPU; nothing is called inside.
 *
 * The object is looked for once a process, so each case is a child of its own. */
#include "support/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

/* In a child: VICINAL_CUDA_LIBRARY is `path`; exit code 0 when all is as it should be, else the number of what is not. */
static int child_run(const char *path, const char *part_of_sentence) {
    struct vic_device_info infos[8];
    struct vic_device *device = NULL;
    int64_t count = 0;
    if (setenv("VICINAL_CUDA_LIBRARY", path, 1) != 0) return 1;
    for (int i = 0; i < 8; i++) infos[i].size = sizeof infos[i];
    if (vic_device_list(infos, 8, &count) != VIC_OK || count != 2) return 2;
    if (strcmp(infos[0].name, "cuda") != 0 || infos[0].usable || strcmp(infos[1].name, "cpu") != 0) return 3;
    if (!strstr(infos[0].sentence, part_of_sentence)) {
        (void)fprintf(stderr, "expected a sentence with \"%s\", found \"%s\"\n", part_of_sentence, infos[0].sentence);
        return 4;
    }
    struct vic_device_options options = {.size = sizeof options, .name = "cuda"};
    if (vic_device_open(&options, &device) != VIC_UNAVAILABLE || strcmp(vic_last_error(), infos[0].sentence) != 0) return 5;
    options.name = "cuda:1";
    if (vic_device_open(&options, &device) != VIC_NOT_FOUND) return 6;
    options.name = "auto";
    if (vic_device_open(&options, &device) != VIC_OK) return 7;
    struct vic_device_info info = {.size = sizeof info};
    if (vic_device_info(device, &info) != VIC_OK || strcmp(info.name, "cpu") != 0) return 8;
    vic_device_free(device);
    return 0;
}

static void check_object(const char *path, const char *part_of_sentence) {
    pid_t child = fork();
    if (child == 0) _exit(child_run(path, part_of_sentence));
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_missing_object_is_named(void **state) {
    (void)state;
    check_object("/nowhere/libvicinal_cuda.so", "found no file /nowhere/libvicinal_cuda.so");
}

static void a_file_that_is_no_object_is_refused(void **state) {
    (void)state;
    check_object("/proc/self/cmdline", "cannot be opened");
    check_object("/", "cannot be opened");
}

static void another_librarys_object_is_refused(void **state) {
    (void)state;
    check_object("libm.so.6", "found no file"); /* only a path names it, never the system's search */
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    assert_true(length > 0);
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    (void)snprintf(slash + 1, 60, "libvicinal.so");
    check_object(path, "found no symbol vicinal_backend_object");
    (void)snprintf(slash + 1, 60, "libwrong_object.so");
    check_object(path, "found interface 4000000000");
}

static void a_path_beyond_all_limits_is_no_path(void **state) {
    (void)state;
    char *path = take(20000);
    memset(path, 'x', 19999);
    path[19999] = '\0';
    check_object(path, "found no file ./xxxx");
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_object_is_named),
        cmocka_unit_test(a_file_that_is_no_object_is_refused),
        cmocka_unit_test(another_librarys_object_is_refused),
        cmocka_unit_test(a_path_beyond_all_limits_is_no_path),
    };
    return cmocka_run_group_tests_name("unit/load", tests, NULL, NULL);
}
