/* vicinal search: the nearest rows of each query, or all rows close enough, with their texts.
 *
 * Queries stream through in blocks. An answer does not depend on its block, so --stats, which asks them one by one to
 * take the time of each, shows the same hits. */
#include "expect.h"
#include "measure.h"
#include "input.h"
#include "term.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum format_choice { FORMAT_AUTO, FORMAT_TABLE, FORMAT_JSON };

struct search_args {
    struct common_args common;
    const char *output, *query_texts, *answers, *filter_ids, *exclude_ids;
    int64_t show, beam, parents;
    double within;
    int texts, stats, path, codes, color, format;
};

static const struct option_row search_rows[] = {
    {"output", 'o', OPTION_TEXT, "FILE", 0, 0, offsetof(struct search_args, output), OPTIONAL,
     "write hits to .bin, .ivecs, .npy, .json or .jsonl"},
    {"texts", 't', OPTION_FLAG, NULL, 0, 0, offsetof(struct search_args, texts), OPTIONAL, "show the text of each hit"},
    {"show", 0, OPTION_INT, "N", 1, INT64_MAX, offsetof(struct search_args, show), OPTIONAL,
     "most hits a query in a table (all)"},
    {"within", 0, OPTION_REAL, "SCORE", 0, 0, offsetof(struct search_args, within), OPTIONAL,
     "every row at least this close, in place of the k nearest"},
    {"filter-ids", 0, OPTION_TEXT, "FILE", 0, 0, offsetof(struct search_args, filter_ids), OPTIONAL,
     "only these ids may answer, one a line"},
    {"exclude-ids", 0, OPTION_TEXT, "FILE", 0, 0, offsetof(struct search_args, exclude_ids), OPTIONAL,
     "these ids may not answer"},
    {"query-texts", 0, OPTION_TEXT, "FILE", 0, 0, offsetof(struct search_args, query_texts), OPTIONAL,
     "the queries in words, one a line, as headings"},
    {"answers", 0, OPTION_TEXT, "FILE", 0, 0, offsetof(struct search_args, answers), OPTIONAL,
     "expected words a query, by commas; counts queries answered"},
    {"stats", 0, OPTION_FLAG, NULL, 0, 0, offsetof(struct search_args, stats), OPTIONAL,
     "ask one by one; tell time and what was done"},
    {"path", 0, OPTION_CHOICE, "auto|scan|select|certified|graph", 0, 0, offsetof(struct search_args, path), OPTIONAL,
     "how to search: by the graph if there is one, else exactly, where the way never changes the answer (auto)"},
    {"beam", 0, OPTION_INT, "N", 0, INT32_MAX, offsetof(struct search_args, beam), OPTIONAL,
     "graph: rows kept in sight; more of them find more (64)"},
    {"parents", 0, OPTION_INT, "N", 0, 8, offsetof(struct search_args, parents), OPTIONAL, "graph: rows expanded at once (1)"},
    {"codes", 0, OPTION_CHOICE, "auto|rows|8|4|pq", 0, 0, offsetof(struct search_args, codes), OPTIONAL,
     "graph: what walks look at, the rows themselves, codes of 8 or 4 bits, or product codes (8; integers: rows)"},
    {"format", 0, OPTION_CHOICE, "auto|table|json", 0, 0, offsetof(struct search_args, format), OPTIONAL,
     "auto: a table on a terminal, else JSON lines"},
    {"color", 0, OPTION_CHOICE, "auto|always|never", 0, 0, offsetof(struct search_args, color), OPTIONAL,
     "colour in a table (auto)"},
    {.name = NULL},
};

struct search_job {
    const struct search_args *args;
    struct vic_device *device;
    struct vic_index *index;
    struct vic_index_info info;
    struct input queries;
    struct vic_filter *filter;
    struct vic_texts questions;
    struct expect expect;
    struct form form;
    int64_t block, k; /* queries a call */
    void *query_data;
    struct vic_ranges answers; /* offsets filled for a k-nearest search too */
    int32_t *counts;
    struct vic_search_stats stats;
    double *seconds; /* of each query, with --stats */
};

/* ---- opening */

