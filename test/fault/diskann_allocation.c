/* Memory that runs out at every single request while DiskANN's indexes are opened and written: a sentence, no block kept, no
 * file left, and the same call succeeds afterwards. */
#include "base/mem.h"
#include "support/failing.h"
#include "support/foreign.h"
#include "support/oracle.h"

#include <stdio.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#define GOLDEN "test/data/diskann/"

/* Of l2, the same with product codes, and of inner products, which changes rows for a disk. */
static struct vic_index *graph, *coded, *inner;
static char paths[2][256]; /* scratch_path would take memory itself */

static enum vic_status open_path(const char *path) {
    struct vic_index *index = NULL;
    enum vic_status status = vic_index_open(test_device, path, NULL, &index);
    vic_index_free(index);
    return status;
}
static enum vic_status memory_open(void) { return open_path(GOLDEN "f"); }
static enum vic_status frozen_open(void) { return open_path(GOLDEN "dyn"); }
static enum vic_status bytes_open(void) { return open_path(GOLDEN "u"); }
static enum vic_status disk_open(void) { return open_path(GOLDEN "ip_disk.index"); }
static enum vic_status coded_open(void) { return open_path(GOLDEN "f_disk.index"); }

static enum vic_status save(const struct vic_index *index, const char *path, const char *format) {
    const struct vic_save_options options = {.size = sizeof options, .format = format};
    return vic_index_save(index, path, &options);
}
static enum vic_status memory_save(void) { return save(graph, paths[0], "diskann"); }
static enum vic_status disk_save(void) { return save(graph, paths[1], "diskann-disk"); }
static enum vic_status coded_save(void) { return save(coded, paths[1], "diskann-disk"); }
static enum vic_status inner_save(void) { return save(inner, paths[1], "diskann-disk"); }

static const struct operation {
    const char *name;
    enum vic_status (*run)(void);
    int64_t least; /* requests that it makes, so that a watch which sees none is noticed */
} operations[] = {
    {"memory form opened", memory_open, 8}, {"with a frozen node", frozen_open, 8},  {"of bytes", bytes_open, 8},
    {"disk form opened", disk_open, 8},     {"memory form written", memory_save, 5}, {"disk form written", disk_save, 8},
    {"for inner products", inner_save, 9},  {"with codes opened", coded_open, 12},   {"with its codes written", coded_save, 5},
};

static void every_request_refused_once(void **state) {
    (void)state;
    if (!failing_available()) {
        print_message("a sanitizer brings its own allocator: not tested\n");
        skip();
    }
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        const struct operation *operation = &operations[i];
        struct vic_device_info before = {.size = sizeof before}, after = {.size = sizeof after};
        must(operation->run()); /* what the C library takes once and keeps */
        must(vic_device_info(test_device, &before));
        int64_t n = 1;
        for (;; n++) {
            scratch_clear();
            failing_start(n);
            enum vic_status status = operation->run();
            struct failing_counts counts = failing_stop();
            if (counts.refused == 0) {
                must(status);
                break;
            }
            must(vic_device_info(test_device, &after));
            if (status != VIC_NO_MEMORY || counts.kept != 0 || scratch_count() != 0 || after.host_used != before.host_used)
                fail_msg("%s, request %lld: %s, %lld blocks kept, %lld files", operation->name, (long long)n,
                         vic_status_name(status), (long long)counts.kept, (long long)scratch_count());
            assert_true(vic_last_error()[0] != '\0');
        }
        if (atomic_load(&mem_default.used) != 0) fail_msg("%s gave back another size than it took", operation->name);
        if (n - 1 < operation->least) fail_msg("%s made only %lld requests", operation->name, (long long)(n - 1));
    }
}

static int open_all(void **state) {
    int status = device_setup(state) || scratch_open(state);
    (void)snprintf(paths[0], sizeof paths[0], "%s", scratch_path("m"));
    (void)snprintf(paths[1], sizeof paths[1], "%s", scratch_path("d_disk.index"));
    must(vic_index_open(test_device, GOLDEN "f", NULL, &graph));
    must(vic_index_open(test_device, GOLDEN "f_disk.index", NULL, &coded));
    must(vic_index_open(test_device, GOLDEN "ip_disk.index", NULL, &inner));
    return status;
}

static int close_all(void **state) {
    vic_index_free(graph);
    vic_index_free(coded);
    vic_index_free(inner);
    return device_teardown(state) || scratch_close(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_request_refused_once)};
    return cmocka_run_group_tests_name("diskann_allocation", tests, open_all, close_all);
}
