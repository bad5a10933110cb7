/* vicinal bench --graph: what a graph finds at rising beams, and how fast.
 *
 * At each beam all queries are asked at once; their hits are held against the truth, which refuses an id twice or out of
 * range, and their scores against those that the index gives for the same ids. Only then the same call is timed, and single
 * queries after it. */
#include "bench.h"
#include "input.h"
#include "measure.h"
#include "output.h"
#include "term.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BEAMS_MOST = 64, BEAM_MOST = 2048, BATCHES = 5 };

struct sweep {
    const struct bench_args *args;
    struct vic_device *device;
    struct vic_device_info device_info;
    struct vic_index *index;
    struct vic_index_info info;
    struct vic_matrix queries;
    struct vic_truth truth, found; /* found: arrays for all queries */
    float *scores;                 /* canonical ones of what was found */
    int64_t k;
    int32_t beams[BEAMS_MOST];
    int count;
};

/* What one beam showed. */
struct point {
    struct vic_search_stats stats;
    double recall, batch_seconds[BATCHES], p50_seconds;
};

/* ---- opening */

static bool beams_read(struct sweep *sweep, const char *text) {
    for (const char *at = text; at; sweep->count++) {
        char *end = NULL;
        long beam = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : 0;
        if (!end || (*end && *end != ',') || beam < 1 || beam > BEAM_MOST || sweep->count == BEAMS_MOST)
            return say_usage("--beam: expected at most %d whole numbers from 1 to %d with commas between, found \"%s\"",
                             BEAMS_MOST, BEAM_MOST, text),
                   false;
        sweep->beams[sweep->count] = (int32_t)beam;
        at = *end ? end + 1 : NULL;
    }
    return true;
}

static bool queries_open(struct sweep *sweep, const char *path) {
    struct input input = {.path = NULL};
    bool opened = false;
    if (!input_open(&input, sweep->device, path, &sweep->args->common, "test")) goto done;
    input.type = query_type(sweep->info.dtype, input.info.dtype);
    if (input.info.rows < 1 || input.info.dim != sweep->info.dim) {
        say("%s: expected queries of %s dimensions, found %s of %s", path, show_count(sweep->info.dim),
            show_count(input.info.rows), show_count(input.info.dim));
        goto done;
    }
    sweep->queries = (struct vic_matrix){.rows = input.info.rows, .dim = input.info.dim, .dtype = input.type};
    sweep->queries.data = memory_take((uint64_t)input.info.rows, input_row_bytes(&input));
    opened = sweep->queries.data && input_read(&input, 0, input.info.rows, sweep->queries.data);
done:
    input_close(&input);
    return opened;
}

static bool sweep_open(struct sweep *sweep, char *const *operands) {
    sweep->info.size = sizeof sweep->info, sweep->device_info.size = sizeof sweep->device_info;
    if (!device_from(&sweep->args->common, &sweep->device) ||
        !index_from(sweep->device, sweep->args->graph, planes_from(&sweep->args->common), &sweep->index))
        return false;
    TRY(vic_device_info(sweep->device, &sweep->device_info));
    TRY(vic_index_info(sweep->index, &sweep->info));
    if (!queries_open(sweep, operands[0])) return false;
    TRY(vic_truth_read(operands[1], &sweep->truth));
    int64_t nq = sweep->queries.rows;
    sweep->k = sweep->args->common.k;
    if (sweep->truth.nq != nq || sweep->truth.k < sweep->k) {
        say("%s: expected %s and more neighbours of %s queries, found %s of %s", operands[1], show_count(sweep->k),
            show_count(nq), show_count(sweep->truth.k), show_count(sweep->truth.nq));
        return false;
    }
    sweep->found = (struct vic_truth){.nq = nq, .k = sweep->k};
    sweep->found.ids = memory_take((uint64_t)(nq * sweep->k), sizeof *sweep->found.ids);
    sweep->found.distances = memory_take((uint64_t)(nq * sweep->k), sizeof *sweep->found.distances);
    sweep->scores = memory_take((uint64_t)(nq * sweep->k), sizeof *sweep->scores);
    return sweep->found.ids && sweep->found.distances && sweep->scores;
done:
    return false;
}

static void sweep_close(struct sweep *sweep) {
    free(sweep->scores);
    free(sweep->found.distances);
    free(sweep->found.ids);
    vic_truth_free(&sweep->truth);
    free(sweep->queries.data);
    vic_index_free(sweep->index);
    vic_device_free(sweep->device);
}

/* ---- one beam */

/* Queries [first, first + count); their hits go to their places. */
static bool ask(struct sweep *sweep, int32_t beam, int64_t first, int64_t count, struct vic_search_stats *stats,
                double *seconds) {
    const struct vic_search_options options = {.size = sizeof options,
                                               .path = VIC_PATH_GRAPH,
                                               .stats = stats,
                                               .beam = beam,
                                               .parents = (int32_t)sweep->args->parents,
                                               .codes = (enum vic_codes)sweep->args->codes};
    struct vic_matrix queries = sweep->queries;
    const struct vic_hits hits = {.ids = sweep->found.ids + first * sweep->k,
                                  .scores = sweep->found.distances + first * sweep->k};
    queries.data = (char *)queries.data + (size_t)first * (size_t)queries.dim * vic_dtype_bytes(queries.dtype);
    queries.rows = count;
    double began = seconds_now();
    TRY(vic_index_search(sweep->index, &queries, sweep->k, &options, &hits));
    *seconds = seconds_now() - began;
    return true;
done:
    return false;
}

