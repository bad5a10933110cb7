/* The public functions of device, index, filter and search: check arguments, resolve options, call the noun.
 *
 * Files, texts, truth and generation are defined where they live, in src/data. Every function here that computes sets the
 * default floating-point environment first and restores the caller's. */
#include "base/fpenv.h"
#include "base/options.h"
#include "data/reader.h"
#include "index/calibration.h"
#include "index/diskann.h"
#include "index/filter.h"
#include "quant/quantizer.h"

#include <stdio.h>
#include <string.h>

static enum vic_status argument_given(const void *argument, const char *name) {
    return argument ? VIC_OK : status_fail(VIC_ARGUMENT, "expected %s, found NULL", name);
}

/* ---- devices */

enum vic_status vic_device_open(const struct vic_device_options *options, struct vic_device **device) {
    struct vic_device_options resolved;
    enum vic_status status = argument_given(device, "a place for the device");
    if (status == VIC_OK) status = options_take(&resolved, sizeof resolved, options, "vic_device_options");
    if (status != VIC_OK) return status;
    if (resolved.threads < 0 || resolved.threads > 1024)
        return status_fail(VIC_ARGUMENT, "expected threads from 0 (all cores) to 1024, found %d", resolved.threads);
    if (!resolved.allocator.allocate != !resolved.allocator.release)
        return status_fail(VIC_ARGUMENT, "expected both allocator functions or neither, found one");
    status = device_open(&resolved, device);
    if (status == VIC_OK) calibration_load(*device);
    return status;
}

enum vic_status vic_device_info(const struct vic_device *device, struct vic_device_info *info) {
    struct vic_device_info filled;
    enum vic_status status = argument_given(device, "a device");
    if (status == VIC_OK) status = device_info(device, &filled);
    return status == VIC_OK ? options_give(info, &filled, sizeof filled, "vic_device_info") : status;
}

enum vic_status vic_device_list(struct vic_device_info *infos, int64_t capacity, int64_t *count) {
    enum vic_status status = argument_given(count, "a place for the count");
    if (status != VIC_OK) return status;
    if (capacity < 0 || (capacity > 0 && !infos))
        return status_fail(VIC_ARGUMENT, "expected an array for %lld devices", (long long)capacity);
    size_t stride = capacity > 0 ? infos[0].size : 0; /* the caller's struct, whose size may not be ours */
    int64_t found = 0;
    for (const struct backend_ops *const *ops = backend_list; *ops; ops++) {
        for (int ordinal = 0;; ordinal++) {
            struct vic_device_info info = {.size = sizeof info};
            if ((*ops)->describe(ordinal, &info) != VIC_OK) break;
            if (found < capacity)
                status = options_give((char *)infos + (size_t)found * stride, &info, sizeof info, "vic_device_info");
            if (status != VIC_OK) return status;
            found++;
        }
    }
    *count = found;
    return VIC_OK;
}

enum vic_status vic_device_calibrate(struct vic_device *device, const char *path, struct vic_calibration *result) {
    struct vic_calibration found = {.size = sizeof found};
    enum vic_status status = argument_given(device, "a device");
    if (status != VIC_OK) return status;
    fpenv caller = fpenv_enter();
    status = calibration_measure(device, &found.seconds);
    if (status == VIC_OK) status = calibration_save(device, path);
    fpenv_leave(caller);
    found.scan_bytes_s = device->costs.scan_bytes_s;
    found.plane_8_bytes_s = device->costs.plane_bytes_s[PLANE_8];
    found.plane_4_bytes_s = device->costs.plane_bytes_s[PLANE_4];
    found.rescore_cost = device->costs.rescore_cost;
    found.handover_us = device->costs.handover_us;
    return status == VIC_OK && result ? options_give(result, &found, sizeof found, "vic_calibration") : status;
}

void vic_device_free(struct vic_device *device) { device_free(device); }

/* ---- matrices */

