/* Fuzz target of the container: any bytes as an index file, opened, asked everything, checked, described.
 *
 * A fuzzer does not guess 64-bit checksums, so each input is tried twice: as it is, and with all sums made right, which
 * is what a hostile writer would do. Offsets are those of docs/format.md. */
#define _GNU_SOURCE /* memfd_create */

#include "vicinal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAGE = 4096, COUNT = 40, FILE_BYTES = 32, ENTRIES = 64, ENTRY = 64, OFFSET = 24, BYTES = 32, CHECKSUM = 40, SUM = 4088 };
enum { ROWS_MOST = 1000, DIM_MOST = 4096 };

static uint64_t word_get(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}
static void word_set(uint8_t *at, uint64_t word) { memcpy(at, &word, sizeof word); }

/* Magic, size and every checksum that lies inside made right. */
static void seal(uint8_t *bytes, size_t size) {
    if (size < PAGE) return;
    memcpy(bytes, "VICINAL\n\1\0\0\0\4\3\2\1", 16);
    word_set(bytes + FILE_BYTES, size);
    for (uint8_t i = 0; i < 32 && i < bytes[COUNT]; i++) {
        uint8_t *entry = bytes + ENTRIES + ENTRY * i;
        uint64_t offset = word_get(entry + OFFSET), length = word_get(entry + BYTES);
        if (offset <= size && length <= size - offset) word_set(entry + CHECKSUM, XXH3_64bits(bytes + offset, (size_t)length));
    }
    word_set(bytes + SUM, XXH3_64bits(bytes, SUM));
}

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
