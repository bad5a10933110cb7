/* vicinal info: what a file is, from its bytes; for a file of no known kind, what it looks like. */
#include "command.h"
#include "output.h"
#include "term.h"

#include <math.h>
#include <string.h>

/* What only an opened index tells. */
struct inside {
    struct vic_device *device;
    struct vic_index *index;
    struct vic_index_info info;
};

static bool inside_open(struct inside *inside, const char *path) {
    const struct vic_device_options cpu = {.size = sizeof cpu, .name = "cpu", .threads = 1};
    inside->info.size = sizeof inside->info;
    TRY(vic_device_open(&cpu, &inside->device));
    TRY(vic_index_open(inside->device, path, NULL, &inside->index));
    TRY(vic_index_info(inside->index, &inside->info));
    return true;
done:
    return false;
}

/* Beside an index of DiskANN, which is not opened for that. */
static void beside_show(const struct vic_file_info *info) {
    if (!info->pq_chunks && !*info->pq_note) return;
    printf("  product   ");
    if (info->pq_chunks) printf("%d bytes a row of %d values each; ", info->pq_chunks, info->pq_centres);
    printf("%s\n", info->pq_note);
}

static void info_show(const char *path, const struct vic_file_info *info, const struct vic_index_info *index) {
    printf("%s\n  kind      %s", path, info->format);
    if (info->version) printf(" index (%s), format version %d", index->kind, info->version);
    printf("\n  size      %s (%s bytes)\n", show_bytes(info->bytes), show_count((int64_t)info->bytes));
    if (info->dim) printf("  shape     %s rows x %s\n", show_count(info->rows), show_count(info->dim));
    if (*info->element) printf("  type      %s\n", info->element);
    if (info->metric) printf("  metric    %s\n", vic_metric_name(info->metric));
    if (index->metadata) {
        printf("  ids       %s; the next one is %lld\n", index->has_ids ? "given" : "row numbers", (long long)index->next_id);
        printf("  texts     %s\n  metadata  ", index->has_texts ? "one a row" : "none");
        text_show(stdout, index->metadata, strlen(index->metadata), 0, false);
        printf("\n");
    }
    if (index->planes > VIC_PLANES_NONE)
        printf("  codes     %s%s%s\n", index->planes & VIC_PLANES_8 ? "8-bit" : "",
               index->planes == (VIC_PLANES_8 | VIC_PLANES_4) ? " and " : "", index->planes & VIC_PLANES_4 ? "4-bit" : "");
    if (index->degree) {
        printf("  graph     %d neighbours a row, %d entry points", index->degree, index->entries);
        if (*index->graph_builder) printf("; built by %s, %s rows tied in", index->graph_builder, show_count(index->repairs));
        if (index->graph_beam) printf(", beam=%d,alpha=%g", index->graph_beam, (double)index->graph_alpha);
        printf("\n");
    }
    if (index->pq_chunks)
        printf("  product   %d bytes a row of %d values each; mean squared error %.4g, largest %.4g\n", index->pq_chunks,
               index->pq_centres, index->pq_error, index->pq_error_largest);
    beside_show(info);
    for (int32_t i = 0; i < info->section_count; i++)
        printf("  section   %-10s %14s bytes at %s\n", info->sections[i].name, show_count((int64_t)info->sections[i].bytes),
               show_count((int64_t)info->sections[i].offset));
    if (*info->note) printf("  note      %s\n", info->note);
}

static json_t *sections_json(const struct vic_file_info *info) {
    json_t *sections = json_array();
    for (int32_t i = 0; i < info->section_count; i++)
        (void)json_array_append_new(sections, json_pack("{s:s, s:I, s:I}", "name", info->sections[i].name, "offset",
                                                        (json_int_t)info->sections[i].offset, "bytes",
                                                        (json_int_t)info->sections[i].bytes));
    return sections;
}

static json_t *info_json(const char *path, const struct vic_file_info *info, const struct vic_index_info *index) {
    json_t *object =
        json_pack("{s:o, s:s, s:I, s:I, s:I, s:s, s:s*, s:s}", "file", json_text(path, strlen(path)), "format", info->format,
                  "bytes", (json_int_t)info->bytes, "rows", (json_int_t)info->rows, "dim", (json_int_t)info->dim, "type",
                  info->element, "metric", info->metric ? vic_metric_name(info->metric) : NULL, "note", info->note);
    if (object && (info->pq_chunks || *info->pq_note))
        (void)json_object_set_new(
            object, "product",
            json_pack("{s:i, s:i, s:s}", "pq_chunks", info->pq_chunks, "pq_centres", info->pq_centres, "note", info->pq_note));
    if (!object || !index->metadata) return object;
    json_t *more =
        json_pack("{s:s, s:i, s:b, s:b, s:i, s:i, s:i, s:i, s:f, s:f, s:I, s:o, s:o}", "kind", index->kind, "version",
                  info->version, "ids", index->has_ids, "texts", index->has_texts, "planes", index->planes, "degree",
                  index->degree, "pq_chunks", index->pq_chunks, "pq_centres", index->pq_centres, "pq_error", index->pq_error,
                  "pq_error_largest", index->pq_error_largest, "next_id", (json_int_t)index->next_id, "metadata",
                  json_loads(index->metadata, 0, NULL), "sections", sections_json(info));
    (void)json_object_update(object, more);
    json_decref(more);
    if (index->degree && *index->graph_builder)
        (void)json_object_set_new(object, "graph",
                                  json_pack("{s:i, s:s, s:i, s:f, s:I}", "entries", index->entries, "builder",
                                            index->graph_builder, "beam", index->graph_beam, "alpha",
                                            round((double)index->graph_alpha * 1e6) / 1e6, "repairs",
                                            (json_int_t)index->repairs));
    return object;
}

static int info_run(const void *arguments, char *const *operands) {
    const struct common_args *args = arguments;
    int code = FAILED;
    struct vic_file_info info = {.size = sizeof info};
    struct inside inside = {.device = NULL};
    TRY(vic_file_info(operands[0], &info));
    code = strcmp(info.format, "vicinal") != 0 || inside_open(&inside, operands[0]) ? DONE : FAILED;
    if (!args->json)
        info_show(operands[0], &info, &inside.info);
    else if (!json_put(stdout, info_json(operands[0], &info, &inside.info)))
        code = FAILED;
done:
    vic_index_free(inside.index);
    vic_device_free(inside.device);
    return code;
}

const struct command info_command = {
    .name = "info",
    .line = "what a file is: kind, shape, type, sections",
    .operands = "FILE",
    .about = "Recognises a file by its bytes, whatever its name says: indexes, files of vectors, ground truth, texts. A "
             "file of no known kind is described by what it looks like.",
    .example = "vicinal info rows.vic\n"
               "vicinal info rows.fbin --json",
    .defaults = &(const struct common_args){.k = 0},
    .args_bytes = sizeof(struct common_args),
    .common = COMMON_JSON,
    .run = info_run,
};