/* Defaults filled in, shape and place checked. */
static enum vic_status matrix_resolve(const struct vic_matrix *given, const char *name, struct vic_matrix *matrix) {
    enum vic_status status = argument_given(given, name);
    if (status != VIC_OK) return status;
    *matrix = *given;
    if (matrix->dtype == 0) matrix->dtype = VIC_F32;
    if (matrix->place == 0) matrix->place = VIC_HOST;
    status = corpus_check_shape(0, matrix->dim, matrix->dtype, VIC_DOT);
    if (status != VIC_OK) return status;
    if (matrix->rows < 0)
        return status_fail(VIC_ARGUMENT, "expected at least 0 rows in %s, found %lld", name, (long long)matrix->rows);
    if (matrix->rows > 0 && !matrix->data)
        return status_fail(VIC_ARGUMENT, "expected data for %lld rows in %s, found NULL", (long long)matrix->rows, name);
    int64_t row_bytes = matrix->dim * (int64_t)vic_dtype_bytes(matrix->dtype), span = 0;
    if (matrix->stride_bytes == 0) matrix->stride_bytes = row_bytes;
    if (__builtin_mul_overflow(matrix->rows, matrix->stride_bytes, &span))
        return status_fail(VIC_ARGUMENT, "%s of %lld rows every %lld bytes is larger than memory", name,
                           (long long)matrix->rows, (long long)matrix->stride_bytes);
    if (matrix->place != VIC_HOST && matrix->place != VIC_DEVICE)
        return status_fail(VIC_ARGUMENT, "expected place 1 (host) or 2 (device) in %s, found %d", name, (int)matrix->place);
    return VIC_OK;
}

static enum vic_status host_only(enum vic_place place, const char *name) {
    if (place == 0 || place == VIC_HOST) return VIC_OK;
    return status_fail(VIC_ARGUMENT, "expected %s in host memory, found a device pointer", name);
}

/* ---- index */

/* Nothing said, none, or a set of planes. */
static enum vic_status planes_option_check(int32_t planes) {
    if (planes >= 0 && (planes <= VIC_PLANES_NONE || (planes & ~(VIC_PLANES_8 | VIC_PLANES_4)) == 0)) return VIC_OK;
    return status_fail(VIC_ARGUMENT, "expected planes 0 (open), %d (none) or a sum of %d and %d, found %d", VIC_PLANES_NONE,
                       VIC_PLANES_8, VIC_PLANES_4, planes);
}

static enum vic_status build_options_take(const struct vic_build_options *options, struct vic_build_options *resolved) {
    enum vic_status status = options_take(resolved, sizeof *resolved, options, "vic_build_options");
    if (status != VIC_OK) return status;
    if (resolved->metric && !metric_valid(resolved->metric))
        return status_fail(VIC_ARGUMENT, "expected a metric from 1 (dot) to 3 (l2), found %d", (int)resolved->metric);
    if (resolved->dtype && !dtype_valid(resolved->dtype))
        return status_fail(VIC_ARGUMENT, "expected a dtype from 1 (f32) to 5 (u8), found %d", (int)resolved->dtype);
    return planes_option_check(resolved->planes);
}

enum vic_status vic_index_plan(const struct vic_device *device, int64_t rows, int64_t dim,
                               const struct vic_build_options *options, struct vic_plan *plan) {
    struct vic_build_options resolved;
    struct vic_plan filled = {.size = sizeof filled};
    enum vic_status status = argument_given(device, "a device");
    if (status == VIC_OK) status = build_options_take(options, &resolved);
    if (status == VIC_OK) status = index_plan(device, rows, dim, &resolved, &filled);
    return status == VIC_OK ? options_give(plan, &filled, sizeof filled, "vic_plan") : status;
}

enum vic_status vic_index_build(struct vic_device *device, const struct vic_matrix *rows,
                                const struct vic_build_options *options, struct vic_index **index) {
    struct vic_build_options resolved;
    struct vic_matrix matrix;
    enum vic_status status = argument_given(device, "a device");
    if (status == VIC_OK) status = argument_given(index, "a place for the index");
    if (status == VIC_OK) status = build_options_take(options, &resolved);
    if (status == VIC_OK) status = matrix_resolve(rows, "rows", &matrix);
    if (status == VIC_OK) status = host_only(matrix.place, "rows");
    if (status != VIC_OK) return status;
    fpenv caller = fpenv_enter();
    status = index_build(device, &matrix, &resolved, index);
    fpenv_leave(caller);
    return status;
}

