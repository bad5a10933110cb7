/* DiskANN's graph in memory: uint64 size of the file, uint32 largest degree, uint32 start, uint64 frozen nodes (not in 2021),
 * then of each node uint32 count and that many uint32 neighbours. How many nodes there are is not said: as many as fill the
 * file.
 *
 * The surprising rule: a file with the longer header nearly always reads well with the shorter one too. Zero frozen nodes
 * look like two nodes without neighbours, one like a node with the neighbour 0. No builder makes such nodes, so the longer
 * header is believed where it fits, unless the vectors beside it speak for the other. */
#include "data/diskann.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { HEADER_BYTES = 24, HEADER_BYTES_2021 = 16, DEGREE_AT = 8, START_AT = 12, FROZEN_AT = 16 };

static uint64_t head_word64(const struct source *source, uint64_t offset) {
    return source_word(source, offset) | (uint64_t)source_word(source, offset + 4) << 32;
}

bool diskann_graph_claimed(const struct source *source) {
    return source->bytes >= HEADER_BYTES_2021 && head_word64(source, 0) == source->bytes;
}

/* What the lists of a file are when they begin behind a header of so many bytes. */
struct lists {
    bool end_well; /* with the file's last byte */
    int64_t nodes, edges;
    uint64_t at;    /* where the list begins that does not */
    uint32_t count; /* what it begins with */
    int64_t most, most_node;
    uint32_t largest; /* id, where it is */
    int64_t largest_node, largest_slot;
};

static void list_see(struct lists *lists, const unsigned char *bytes, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t id;
        memcpy(&id, bytes + i * 4, sizeof id);
        if (id > lists->largest || (lists->edges == 0 && first + i == 0)) {
            lists->largest = id;
            lists->largest_node = lists->nodes, lists->largest_slot = first + i;
        }
    }
}

static enum vic_status lists_walk(const struct source *source, uint64_t header_bytes, struct lists *lists) {
    struct window window = {.source = source, .end = source->bytes};
    const unsigned char *bytes = NULL;
    enum vic_status status = VIC_OK;
    uint64_t at = header_bytes;
    *lists = (struct lists){.end_well = true};
    while (at < source->bytes) {
        uint64_t left = source->bytes - at;
        lists->at = at, lists->count = 0;
        if (left >= 4) {
            TRY(window_get(&window, at, 4, &bytes));
            memcpy(&lists->count, bytes, sizeof lists->count);
        }
        lists->end_well = left >= 4 && lists->count <= (left - 4) / 4;
        if (!lists->end_well) return VIC_OK;
        at += 4;
        for (int64_t first = 0, count = lists->count; first < count;) {
            int64_t piece = count - first < DISKANN_WINDOW_BYTES / 4 ? count - first : DISKANN_WINDOW_BYTES / 4;
            TRY(window_get(&window, at, (uint64_t)piece * 4, &bytes));
            list_see(lists, bytes, first, piece);
            first += piece, at += (uint64_t)piece * 4;
        }
        if (lists->count > lists->most) lists->most = lists->count, lists->most_node = lists->nodes;
        lists->edges += lists->count;
        lists->nodes++;
    }
done:
    return status;
}

/* The header's words; with the one of 2021 there are no frozen nodes. */
static void header_take(const struct source *source, uint64_t header_bytes, const struct lists *lists,
                        struct diskann_graph *graph) {
    uint64_t frozen = header_bytes == HEADER_BYTES ? head_word64(source, FROZEN_AT) : 0;
    *graph = (struct diskann_graph){
        .header_bytes = header_bytes,
        .nodes = lists->nodes,
        .frozen = frozen > INT64_MAX ? INT64_MAX : (int64_t)frozen,
        .degree = source_word(source, DEGREE_AT),
        .start = source_word(source, START_AT),
        .most_neighbours = lists->most,
        .edges = lists->edges,
    };
}

static enum vic_status reading_check(const struct source *source, const struct lists *lists,
                                     const struct diskann_graph *graph) {
    const char *name = source->name;
    if (!lists->end_well)
        return status_fail(VIC_FORMAT,
                           "%s: expected a DiskANN graph whose lists end with its %" PRIu64 " bytes, found node %" PRId64
                           " with %" PRIu32 " neighbours at byte %" PRIu64,
                           name, source->bytes, lists->nodes, lists->count, lists->at);
    if (lists->edges > 0 && lists->largest >= lists->nodes)
        return status_fail(VIC_FORMAT,
                           "%s: expected neighbours below %" PRId64 ", the number of nodes, found %" PRIu32 " at node %" PRId64
                           ", slot %" PRId64,
                           name, lists->nodes, lists->largest, lists->largest_node, lists->largest_slot);
    if (graph->start >= lists->nodes)
        return status_fail(VIC_FORMAT, "%s: expected a start below %" PRId64 ", the number of nodes, found %" PRIu32, name,
                           lists->nodes, graph->start);
    if (graph->frozen > lists->nodes)
        return status_fail(VIC_FORMAT, "%s: expected at most %" PRId64 " frozen nodes, found %" PRId64, name, lists->nodes,
                           graph->frozen);
    if (lists->most > graph->degree)
        return status_fail(VIC_FORMAT,
                           "%s: expected at most %" PRIu32 " neighbours a node, as its header says, found %" PRId64
                           " at node %" PRId64,
                           name, graph->degree, lists->most, lists->most_node);
    return VIC_OK;
}

