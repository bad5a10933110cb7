/* The table of formats, how one is chosen, and vic_reader_*.
 *
 * The surprising rule: a file's name chooses the format, its bytes only confirm it. A .fbin that is really an fvecs file
 * is refused with a sentence that says so, never read as what it looks like: a name that lies is a mistake that its owner
 * wants to hear of. Only where the name says nothing do the bytes choose. */
#include "data/reader.h"

#include "base/fpenv.h"
#include "base/options.h"
#include "data/matrix.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const uint64_t block_bytes_least = UINT64_C(1) << 20;

/* ---- element types */

struct element_row {
    const char *name;
    uint64_t bytes;
};
static const struct element_row elements[] = {
    [ELEMENT_NONE] = {"", 0},   [ELEMENT_F32] = {"f32", 4}, [ELEMENT_F16] = {"f16", 2}, [ELEMENT_BF16] = {"bf16", 2},
    [ELEMENT_I8] = {"i8", 1},   [ELEMENT_U8] = {"u8", 1},   [ELEMENT_F64] = {"f64", 8}, [ELEMENT_I32] = {"i32", 4},
    [ELEMENT_U32] = {"u32", 4}, [ELEMENT_I64] = {"i64", 8}, [ELEMENT_U64] = {"u64", 8},
};
_Static_assert((int)ELEMENT_F32 == (int)VIC_F32 && (int)ELEMENT_U8 == (int)VIC_U8, "one numbering");

uint64_t element_bytes(enum element element) { return elements[element].bytes; }
const char *element_name(enum element element) { return elements[element].name; }
bool element_is_integer_id(enum element element) { return element >= ELEMENT_I32 && element <= ELEMENT_U64; }
static bool element_is_dtype(enum element element) { return element >= ELEMENT_F32 && element <= ELEMENT_U8; }

void elements_swap(enum element element, void *data, uint64_t count) {
    uint64_t bytes = element_bytes(element);
    unsigned char *at = data;
    for (uint64_t i = 0; i < count; i++, at += bytes)
        for (uint64_t low = 0, high = bytes - 1; low < high; low++, high--) {
            unsigned char byte = at[low];
            at[low] = at[high], at[high] = byte;
        }
}

/* ---- the table */

static enum fit container_probe(const struct reader_format *format, const struct source *source, struct layout *layout) {
    (void)format, (void)layout;
    return source_is_container(source) ? FIT_MAGIC : FIT_NONE;
}

static enum vic_status container_open(struct vic_reader *reader) {
    if (!source_is_container(&reader->source))
        return status_fail(VIC_FORMAT, "%s: expected an index of this library, found other first bytes", reader->source.name);
    return status_fail(VIC_FORMAT, "%s is an index of this library, not a file of vectors; open it with vic_index_open",
                       reader->source.name);
}

bool source_is_container(const struct source *source) {
    static const char magic[] = "VICINAL\n";
    return source->head_bytes >= sizeof magic - 1 && memcmp(source->head, magic, sizeof magic - 1) == 0;
}

static const struct reader_format container_format = {
    .name = "vicinal", .holds = HOLDS_NOTHING, .probe = container_probe, .open = container_open};

/* Signatures first; where two fit equally well the earlier one is taken. */
static const struct reader_format *const formats[] = {
    &container_format, &npy_format,          &hdf5_format,          &fvecs_format,          &bvecs_format,
    &ivecs_format,     &diskann_disk_format, &diskann_graph_format, &diskann_pivots_format, &diskann_codes_format,
    &truth_format,     &bin_format,          &text_format};
enum { FORMATS = sizeof formats / sizeof *formats };

/* ---- choosing */

/* A probe may fail inside; the thread's last sentence belongs to the caller all the same. */
static enum fit format_fit(const struct reader_format *format, const struct source *source, struct layout *layout) {
    struct status_note note;
    status_keep(&note, VIC_INTERNAL);
    *layout = (struct layout){.element = format->element};
    enum fit fit = format->probe(format, source, layout);
    (void)status_raise(&note);
    return fit;
}

