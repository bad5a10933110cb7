/* Rows in: from memory or from a file, into memory or straight into an index file.
 *
 * One loop serves all four: a source gives blocks of vectors, a sink takes them converted. The memory of the CPU backend
 * does conversion, check and norms. With a file as the sink only the norms, ids and texts are held (a few bytes a row),
 * and the index that comes back is that file, opened. */
#include "index/index.h"

#include "base/progress.h"
#include "index/planner.h"

#include <string.h>

/* Bytes of vectors a block: large enough that the pool is busy, small beside any budget. */
static const int64_t block_bytes = 8 << 20;

struct source {
    const struct vic_matrix *matrix; /* or */
    struct vic_reader *reader;
    void *block; /* reader's block */
    uint64_t block_bytes;
    int64_t n, dim, block_rows;
    enum vic_dtype dtype;
};

struct sink {
    struct corpus corpus; /* rows NULL when they go to a file */
    uint32_t *places;
    uint64_t places_bytes; /* the corpus, which knows n, is gone when these are freed */
    struct file_writer *writer;
    void *block; /* on its way to the file: norms, then rows at block_rows */
    char *block_rows;
    uint64_t block_bytes;
    int32_t planes; /* wanted; 0: not decided */
};

/* Defaults that depend on the rows. */
static void options_resolve(struct vic_build_options *options, enum vic_dtype dtype) {
    if (options->metric == 0) options->metric = VIC_COSINE;
    if (options->dtype == 0) options->dtype = dtype;
    if (dtype_is_integer(options->dtype)) options->planes = VIC_PLANES_NONE;
}

/* A graph is built over 8-bit codes, whatever the caller wants beside them; integer rows need none. */
static void options_add_codes(struct vic_build_options *options) {
    if (!dtype_is_integer(options->dtype)) options->planes = (options->planes & ~VIC_PLANES_NONE) | VIC_PLANES_8;
}

enum vic_status graph_wanted(const struct vic_graph_options *given, int64_t n, int64_t dim, struct graph_options *graph,
                             bool *wanted) {
    *wanted = false;
    if (!given) return VIC_OK;
    enum vic_status status = graph_options_take(given, graph);
    if (status != VIC_OK) return status;
    if (n > graph_rows_most)
        return status_fail(VIC_UNSUPPORTED, "expected at most %lld rows for a graph, found %lld", (long long)graph_rows_most,
                           (long long)n);
    *wanted = n > 0 && (n >= GRAPH_ROWS_LEAST || graph->force);
    return graph->pq_chunks ? pq_chunks_check(graph->pq_chunks, dim) : VIC_OK;
}

/* What a graph of n rows keeps, and what building it needs beside that; its product codes are made when it is done. */
static void graph_costs(const struct vic_device *device, int64_t n, int64_t dim, const struct graph_options *graph,
                        uint64_t *kept, uint64_t *work) {
    *kept = graph_bytes(n, graph) + graph_rooms_bytes(device, dim, graph->pq_chunks), *work = graph_build_bytes(n, graph);
    if (!graph->pq_chunks) return;
    int threads = thread_pool_size(device->host_ops->pool(device->host_backend));
    uint64_t codes_work = graph_product_build_bytes(n, dim, graph->pq_chunks, threads);
    *kept += graph_product_bytes(n, dim, graph->pq_chunks);
    if (codes_work > *work) *work = codes_work;
}

static uint64_t texts_bytes(const struct vic_texts *texts, int64_t n) {
    return texts && texts->offsets && texts->count == n && texts->offsets[n] > 0 ? (uint64_t)texts->offsets[n] : 0;
}

/* The backend's workspaces depend on whether there are planes. */
static void shape_planes(struct rows *shape, int32_t planes) {
    for (int kind = 0; kind < PLANE_COUNT; kind++)
        if (planes & (int32_t)quantizers[kind]->bit)
            shape->planes[kind].stride_bytes = plane_stride((enum plane_kind)kind, shape->dim);
}