enum vic_status vic_index_build_file(struct vic_device *device, const char *rows_path, const struct vic_build_options *options,
                                     struct vic_index **index) {
    struct vic_build_options resolved;
    enum vic_status status = argument_given(device, "a device");
    if (status == VIC_OK) status = argument_given(rows_path, "the path of a vector file");
    if (status == VIC_OK) status = argument_given(index, "a place for the index");
    if (status == VIC_OK) status = build_options_take(options, &resolved);
    if (status != VIC_OK) return status;
    fpenv caller = fpenv_enter();
    status = index_build_file(device, rows_path, &resolved, index);
    fpenv_leave(caller);
    return status;
}

enum vic_status vic_index_open(struct vic_device *device, const char *path, const struct vic_open_options *options,
                               struct vic_index **index) {
    struct vic_open_options resolved;
    enum vic_status status = argument_given(device, "a device");
    if (status == VIC_OK) status = argument_given(path, "the path of an index file");
    if (status == VIC_OK) status = argument_given(index, "a place for the index");
    if (status == VIC_OK) status = options_take(&resolved, sizeof resolved, options, "vic_open_options");
    if (status == VIC_OK) status = planes_option_check(resolved.planes);
    if (status == VIC_OK && resolved.metric && !metric_valid(resolved.metric))
        status = status_fail(VIC_ARGUMENT, "expected options.metric to be 0 or a vic_metric, found %d", (int)resolved.metric);
    if (status == VIC_OK && resolved.dtype && !dtype_valid(resolved.dtype))
        status = status_fail(VIC_ARGUMENT, "expected options.dtype to be 0 or a vic_dtype, found %d", (int)resolved.dtype);
    if (status != VIC_OK) return status;
    fpenv caller = fpenv_enter();
    status = index_open(device, path, &resolved, index);
    fpenv_leave(caller);
    return status;
}

enum vic_status vic_index_save(const struct vic_index *index, const char *path, const struct vic_save_options *options) {
    struct vic_save_options resolved;
    enum vic_status status = argument_given(index, "an index");
    if (status == VIC_OK) status = argument_given(path, "the path to save to");
    if (status == VIC_OK) status = options_take(&resolved, sizeof resolved, options, "vic_save_options");
    if (status != VIC_OK) return status;
    if (!resolved.format) return index_save(index, path, &resolved.progress);
    fpenv caller = fpenv_enter();
    status = diskann_index_save(index, path, resolved.format, &resolved.progress);
    fpenv_leave(caller);
    return status;
}

/* Host memory that an index holds beside its mapping: rows, norms, ids and texts of its own, and the workspaces. */
static uint64_t index_host_bytes(const struct vic_index *index) {
    const struct corpus *corpus = &index->corpus;
    uint64_t n = (uint64_t)corpus->rows.n, bytes = sizeof *index + index->workspace_bytes;
    if (corpus->own_rows) bytes += rows_bytes(&corpus->rows);
    if (corpus->own_norms) bytes += n * sizeof(float);
    if (corpus->own_ids) bytes += n * sizeof(int64_t);
    if (corpus->own_offsets) bytes += (n + 1) * sizeof(int64_t);
    if (corpus->own_texts) bytes += corpus->texts_bytes;
    if (corpus->own_metadata) bytes += corpus->own_metadata_bytes;
    if (corpus->own_plane_norms) bytes += n * sizeof(float);
    for (int kind = 0; kind < PLANE_COUNT; kind++)
        if (corpus->own_planes[kind].codes) bytes += corpus->own_planes[kind].codes_bytes + 2 * n * sizeof(float);
    return bytes + graph_host_bytes(&index->graph);
}

