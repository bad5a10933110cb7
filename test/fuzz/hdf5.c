/* Fuzz target of the HDF5 reader: an input is a list of changes to a good file, as free bytes would hardly get past the
 * first check.
 *
 * The surprising rule: libhdf5 is not hardened and crashes, hangs and leaks over some of these files. Each input is
 * therefore read in a child, and a crash counts only if no function of libhdf5 is on its stack. */
#include "input.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

const char *__asan_default_options(void);
const char *__lsan_default_suppressions(void);

/* Errors that AddressSanitizer sees become signals too; a length that libhdf5 believes may be more than there is. */
const char *__asan_default_options(void) { return "abort_on_error=1:allocator_may_return_null=1:max_allocation_size_mb=1024"; }
const char *__lsan_default_suppressions(void) { return "leak:libhdf5"; }

enum { FRAMES_MOST = 64, CHANGE_BYTES = 3, SECONDS_MOST = 5, FAULT_OF_OTHERS = 0, FAULT_OF_OURS = 1 };

/* libhdf5 is opened here once, not in every child: twice as many inputs a second. */
static void library_open(void) {
    struct vic_truth truth = {0};
    (void)vic_truth_read("test/data/plain.hdf5", &truth);
    vic_truth_free(&truth);
}

static void crash_judge(int number) {
    void *frames[FRAMES_MOST];
    int count = backtrace(frames, FRAMES_MOST);
    (void)number;
    for (int i = 0; i < count; i++) {
        Dl_info place;
        if (dladdr(frames[i], &place) && place.dli_fname && strstr(place.dli_fname, "libhdf5")) _exit(FAULT_OF_OTHERS);
    }
    _exit(FAULT_OF_OURS);
}

static void file_read(const struct input *input) {
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
    static const char *const datasets[] = {"train", "distances", "half", "neighbors"};
    struct vic_truth truth = {0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) (void)signal(numbers[i], crash_judge);
    (void)alarm(SECONDS_MOST);
    for (size_t i = 0; i < sizeof datasets / sizeof *datasets; i++) input_read(input, "hdf5", datasets[i], 0);
    (void)vic_truth_read(input->path, &truth);
    vic_truth_free(&truth);
}

/* The good files, read once; the target runs from the root of the tree, or from elsewhere on what it is given. */
static size_t good_file(int which, uint8_t *bytes, size_t capacity) {
    static const char *const paths[] = {"test/data/plain.hdf5", "test/data/packed.h5"};
    FILE *file = fopen(paths[which & 1], "rb");
    if (!file) return 0;
    size_t size = fread(bytes, 1, capacity, file);
    (void)fclose(file);
    return size;
}

/* libhdf5 follows the links in a path, and that of a file without a name leads nowhere. */
static struct input file_create(const uint8_t *bytes, size_t size) {
    struct input input = {.path = "/dev/shm/fuzz-hdf5-XXXXXX"};
    input.file = mkstemp(input.path);
    if (input.file < 0 || write(input.file, bytes, size) != (ssize_t)size) abort();
    return input;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t bytes[1 << 16];
    static bool ready;
    if (!ready) library_open();
    ready = true;
    size_t file_bytes = size > 0 ? good_file(data[0], bytes, sizeof bytes) : 0;
    if (file_bytes == 0) return 0;
    for (size_t i = 1; i + CHANGE_BYTES <= size; i += CHANGE_BYTES) /* place in 16 bits, change */
        bytes[((size_t)data[i] << 8 | data[i + 1]) % file_bytes] ^= data[i + 2];
    struct input input = file_create(bytes, file_bytes);
    int status = 0;
    pid_t child = fork(), ended = 0;
    if (child == 0) {
        file_read(&input);
        _exit(0);
    }
    do ended = child < 0 ? child : waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR); /* the fuzzer has a clock of its own */
    if (ended != child || !WIFEXITED(status) || WEXITSTATUS(status) == FAULT_OF_OURS) abort();
    (void)unlink(input.path);
    input_close(&input);
    return 0;
}
