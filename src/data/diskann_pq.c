/* DiskANN's product quantisation: `_pq_pivots.bin` is a bin of 4 byte offsets, then, where they point, bins of 256 x dim
 * float32 centres, dim x 1 float32 centroid and (chunks + 1) x 1 uint32 first dimensions of chunks; the last offset is the
 * file's end. `_pq_compressed.bin` is a bin of nodes x chunks bytes.
 *
 * The surprising rule: a form of 5 offsets puts an order of the dimensions before the chunks' first dimensions. Later
 * versions read that form and ignore the order, so only the plain one is taken. */
#include "data/diskann.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { OFFSETS_MOST = 5 };

/* A bin inside the file: rows x columns values of 4 bytes, between two offsets of the table. */
static enum vic_status part_check(const struct source *source, const char *what, uint64_t begin, uint64_t end,
                                  uint32_t head[2]) {
    enum vic_status status = VIC_OK;
    if (end > source->bytes || begin > end || end - begin < 8)
        return status_fail(VIC_FORMAT,
                           "%s: expected %s between byte 0 and %" PRIu64 ", its size, found it from %" PRIu64 " to %" PRIu64,
                           source->name, what, source->bytes, begin, end);
    TRY(source_read(source, begin, head, 8));
    uint64_t values = (uint64_t)head[0] * head[1], bytes = 0;
    if (checked_mul(values, 4, &bytes) && bytes == end - begin - 8) return VIC_OK;
    return status_fail(VIC_FORMAT,
                       "%s: expected %" PRIu64 " bytes of %s, found %" PRIu32 " rows of %" PRIu32 " values of 4 bytes",
                       source->name, end - begin - 8, what, head[0], head[1]);
done:
    return status;
}

static enum vic_status order_check(const struct source *source, uint64_t at, int64_t dim) {
    struct window window = {.source = source, .end = source->bytes};
    const unsigned char *bytes = NULL;
    enum vic_status status = VIC_OK;
    for (int64_t j = 0; j < dim; j++) {
        uint32_t from;
        TRY(window_get(&window, at + (uint64_t)j * 4, 4, &bytes));
        memcpy(&from, bytes, sizeof from);
        if (from != j)
            return status_fail(VIC_UNSUPPORTED,
                               "%s: expected dimensions in their own order, found dimension %" PRIu32 " at place %" PRId64,
                               source->name, from, j);
    }
done:
    return status;
}

enum vic_status diskann_pivots_open(const struct source *source, struct diskann_pivots *pivots) {
    uint32_t count = source_word(source, 0), one = source_word(source, 4), head[2] = {0, 0};
    uint64_t at[OFFSETS_MOST];
    enum vic_status status = VIC_OK;
    *pivots = (struct diskann_pivots){0};
    if (source->bytes < 8 + OFFSETS_MOST * 8 || one != 1 || (count != 4 && count != OFFSETS_MOST))
        return status_fail(VIC_FORMAT,
                           "%s: expected pivots of DiskANN, which begin with 4 or 5 and 1, found %" PRIu32 " and %" PRIu32
                           " in %" PRIu64 " bytes",
                           source->name, count, one, source->bytes);
    memcpy(at, source->head + 8, sizeof at);
    uint64_t last = at[count - 1];
    if (last != source->bytes)
        return status_fail(VIC_FORMAT, "%s: expected %" PRIu64 " bytes, as its last offset says, found %" PRIu64, source->name,
                           last, source->bytes);
    TRY(part_check(source, "centres", at[0], at[1], head));
    if (head[0] != DISKANN_CENTRES || head[1] < 1 || head[1] > DIM_MAX)
        return status_fail(VIC_FORMAT, "%s: expected %d centres of dim 1 to %lld, found %" PRIu32 " of dim %" PRIu32,
                           source->name, DISKANN_CENTRES, (long long)DIM_MAX, head[0], head[1]);
    pivots->dim = head[1];
    TRY(part_check(source, "the centroid", at[1], at[2], head));
    if (head[0] != pivots->dim || head[1] != 1)
        return status_fail(VIC_FORMAT,
                           "%s: expected a centroid of %" PRId64 " x 1, as the centres have, found %" PRIu32 " x %" PRIu32,
                           source->name, pivots->dim, head[0], head[1]);
    if (count == OFFSETS_MOST) {
        TRY(part_check(source, "the order of dimensions", at[2], at[3], head));
        if (head[0] != pivots->dim || head[1] != 1)
            return status_fail(VIC_FORMAT, "%s: expected an order of %" PRId64 " x 1 dimensions, found %" PRIu32 " x %" PRIu32,
                               source->name, pivots->dim, head[0], head[1]);
        TRY(order_check(source, at[2] + 8, pivots->dim));
    }
    TRY(part_check(source, "chunk offsets", at[count - 2], last, head));
    if (head[0] < 2 || head[0] > pivots->dim + 1 || head[1] != 1)
        return status_fail(VIC_FORMAT, "%s: expected 2 to %" PRId64 " x 1 chunk offsets, found %" PRIu32 " x %" PRIu32,
                           source->name, pivots->dim + 1, head[0], head[1]);
    pivots->chunks = (int64_t)head[0] - 1, pivots->offsets = (int32_t)count;
    pivots->centres_at = at[0] + 8, pivots->centroid_at = at[1] + 8, pivots->offsets_at = at[count - 2] + 8;
done:
    return status;
}

