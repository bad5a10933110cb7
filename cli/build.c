/* vicinal build: a file of vectors becomes an index file, streamed, so that the rows need not fit in memory; or an index file
 * gains a graph. */
#include "input.h"
#include "term.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct build_args {
    struct common_args common;
    const char *output, *ids, *texts, *metadata, *graph;
};

static const struct option_row build_rows[] = {
    {"output", 'o', OPTION_TEXT, "INDEX", 0, 0, offsetof(struct build_args, output), NEEDED, "the index file to write"},
    {"ids", 0, OPTION_TEXT, "FILE", 0, 0, offsetof(struct build_args, ids), OPTIONAL,
     "ids of the rows, one a line (0, 1, 2 ...)"},
    {"texts", 0, OPTION_TEXT, "FILE", 0, 0, offsetof(struct build_args, texts), OPTIONAL, "texts of the rows, one a line"},
    {"metadata", 0, OPTION_TEXT, "JSON", 0, 0, offsetof(struct build_args, metadata), OPTIONAL,
     "a JSON object to keep with the index"},
    {"graph", 0, OPTION_TEXT, "NAME=N,...", 0, 0, offsetof(struct build_args, graph), OPTIONAL,
     "approximate search by a graph: degree=64,beam=100,alpha=1.1, any of them; force=1 for few rows too; pq=48: product codes "
     "of so many bytes a row beside it"},
    {.name = NULL},
};

/* What the command line names beside the rows, read. */
struct extras {
    int64_t *ids;
    struct vic_texts texts;
};

static bool extras_read(const struct build_args *args, int64_t rows, struct extras *extras) {
    int64_t count = rows;
    if (args->ids && !ids_read(args->ids, &extras->ids, &count)) return false;
    if (count != rows) {
        say("%s: expected an id for each of %s rows, found %s", args->ids, show_count(rows), show_count(count));
        return false;
    }
    TRY(args->texts ? vic_texts_read(args->texts, &extras->texts) : VIC_OK);
    return true;
done:
    return false;
}

/* What --graph takes, in any order, each once. */
enum { GRAPH_NAMES = 5 };
static const struct graph_name {
    const char *name;
    double low, high;
    bool whole;
} graph_names[GRAPH_NAMES] = {
    {"degree", 1, 512, true}, {"beam", 1, 1024, true}, {"alpha", 1, 2, false}, {"force", 0, 1, true}, {"pq", 1, 1024, true}};

static bool graph_item_read(const char *item, int length, double values[GRAPH_NAMES]) {
    size_t name = strcspn(item, "=,"), which = 0;
    while (which < GRAPH_NAMES && (strlen(graph_names[which].name) != name || memcmp(graph_names[which].name, item, name) != 0))
        which++;
    if (which == GRAPH_NAMES || item[name] != '=')
        return say_usage("--graph: expected degree=N, beam=N, alpha=X, pq=N or force=1 with commas between, found \"%.*s\"",
                         length, item),
               false;
    const struct graph_name *known = &graph_names[which];
    const char *text = item + name + 1;
    char *end = NULL;
    double value = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;
    if (end != item + length || value < known->low || value > known->high || (known->whole && value != (double)(int)value))
        return say_usage("--graph %.*s: expected %s from %g to %g", length, item, known->whole ? "a whole number" : "a number",
                         known->low, known->high),
               false;
    if (values[which] >= 0) return say_usage("--graph: %s is there twice", known->name), false;
    values[which] = value;
    return true;
}

/* "degree=64,beam=100,alpha=1.1,force=1,pq=48", each of them optional. */
static bool graph_read(const char *text, struct vic_graph_options *graph) {
    double values[GRAPH_NAMES] = {-1, -1, -1, -1, -1};
    for (const char *at = text; at && *text;) {
        size_t length = strcspn(at, ",");
        if (!graph_item_read(at, (int)length, values)) return false;
        at = at[length] ? at + length + 1 : NULL;
    }
    for (int i = 0; i < GRAPH_NAMES; i++)
        if (values[i] < 0) values[i] = 0; /* the library's default */
    *graph = (struct vic_graph_options){.size = sizeof *graph,
                                        .degree = (int32_t)values[0],
                                        .beam = (int32_t)values[1],
                                        .alpha = (float)values[2],
                                        .force = (int32_t)values[3],
                                        .pq_chunks = (int32_t)values[4]};
    return true;
}

