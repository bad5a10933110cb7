/* Fuzz target of DiskANN's files: any bytes as a disk index of every element type, as a graph beside vectors that fit it, as
 * pivots and as codes. An index that opens is searched, checked and written again. */
#include "input.h"

#include "data/diskann.h"

enum { DIM = 2, NODES_MOST = 2000, CENTRES_MOST = 64 };

static struct vic_device *device;

static void open_path(const char *path, enum vic_dtype dtype) {
    const struct vic_open_options options = {.size = sizeof options, .dtype = dtype};
    struct vic_index *index = NULL;
    if (vic_index_open(device, path, &options, &index) == VIC_OK)
        input_ask(index);
    else if (index || !vic_last_error()[0])
        abort();
}

/* A graph needs a file beside it, and so a name: both in memory all the same. */
static void graph_try(const uint8_t *data, size_t size) {
    static char folder[] = "/dev/shm/vicinal-fuzz-XXXXXX", graph_path[64], data_path[64];
    if (!graph_path[0]) {
        if (!mkdtemp(folder)) abort();
        (void)snprintf(graph_path, sizeof graph_path, "%s/g", folder);
        (void)snprintf(data_path, sizeof data_path, "%s/g.data", folder);
    }
    struct input input = input_open(data, size);
    struct source source;
    struct diskann_graph graph;
    uint32_t head[] = {1, DIM};
    if (source_open(input.path, &source) == VIC_OK && diskann_graph_open(&source, -1, &graph) == VIC_OK &&
        graph.nodes <= NODES_MOST)
        head[0] = (uint32_t)graph.nodes;
    source_close(&source);
    input_close(&input);
    FILE *file = fopen(graph_path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
    static float rows[NODES_MOST * DIM];
    for (int i = 0; i < NODES_MOST * DIM; i++) rows[i] = (float)(i * 7 % 31);
    file = fopen(data_path, "wb");
    if (!file || fwrite(head, sizeof head, 1, file) != 1 || fwrite(rows, DIM * sizeof *rows, head[0], file) != head[0] ||
        fclose(file) != 0)
        abort();
    open_path(graph_path, 0);
}

static void pivots_try(const char *path) {
    static float centres[DISKANN_CENTRES * CENTRES_MOST], centroid[CENTRES_MOST];
    uint32_t offsets[CENTRES_MOST + 1];
    struct source source;
    struct diskann_pivots pivots;
    if (source_open(path, &source) == VIC_OK && diskann_pivots_open(&source, &pivots) == VIC_OK && pivots.dim <= CENTRES_MOST)
        (void)diskann_pivots_read(&source, &pivots, centres, centroid, offsets);
    source_close(&source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!device) {
        const struct vic_device_options options = {
            .size = sizeof options, .name = "cpu", .threads = 1, .host_bytes = 256 << 20};
        if (vic_device_open(&options, &device) != VIC_OK) abort();
    }
    struct input input = input_open(data, size);
    for (enum vic_dtype dtype = 0; dtype <= VIC_U8; dtype++) input_read(&input, "diskann-disk", NULL, dtype);
    for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype += VIC_U8 - VIC_F32) open_path(input.path, dtype);
    pivots_try(input.path);
    input_close(&input);
    graph_try(data, size);
    return 0;
}