/* The format that the bytes fit best, other than `not`, among those that hold `wanted` (0: any). */
static const struct reader_format *format_best(const struct source *source, const struct reader_format * not, int wanted,
                                               struct layout *layout, enum fit *fit) {
    const struct reader_format *best = NULL;
    *fit = FIT_NONE;
    for (int i = 0; i < FORMATS; i++) {
        struct layout found;
        if (formats[i] == not || (wanted && !(formats[i]->holds & wanted))) continue;
        enum fit how = format_fit(formats[i], source, &found);
        if (how > *fit) *fit = how, best = formats[i], *layout = found;
    }
    return best;
}

static const struct format_ending *format_ending_find(const struct reader_format *format, const char *ending) {
    for (const struct format_ending *row = format->endings; row->text; row++)
        if (strcasecmp(row->text, ending) == 0) return row;
    return NULL;
}

/* The format of a name or ending. Two share ".bin"; the one that holds what is wanted, then the one that fits, wins. */
static const struct reader_format *format_named(const struct source *source, const char *ending, int wanted) {
    const struct reader_format *best = NULL;
    int best_score = -1;
    for (int i = 0; i < FORMATS; i++) {
        struct layout found;
        if (strcasecmp(formats[i]->name, ending) != 0 && !format_ending_find(formats[i], ending)) continue;
        int score = (int)format_fit(formats[i], source, &found) + (formats[i]->holds & wanted ? 8 : 0);
        if (score > best_score) best_score = score, best = formats[i];
    }
    return best;
}

static enum vic_status format_choose(struct vic_reader *reader, const char *forced, int wanted) {
    const char *ending = forced ? forced : reader->source.ending;
    struct layout layout;
    enum fit fit;
    reader->format = format_named(&reader->source, ending, wanted);
    if (forced && !reader->format) {
        char names[192] = "";
        for (int i = 0; i < FORMATS; i++)
            (void)snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", formats[i]->name);
        return status_fail(VIC_ARGUMENT, "expected options.format to be one of %s, found \"%.40s\"", names, forced);
    }
    if (!reader->format) reader->format = format_best(&reader->source, NULL, wanted, &layout, &fit);
    if (!reader->format) reader->format = format_best(&reader->source, NULL, 0, &layout, &fit);
    if (!reader->format)
        return status_fail(VIC_FORMAT, "%s: expected a file of vectors or neighbours, found %llu bytes of no known format",
                           reader->source.name, (unsigned long long)reader->source.bytes);
    if (!reader->asked) {
        const struct format_ending *row = format_ending_find(reader->format, ending);
        reader->asked = row ? row->element : ELEMENT_NONE;
    }
    return VIC_OK;
}

/* "an fvecs file of 40 rows of dim 128" */
static void looks_describe(const struct reader_format *format, const struct layout *layout, char *text, size_t capacity) {
    const char *article = strchr("fi", format->name[0]) ? "an" : "a"; /* an fvecs, an ivecs; an hdf5 begins with aitch */
    if (format == &npy_format || format == &hdf5_format) article = "an";
    int used = snprintf(text, capacity, "%s %s file", article, format->name);
    if (layout->dim > 0 && used > 0 && (size_t)used < capacity)
        (void)snprintf(text + used, capacity - (size_t)used, " of %lld rows of dim %lld", (long long)layout->rows,
                       (long long)layout->dim);
}

/* Ends a refusal with what the file looks like instead. */
static enum vic_status refusal_complete(const struct vic_reader *reader, enum vic_status status) {
    struct layout layout = {0};
    enum fit fit;
    struct status_note note;
    const struct reader_format *looks = format_best(&reader->source, reader->format, 0, &layout, &fit);
    if (status != VIC_FORMAT || !looks || reader->source.bytes == 0) return status;
    char text[96];
    looks_describe(looks, &layout, text, sizeof text);
    status_keep(&note, status);
    return status_fail(status, "%.400s; it looks like %s", note.sentence, text);
}

/* ---- opening */

