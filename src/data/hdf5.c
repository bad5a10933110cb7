/* ann-benchmarks HDF5: data sets `train`, `test` (vectors), `neighbors`, `distances`; attribute `distance`.
 *
 * libhdf5 is opened when the first such file is, so the library and the program need it neither to start nor to link; the
 * header is needed to build. Three rules follow: one mutex around every call, since the usual build of libhdf5 is not
 * thread-safe; its habit of printing errors is switched off around ours and put back; and its constants that are macros for
 * calls and variables (H5F_ACC_RDONLY, H5T_NATIVE_FLOAT) are avoided.
 *
 * libhdf5 is not hardened: of 12,000 files with one to three bytes changed, version 1.10.8 crashed over 36. So it is asked
 * for as little as possible. Rows that lie in one piece, as those of ann-benchmarks do, are read by us from where it says
 * that they begin; only chunks go through it, in the file's own type, so that it converts nothing. It now crashes over 25,
 * in its text attributes and its chunks, which is not for us to mend: HDF5 files of strangers are better left alone.
 *
 * Sizes: what a data set claims is held against the bytes it occupies in the file. Compressed, it may claim more, but not
 * more than the best compression makes of them. */
#include "data/reader.h"

#include <string.h>

static const char signature[] = "\x89HDF\r\n\x1a\n";
enum { SIGNATURE_BYTES = 8 };

static enum fit hdf5_probe(const struct reader_format *format, const struct source *source, struct layout *layout) {
    (void)format, (void)layout;
    bool ours = source->head_bytes >= SIGNATURE_BYTES && memcmp(source->head, signature, SIGNATURE_BYTES) == 0;
    return ours ? FIT_MAGIC : FIT_NONE;
}

static enum vic_status signature_check(const struct vic_reader *reader) {
    if (hdf5_probe(NULL, &reader->source, NULL) == FIT_MAGIC) return VIC_OK;
    return status_fail(VIC_FORMAT, "%s: expected the signature of an HDF5 file, found other first bytes", reader->source.name);
}

#ifdef VICINAL_HDF5

#include <dlfcn.h>
#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>

/* The functions used, by the names that stay the same in versions 1.10 to 2. */
/* clang-format off */
#define HDF5_FUNCTIONS(ROW)                                                                                                    \
    ROW(H5open) ROW(H5get_libversion) ROW(H5free_memory) ROW(H5Eget_auto2) ROW(H5Eset_auto2)                                   \
    ROW(H5Fopen) ROW(H5Fclose) ROW(H5Lexists) ROW(H5Pget_layout) ROW(H5Pget_nfilters) ROW(H5Pget_external_count) ROW(H5Pclose) \
    ROW(H5Dopen2) ROW(H5Dclose) ROW(H5Dget_space) ROW(H5Dget_type) ROW(H5Dget_create_plist) ROW(H5Dget_storage_size)           \
    ROW(H5Dget_offset) ROW(H5Dread) ROW(H5Screate_simple) ROW(H5Sclose) ROW(H5Sget_simple_extent_ndims) ROW(H5Sget_simple_extent_dims)            \
    ROW(H5Sselect_hyperslab) ROW(H5Tclose) ROW(H5Tget_class) ROW(H5Tget_size) ROW(H5Tget_sign)                    \
    ROW(H5Tget_fields) ROW(H5Tget_precision) ROW(H5Tget_order) ROW(H5Tis_variable_str)                                         \
    ROW(H5Aexists) ROW(H5Aopen) ROW(H5Aread) ROW(H5Aget_type) ROW(H5Aclose)
/* clang-format on */

static struct {
#define HDF5_FIELD(function) __typeof__(function) *function;
    HDF5_FUNCTIONS(HDF5_FIELD)
} api;

struct hdf5_symbol {
    const char *name;
    size_t field;
};
static const struct hdf5_symbol symbols[] = {
#define HDF5_SYMBOL(function) {#function, __builtin_offsetof(__typeof__(api), function)},
    HDF5_FUNCTIONS(HDF5_SYMBOL)};

/* Debian and Ubuntu name the serial build apart; the numbers are 1.10, 1.12, 1.14 and 2.0. hid_t is 64 bits in all. */
static const char *const sonames[] = {"libhdf5_serial.so.103", "libhdf5.so.103", "libhdf5_serial.so.310", "libhdf5.so.310",
                                      "libhdf5_serial.so.200", "libhdf5.so.200", "libhdf5_serial.so.320", "libhdf5.so.320",
                                      "libhdf5_serial.so",     "libhdf5.so"};
enum { SONAMES = sizeof sonames / sizeof *sonames, SYMBOLS = sizeof symbols / sizeof *symbols };

static const unsigned read_only = 0; /* H5F_ACC_RDONLY without the call that its macro makes */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool api_ready;