enum vic_status vic_index_info(const struct vic_index *index, struct vic_index_info *info) {
    enum vic_status status = argument_given(index, "an index");
    if (status != VIC_OK) return status;
    const struct corpus *corpus = &index->corpus;
    struct vic_index_info filled = {
        .size = sizeof filled,
        .metric = corpus->rows.metric,
        .dtype = corpus->rows.dtype,
        .rows = corpus->rows.n,
        .dim = corpus->rows.dim,
        .next_id = corpus->next_id,
        .has_texts = corpus->texts.offsets != NULL,
        .has_ids = corpus->rows.ids != NULL,
        .host_bytes = index_host_bytes(index),
        .mapped_bytes = index->map.size,
        .device_bytes = index->device_bytes,
        .workspace_bytes = index->workspace_bytes,
        .metadata = corpus->metadata,
        .planes = planes_present(&corpus->rows) ? planes_present(&corpus->rows) : VIC_PLANES_NONE,
        .degree = (int32_t)index->graph.degree,
        .entries = (int32_t)index->graph.entry_count,
        .repairs = index->graph.repairs,
        .graph_beam = index->graph.origin.beam,
        .graph_alpha = index->graph.origin.alpha,
    };
    (void)snprintf(filled.graph_builder, sizeof filled.graph_builder, "%s", index->graph.origin.builder);
    const struct graph_product *product = index->graph.product;
    if (product) {
        filled.pq_chunks = (int32_t)product->pq.parts.chunks, filled.pq_centres = (int32_t)product->pq.parts.centres;
        filled.pq_error = product->error.mean, filled.pq_error_largest = product->error.largest;
    }
    (void)snprintf(filled.kind, sizeof filled.kind, "%s", index->kind->name);
    return options_give(info, &filled, sizeof filled, "vic_index_info");
}

enum vic_status vic_index_check(const struct vic_index *index, const struct vic_progress *progress) {
    enum vic_status status = argument_given(index, "an index");
    if (status != VIC_OK) return status;
    fpenv caller = fpenv_enter();
    status = index_check(index, progress);
    fpenv_leave(caller);
    return status;
}

enum vic_status vic_index_graph(const struct vic_index *index, struct vic_graph_report *report) {
    struct vic_graph_report filled = {.size = sizeof filled};
    enum vic_status status = argument_given(index, "an index");
    if (status == VIC_OK) status = index_graph_report(index, &filled);
    return status == VIC_OK ? options_give(report, &filled, sizeof filled, "vic_graph_report") : status;
}

/* The row of an id, or the sentence that there is none. */
static enum vic_status row_of(const struct vic_index *index, int64_t id, int64_t *row) {
    enum vic_status status = argument_given(index, "an index");
    if (status != VIC_OK) return status;
    *row = corpus_find(&index->corpus, id);
    return *row < 0 ? status_fail(VIC_NOT_FOUND, "the index has no row with id %lld", (long long)id) : VIC_OK;
}

enum vic_status vic_index_text(const struct vic_index *index, int64_t id, const char **text, size_t *bytes) {
    int64_t row = 0;
    enum vic_status status = row_of(index, id, &row);
    if (status == VIC_OK) status = argument_given(text, "a place for the text");
    if (status == VIC_OK) status = argument_given(bytes, "a place for its length");
    return status == VIC_OK ? corpus_text(&index->corpus, row, text, bytes) : status;
}

enum vic_status vic_index_vector(const struct vic_index *index, int64_t id, void *out) {
    int64_t row = 0;
    enum vic_status status = row_of(index, id, &row);
    if (status == VIC_OK) status = argument_given(out, "a place for the vector");
    if (status != VIC_OK) return status;
    const struct rows *rows = &index->corpus.rows;
    size_t row_bytes = (size_t)rows->dim * vic_dtype_bytes(rows->dtype);
    memcpy(out, (const char *)rows->data + (size_t)row * row_bytes, row_bytes);
    return VIC_OK;
}

enum vic_status vic_index_ids(const struct vic_index *index, int64_t first, int64_t count, int64_t *ids) {
    enum vic_status status = argument_given(index, "an index");
    if (status != VIC_OK) return status;
    int64_t n = index->corpus.rows.n;
    if (first < 0 || count < 0 || first > n || count > n - first)
        return status_fail(VIC_ARGUMENT, "expected rows within 0 to %lld, found %lld rows from row %lld", (long long)n,
                           (long long)count, (long long)first);
    if (count > 0) status = argument_given(ids, "a place for the ids");
    for (int64_t i = 0; status == VIC_OK && i < count; i++) ids[i] = rows_id(&index->corpus.rows, first + i);
    return status;
}

void vic_index_free(struct vic_index *index) { index_free(index); }

enum vic_status vic_file_info(const char *path, struct vic_file_info *info) {
    struct vic_file_info filled = {.size = sizeof filled};
    enum vic_status status = argument_given(path, "a path");
    if (status == VIC_OK) status = file_info_foreign(path, &filled);
    if (status == VIC_OK && strcmp(filled.format, "vicinal") == 0) status = index_file_info(path, &filled);
    return status == VIC_OK ? options_give(info, &filled, sizeof filled, "vic_file_info") : status;
}

