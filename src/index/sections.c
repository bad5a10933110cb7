/* An index as sections of a container, and back (docs/format.md says what each section means).
 *
 * Opening looks at sizes alone, never at rows, so it takes as long for a gigabyte as for a page. The two sections that
 * are parsed, `meta` and `metadata`, have their checksums verified first; all others are only ever read as numbers that
 * cannot lead outside their section (ids are answers, norms are factors, a text's offsets are held against the texts when
 * it is asked for). Everything that is more than safety, index_check looks at. */
#include "index/diskann.h"
#include "index/sections.h"
#include "base/dtype.h"
#include "base/json_text.h"
#include "base/progress.h"
#include "quant/quantizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Rows that are written or checked between two progress reports. */
static const uint64_t block_bytes = UINT64_C(8) << 20;

static int64_t block_rows(const struct rows *rows) {
    uint64_t row_bytes = (uint64_t)rows->dim * vic_dtype_bytes(rows->dtype);
    int64_t each = (int64_t)(block_bytes / row_bytes); /* a row has at most 256 KiB */
    return each < 65536 ? each : 65536;                /* their norms are held while they are checked */
}

static bool metadata_is_default(const struct corpus *corpus) { return strcmp(corpus->metadata, "{}") == 0; }

/* ---------------------------------------------------------------- saving */

enum vic_status section_write(struct file_writer *writer, const char *name, const void *data, uint64_t bytes) {
    enum vic_status status = file_section(writer, name, bytes);
    return status == VIC_OK ? file_append(writer, data, bytes) : status;
}

static enum vic_status meta_write(struct file_writer *writer, const struct index_kind *kind, const struct corpus *corpus,
                                  const struct graph *graph) {
    const struct rows *rows = &corpus->rows;
    json_t *meta = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:s}", "kind", kind->name, "metric", vic_metric_name(rows->metric),
                             "dtype", vic_dtype_name(rows->dtype), "rows", (json_int_t)rows->n, "dim", (json_int_t)rows->dim,
                             "next_id", (json_int_t)corpus->next_id, "library", vic_version());
    /* Into a buffer of ours: json_dumps does not notice when memory for a key runs out, and would leave the key out. */
    char text[1024];
    bool whole = meta && (!graph || graph_meta_put(meta, graph));
    size_t bytes = whole ? json_dumpb(meta, text, sizeof text, JSON_COMPACT | JSON_REAL_PRECISION(9)) : 0;
    json_decref(meta);
    if (bytes == 0 || bytes > sizeof text)
        return status_fail(VIC_NO_MEMORY, "describing the index needs memory and the system has no more");
    return section_write(writer, "meta", text, bytes);
}

static enum vic_status planes_write(struct file_writer *writer, const struct rows *rows) {
    uint64_t n = (uint64_t)rows->n;
    enum vic_status status = VIC_OK;
    for (int kind = 0; kind < PLANE_COUNT; kind++) {
        const struct plane *plane = &rows->planes[kind];
        if (!plane->codes) continue;
        TRY(section_write(writer, quantizers[kind]->codes_section, plane->codes, n * (uint64_t)plane->stride_bytes));
        TRY(section_write(writer, quantizers[kind]->scale_section, plane->scale, n * sizeof *plane->scale));
        TRY(section_write(writer, quantizers[kind]->error_section, plane->error, n * sizeof *plane->error));
    }
    if (rows->plane_norms) TRY(section_write(writer, "plane_norms", rows->plane_norms, n * sizeof *rows->plane_norms));
done:
    return status;
}

static enum vic_status graph_write(struct file_writer *writer, const struct graph *graph) {
    uint64_t slots = (uint64_t)graph->n * (uint64_t)graph->degree;
    enum vic_status status = section_write(writer, "graph", graph->neighbours, slots * sizeof *graph->neighbours);
    if (status != VIC_OK) return status;
    status = section_write(writer, "entry", graph->entries, (uint64_t)graph->entry_count * sizeof *graph->entries);
    return status == VIC_OK ? product_write(writer, graph) : status;
}

