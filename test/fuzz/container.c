/* Fuzz target of the container: any bytes as an index file, opened, asked everything, checked, described.
 *
 * A fuzzer does not guess 64-bit checksums, so each input is tried twice: as it is, and with all sums made right, which
 * is what a hostile writer would do. Offsets are those of docs/format.md. */
#define _GNU_SOURCE /* memfd_create */

#include "page.h"
#include "vicinal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS_MOST = 1000, DIM_MOST = 4096 };

/* Hits, texts and vectors of an index as it came. */
static void ask(const struct vic_index *index) {
    static float query[DIM_MOST], scores[16], vector[DIM_MOST];
    struct vic_index_info info = {.size = sizeof info};
    if (vic_index_info(index, &info) != VIC_OK || info.dim > DIM_MOST) return;
    for (int64_t i = 0; i < info.dim; i++) query[i] = (float)(i % 7) - 3.0f;
    int64_t ids[16];
    struct vic_matrix matrix = {.data = query, .rows = 1, .dim = info.dim};
    struct vic_hits hits = {.ids = ids, .scores = scores};
    struct vic_search_options options = {.size = sizeof options, .path = VIC_PATH_CERTIFIED}; /* a scan without planes */
    /* Whatever the rows and codes are, there is an answer. */
    if (vic_index_search(index, &matrix, 16, NULL, &hits) != VIC_OK) abort();
    if (vic_index_search(index, &matrix, 1, &options, &hits) != VIC_OK) abort();
    options.path = info.degree ? VIC_PATH_GRAPH : VIC_PATH_SELECT, options.beam = 5, options.parents = 3;
    if (vic_index_search(index, &matrix, 4, &options, &hits) != VIC_OK) abort();
    options.codes = info.pq_chunks > 0 && info.pq_chunks <= 1024 ? VIC_CODES_PQ : 0;
    if (vic_index_search(index, &matrix, 4, &options, &hits) != VIC_OK) abort();
    size_t sum = strlen(info.metadata);
    for (int64_t row = 0; row < info.rows && row < ROWS_MOST; row++) {
        int64_t id = 0;
        const char *text = NULL;
        size_t bytes = 0;
        if (vic_index_ids(index, row, 1, &id) != VIC_OK) abort();
        (void)vic_index_vector(index, id, vector);
        if (vic_index_text(index, id, &text, &bytes) != VIC_OK) continue;
        for (size_t i = 0; i < bytes && i < ROWS_MOST; i++) sum += (unsigned char)text[i];
        if (bytes) sum += (unsigned char)text[bytes - 1];
    }
    static volatile size_t seen;
    seen = sum;
    (void)seen;
}

static void try(struct vic_device *device, const char *path) {
    for (int32_t check = 0; check < 2; check++) {
        struct vic_open_options options = {.size = sizeof options, .check = check};
        struct vic_index *index = NULL;
        enum vic_status status = vic_index_open(device, path, &options, &index);
        if ((status == VIC_OK) != (index != NULL)) abort();
        if (!index) continue;
        ask(index);
        status = vic_index_check(index, NULL);
        if (check && status != VIC_OK) abort(); /* the same check passed a moment ago */
        vic_index_free(index);
    }
    struct vic_file_info info = {.size = sizeof info};
    if (vic_file_info(path, &info) != VIC_OK) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct vic_device *device;
    static int file = -1;
    static char path[64];
    if (!device) {
        struct vic_device_options options = {.size = sizeof options, .name = "cpu", .threads = 1, .host_bytes = 64 << 20};
        if (vic_device_open(&options, &device) != VIC_OK) abort();
        file = memfd_create("container", MFD_CLOEXEC);
        if (file < 0) abort();
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    uint8_t *sealed = malloc(size + 1);
    if (!sealed) return 0;
    memcpy(sealed, data, size);
    seal(sealed, size);
    const uint8_t *forms[] = {data, sealed};
    for (int i = 0; i < 2; i++) {
        if (ftruncate(file, 0) != 0 || pwrite(file, forms[i], size, 0) != (ssize_t)size) abort();
        try(device, path);
    }
    free(sealed);
    return 0;
}
