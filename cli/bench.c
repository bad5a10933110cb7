/* vicinal bench: how long a search takes. Nothing is timed before ids and scores equal the reference's, and the roof, a
 * plain read of as many bytes by as many threads, is measured in the same run. */
#include "bench.h"
#include "measure.h"
#include "output.h"
#include "reference.h"
#include "input.h"
#include "term.h"

#include <math.h>
#include <stdlib.h>

static const struct option_row bench_rows[] = {
    {"n", 'n', OPTION_INT, "N", 1, 4294967294, offsetof(struct bench_args, rows), OPTIONAL, "rows to make (100000)"},
    {"d", 'd', OPTION_INT, "N", 1, 65536, offsetof(struct bench_args, dim), OPTIONAL, "their dimensions (384)"},
    {"trials", 0, OPTION_INT, "N", 1, 1 << 24, offsetof(struct bench_args, trials), OPTIONAL, "searches to time (200)"},
    {"warmup", 0, OPTION_INT, "N", 0, 1 << 24, offsetof(struct bench_args, warmup), OPTIONAL, "searches before them (20)"},
    {"seed", 0, OPTION_INT, "N", 0, INT64_MAX, offsetof(struct bench_args, seed), OPTIONAL, "of the data (1)"},
    {"batch", 0, OPTION_INT, "N", 1, 1 << 20, offsetof(struct bench_args, batch), OPTIONAL, "queries a search (1)"},
    {"index", 0, OPTION_TEXT, "INDEX", 0, 0, offsetof(struct bench_args, index), OPTIONAL,
     "search this index, in place of made data"},
    {"queries", 0, OPTION_TEXT, "FILE", 0, 0, offsetof(struct bench_args, queries), OPTIONAL, "with these queries"},
    {"graph", 0, OPTION_TEXT, "INDEX", 0, 0, offsetof(struct bench_args, graph), OPTIONAL,
     "what this index's graph finds of TRUTH for QUERIES, a line a beam"},
    {"beam", 0, OPTION_TEXT, "N,...", 0, 0, offsetof(struct bench_args, beams), OPTIONAL,
     "at these beams (10,16,24,32,48,64,96,128,192,256)"},
    {"codes", 0, OPTION_CHOICE, "auto|rows|8|4", 0, 0, offsetof(struct bench_args, codes), OPTIONAL, "over these (8)"},
    {"parents", 0, OPTION_INT, "N", 0, 8, offsetof(struct bench_args, parents), OPTIONAL, "rows expanded at once (1)"},
    {.name = NULL},
};

enum { QUERIES_LEAST = 64, VERIFIED = 3 };

struct bench_job {
    const struct bench_args *args;
    struct vic_device *device;
    struct vic_device_info device_info;
    struct vic_index *index;
    struct vic_index_info info;
    struct vic_matrix queries; /* a whole number of batches, used in turn */
    int64_t k;
    struct vic_hits hits; /* of one batch */
    double *seconds, total_seconds;
    int64_t bytes_read; /* by all timed searches */
    enum vic_path path;
};

/* ---- what is searched */

static bool rows_generate(struct bench_job *job) {
    const struct bench_args *args = job->args;
    const struct vic_generate_options data = {.size = sizeof data, .seed = (uint64_t)args->seed};
    const struct vic_build_options options = {.size = sizeof options,
                                              .metric = args->common.metric,
                                              .planes = planes_from(&args->common),
                                              .progress = progress_hook()};
    struct vic_matrix rows = {.rows = args->rows, .dim = args->dim, .dtype = args->common.type};
    bool made = false;
    if (!(rows.data = memory_take((uint64_t)rows.rows, (size_t)rows.dim * vic_dtype_bytes(rows.dtype)))) goto done;
    TRY(vic_generate(&data, 0, job->device_info.threads, &rows));
    TRY(vic_index_build(job->device, &rows, &options, &job->index));
    made = true;
done:
    free(rows.data);
    return made;
}

static bool queries_take(struct bench_job *job, enum vic_dtype dtype) {
    const int64_t batch = job->args->batch, batches = (QUERIES_LEAST + batch - 1) / batch;
    job->queries = (struct vic_matrix){.rows = batch * batches, .dim = job->info.dim, .dtype = dtype};
    job->queries.data = memory_take((uint64_t)job->queries.rows, (size_t)job->info.dim * vic_dtype_bytes(dtype));
    return job->queries.data != NULL;
}

static bool queries_generate(struct bench_job *job) {
    const struct vic_generate_options data = {.size = sizeof data, .seed = (uint64_t)job->args->seed};
    if (!queries_take(job, query_type(job->info.dtype, job->info.dtype))) return false;
    TRY(vic_generate(&data, job->info.rows, job->device_info.threads, &job->queries));
    return true;
done:
    return false;
}

