/* vicinal convert: vectors from any known file, or out of an index, into any format that can be written; ground truth
 * likewise; and indexes between our container and DiskANN's files. Vectors stream through in blocks, so files may be larger
 * than memory. */
#include "input.h"
#include "term.h"

#include <stdlib.h>
#include <string.h>

enum target { TO_AUTO, TO_VECTORS, TO_VICINAL, TO_DISKANN, TO_DISKANN_DISK };

struct convert_args {
    struct common_args common;
    int to; /* enum target */
};

enum { BLOCK_BYTES = 16 << 20 }; /* large enough that the disk sets the pace */

static int64_t block_rows(const struct input *input) {
    int64_t rows = BLOCK_BYTES / (int64_t)(input_row_bytes(input) + 1);
    return rows > 0 ? rows : 1;
}

static bool blocks_copy(struct input *input, struct vic_writer *writer, void *block) {
    double began = seconds_now();
    int64_t total = input->info.rows, step = block_rows(input);
    for (int64_t first = 0; first < total; first += step) {
        int64_t count = total - first < step ? total - first : step;
        const struct vic_matrix rows = {.data = block, .rows = count, .dim = input->info.dim, .dtype = input->type};
        if (!input_read(input, first, count, block)) return false;
        TRY(vic_writer_write(writer, &rows));
        if (!progress_tick("converting", first + count, total, began)) return false;
    }
    return true;
done:
    return false;
}

static int convert_vectors(struct vic_device *device, const struct common_args *args, const char *in, const char *out) {
    int code = FAILED;
    struct input input = {.path = NULL};
    struct vic_writer *writer = NULL;
    void *block = NULL;
    if (!input_open(&input, device, in, args, "train")) goto done;
    if (args->type) input.type = args->type;
    if (!(block = memory_take((uint64_t)block_rows(&input), input_row_bytes(&input)))) goto done;
    TRY(vic_writer_open(out, input.info.rows, input.info.dim, input.type, NULL, &writer));
    if (!blocks_copy(&input, writer, block)) goto done;
    TRY(vic_writer_finish(writer));
    printf("%s: %s rows x %s, %s\n", out, show_count(input.info.rows), show_count(input.info.dim), vic_dtype_name(input.type));
    code = DONE;
done:
    vic_writer_free(writer);
    free(block);
    input_close(&input);
    return code;
}

static int convert_truth(const char *in, const char *out) {
    int code = FAILED;
    struct vic_truth truth = {.nq = 0};
    TRY(vic_truth_read(in, &truth));
    TRY(vic_truth_write(out, &truth));
    printf("%s: %s queries, %s neighbours each%s\n", out, show_count(truth.nq), show_count(truth.k),
           truth.distances && path_ends(out, ".bin") ? ", with distances" : "");
    code = DONE;
done:
    vic_truth_free(&truth);
    return code;
}

/* An index into another file of indexes: names say so, but for DiskANN's graph, which has none and must be asked for. */
static enum target target_of(const struct convert_args *args, const char *out) {
    if (args->to != TO_AUTO) return (enum target)args->to;
    if (path_ends(out, "_disk.index")) return TO_DISKANN_DISK;
    return path_ends(out, ".vic") ? TO_VICINAL : TO_VECTORS;
}

static int convert_index(struct vic_device *device, const struct convert_args *args, const char *in, const char *out) {
    static const char *const formats[] = {[TO_DISKANN] = "diskann", [TO_DISKANN_DISK] = "diskann-disk"};
    int code = FAILED;
    enum target target = target_of(args, out);
    const struct vic_save_options save = {.size = sizeof save, .format = formats[target], .progress = progress_hook()};
    const struct vic_open_options open = {.size = sizeof open,
                                          .metric = args->common.metric,
                                          .dtype = args->common.read_type ? args->common.read_type : args->common.type};
    struct vic_index *index = NULL;
    struct vic_index_info info = {.size = sizeof info};
    if (!index_open_as(device, in, open, &index)) goto done;
    TRY(vic_index_info(index, &info));
    TRY(vic_index_save(index, out, &save));
    printf("%s: %s index, %s, %s rows x %s, %s", out, info.kind, vic_metric_name(info.metric), show_count(info.rows),
           show_count(info.dim), vic_dtype_name(info.dtype));
    if (info.degree) printf(", %d neighbours a row, %lld tied in", info.degree, (long long)info.repairs);
    printf("\n");
    code = DONE;
done:
    vic_index_free(index);
    return code;
}

/* Neighbours rather than vectors: ground truth, or whole numbers of 32 or 64 bits. */
static bool holds_truth(const struct vic_file_info *info, const char *dataset) {
    static const char *const words[] = {"truth", "ivecs", "i32", "u32", "i64", "u64"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(info->format, words[i]) == 0 || strcmp(info->element, words[i]) == 0) return true;
    return dataset && strcmp(info->format, "hdf5") == 0 && strcmp(dataset, "neighbors") == 0;
}

static int convert_run(const void *arguments, char *const *operands) {
    const struct convert_args *args = arguments;
    int code = FAILED;
    struct vic_device *device = NULL;
    struct vic_file_info info = {.size = sizeof info};
    const struct common_args cpu = {.device = "cpu", .threads = args->common.threads};
    TRY(vic_file_info(operands[0], &info));
    if (target_of(args, operands[1]) == TO_VECTORS && !output_apart(operands[1], (const char *const[]){operands[0]}, 1))
        code = USAGE;
    else if (holds_truth(&info, args->common.dataset))
        code = convert_truth(operands[0], operands[1]);
    else if (!device_from(&cpu, &device))
        goto done;
    else if (target_of(args, operands[1]) != TO_VECTORS)
        code = convert_index(device, args, operands[0], operands[1]);
    else
        code = convert_vectors(device, &args->common, operands[0], operands[1]);
done:
    vic_device_free(device);
    return code;
}

static const struct option_row convert_options[] = {
    {"to", 0, OPTION_CHOICE, "auto|vectors|vicinal|diskann|diskann-disk", 0, 0, offsetof(struct convert_args, to), OPTIONAL,
     "what OUT is to be: vectors, or an index of this kind (auto: .vic and _disk.index are indexes, all else vectors)"},
    {.name = NULL},
};

const struct command convert_command = {
    .name = "convert",
    .line = "between formats of vectors, truth, indexes",
    .operands = "IN OUT",
    .about = "IN is any known file of vectors, an index, or ground truth; the ending of OUT says what to write: .fvecs "
             ".bvecs .fbin .u8bin .i8bin .f16bin .bin .npy for vectors, .bin .ivecs .npy for ground truth, .vic for an index. "
             "With --type values are rounded to a narrower float and refused when they overflow; for an integer type they "
             "must be whole. IN may be an index of DiskANN, in memory (NAME, with NAME.data beside it) or on disk "
             "(NAME_disk.index); --metric and --read-type say what its files do not. An index with a graph is written "
             "so too: --to diskann makes NAME, NAME.data and NAME_metadata.bin, a NAME_disk.index comes with codes beside it.",
    .example = "vicinal convert rows.fbin rows.npy --type f16",
    .options = convert_options,
    .defaults = &(const struct convert_args){.to = TO_AUTO},
    .args_bytes = sizeof(struct convert_args),
    .common = COMMON_TYPE | COMMON_READ | COMMON_METRIC | COMMON_THREADS,
    .run = convert_run,
};