enum vic_status reader_check_size(const struct source *source, const struct layout *layout) {
    uint64_t cells = 0, data = 0, size = 0, each = element_bytes(layout->element);
    bool fits = checked_mul((uint64_t)layout->rows, (uint64_t)layout->dim, &cells) && checked_mul(cells, each, &data) &&
                checked_add(data, layout->offset, &size);
    if (fits && size == source->bytes) return VIC_OK;
    char expected[32] = "more than 2^64";
    if (fits) (void)snprintf(expected, sizeof expected, "%llu", (unsigned long long)size);
    return status_fail(VIC_FORMAT, "%s: expected %s bytes (its header says %lld rows of dim %lld, %s), found %llu bytes",
                       source->name, expected, (long long)layout->rows, (long long)layout->dim, element_name(layout->element),
                       (unsigned long long)source->bytes);
}

/* One row of a file may be larger than a block (ground truth with a large k); it is no larger than the file. Where there
 * are no rows, nothing bounds the dimension that a header names, and nothing will be read. */
static enum vic_status block_alloc(struct vic_reader *reader) {
    uint64_t dim = reader->layout.rows > 0 ? (uint64_t)reader->layout.dim : 0;
    uint64_t row = dim * element_bytes(reader->layout.element) + sizeof(int32_t);
    reader->block_bytes = row > block_bytes_least ? row : block_bytes_least;
    void *memory = NULL;
    enum vic_status status = mem_alloc(&mem_default, reader->block_bytes, "a reader's block", &memory);
    reader->block = memory;
    return status;
}

enum vic_status reader_begin(const char *path, const struct vic_reader_options *options, int wanted,
                             struct vic_reader **reader) {
    enum vic_status status = VIC_OK;
    struct vic_reader *made = NULL;
    void *memory = NULL;
    if (options->dtype && !dtype_valid(options->dtype))
        return status_fail(VIC_ARGUMENT, "expected options.dtype to be 0 or a vic_dtype, found %d", (int)options->dtype);
    TRY(mem_alloc(&mem_default, sizeof *made, "a reader", &memory));
    made = memory;
    *made = (struct vic_reader){.source.fd = -1, .asked = (enum element)options->dtype, .dataset = options->dataset};
    TRY(source_open(path, &made->source));
    TRY(format_choose(made, options->format, wanted));
    made->layout.element = made->format->element;
    status = made->format->open(made);
    if (status != VIC_OK) {
        status = refusal_complete(made, status);
        goto done;
    }
    TRY(block_alloc(made));
    made->source.path = NULL, made->dataset = NULL;
    *reader = made;
done:
    if (status != VIC_OK) vic_reader_close(made);
    return status;
}

enum vic_status reader_settle(struct vic_reader *reader, enum vic_dtype asked) {
    const struct layout *layout = &reader->layout;
    const char *name = reader->source.name;
    if (element_is_integer_id(layout->element))
        return status_fail(
            VIC_TYPE, "%s: expected vectors of f32, f16, bf16, i8 or u8, found %s of %s, ids perhaps: read it as ground truth",
            name, reader->format->name, element_name(layout->element));
    if (layout->dim < 1 || layout->dim > DIM_MAX)
        return status_fail(VIC_DIMENSION, "%s: expected vectors of dim 1 to %lld, found dim %lld", name, (long long)DIM_MAX,
                           (long long)layout->dim);
    if (layout->element == ELEMENT_F64 && asked != VIC_F32)
        return status_fail(VIC_TYPE,
                           "%s holds float64 (f64), which is no type of ours; set the reader's dtype to f32 to convert", name);
    if (layout->element != ELEMENT_F64 && asked && (enum element)asked != layout->element)
        return status_fail(VIC_TYPE, "%s holds %s, expected %s as the reader's dtype says", name, element_name(layout->element),
                           vic_dtype_name(asked));
    if (element_is_dtype(layout->element)) {
        reader->dtype = (enum vic_dtype)layout->element;
        return VIC_OK;
    }
    reader->dtype = VIC_F32;
    void *memory = NULL;
    enum vic_status status = mem_alloc(&mem_default, reader->block_bytes, "a reader's block", &memory);
    reader->converted = memory;
    return status;
}