enum vic_status index_plan(const struct vic_device *device, int64_t n, int64_t dim, const struct vic_build_options *given,
                           struct vic_plan *plan) {
    struct vic_build_options options = *given;
    options_resolve(&options, VIC_F32);
    enum vic_status status = corpus_check_shape(n, dim, options.dtype, options.metric);
    if (status != VIC_OK) return status;
    struct rows shape = {.n = n, .dim = dim, .dtype = options.dtype, .metric = options.metric};
    struct resident_plan resident;
    struct graph_options graph;
    bool with_graph = false;
    status = graph_wanted(options.graph, n, dim, &graph, &with_graph);
    if (status != VIC_OK) return status;
    if (with_graph) options_add_codes(&options);
    shape_planes(&shape, options.planes);
    status = device->ops->plan(device->backend, &shape, &resident);
    if (status != VIC_OK) return status;
    uint64_t rows = (uint64_t)n;
    plan->row_bytes = rows_bytes(&shape);
    plan->extra_bytes =
        planes_bytes(&shape, options.planes) + (options.metric == VIC_COSINE ? rows * 4 : 0) + (options.ids ? rows * 8 : 0);
    if (options.texts) plan->extra_bytes += (rows + 1) * 8 + texts_bytes(options.texts, n);
    plan->extra_bytes += sizeof(struct vic_index) + strlen(options.metadata ? options.metadata : "{}") + 1;
    plan->workspace_bytes = resident.workspace_bytes;
    plan->code_bytes = planes_bytes(&shape, options.planes);
    if (with_graph) {
        graph_costs(device, n, dim, &graph, &plan->graph_bytes, &plan->build_bytes);
        plan->graph_bytes += graph_points_bytes(&shape, options.planes);
    }
    plan->extra_bytes += plan->graph_bytes;
    plan->workspace_bytes += plan->build_bytes;
    plan->host_bytes = plan->row_bytes + plan->extra_bytes + plan->workspace_bytes;
    plan->device_bytes = resident.device_bytes;
    plan->file_bytes = plan->row_bytes + plan->extra_bytes + 32768; /* header, table, metadata and alignment */
    return VIC_OK;
}

/* ---- source */

/* Borrows the reader. */
static enum vic_status source_open_reader(struct vic_device *device, struct vic_reader *reader, struct source *source) {
    struct vic_file_info info = {.size = sizeof info};
    enum vic_status status = VIC_OK;
    source->reader = reader;
    TRY(vic_reader_info(source->reader, &info));
    source->n = info.rows, source->dim = info.dim, source->dtype = info.dtype;
    TRY(corpus_check_shape(source->n, source->dim, source->dtype, VIC_DOT));
    int64_t row_bytes = source->dim * (int64_t)vic_dtype_bytes(source->dtype);
    source->block_rows = block_bytes / row_bytes > 0 ? block_bytes / row_bytes : 1;
    if (source->block_rows > source->n) source->block_rows = source->n > 0 ? source->n : 1;
    source->block_bytes = (uint64_t)(source->block_rows * row_bytes);
    TRY(mem_alloc(&device->host, source->block_bytes, "a block of the file", &source->block));
done:
    return status;
}

static void source_open_matrix(const struct vic_matrix *matrix, struct source *source) {
    int64_t row_bytes = matrix->dim * (int64_t)vic_dtype_bytes(matrix->dtype);
    int64_t rows = block_bytes / row_bytes > 0 ? block_bytes / row_bytes : 1;
    *source =
        (struct source){.matrix = matrix, .n = matrix->rows, .dim = matrix->dim, .block_rows = rows, .dtype = matrix->dtype};
}

static enum vic_status source_block(struct source *source, int64_t first, int64_t count, struct vic_matrix *block) {
    if (source->matrix) {
        *block = *source->matrix;
        block->data = (char *)source->matrix->data + first * source->matrix->stride_bytes;
        block->rows = count;
        return VIC_OK;
    }
    *block = (struct vic_matrix){source->block, count,   source->dim, source->dim * (int64_t)vic_dtype_bytes(source->dtype),
                                 source->dtype, VIC_HOST};
    return vic_reader_read(source->reader, first, count, block);
}

static void source_close(struct vic_device *device, struct source *source) {
    mem_free(&device->host, source->block, source->block_bytes);
}

/* ---- the budget */

/* A sink's block: norms, then the converted vectors they are of, both aligned whatever a row's size. */
static uint64_t sink_norms_bytes(int64_t block_rows) { return round_up((uint64_t)block_rows * sizeof(float), 64); }
static uint64_t sink_block_bytes(const struct source *source, enum vic_dtype dtype) {
    return sink_norms_bytes(source->block_rows) + (uint64_t)source->block_rows * (uint64_t)source->dim * vic_dtype_bytes(dtype);
}

/* The budget is asked before the first byte is taken, so nothing is half-built when it does not allow for the rest. */
static enum vic_status plan_check(struct vic_device *device, const struct vic_build_options *options,
                                  const struct source *source) {
    struct vic_plan plan = {.size = sizeof plan};
    enum vic_status status = index_plan(device, source->n, source->dim, options, &plan);
    if (status != VIC_OK) return status;
    if (options->path) plan.host_bytes += sink_block_bytes(source, options->dtype) - plan.row_bytes;
    status = mem_check(&device->host, plan.host_bytes, "the index");
    if (status == VIC_OK && plan.device_bytes)
        status = mem_check(&device->device, plan.device_bytes, "the index on the device");
    return status;
}

