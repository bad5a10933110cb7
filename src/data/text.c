/* Files of lines: one text a row.
 *
 * Read twice in blocks, first counted, then copied, so that both arrays have their exact size and the line ends in between
 * are never stored. A file that changes between the two passes is noticed, not overrun. */
#include "data/reader.h"

#include <string.h>

static const uint64_t block_bytes = UINT64_C(1) << 20;

/* ---- the two passes */

struct lines {
    int64_t count;  /* lines ended so far */
    uint64_t bytes; /* kept so far */
    bool open;      /* a line has begun and not ended */
    bool carriage;  /* the block ended in a CR, not kept yet: it may belong to a line end */
    /* The second pass: where to, and how much there is room for. NULL in the first. */
    char *text;
    int64_t *offsets;
    int64_t count_max;
    uint64_t bytes_max;
};

static bool lines_keep(struct lines *lines, const char *run, uint64_t bytes) {
    if (lines->text) {
        if (bytes > lines->bytes_max - lines->bytes) return false;
        memcpy(lines->text + lines->bytes, run, (size_t)bytes);
    }
    lines->bytes += bytes;
    return true;
}

static bool lines_end(struct lines *lines) {
    if (lines->offsets) {
        if (lines->count == lines->count_max) return false;
        lines->offsets[lines->count + 1] = (int64_t)lines->bytes;
    }
    lines->count++;
    lines->open = lines->carriage = false;
    return true;
}

/* False when there is more than the first pass found. */
static bool lines_take(struct lines *lines, const char *at, uint64_t bytes) {
    const char *end = at + bytes;
    bool good = true;
    while (at < end && good) {
        const char *feed = memchr(at, '\n', (size_t)(end - at)), *stop = feed ? feed : end;
        if (stop > at) {
            if (lines->carriage) good = lines_keep(lines, "\r", 1);
            lines->carriage = stop[-1] == '\r';
            good = good && lines_keep(lines, at, (uint64_t)(stop - at) - lines->carriage);
            lines->open = true;
        }
        if (feed) good = good && lines_end(lines);
        at = feed ? feed + 1 : end;
    }
    return good;
}

static enum vic_status lines_scan(const struct source *source, char *block, struct lines *lines) {
    enum vic_status status = VIC_OK;
    bool good = true;
    for (uint64_t offset = 0; offset < source->bytes && good; offset += block_bytes) {
        uint64_t bytes = source->bytes - offset < block_bytes ? source->bytes - offset : block_bytes;
        TRY(source_read(source, offset, block, bytes));
        good = lines_take(lines, block, bytes);
    }
    if (lines->carriage) good = good && lines_keep(lines, "\r", 1);
    if (lines->open) good = good && lines_end(lines);
    if (!good) status = status_fail(VIC_IO, "%s was changed while it was read", source->name);
done:
    return status;
}

enum vic_status text_count(const struct source *source, int64_t *count) {
    struct lines lines = {0};
    void *block = NULL;
    enum vic_status status = mem_alloc(&mem_default, block_bytes, "a reader's block", &block);
    if (status == VIC_OK) status = lines_scan(source, block, &lines);
    if (status == VIC_OK) *count = lines.count;
    mem_free(&mem_default, block, block_bytes);
    return status;
}

/* ---- texts */

/* Texts may hold any bytes, but a file with the signature of another format is somebody's mistake. */
static enum vic_status kind_check(const struct source *source) {
    static const struct reader_format *const others[] = {&npy_format, &hdf5_format};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct layout layout = {0};
        if (others[i]->probe(others[i], source, &layout) == FIT_MAGIC)
            return status_fail(VIC_FORMAT, "%s: expected lines of text, found an %s file", source->name, others[i]->name);
    }
    if (source_is_container(source))
        return status_fail(VIC_FORMAT, "%s: expected lines of text, found an index of this library", source->name);
    return VIC_OK;
}

static enum vic_status texts_copy(const struct source *source, char *block, const struct lines *counted,
                                  struct vic_texts *texts) {
    enum vic_status status = VIC_OK;
    void *text = NULL, *offsets = NULL;
    uint64_t offsets_count = (uint64_t)counted->count + 1;
    TRY(mem_alloc(&mem_default, counted->bytes, "a file's texts", &text));
    TRY(mem_alloc_array(&mem_default, offsets_count, sizeof(int64_t), "a file's texts", &offsets));
    struct lines lines = {.text = text, .offsets = offsets, .count_max = counted->count, .bytes_max = counted->bytes};
    lines.offsets[0] = 0;
    TRY(lines_scan(source, block, &lines));
    if (lines.count != counted->count || lines.bytes != counted->bytes)
        TRY(status_fail(VIC_IO, "%s was changed while it was read", source->name));
    *texts = (struct vic_texts){.bytes = text, .offsets = offsets, .count = lines.count};
    text = offsets = NULL;
done:
    mem_free(&mem_default, offsets, offsets_count * sizeof(int64_t));
    mem_free(&mem_default, text, counted->bytes);
    return status;
}

enum vic_status vic_texts_read(const char *path, struct vic_texts *texts) {
    enum vic_status status = VIC_OK;
    struct source source = {.fd = -1};
    struct lines counted = {0};
    void *block = NULL;
    if (!texts) return status_fail(VIC_ARGUMENT, "expected texts to fill, found NULL");
    TRY(source_open(path, &source));
    TRY(kind_check(&source));
    TRY(mem_alloc(&mem_default, block_bytes, "a reader's block", &block));
    TRY(lines_scan(&source, block, &counted));
    TRY(texts_copy(&source, block, &counted, texts));
done:
    mem_free(&mem_default, block, block_bytes);
    source_close(&source);
    return status;
}

void vic_texts_free(struct vic_texts *texts) {
    if (!texts) return;
    if (texts->offsets) {
        mem_free(&mem_default, (void *)(uintptr_t)texts->bytes, (uint64_t)texts->offsets[texts->count]);
        mem_free(&mem_default, (void *)(uintptr_t)texts->offsets, ((uint64_t)texts->count + 1) * sizeof(int64_t));
    }
    memset(texts, 0, sizeof *texts);
}

/* ---- the format: there to be recognised and named; it holds no vectors */

static enum fit text_probe(const struct reader_format *format, const struct source *source, struct layout *layout) {
    (void)format, (void)layout;
    for (uint64_t i = 0; i < source->head_bytes; i++)
        if (source->head[i] < 0x20 && !strchr("\t\n\v\f\r\x1b", source->head[i])) return FIT_NONE;
    return memchr(source->head, '\0', (size_t)source->head_bytes) ? FIT_NONE : FIT_SIZE;
}

static enum vic_status text_open(struct vic_reader *reader) {
    return status_fail(VIC_FORMAT, "%s: expected vectors or neighbours, found lines of text", reader->source.name);
}

const struct reader_format text_format = {
    .name = "text", .endings = {{"txt", ELEMENT_NONE}}, .holds = HOLDS_NOTHING, .probe = text_probe, .open = text_open};
