/* An index of DiskANN becomes one of ours: its vectors are built into a flat index, its lists become the slots of a graph.
 *
 * Frozen nodes, where searches of an index that grew begin, are no rows: their neighbours become the entry points. A list
 * loses edges to them, to its own node, and repeats. What then cannot be reached any more is tied in as after a build.
 *
 * The surprising rule: no file says what the metric is but the one that the Python package writes beside them. Without it and
 * without the caller's word it is l2, except where rows were changed for inner products. */
#include "index/diskann.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)DISKANN_DEGREE_MAX == (int)GRAPH_DEGREE_MAX, "what is handed out must fit");

struct set {
    const char *path;
    struct source source; /* the graph or the disk index */
    bool on_disk;
    struct diskann_graph graph; /* one of these two */
    struct diskann_disk disk;
    struct diskann_beside beside;
    struct vic_reader *rows;
    int64_t nodes, frozen, degree;
};

static void set_close(struct set *set) {
    vic_reader_close(set->rows);
    source_close(&set->source);
}

/* ---- what there is */

/* By its bytes; or, so that a damaged file is named for what is wrong with it, by its name or by the vectors beside it. */
static bool claimed(const char *path, const struct source *source, bool *on_disk) {
    struct diskann_disk disk;
    struct source data = {.fd = -1};
    size_t length = strlen(source->name), end = strlen(DISKANN_DISK_END);
    bool named = length > end && strcmp(source->name + length - end, DISKANN_DISK_END) == 0;
    if (source_is_container(source)) return false;
    *on_disk = named || diskann_disk_header(source, &disk) == VIC_OK;
    if (*on_disk || diskann_graph_claimed(source)) return true;
    bool vectors = diskann_beside_open(path, NULL, ".data", &data) == VIC_OK;
    source_close(&data);
    return vectors;
}

bool diskann_index_claimed(const char *path) {
    struct status_note note;
    struct source source;
    bool on_disk = false;
    status_keep(&note, VIC_INTERNAL);
    bool is = source_open(path, &source) == VIC_OK && claimed(path, &source, &on_disk);
    source_close(&source);
    (void)status_raise(&note);
    return is;
}

/* The vectors of a graph in memory lie in a file that does not say their type. */
static enum vic_status data_open(struct set *set, enum vic_dtype dtype) {
    struct vic_reader_options options = {.size = sizeof options, .format = "bin", .dtype = dtype};
    struct source data = {.fd = -1};
    char path[PATH_MAX];
    enum vic_status status = VIC_OK;
    int used = snprintf(path, sizeof path, "%s.data", set->path);
    if (used < 0 || (size_t)used >= sizeof path)
        return status_fail(VIC_NOT_FOUND, "expected a path of less than %zu bytes, found %d", sizeof path, used);
    TRY(source_open(path, &data));
    uint64_t cells = (uint64_t)source_word(&data, 0) * source_word(&data, 4);
    if (!options.dtype) options.dtype = (enum vic_dtype)set->beside.element;
    if (!options.dtype && data.bytes >= 8 && cells > 0 && (data.bytes - 8) / cells == sizeof(float)) options.dtype = VIC_F32;
    TRY(vic_reader_open(path, &options, &set->rows));
done:
    source_close(&data);
    return status;
}

static enum vic_status memory_open(struct set *set, enum vic_dtype dtype) {
    enum vic_status status = VIC_OK;
    TRY(diskann_beside_read(set->path, DISKANN_SET_MEMORY, &set->beside));
    TRY(data_open(set, dtype));
    const struct layout *layout = &set->rows->layout;
    const char *data = set->rows->source.name;
    TRY(diskann_graph_open(&set->source, layout->rows, &set->graph));
    set->nodes = set->graph.nodes, set->frozen = set->graph.frozen, set->degree = set->graph.most_neighbours;
    if (layout->rows != set->nodes)
        return status_fail(VIC_FORMAT, "%s: expected %" PRId64 " vectors, as many as the nodes of %s, found %" PRId64, data,
                           set->nodes, set->source.name, layout->rows);
    if (set->beside.described_dim >= 0 && set->beside.described_dim != layout->dim)
        return status_fail(VIC_FORMAT, "%s: expected dim %" PRId64 ", as _metadata.bin beside it says, found %" PRId64, data,
                           set->beside.described_dim, layout->dim);
    if (set->beside.described_rows >= 0 && set->beside.described_rows != set->nodes - set->frozen)
        return status_fail(VIC_FORMAT, "%s: expected %" PRId64 " rows, as _metadata.bin beside it says, found %" PRId64, data,
                           set->beside.described_rows, set->nodes - set->frozen);
    set->rows->layout.rows -= set->frozen; /* they are last */
done:
    return status;
}

