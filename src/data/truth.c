/* Ground truth: reading it in any of its forms, writing it in three.
 *
 * The .bin form is nq and k as uint32, then the ids as uint32, then perhaps the distances as float32; which of the two it
 * is only the file's size says. Ids become int64; all ones, or -1, is an unused slot. */
#include "base/fpenv.h"
#include "base/options.h"
#include "data/npy.h"
#include "data/reader.h"
#include "data/sink.h"

#include <string.h>

enum { HEADER_BYTES = 8 };

static uint64_t cells_of(const struct vic_truth *truth) { return (uint64_t)truth->nq * (uint64_t)truth->k; }

/* ---- the .bin form as a reader's format */

/* Bytes that nq * k slots of `each` bytes and the header take; UINT64_MAX when that overflows. */
static uint64_t truth_bytes(const struct layout *layout, uint64_t each) {
    uint64_t cells = 0, bytes = 0;
    bool fits = checked_mul((uint64_t)layout->rows, (uint64_t)layout->dim, &cells) && checked_mul(cells, each, &bytes) &&
                checked_add(bytes, HEADER_BYTES, &bytes);
    return fits ? bytes : UINT64_MAX;
}

static bool truth_layout(const struct source *source, struct layout *layout) {
    *layout = (struct layout){
        .rows = source_word(source, 0), .dim = source_word(source, 4), .element = ELEMENT_U32, .offset = HEADER_BYTES};
    layout->distances = source->bytes == truth_bytes(layout, 8);
    return source->bytes >= HEADER_BYTES && (layout->distances || source->bytes == truth_bytes(layout, 4));
}

static enum fit truth_probe(const struct reader_format *format, const struct source *source, struct layout *layout) {
    (void)format;
    if (!truth_layout(source, layout) || layout->dim == 0) return FIT_NONE;
    return layout->rows > 0 && source_has_ids(source, HEADER_BYTES, (uint64_t)layout->dim) ? FIT_VALUES : FIT_SIZE;
}

static enum vic_status truth_open(struct vic_reader *reader) {
    const struct source *source = &reader->source;
    struct layout *layout = &reader->layout;
    if (truth_layout(source, layout)) return VIC_OK;
    if (source->bytes < HEADER_BYTES)
        return status_fail(VIC_FORMAT, "%s: expected at least 8 bytes (the header of a ground truth file), found %llu bytes",
                           source->name, (unsigned long long)source->bytes);
    return status_fail(VIC_FORMAT,
                       "%s: expected %llu bytes (%lld queries with %lld ids) or %llu (and distances), found %llu bytes",
                       source->name, (unsigned long long)truth_bytes(layout, 4), (long long)layout->rows,
                       (long long)layout->dim, (unsigned long long)truth_bytes(layout, 8), (unsigned long long)source->bytes);
}

const struct reader_format truth_format = {.name = "truth",
                                           .endings = {{"bin", ELEMENT_U32}, {"ibin", ELEMENT_U32}},
                                           .element = ELEMENT_U32,
                                           .holds = HOLDS_IDS,
                                           .probe = truth_probe,
                                           .open = truth_open,
                                           .read = reader_read_plain};

/* ---- reading */

/* Cell `from` of a file, stored as slot `cell` of the truth; false for what is neither an id nor an unused slot. */
typedef bool cell_take(enum element element, const unsigned char *from, struct vic_truth *truth, int64_t cell);

static bool id_take(enum element element, const unsigned char *from, struct vic_truth *truth, int64_t cell) {
    int32_t narrow = 0;
    int64_t wide = 0; /* 64 bits unsigned: all ones is -1, others beyond 2^63 turn out negative and are no ids */
    if (element_bytes(element) == sizeof narrow) {
        memcpy(&narrow, from, sizeof narrow);
        wide = element == ELEMENT_U32 && narrow != -1 ? (int64_t)(uint32_t)narrow : narrow;
    } else {
        memcpy(&wide, from, sizeof wide);
    }
    truth->ids[cell] = wide;
    return wide >= -1;
}

static bool distance_take(enum element element, const unsigned char *from, struct vic_truth *truth, int64_t cell) {
    double wide = 0;
    memcpy(element == ELEMENT_F32 ? (void *)&truth->distances[cell] : (void *)&wide, from, element_bytes(element));
    if (element == ELEMENT_F64) truth->distances[cell] = (float)wide;
    return true;
}

