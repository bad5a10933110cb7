/* Where vectors come from: a file of any known kind, or an index, read in blocks as the element type that is wanted. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "command.h"

#include <stdint.h>

struct input {
    const char *path;
    struct vic_device *device; /* converts types; lent */
    struct vic_reader *reader; /* one of these two */
    struct vic_index *index;
    struct vic_file_info info; /* rows, dim, dtype and metric of what is in there */
    enum vic_dtype type;       /* what input_read gives; the file's own until the caller sets another */
    void *raw;                 /* a block before its conversion */
    size_t raw_bytes;
};

/* `dataset` is the data set of an HDF5 file when the command line names none. Close it in every case. On failure it has
 * been said why; so with all functions here that return bool. */
bool input_open(struct input *input, struct vic_device *device, const char *path, const struct common_args *args,
                const char *dataset);
/* Rows [first, first + count), packed, of input->type. */
bool input_read(struct input *input, int64_t first, int64_t count, void *out);
void input_close(struct input *input);
/* Bytes of one row of input->type. */
size_t input_row_bytes(const struct input *input);

/* Opens an index, ours or DiskANN's; a file of another kind is named for what it is. planes as in vic_open_options. */
bool index_from(struct vic_device *device, const char *path, int32_t planes, struct vic_index **index);
/* The same with more to say; options->progress is set here. */
bool index_open_as(struct vic_device *device, const char *path, struct vic_open_options options, struct vic_index **index);
/* The type in which an index of `rows` takes these queries: integer rows answer their own type exactly, all else float32. */
enum vic_dtype query_type(enum vic_dtype rows, enum vic_dtype queries);
/* The element type that a file's name promises (.u8bin: u8); f32 where it promises none. */
enum vic_dtype type_by_name(const char *path);
bool path_ends(const char *path, const char *ending);
/* Whether a file to be written is none of `count` that are read, which it would take the place of; NULL ones are not there.
 * Otherwise it has been said, as a command line that makes no sense. */
bool output_apart(const char *output, const char *const *inputs, size_t count);

/* Ids: one whole number a line of a text, or all numbers of an .npy, .ivecs or truth file. Free with free(). */
bool ids_read(const char *path, int64_t **ids, int64_t *count);

/* Zeroed memory for count things of each bytes, at least one byte; NULL has been said. */
void *memory_take(uint64_t count, size_t each);

#endif
