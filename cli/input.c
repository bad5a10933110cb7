/* Sources of vectors: see input.h.
 *
 * The surprising rule: types are converted by building a throw-away index of the block. The library's rules for that
 * (rounding, overflow, whole numbers for integers) then hold here without being written a second time; it costs one copy
 * of the block. */
#include "input.h"
#include "term.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void *memory_take(uint64_t count, size_t each) {
    uint64_t bytes = 0;
    void *memory = NULL;
    if (!__builtin_mul_overflow(count, (uint64_t)each, &bytes) && bytes <= PTRDIFF_MAX) memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) say("%llu times %zu bytes of memory could not be had", (unsigned long long)count, each);
    return memory;
}

bool output_apart(const char *output, const char *const *inputs, size_t count) {
    struct stat written, read;
    if (stat(output, &written) != 0) return true;
    for (size_t i = 0; i < count; i++)
        if (inputs[i] && stat(inputs[i], &read) == 0 && read.st_dev == written.st_dev && read.st_ino == written.st_ino)
            return say_usage("%s is to be read: what is written needs another name", inputs[i]), false;
    return true;
}

size_t input_row_bytes(const struct input *input) { return (size_t)input->info.dim * vic_dtype_bytes(input->type); }

static bool is_index(const struct vic_file_info *file) {
    static const char *const kinds[] = {"vicinal", "diskann-graph", "diskann-disk"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(file->format, kinds[i]) == 0) return true;
    return false;
}

bool index_open_as(struct vic_device *device, const char *path, struct vic_open_options options, struct vic_index **index) {
    struct vic_file_info file = {.size = sizeof file};
    options.progress = progress_hook();
    TRY(vic_file_info(path, &file));
    if (!is_index(&file)) {
        say("%s: expected an index, found %s%s", path, strcmp(file.format, "unknown") == 0 ? "no known format" : file.format,
            file.dtype ? " vectors; 'vicinal build' makes an index of them" : "");
        return false;
    }
    TRY(vic_index_open(device, path, &options, index));
    return true;
done:
    return false;
}

bool index_from(struct vic_device *device, const char *path, int32_t planes, struct vic_index **index) {
    return index_open_as(device, path, (struct vic_open_options){.size = sizeof(struct vic_open_options), .planes = planes},
                         index);
}

static bool input_open_index(struct input *input) {
    struct vic_index_info info = {.size = sizeof info};
    if (!index_from(input->device, input->path, 0, &input->index)) return false;
    TRY(vic_index_info(input->index, &info));
    input->info.rows = info.rows;
    input->info.dim = info.dim;
    input->info.dtype = info.dtype;
    input->info.metric = info.metric;
    return true;
done:
    return false;
}

bool input_open(struct input *input, struct vic_device *device, const char *path, const struct common_args *args,
                const char *dataset) {
    bool opened = false;
    *input = (struct input){.path = path, .device = device, .info = {.size = sizeof input->info}};
    struct vic_reader_options options = {.size = sizeof options, .dtype = args->read_type, .dataset = args->dataset};
    TRY(vic_file_info(path, &input->info));
    if (strcmp(input->info.format, "vicinal") == 0 || strcmp(input->info.format, "diskann-graph") == 0) {
        opened = input_open_index(input);
    } else {
        if (!options.dataset && strcmp(input->info.format, "hdf5") == 0) options.dataset = dataset;
        TRY(vic_reader_open(path, &options, &input->reader));
        TRY(vic_reader_info(input->reader, &input->info));
        opened = true;
    }
    input->type = input->info.dtype;
done:
    return opened;
}

void input_close(struct input *input) {
    vic_reader_close(input->reader);
    vic_index_free(input->index);
    free(input->raw);
    *input = (struct input){.path = NULL};
}

static bool vectors_copy(const struct vic_index *index, const int64_t *ids, int64_t count, size_t row_bytes, char *out) {
    for (int64_t i = 0; i < count; i++) TRY(vic_index_vector(index, ids ? ids[i] : i, out + (size_t)i * row_bytes));
    return true;
done:
    return false;
}