static bool hits_verify(struct sweep *sweep, int32_t beam, struct point *point) {
    double ignored = 0;
    point->stats = (struct vic_search_stats){.size = sizeof point->stats};
    if (!ask(sweep, beam, 0, sweep->queries.rows, &point->stats, &ignored)) return false;
    if (point->stats.path != VIC_PATH_GRAPH) {
        say("a beam of %d at k = %s is beyond what a walk keeps: it was answered exactly", beam, show_count(sweep->k));
        return false;
    }
    TRY(vic_recall(&sweep->found, &sweep->truth, sweep->k, sweep->info.next_id, &point->recall));
    TRY(vic_index_score(sweep->index, &sweep->queries, sweep->found.ids, sweep->k, NULL, sweep->scores));
    if (memcmp(sweep->scores, sweep->found.distances, (size_t)(sweep->queries.rows * sweep->k) * sizeof(float)) == 0)
        return true;
    say("at beam %d a hit's score is not the one that the index gives for it: nothing was timed", beam);
done:
    return false;
}

static bool point_time(struct sweep *sweep, int32_t beam, struct point *point) {
    struct vic_search_stats stats = {.size = sizeof stats};
    const int64_t nq = sweep->queries.rows, singles = sweep->args->trials;
    double *seconds = memory_take((uint64_t)singles, sizeof *seconds), began = seconds_now();
    bool timed = false;
    if (!seconds) goto done;
    for (int i = 0; i < BATCHES; i++)
        if (!ask(sweep, beam, 0, nq, &stats, &point->batch_seconds[i]) || !progress_tick("all at once", i + 1, BATCHES, began))
            goto done;
    for (int64_t i = 0; i < singles; i++)
        if (!ask(sweep, beam, i % nq, 1, &stats, &seconds[i]) || !progress_tick("one by one", i + 1, singles, began)) goto done;
    sort_doubles(point->batch_seconds, BATCHES);
    sort_doubles(seconds, singles);
    point->p50_seconds = percentile(seconds, singles, 0.5);
    timed = true;
done:
    free(seconds);
    return timed;
}

/* ---- the report */

static double rounded(double value, double unit) { return round(value * unit) / unit; }

static bool point_json(const struct sweep *sweep, int32_t beam, const struct point *point) {
    const struct vic_index_info *info = &sweep->info;
    const double nq = (double)sweep->queries.rows;
    json_t *line =
        json_pack("{s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:i}", "record", "graph", "system", "vicinal",
                  "rows", (json_int_t)info->rows, "dim", (json_int_t)info->dim, "metric", vic_metric_name(info->metric),
                  "dtype", vic_dtype_name(info->dtype), "device", sweep->device_info.name, "kernels",
                  sweep->device_info.kernels, "threads", sweep->device_info.threads, "degree", info->degree, "k",
                  (json_int_t)sweep->k, "batch", (json_int_t)sweep->queries.rows, "beam", beam);
    json_t *rest = json_pack(
        "{s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b}", "codes", codes_name(point->stats.codes), "parents",
        point->stats.parents, "recall", rounded(point->recall, 1e6), "qps", rounded(nq / point->batch_seconds[BATCHES / 2], 10),
        "best_qps", rounded(nq / point->batch_seconds[0], 10), "one_p50_us", rounded(point->p50_seconds * 1e6, 1e3), "hops",
        rounded((double)point->stats.hops / nq, 1e3), "distances", rounded((double)point->stats.distances / nq, 1e3), "bytes",
        rounded((double)point->stats.bytes_read / nq, 1), "verified", 1);
    if (rest) (void)json_object_update(line, rest);
    json_decref(rest);
    return json_put(stdout, line);
}

static void point_words(const struct sweep *sweep, int32_t beam, const struct point *point) {
    const double nq = (double)sweep->queries.rows;
    printf("%5d  %8.4f  %11s  %10s  %7.1f  %9.1f  %10s\n", beam, point->recall,
           show_count((int64_t)(nq / point->batch_seconds[BATCHES / 2])), show_seconds(point->p50_seconds),
           (double)point->stats.hops / nq, (double)point->stats.distances / nq,
           show_bytes((uint64_t)((double)point->stats.bytes_read / nq)));
}

static void head_words(const struct sweep *sweep) {
    const struct vic_index_info *info = &sweep->info;
    printf("%s rows x %s %s, %s, a graph of %d neighbours a row, %s queries, %s (%s, %d threads)\n", show_count(info->rows),
           show_count(info->dim), vic_dtype_name(info->dtype), vic_metric_name(info->metric), info->degree,
           show_count(sweep->queries.rows), sweep->device_info.name, sweep->device_info.kernels, sweep->device_info.threads);
    printf(" beam  recall@%-3lld  queries/s  one query     hops  distances       bytes\n", (long long)sweep->k);
}

int bench_graph(const struct bench_args *args, char *const *operands) {
    struct sweep sweep = {.args = args};
    bool words = !args->common.json && isatty(STDOUT_FILENO);
    int code = FAILED;
    if (!beams_read(&sweep, args->beams)) return USAGE;
    if (!sweep_open(&sweep, operands)) goto done;
    if (words) head_words(&sweep);
    for (int i = 0; i < sweep.count; i++) {
        struct point point;
        if (!hits_verify(&sweep, sweep.beams[i], &point) || !point_time(&sweep, sweep.beams[i], &point)) goto done;
        if (words)
            point_words(&sweep, sweep.beams[i], &point);
        else if (!point_json(&sweep, sweep.beams[i], &point))
            goto done;
        (void)fflush(stdout);
    }
    code = DONE;
done:
    sweep_close(&sweep);
    return code;
}