/* ---- sink */

static enum vic_status sink_open(struct vic_device *device, const struct vic_build_options *options,
                                 const struct source *source, struct sink *sink) {
    enum vic_status status = VIC_OK;
    int64_t n = source->n, row_bytes = source->dim * (int64_t)vic_dtype_bytes(options->dtype);
    sink->places_bytes = (uint64_t)n * sizeof *sink->places;
    sink->planes = options->planes;
    if (options->ids) TRY(corpus_places(&device->host, options->ids, n, &sink->places));
    /* With a file the corpus is allocated without rows: dimension 0 makes their size nothing. */
    TRY(corpus_alloc(&device->host, n, options->path ? 0 : source->dim, options->dtype, options->metric, options->ids != NULL,
                     &sink->corpus));
    if (options->ids) {
        int64_t *ids = sink->corpus.own_ids;
        for (int64_t i = 0; i < n; i++) ids[sink->places ? sink->places[i] : i] = options->ids[i];
        if (n > 0 && ids[n - 1] == INT64_MAX)
            TRY(status_fail(VIC_ID, "expected ids below %lld, found that for a row", (long long)INT64_MAX));
        sink->corpus.next_id = n > 0 ? ids[n - 1] + 1 : 0;
    }
    if (options->texts) TRY(corpus_set_texts(&sink->corpus, options->texts, sink->places));
    TRY(corpus_set_metadata(&sink->corpus, options->metadata));
    if (!options->path) return VIC_OK;
    sink->block_bytes = sink_block_bytes(source, options->dtype);
    TRY(mem_alloc(&device->host, sink->block_bytes, "a block of rows", &sink->block));
    sink->block_rows = (char *)sink->block + sink_norms_bytes(source->block_rows);
    TRY(file_create(options->path, &sink->writer));
    TRY(file_section(sink->writer, "rows", (uint64_t)n * (uint64_t)row_bytes));
done:
    return status;
}

/* What only rows on their way in need: given back before the workspaces are taken, which are larger. */
static void sink_shrink(struct vic_device *device, struct sink *sink) {
    mem_free(&device->host, sink->block, sink->block_bytes);
    mem_free(&device->host, sink->places, sink->places_bytes);
    sink->block = NULL, sink->places = NULL;
}

static void sink_close(struct vic_device *device, struct sink *sink) {
    file_writer_free(sink->writer);
    sink_shrink(device, sink);
    corpus_free(&sink->corpus);
}

/* Planes that nobody asked for are taken only where the budget has room for them and for what is still to come. */
static enum vic_status sink_planes_choose(struct vic_device *device, struct sink *sink, const struct rows *block) {
    struct rows shape = *block;
    struct resident_plan resident;
    int32_t planes = 0;
    shape.n = sink->corpus.rows.n;
    enum vic_status status = planner_planes(device, block, shape.n, &planes);
    if (status == VIC_OK && planes) {
        shape_planes(&shape, planes);
        status = device->ops->plan(device->backend, &shape, &resident);
        if (status == VIC_OK)
            status = mem_check(&device->host,
                               planes_bytes(&shape, planes) + resident.workspace_bytes + sizeof(struct vic_index), "planes");
    }
    sink->planes = status == VIC_OK && planes ? planes : VIC_PLANES_NONE;
    return status == VIC_BUDGET ? VIC_OK : status;
}

/* Codes of rows that have just come in, `block` among n of them; at the first one it is decided which planes there are. */
static enum vic_status sink_code(struct vic_device *device, struct sink *sink, const struct rows *block, int64_t first) {
    enum vic_status status = VIC_OK;
    if (sink->planes == 0) TRY(sink_planes_choose(device, sink, block));
    if (first == 0) TRY(planes_alloc(&sink->corpus, block->dim, sink->planes));
    TRY(planes_code(device, &sink->corpus, block, first, sink->writer && sink->places ? sink->places + first : NULL));
done:
    return status;
}

/* A converted block into the file: in one piece when rows keep their order, else each row to its place. */
static enum vic_status sink_write_block(struct sink *sink, int64_t first, int64_t count, uint64_t row_bytes) {
    const float *block_norms = sink->block;
    float *norms = sink->corpus.own_norms;
    for (int64_t i = 0; norms && i < count; i++) norms[sink->places ? sink->places[first + i] : first + i] = block_norms[i];
    if (!sink->places) return file_append(sink->writer, sink->block_rows, (uint64_t)count * row_bytes);
    for (int64_t i = 0; i < count; i++) {
        enum vic_status status =
            file_put(sink->writer, sink->places[first + i] * row_bytes, sink->block_rows + (uint64_t)i * row_bytes, row_bytes);
        if (status != VIC_OK) return status;
    }
    return VIC_OK;
}