static enum vic_status finite_check(const struct source *source, const char *what, const float *values, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        if ((bits & 0x7f800000u) == 0x7f800000u)
            return status_fail(VIC_FORMAT, "%s: expected finite %s, found the bits %08" PRIx32 " at value %" PRIu64,
                               source->name, what, bits, i);
    }
    return VIC_OK;
}

enum vic_status diskann_pivots_read(const struct source *source, const struct diskann_pivots *pivots, float *centres,
                                    float *centroid, uint32_t *offsets) {
    uint64_t dim = (uint64_t)pivots->dim, count = (uint64_t)pivots->chunks + 1;
    enum vic_status status = VIC_OK;
    TRY(source_read(source, pivots->centres_at, centres, DISKANN_CENTRES * dim * sizeof *centres));
    TRY(source_read(source, pivots->centroid_at, centroid, dim * sizeof *centroid));
    TRY(source_read(source, pivots->offsets_at, offsets, count * sizeof *offsets));
    TRY(finite_check(source, "centres", centres, DISKANN_CENTRES * dim));
    TRY(finite_check(source, "centroid", centroid, dim));
    for (uint64_t i = 0; i < count; i++) {
        bool edge = (i == 0 && offsets[i] != 0) || (i + 1 == count && offsets[i] != dim);
        if (edge || (i > 0 && offsets[i] <= offsets[i - 1]))
            return status_fail(
                VIC_FORMAT, "%s: expected chunk offsets that rise from 0 to %" PRIu64 ", found %" PRIu32 " at chunk %" PRIu64,
                source->name, dim, offsets[i], i);
    }
done:
    return status;
}

/* ---- as rows of the readers' table: known by name, not read as vectors */

static enum fit pivots_probe(const struct reader_format *format, const struct source *source, struct layout *layout) {
    struct diskann_pivots pivots;
    (void)format;
    if (diskann_pivots_open(source, &pivots) != VIC_OK) return FIT_NONE;
    layout->rows = DISKANN_CENTRES, layout->dim = pivots.dim;
    return FIT_MAGIC;
}

static enum vic_status pivots_open(struct vic_reader *reader) {
    struct diskann_pivots pivots;
    enum vic_status status = diskann_pivots_open(&reader->source, &pivots);
    if (status != VIC_OK) return status;
    return status_fail(VIC_TYPE,
                       "%s has pivots of DiskANN (%" PRIu32 " offsets): %d centres of dim %" PRId64 " in %" PRId64
                       " chunks; they are no vectors to search",
                       reader->source.name, source_word(&reader->source, 0), DISKANN_CENTRES, pivots.dim, pivots.chunks);
}

const struct reader_format diskann_pivots_format = {.name = "diskann-pivots",
                                                    .endings = {{"bin", ELEMENT_NONE}},
                                                    .element = ELEMENT_F32,
                                                    .holds = HOLDS_NOTHING,
                                                    .probe = pivots_probe,
                                                    .open = pivots_open};

/* Their bytes are those of a u8bin: the name decides. */
static bool codes_named(const struct source *source) {
    static const char end[] = "_pq_compressed.bin";
    size_t length = strlen(source->name), end_length = sizeof end - 1;
    return length >= end_length && strcmp(source->name + length - end_length, end) == 0;
}

static enum fit codes_probe(const struct reader_format *format, const struct source *source, struct layout *layout) {
    (void)format;
    if (!codes_named(source)) return FIT_NONE;
    return diskann_bin_open(source, 1, &layout->rows, &layout->dim) == VIC_OK ? FIT_MAGIC : FIT_NONE;
}

static enum vic_status codes_open(struct vic_reader *reader) {
    int64_t rows = 0, dim = 0;
    enum vic_status status = diskann_bin_open(&reader->source, 1, &rows, &dim);
    if (status != VIC_OK) return status;
    return status_fail(VIC_TYPE,
                       "%s has codes of DiskANN: %" PRId64 " nodes of %" PRId64 " chunks; they are no vectors to search",
                       reader->source.name, rows, dim);
}

const struct reader_format diskann_codes_format = {.name = "diskann-codes",
                                                   .endings = {{"bin", ELEMENT_NONE}},
                                                   .element = ELEMENT_U8,
                                                   .holds = HOLDS_NOTHING,
                                                   .probe = codes_probe,
                                                   .open = codes_open};
