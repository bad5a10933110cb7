/* DiskANN's layouts, byte by byte. */
#include "support/diskann_set.h"

#include "support/foreign.h"
#include "support/oracle.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static void add_u64(struct blob *blob, uint64_t word) { blob_add(blob, &word, sizeof word); }

static void pad_to(struct blob *blob, size_t size) {
    static const unsigned char zeroes[4096];
    assert_true(size >= blob->size);
    while (blob->size < size) blob_add(blob, zeroes, size - blob->size < sizeof zeroes ? size - blob->size : sizeof zeroes);
}

static size_t row_bytes(const struct diskann_sample *sample) { return (size_t)sample->dim * vic_dtype_bytes(sample->dtype); }

void *diskann_rows(const struct diskann_sample *sample) {
    char *rows = take((size_t)sample->n * row_bytes(sample) + 1);
    struct random random = {.state = (uint64_t)sample->n * 1000 + (uint64_t)sample->dim};
    for (int64_t c = 0; c < sample->n * sample->dim; c++)
        element_set(sample->dtype, rows, c, (float)random_below(&random, 100));
    return rows;
}

uint32_t diskann_count(const struct diskann_sample *sample, int64_t node) {
    uint32_t most = sample->most ? sample->most : sample->room;
    if (most > sample->n - 1) most = (uint32_t)(sample->n - 1);
    return node == 0 || most == 0 ? most : 1 + (uint32_t)((uint64_t)node * 7 % most);
}

uint32_t diskann_neighbour(const struct diskann_sample *sample, int64_t node, uint32_t slot) {
    return (uint32_t)((node + 1 + slot) % sample->n);
}

/* In one piece: under a sanitizer each growth copies the whole. */
static void list_add(struct blob *blob, const struct diskann_sample *sample, int64_t node) {
    uint32_t count = diskann_count(sample, node), *words = take(((size_t)count + 1) * sizeof *words);
    words[0] = count;
    for (uint32_t slot = 0; slot < count; slot++) words[1 + slot] = diskann_neighbour(sample, node, slot);
    blob_add(blob, words, ((size_t)count + 1) * sizeof *words);
    free(words);
}

struct blob diskann_graph_blob(const struct diskann_sample *sample) {
    struct blob blob = {0};
    add_u64(&blob, 0);
    blob_add_u32(&blob, sample->room);
    blob_add_u32(&blob, sample->start);
    if (sample->form != HEADER_2021) add_u64(&blob, sample->frozen);
    for (int64_t node = 0; node < sample->n; node++) list_add(&blob, sample, node);
    uint64_t size = blob.size;
    memcpy(blob.bytes, &size, sizeof size);
    return blob;
}

struct blob diskann_data_blob(const struct diskann_sample *sample) {
    struct blob blob = {0};
    void *rows = diskann_rows(sample);
    blob_add_u32(&blob, (uint32_t)sample->n);
    blob_add_u32(&blob, (uint32_t)sample->dim);
    blob_add(&blob, rows, (size_t)sample->n * row_bytes(sample));
    free(rows);
    return blob;
}

static size_t sector_of(const struct diskann_sample *sample) { return sample->sector_bytes ? sample->sector_bytes : 4096; }
static size_t coordinates_of(const struct diskann_sample *sample) {
    return sample->reorder_dim ? (size_t)sample->dim : row_bytes(sample);
}
static size_t node_bytes_of(const struct diskann_sample *sample) {
    return ((size_t)sample->room + 1) * 4 + coordinates_of(sample) + sample->extra_bytes;
}

size_t diskann_node_at(const struct diskann_sample *sample, int64_t node) {
    size_t sector = sector_of(sample), bytes = node_bytes_of(sample), each = sector / bytes, i = (size_t)node;
    if (each == 0) return (1 + i * ((bytes + sector - 1) / sector)) * sector;
    return (1 + i / each) * sector + i % each * bytes;
}

