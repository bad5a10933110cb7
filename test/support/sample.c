/* Sample indexes and the surgery of files. */
#include "support/sample.h"
#include "support/oracle.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { QUERIES = 3 };

static void texts_make(int64_t n, char *bytes, int64_t *offsets) {
    offsets[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t length = i % 5;
        memset(bytes + offsets[i], 'a' + (int)(i % 26), (size_t)length);
        offsets[i + 1] = offsets[i] + length;
    }
}

enum vic_status sample_try_build(struct vic_device *device, const struct sample *sample, const char *path,
                                 struct vic_index **index) {
    int64_t n = sample->n, count = n * sample->dim;
    struct random random = {sample->seed};
    void *rows = take((size_t)count * vic_dtype_bytes(sample->dtype));
    int64_t *ids = take((size_t)n * sizeof *ids), *offsets = take((size_t)(n + 1) * sizeof *offsets);
    char *bytes = take((size_t)n * 4);
    random_fill(&random, VALUES_UNIT, sample->dtype, count, rows);
    for (int64_t i = 0; i < n; i++) ids[i] = 3 + 7 * (n - 1 - i);
    texts_make(n, bytes, offsets);
    struct vic_texts texts = {bytes, offsets, n};
    struct vic_matrix matrix = matrix_of(rows, n, sample->dim, sample->dtype);
    bool product = (sample->planes & SAMPLE_PRODUCT) == SAMPLE_PRODUCT;
    const struct vic_graph_options graph = {
        .size = sizeof graph, .degree = SAMPLE_DEGREE, .beam = 12, .force = 1, .pq_chunks = product ? SAMPLE_CHUNKS : 0};
    struct vic_build_options options = {.size = sizeof options,
                                        .metric = sample->metric,
                                        .ids = sample->ids ? ids : NULL,
                                        .texts = sample->texts ? &texts : NULL,
                                        .metadata = sample->metadata,
                                        .path = path,
                                        .planes = sample->planes & ~SAMPLE_PRODUCT,
                                        .graph = sample->planes & SAMPLE_GRAPH ? &graph : NULL};
    enum vic_status status = vic_index_build(device, &matrix, &options, index);
    free(rows);
    free(ids);
    free(offsets);
    free(bytes);
    return status;
}

struct vic_index *sample_build(struct vic_device *device, const struct sample *sample, const char *path) {
    struct vic_index *index = NULL;
    must(sample_try_build(device, sample, path, &index));
    return index;
}

enum vic_status sample_try_open(struct vic_device *device, const char *path, int32_t check, struct vic_index **index) {
    struct vic_open_options options = {.size = sizeof options, .check = check};
    return vic_index_open(device, path, &options, index);
}

struct vic_index *sample_open(struct vic_device *device, const char *path) {
    struct vic_index *index = NULL;
    must(sample_try_open(device, path, 0, &index));
    return index;
}

static struct vic_index_info info_of(const struct vic_index *index) {
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    return info;
}

/* Hashes what the fixed queries give on a path: more hits than there are rows, up to 64; on codes, the best one; of a short
 * walk, a few. */
static void searches_hash(const struct vic_index *index, const struct vic_index_info *info, enum vic_path path,
                          enum vic_codes codes, XXH3_state_t *hash) {
    int64_t k = info->rows < 64 ? info->rows + 2 : 64;
    if (path == VIC_PATH_CERTIFIED) k = 1;
    if (path == VIC_PATH_GRAPH) k = 4;
    struct random random = {99};
    float *queries = take((size_t)(QUERIES * info->dim) * sizeof *queries),
          *scores = take((size_t)(QUERIES * k) * sizeof *scores);
    int64_t *ids = take((size_t)(QUERIES * k) * sizeof *ids);
    int32_t counts[QUERIES];
    random_fill(&random, VALUES_UNIT, VIC_F32, QUERIES * info->dim, queries);
    struct vic_matrix matrix = matrix_of(queries, QUERIES, info->dim, VIC_F32);
    struct vic_hits hits = {.ids = ids, .scores = scores, .counts = counts};
    struct vic_search_options options = {.size = sizeof options, .path = path};
    if (path == VIC_PATH_GRAPH) options.beam = 6, options.parents = 2, options.codes = codes;
    must(vic_index_search(index, &matrix, k, &options, &hits));
    XXH3_64bits_update(hash, ids, (size_t)(QUERIES * k) * sizeof *ids);
    XXH3_64bits_update(hash, scores, (size_t)(QUERIES * k) * sizeof *scores);
    XXH3_64bits_update(hash, counts, sizeof counts);
    free(queries);
    free(scores);
    free(ids);
}

/* Ids that a file gives need not be found again when it is damaged, nor need texts lie right; both may only be refused. */
static void contents_hash(const struct vic_index *index, const struct vic_index_info *info, XXH3_state_t *hash) {
    char *vector = take((size_t)info->dim * vic_dtype_bytes(info->dtype));
    for (int64_t row = 0; row < info->rows; row++) {
        int64_t id = -1;
        const char *text = NULL;
        size_t bytes = 0;
        must(vic_index_ids(index, row, 1, &id));
        XXH3_64bits_update(hash, &id, sizeof id);
        if (vic_index_vector(index, id, vector) == VIC_OK)
            XXH3_64bits_update(hash, vector, (size_t)info->dim * vic_dtype_bytes(info->dtype));
        if (vic_index_text(index, id, &text, &bytes) == VIC_OK) {
            XXH3_64bits_update(hash, &bytes, sizeof bytes);
            XXH3_64bits_update(hash, text, bytes);
        }
    }
    free(vector);
}