static bool filter_open(struct search_job *job) {
    const char *path = job->args->filter_ids ? job->args->filter_ids : job->args->exclude_ids;
    const struct vic_filter_options options = {.size = sizeof options, .exclude = job->args->exclude_ids != NULL};
    int64_t *ids = NULL, count = 0;
    bool opened = false;
    if (!path) return true;
    if (!ids_read(path, &ids, &count)) goto done;
    TRY(vic_filter_create(job->index, ids, count, &options, &job->filter));
    opened = true;
done:
    free(ids);
    return opened;
}

static bool texts_open(struct search_job *job, const char *index_path) {
    const struct search_args *args = job->args;
    if ((args->texts || args->answers) && !job->info.has_texts) {
        say("%s has no texts; 'vicinal build --texts FILE' keeps them with the rows", index_path);
        return false;
    }
    TRY(args->query_texts ? vic_texts_read(args->query_texts, &job->questions) : VIC_OK);
    TRY(args->answers ? vic_texts_read(args->answers, &job->expect.words) : VIC_OK);
    return true;
done:
    return false;
}

static bool form_open(struct search_job *job) {
    const struct search_args *args = job->args;
    bool table = args->format == FORMAT_TABLE || (args->format == FORMAT_AUTO && isatty(STDOUT_FILENO));
    struct form *form = &job->form;
    form->kind = args->output ? form_by_name(args->output) : table ? &form_table : &form_lines;
    form->index = job->index;
    form->metric = job->info.metric;
    form->texts = args->texts;
    form->show = args->show;
    form->questions = args->query_texts ? &job->questions : NULL;
    form->expected = args->answers ? &job->expect.words : NULL;
    color_choose((enum color_choice)args->color);
    return form->kind && form->kind->open(form, args->output, job->queries.info.rows, job->k);
}

/* Room for one block of answers: 64 MiB of them, or one query's. */
static bool memory_open(struct search_job *job) {
    const int64_t most = (64 << 20) / (int64_t)(sizeof(int64_t) + sizeof(float));
    job->k = job->args->common.k < job->info.rows ? job->args->common.k : job->info.rows > 0 ? job->info.rows : 1;
    job->block = job->args->stats ? 1 : most / job->k < 1 ? 1 : most / job->k < 1024 ? most / job->k : 1024;
    job->answers.capacity = job->block * job->k;
    job->query_data = memory_take((uint64_t)job->block, input_row_bytes(&job->queries));
    job->counts = memory_take((uint64_t)job->block, sizeof *job->counts);
    job->answers.offsets = memory_take((uint64_t)job->block + 1, sizeof *job->answers.offsets);
    job->answers.ids = memory_take((uint64_t)job->answers.capacity, sizeof *job->answers.ids);
    job->answers.scores = memory_take((uint64_t)job->answers.capacity, sizeof *job->answers.scores);
    job->seconds = memory_take(job->args->stats ? (uint64_t)job->queries.info.rows : 0, sizeof *job->seconds);
    return job->query_data && job->counts && job->answers.offsets && job->answers.ids && job->answers.scores && job->seconds;
}

static bool job_open(struct search_job *job, char *const *operands) {
    job->info.size = sizeof job->info;
    if (!device_from(&job->args->common, &job->device) ||
        !index_from(job->device, operands[0], planes_from(&job->args->common), &job->index))
        return false;
    TRY(vic_index_info(job->index, &job->info));
    if (!input_open(&job->queries, job->device, operands[1], &job->args->common, "test")) return false;
    job->queries.type = query_type(job->info.dtype, job->queries.info.dtype);
    return memory_open(job) && filter_open(job) && texts_open(job, operands[0]) && form_open(job);
done:
    return false;
}

static void job_close(struct search_job *job) {
    form_drop(&job->form);
    vic_texts_free(&job->expect.words);
    vic_texts_free(&job->questions);
    vic_filter_free(job->filter);
    free(job->seconds);
    free(job->answers.scores);
    free(job->answers.ids);
    free(job->answers.offsets);
    free(job->counts);
    free(job->query_data);
    input_close(&job->queries);
    vic_index_free(job->index);
    vic_device_free(job->device);
}

/* ---- searching */

static bool ranges_grow(struct vic_ranges *ranges, int64_t capacity) {
    free(ranges->ids);
    free(ranges->scores);
    ranges->capacity = capacity;
    ranges->ids = memory_take((uint64_t)capacity, sizeof *ranges->ids);
    ranges->scores = memory_take((uint64_t)capacity, sizeof *ranges->scores);
    return ranges->ids && ranges->scores;
}