enum vic_status index_write_rest(struct file_writer *writer, const struct index_kind *kind, const struct corpus *corpus,
                                 const struct graph *graph) {
    const struct rows *rows = &corpus->rows;
    uint64_t n = (uint64_t)rows->n;
    enum vic_status status = VIC_OK;
    if (rows->norms) TRY(section_write(writer, "norms", rows->norms, n * sizeof *rows->norms));
    if (rows->ids) TRY(section_write(writer, "ids", rows->ids, n * sizeof *rows->ids));
    TRY(planes_write(writer, rows));
    if (graph) TRY(graph_write(writer, graph));
    if (corpus->texts.offsets) {
        TRY(section_write(writer, "text_offsets", corpus->texts.offsets, (n + 1) * sizeof *corpus->texts.offsets));
        TRY(section_write(writer, "texts", corpus->texts.bytes, corpus->texts_bytes));
    }
    if (!metadata_is_default(corpus)) TRY(section_write(writer, "metadata", corpus->metadata, strlen(corpus->metadata)));
    TRY(meta_write(writer, kind, corpus, graph));
    TRY(file_commit(writer));
done:
    return status;
}

static enum vic_status rows_write(struct file_writer *writer, const struct rows *rows, const struct vic_progress *hook) {
    uint64_t total = rows_bytes(rows), done = 0;
    struct progress progress = progress_start(hook, "writing", (int64_t)total);
    enum vic_status status = file_section(writer, "rows", total);
    if (status != VIC_OK) return status;
    do {
        uint64_t part = total - done < block_bytes ? total - done : block_bytes;
        status = file_append(writer, (const char *)rows->data + done, part);
        done += part;
        if (status == VIC_OK) status = progress_step(&progress, (int64_t)done);
    } while (status == VIC_OK && done < total);
    return status;
}

enum vic_status index_save(const struct vic_index *index, const char *path, const struct vic_progress *progress) {
    struct file_writer *writer = NULL;
    enum vic_status status = VIC_OK;
    TRY(file_create(path, &writer));
    TRY(rows_write(writer, &index->corpus.rows, progress));
    TRY(index_write_rest(writer, index->kind, &index->corpus, index->graph.neighbours ? &index->graph : NULL));
done:
    file_writer_free(writer);
    return status;
}

/* ---------------------------------------------------------------- opening */

struct meta {
    const struct index_kind *kind;
    enum vic_metric metric;
    enum vic_dtype dtype;
    int64_t n, dim, next_id;
    char library[32];   /* that wrote it */
    struct graph graph; /* what is said of one; the rest comes from its sections */
};

/* A section that is parsed whole: there, and as it was written. */
static enum vic_status section_trust(const struct file_map *map, const char *name, const char **text, uint64_t *bytes) {
    *text = file_map_find(map, name, bytes);
    for (int32_t i = 0; i < map->count; i++)
        if (strcmp(map->sections[i].name, name) == 0) return file_map_verify_section(map, &map->sections[i]);
    return VIC_OK;
}

static enum vic_status meta_number(const struct file_map *map, const json_t *meta, const char *key, int64_t least, int64_t most,
                                   int64_t *number) {
    const json_t *value = json_object_get(meta, key);
    if (!json_is_integer(value)) return status_fail(VIC_FORMAT, "%s: section meta has no whole number \"%s\"", map->path, key);
    *number = json_integer_value(value);
    if (*number >= least && *number <= most) return VIC_OK;
    return status_fail(VIC_FORMAT, "%s: expected \"%s\" in section meta from %" PRId64 " to %" PRId64 ", found %" PRId64,
                       map->path, key, least, most, *number);
}

static enum vic_status meta_text(const struct file_map *map, const json_t *meta, const char *key, const char **text) {
    *text = json_string_value(json_object_get(meta, key));
    return *text ? VIC_OK : status_fail(VIC_FORMAT, "%s: section meta has no text \"%s\"", map->path, key);
}

/* A name that a newer library may know. */
static enum vic_status meta_unknown(const struct file_map *map, const char *what, const char *name) {
    return status_fail(VIC_VERSION, "%s needs the %s \"%.64s\", which this library (%s) does not know", map->path, what, name,
                       vic_version());
}