static enum vic_status disk_open(struct set *set, enum vic_dtype dtype) {
    const struct vic_reader_options options = {.size = sizeof options, .format = "diskann-disk", .dtype = dtype};
    enum vic_status status = VIC_OK;
    TRY(vic_reader_open(set->path, &options, &set->rows)); /* which holds all files of the set against each other */
    TRY(diskann_beside_read(set->path, DISKANN_SET_DISK, &set->beside));
    TRY(diskann_disk_open(&set->source, set->rows->layout.element, &set->disk));
    set->nodes = set->disk.nodes, set->frozen = set->disk.frozen, set->degree = set->disk.degree;
done:
    return status;
}

static enum vic_status set_open(const char *path, enum vic_dtype dtype, struct set *set) {
    enum vic_status status = VIC_OK;
    *set = (struct set){.path = path, .source.fd = -1};
    TRY(source_open(path, &set->source));
    if (!claimed(path, &set->source, &set->on_disk))
        return status_fail(VIC_FORMAT, "%s: expected a graph or a disk index of DiskANN, found other first bytes",
                           set->source.name);
    TRY(set->on_disk ? disk_open(set, dtype) : memory_open(set, dtype));
    if (set->nodes > graph_rows_most)
        return status_fail(VIC_UNSUPPORTED, "%s: expected at most %" PRId64 " nodes, found %" PRId64, set->source.name,
                           graph_rows_most, set->nodes);
    if (set->degree > GRAPH_DEGREE_MAX && !set->on_disk)
        return status_fail(VIC_UNSUPPORTED, "%s: expected at most %d neighbours a node, found %" PRId64, set->source.name,
                           GRAPH_DEGREE_MAX, set->degree);
    /* A disk index has room for so many, but its nodes need not have them: they are counted as they come. */
    if (set->degree > GRAPH_DEGREE_MAX) set->degree = GRAPH_DEGREE_MAX;
    if (set->degree < 1) set->degree = 1;
done:
    return status;
}

/* ---- lists into slots */

struct filling {
    uint32_t *slots;
    int64_t n, degree;
    uint32_t entries[GRAPH_ENTRIES_MAX];
    int64_t entry_count;
};

static bool holds(const uint32_t *words, int64_t count, uint32_t word) {
    bool found = false;
    for (int64_t i = 0; i < count; i++) found |= words[i] == word;
    return found;
}

static void entry_add(struct filling *filling, uint32_t row) {
    if (row >= filling->n || filling->entry_count == GRAPH_ENTRIES_MAX || holds(filling->entries, filling->entry_count, row))
        return;
    filling->entries[filling->entry_count++] = row;
}

static enum vic_status node_take(void *user, int64_t node, const uint32_t *neighbours, uint32_t count) {
    struct filling *filling = user;
    if (node >= filling->n) { /* frozen */
        for (uint32_t i = 0; i < count; i++) entry_add(filling, neighbours[i]);
        return VIC_OK;
    }
    uint32_t *slots = filling->slots + node * filling->degree;
    int64_t used = 0;
    for (uint32_t i = 0; i < count && used < filling->degree; i++)
        if (neighbours[i] < filling->n && neighbours[i] != node && !holds(slots, used, neighbours[i]))
            slots[used++] = neighbours[i];
    return VIC_OK;
}

static enum vic_status medoids_take(const struct source *source, const struct set *set, struct filling *filling) {
    uint32_t medoids[GRAPH_ENTRIES_MAX];
    int64_t rows = 0, dim = 0;
    enum vic_status status = VIC_OK;
    TRY(diskann_bin_open(source, sizeof *medoids, &rows, &dim));
    if (dim != 1 || rows < 1)
        return status_fail(VIC_FORMAT, "%s: expected 1 and more medoids x 1, found %" PRId64 " x %" PRId64, source->name, rows,
                           dim);
    if (rows > GRAPH_ENTRIES_MAX) rows = GRAPH_ENTRIES_MAX;
    TRY(source_read(source, 8, medoids, (uint64_t)rows * sizeof *medoids));
    for (int64_t i = 0; i < rows; i++) {
        if (medoids[i] >= set->nodes)
            return status_fail(VIC_FORMAT, "%s: expected medoids below %" PRId64 ", the number of nodes, found %" PRIu32,
                               source->name, set->nodes, medoids[i]);
        entry_add(filling, medoids[i]);
    }
done:
    return status;
}