/* The file's queries, over and over until the batches are full. */
static bool queries_read(struct bench_job *job) {
    struct input input = {.path = NULL};
    bool taken = false;
    if (!input_open(&input, job->device, job->args->queries, &job->args->common, "test")) goto done;
    input.type = query_type(job->info.dtype, input.info.dtype);
    if (input.info.dim != job->info.dim || input.info.rows < 1) {
        say("%s: expected queries of %s dimensions, found %s of %s", input.path, show_count(job->info.dim),
            show_count(input.info.rows), show_count(input.info.dim));
        goto done;
    }
    if (!queries_take(job, input.type)) goto done;
    for (int64_t at = 0; at < job->queries.rows;) {
        int64_t left = job->queries.rows - at, count = left < input.info.rows ? left : input.info.rows;
        if (!input_read(&input, 0, count, (char *)job->queries.data + (size_t)at * input_row_bytes(&input))) goto done;
        at += count;
    }
    taken = true;
done:
    input_close(&input);
    return taken;
}

static bool job_open(struct bench_job *job) {
    const struct bench_args *args = job->args;
    job->device_info.size = sizeof job->device_info;
    job->info.size = sizeof job->info;
    if (!device_from(&args->common, &job->device)) return false;
    TRY(vic_device_info(job->device, &job->device_info));
    if (!(args->index ? index_from(job->device, args->index, planes_from(&args->common), &job->index) : rows_generate(job)))
        return false;
    TRY(vic_index_info(job->index, &job->info));
    if (!(args->queries ? queries_read(job) : queries_generate(job))) return false;
    job->k = args->common.k < job->info.rows ? args->common.k : job->info.rows;
    job->hits.ids = memory_take((uint64_t)args->batch * (uint64_t)job->k, sizeof *job->hits.ids);
    job->hits.scores = memory_take((uint64_t)args->batch * (uint64_t)job->k, sizeof *job->hits.scores);
    job->seconds = memory_take((uint64_t)args->trials, sizeof *job->seconds);
    return job->hits.ids && job->hits.scores && job->seconds;
done:
    return false;
}

/* ---- searching */

static bool trial_run(struct bench_job *job, int64_t trial, double *seconds) {
    const int64_t batch = job->args->batch, first = trial * batch % job->queries.rows;
    struct vic_search_stats stats = {.size = sizeof stats};
    const struct vic_search_options options = {.size = sizeof options, .stats = &stats};
    struct vic_matrix queries = job->queries;
    queries.data = (char *)queries.data + (size_t)first * (size_t)queries.dim * vic_dtype_bytes(queries.dtype);
    queries.rows = batch;
    double began = seconds_now();
    TRY(vic_index_search(job->index, &queries, job->k, &options, &job->hits));
    *seconds = seconds_now() - began;
    job->bytes_read += stats.bytes_read;
    job->path = stats.path;
    return true;
done:
    return false;
}

static bool job_verify(struct bench_job *job) {
    double seconds = 0;
    struct vic_matrix queries = job->queries;
    queries.rows = job->args->batch < VERIFIED ? job->args->batch : VERIFIED;
    for (int64_t trial = 0; trial * queries.rows < VERIFIED; trial++) {
        size_t row_bytes = (size_t)queries.dim * vic_dtype_bytes(queries.dtype);
        queries.data = (char *)job->queries.data + (size_t)(trial * job->args->batch % job->queries.rows) * row_bytes;
        if (!trial_run(job, trial, &seconds)) return false;
        if (!reference_agrees(job->index, &queries, job->k, job->device_info.threads, &job->hits)) return false;
        if (!progress_tick("comparing with the reference", (trial + 1) * queries.rows, VERIFIED, seconds_now())) return false;
    }
    return true;
}

static bool job_time(struct bench_job *job) {
    double began = seconds_now(), ignored = 0;
    for (int64_t i = 0; i < job->args->warmup; i++)
        if (!trial_run(job, i, &ignored) || !progress_tick("warming up", i + 1, job->args->warmup, began)) return false;
    began = seconds_now();
    job->bytes_read = 0;
    for (int64_t i = 0; i < job->args->trials; i++) {
        if (!trial_run(job, i, &job->seconds[i])) return false;
        job->total_seconds += job->seconds[i];
        if (!progress_tick("timing", i + 1, job->args->trials, began)) return false;
    }
    sort_doubles(job->seconds, job->args->trials);
    return true;
}

/* ---- the report */

static const struct {
    const char *name, *field;
    double share;
} percentiles[] = {
    {"p50", "p50_us", 0.5}, {"p90", "p90_us", 0.9}, {"p99", "p99_us", 0.99}, {"p99.9", "p999_us", 0.999}, {"max", "max_us", 1}};
enum { PERCENTILES = sizeof percentiles / sizeof *percentiles };

static double job_percentile(const struct bench_job *job, int i) {
    return percentile(job->seconds, job->args->trials, percentiles[i].share);
}