static enum vic_status meta_names(const struct file_map *map, const json_t *object, struct meta *meta) {
    const char *kind = NULL, *metric = NULL, *dtype = NULL, *library = NULL;
    enum vic_status status = VIC_OK;
    TRY(meta_text(map, object, "kind", &kind));
    TRY(meta_text(map, object, "metric", &metric));
    TRY(meta_text(map, object, "dtype", &dtype));
    TRY(meta_text(map, object, "library", &library));
    (void)snprintf(meta->library, sizeof meta->library, "%s", library);
    for (const struct index_kind *const *known = index_kinds; *known; known++)
        if (strcmp((*known)->name, kind) == 0) meta->kind = *known;
    for (int known = 1; metric_valid((enum vic_metric)known); known++)
        if (strcmp(vic_metric_name((enum vic_metric)known), metric) == 0) meta->metric = (enum vic_metric)known;
    for (int known = 1; dtype_valid((enum vic_dtype)known); known++)
        if (strcmp(vic_dtype_name((enum vic_dtype)known), dtype) == 0) meta->dtype = (enum vic_dtype)known;
    if (!meta->kind) return meta_unknown(map, "index kind", kind);
    if (!meta->metric) return meta_unknown(map, "metric", metric);
    if (!meta->dtype) return meta_unknown(map, "element type", dtype);
done:
    return status;
}

static enum vic_status meta_read(const struct file_map *map, struct meta *meta) {
    const char *text = NULL;
    uint64_t bytes = 0;
    json_t *object = NULL;
    char what[sizeof map->path + 16];
    enum vic_status status = VIC_OK;
    memset(meta, 0, sizeof *meta);
    TRY(section_trust(map, "meta", &text, &bytes));
    if (!text) return status_fail(VIC_FORMAT, "%s: expected an index, found a container without a section meta", map->path);
    (void)snprintf(what, sizeof what, "%s: section meta", map->path);
    TRY(json_text_parse(text, bytes, what, VIC_FORMAT, &object));
    TRY(meta_names(map, object, meta));
    TRY(meta_number(map, object, "rows", 0, ROWS_MAX, &meta->n));
    TRY(meta_number(map, object, "dim", 1, DIM_MAX, &meta->dim));
    TRY(meta_number(map, object, "next_id", 0, INT64_MAX, &meta->next_id));
    meta->graph.n = meta->n;
    graph_meta_take(object, &meta->graph);
done:
    json_decref(object);
    return status;
}

enum vic_status section_sized(const struct file_map *map, const char *name, uint64_t bytes, const void **data) {
    uint64_t found = 0;
    *data = file_map_find(map, name, &found);
    if (!*data) return status_fail(VIC_FORMAT, "%s: expected a section %s, found none", map->path, name);
    if (found == bytes) return VIC_OK;
    return status_fail(VIC_FORMAT, "%s: expected %" PRIu64 " bytes in section %s, found %" PRIu64, map->path, bytes, name,
                       found);
}

static enum vic_status texts_map(const struct file_map *map, struct corpus *corpus) {
    uint64_t n = (uint64_t)corpus->rows.n, ignored = 0;
    const void *offsets = NULL;
    const char *bytes = file_map_find(map, "texts", &corpus->texts_bytes);
    if (!bytes && !file_map_find(map, "text_offsets", &ignored)) return VIC_OK;
    if (!bytes) return status_fail(VIC_FORMAT, "%s: has a section text_offsets but none named texts", map->path);
    enum vic_status status = section_sized(map, "text_offsets", (n + 1) * sizeof(int64_t), &offsets);
    if (status != VIC_OK) return status;
    corpus->texts = (struct vic_texts){bytes, offsets, corpus->rows.n};
    int64_t first = corpus->texts.offsets[0], last = corpus->texts.offsets[n];
    if (first == 0 && last >= 0 && (uint64_t)last == corpus->texts_bytes) return VIC_OK;
    return status_fail(VIC_FORMAT,
                       "%s: expected text_offsets from 0 to %" PRIu64 ", the bytes of texts, found %" PRId64 " to %" PRId64,
                       map->path, corpus->texts_bytes, first, last);
}

