/* The window that DiskANN's files are read through, and the small files that lie beside them. */
#include "data/diskann.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum vic_status window_get(struct window *window, uint64_t offset, uint64_t bytes, const unsigned char **at) {
    if (offset > window->end || bytes > window->end - offset)
        return status_fail(VIC_FORMAT, "%s: expected %" PRIu64 " bytes at byte %" PRIu64 ", found the end at %" PRIu64,
                           window->source->name, bytes, offset, window->end);
    if (offset < window->begin || offset - window->begin > window->bytes || bytes > window->bytes - (offset - window->begin)) {
        uint64_t most = window->end - offset;
        window->begin = offset;
        window->bytes = most < sizeof window->data ? most : sizeof window->data;
        enum vic_status status = source_read(window->source, offset, window->data, window->bytes);
        if (status != VIC_OK) window->bytes = 0;
        if (status != VIC_OK) return status;
    }
    *at = window->data + (offset - window->begin);
    return VIC_OK;
}

enum vic_status diskann_bin_open(const struct source *source, uint64_t each, int64_t *rows, int64_t *dim) {
    struct layout layout = {.rows = source_word(source, 0), .dim = source_word(source, 4)};
    uint64_t bytes = (uint64_t)layout.rows * (uint64_t)layout.dim; /* two times 32 bits */
    *rows = layout.rows, *dim = layout.dim;
    if (source->bytes >= 8 && checked_mul(bytes, each, &bytes) && bytes == source->bytes - 8) return VIC_OK;
    return status_fail(VIC_FORMAT,
                       "%s: expected 8 bytes and %" PRId64 " rows of %" PRId64 " values of %" PRIu64 " bytes, found %" PRIu64
                       " bytes",
                       source->name, layout.rows, layout.dim, each, source->bytes);
}

enum vic_status diskann_beside_open(const char *path, const char *cut, const char *suffix, struct source *source) {
    char beside[PATH_MAX];
    size_t length = strlen(path), end = cut ? strlen(cut) : 0;
    *source = (struct source){.fd = -1};
    if (end > length || (cut && strcmp(path + length - end, cut) != 0)) end = 0;
    int used = snprintf(beside, sizeof beside, "%.*s%s", (int)(length - end), path, suffix);
    if (used < 0 || (size_t)used >= sizeof beside)
        return status_fail(VIC_NOT_FOUND, "expected a path of less than %zu bytes, found %d", sizeof beside, used);
    enum vic_status status = source_open(beside, source);
    source->path = NULL; /* it pointed here */
    return status;
}

enum vic_status diskann_beside_look(const char *path, const char *cut, const char *suffix, struct source *source, bool *there) {
    struct status_note note;
    status_keep(&note, VIC_INTERNAL);
    enum vic_status status = diskann_beside_open(path, cut, suffix, source);
    *there = status == VIC_OK;
    if (status != VIC_NOT_FOUND) return status;
    (void)status_raise(&note);
    return VIC_OK;
}

/* uint64 each: element type, metric, rows, dim. */
static enum vic_status description_read(const struct source *source, struct diskann_beside *beside) {
    static const enum element elements[] = {ELEMENT_F32, ELEMENT_I8, ELEMENT_U8};
    static const enum vic_metric metrics[] = {VIC_L2, VIC_DOT, VIC_COSINE};
    uint64_t words[4] = {0};
    enum vic_status status = VIC_OK;
    if (source->bytes != sizeof words)
        return status_fail(VIC_FORMAT, "%s: expected 32 bytes (type, metric, rows, dim), found %" PRIu64, source->name,
                           source->bytes);
    TRY(source_read(source, 0, words, sizeof words));
    if (words[0] > 2 || words[1] > 2)
        return status_fail(VIC_FORMAT, "%s: expected an element type and a metric from 0 to 2, found %" PRIu64 " and %" PRIu64,
                           source->name, words[0], words[1]);
    if (words[2] > UINT32_MAX || words[3] > (uint64_t)DIM_MAX)
        return status_fail(VIC_FORMAT, "%s: expected rows of 32 bits and a dim up to %lld, found %" PRIu64 " and %" PRIu64,
                           source->name, (long long)DIM_MAX, words[2], words[3]);
    beside->element = elements[words[0]], beside->metric = metrics[words[1]];
    beside->described_rows = (int64_t)words[2], beside->described_dim = (int64_t)words[3];
done:
    return status;
}

static enum vic_status norm_read(const struct source *source, struct diskann_beside *beside) {
    int64_t rows = 0, dim = 0;
    enum vic_status status = VIC_OK;
    TRY(diskann_bin_open(source, sizeof(float), &rows, &dim));
    if (rows != 1 || dim != 1)
        return status_fail(VIC_FORMAT, "%s: expected one number, found %" PRId64 " rows of %" PRId64, source->name, rows, dim);
    TRY(source_read(source, 8, &beside->max_base_norm, sizeof beside->max_base_norm));
    uint32_t bits;
    memcpy(&bits, &beside->max_base_norm, sizeof bits);
    if (bits == 0 || bits >= 0x7f800000u)
        return status_fail(VIC_FORMAT, "%s: expected a finite norm above 0, found the bits %08" PRIx32, source->name, bits);
done:
    return status;
}

/* In 2021 the pivots were a plain bin. */
static enum vic_status pivots_look(const struct source *source, struct diskann_pivots *pivots) {
    int64_t centres = 0;
    *pivots = (struct diskann_pivots){0};
    if (source_word(source, 0) == DISKANN_CENTRES) return diskann_bin_open(source, sizeof(float), &centres, &pivots->dim);
    return diskann_pivots_open(source, pivots);
}

enum vic_status diskann_beside_read(const char *path, enum diskann_set set, struct diskann_beside *beside) {
    const char *cut = set == DISKANN_SET_DISK ? DISKANN_DISK_END : NULL;
    struct source source = {.fd = -1};
    bool there = false;
    enum vic_status status = VIC_OK;
    *beside = (struct diskann_beside){.described_rows = -1, .described_dim = -1, .codes_rows = -1, .pivots.dim = -1};
    TRY(diskann_beside_look(path, cut, "_metadata.bin", &source, &there));
    if (there) TRY(description_read(&source, beside));
    if (set == DISKANN_SET_MEMORY) goto done;
    source_close(&source);
    TRY(diskann_beside_look(path, NULL, "_max_base_norm.bin", &source, &there));
    if (there) TRY(norm_read(&source, beside));
    if (there && beside->metric && beside->metric != VIC_DOT)
        TRY(status_fail(VIC_FORMAT, "%s: expected no norm, since _metadata.bin beside it says %s, found %g", source.name,
                        vic_metric_name(beside->metric), (double)beside->max_base_norm));
    if (there) beside->metric = VIC_DOT;
    source_close(&source);
    TRY(diskann_beside_look(path, cut, "_pq_compressed.bin", &source, &there));
    if (there) TRY(diskann_bin_open(&source, 1, &beside->codes_rows, &beside->codes_chunks));
    source_close(&source);
    TRY(diskann_beside_look(path, cut, "_pq_pivots.bin", &source, &there));
    if (there) TRY(pivots_look(&source, &beside->pivots));
    source_close(&source);
    TRY(diskann_beside_look(path, cut, DISKANN_ROTATION_END, &source, &beside->rotated));
    source_close(&source);
    TRY(diskann_beside_look(path, NULL, "_pq_pivots.bin", &source, &beside->codes));
done:
    source_close(&source);
    return status;
}