/* All cells of the reader, in blocks. */
static enum vic_status cells_read(struct vic_reader *reader, cell_take *take, struct vic_truth *truth) {
    enum vic_status status = VIC_OK;
    const enum element element = reader->layout.element;
    int64_t k = truth->k, each = (int64_t)element_bytes(element), most = (int64_t)reader->block_bytes / (k * each);
    void *memory = NULL;
    TRY(mem_alloc(&mem_default, reader->block_bytes, "a reader's block", &memory));
    for (int64_t start = 0; start < truth->nq; start += most) {
        int64_t rows = truth->nq - start < most ? truth->nq - start : most;
        TRY(reader_read_raw(reader, start, rows, memory, k * each));
        for (int64_t i = 0; i < rows * k; i++)
            if (!take(element, (const unsigned char *)memory + i * each, truth, start * k + i))
                TRY(status_fail(VIC_ID,
                                "%s: expected an id, or -1 for an unused slot, found another value at query %lld slot %lld",
                                reader->source.name, (long long)(start + i / k), (long long)(i % k)));
    }
done:
    mem_free(&mem_default, memory, reader->block_bytes);
    return status;
}

/* HDF5 keeps the distances in a data set of their own, which may be missing. */
static enum vic_status distances_open(const char *path, const struct vic_truth *truth, struct vic_reader **reader) {
    const struct vic_reader_options options = {.size = sizeof options, .format = hdf5_format.name, .dataset = "distances"};
    enum vic_status status = reader_begin(path, &options, HOLDS_VECTORS, reader);
    if (status != VIC_OK) return status;
    const struct layout *layout = &(*reader)->layout;
    if (layout->rows != truth->nq || layout->dim != truth->k)
        return status_fail(VIC_DIMENSION, "%s: expected %lld by %lld distances as there are neighbors, found %lld by %lld",
                           (*reader)->source.name, (long long)truth->nq, (long long)truth->k, (long long)layout->rows,
                           (long long)layout->dim);
    if (layout->element != ELEMENT_F32 && layout->element != ELEMENT_F64)
        return status_fail(VIC_TYPE, "%s: expected distances of f32 or f64, found %s", (*reader)->source.name,
                           element_name(layout->element));
    return VIC_OK;
}

static enum vic_status distances_alloc(struct vic_truth *truth) {
    void *memory = NULL;
    enum vic_status status = mem_alloc_array(&mem_default, cells_of(truth), sizeof(float), "ground truth", &memory);
    truth->distances = memory;
    return status;
}

static enum vic_status distances_read_hdf5(const char *path, struct vic_truth *truth) {
    struct vic_reader *reader = NULL;
    struct status_note note;
    status_keep(&note, VIC_INTERNAL);
    enum vic_status status = distances_open(path, truth, &reader);
    if (status == VIC_NOT_FOUND) { /* no such data set is no failure, and leaves no sentence */
        (void)status_raise(&note);
        return VIC_OK;
    }
    if (status == VIC_OK) status = distances_alloc(truth);
    if (status == VIC_OK) {
        fpenv caller = fpenv_enter();
        status = cells_read(reader, distance_take, truth);
        fpenv_leave(caller);
    }
    vic_reader_close(reader);
    return status;
}

static enum vic_status distances_read_bin(const struct vic_reader *reader, struct vic_truth *truth) {
    uint64_t cells = cells_of(truth);
    enum vic_status status = distances_alloc(truth);
    if (status != VIC_OK) return status;
    return source_read(&reader->source, HEADER_BYTES + cells * sizeof(uint32_t), truth->distances, cells * sizeof(float));
}

static enum vic_status truth_check(const struct vic_reader *reader) {
    const struct layout *layout = &reader->layout;
    if (!element_is_integer_id(layout->element))
        return status_fail(VIC_TYPE, "%s: expected ids (i32, u32, i64, u64), found %s of %s", reader->source.name,
                           reader->format->name, element_name(layout->element));
    if (layout->dim < 1)
        return status_fail(VIC_DIMENSION, "%s: expected at least 1 neighbour a query, found 0", reader->source.name);
    return VIC_OK;
}

enum vic_status vic_truth_read(const char *path, struct vic_truth *truth) {
    static const struct vic_reader_options options = {.size = sizeof options, .dataset = "neighbors"};
    enum vic_status status = VIC_OK;
    struct vic_reader *reader = NULL;
    struct vic_truth made = {0};
    void *memory = NULL;
    if (!truth) return status_fail(VIC_ARGUMENT, "expected a truth to fill, found NULL");
    TRY(reader_begin(path, &options, HOLDS_IDS, &reader));
    TRY(truth_check(reader));
    made.nq = reader->layout.rows, made.k = reader->layout.dim;
    TRY(mem_alloc_array(&mem_default, cells_of(&made), sizeof(int64_t), "ground truth", &memory));
    made.ids = memory;
    TRY(cells_read(reader, id_take, &made));
    if (reader->layout.distances) TRY(distances_read_bin(reader, &made));
    if (reader->format == &hdf5_format) TRY(distances_read_hdf5(path, &made));
    *truth = made;
    made = (struct vic_truth){0};
done:
    vic_truth_free(&made);
    vic_reader_close(reader);
    return status;
}