static void disk_header(struct blob *blob, const struct diskann_sample *sample, uint64_t file_bytes, uint64_t reorder_sector) {
    uint64_t node = node_bytes_of(sample), each = sector_of(sample) / node, n = (uint64_t)sample->n;
    uint64_t frozen_at = sample->frozen ? n - 1 : 0;
    struct blob head = {0};
    if (sample->form == HEADER_2021) {
        const uint64_t words[] = {file_bytes, n, sample->start, node, each, sample->frozen, frozen_at};
        blob_add(&head, words, sizeof words);
    } else {
        const uint64_t words[] = {n,    (uint64_t)sample->dim, sample->start, node,
                                  each, sample->frozen,        frozen_at,     sample->reorder_dim > 0};
        blob_add_u32(&head, sample->form == HEADER_RUST ? 96 : sample->reorder_dim ? 12 : 9);
        blob_add_u32(&head, 1);
        blob_add(&head, words, sizeof words);
        if (sample->reorder_dim) {
            add_u64(&head, reorder_sector);
            add_u64(&head, sample->reorder_dim);
            add_u64(&head, 4096 / (sample->reorder_dim * 4));
        }
        add_u64(&head, file_bytes);
        if (sample->form == HEADER_RUST) {
            add_u64(&head, sample->extra_bytes);
            add_u64(&head, sector_of(sample));
            add_u64(&head, 1); /* layout version 1.0 */
        }
    }
    memcpy(blob->bytes, head.bytes, head.size);
    blob_free(&head);
}

/* Vectors of float32 in sectors of their own. */
static void reorder_add(struct blob *blob, const struct diskann_sample *sample) {
    struct diskann_sample full = *sample;
    full.dim = sample->reorder_dim, full.dtype = VIC_F32;
    char *rows = diskann_rows(&full);
    size_t bytes = row_bytes(&full), each = 4096 / bytes, begin = blob->size;
    for (int64_t i = 0; i < sample->n; i++) {
        pad_to(blob, begin + (size_t)i / each * 4096 + (size_t)i % each * bytes);
        blob_add(blob, rows + (size_t)i * bytes, bytes);
    }
    pad_to(blob, (blob->size + 4095) / 4096 * 4096);
    free(rows);
}

struct blob diskann_disk_blob(const struct diskann_sample *sample) {
    struct blob blob = {0};
    size_t sector = sector_of(sample), coordinates = coordinates_of(sample);
    char *rows = diskann_rows(sample);
    for (int64_t node = 0; node < sample->n; node++) {
        pad_to(&blob, diskann_node_at(sample, node));
        blob_add(&blob, rows + (size_t)node * coordinates, coordinates);
        list_add(&blob, sample, node);
    }
    pad_to(&blob, diskann_node_at(sample, sample->n - 1) + node_bytes_of(sample));
    pad_to(&blob, (blob.size + sector - 1) / sector * sector);
    uint64_t reorder_sector = blob.size / sector;
    if (sample->reorder_dim) reorder_add(&blob, sample);
    disk_header(&blob, sample, blob.size, reorder_sector);
    free(rows);
    return blob;
}

const char *diskann_memory_write(const struct diskann_sample *sample, const char *prefix) {
    char name[64];
    struct blob graph = diskann_graph_blob(sample), data = diskann_data_blob(sample);
    (void)snprintf(name, sizeof name, "%s.data", prefix);
    blob_write(scratch_path(prefix), graph.bytes, graph.size);
    blob_write(scratch_path(name), data.bytes, data.size);
    blob_free(&graph), blob_free(&data);
    return scratch_path(prefix);
}

const char *diskann_disk_write(const struct diskann_sample *sample, const char *prefix) {
    char name[64];
    struct blob disk = diskann_disk_blob(sample);
    (void)snprintf(name, sizeof name, "%s_disk.index", prefix);
    const char *path = scratch_path(name);
    blob_write(path, disk.bytes, disk.size);
    blob_free(&disk);
    return path;
}

void bin_write(const char *name, uint32_t rows, uint32_t columns, const void *values, size_t bytes) {
    struct blob blob = {0};
    blob_add_u32(&blob, rows), blob_add_u32(&blob, columns);
    blob_add(&blob, values, bytes);
    blob_write(scratch_path(name), blob.bytes, blob.size);
    blob_free(&blob);
}