static bool block_within(struct search_job *job, const struct vic_matrix *queries, const struct vic_search_options *options) {
    float score = (float)job->args->within;
    enum vic_status status = vic_index_within(job->index, queries, score, options, &job->answers);
    if (status == VIC_CAPACITY) {
        if (!ranges_grow(&job->answers, job->answers.offsets[queries->rows])) return false;
        status = vic_index_within(job->index, queries, score, options, &job->answers);
    }
    TRY(status);
    return true;
done:
    return false;
}

static bool block_nearest(struct search_job *job, const struct vic_matrix *queries, const struct vic_search_options *options) {
    const struct vic_hits hits = {.ids = job->answers.ids, .scores = job->answers.scores, .counts = job->counts};
    TRY(vic_index_search(job->index, queries, job->k, options, &hits));
    for (int64_t j = 0; j <= queries->rows; j++) job->answers.offsets[j] = j * job->k;
    return true;
done:
    return false;
}

static void stats_add(struct vic_search_stats *sum, const struct vic_search_stats *one) {
    sum->path = one->path;
    if (one->threads > sum->threads) sum->threads = one->threads;
    sum->queries += one->queries;
    sum->rows_scored += one->rows_scored;
    sum->rows_rescored += one->rows_rescored;
    sum->bytes_read += one->bytes_read;
    sum->rows_coded[0] += one->rows_coded[0];
    sum->rows_coded[1] += one->rows_coded[1];
    sum->fallbacks += one->fallbacks;
    if (one->fallbacks) sum->fallback = one->fallback;
    sum->hops += one->hops;
    sum->distances += one->distances;
    sum->beam = one->beam, sum->parents = one->parents;
    sum->codes = one->codes;
}

static bool block_search(struct search_job *job, int64_t first, int64_t count) {
    struct vic_search_stats stats = {.size = sizeof stats};
    const struct vic_search_options options = {.size = sizeof options,
                                               .filter = job->filter,
                                               .path = (enum vic_path)job->args->path,
                                               .stats = &stats,
                                               .beam = (int32_t)job->args->beam,
                                               .parents = (int32_t)job->args->parents,
                                               .codes = (enum vic_codes)job->args->codes};
    const struct vic_matrix queries = {
        .data = job->query_data, .rows = count, .dim = job->queries.info.dim, .dtype = job->queries.type};
    if (!input_read(&job->queries, first, count, job->query_data)) return false;
    bool within = isfinite(job->args->within);
    double began = seconds_now();
    if (!(within ? block_within(job, &queries, &options) : block_nearest(job, &queries, &options))) return false;
    if (job->args->stats) job->seconds[first] = seconds_now() - began;
    stats_add(&job->stats, &stats);
    for (int64_t j = 0; j < count; j++) {
        const int64_t *at = job->answers.offsets + j;
        struct answer answer = {.query = first + j,
                                .count = within ? at[1] - at[0] : job->counts[j],
                                .ids = job->answers.ids + at[0],
                                .scores = job->answers.scores + at[0],
                                .expected_rank = -1};
        if (job->args->answers) answer.expected_rank = expect_rank(&job->expect, job->index, &answer);
        if (!job->form.kind->put(&job->form, &answer)) return false;
    }
    return true;
}

/* ---- the end */

static void summary_words(const struct search_job *job, const char *kernels, double median) {
    const struct vic_index_info *info = &job->info;
    printf("\n%s%s rows x %s %s", ink(INK_STRONG), show_count(info->rows), show_count(info->dim), vic_dtype_name(info->dtype));
    if (job->args->stats)
        printf(", %s, %d threads, %s a query (median of %s)", kernels, job->stats.threads, show_seconds(median),
               show_count(job->stats.queries));
    if (job->args->answers)
        printf("; %lld of %lld questions have an expected word among the first %d hits", (long long)job->expect.answered,
               (long long)job->expect.asked, EXPECT_HITS);
    printf("%s\n", ink(INK_PLAIN));
}

