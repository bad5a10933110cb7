/* vicinal check: every checksum and every invariant of an index file. */
#include "input.h"
#include "term.h"

/* Degrees in sixteen bins, each with its share of the rows; bins without rows are left out. */
static void graph_show(const struct vic_graph_report *graph) {
    int64_t bins = sizeof graph->histogram / sizeof *graph->histogram, most = 1;
    printf("graph: %s edges, %d to %d a row, mean %.1f; %.1f %% go both ways; %s rows are reached from %d entry points\n",
           show_count(graph->edges), graph->least, graph->most, (double)graph->edges / (double)(graph->rows ? graph->rows : 1),
           100 * (double)graph->symmetric / (double)(graph->edges ? graph->edges : 1),
           show_count(graph->rows - graph->unreached), graph->entries);
    for (int64_t bin = 0; bin < bins; bin++)
        if (graph->histogram[bin] > most) most = graph->histogram[bin];
    for (int64_t bin = 0, span = graph->degree + 1; bin < bins; bin++) {
        int64_t low = (bin * span + bins - 1) / bins, high = ((bin + 1) * span + bins - 1) / bins - 1;
        int length = (int)((graph->histogram[bin] * 40 + most - 1) / most);
        if (graph->histogram[bin] == 0) continue;
        printf("  %3lld to %3lld  %12s  %.*s\n", (long long)low, (long long)high, show_count(graph->histogram[bin]), length,
               "########################################");
    }
}

static int check_run(const void *arguments, char *const *operands) {
    const struct common_args *args = arguments;
    int code = FAILED;
    double began = seconds_now();
    struct vic_device *device = NULL;
    struct vic_index *index = NULL;
    struct vic_index_info info = {.size = sizeof info};
    struct vic_graph_report graph = {.size = sizeof graph};
    const struct vic_progress progress = progress_hook();
    if (!device_from(args, &device) || !index_from(device, operands[0], 0, &index)) goto done;
    TRY(vic_index_check(index, &progress));
    TRY(vic_index_info(index, &info));
    TRY(info.degree ? vic_index_graph(index, &graph) : VIC_OK);
    printf("%s: whole; %s rows x %s, %s, %s, checked in %s\n", operands[0], show_count(info.rows), show_count(info.dim),
           vic_dtype_name(info.dtype), vic_metric_name(info.metric), show_seconds(seconds_now() - began));
    if (info.degree) graph_show(&graph);
    code = DONE;
done:
    vic_index_free(index);
    vic_device_free(device);
    return code;
}

const struct command check_command = {
    .name = "check",
    .line = "verify an index: checksums and invariants",
    .operands = "INDEX",
    .about =
        "Reads the whole file: all checksums, then ids sorted and unique, texts in order, rows finite, norms right, and every "
        "row of a graph reached; of a graph, how many neighbours its rows have. "
        "Exit code 1 and one sentence that names section and place when something is wrong.",
    .example = "vicinal check rows.vic",
    .defaults = &(const struct common_args){.k = 0},
    .args_bytes = sizeof(struct common_args),
    .common = COMMON_RUNS,
    .run = check_run,
};
