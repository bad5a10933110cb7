/* The bin family (fbin, u8bin, i8bin, f16bin): uint32 n, uint32 dim, then n * dim values.
 *
 * The surprising rule: the type is not in the file. It comes from the options, else from the ending; an ending that only
 * says .bin is refused with the types that the size allows. */
#include "data/reader.h"

#include <stdio.h>

enum { HEADER_BYTES = 8 };

static enum fit bin_probe(const struct reader_format *format, const struct source *source, struct layout *layout) {
    static const enum element by_bytes[] = {ELEMENT_NONE, ELEMENT_NONE, ELEMENT_NONE, ELEMENT_NONE, ELEMENT_F32};
    (void)format;
    uint64_t n = source_word(source, 0), dim = source_word(source, 4);
    if (source->bytes < HEADER_BYTES || dim < 1 || dim > (uint64_t)DIM_MAX) return FIT_NONE;
    layout->rows = (int64_t)n, layout->dim = (int64_t)dim;
    for (uint64_t bytes = 1; bytes <= 4; bytes *= 2) {
        if (source->bytes - HEADER_BYTES != n * dim * bytes) continue;
        layout->element = by_bytes[bytes];
        bool floats = bytes == 4 && n > 0 && !source_has_ids(source, HEADER_BYTES, dim);
        return floats ? FIT_VALUES : FIT_SIZE;
    }
    return FIT_NONE;
}

static enum vic_status bin_open(struct vic_reader *reader) {
    const struct source *source = &reader->source;
    struct layout *layout = &reader->layout;
    if (source->bytes < HEADER_BYTES)
        return status_fail(VIC_FORMAT, "%s: expected at least 8 bytes (the header of a bin file), found %llu bytes",
                           source->name, (unsigned long long)source->bytes);
    *layout = (struct layout){
        .rows = source_word(source, 0), .dim = source_word(source, 4), .element = reader->asked, .offset = HEADER_BYTES};
    if (reader->asked) return reader_check_size(source, layout);
    static const char *const types[] = {[0] = NULL, [1] = "i8 or u8", [2] = "f16 or bf16", [4] = "f32"};
    for (size_t bytes = 1; bytes <= 4; bytes *= 2)
        if ((source->bytes - HEADER_BYTES) == (uint64_t)layout->rows * (uint64_t)layout->dim * bytes)
            return status_fail(VIC_TYPE, "%s: expected the reader's dtype, which a .bin does not say: %s by its size",
                               source->name, types[bytes]);
    return status_fail(VIC_FORMAT, "%s: expected 8 bytes and %lld rows of dim %lld of 1, 2 or 4 bytes, found %llu bytes",
                       source->name, (long long)layout->rows, (long long)layout->dim, (unsigned long long)source->bytes);
}

const struct reader_format bin_format = {.name = "bin",
                                         .endings = {{"bin", ELEMENT_NONE},
                                                     {"fbin", ELEMENT_F32},
                                                     {"u8bin", ELEMENT_U8},
                                                     {"i8bin", ELEMENT_I8},
                                                     {"f16bin", ELEMENT_F16}},
                                         .holds = HOLDS_VECTORS,
                                         .probe = bin_probe,
                                         .open = bin_open,
                                         .read = reader_read_plain};