enum vic_status diskann_graph_open(const struct source *source, int64_t nodes, struct diskann_graph *graph) {
    static const uint64_t headers[] = {HEADER_BYTES, HEADER_BYTES_2021};
    struct diskann_graph found[2];
    struct status_note verdict[2];
    bool ends[2] = {false, false};
    if (source->bytes < HEADER_BYTES_2021)
        return status_fail(VIC_FORMAT, "%s: expected at least %d bytes (the header of a DiskANN graph), found %" PRIu64,
                           source->name, HEADER_BYTES_2021, source->bytes);
    if (!diskann_graph_claimed(source))
        return status_fail(VIC_FORMAT, "%s: expected a DiskANN graph of %" PRIu64 " bytes, as its first 8 say, found %" PRIu64,
                           source->name, head_word64(source, 0), source->bytes);
    for (int i = 0; i < 2; i++) {
        struct lists lists;
        enum vic_status status = lists_walk(source, headers[i], &lists);
        if (status != VIC_OK) return status;
        header_take(source, headers[i], &lists, &found[i]);
        status_keep(&verdict[i], reading_check(source, &lists, &found[i]));
        ends[i] = lists.end_well && source->bytes >= headers[i];
        if (ends[i] && verdict[i].status == VIC_OK && (nodes < 0 || found[i].nodes == nodes)) {
            *graph = found[i];
            return VIC_OK;
        }
    }
    /* None fits. The sentence is about the header that comes nearest: it reads to the end, better with the right number. */
    int best = 0, best_score = -1;
    for (int i = 0; i < 2; i++) {
        int score = (ends[i] ? 1 : 0) + (ends[i] && found[i].nodes == nodes ? 4 : 0) + (verdict[i].status == VIC_OK ? 2 : 0);
        if (score > best_score) best = i, best_score = score;
    }
    *graph = found[best];
    return verdict[best].status == VIC_OK ? VIC_OK : status_raise(&verdict[best]);
}

enum vic_status diskann_graph_each(const struct source *source, const struct diskann_graph *graph,
                                   const struct diskann_taker *taker) {
    struct window window = {.source = source, .end = source->bytes};
    uint32_t neighbours[DISKANN_DEGREE_MAX], count = 0;
    const unsigned char *bytes = NULL;
    uint64_t at = graph->header_bytes;
    enum vic_status status = VIC_OK;
    if (graph->most_neighbours > DISKANN_DEGREE_MAX)
        return status_fail(VIC_UNSUPPORTED, "%s: expected at most %d neighbours a node, found %" PRId64, source->name,
                           DISKANN_DEGREE_MAX, graph->most_neighbours);
    for (int64_t node = 0; node < graph->nodes; node++) {
        TRY(window_get(&window, at, 4, &bytes));
        memcpy(&count, bytes, sizeof count);
        if (count > graph->most_neighbours) return status_fail(VIC_IO, "%s was changed while it was read", source->name);
        TRY(window_get(&window, at + 4, (uint64_t)count * 4, &bytes));
        memcpy(neighbours, bytes, (size_t)count * 4);
        TRY(taker->take(taker->user, node, neighbours, count));
        at += 4 + (uint64_t)count * 4;
    }
done:
    return status;
}

/* ---- as a row of the readers' table: known by name, not read as vectors */

static enum fit graph_probe(const struct reader_format *format, const struct source *source, struct layout *layout) {
    struct diskann_graph graph;
    struct diskann_disk disk;
    (void)format;
    if (!diskann_graph_claimed(source) || diskann_disk_header(source, &disk) == VIC_OK) return FIT_NONE;
    if (diskann_graph_open(source, -1, &graph) != VIC_OK) return FIT_VALUES;
    layout->rows = graph.nodes - graph.frozen;
    return FIT_MAGIC;
}

static enum vic_status graph_open(struct vic_reader *reader) {
    struct diskann_graph graph;
    enum vic_status status = diskann_graph_open(&reader->source, -1, &graph);
    if (status != VIC_OK) return status;
    return status_fail(VIC_TYPE,
                       "%s is a graph of DiskANN (%s header): %" PRId64 " nodes, %" PRId64 " of them frozen, degree %" PRIu32
                       ", start %" PRIu32 "; its vectors are in the file beside it that ends in .data",
                       reader->source.name, graph.header_bytes == HEADER_BYTES ? "24-byte" : "16-byte, 2021", graph.nodes,
                       graph.frozen, graph.degree, graph.start);
}

const struct reader_format diskann_graph_format = {.name = "diskann-graph",
                                                   .endings = {{"index", ELEMENT_NONE}},
                                                   .holds = HOLDS_NOTHING,
                                                   .probe = graph_probe,
                                                   .open = graph_open};