static bool api_bind(void *library) {
    for (size_t i = 0; i < SYMBOLS; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) return false;
        memcpy((char *)&api + symbols[i].field, &address, sizeof address);
    }
    unsigned major = 0, minor = 0, release = 0;
    return api.H5open() >= 0 && api.H5get_libversion(&major, &minor, &release) >= 0 && (major > 1 || minor >= 10);
}

/* Under the mutex. A library that was found stays open for good: its exit handlers may be registered. */
static enum vic_status api_load(const struct vic_reader *reader) {
    void *library = NULL;
    if (api_ready) return VIC_OK;
    for (size_t i = 0; i < SONAMES && !api_ready; i++) {
        library = dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL);
        api_ready = library && api_bind(library);
    }
    if (api_ready) return VIC_OK;
    return status_fail(VIC_UNSUPPORTED, "%s is an HDF5 file and needs libhdf5 1.10 or later, found no %s, %s or %s here",
                       reader->source.name, sonames[0], sonames[1], sonames[3]);
}

struct hdf5_state {
    hid_t file, dataset, type, space; /* 0: none */
    bool plain;                       /* the rows lie in one piece from layout.offset */
};

/* What of the process's own use of libhdf5 is put back afterwards. */
struct quiet {
    H5E_auto2_t function;
    void *data;
};

static enum vic_status hdf5_enter(const struct vic_reader *reader, struct quiet *before) {
    (void)pthread_mutex_lock(&mutex);
    enum vic_status status = api_load(reader);
    if (status != VIC_OK) {
        (void)pthread_mutex_unlock(&mutex);
        return status;
    }
    (void)api.H5Eget_auto2(H5E_DEFAULT, &before->function, &before->data);
    (void)api.H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return VIC_OK;
}

static void hdf5_leave(const struct quiet *before) {
    (void)api.H5Eset_auto2(H5E_DEFAULT, before->function, before->data);
    (void)pthread_mutex_unlock(&mutex);
}

/* ---- what a data set holds */

static enum element float_element(hid_t type) {
    static const struct {
        enum element element;
        size_t bytes, sign, exponent, exponent_bits, mantissa_bits;
    } rows[] = {{ELEMENT_F32, 4, 31, 23, 8, 23},
                {ELEMENT_F64, 8, 63, 52, 11, 52},
                {ELEMENT_F16, 2, 15, 10, 5, 10},
                {ELEMENT_BF16, 2, 15, 7, 8, 7}};
    size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0, bytes = api.H5Tget_size(type);
    if (api.H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0) return ELEMENT_NONE;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].bytes == bytes && rows[i].sign == sign && rows[i].exponent == exponent && mantissa == 0 &&
            rows[i].exponent_bits == exponent_bits && rows[i].mantissa_bits == mantissa_bits)
            return rows[i].element;
    return ELEMENT_NONE;
}

static enum element type_element(hid_t type) {
    size_t bytes = api.H5Tget_size(type);
    H5T_class_t class = api.H5Tget_class(type);
    if (class == H5T_FLOAT) return float_element(type);
    if (class != H5T_INTEGER || api.H5Tget_precision(type) != bytes * 8) return ELEMENT_NONE;
    bool plus_only = api.H5Tget_sign(type) == H5T_SGN_NONE;
    if (bytes == 1) return plus_only ? ELEMENT_U8 : ELEMENT_I8;
    if (bytes == 4) return plus_only ? ELEMENT_U32 : ELEMENT_I32;
    if (bytes == 8) return plus_only ? ELEMENT_U64 : ELEMENT_I64;
    return ELEMENT_NONE;
}

/* What the data set claims against what it occupies. No filter of libhdf5 makes less than a 65,536th of its input. */
static enum vic_status storage_check(struct vic_reader *reader, struct hdf5_state *state, const char *dataset) {
    struct layout *layout = &reader->layout;
    uint64_t cells = 0, claimed = 0, end = 0, stored = api.H5Dget_storage_size(state->dataset);
    bool fits = checked_mul((uint64_t)layout->rows, (uint64_t)layout->dim, &cells) &&
                checked_mul(cells, element_bytes(layout->element), &claimed);
    hid_t properties = api.H5Dget_create_plist(state->dataset);
    bool known = properties >= 0 && api.H5Pget_external_count(properties) == 0;
    H5D_layout_t kind = known ? api.H5Pget_layout(properties) : H5D_LAYOUT_ERROR;
    bool filtered = kind == H5D_CHUNKED && api.H5Pget_nfilters(properties) > 0;
    if (properties >= 0) (void)api.H5Pclose(properties);
    layout->offset = api.H5Dget_offset(state->dataset);
    state->plain = kind == H5D_CONTIGUOUS && claimed > 0;
    fits = fits && known && stored <= reader->source.bytes && (filtered ? claimed / 65536 <= stored : claimed <= stored);
    if (state->plain) fits = fits && checked_add(layout->offset, claimed, &end) && end <= reader->source.bytes;
    if (fits) return VIC_OK;
    return status_fail(VIC_FORMAT,
                       "%s: expected %lld rows of dim %lld (%s) in data set %.60s, found %llu bytes of it in a file of %llu",
                       reader->source.name, (long long)layout->rows, (long long)layout->dim, element_name(layout->element),
                       dataset, (unsigned long long)stored, (unsigned long long)reader->source.bytes);
}