/* What is needed, before anything is taken. rows_bytes: 0 where the rows stay in the file that they are in. */
static void plan_show(const struct vic_plan *plan, const struct vic_file_info *rows, uint64_t rows_bytes) {
    if (!progress_wanted()) return;
    (void)fprintf(stderr, "%s rows x %s: %s of rows, %s of codes, ", show_count(rows->rows), show_count(rows->dim),
                  show_bytes(rows_bytes), show_bytes(plan->code_bytes));
    if (plan->graph_bytes) (void)fprintf(stderr, "%s of graph, ", show_bytes(plan->graph_bytes));
    (void)fprintf(stderr, "%s beside them, %s to work in", show_bytes(plan->extra_bytes - plan->code_bytes - plan->graph_bytes),
                  show_bytes(plan->workspace_bytes));
    if (plan->build_bytes) (void)fprintf(stderr, " (%s of it while the graph is built)", show_bytes(plan->build_bytes));
    (void)fprintf(stderr, "; the file will have about %s\n", show_bytes(plan->file_bytes));
}

static bool built_show(const struct vic_index *index, const char *path, bool graph_wanted, double began) {
    struct vic_index_info info = {.size = sizeof info};
    struct vic_file_info file = {.size = sizeof file};
    TRY(vic_index_info(index, &info));
    TRY(vic_file_info(path, &file));
    printf("%s: %s rows x %s, %s, %s%s%s%s%s%s; %s, %s\n", path, show_count(info.rows), show_count(info.dim),
           vic_dtype_name(info.dtype), vic_metric_name(info.metric), info.has_ids ? ", ids" : "",
           info.has_texts ? ", texts" : "", info.planes & VIC_PLANES_8 ? ", 8-bit codes" : "",
           info.planes & VIC_PLANES_4 ? ", 4-bit codes" : "", info.degree ? ", graph" : "", show_bytes(file.bytes),
           show_seconds(seconds_now() - began));
    if (info.pq_chunks)
        printf("product codes of %d bytes a row: mean squared error %.4g, largest %.4g\n", info.pq_chunks, info.pq_error,
               info.pq_error_largest);
    if (info.repairs) printf("%s rows that no walk would have reached were tied in by hand\n", show_count(info.repairs));
    if (graph_wanted && !info.degree) printf("%s rows are too few for a graph; force=1 makes one\n", show_count(info.rows));
    return true;
done:
    return false;
}

static bool build_file(struct vic_device *device, const char *rows_path, const struct vic_file_info *rows,
                       const struct vic_build_options *options) {
    double began = seconds_now();
    struct vic_plan plan = {.size = sizeof plan};
    struct vic_index *index = NULL;
    bool built = false;
    TRY(vic_index_plan(device, rows->rows, rows->dim, options, &plan));
    plan_show(&plan, rows, plan.row_bytes);
    TRY(vic_index_build_file(device, rows_path, options, &index));
    built = built_show(index, options->path, options->graph != NULL, began);
done:
    vic_index_free(index);
    return built;
}

/* An index gains a graph. Its rows stay where they are until they are written to the new file. */
static bool graph_gain(struct vic_device *device, const char *index_path, const struct vic_file_info *rows,
                       const struct vic_build_options *options) {
    double began = seconds_now();
    struct vic_plan plan = {.size = sizeof plan};
    struct vic_index *index = NULL;
    const struct vic_open_options open = {
        .size = sizeof open, .planes = options->planes, .progress = options->progress, .graph = options->graph};
    const struct vic_save_options save = {.size = sizeof save, .progress = options->progress};
    bool built = false;
    TRY(vic_index_plan(device, rows->rows, rows->dim, options, &plan));
    plan_show(&plan, rows, 0);
    TRY(vic_index_open(device, index_path, &open, &index));
    TRY(vic_index_save(index, options->path, &save));
    built = built_show(index, options->path, true, began);
done:
    vic_index_free(index);
    return built;
}