enum vic_status vic_reader_open(const char *path, const struct vic_reader_options *options, struct vic_reader **reader) {
    enum vic_status status = VIC_OK;
    struct vic_reader_options ours;
    struct vic_reader *made = NULL;
    if (!reader) return status_fail(VIC_ARGUMENT, "expected a place for the reader, found NULL");
    TRY(options_take(&ours, sizeof ours, options, "reader options"));
    TRY(reader_begin(path, &ours, HOLDS_VECTORS, &made));
    TRY(reader_settle(made, ours.dtype));
    *reader = made;
done:
    if (status != VIC_OK) vic_reader_close(made);
    return status;
}

void vic_reader_close(struct vic_reader *reader) {
    if (!reader) return;
    if (reader->format && reader->format->close) reader->format->close(reader);
    mem_free(&mem_default, reader->converted, reader->block_bytes);
    mem_free(&mem_default, reader->block, reader->block_bytes);
    source_close(&reader->source);
    mem_free(&mem_default, reader, sizeof *reader);
}

/* ---- reading */

enum vic_status reader_read_raw(struct vic_reader *reader, int64_t first, int64_t count, char *out, int64_t stride_bytes) {
    return count == 0 ? VIC_OK : reader->format->read(reader, first, count, out, stride_bytes);
}

enum vic_status reader_read_plain(struct vic_reader *reader, int64_t first, int64_t count, char *out, int64_t stride_bytes) {
    const struct layout *layout = &reader->layout;
    enum vic_status status = VIC_OK;
    uint64_t row = (uint64_t)layout->dim * element_bytes(layout->element);
    uint64_t offset = layout->offset + (uint64_t)first * row;
    if (row == 0) return VIC_OK;
    bool packed = (uint64_t)stride_bytes == row || count == 1;
    if (packed) {
        TRY(source_read(&reader->source, offset, out, (uint64_t)count * row));
    } else {
        int64_t most = (int64_t)(reader->block_bytes / row);
        for (int64_t done_rows = 0; done_rows < count; done_rows += most) {
            int64_t rows = count - done_rows < most ? count - done_rows : most;
            TRY(source_read(&reader->source, offset + (uint64_t)done_rows * row, reader->block, (uint64_t)rows * row));
            for (int64_t i = 0; i < rows; i++)
                memcpy(out + (done_rows + i) * stride_bytes, reader->block + (uint64_t)i * row, (size_t)row);
        }
    }
    if (layout->swapped)
        for (int64_t i = 0; i < count; i++) elements_swap(layout->element, out + i * stride_bytes, (uint64_t)layout->dim);
done:
    return status;
}

/* Rounds to nearest. A finite value that float32 cannot hold is refused rather than turned into infinity. */
static enum vic_status row_convert(const struct vic_reader *reader, int64_t row, const unsigned char *from, char *to) {
    for (int64_t j = 0; j < reader->layout.dim; j++) {
        double wide;
        memcpy(&wide, from + j * 8, sizeof wide);
        float narrow = (float)wide;
        if (!float_finite(narrow) && wide - wide == 0)
            return status_fail(VIC_TYPE, "%s: row %lld column %lld is %g, beyond float32", reader->source.name, (long long)row,
                               (long long)j, wide);
        memcpy(to + j * 4, &narrow, sizeof narrow);
    }
    return VIC_OK;
}

static enum vic_status rows_convert(struct vic_reader *reader, int64_t first, int64_t count, const struct vic_matrix *out) {
    enum vic_status status = VIC_OK;
    int64_t row_bytes = reader->layout.dim * (int64_t)element_bytes(reader->layout.element);
    int64_t most = (int64_t)reader->block_bytes / row_bytes;
    for (int64_t start = 0; start < count && status == VIC_OK; start += most) {
        int64_t rows = count - start < most ? count - start : most;
        TRY(reader_read_raw(reader, first + start, rows, (char *)reader->converted, row_bytes));
        fpenv caller = fpenv_enter();
        for (int64_t i = 0; i < rows && status == VIC_OK; i++)
            status = row_convert(reader, first + start + i, reader->converted + i * row_bytes,
                                 (char *)out->data + (start + i) * out->stride_bytes);
        fpenv_leave(caller);
    }
done:
    return status;
}