static enum vic_status metadata_map(const struct file_map *map, struct corpus *corpus) {
    const char *text = NULL;
    uint64_t bytes = 0;
    void *terminated = NULL;
    enum vic_status status = VIC_OK;
    TRY(section_trust(map, "metadata", &text, &bytes));
    if (!text) return corpus_set_metadata(corpus, NULL);
    TRY(mem_alloc(corpus->mem, bytes + 1, "the metadata", &terminated));
    memcpy(terminated, text, (size_t)bytes);
    ((char *)terminated)[bytes] = 0;
    if (memchr(text, 0, (size_t)bytes))
        status = status_fail(VIC_FORMAT, "%s: section metadata has a zero byte", map->path);
    else
        status = corpus_set_metadata(corpus, terminated);
    if (status == VIC_ARGUMENT) status = status_fail(VIC_FORMAT, "%s: section metadata is not a JSON object", map->path);
done:
    mem_free(corpus->mem, terminated, bytes + 1);
    return status;
}

/* Planes that the file has; integer rows have none. */
static enum vic_status planes_map(const struct file_map *map, struct rows *rows) {
    uint64_t n = (uint64_t)rows->n, ignored = 0;
    const void *codes = NULL, *scale = NULL, *error = NULL, *norms = NULL;
    enum vic_status status = VIC_OK;
    for (int kind = 0; kind < PLANE_COUNT && !dtype_is_integer(rows->dtype); kind++) {
        const struct quantizer *quantizer = quantizers[kind];
        int64_t stride = plane_stride((enum plane_kind)kind, rows->dim);
        if (!file_map_find(map, quantizer->codes_section, &ignored)) continue;
        TRY(section_sized(map, quantizer->codes_section, n * (uint64_t)stride, &codes));
        TRY(section_sized(map, quantizer->scale_section, n * sizeof(float), &scale));
        TRY(section_sized(map, quantizer->error_section, n * sizeof(float), &error));
        if (rows->metric != VIC_COSINE) TRY(section_sized(map, "plane_norms", n * sizeof(float), &norms));
        rows->planes[kind] = (struct plane){.codes = codes, .stride_bytes = stride, .scale = scale, .error = error};
        rows->plane_norms = norms;
    }
done:
    return status;
}

/* A corpus whose bytes lie in the map. On failure the caller frees what it has got so far. */
static enum vic_status corpus_map(const struct file_map *map, const struct meta *meta, struct mem *mem, struct corpus *corpus) {
    uint64_t n = (uint64_t)meta->n, ignored = 0;
    const void *rows = NULL, *norms = NULL, *ids = NULL;
    enum vic_status status = VIC_OK;
    *corpus = (struct corpus){.mem = mem, .next_id = meta->next_id};
    corpus->rows = (struct rows){.n = meta->n, .dim = meta->dim, .dtype = meta->dtype, .metric = meta->metric};
    TRY(section_sized(map, "rows", rows_bytes(&corpus->rows), &rows));
    if (meta->metric == VIC_COSINE) TRY(section_sized(map, "norms", n * sizeof(float), &norms));
    if (file_map_find(map, "ids", &ignored)) TRY(section_sized(map, "ids", n * sizeof(int64_t), &ids));
    corpus->rows.data = rows;
    corpus->rows.norms = norms;
    corpus->rows.ids = ids;
    TRY(planes_map(map, &corpus->rows));
    TRY(texts_map(map, corpus));
    TRY(metadata_map(map, corpus));
done:
    return status;
}