static bool summary_json(const struct search_job *job, const char *kernels, double median) {
    const struct vic_search_stats *stats = &job->stats;
    json_t *object = json_pack("{s:I, s:I, s:s}", "rows", (json_int_t)job->info.rows, "dim", (json_int_t)job->info.dim, "type",
                               vic_dtype_name(job->info.dtype));
    static const char *const reasons[] = {"none", "planes", "k", "query", "survivors", "cost", "filter", "beam"};
    json_t *more =
        json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:I, s:I, s:i, s:i, s:s*}", "kernels", kernels,
                  "path", path_name(stats->path), "threads", stats->threads, "queries", (json_int_t)stats->queries,
                  "rows_scored", (json_int_t)stats->rows_scored, "rows_rescored", (json_int_t)stats->rows_rescored,
                  "bytes_read", (json_int_t)stats->bytes_read, "rows_coded_8", (json_int_t)stats->rows_coded[0], "rows_coded_4",
                  (json_int_t)stats->rows_coded[1], "fallbacks", (json_int_t)stats->fallbacks, "fallback",
                  stats->fallback <= VIC_FALLBACK_BEAM ? reasons[stats->fallback] : "?", "p50_us", median * 1e6, "hops",
                  (json_int_t)stats->hops, "distances", (json_int_t)stats->distances, "beam", stats->beam, "parents",
                  stats->parents, "codes", stats->codes ? codes_name(stats->codes) : NULL);
    if (job->args->stats) (void)json_object_update(object, more);
    if (job->args->answers) {
        (void)json_object_set_new(object, "asked", json_integer(job->expect.asked));
        (void)json_object_set_new(object, "answered", json_integer(job->expect.answered));
    }
    json_decref(more);
    return json_put(stdout, json_pack("{s:o}", "summary", object));
}

static bool job_summary(struct search_job *job) {
    struct vic_device_info device = {.size = sizeof device};
    const int64_t asked = job->stats.queries;
    if (job->args->output)
        printf("%s: %s queries, %s rows\n", job->args->output, show_count(asked), show_count(job->info.rows));
    if (!job->args->stats && !job->args->answers) return true;
    TRY(vic_device_info(job->device, &device));
    if (job->args->stats) sort_doubles(job->seconds, asked);
    double median = job->args->stats ? percentile(job->seconds, asked, 0.5) : 0;
    if (job->form.kind != &form_lines || job->args->output) {
        summary_words(job, device.kernels, median);
        return true;
    }
    return summary_json(job, device.kernels, median);
done:
    return false;
}

static bool args_agree(const struct search_args *args, char *const *operands) {
    const char *const read[] = {operands[0],       operands[1],       args->filter_ids,
                                args->exclude_ids, args->query_texts, args->answers};
    if (args->output && !output_apart(args->output, read, sizeof read / sizeof *read)) return false;
    if (args->filter_ids && args->exclude_ids) return say_usage("--filter-ids and --exclude-ids exclude each other"), false;
    const struct form_kind *kind = args->output ? form_by_name(args->output) : &form_lines;
    if (!kind) return false;
    if (!isfinite(args->within) || kind->ranges) return true;
    return say_usage("--within gives answers of different lengths: -o needs a name that ends in .json or .jsonl"), false;
}

static int search_run(const void *arguments, char *const *operands) {
    struct search_job job = {.args = arguments};
    int code = FAILED;
    if (!args_agree(job.args, operands)) return USAGE;
    if (!job_open(&job, operands)) goto done;
    double began = seconds_now();
    for (int64_t first = 0, nq = job.queries.info.rows; first < nq; first += job.block) {
        int64_t count = nq - first < job.block ? nq - first : job.block;
        if (!block_search(&job, first, count)) goto done;
        if (!progress_tick(job.args->output ? "searching" : NULL, first + count, nq, began)) goto done;
    }
    if (job.form.kind->finish(&job.form) && job_summary(&job)) code = DONE;
done:
    job_close(&job);
    return code;
}

const struct command search_command = {
    .name = "search",
    .line = "the nearest rows of each query",
    .operands = "INDEX QUERIES",
    .about =
        "QUERIES is a file of vectors. On a terminal the hits are a table, elsewhere JSON, one line a query; -o "
        "writes them to a file. Exact: the best rows first, equal ones by the smaller id, never more than there are. An index "
        "with a graph answers approximately, unless --path names an exact way.",
    .example = "vicinal search rows.vic queries.fbin -k 3",
    .options = search_rows,
    .defaults = &(const struct search_args){.common = {.k = 10}, .show = INT64_MAX, .within = NAN},
    .args_bytes = sizeof(struct search_args),
    .common = COMMON_K | COMMON_PLANES | COMMON_READ | COMMON_RUNS,
    .run = search_run,
};