static bool report_json(const struct bench_job *job, double gbps, double roof) {
    const struct vic_index_info *info = &job->info;
    json_t *line = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:i}", "record", "exact", "system",
                             "vicinal", "rows", (json_int_t)info->rows, "dim", (json_int_t)info->dim, "k", (json_int_t)job->k,
                             "batch", (json_int_t)job->args->batch, "metric", vic_metric_name(info->metric), "dtype",
                             vic_dtype_name(info->dtype), "device", job->device_info.name, "kernels", job->device_info.kernels,
                             "path", path_name(job->path), "threads", job->device_info.threads);
    for (int i = 0; i < PERCENTILES; i++)
        (void)json_object_set_new(line, percentiles[i].field, json_number(round(job_percentile(job, i) * 1e9) / 1e3));
    json_t *rest = json_pack("{s:I, s:f, s:f, s:f, s:f, s:b}", "repeats", (json_int_t)job->args->trials, "qps",
                             (double)(job->args->trials * job->args->batch) / job->total_seconds, "gbps", gbps,
                             "plain_read_gbps", roof, "share_of_plain_read", gbps / roof, "verified", 1);
    (void)json_object_update(line, rest);
    json_decref(rest);
    return json_put(stdout, line);
}

static void report_words(const struct bench_job *job, double gbps, double roof) {
    const struct vic_index_info *info = &job->info;
    printf("%s rows x %s %s, %s, k %s, %s %s a search, %s (%s, %d threads, %s)\n", show_count(info->rows),
           show_count(info->dim), vic_dtype_name(info->dtype), vic_metric_name(info->metric), show_count(job->k),
           show_count(job->args->batch), job->args->batch == 1 ? "query" : "queries", job->device_info.name,
           job->device_info.kernels, job->device_info.threads, path_name(job->path));
    printf("ids and scores of %d queries equal the reference's\n", VERIFIED);
    for (int i = 0; i < PERCENTILES; i++) printf("  %-10s %s\n", percentiles[i].name, show_seconds(job_percentile(job, i)));
    printf("  %-10s %s queries/s\n  %-10s %.1f GB/s of rows, %.0f %% of a plain read (%.1f GB/s)\n", "rate",
           show_count((int64_t)((double)(job->args->trials * job->args->batch) / job->total_seconds)), "memory", gbps,
           100 * gbps / roof, roof);
}

static bool job_report(const struct bench_job *job) {
    double gbps = (double)job->bytes_read / (double)job->args->trials / job_percentile(job, 0) * 1e-9;
    double roof = plain_read_gbps(job->device_info.threads,
                                  (uint64_t)job->info.rows * (uint64_t)job->info.dim * vic_dtype_bytes(job->info.dtype));
    if (roof <= 0) return false;
    if (job->args->common.json) return report_json(job, gbps, roof);
    report_words(job, gbps, roof);
    return true;
}

static int bench_run(const void *arguments, char *const *operands) {
    struct bench_job job = {.args = arguments};
    if (!operands[0] != !job.args->graph) return say_usage("QUERIES and TRUTH go with --graph INDEX, and it with them");
    if (job.args->graph) return bench_graph(job.args, operands);
    int code = job_open(&job) && job_verify(&job) && job_time(&job) && job_report(&job) ? DONE : FAILED;
    free(job.seconds);
    free(job.hits.scores);
    free(job.hits.ids);
    free(job.queries.data);
    vic_index_free(job.index);
    vic_device_free(job.device);
    return code;
}

const struct command bench_command = {
    .name = "bench",
    .line = "how long a search takes, on made or real data",
    .operands = "[QUERIES TRUTH]",
    .about =
        "Makes gauss data, or opens --index, compares ids and scores with a reference written in plain loops, and "
        "only then takes the time of each search. Gigabytes a second are of rows read; the share is of a plain read "
        "of as many bytes by as many threads, measured in the same run. With --graph, one line a beam: recall against TRUTH "
        "(ties count), queries a second all at once, the median of single queries, and what a walk looked at.",
    .example = "vicinal bench --n 20000 --d 64 --k 10 --trials 50\n"
               "vicinal bench --index rows.vic --queries queries.fbin --trials 50 --json\n"
               "vicinal bench --graph graph.vic queries.fbin truth.bin --beam 20,40",
    .options = bench_rows,
    .defaults = &(const struct bench_args){.common = {.k = 10, .metric = VIC_COSINE, .type = VIC_F32},
                                           .rows = 100000,
                                           .dim = 384,
                                           .trials = 200,
                                           .warmup = 20,
                                           .seed = 1,
                                           .batch = 1,
                                           .beams = "10,16,24,32,48,64,96,128,192,256"},
    .args_bytes = sizeof(struct bench_args),
    .common = COMMON_K | COMMON_METRIC | COMMON_TYPE | COMMON_PLANES | COMMON_READ | COMMON_RUNS | COMMON_JSON,
    .run = bench_run,
};