void diskann_pivots_write(const char *name, uint32_t dim, uint32_t chunks) {
    size_t count = (size_t)256 * dim;
    float *values = take(count * 4);
    for (size_t i = 0; i < count; i++) values[i] = (float)(i % 7);
    uint64_t at[4] = {40};
    at[1] = at[0] + 8 + count * 4, at[2] = at[1] + 8 + dim * 4, at[3] = at[2] + 8 + (chunks + 1) * 4;
    struct blob blob = {0};
    blob_add_u32(&blob, 4), blob_add_u32(&blob, 1), blob_add(&blob, at, sizeof at);
    blob_add_u32(&blob, 256), blob_add_u32(&blob, dim), blob_add(&blob, values, count * 4);
    blob_add_u32(&blob, dim), blob_add_u32(&blob, 1), blob_add(&blob, values, dim * 4);
    blob_add_u32(&blob, chunks + 1), blob_add_u32(&blob, 1);
    for (uint32_t j = 0; j <= chunks; j++) blob_add_u32(&blob, j < chunks ? j : dim);
    blob_write(scratch_path(name), blob.bytes, blob.size);
    blob_free(&blob);
    free(values);
}

void file_copy(const char *from, const char *name) {
    struct blob blob = blob_read(from);
    blob_write(scratch_path(name), blob.bytes, blob.size);
    blob_free(&blob);
}

void check_same_files(const char *one, const char *other) {
    struct blob blob = blob_read(one);
    assert_true(blob_equals_file(&blob, other));
    blob_free(&blob);
}

/* Files that are open, this folder's own among them. */
static int files_open(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder)) count++;
    (void)closedir(folder);
    return count;
}

void diskann_refused(const char *path, enum vic_dtype dtype, enum vic_status status, const char *words) {
    const struct vic_open_options options = {.size = sizeof options, .dtype = dtype};
    struct vic_device_info before = {.size = sizeof before}, after = {.size = sizeof after};
    struct vic_index *index = NULL;
    must(vic_device_info(test_device, &before));
    int files = files_open();
    enum vic_status found = vic_index_open(test_device, path, &options, &index);
    assert_int_equal(files_open(), files);
    must(vic_device_info(test_device, &after));
    if (found != status || !strstr(vic_last_error(), words))
        print_message("%s: \"%s\" should hold \"%s\"\n", vic_status_name(found), vic_last_error(), words);
    assert_int_equal(found, status);
    assert_non_null(strstr(vic_last_error(), words));
    assert_null(index);
    assert_int_equal(before.host_used, after.host_used);
}

void golden_ask(const struct vic_index *index, const char *set, enum vic_codes codes, struct golden_answers *answers) {
    char path[100];
    (void)snprintf(path, sizeof path, DISKANN_GOLDEN "%s.data", set);
    struct blob data = blob_read(path);
    const struct vic_matrix queries = matrix_of(data.bytes + 8, SET_NQ, SET_DIM, VIC_F32);
    const struct vic_search_options options = {
        .size = sizeof options, .path = codes ? VIC_PATH_GRAPH : VIC_PATH_SCAN, .beam = 64, .codes = codes};
    const struct vic_hits hits = {.ids = answers->ids, .scores = answers->scores};
    must(vic_index_search(index, &queries, SET_K, &options, &hits));
    blob_free(&data);
}

void golden_walk_agrees(const char *set) {
    const struct vic_open_options options = {.size = sizeof options, .check = 1};
    struct golden_answers found, exact;
    struct vic_index *index = NULL;
    struct vic_truth answers;
    double recall = 0;
    char path[100];
    (void)snprintf(path, sizeof path, DISKANN_GOLDEN "%s_disk.index", set);
    must(vic_index_open(test_device, path, &options, &index));
    golden_ask(index, set, VIC_CODES_PQ, &found);
    const struct vic_truth walked = {.nq = SET_NQ, .k = SET_K, .ids = found.ids};
    (void)snprintf(path, sizeof path, DISKANN_GOLDEN "%s_answers.bin", set);
    must(vic_truth_read(path, &answers));
    must(vic_recall(&walked, &answers, SET_K, SET_N, &recall));
    assert_true(recall >= 0.99);
    golden_ask(index, set, 0, &exact);
    for (int i = 0; i < SET_NQ * SET_K; i++)
        if (found.ids[i] == exact.ids[i]) assert_memory_equal(&found.scores[i], &exact.scores[i], sizeof(float));
    vic_truth_free(&answers);
    vic_index_free(index);
}