uint64_t sample_hash(const struct vic_index *index) {
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    struct vic_index_info info = info_of(index);
    XXH3_64bits_update(&hash, &info.next_id, sizeof info.next_id);
    XXH3_64bits_update(&hash, &info.has_texts, sizeof info.has_texts);
    XXH3_64bits_update(&hash, info.metadata, strlen(info.metadata));
    searches_hash(index, &info, 0, 0, &hash);
    if (info.planes > VIC_PLANES_NONE) searches_hash(index, &info, VIC_PATH_CERTIFIED, 0, &hash);
    if (info.degree) searches_hash(index, &info, VIC_PATH_GRAPH, 0, &hash);
    if (info.pq_chunks) searches_hash(index, &info, VIC_PATH_GRAPH, VIC_CODES_PQ, &hash);
    contents_hash(index, &info, &hash);
    return XXH3_64bits_digest(&hash);
}

enum vic_status sample_probe(struct vic_index *index) {
    (void)sample_hash(index);
    return vic_index_check(index, NULL);
}

/* ---- a file's bytes, opened */

enum vic_status blob_open(struct vic_device *device, const struct blob *blob, int32_t check, struct vic_index **index) {
    *index = NULL;
    blob_write(scratch_path("blob"), blob->bytes, blob->size);
    return sample_try_open(device, scratch_path("blob"), check, index);
}

void blob_refused(struct vic_device *device, const struct blob *blob, enum vic_status wanted, const char *says) {
    struct vic_index *index = NULL;
    enum vic_status status = blob_open(device, blob, 0, &index);
    if (status != wanted || !strstr(vic_last_error(), says))
        fail_msg("expected %s with \"%s\", found %s: %s", vic_status_name(wanted), says, vic_status_name(status),
                 vic_last_error());
    assert_null(index);
}

void blob_found_by_check(struct vic_device *device, const struct blob *blob, const char *says) {
    struct vic_index *index = NULL;
    enum vic_status status = blob_open(device, blob, 1, &index);
    if (status != VIC_FORMAT || !strstr(vic_last_error(), says)) fail_msg("expected \"%s\", found: %s", says, vic_last_error());
    assert_null(index);
    must(blob_open(device, blob, 0, &index));
    assert_int_equal(sample_probe(index), VIC_FORMAT);
    assert_non_null(strstr(vic_last_error(), says));
    vic_index_free(index);
}

/* ---- a container's bytes */

uint64_t page_get(const struct blob *blob, size_t offset, size_t bytes) {
    uint64_t value = 0;
    memcpy(&value, blob->bytes + offset, bytes);
    return value;
}

void page_set(struct blob *blob, size_t offset, size_t bytes, uint64_t value) { memcpy(blob->bytes + offset, &value, bytes); }

size_t page_entry(const struct blob *blob, const char *name) {
    for (uint64_t i = 0; i < page_get(blob, PAGE_COUNT, 4); i++) {
        size_t entry = PAGE_ENTRIES + ENTRY * (size_t)i;
        if (strncmp((const char *)blob->bytes + entry, name, ENTRY_OFFSET) == 0) return entry;
    }
    return 0;
}

void page_seal(struct blob *blob) {
    for (uint64_t i = 0; i < page_get(blob, PAGE_COUNT, 4) && i < 32; i++) {
        size_t entry = PAGE_ENTRIES + ENTRY * (size_t)i;
        uint64_t offset = page_get(blob, entry + ENTRY_OFFSET, 8), bytes = page_get(blob, entry + ENTRY_BYTES, 8);
        if (offset > blob->size || bytes > blob->size - offset) continue;
        page_set(blob, entry + ENTRY_CHECKSUM, 8, XXH3_64bits(blob->bytes + offset, (size_t)bytes));
    }
    page_set(blob, PAGE_CHECKSUM, 8, XXH3_64bits(blob->bytes, PAGE_CHECKSUM));
}

unsigned char *section_bytes(const struct blob *blob, const char *name, size_t *bytes) {
    size_t entry = page_entry(blob, name);
    *bytes = entry ? (size_t)page_get(blob, entry + ENTRY_BYTES, 8) : 0;
    return entry ? blob->bytes + page_get(blob, entry + ENTRY_OFFSET, 8) : NULL;
}

/* The old bytes become a gap, and gaps are zero; the table stays in the order of offsets. */
void section_replace(struct blob *blob, const char *name, const void *bytes, size_t size) {
    size_t old = 0, entry = page_entry(blob, name), offset = (blob->size + 4095) / 4096 * 4096,
           count = page_get(blob, PAGE_COUNT, 4);
    unsigned char *grown = take(offset + size), moved[ENTRY];
    memset(grown, 0, offset + size);
    memcpy(grown, blob->bytes, blob->size);
    free(blob->bytes);
    *blob = (struct blob){grown, offset + size};
    unsigned char *gap = section_bytes(blob, name, &old);
    memset(gap, 0, old);
    memcpy(blob->bytes + offset, bytes, size);
    page_set(blob, entry + ENTRY_OFFSET, 8, offset);
    page_set(blob, entry + ENTRY_BYTES, 8, size);
    page_set(blob, PAGE_FILE_BYTES, 8, blob->size);
    size_t last = PAGE_ENTRIES + ENTRY * (count - 1);
    memcpy(moved, blob->bytes + entry, ENTRY);
    memmove(blob->bytes + entry, blob->bytes + entry + ENTRY, last - entry);
    memcpy(blob->bytes + last, moved, ENTRY);
    page_seal(blob);
}
