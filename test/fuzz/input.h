/* What the targets of vector files share: an input as a file that lies in memory, and everything a reader offers done
 * with it. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#define _GNU_SOURCE /* memfd_create */

#include "vicinal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    int file;
    char path[64]; /* has no ending: the format is what the target forces or what the bytes look like */
};

static inline struct input input_open(const uint8_t *data, size_t size) {
    struct input input = {.file = memfd_create("fuzz", MFD_CLOEXEC)};
    if (input.file < 0 || write(input.file, data, size) != (ssize_t)size) abort();
    (void)snprintf(input.path, sizeof input.path, "/proc/self/fd/%d", input.file);
    return input;
}

static inline void input_close(const struct input *input) { (void)close(input->file); }

/* Opens as `format` and `dtype` (and `dataset` of HDF5), reads all rows at once and each alone with a gap; a success must be
 * the same twice, and what is refused must have a sentence. */
static inline void input_read(const struct input *input, const char *format, const char *dataset, enum vic_dtype dtype) {
    const struct vic_reader_options options = {.size = sizeof options, .format = format, .dataset = dataset, .dtype = dtype};
    struct vic_reader *reader = NULL;
    struct vic_matrix whole = {0};
    struct vic_file_info info = {.size = sizeof info};
    if (vic_reader_open(input->path, &options, &reader) != VIC_OK) {
        if (!vic_last_error()[0]) abort();
        return;
    }
    if (vic_reader_info(reader, &info) != VIC_OK || info.rows < 0 || info.dim < 1) abort();
    if (vic_matrix_read(input->path, &options, &whole) == VIC_OK) {
        size_t row_bytes = (size_t)whole.dim * vic_dtype_bytes(whole.dtype);
        unsigned char *row = malloc(row_bytes);
        if (!row) abort();
        struct vic_matrix one = {.data = row, .rows = 1, .dim = whole.dim, .dtype = whole.dtype};
        for (int64_t i = 0; i < whole.rows; i += 1 + whole.rows / 100)
            if (vic_reader_read(reader, i, 1, &one) != VIC_OK ||
                memcmp(row, (char *)whole.data + (size_t)i * row_bytes, row_bytes) != 0)
                abort();
        free(row);
    }
    vic_matrix_free(&whole);
    vic_reader_close(reader);
}

/* Whatever came in, what opened is right in itself and can be searched; frees it. */
static inline void input_ask(struct vic_index *index) {
    static float query[65536];
    int64_t ids[8];
    struct vic_index_info info = {.size = sizeof info};
    if (vic_index_info(index, &info) != VIC_OK) abort();
    const struct vic_matrix queries = {.data = query, .rows = 1, .dim = info.dim};
    const struct vic_hits hits = {.ids = ids};
    const enum vic_codes codes[] = {0, VIC_CODES_PQ};
    for (int walk = 0; walk < (info.pq_chunks ? 2 : 1); walk++) {
        const struct vic_search_options options = {.size = sizeof options, .codes = codes[walk]};
        if (vic_index_search(index, &queries, 8, &options, &hits) != VIC_OK) abort();
        for (int i = 0; i < 8; i++)
            if (ids[i] < -1 || ids[i] >= info.rows) abort();
    }
    if (vic_index_check(index, NULL) != VIC_OK) abort();
    vic_index_free(index);
}

#endif
