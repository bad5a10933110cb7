/* What a file format must provide to be read, and the reader that every format fills in.
 *
 * A format is one file and one row of the table in reader.c: a name, a probe, open, read and close. A format gives its
 * elements as the file has them (float64, int32 ids ...), in C order and little-endian; turning them into the caller's
 * type is reader.c's, turning ids into ground truth is truth.c's. So no format knows what it is read for.
 *
 * The surprising rule: open must hold the header against the file's size, in 64 bits with every product checked, before
 * anything is allocated; read may then trust the layout. */
#ifndef DATA_READER_H
#define DATA_READER_H

#include "base/dtype.h"
#include "data/source.h"

/* The first five are vic_dtype's own values. */
enum element {
    ELEMENT_NONE,
    ELEMENT_F32,
    ELEMENT_F16,
    ELEMENT_BF16,
    ELEMENT_I8,
    ELEMENT_U8,
    ELEMENT_F64,
    ELEMENT_I32,
    ELEMENT_U32,
    ELEMENT_I64,
    ELEMENT_U64
};
uint64_t element_bytes(enum element element);
const char *element_name(enum element element); /* "f64"; "" for ELEMENT_NONE */
bool element_is_integer_id(enum element element);

/* What a format can hold, and what a caller wants. */
enum holds { HOLDS_NOTHING = 0, HOLDS_VECTORS = 1, HOLDS_IDS = 2 };

/* How well a file's bytes fit a format. */
enum fit {
    FIT_NONE,
    FIT_SIZE,   /* the header and the file's size agree */
    FIT_VALUES, /* and what else was looked at is as it should be */
    FIT_MAGIC   /* the format's own signature */
};

struct layout {
    int64_t rows, dim;
    enum element element;
    enum vic_metric metric;
    /* Where the elements lie, for formats that are a plain run of them. */
    uint64_t offset;
    bool swapped;       /* most significant byte first */
    bool columns_first; /* Fortran order */
    bool distances;     /* ground truth: nq * dim float32 follow */
};

struct format_ending {
    const char *text;     /* without the dot, lower case; also a name by which the format may be forced */
    enum element element; /* what it says about the elements */
};

struct reader_format {
    const char *name;
    struct format_ending endings[6];
    enum element element; /* when the format has but one */
    int holds;            /* enum holds, as bits */
    /* From the bytes alone; fills rows, dim and element as far as they can be known cheaply. */
    enum fit (*probe)(const struct reader_format *format, const struct source *source, struct layout *layout);
    /* Fills reader->layout, or says what was expected and found. */
    enum vic_status (*open)(struct vic_reader *reader);
    /* Rows [first, first + count), which lie within the layout, one every stride_bytes. */
    enum vic_status (*read)(struct vic_reader *reader, int64_t first, int64_t count, char *out, int64_t stride_bytes);
    void (*close)(struct vic_reader *reader); /* NULL: nothing to do; also called after a failed open */
    /* What else a person may want to know of an opened file, in the note and pq_*; NULL: nothing. */
    void (*describe)(const struct vic_reader *reader, struct vic_file_info *info);
};

struct vic_reader {
    struct source source;
    const struct reader_format *format;
    struct layout layout;
    enum vic_dtype dtype;     /* what vic_reader_read gives */
    enum element asked;       /* from the options, else from the ending, else ELEMENT_NONE */
    const char *dataset;      /* borrowed, only while the reader is being opened */
    void *state;              /* the format's own */
    unsigned char *block;     /* a piece of the file on its way */
    uint64_t block_bytes;     /* at least one row of the file */
    unsigned char *converted; /* rows as the file has them, when they need another type; block_bytes too */
};

extern const struct reader_format fvecs_format, bvecs_format, ivecs_format, bin_format, npy_format, hdf5_format, truth_format,
    text_format, diskann_graph_format, diskann_disk_format, diskann_pivots_format, diskann_codes_format;

/* Opens for vectors or for ids, without settling on a type. Free with vic_reader_close. */
enum vic_status reader_begin(const char *path, const struct vic_reader_options *options, int wanted,
                             struct vic_reader **reader);
/* Settles what vic_reader_read gives: VIC_DIMENSION, VIC_TYPE. */
enum vic_status reader_settle(struct vic_reader *reader, enum vic_dtype asked);
/* Rows as the file has them. The range is the caller's to check. */
enum vic_status reader_read_raw(struct vic_reader *reader, int64_t first, int64_t count, char *out, int64_t stride_bytes);
/* read of the formats that are a plain run of rows from layout.offset. */
enum vic_status reader_read_plain(struct vic_reader *reader, int64_t first, int64_t count, char *out, int64_t stride_bytes);
/* VIC_FORMAT unless the file is exactly `header` bytes and rows * dim elements. Fails on overflow too. */
enum vic_status reader_check_size(const struct source *source, const struct layout *layout);
/* Reverses the bytes of each of `count` packed elements. */
void elements_swap(enum element element, void *elements, uint64_t count);

/* vic_file_info but for what only an index's own layer knows: our container is named, not described. `info` is of this
 * library's own size. */
enum vic_status file_info_foreign(const char *path, struct vic_file_info *info);
/* Whether the first bytes are those of our own container. */
bool source_is_container(const struct source *source);
/* Lines of a text file, read in blocks. */
enum vic_status text_count(const struct source *source, int64_t *lines);

#endif
