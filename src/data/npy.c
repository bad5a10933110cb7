/* npy 1.0, 2.0 and 3.0: a signature, a header that is a Python dictionary, the elements.
 *
 * The header is parsed as the little language it is (three known keys in any order, two kinds of quotes, a comma more or
 * less), not evaluated. Fortran order is read column by column in gathers: rows of such a file lie rows * bytes apart, so
 * a block of rows costs one read a dimension. */
#include "data/npy.h"

#include "data/reader.h"

#include <stdio.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, TEXT_BYTES_MAX = 4096 };

void npy_header(const char *descr, int64_t rows, int64_t dim, unsigned char header[NPY_HEADER_BYTES]) {
    char text[NPY_HEADER_BYTES];
    int used = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld, %lld), }", descr,
                        (long long)rows, (long long)dim);
    memset(header, ' ', NPY_HEADER_BYTES);
    memcpy(header, magic, MAGIC_BYTES);
    header[6] = 1, header[7] = 0, header[8] = NPY_HEADER_BYTES - 10, header[9] = 0;
    memcpy(header + 10, text, (size_t)used);
    header[NPY_HEADER_BYTES - 1] = '\n';
}

/* ---- the dictionary */

struct cursor {
    const char *at, *end;
};

struct dictionary {
    char descr[16];
    int fortran;                    /* -1: not said */
    int shape_count;                /* -1: not said */
    uint64_t shape[2], offset_data; /* the first two sizes */
};

static char cursor_peek(struct cursor *text) {
    while (text->at < text->end && strchr(" \t\n\r", *text->at) && *text->at) text->at++;
    return text->at < text->end ? *text->at : '\0';
}

static bool cursor_take(struct cursor *text, char wanted) {
    if (cursor_peek(text) != wanted) return false;
    text->at++;
    return true;
}

static bool string_take(struct cursor *text, char *into, size_t capacity) {
    char quote = cursor_peek(text);
    size_t length = 0;
    if (quote != '\'' && quote != '"') return false;
    for (text->at++; text->at < text->end && *text->at != quote; text->at++) {
        if (length + 1 >= capacity) return false;
        into[length++] = *text->at;
    }
    into[length] = '\0';
    return cursor_take(text, quote);
}

static bool word_take(struct cursor *text, const char *word) {
    size_t length = strlen(word);
    (void)cursor_peek(text);
    if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length) != 0) return false;
    text->at += length;
    return true;
}