/* Beside a disk index that was merged from parts: where searches may begin. */
static enum vic_status medoids_read(const struct set *set, struct filling *filling) {
    struct source source = {.fd = -1};
    bool there = false;
    enum vic_status status = diskann_beside_look(set->path, NULL, "_medoids.bin", &source, &there);
    if (status == VIC_OK && there) status = medoids_take(&source, set, filling);
    source_close(&source);
    return status;
}

static enum vic_status graph_read(struct vic_device *device, const struct set *set, struct graph *graph) {
    struct filling filling = {.n = set->nodes - set->frozen, .degree = set->degree};
    const struct diskann_taker taker = {node_take, &filling};
    uint64_t slots = (uint64_t)filling.n * (uint64_t)filling.degree;
    enum vic_status status = VIC_OK;
    graph->mem = &device->host;
    graph->n = filling.n, graph->degree = filling.degree;
    TRY(mem_alloc_array(graph->mem, slots, sizeof(uint32_t), "the neighbours of a graph", &graph->own_neighbours));
    memset(graph->own_neighbours, 0xff, (size_t)slots * sizeof(uint32_t)); /* slot_unused */
    graph->neighbours = filling.slots = graph->own_neighbours;
    entry_add(&filling, set->on_disk ? (uint32_t)set->disk.medoid : set->graph.start);
    TRY(set->on_disk ? diskann_disk_each(&set->source, &set->disk, &taker)
                     : diskann_graph_each(&set->source, &set->graph, &taker));
    if (set->on_disk) TRY(medoids_read(set, &filling));
    if (filling.entry_count == 0) entry_add(&filling, 0);
    TRY(mem_alloc_array(graph->mem, (uint64_t)filling.entry_count, sizeof(uint32_t), "a graph's entry points",
                        &graph->own_entries));
    memcpy(graph->own_entries, filling.entries, (size_t)filling.entry_count * sizeof(uint32_t));
    graph->entries = graph->own_entries, graph->entry_count = filling.entry_count;
done:
    if (status != VIC_OK) graph_free(graph);
    return status;
}

/* Their graph becomes the index's; rows that it leaves unreached are tied in. */
static enum vic_status graph_take(struct vic_device *device, const struct set *set, const struct vic_progress *progress,
                                  struct vic_index *index) {
    const struct rows *rows = &index->corpus.rows;
    struct graph graph = {0};
    enum vic_status status = VIC_OK;
    TRY(graph_read(device, set, &graph));
    if (set->on_disk) TRY(diskann_product_take(device, set->path, &set->beside, rows, progress, &graph));
    TRY(graph_points_open(device, &index->corpus, true, &graph));
    TRY(graph_repair(device->host_ops->pool(device->host_backend), &graph, progress));
    graph_points_settle(&graph);
    graph.origin = (struct graph_origin){.builder = "DiskANN"};
    TRY(index_take_graph(index, &graph));
done:
    graph_free(&graph);
    return status;
}

/* ---- both */

static struct vic_build_options build_options(const struct set *set, const struct vic_open_options *options) {
    enum vic_metric metric = options->metric ? options->metric : set->beside.metric;
    return (struct vic_build_options){.size = sizeof(struct vic_build_options),
                                      .metric = metric ? metric : VIC_L2,
                                      .planes = (options->planes & ~(int32_t)VIC_PLANES_NONE) | VIC_PLANES_8,
                                      .progress = options->progress};
}

enum vic_status diskann_index_open(struct vic_device *device, const char *path, const struct vic_open_options *options,
                                   struct vic_index **index) {
    struct set set;
    struct graph_options gain;
    bool gains = false;
    struct vic_index *made = NULL;
    enum vic_status status = VIC_OK;
    TRY(set_open(path, options->dtype, &set));
    struct vic_build_options build = build_options(&set, options);
    TRY(index_build_reader(device, set.rows, &build, &made));
    TRY(graph_wanted(options->graph, set.nodes - set.frozen, made->corpus.rows.dim, &gain, &gains));
    if (gains)
        TRY(index_gain_graph(made, &gain, &options->progress));
    else if (set.nodes > set.frozen)
        TRY(graph_take(device, &set, &options->progress, made));
    TRY(source_still_there(&set.source, path));
    if (options->check) TRY(index_check(made, &options->progress));
    *index = made, made = NULL;
done:
    index_free(made);
    set_close(&set);
    return status;
}
