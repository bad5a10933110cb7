/* Fuzz target of the files beside a disk index of DiskANN: a small good set for inner products, with codes, in which the input
 * replaces some files. The input is pieces of a byte that names a file, four that give a length, and so many bytes. */
#include "input.h"

enum { N = 24, DIM = 3, FILES = 6, PATH_BYTES = 96 };
static const char *const names[FILES] = {"x_disk.index",        "x_disk.index_max_base_norm.bin",
                                         "x_metadata.bin",      "x_pq_pivots.bin",
                                         "x_pq_compressed.bin", "x_pq_pivots.bin_rotation_matrix.bin"};

static struct vic_device *device;
static char folder[] = "/dev/shm/vicinal-fuzz-XXXXXX", paths[FILES][PATH_BYTES];
static unsigned char good[FILES][16384];
static size_t good_bytes[FILES]; /* 0: the good set has no such file */

static void file_put(int file, const uint8_t *bytes, size_t size) {
    FILE *stream = fopen(paths[file], "wb");
    if (!stream || fwrite(bytes, 1, size, stream) != size || fclose(stream) != 0) abort();
}

static void file_reset(int file) {
    if (good_bytes[file])
        file_put(file, good[file], good_bytes[file]);
    else
        (void)remove(paths[file]);
}

static void good_make(void) {
    const struct vic_device_options options = {.size = sizeof options, .name = "cpu", .threads = 1, .host_bytes = 256 << 20};
    const struct vic_graph_options graph = {.size = sizeof graph, .force = 1, .degree = 4};
    const struct vic_build_options build = {.size = sizeof build, .metric = VIC_DOT, .graph = &graph};
    const struct vic_save_options save = {.size = sizeof save, .format = "diskann-disk"};
    float rows[N * DIM];
    const struct vic_matrix matrix = {.data = rows, .rows = N, .dim = DIM};
    struct vic_index *index = NULL;
    for (int i = 0; i < N * DIM; i++) rows[i] = (float)(i * 7 % 31 - 15);
    if (!mkdtemp(folder)) abort();
    for (int file = 0; file < FILES; file++) (void)snprintf(paths[file], PATH_BYTES, "%s/%s", folder, names[file]);
    if (vic_device_open(&options, &device) != VIC_OK || vic_index_build(device, &matrix, &build, &index) != VIC_OK ||
        vic_index_save(index, paths[0], &save) != VIC_OK)
        abort();
    vic_index_free(index);
    for (int file = 0; file < FILES; file++) {
        FILE *stream = fopen(paths[file], "rb");
        if (!stream) continue;
        good_bytes[file] = fread(good[file], 1, sizeof good[file], stream);
        (void)fclose(stream);
    }
}

static void set_open(void) {
    struct vic_file_info info = {.size = sizeof info};
    struct vic_index *index = NULL;
    if (vic_file_info(paths[0], &info) != VIC_OK || info.pq_chunks < 0) abort();
    if (vic_index_open(device, paths[0], NULL, &index) == VIC_OK)
        input_ask(index);
    else if (index || !vic_last_error()[0])
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!device) good_make();
    int changed = 0;
    for (size_t at = 0; at + 5 <= size;) {
        int file = data[at] % FILES;
        uint32_t bytes;
        memcpy(&bytes, data + at + 1, sizeof bytes);
        at += 5;
        if (bytes > size - at) bytes = (uint32_t)(size - at);
        file_put(file, data + at, bytes);
        at += bytes, changed |= 1 << file;
    }
    set_open();
    for (int file = 0; file < FILES; file++)
        if (changed >> file & 1) file_reset(file);
    return 0;
}