/* Rows as they are in the file or the index. */
static bool input_read_own(struct input *input, int64_t first, int64_t count, void *out) {
    const struct vic_matrix block = {.data = out, .rows = count, .dim = input->info.dim, .dtype = input->info.dtype};
    size_t row_bytes = (size_t)block.dim * vic_dtype_bytes(block.dtype);
    bool done_well = false;
    int64_t *ids = NULL;
    if (input->reader) {
        TRY(vic_reader_read(input->reader, first, count, &block));
        return true;
    }
    if (!(ids = memory_take((uint64_t)count, sizeof *ids))) goto done;
    TRY(vic_index_ids(input->index, first, count, ids));
    done_well = vectors_copy(input->index, ids, count, row_bytes, out);
done:
    free(ids);
    return done_well;
}

static bool input_grow(struct input *input, int64_t count) {
    size_t bytes = (size_t)count * (size_t)input->info.dim * vic_dtype_bytes(input->info.dtype);
    if (bytes <= input->raw_bytes) return true;
    free(input->raw);
    input->raw = memory_take(bytes, 1);
    input->raw_bytes = input->raw ? bytes : 0;
    return input->raw != NULL;
}

bool input_read(struct input *input, int64_t first, int64_t count, void *out) {
    if (input->type == input->info.dtype) return input_read_own(input, first, count, out);
    if (!input_grow(input, count) || !input_read_own(input, first, count, input->raw)) return false;
    const struct vic_matrix raw = {.data = input->raw, .rows = count, .dim = input->info.dim, .dtype = input->info.dtype};
    const struct vic_build_options options = {.size = sizeof options, .metric = VIC_DOT, .dtype = input->type};
    struct vic_index *index = NULL;
    if (vic_index_build(input->device, &raw, &options, &index) != VIC_OK) {
        say("%s, rows counted from %lld: %s", input->path, (long long)first, vic_last_error());
        return false;
    }
    bool copied = vectors_copy(index, NULL, count, input_row_bytes(input), out);
    vic_index_free(index);
    return copied;
}

enum vic_dtype query_type(enum vic_dtype rows, enum vic_dtype queries) {
    return queries == rows && (rows == VIC_I8 || rows == VIC_U8) ? rows : VIC_F32;
}

bool path_ends(const char *path, const char *ending) {
    size_t length = strlen(path), end = strlen(ending);
    return length >= end && strcmp(path + length - end, ending) == 0;
}

enum vic_dtype type_by_name(const char *path) {
    static const struct {
        const char *ending;
        enum vic_dtype dtype;
    } endings[] = {{".u8bin", VIC_U8}, {".bvecs", VIC_U8}, {".i8bin", VIC_I8}, {".f16bin", VIC_F16}};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (path_ends(path, endings[i].ending)) return endings[i].dtype;
    return VIC_F32;
}

/* ---- ids */

static bool ids_from_truth(const char *path, int64_t **ids, int64_t *count) {
    struct vic_truth truth = {0};
    bool taken = false;
    TRY(vic_truth_read(path, &truth));
    *count = truth.nq * truth.k;
    if (!(*ids = memory_take((uint64_t)*count, sizeof **ids))) goto done;
    memcpy(*ids, truth.ids, (size_t)*count * sizeof **ids);
    taken = true;
done:
    vic_truth_free(&truth);
    return taken;
}

static bool id_parse(const char *path, int64_t line, const char *text, size_t bytes, int64_t *id) {
    char digits[32], *end = NULL;
    (void)snprintf(digits, sizeof digits, "%.*s", (int)(bytes < 31 ? bytes : 31), text);
    errno = 0;
    *id = strtoll(digits, &end, 10);
    if (end != digits && !*end && errno == 0 && bytes < 31) return true;
    say("%s, line %lld: expected one whole number, found \"%s\"", path, (long long)line, digits);
    return false;
}

bool ids_read(const char *path, int64_t **ids, int64_t *count) {
    static const char *const binary[] = {".npy", ".ivecs", ".bin"};
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        if (path_ends(path, binary[i])) return ids_from_truth(path, ids, count);
    struct vic_texts lines = {0};
    bool taken = false;
    TRY(vic_texts_read(path, &lines));
    if (!(*ids = memory_take((uint64_t)lines.count, sizeof **ids))) goto done;
    for (*count = 0; *count < lines.count; ++*count) {
        int64_t at = lines.offsets[*count], end = lines.offsets[*count + 1];
        if (!id_parse(path, *count + 1, lines.bytes + at, (size_t)(end - at), *ids + *count)) goto done;
    }
    taken = true;
done:
    vic_texts_free(&lines);
    return taken;
}
