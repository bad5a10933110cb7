/* fvecs, bvecs, ivecs: every row is its dim as int32, then dim values (float32, uint8, int32).
 *
 * The surprising rule: the dim is checked again on every row as it is read, because a file cut and glued elsewhere still
 * has a size that fits. An empty file says no dim and is refused. */
#include "data/reader.h"

#include <string.h>

enum { PREFIX_BYTES = 4 };

static uint64_t pitch_bytes(const struct layout *layout) {
    return PREFIX_BYTES + (uint64_t)layout->dim * element_bytes(layout->element);
}

static enum vic_status vecs_open(struct vic_reader *reader) {
    const struct source *source = &reader->source;
    struct layout *layout = &reader->layout;
    const char *name = reader->format->name;
    if (source->bytes < PREFIX_BYTES)
        return status_fail(VIC_FORMAT, "%s: expected at least 4 bytes (the dim of the first row of an %s file), found %llu",
                           source->name, name, (unsigned long long)source->bytes);
    layout->dim = (int32_t)source_word(source, 0);
    if (layout->dim < 1)
        return status_fail(VIC_FORMAT, "%s: expected row 0 to begin with its dim as %s files do, found %lld", source->name,
                           name, (long long)layout->dim);
    uint64_t pitch = pitch_bytes(layout);
    layout->rows = (int64_t)(source->bytes / pitch);
    if (source->bytes % pitch == 0) return VIC_OK;
    return status_fail(VIC_FORMAT, "%s: expected a multiple of %llu bytes (row 0 says dim %lld, %s), found %llu bytes",
                       source->name, (unsigned long long)pitch, (long long)layout->dim, element_name(layout->element),
                       (unsigned long long)source->bytes);
}

/* The size fits, and the second and the last row repeat the dim of the first. */
static enum fit vecs_probe(const struct reader_format *format, const struct source *source, struct layout *layout) {
    int32_t dim = (int32_t)source_word(source, 0), again = dim;
    layout->dim = dim;
    if (source->bytes < PREFIX_BYTES || dim < 1 || source->bytes % pitch_bytes(layout) != 0) return FIT_NONE;
    uint64_t pitch = pitch_bytes(layout);
    layout->rows = (int64_t)(source->bytes / pitch);
    const uint64_t looked_at[] = {1, (uint64_t)layout->rows - 1};
    for (size_t i = 0; i < 2 && layout->rows > 1; i++)
        if (source_read(source, looked_at[i] * pitch, &again, sizeof again) != VIC_OK || again != dim) return FIT_NONE;
    /* fvecs and ivecs have the same shape: the values tell. bvecs of one row have little to go by. */
    if (format == &bvecs_format) return layout->rows > 1 ? FIT_VALUES : FIT_SIZE;
    bool ids = source_has_ids(source, PREFIX_BYTES, (uint64_t)dim);
    return ids == (format == &ivecs_format) ? FIT_VALUES : FIT_SIZE;
}

static enum vic_status vecs_read(struct vic_reader *reader, int64_t first, int64_t count, char *out, int64_t stride_bytes) {
    const struct layout *layout = &reader->layout;
    uint64_t pitch = pitch_bytes(layout);
    int64_t most = (int64_t)(reader->block_bytes / pitch);
    for (int64_t start = 0; start < count; start += most) {
        int64_t rows = count - start < most ? count - start : most;
        enum vic_status status =
            source_read(&reader->source, (uint64_t)(first + start) * pitch, reader->block, (uint64_t)rows * pitch);
        if (status != VIC_OK) return status;
        for (int64_t i = 0; i < rows; i++) {
            const unsigned char *row = reader->block + (uint64_t)i * pitch;
            int32_t dim;
            memcpy(&dim, row, sizeof dim);
            if (dim != layout->dim)
                return status_fail(VIC_FORMAT, "%s: expected row %lld to begin with dim %lld as row 0 does, found %d",
                                   reader->source.name, (long long)(first + start + i), (long long)layout->dim, (int)dim);
            memcpy(out + (start + i) * stride_bytes, row + PREFIX_BYTES, (size_t)(pitch - PREFIX_BYTES));
        }
    }
    return VIC_OK;
}

const struct reader_format fvecs_format = {.name = "fvecs",
                                           .endings = {{"fvecs", ELEMENT_F32}},
                                           .element = ELEMENT_F32,
                                           .holds = HOLDS_VECTORS,
                                           .probe = vecs_probe,
                                           .open = vecs_open,
                                           .read = vecs_read};
const struct reader_format bvecs_format = {.name = "bvecs",
                                           .endings = {{"bvecs", ELEMENT_U8}},
                                           .element = ELEMENT_U8,
                                           .holds = HOLDS_VECTORS,
                                           .probe = vecs_probe,
                                           .open = vecs_open,
                                           .read = vecs_read};
const struct reader_format ivecs_format = {.name = "ivecs",
                                           .endings = {{"ivecs", ELEMENT_I32}},
                                           .element = ELEMENT_I32,
                                           .holds = HOLDS_IDS,
                                           .probe = vecs_probe,
                                           .open = vecs_open,
                                           .read = vecs_read};