enum vic_status vic_reader_read(struct vic_reader *reader, int64_t first, int64_t count, const struct vic_matrix *out) {
    if (!reader) return status_fail(VIC_ARGUMENT, "expected a reader, found NULL");
    const struct layout *layout = &reader->layout;
    struct vic_matrix to;
    enum vic_status status = matrix_resolve(out, "the output matrix", &to);
    if (status != VIC_OK) return status;
    if (first < 0 || count < 0 || first > layout->rows || count > layout->rows - first)
        return status_fail(VIC_ARGUMENT, "expected rows within 0 to %lld of %s, found first %lld and count %lld",
                           (long long)layout->rows, reader->source.name, (long long)first, (long long)count);
    if (to.dim != layout->dim)
        return status_fail(VIC_DIMENSION, "expected an output matrix of dim %lld for %s, found dim %lld",
                           (long long)layout->dim, reader->source.name, (long long)to.dim);
    if (to.rows < count)
        return status_fail(VIC_DIMENSION, "expected an output matrix of at least %lld rows, found %lld", (long long)count,
                           (long long)to.rows);
    if (to.dtype != reader->dtype)
        return status_fail(VIC_TYPE, "expected an output matrix of %s for %s, found %s", vic_dtype_name(reader->dtype),
                           reader->source.name, vic_dtype_name(to.dtype));
    if (reader->converted) return rows_convert(reader, first, count, &to);
    return reader_read_raw(reader, first, count, to.data, to.stride_bytes);
}

/* ---- what a file is */

static void info_fill(struct vic_file_info *info, const struct reader_format *format, const struct layout *layout,
                      const struct source *source, enum vic_dtype dtype) {
    *info = (struct vic_file_info){.size = sizeof *info, .dtype = dtype, .bytes = source->bytes};
    (void)snprintf(info->format, sizeof info->format, "%s", format ? format->name : "unknown");
    if (!format) return;
    (void)snprintf(info->element, sizeof info->element, "%s", element_name(layout->element));
    info->rows = layout->rows, info->dim = layout->dim, info->metric = layout->metric;
}

enum vic_status vic_reader_info(const struct vic_reader *reader, struct vic_file_info *info) {
    if (!reader) return status_fail(VIC_ARGUMENT, "expected a reader, found NULL");
    struct vic_file_info ours;
    info_fill(&ours, reader->format, &reader->layout, &reader->source, reader->dtype);
    return options_give(info, &ours, sizeof ours, "file info");
}

/* The note says why vic_reader_open would refuse the file; it is empty for a file that can be read as it is. */
static enum vic_status info_make(const char *path, struct vic_file_info *info) {
    static const struct vic_reader_options defaults = {.size = sizeof defaults};
    enum vic_status status = VIC_OK;
    struct vic_reader *reader = NULL;
    struct source source = {.fd = -1};
    struct layout layout = {0};
    enum fit fit;
    TRY(source_open(path, &source));
    enum vic_status verdict = reader_begin(path, &defaults, HOLDS_NOTHING, &reader);
    if (verdict == VIC_OK) verdict = reader_settle(reader, 0);
    if (reader) {
        info_fill(info, reader->format, &reader->layout, &source, reader->dtype);
        if (verdict == VIC_OK && reader->format->describe) reader->format->describe(reader, info);
    } else {
        const struct reader_format *looks = format_best(&source, NULL, 0, &layout, &fit);
        const struct reader_format *named = format_named(&source, source.ending, 0);
        struct layout as_named;
        if (named && fit < FIT_MAGIC && format_fit(named, &source, &as_named) > FIT_NONE) looks = named, layout = as_named;
        info_fill(info, looks, &layout, &source, element_is_dtype(layout.element) ? (enum vic_dtype)layout.element : 0);
    }
    if (verdict != VIC_OK) (void)snprintf(info->note, sizeof info->note, "%.255s", vic_last_error());
    if (strcmp(info->format, text_format.name) == 0) TRY(text_count(&source, &info->rows));
done:
    vic_reader_close(reader);
    source_close(&source);
    return status;
}

enum vic_status file_info_foreign(const char *path, struct vic_file_info *info) {
    struct status_note note;
    status_keep(&note, VIC_INTERNAL); /* sentences of refused attempts go into the note, not to the caller */
    enum vic_status status = info_make(path, info);
    if (status == VIC_OK) (void)status_raise(&note);
    return status;
}
