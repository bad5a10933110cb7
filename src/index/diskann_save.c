/* An index of ours as DiskANN's files: what it can load itself.
 *
 * DiskANN begins at one node, our walks at several: the start is the first entry point, and its list gets those entry points
 * that it does not lead to. Float rows go as float32; for cosine as unit vectors, which is what it expects there.
 *
 * The surprising rule: a set is several files, and those of two saves would fit each other in shape. So all are written before
 * any gets its name, and the one that leads to the others is away while they get theirs (base/save_set.c). */
#include "index/diskann.h"

#include "base/progress.h"
#include "data/diskann.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- lists, as they are written */

const uint32_t *diskann_list(const struct diskann_lists *lists, int64_t row, int64_t *count) {
    const uint32_t *slots = graph_row(lists->graph, row);
    if (row == lists->start) {
        *count = lists->start_count;
        return lists->start_list;
    }
    *count = slots_used(slots, lists->graph->degree);
    return slots;
}

/* Entry points that the start does not lead to become its neighbours. */
static enum vic_status start_lead(struct diskann_lists *lists, struct mem *mem) {
    const struct graph *graph = lists->graph;
    uint64_t n = (uint64_t)graph->n, marks_bytes = (n + 63) / 64 * sizeof(uint64_t);
    void *queue = NULL, *marks = NULL;
    enum vic_status status = VIC_OK;
    TRY(mem_alloc_array(mem, n, sizeof(uint32_t), "rows to go on from", &queue));
    TRY(mem_alloc(mem, marks_bytes, "marks of reached rows", &marks));
    memset(marks, 0, (size_t)marks_bytes);
    for (int64_t i = 0; i < graph->entry_count; i++) {
        uint32_t entry = graph->entries[i];
        uint64_t *word = (uint64_t *)marks + (entry >> 6), bit = UINT64_C(1) << (entry & 63);
        if (*word & bit) continue;
        *word |= bit;
        *(uint32_t *)queue = entry;
        (void)graph_reach(graph, queue, 1, marks);
        if (i == 0) continue;
        if (lists->start_count == GRAPH_DEGREE_MAX)
            TRY(status_fail(VIC_UNSUPPORTED, "expected at most %d neighbours of the start with all entry points, found more",
                            GRAPH_DEGREE_MAX));
        lists->start_list[lists->start_count++] = entry;
    }
done:
    mem_free(mem, marks, marks_bytes);
    mem_free(mem, queue, n * sizeof(uint32_t));
    return status;
}

enum vic_status diskann_lists_open(const struct vic_index *index, struct diskann_lists *lists) {
    const struct graph *graph = &index->graph;
    *lists = (struct diskann_lists){.graph = graph, .start = graph->entries[0]};
    const uint32_t *slots = graph_row(graph, lists->start);
    lists->start_count = slots_used(slots, graph->degree);
    memcpy(lists->start_list, slots, (size_t)lists->start_count * sizeof *slots);
    enum vic_status status = start_lead(lists, &index->device->host);
    for (int64_t row = 0; row < graph->n && status == VIC_OK; row++) {
        int64_t count = 0;
        (void)diskann_list(lists, row, &count);
        lists->edges += (uint64_t)count;
        if (count > lists->most) lists->most = count;
    }
    return status;
}

/* ---- rows, as DiskANN has them */

enum vic_dtype diskann_type(const struct rows *rows) { return dtype_is_integer(rows->dtype) ? rows->dtype : VIC_F32; }
static uint64_t written_bytes(const struct rows *rows) { return (uint64_t)rows->dim * vic_dtype_bytes(diskann_type(rows)); }

/* A row that float32 has made as long as it could is left as it is, so that what came from DiskANN goes out again. */
static void unit_length(float *values, int64_t dim) {
    double sum = 0;
    for (int64_t j = 0; j < dim; j++) sum += (double)values[j] * (double)values[j];
    double norm = sqrt(sum);
    bool is = fabs(norm - 1) <= 1e-6;
    for (int64_t j = 0; j < dim && norm > 0 && !is; j++) values[j] = (float)((double)values[j] / norm);
}

void diskann_row(const struct rows *rows, int64_t row, void *out) {
    uint64_t bytes = (uint64_t)rows->dim * vic_dtype_bytes(rows->dtype);
    const char *from = (const char *)rows->data + (uint64_t)row * bytes;
    float *values = out;
    if (rows->dtype == diskann_type(rows))
        memcpy(out, from, (size_t)bytes);
    else
        for (int64_t j = 0; j < rows->dim; j++) values[j] = dtype_load(rows->dtype, from, j);
    if (rows->metric == VIC_COSINE && !dtype_is_integer(rows->dtype)) unit_length(values, rows->dim);
}

/* ---- files */

enum vic_status diskann_part_open(struct diskann_part *part, const char *prefix, const char *suffix, uint64_t bytes) {
    int used = snprintf(part->path, sizeof part->path, "%s%s", prefix, suffix);
    if (used < 0 || (size_t)used >= sizeof part->path)
        return status_fail(VIC_ARGUMENT, "expected a path of less than %zu bytes, found %d", sizeof part->path, used);
    return sink_open(part->path, bytes, &part->sink);
}

enum vic_status diskann_parts_commit(const struct diskann_part *parts, int count) {
    struct sink *sinks[SINKS_MOST];
    for (int i = 0; i < count; i++) sinks[i] = parts[i].sink;
    return sink_commit_all(sinks, count);
}

void diskann_parts_close(struct diskann_part *parts, int count) {
    for (int i = 0; i < count; i++) sink_free(parts[i].sink);
}