static bool number_take(struct cursor *text, uint64_t *value) {
    char digit = cursor_peek(text);
    if (digit < '0' || digit > '9') return false;
    for (*value = 0; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
        if (!checked_mul(*value, 10, value) || !checked_add(*value, (uint64_t)(*text->at - '0'), value)) return false;
    if (text->at < text->end && *text->at == 'L') text->at++; /* Python 2 wrote 10L */
    return true;
}

static bool shape_take(struct cursor *text, struct dictionary *found) {
    if (!cursor_take(text, '(')) return false;
    for (found->shape_count = 0; !cursor_take(text, ')'); found->shape_count++) {
        uint64_t size = 0;
        if (found->shape_count == 64 || !number_take(text, &size)) return false;
        if (found->shape_count < 2) found->shape[found->shape_count] = size;
        if (!cursor_take(text, ',') && cursor_peek(text) != ')') return false;
    }
    return true;
}

static bool dictionary_take(struct cursor *text, struct dictionary *found) {
    *found = (struct dictionary){.fortran = -1, .shape_count = -1};
    if (!cursor_take(text, '{')) return false;
    while (!cursor_take(text, '}')) {
        char key[16];
        bool good = string_take(text, key, sizeof key) && cursor_take(text, ':');
        if (good && strcmp(key, "descr") == 0)
            good = string_take(text, found->descr, sizeof found->descr);
        else if (good && strcmp(key, "fortran_order") == 0)
            good = word_take(text, "True") ? (found->fortran = 1, true) : (found->fortran = 0, word_take(text, "False"));
        else
            good = good && strcmp(key, "shape") == 0 && shape_take(text, found);
        if (!good || (!cursor_take(text, ',') && cursor_peek(text) != '}')) return false;
    }
    return found->descr[0] && found->fortran >= 0 && found->shape_count >= 0;
}

/* ---- the header */

/* Reads the dictionary and where the elements begin. */
static enum vic_status header_read(const struct source *source, struct dictionary *found) {
    char text[TEXT_BYTES_MAX];
    const char *name = source->name;
    enum vic_status status = VIC_OK;
    if (source->bytes < 12)
        return status_fail(VIC_FORMAT, "%s: expected at least 12 bytes (the signature of an npy file), found %llu bytes", name,
                           (unsigned long long)source->bytes);
    if (memcmp(source->head, magic, MAGIC_BYTES) != 0)
        return status_fail(VIC_FORMAT, "%s: expected the signature of an npy file, found other first bytes", name);
    int version = source->head[6];
    if (version < 1 || version > 3)
        return status_fail(VIC_VERSION, "%s: expected npy version 1, 2 or 3, found %d.%d", name, version, (int)source->head[7]);
    uint64_t start = version == 1 ? 10 : 12;
    uint64_t length = version == 1 ? source_word(source, 8) & 0xffffu : source_word(source, 8);
    if (length > sizeof text || start + length > source->bytes)
        return status_fail(VIC_FORMAT, "%s: expected an npy header of at most %d bytes within the file's %llu, found %llu",
                           name, TEXT_BYTES_MAX, (unsigned long long)source->bytes, (unsigned long long)length);
    TRY(source_read(source, start, text, length));
    struct cursor cursor = {text, text + length};
    if (!dictionary_take(&cursor, found) || cursor_peek(&cursor) != '\0') {
        int shown = length < 120 ? (int)length : 120;
        while (shown > 0 && strchr(" \n", text[shown - 1])) shown--; /* the padding says nothing */
        return status_fail(VIC_FORMAT,
                           "%s: expected an npy header of descr (a plain type), fortran_order and shape, found \"%.*s\"", name,
                           shown, text);
    }
    found->offset_data = start + length;
done:
    return status;
}

static enum element descr_element(const char *descr) {
    static const struct {
        const char *code;
        enum element element;
    } codes[] = {{"f4", ELEMENT_F32}, {"f2", ELEMENT_F16}, {"f8", ELEMENT_F64}, {"i1", ELEMENT_I8}, {"u1", ELEMENT_U8},
                 {"i4", ELEMENT_I32}, {"u4", ELEMENT_U32}, {"i8", ELEMENT_I64}, {"u8", ELEMENT_U64}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strchr("<>|=", descr[0]) && strcmp(descr + 1, codes[i].code) == 0) return codes[i].element;
    return ELEMENT_NONE;
}

static enum vic_status layout_read(const struct source *source, struct layout *layout) {
    struct dictionary found;
    enum vic_status status = header_read(source, &found);
    if (status != VIC_OK) return status;
    layout->element = descr_element(found.descr);
    if (!layout->element)
        return status_fail(VIC_TYPE, "%s: expected elements of f4, f2, i1, u1 (or f8; or i4, i8, u4, u8 for ids), found %s",
                           source->name, found.descr);
    if (found.shape_count != 2)
        return status_fail(VIC_DIMENSION, "%s: expected an array of 2 dimensions (rows, dim), found %d", source->name,
                           found.shape_count);
    if (found.shape[0] > INT64_MAX || found.shape[1] > INT64_MAX)
        return status_fail(VIC_FORMAT, "%s: expected a shape within 2^63, found %llu by %llu", source->name,
                           (unsigned long long)found.shape[0], (unsigned long long)found.shape[1]);
    layout->rows = (int64_t)found.shape[0], layout->dim = (int64_t)found.shape[1];
    layout->offset = found.offset_data;
    layout->columns_first = found.fortran == 1;
    layout->swapped = found.descr[0] == '>' && element_bytes(layout->element) > 1;
    return reader_check_size(source, layout);
}

static enum vic_status npy_open(struct vic_reader *reader) { return layout_read(&reader->source, &reader->layout); }

static enum fit npy_probe(const struct reader_format *format, const struct source *source, struct layout *layout) {
    (void)format;
    struct layout found = *layout;
    if (source->head_bytes < MAGIC_BYTES || memcmp(source->head, magic, MAGIC_BYTES) != 0) return FIT_NONE;
    if (layout_read(source, &found) == VIC_OK) *layout = found;
    return FIT_MAGIC;
}

/* ---- Fortran order */

/* As many rows at once as keep what is scattered to within a block, so that it stays in the cache. A million rows of dim
 * 128 take 1.6 s from a cached file where C order takes 0.3 s, writing them again included. */
static int64_t rows_at_once(const struct vic_reader *reader, int64_t row_bytes) {
    int64_t rows = (int64_t)reader->block_bytes / row_bytes;
    return rows < 64 ? 64 : rows;
}

static enum vic_status npy_read(struct vic_reader *reader, int64_t first, int64_t count, char *out, int64_t stride_bytes) {
    const struct layout *layout = &reader->layout;
    enum vic_status status = VIC_OK;
    if (!layout->columns_first) return reader_read_plain(reader, first, count, out, stride_bytes);
    uint64_t each = element_bytes(layout->element);
    if (layout->dim == 0) return VIC_OK;
    int64_t most = rows_at_once(reader, layout->dim * (int64_t)each);
    for (int64_t start = 0; start < count; start += most) {
        int64_t rows = count - start < most ? count - start : most;
        for (int64_t j = 0; j < layout->dim; j++) {
            uint64_t cell = (uint64_t)j * (uint64_t)layout->rows + (uint64_t)(first + start);
            TRY(source_read(&reader->source, layout->offset + cell * each, reader->block, (uint64_t)rows * each));
            if (layout->swapped) elements_swap(layout->element, reader->block, (uint64_t)rows);
            for (int64_t i = 0; i < rows; i++)
                memcpy(out + (start + i) * stride_bytes + (uint64_t)j * each, reader->block + (uint64_t)i * each, (size_t)each);
        }
    }
done:
    return status;
}

const struct reader_format npy_format = {.name = "npy",
                                         .endings = {{"npy", ELEMENT_NONE}},
                                         .holds = HOLDS_VECTORS | HOLDS_IDS,
                                         .probe = npy_probe,
                                         .open = npy_open,
                                         .read = npy_read};