/* ---- filter */

enum vic_status vic_filter_create(const struct vic_index *index, const int64_t *ids, int64_t count,
                                  const struct vic_filter_options *options, struct vic_filter **filter) {
    struct vic_filter_options resolved;
    enum vic_status status = argument_given(index, "an index");
    if (status == VIC_OK) status = argument_given(filter, "a place for the filter");
    if (status == VIC_OK && count < 0)
        status = status_fail(VIC_ARGUMENT, "expected at least 0 ids, found %lld", (long long)count);
    if (status == VIC_OK && count > 0) status = argument_given(ids, "ids");
    if (status == VIC_OK) status = options_take(&resolved, sizeof resolved, options, "vic_filter_options");
    return status == VIC_OK ? filter_create(index, ids, count, resolved.exclude != 0, filter) : status;
}

int64_t vic_filter_count(const struct vic_filter *filter) { return filter ? filter->count : 0; }

void vic_filter_free(struct vic_filter *filter) { filter_free(filter); }

/* ---- search */

/* What the three questions share: options, queries and the call for the index. */
struct question {
    struct vic_search_options options;
    struct vic_matrix queries;
    struct vic_search_stats stats;
    struct search_call call;
};

static enum vic_status question_options(const struct vic_index *index, const struct vic_search_options *options,
                                        struct question *question) {
    enum vic_status status = options_take(&question->options, sizeof question->options, options, "vic_search_options");
    if (status != VIC_OK) return status;
    if (question->options.stream && index->device->ops == &cpu_backend)
        return status_fail(VIC_ARGUMENT, "expected no stream on the CPU, found one");
    if (question->options.path < 0 || question->options.path > VIC_PATH_GRAPH)
        return status_fail(VIC_ARGUMENT, "expected a path from 0 (open) to %d (graph), found %d", (int)VIC_PATH_GRAPH,
                           (int)question->options.path);
    if (question->options.path == VIC_PATH_GRAPH && index->kind == &flat_kind)
        return status_fail(VIC_UNSUPPORTED, "expected an index with a graph for path graph, found a flat one");
    if (question->options.beam < 0)
        return status_fail(VIC_ARGUMENT, "expected a beam of at least 0, found %d", question->options.beam);
    if (question->options.parents < 0 || question->options.parents > GRAPH_PARENTS_MAX)
        return status_fail(VIC_ARGUMENT, "expected parents from 0 (open) to %d, found %d", GRAPH_PARENTS_MAX,
                           question->options.parents);
    if (question->options.codes < 0 || question->options.codes > VIC_CODES_PQ)
        return status_fail(VIC_ARGUMENT, "expected codes from 0 (open) to %d, found %d", (int)VIC_CODES_PQ,
                           (int)question->options.codes);
    if (question->options.filter && question->options.filter->index != index)
        return status_fail(VIC_ARGUMENT, "expected a filter made for this index, found another index's");
    return VIC_OK;
}

static enum vic_status question_start(const struct vic_index *index, const struct vic_matrix *queries,
                                      const struct vic_search_options *options, struct question *question) {
    enum vic_status status = argument_given(index, "an index");
    if (status == VIC_OK) status = question_options(index, options, question);
    if (status == VIC_OK) status = matrix_resolve(queries, "queries", &question->queries);
    if (status != VIC_OK) return status;
    if (index->device->ops == &cpu_backend) status = host_only(question->queries.place, "queries");
    if (status == VIC_OK && question->queries.dim != index->corpus.rows.dim)
        status = status_fail(VIC_DIMENSION, "expected queries of dimension %lld as the index has, found %lld",
                             (long long)index->corpus.rows.dim, (long long)question->queries.dim);
    const struct vic_filter *filter = question->options.filter;
    question->stats = (struct vic_search_stats){.size = sizeof question->stats};
    question->call = (struct search_call){
        .queries = &question->queries,
        .filter = filter ? filter->bits : NULL,
        .path = question->options.path,
        .stream = question->options.stream,
        .beam = question->options.beam,
        .parents = question->options.parents,
        .codes = question->options.codes,
        .stats = &question->stats,
    };
    return status;
}