/* What a file's graph is; its points are made by whoever walks it. */
static enum vic_status graph_map(const struct file_map *map, const struct meta *meta, struct graph *graph) {
    uint64_t n = (uint64_t)meta->n, bytes = 0, entry_bytes = 0;
    *graph = meta->graph;
    graph->neighbours = file_map_find(map, "graph", &bytes);
    graph->entries = file_map_find(map, "entry", &entry_bytes);
    if (!graph->neighbours || !graph->entries)
        return status_fail(VIC_FORMAT, "%s: expected the sections graph and entry of an index of kind graph", map->path);
    uint64_t row_bytes = n > 0 ? bytes / n : sizeof(uint32_t);
    if (bytes != n * row_bytes || row_bytes % sizeof(uint32_t) || row_bytes == 0 ||
        row_bytes > GRAPH_DEGREE_MAX * sizeof(uint32_t))
        return status_fail(VIC_FORMAT,
                           "%s: expected section graph to have 1 to %d slots of 4 bytes for each of %" PRIu64
                           " rows, found %" PRIu64 " bytes",
                           map->path, GRAPH_DEGREE_MAX, n, bytes);
    graph->degree = (int64_t)(row_bytes / sizeof(uint32_t));
    graph->entry_count = (int64_t)(entry_bytes / sizeof(uint32_t));
    if (entry_bytes % sizeof(uint32_t) || graph->entry_count > GRAPH_ENTRIES_MAX || (n > 0 && entry_bytes == 0))
        return status_fail(VIC_FORMAT, "%s: expected section entry to have 1 to %d rows of 4 bytes, found %" PRIu64 " bytes",
                           map->path, GRAPH_ENTRIES_MAX, entry_bytes);
    return VIC_OK;
}

/* And its product codes, if it has any. On failure the caller frees what it has got so far. */
static enum vic_status graph_open(struct vic_device *device, const struct file_map *map, const struct meta *meta,
                                  const struct rows *rows, struct graph *graph) {
    struct product_parts parts = {0};
    enum vic_status status = graph_map(map, meta, graph);
    if (status == VIC_OK) status = product_map(map, rows, &parts);
    if (status != VIC_OK || !parts.codes) return status;
    return graph_product_take(device, &parts, map->path, graph);
}

/* ---------------------------------------------------------------- checking */

static enum vic_status ids_check(const struct corpus *corpus, const char *where) {
    const struct rows *rows = &corpus->rows;
    int64_t last = -1;
    for (int64_t i = 0; i < rows->n; i++) {
        int64_t id = rows_id(rows, i);
        if (id <= last)
            return status_fail(VIC_FORMAT, "%s: section ids: expected more than %" PRId64 " at row %" PRId64 ", found %" PRId64,
                               where, last, i, id);
        last = id;
    }
    if (corpus->next_id > last) return VIC_OK;
    return status_fail(VIC_FORMAT, "%s: section meta: expected next_id above the largest id %" PRId64 ", found %" PRId64, where,
                       last, corpus->next_id);
}

static enum vic_status texts_check(const struct corpus *corpus, const char *where) {
    const int64_t *offsets = corpus->texts.offsets;
    if (!offsets) return VIC_OK;
    int64_t last = 0;
    for (int64_t i = 0; i <= corpus->rows.n; i++) {
        bool edge = (i == 0 && offsets[i] != 0) || (i == corpus->rows.n && (uint64_t)offsets[i] != corpus->texts_bytes);
        if (edge || offsets[i] < last)
            return status_fail(VIC_FORMAT,
                               "%s: section text_offsets: expected offsets that rise from 0 to %" PRIu64 ", found %" PRId64
                               " after %" PRId64 " at entry %" PRId64,
                               where, corpus->texts_bytes, offsets[i], last, i);
        last = offsets[i];
    }
    return VIC_OK;
}

/* Rows [first, first + count): every element finite, every norm what ingest makes of the row. */
static enum vic_status rows_check_block(struct vic_device *device, const struct rows *rows, int64_t first, int64_t count,
                                        float *norms, const char *where) {
    int64_t stride_bytes = rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
    const struct vic_matrix source = {(void *)((uintptr_t)rows->data + (uintptr_t)(first * stride_bytes)),
                                      count,
                                      rows->dim,
                                      stride_bytes,
                                      rows->dtype,
                                      VIC_HOST};
    const struct ingest ingest = {
        .source = &source, .what = "row", .first = first, .dtype = rows->dtype, .norms = rows->norms ? norms : NULL};
    enum vic_status status = device->host_ops->ingest(device->host_backend, &ingest);
    if (status == VIC_NOT_FINITE) {
        struct status_note note;
        status_keep(&note, status);
        return status_fail(VIC_FORMAT, "%s: section rows: %.300s", where, note.sentence);
    }
    for (int64_t i = 0; status == VIC_OK && rows->norms && i < count; i++)
        if (float_bits(norms[i]) != float_bits(rows->norms[first + i]))
            status = status_fail(VIC_FORMAT, "%s: section norms: expected %.9g for row %" PRId64 ", found %.9g", where,
                                 (double)norms[i], first + i, (double)rows->norms[first + i]);
    return status;
}