/* Whether an index may be the operand: it can get a graph, and keeps all else. */
static int index_takes(const struct build_args *args, const char *path) {
    const struct common_args *common = &args->common;
    if (!args->graph) {
        say("%s is an index already; --graph gives it a graph, 'vicinal convert' takes its vectors out", path);
        return FAILED;
    }
    if (args->ids || args->texts || args->metadata || common->metric || common->type || common->read_type || common->dataset)
        return say_usage("an index keeps its ids, texts, metadata, metric and type");
    return DONE;
}

static int build_run(const void *arguments, char *const *operands) {
    const struct build_args *args = arguments;
    int code = FAILED;
    struct vic_device *device = NULL;
    struct input rows = {.path = NULL};
    struct extras extras = {.ids = NULL};
    struct vic_graph_options graph;
    if (args->graph && !graph_read(args->graph, &graph)) return USAGE;
    if (!device_from(&args->common, &device)) goto done;
    if (!input_open(&rows, device, operands[0], &args->common, "train")) goto done;
    const char *const read[] = {args->ids, args->texts, rows.index ? NULL : operands[0]};
    if (rows.index && (code = index_takes(args, operands[0])) != DONE) goto done;
    code = USAGE;
    if (!output_apart(args->output, read, sizeof read / sizeof *read)) goto done;
    code = FAILED;
    if (!extras_read(args, rows.info.rows, &extras)) goto done;
    const struct vic_reader_options reader = {
        .size = sizeof reader, .dtype = args->common.read_type, .dataset = args->common.dataset};
    const struct vic_build_options options = {
        .size = sizeof options,
        .metric = args->common.metric ? args->common.metric : rows.info.metric,
        .dtype = args->common.type ? args->common.type : rows.type,
        .ids = extras.ids,
        .texts = args->texts ? &extras.texts : NULL,
        .metadata = args->metadata,
        .path = args->output,
        .reader = &reader,
        .progress = progress_hook(),
        .planes = planes_from(&args->common),
        .graph = args->graph ? &graph : NULL,
    };
    bool (*build)(struct vic_device *, const char *, const struct vic_file_info *, const struct vic_build_options *) =
        rows.index ? graph_gain : build_file;
    if (build(device, operands[0], &rows.info, &options)) code = DONE;
done:
    vic_texts_free(&extras.texts);
    free(extras.ids);
    input_close(&rows);
    vic_device_free(device);
    return code;
}

const struct command build_command = {
    .name = "build",
    .line = "make an index of a file of vectors",
    .operands = "ROWS",
    .about =
        "ROWS is a file of vectors: fvecs, bvecs, fbin and its kin, npy, HDF5. The metric is cosine unless --metric "
        "or the file says another. Rows are stored in their own type unless --type says another: values are rounded "
        "to a narrower float and refused when they overflow; for an integer type they must be whole numbers in range. With "
        "--graph searches are approximate and look at a small part of the rows; a graph is built over 8-bit codes and brings "
        "them, whatever --planes says. ROWS may then be an index, which gains it, in place where -o names the same file.",
    .example = "vicinal build rows.fbin -o rows.vic --metric l2\n"
               "vicinal build rows.vic -o graph.vic --graph degree=32,force=1",
    .options = build_rows,
    .defaults = &(const struct build_args){.output = NULL},
    .args_bytes = sizeof(struct build_args),
    .common = COMMON_METRIC | COMMON_TYPE | COMMON_PLANES | COMMON_READ | COMMON_RUNS,
    .run = build_run,
};