static enum vic_status question_end(const struct question *question, enum vic_status status) {
    if (status != VIC_OK || !question->options.stats) return status;
    return options_give(question->options.stats, &question->stats, sizeof question->stats, "vic_search_stats");
}

/* nq * k slots of ids and scores must be something that can exist; a k of 2^62 must not wrap. They are the caller's memory:
 * what the machine has is the limit, not the device's budget. */
static enum vic_status slots_check(const struct vic_index *index, int64_t nq, int64_t k, const char *name) {
    uint64_t machine = index->device->info.host_bytes;
    if (k < 1) return status_fail(VIC_ARGUMENT, "expected %s of at least 1, found %lld", name, (long long)k);
    uint64_t slots = 0, bytes = 0;
    bool fits = checked_mul((uint64_t)(nq > 0 ? nq : 1), (uint64_t)k, &slots) && checked_mul(slots, 12, &bytes);
    if (!fits) bytes = UINT64_MAX;
    if (fits && (machine == 0 || bytes <= machine)) return VIC_OK;
    return status_fail(VIC_NO_MEMORY, "%s = %lld for %lld queries needs %s%llu bytes of ids and scores and %llu are available",
                       name, (long long)k, (long long)nq, fits ? "" : "more than ", (unsigned long long)bytes,
                       (unsigned long long)machine);
}

enum vic_status vic_index_search(const struct vic_index *index, const struct vic_matrix *queries, int64_t k,
                                 const struct vic_search_options *options, const struct vic_hits *hits) {
    struct question question;
    enum vic_status status = question_start(index, queries, options, &question);
    if (status == VIC_OK) status = slots_check(index, question.queries.rows, k, "k");
    if (status == VIC_OK) status = argument_given(hits, "hits");
    if (status == VIC_OK && index->device->ops == &cpu_backend) status = host_only(hits->place, "hits");
    if (status == VIC_OK && question.queries.rows > 0) status = argument_given(hits->ids, "hits.ids");
    if (status != VIC_OK) return status;
    question.call.k = k;
    if (question.queries.rows > 0) {
        fpenv caller = fpenv_enter();
        status = index->kind->search(index, &question.call, hits);
        fpenv_leave(caller);
    }
    return question_end(&question, status);
}

enum vic_status vic_index_within(const struct vic_index *index, const struct vic_matrix *queries, float score,
                                 const struct vic_search_options *options, const struct vic_ranges *ranges) {
    struct question question;
    enum vic_status status = question_start(index, queries, options, &question);
    if (status == VIC_OK) status = argument_given(ranges, "ranges");
    if (status == VIC_OK) status = argument_given(ranges->offsets, "ranges.offsets");
    if (status == VIC_OK && ranges->capacity < 0)
        status = status_fail(VIC_ARGUMENT, "expected ranges.capacity of at least 0, found %lld", (long long)ranges->capacity);
    if (status == VIC_OK && ranges->capacity > 0) status = argument_given(ranges->ids, "ranges.ids");
    /* by its bits: outside the guard a comparison could trap */
    bool nan = (float_bits(score) & 0x7fffffffu) > 0x7f800000u;
    if (status == VIC_OK && nan) status = status_fail(VIC_ARGUMENT, "expected a score to compare with, found NaN");
    if (status != VIC_OK) return status;
    fpenv caller = fpenv_enter();
    ranges->offsets[0] = 0;
    if (question.queries.rows > 0) status = index->kind->within(index, &question.call, score, ranges);
    fpenv_leave(caller);
    return question_end(&question, status);
}

enum vic_status vic_index_score(const struct vic_index *index, const struct vic_matrix *queries, const int64_t *ids,
                                int64_t count, const struct vic_search_options *options, float *scores) {
    struct question question;
    enum vic_status status = question_start(index, queries, options, &question);
    if (status == VIC_OK) status = slots_check(index, question.queries.rows, count, "count");
    if (status == VIC_OK) status = argument_given(ids, "ids");
    if (status == VIC_OK) status = argument_given(scores, "a place for the scores");
    if (status != VIC_OK) return status;
    question.call.k = count;
    fpenv caller = fpenv_enter();
    if (question.queries.rows > 0) status = index->kind->score(index, &question.call, ids, scores);
    fpenv_leave(caller);
    return question_end(&question, status);
}