static enum vic_status sink_take(struct vic_device *device, struct sink *sink, const struct vic_matrix *block, int64_t first) {
    struct corpus *corpus = &sink->corpus;
    struct ingest ingest = {.source = block, .what = "row", .first = first, .dtype = corpus->rows.dtype};
    uint64_t row_bytes = (uint64_t)block->dim * vic_dtype_bytes(ingest.dtype);
    if (sink->writer) {
        ingest.rows = sink->block_rows;
        if (corpus->own_norms) ingest.norms = sink->block;
    } else if (sink->places) {
        ingest.rows = corpus->own_rows, ingest.norms = corpus->own_norms, ingest.places = sink->places + first;
    } else {
        ingest.rows = (char *)corpus->own_rows + (uint64_t)first * row_bytes;
        if (corpus->own_norms) ingest.norms = (float *)corpus->own_norms + first;
    }
    enum vic_status status = device->host_ops->ingest(device->host_backend, &ingest);
    if (status != VIC_OK || !sink->writer) return status;
    struct rows coded = corpus->rows;
    coded.data = sink->block_rows, coded.n = block->rows, coded.dim = block->dim, coded.norms = ingest.norms;
    status = sink_code(device, sink, &coded, first);
    return status == VIC_OK ? sink_write_block(sink, first, block->rows, row_bytes) : status;
}

/* Rows that are written into a file are past stopping when it is there: opening it reports nothing. */
static enum vic_status sink_finish(struct vic_device *device, struct sink *sink, const struct vic_build_options *options,
                                   const struct source *source, struct vic_index **index) {
    if (!sink->writer) {
        struct rows rows = sink->corpus.rows;
        enum vic_status coded = rows.n > 0 ? sink_code(device, sink, &rows, 0) : VIC_OK;
        sink_shrink(device, sink);
        return coded == VIC_OK ? index_assemble(device, &flat_kind, &sink->corpus, NULL, &options->progress, index) : coded;
    }
    sink->corpus.rows.dim = source->dim; /* what the metadata says; the rows themselves are written */
    enum vic_status status = index_write_rest(sink->writer, &flat_kind, &sink->corpus, NULL);
    sink->corpus.rows.dim = 0;
    if (status != VIC_OK) return status;
    file_writer_free(sink->writer);
    sink->writer = NULL;
    sink_shrink(device, sink);
    struct vic_open_options open = {.size = sizeof open};
    return index_open(device, options->path, &open, index);
}

/* ---- the loop */

static enum vic_status build(struct vic_device *device, struct source *source, struct vic_build_options *options,
                             struct vic_index **index) {
    struct sink sink = {0};
    enum vic_status status = VIC_OK;
    options_resolve(options, source->dtype);
    TRY(corpus_check_shape(source->n, source->dim, options->dtype, options->metric));
    TRY(plan_check(device, options, source));
    TRY(sink_open(device, options, source, &sink));
    struct progress progress = progress_start(&options->progress, "reading rows", source->n);
    for (int64_t first = 0; first < source->n; first += source->block_rows) {
        struct vic_matrix block;
        int64_t count = source->n - first < source->block_rows ? source->n - first : source->block_rows;
        TRY(source_block(source, first, count, &block));
        TRY(sink_take(device, &sink, &block, first));
        TRY(progress_step(&progress, first + count));
    }
    TRY(sink_finish(device, &sink, options, source, index));
done:
    sink_close(device, &sink);
    return status;
}

enum vic_status graph_budget_check(struct vic_device *device, const struct rows *rows, const struct graph_options *options) {
    int32_t planes = planes_present(rows), missing = dtype_is_integer(rows->dtype) ? 0 : VIC_PLANES_8 & ~planes;
    uint64_t kept, work, points = planes_bytes(rows, missing) + graph_points_bytes(rows, planes | missing);
    graph_costs(device, rows->n, rows->dim, options, &kept, &work);
    return mem_check(&device->host, points + kept + work, "a graph");
}