static enum vic_status dataset_open(struct vic_reader *reader, struct hdf5_state *state, const char *dataset) {
    const char *name = reader->source.name;
    struct layout *layout = &reader->layout;
    hsize_t sizes[2] = {0, 0};
    if (api.H5Lexists(state->file, dataset, H5P_DEFAULT) <= 0 ||
        (state->dataset = api.H5Dopen2(state->file, dataset, H5P_DEFAULT)) < 0)
        return status_fail(VIC_NOT_FOUND, "%s: expected a data set named %.60s, found none", name, dataset);
    state->space = api.H5Dget_space(state->dataset);
    int dimensions = state->space < 0 ? -1 : api.H5Sget_simple_extent_ndims(state->space);
    if (dimensions != 2 || api.H5Sget_simple_extent_dims(state->space, sizes, NULL) != 2)
        return status_fail(VIC_DIMENSION, "%s: expected data set %.60s to have 2 dimensions (rows, dim), found %d", name,
                           dataset, dimensions);
    state->type = api.H5Dget_type(state->dataset);
    layout->element = state->type < 0 ? ELEMENT_NONE : type_element(state->type);
    H5T_order_t order = layout->element ? api.H5Tget_order(state->type) : H5T_ORDER_ERROR;
    layout->swapped = order == H5T_ORDER_BE && element_bytes(layout->element) > 1;
    if (!layout->element || (order != H5T_ORDER_BE && order != H5T_ORDER_LE && element_bytes(layout->element) > 1))
        return status_fail(VIC_TYPE,
                           "%s: expected data set %.60s of f2, f4, f8, i1 or u1 (i4, i8, u4, u8 for ids), found another type",
                           name, dataset);
    if (sizes[0] > INT64_MAX || sizes[1] > INT64_MAX)
        return status_fail(VIC_FORMAT, "%s: expected data set %.60s within 2^63, found %llu by %llu", name, dataset,
                           (unsigned long long)sizes[0], (unsigned long long)sizes[1]);
    layout->rows = (int64_t)sizes[0], layout->dim = (int64_t)sizes[1];
    return storage_check(reader, state, dataset);
}

/* ---- the attribute */

/* The text of a string attribute, of fixed or variable length; "" when there is none. */
static void attribute_read(hid_t file, const char *attribute, char *text, size_t capacity) {
    text[0] = '\0';
    if (api.H5Aexists(file, attribute) <= 0) return;
    hid_t handle = api.H5Aopen(file, attribute, H5P_DEFAULT);
    if (handle < 0) return;
    hid_t type = api.H5Aget_type(handle);
    if (type >= 0 && api.H5Tget_class(type) == H5T_STRING) {
        if (api.H5Tis_variable_str(type) > 0) {
            char *string = NULL;
            if (api.H5Aread(handle, type, &string) >= 0 && string) (void)snprintf(text, capacity, "%s", string);
            if (string) (void)api.H5free_memory(string);
        } else if (api.H5Tget_size(type) < capacity && api.H5Aread(handle, type, text) >= 0) {
            text[api.H5Tget_size(type)] = '\0';
        }
    }
    if (type >= 0) (void)api.H5Tclose(type);
    (void)api.H5Aclose(handle);
}

/* 0 for a metric that is none of ours (jaccard, hamming): the file may still be read. */
static enum vic_metric file_metric(hid_t file) {
    char text[64];
    enum vic_metric metric = 0;
    struct status_note note;
    attribute_read(file, "distance", text, sizeof text);
    status_keep(&note, VIC_INTERNAL);
    if (!text[0] || vic_metric_parse(text, &metric) != VIC_OK) metric = 0;
    (void)status_raise(&note);
    return metric;
}

/* ---- the format */