static enum vic_status rows_check(struct vic_device *device, const struct rows *rows, const char *where,
                                  const struct vic_progress *hook) {
    struct progress progress = progress_start(hook, "checking rows", rows->n);
    int64_t each = block_rows(rows);
    void *norms = NULL;
    enum vic_status status = VIC_OK;
    TRY(mem_alloc_array(&device->host, (uint64_t)each, sizeof(float), "checking norms", &norms));
    for (int64_t first = 0; first < rows->n; first += each) {
        int64_t count = rows->n - first < each ? rows->n - first : each;
        TRY(rows_check_block(device, rows, first, count, norms, where));
        TRY(planes_verify(rows, first, count, where));
        TRY(progress_step(&progress, first + count));
    }
done:
    mem_free(&device->host, norms, (uint64_t)each * sizeof(float));
    return status;
}

static enum vic_status contents_check(struct vic_device *device, const struct corpus *corpus, const char *where,
                                      const struct vic_progress *progress) {
    enum vic_status status = ids_check(corpus, where);
    if (status == VIC_OK) status = texts_check(corpus, where);
    if (status == VIC_OK) status = rows_check(device, &corpus->rows, where, progress);
    return status;
}

enum vic_status index_check(const struct vic_index *index, const struct vic_progress *progress) {
    enum vic_status status = index->map.bytes ? file_map_verify(&index->map, progress) : VIC_OK;
    if (status != VIC_OK) return status;
    const char *where = index->map.bytes ? index->map.path : "the index";
    status = contents_check(index->device, &index->corpus, where, progress);
    if (status == VIC_OK && index->graph.neighbours) status = graph_check(&index->graph, &index->device->host, where, NULL);
    if (status == VIC_OK) status = graph_product_check(index->device, &index->corpus.rows, &index->graph, where, progress);
    return status;
}

/* A caller may say what a file says itself, but not something else. */
static enum vic_status meta_agrees(const struct file_map *map, const struct meta *meta,
                                   const struct vic_open_options *options) {
    if (options->metric && options->metric != meta->metric)
        return status_fail(VIC_ARGUMENT, "%s: expected options.metric 0 or %s, as the file says, found %s", map->path,
                           vic_metric_name(meta->metric), vic_metric_name(options->metric));
    if (options->dtype && options->dtype != meta->dtype)
        return status_fail(VIC_ARGUMENT, "%s: expected options.dtype 0 or %s, as the file says, found %s", map->path,
                           vic_dtype_name(meta->dtype), vic_dtype_name(options->dtype));
    return VIC_OK;
}

enum vic_status index_graph_report(const struct vic_index *index, struct vic_graph_report *report) {
    struct graph_report found;
    const struct graph *graph = &index->graph;
    if (!graph->neighbours) return status_fail(VIC_UNSUPPORTED, "expected an index with a graph, found one without");
    enum vic_status status = graph_check(graph, &index->device->host, index->map.bytes ? index->map.path : "the index", &found);
    if (status != VIC_OK && !(status == VIC_FORMAT && found.unreached > 0)) return status;
    report->rows = found.rows, report->edges = found.edges, report->symmetric = found.symmetric;
    report->unreached = found.unreached;
    report->degree = (int32_t)graph->degree, report->entries = (int32_t)graph->entry_count;
    report->least = (int32_t)found.least_degree, report->most = (int32_t)found.most_degree;
    int64_t bins = sizeof report->histogram / sizeof *report->histogram;
    for (int64_t d = 0; d <= graph->degree; d++) report->histogram[d * bins / (graph->degree + 1)] += found.histogram[d];
    return VIC_OK;
}