enum vic_status index_gain_graph(struct vic_index *index, const struct graph_options *options,
                                 const struct vic_progress *progress) {
    struct graph graph = {0};
    enum vic_status status = graph_build(index->device, &index->corpus, options, progress, &graph);
    if (status != VIC_OK) return status;
    graph.origin = (struct graph_origin){.builder = "vicinal 2", .beam = (int32_t)options->beam, .alpha = options->alpha};
    graph_points_settle(&graph);
    if (options->pq_chunks)
        status = graph_product_make(index->device, &index->corpus.rows, options->pq_chunks, progress, &graph);
    if (status == VIC_OK) return index_take_graph(index, &graph);
    graph_free(&graph);
    return status;
}

enum vic_status index_take_graph(struct vic_index *index, struct graph *graph) {
    index->graph = *graph;
    *graph = (struct graph){0};
    index->graph.mem = &index->device->host;
    index->kind = &graph_kind;
    enum vic_status status = VIC_OK;
    if (!index->graph.points.kind) status = graph_points_open(index->device, &index->corpus, false, &index->graph);
    return status == VIC_OK ? graph_rooms_make(index->device, &index->graph) : status;
}

/* A graph needs all rows at hand, so they are built into memory first; a path gets them when the graph is done. */
static enum vic_status build_with_graph(struct vic_device *device, struct source *source, const struct vic_build_options *given,
                                        struct vic_index **index) {
    struct vic_build_options options = *given;
    struct graph_options graph_options;
    struct vic_index *made = NULL;
    bool wanted = false;
    enum vic_status status = VIC_OK;
    options_resolve(&options, source->dtype);
    TRY(graph_wanted(options.graph, source->n, source->dim, &graph_options, &wanted));
    if (wanted) options_add_codes(&options), options.path = NULL;
    TRY(build(device, source, &options, &made));
    if (wanted) TRY(index_gain_graph(made, &graph_options, &options.progress));
    if (wanted && given->path) {
        const struct vic_open_options open = {.size = sizeof open};
        TRY(index_save(made, given->path, &options.progress));
        index_free(made);
        made = NULL;
        TRY(index_open(device, given->path, &open, &made));
    }
    *index = made, made = NULL;
done:
    index_free(made);
    return status;
}

enum vic_status index_build(struct vic_device *device, const struct vic_matrix *rows, const struct vic_build_options *given,
                            struct vic_index **index) {
    struct vic_build_options options = *given;
    struct source source;
    source_open_matrix(rows, &source);
    return build_with_graph(device, &source, &options, index);
}

enum vic_status index_build_reader(struct vic_device *device, struct vic_reader *reader, const struct vic_build_options *given,
                                   struct vic_index **index) {
    struct vic_build_options options = *given;
    struct source source = {0};
    enum vic_status status = source_open_reader(device, reader, &source);
    if (status == VIC_OK) status = build_with_graph(device, &source, &options, index);
    source_close(device, &source);
    return status;
}

enum vic_status index_build_file(struct vic_device *device, const char *rows_path, const struct vic_build_options *options,
                                 struct vic_index **index) {
    struct vic_reader *reader = NULL;
    enum vic_status status = vic_reader_open(rows_path, options->reader, &reader);
    if (status == VIC_OK) status = index_build_reader(device, reader, options, index);
    vic_reader_close(reader);
    return status;
}

enum vic_status index_assemble(struct vic_device *device, const struct index_kind *kind, struct corpus *corpus,
                               struct file_map *map, const struct vic_progress *progress, struct vic_index **index) {
    void *memory = NULL;
    struct resident *resident = NULL;
    struct resident_plan plan;
    struct mapped mapped = {.file = -1};
    enum vic_status status = VIC_OK;
    if (map) mapped = file_map_mapped(map);
    TRY(device->ops->plan(device->backend, &corpus->rows, &plan));
    TRY(mem_alloc(&device->host, sizeof(struct vic_index), "the index", &memory));
    TRY(device->ops->attach(device->backend, &corpus->rows, map ? &mapped : NULL, progress, &resident));
    struct vic_index *made = memory;
    *made = (struct vic_index){.device = device,
                               .kind = kind,
                               .corpus = *corpus,
                               .resident = resident,
                               .workspace_bytes = plan.workspace_bytes,
                               .device_bytes = plan.device_bytes};
    if (map) made->map = *map, *map = (struct file_map){0};
    file_map_settle(&made->map);
    *corpus = (struct corpus){0};
    *index = made;
    return VIC_OK;
done:
    mem_free(&device->host, memory, sizeof(struct vic_index));
    return status;
}

void index_free(struct vic_index *index) {
    if (!index) return;
    struct vic_device *device = index->device;
    device->ops->detach(index->resident);
    graph_free(&index->graph);
    corpus_free(&index->corpus);
    file_map_close(&index->map);
    mem_free(&device->host, index, sizeof *index);
}