void vic_truth_free(struct vic_truth *truth) {
    if (!truth) return;
    mem_free(&mem_default, truth->ids, cells_of(truth) * sizeof *truth->ids);
    mem_free(&mem_default, truth->distances, cells_of(truth) * sizeof *truth->distances);
    memset(truth, 0, sizeof *truth);
}

/* ---- writing */

struct truth_form {
    const char *ending;
    int64_t id_max;
    uint64_t id_bytes;
    bool row_prefix, distances; /* k before each row; distances after all ids */
};
static const struct truth_form forms[] = {
    {"bin", INT64_C(0xfffffffe), 4, false, true}, /* all ones is the unused slot */
    {"ivecs", INT64_C(0x7fffffff), 4, true, false},
    {"npy", INT64_MAX, 8, false, false},
};

static enum vic_status form_find(const char *path, const struct vic_truth *truth, const struct truth_form **form) {
    char ending[12];
    if (!path || !truth) return status_fail(VIC_ARGUMENT, "expected a path and a truth to write, found NULL");
    if (truth->nq < 0 || truth->k < 1 || truth->nq > UINT32_MAX || truth->k > INT32_MAX || (truth->nq > 0 && !truth->ids))
        return status_fail(VIC_ARGUMENT, "expected 0 to 2^32-1 queries with ids, 1 to 2^31-1 each, found %lld with %lld%s",
                           (long long)truth->nq, (long long)truth->k, truth->ids ? "" : " and no ids");
    path_ending(path, ending, sizeof ending);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strcmp(forms[i].ending, ending) == 0) {
            *form = &forms[i];
            return VIC_OK;
        }
    return status_fail(VIC_ARGUMENT, "expected a path that ends in .bin, .ivecs or .npy for ground truth, found %.200s", path);
}

/* Before the file is created, so that a bad id costs nothing. */
static enum vic_status ids_check(const struct vic_truth *truth, const struct truth_form *form) {
    for (int64_t i = 0; i < truth->nq * truth->k; i++)
        if (truth->ids[i] < -1 || truth->ids[i] > form->id_max)
            return status_fail(VIC_ID, "expected ids from -1 to %lld in a .%s file, found %lld at query %lld slot %lld",
                               (long long)form->id_max, form->ending, (long long)truth->ids[i], (long long)(i / truth->k),
                               (long long)(i % truth->k));
    return VIC_OK;
}

static enum vic_status header_write(struct sink *sink, const struct vic_truth *truth, const struct truth_form *form) {
    unsigned char header[NPY_HEADER_BYTES];
    const uint32_t words[2] = {(uint32_t)truth->nq, (uint32_t)truth->k};
    if (form->row_prefix) return VIC_OK;
    if (form->id_bytes == 4) return sink_write(sink, words, sizeof words);
    npy_header("<i8", truth->nq, truth->k, header);
    return sink_write(sink, header, sizeof header);
}

static enum vic_status ids_write(struct sink *sink, const struct vic_truth *truth, const struct truth_form *form) {
    enum vic_status status = VIC_OK;
    const int32_t k = (int32_t)truth->k;
    for (int64_t j = 0; j < truth->nq; j++) {
        if (form->row_prefix) TRY(sink_write(sink, &k, sizeof k));
        for (int64_t slot = 0; slot < truth->k; slot++) /* the low bytes come first, and -1 is all ones in any width */
            TRY(sink_write(sink, &truth->ids[j * truth->k + slot], form->id_bytes));
    }
done:
    return status;
}

enum vic_status vic_truth_write(const char *path, const struct vic_truth *truth) {
    enum vic_status status = VIC_OK;
    const struct truth_form *form = NULL;
    struct sink *sink = NULL;
    TRY(form_find(path, truth, &form));
    TRY(ids_check(truth, form));
    TRY(sink_open(path, 0, &sink));
    TRY(header_write(sink, truth, form));
    TRY(ids_write(sink, truth, form));
    if (form->distances && truth->distances) TRY(sink_write(sink, truth->distances, cells_of(truth) * sizeof(float)));
    TRY(sink_commit(sink));
done:
    sink_free(sink);
    return status;
}