/* A file that DiskANN would take for a part of the set, left there by another one. */
enum vic_status diskann_leftover_refuse(const char *path, const char *const *suffixes) {
    for (; *suffixes; suffixes++) {
        struct source source;
        bool there = false;
        enum vic_status status = diskann_beside_look(path, NULL, *suffixes, &source, &there);
        source_close(&source);
        if (status != VIC_OK) return status;
        if (there)
            return status_fail(VIC_ARGUMENT,
                               "expected no file %.300s%s, which DiskANN would read as a part of this index; remove it", path,
                               *suffixes);
    }
    return VIC_OK;
}

static enum vic_status data_write(const struct rows *rows, const struct vic_progress *hook, struct diskann_part *part) {
    const uint32_t head[] = {(uint32_t)rows->n, (uint32_t)rows->dim};
    uint64_t row_bytes = written_bytes(rows);
    float row[DIM_MAX];
    struct progress progress = progress_start(hook, "writing", rows->n);
    enum vic_status status = VIC_OK;
    TRY(sink_write(part->sink, head, sizeof head));
    for (int64_t i = 0; i < rows->n; i++) {
        diskann_row(rows, i, row);
        TRY(sink_write(part->sink, row, row_bytes));
        if (i % 1024 == 0 || i + 1 == rows->n) TRY(progress_step(&progress, i + 1));
    }
done:
    return status;
}

enum vic_status diskann_description_write(const struct rows *rows, struct diskann_part *part) {
    static const uint64_t types[] = {[VIC_F32] = 0, [VIC_I8] = 1, [VIC_U8] = 2};
    static const uint64_t metrics[] = {[VIC_L2] = 0, [VIC_DOT] = 1, [VIC_COSINE] = 2};
    const uint64_t words[] = {types[diskann_type(rows)], metrics[rows->metric], (uint64_t)rows->n, (uint64_t)rows->dim};
    return sink_write(part->sink, words, sizeof words);
}

static uint64_t graph_file_bytes(const struct diskann_lists *lists) {
    return 24 + ((uint64_t)lists->graph->n + lists->edges) * sizeof(uint32_t);
}

static enum vic_status graph_write(const struct diskann_lists *lists, struct diskann_part *part) {
    const uint64_t size = graph_file_bytes(lists), frozen = 0;
    const uint32_t words[] = {(uint32_t)lists->most, lists->start};
    enum vic_status status = VIC_OK;
    TRY(sink_write(part->sink, &size, sizeof size));
    TRY(sink_write(part->sink, words, sizeof words));
    TRY(sink_write(part->sink, &frozen, sizeof frozen));
    for (int64_t row = 0; row < lists->graph->n; row++) {
        int64_t count = 0;
        const uint32_t *list = diskann_list(lists, row, &count);
        const uint32_t word = (uint32_t)count;
        TRY(sink_write(part->sink, &word, sizeof word));
        TRY(sink_write(part->sink, list, (uint64_t)count * sizeof *list));
    }
done:
    return status;
}

static enum vic_status memory_save(const struct vic_index *index, const char *path, const struct vic_progress *progress) {
    enum { DATA, DESCRIPTION, GRAPH, PARTS };
    const struct rows *rows = &index->corpus.rows;
    struct diskann_part parts[PARTS] = {{.sink = NULL}};
    static const char *const leftovers[] = {".del", ".tags", "_labels.txt", NULL};
    struct diskann_lists lists;
    enum vic_status status = VIC_OK;
    TRY(diskann_leftover_refuse(path, leftovers));
    TRY(diskann_lists_open(index, &lists));
    TRY(diskann_part_open(&parts[DATA], path, ".data", 8 + (uint64_t)rows->n * written_bytes(rows)));
    TRY(diskann_part_open(&parts[DESCRIPTION], path, "_metadata.bin", 0));
    TRY(diskann_part_open(&parts[GRAPH], path, "", graph_file_bytes(&lists)));
    TRY(data_write(rows, progress, &parts[DATA]));
    TRY(diskann_description_write(rows, &parts[DESCRIPTION]));
    TRY(graph_write(&lists, &parts[GRAPH]));
    TRY(diskann_parts_commit(parts, PARTS));
done:
    diskann_parts_close(parts, PARTS);
    return status;
}

/* ---- what can be written */

static const struct diskann_form {
    const char *name;
    enum vic_status (*save)(const struct vic_index *index, const char *path, const struct vic_progress *progress);
} forms[] = {{"diskann", memory_save}, {"diskann-disk", diskann_disk_save}};
enum { FORMS = sizeof forms / sizeof *forms };

static enum vic_status index_fits(const struct vic_index *index) {
    const struct rows *rows = &index->corpus.rows;
    if (index->kind != &graph_kind || rows->n == 0)
        return status_fail(VIC_UNSUPPORTED,
                           "expected an index with a graph for DiskANN's files, found a %s one of %" PRId64 " rows",
                           index->kind->name, rows->n);
    for (int64_t i = 0; rows->ids && i < rows->n; i++)
        if (rows->ids[i] != i)
            return status_fail(VIC_UNSUPPORTED,
                               "expected ids 0, 1, 2 ... for DiskANN's files, which have no others, found %" PRId64
                               " for row %" PRId64,
                               rows->ids[i], i);
    return graph_check(&index->graph, &index->device->host, "the index", NULL);
}

enum vic_status diskann_index_save(const struct vic_index *index, const char *path, const char *format,
                                   const struct vic_progress *progress) {
    for (int i = 0; i < FORMS; i++) {
        if (strcmp(forms[i].name, format) != 0) continue;
        enum vic_status status = index_fits(index);
        return status == VIC_OK ? forms[i].save(index, path, progress) : status;
    }
    return status_fail(VIC_ARGUMENT, "expected options.format to be NULL, diskann or diskann-disk, found \"%.40s\"", format);
}
