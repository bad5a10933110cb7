/* Memory that runs out at every single request while DiskANN's indexes are opened and written: a sentence, no block kept, no
 * file left, and the same call succeeds afterwards. */
#include "support/foreign.h"
#include "support/oracle.h"
#include "support/refusals.h"

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

static const struct refusable operations[] = {
    {"memory form opened", memory_open, 8}, {"with a frozen node", frozen_open, 8},  {"of bytes", bytes_open, 8},
    {"disk form opened", disk_open, 8},     {"memory form written", memory_save, 5}, {"disk form written", disk_save, 8},
    {"for inner products", inner_save, 9},  {"with codes opened", coded_open, 12},   {"with its codes written", coded_save, 5},
};

static void every_request_refused_once(void **state) {
    (void)state;
    refuse_each(operations, sizeof operations / sizeof *operations);
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