static enum vic_status hdf5_open(struct vic_reader *reader) {
    struct quiet before;
    struct hdf5_state *state = NULL;
    void *memory = NULL;
    enum vic_status status = signature_check(reader);
    if (status == VIC_OK) status = mem_alloc(&mem_default, sizeof *state, "a reader", &memory);
    if (status != VIC_OK) return status;
    reader->state = state = memory;
    *state = (struct hdf5_state){0};
    status = hdf5_enter(reader, &before);
    if (status != VIC_OK) return status;
    state->file = api.H5Fopen(reader->source.path, read_only, H5P_DEFAULT);
    if (state->file < 0) {
        status = status_fail(VIC_FORMAT, "%s: expected an HDF5 file, found one that libhdf5 cannot open (cut short or damaged)",
                             reader->source.name);
    } else {
        status = dataset_open(reader, state, reader->dataset ? reader->dataset : "train");
        if (status == VIC_OK) reader->layout.metric = file_metric(state->file);
    }
    hdf5_leave(&before);
    return status;
}

/* Rows packed one after another. */
static enum vic_status rows_fetch(const struct vic_reader *reader, int64_t first, int64_t count, void *out) {
    const struct hdf5_state *state = reader->state;
    struct quiet before;
    enum vic_status status = hdf5_enter(reader, &before);
    if (status != VIC_OK) return status;
    hsize_t start[2] = {(hsize_t)first, 0}, sizes[2] = {(hsize_t)count, (hsize_t)reader->layout.dim};
    hid_t memory = api.H5Screate_simple(2, sizes, NULL);
    if (memory < 0 || api.H5Sselect_hyperslab(state->space, H5S_SELECT_SET, start, NULL, sizes, NULL) < 0 ||
        api.H5Dread(state->dataset, state->type, memory, state->space, H5P_DEFAULT, out) < 0)
        status =
            status_fail(VIC_FORMAT, "%s: libhdf5 cannot read rows %lld to %lld; they are damaged or need a filter not here",
                        reader->source.name, (long long)first, (long long)(first + count - 1));
    if (memory >= 0) (void)api.H5Sclose(memory);
    hdf5_leave(&before);
    return status;
}

/* Rows in chunks, gathered into the block by libhdf5. */
static enum vic_status chunks_read(struct vic_reader *reader, int64_t first, int64_t count, char *out, int64_t stride_bytes) {
    const struct layout *layout = &reader->layout;
    int64_t row = layout->dim * (int64_t)element_bytes(layout->element), most = (int64_t)reader->block_bytes / row;
    for (int64_t start = 0; start < count; start += most) {
        int64_t rows = count - start < most ? count - start : most;
        enum vic_status status = rows_fetch(reader, first + start, rows, reader->block);
        if (status != VIC_OK) return status;
        if (layout->swapped) elements_swap(layout->element, reader->block, (uint64_t)(rows * layout->dim));
        for (int64_t i = 0; i < rows; i++) memcpy(out + (start + i) * stride_bytes, reader->block + i * row, (size_t)row);
    }
    return VIC_OK;
}

static enum vic_status hdf5_read(struct vic_reader *reader, int64_t first, int64_t count, char *out, int64_t stride_bytes) {
    const struct hdf5_state *state = reader->state;
    if (reader->layout.dim == 0) return VIC_OK;
    if (state->plain) return reader_read_plain(reader, first, count, out, stride_bytes);
    return chunks_read(reader, first, count, out, stride_bytes);
}

static void hdf5_close(struct vic_reader *reader) {
    struct hdf5_state *state = reader->state;
    struct quiet before;
    if (!state) return;
    if (state->file > 0 && hdf5_enter(reader, &before) == VIC_OK) {
        if (state->type > 0) (void)api.H5Tclose(state->type);
        if (state->space > 0) (void)api.H5Sclose(state->space);
        if (state->dataset > 0) (void)api.H5Dclose(state->dataset);
        (void)api.H5Fclose(state->file);
        hdf5_leave(&before);
    }
    mem_free(&mem_default, state, sizeof *state);
    reader->state = NULL;
}

#else

static enum vic_status hdf5_open(struct vic_reader *reader) {
    enum vic_status status = signature_check(reader);
    if (status != VIC_OK) return status;
    return status_fail(VIC_UNSUPPORTED, "%s is an HDF5 file, and this library was built without hdf5.h", reader->source.name);
}

static enum vic_status hdf5_read(struct vic_reader *reader, int64_t first, int64_t count, char *out, int64_t stride_bytes) {
    (void)first, (void)count, (void)out, (void)stride_bytes;
    return status_fail(VIC_UNSUPPORTED, "%s is an HDF5 file, and this library was built without hdf5.h", reader->source.name);
}

static void hdf5_close(struct vic_reader *reader) { (void)reader; }

#endif

const struct reader_format hdf5_format = {.name = "hdf5",
                                          .endings = {{"hdf5", ELEMENT_NONE}, {"h5", ELEMENT_NONE}},
                                          .holds = HOLDS_VECTORS | HOLDS_IDS,
                                          .probe = hdf5_probe,
                                          .open = hdf5_open,
                                          .read = hdf5_read,
                                          .close = hdf5_close};