enum vic_status index_open(struct vic_device *device, const char *path, const struct vic_open_options *options,
                           struct vic_index **index) {
    struct file_map map = {0};
    struct corpus corpus = {0};
    struct meta meta;
    struct graph graph = {0};
    struct graph_options gain;
    bool gains = false;
    struct vic_index *made = NULL;
    enum vic_status status = file_map_open(path, &map);
    if (status == VIC_FORMAT && diskann_index_claimed(path)) return diskann_index_open(device, path, options, index);
    if (status != VIC_OK) return status;
    if (options->check) TRY(file_map_verify(&map, &options->progress));
    TRY(meta_read(&map, &meta));
    TRY(meta_agrees(&map, &meta, options));
    TRY(corpus_map(&map, &meta, &device->host, &corpus));
    TRY(graph_wanted(options->graph, meta.n, meta.dim, &gain, &gains));
    if (meta.kind == &graph_kind && !gains) TRY(graph_open(device, &map, &meta, &corpus.rows, &graph));
    if (options->check) TRY(contents_check(device, &corpus, map.path, &options->progress));
    if (options->check && graph.neighbours) TRY(graph_check(&graph, &device->host, map.path, NULL));
    if (options->check) TRY(graph_product_check(device, &corpus.rows, &graph, map.path, &options->progress));
    if (gains) TRY(graph_budget_check(device, &corpus.rows, &gain));
    if (!dtype_is_integer(meta.dtype)) {
        TRY(planes_alloc(&corpus, meta.dim, options->planes | (gains ? VIC_PLANES_8 : 0)));
        TRY(planes_code(device, &corpus, &corpus.rows, 0, NULL));
    }
    /* Takes corpus and map over. */
    TRY(index_assemble(device, gains ? &flat_kind : meta.kind, &corpus, &map, &options->progress, &made));
    if (graph.neighbours) TRY(index_take_graph(made, &graph));
    if (gains) TRY(index_gain_graph(made, &gain, &options->progress));
    *index = made, made = NULL;
done:
    index_free(made);
    graph_free(&graph);
    corpus_free(&corpus);
    file_map_close(&map);
    return status;
}

/* ---------------------------------------------------------------- describing */

static void info_fill(struct vic_file_info *info, const struct file_map *map, const struct meta *meta) {
    uint64_t ignored = 0;
    info->rows = meta->n;
    info->dim = meta->dim;
    info->dtype = meta->dtype;
    info->metric = meta->metric;
    (void)snprintf(info->element, sizeof info->element, "%s", vic_dtype_name(meta->dtype));
    (void)snprintf(info->note, sizeof info->note, "%s index, %s, %" PRId64 " rows of %" PRId64 " %s%s%s, written by vicinal %s",
                   meta->kind->name, vic_metric_name(meta->metric), meta->n, meta->dim, vic_dtype_name(meta->dtype),
                   file_map_find(map, "ids", &ignored) ? ", own ids" : "",
                   file_map_find(map, "texts", &ignored) ? ", texts" : "", meta->library);
}

enum vic_status index_file_info(const char *path, struct vic_file_info *info) {
    struct file_map map = {0};
    struct corpus corpus = {0};
    struct meta meta;
    enum vic_status status = VIC_OK;
    (void)snprintf(info->format, sizeof info->format, "vicinal");
    TRY(file_map_open(path, &map));
    info->bytes = map.size;
    info->version = map.version;
    info->section_count = map.count;
    for (int32_t i = 0; i < map.count; i++) {
        memcpy(info->sections[i].name, map.sections[i].name, sizeof info->sections[i].name);
        info->sections[i].offset = map.sections[i].offset;
        info->sections[i].bytes = map.sections[i].bytes;
    }
    TRY(meta_read(&map, &meta));
    TRY(corpus_map(&map, &meta, &mem_default, &corpus));
    if (meta.kind == &graph_kind) {
        TRY(graph_map(&map, &meta, &(struct graph){0}));
        TRY(product_map(&map, &corpus.rows, &(struct product_parts){0}));
    }
    info_fill(info, &map, &meta);
done:
    if (status == VIC_FORMAT || status == VIC_VERSION || status == VIC_CHECKSUM) {
        (void)snprintf(info->note, sizeof info->note, "%s", vic_last_error());
        status = VIC_OK;
    }
    corpus_free(&corpus);
    file_map_close(&map);
    return status;
}
