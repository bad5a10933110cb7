/* vicinal truth: exact neighbours in the field's formats, of files of rows that may be larger than memory.
 *
 * Rows are taken in parts; each part's hits are merged into the best so far. Parts come in ascending order of id, so on
 * equal scores what is there already stays: the merged file is, byte for byte, the one that a single part gives. */
#include "input.h"
#include "term.h"

#include <stdlib.h>
#include <string.h>

struct truth_args {
    struct common_args common;
    const char *output;
    int64_t part;
};

static const struct option_row truth_rows[] = {
    {"output", 'o', OPTION_TEXT, "FILE", 0, 0, offsetof(struct truth_args, output), NEEDED,
     "ids and distances as .bin; ids alone as .ivecs or .npy"},
    {"part", 0, OPTION_INT, "ROWS", 1, 4294967294, offsetof(struct truth_args, part), OPTIONAL,
     "rows in memory at a time (about 256M of them)"},
    {.name = NULL},
};

enum { PART_BYTES = 256 << 20, QUERY_BLOCK = 1024 };

/* nq answers of at most k hits. */
struct answers {
    int64_t nq, k;
    int64_t *ids;
    float *scores;
    int32_t *counts;
};

struct truth_job {
    struct input rows, queries;
    enum vic_metric metric;
    void *query_data, *part_data;
    int64_t part_rows;
    struct answers best, part, merged; /* merged: one query */
    double began;
};

static bool answers_take(struct answers *answers, int64_t nq, int64_t k) {
    answers->nq = nq;
    answers->k = k;
    uint64_t slots = (uint64_t)nq * (uint64_t)k;
    if (__builtin_mul_overflow((uint64_t)nq, (uint64_t)k, &slots)) slots = UINT64_MAX;
    answers->ids = memory_take(slots, sizeof *answers->ids);
    answers->scores = answers->ids ? memory_take(slots, sizeof *answers->scores) : NULL;
    answers->counts = answers->scores ? memory_take((uint64_t)nq, sizeof *answers->counts) : NULL;
    return answers->counts != NULL;
}

static void answers_free(struct answers *answers) {
    free(answers->counts);
    free(answers->scores);
    free(answers->ids);
}

/* Two lists, best first, into `best`; slots left over hold id -1 and the part's own worst score. */
static void query_merge(struct truth_job *job, int64_t query, int64_t first_id) {
    struct answers *best = &job->best, *part = &job->part;
    int64_t *ids = best->ids + query * best->k, *part_ids = part->ids + query * part->k;
    float *scores = best->scores + query * best->k, *part_scores = part->scores + query * part->k;
    int64_t a = 0, b = 0, kept = 0, have = best->counts[query], found = part->counts[query];
    for (; kept < best->k && (a < have || b < found); kept++) {
        bool smaller = job->metric == VIC_L2;
        bool take_part = a == have || (b < found && (smaller ? part_scores[b] < scores[a] : part_scores[b] > scores[a]));
        job->merged.ids[kept] = take_part ? part_ids[b] + first_id : ids[a];
        job->merged.scores[kept] = take_part ? part_scores[b++] : scores[a++];
    }
    memcpy(ids, job->merged.ids, (size_t)kept * sizeof *ids);
    memcpy(scores, job->merged.scores, (size_t)kept * sizeof *scores);
    best->counts[query] = (int32_t)kept;
}

static bool part_search(struct truth_job *job, const struct vic_index *index, int64_t first, int64_t count) {
    const size_t query_bytes = input_row_bytes(&job->queries);
    const int64_t nq = job->queries.info.rows, total = job->rows.info.rows;
    for (int64_t query = 0; query < nq; query += QUERY_BLOCK) {
        int64_t block = nq - query < QUERY_BLOCK ? nq - query : QUERY_BLOCK;
        const struct vic_matrix queries = {.data = (char *)job->query_data + (size_t)query * query_bytes,
                                           .rows = block,
                                           .dim = job->queries.info.dim,
                                           .dtype = job->queries.type};
        const struct vic_hits hits = {.ids = job->part.ids + query * job->part.k,
                                      .scores = job->part.scores + query * job->part.k,
                                      .counts = job->part.counts + query};
        TRY(vic_index_search(index, &queries, job->part.k, NULL, &hits));
        if (!progress_tick("comparing", first * nq + count * (query + block), total * nq, job->began)) return false;
    }
    for (int64_t query = 0; query < nq; query++) query_merge(job, query, first);
    return true;
done:
    return false;
}

static bool part_do(struct truth_job *job, int64_t first, int64_t count) {
    const struct vic_matrix rows = {.data = job->part_data, .rows = count, .dim = job->rows.info.dim, .dtype = job->rows.type};
    const struct vic_build_options options = {.size = sizeof options, .metric = job->metric};
    struct vic_index *index = NULL;
    bool searched = false;
    if (!input_read(&job->rows, first, count, job->part_data)) goto done;
    if (vic_index_build(job->rows.device, &rows, &options, &index) != VIC_OK) {
        say("%s, rows counted from %lld: %s", job->rows.path, (long long)first, vic_last_error());
        goto done;
    }
    searched = part_search(job, index, first, count);
done:
    vic_index_free(index);
    return searched;
}

static bool job_shapes_agree(struct truth_job *job, const struct truth_args *args) {
    const struct vic_file_info *rows = &job->rows.info, *queries = &job->queries.info;
    job->metric = args->common.metric ? args->common.metric : rows->metric;
    if (!job->metric) {
        say("--metric is needed: %s does not say how closeness is measured", job->rows.path);
        return false;
    }
    if (rows->dim == queries->dim) return true;
    say("the rows of %s have %s dimensions and the queries of %s have %s", job->rows.path, show_count(rows->dim),
        job->queries.path, show_count(queries->dim));
    return false;
}

static bool job_memory_take(struct truth_job *job, const struct truth_args *args) {
    const int64_t n = job->rows.info.rows, nq = job->queries.info.rows, k = args->common.k < n ? args->common.k : n;
    const uint64_t bytes = args->common.budget && args->common.budget / 4 < PART_BYTES ? args->common.budget / 4 : PART_BYTES;
    int64_t fit = (int64_t)(bytes / input_row_bytes(&job->rows));
    job->part_rows = args->part ? args->part : fit > 0 ? fit : 1;
    if (job->part_rows > n) job->part_rows = n;
    job->part_data = memory_take((uint64_t)job->part_rows, input_row_bytes(&job->rows));
    job->query_data = memory_take((uint64_t)nq, input_row_bytes(&job->queries));
    return job->part_data && job->query_data && answers_take(&job->best, nq, k) && answers_take(&job->merged, 1, k) &&
           answers_take(&job->part, nq, k < job->part_rows ? k : job->part_rows);
}

static bool job_do(struct truth_job *job) {
    const int64_t n = job->rows.info.rows;
    if (!input_read(&job->queries, 0, job->queries.info.rows, job->query_data)) return false;
    job->began = seconds_now();
    for (int64_t first = 0; first < n; first += job->part_rows)
        if (!part_do(job, first, n - first < job->part_rows ? n - first : job->part_rows)) return false;
    return true;
}

/* Before anything is computed. */
static bool output_suits(const struct truth_args *args, char *const *operands) {
    const char *const read[] = {operands[0], operands[1]};
    if (path_ends(args->output, ".bin") || path_ends(args->output, ".ivecs") || path_ends(args->output, ".npy"))
        return output_apart(args->output, read, 2);
    return say_usage("-o %s: expected a name that ends in .bin, .ivecs or .npy", args->output), false;
}

static int truth_run(const void *arguments, char *const *operands) {
    const struct truth_args *args = arguments;
    if (!output_suits(args, operands)) return USAGE;
    int code = FAILED;
    struct vic_device *device = NULL;
    struct truth_job job = {.metric = 0};
    struct common_args for_queries = args->common;
    for_queries.dataset = NULL; /* --dataset is about the rows; queries are a file's "test" */
    if (!device_from(&args->common, &device)) goto done;
    if (!input_open(&job.rows, device, operands[0], &args->common, "train")) goto done;
    if (!input_open(&job.queries, device, operands[1], &for_queries, "test")) goto done;
    if (args->common.type) job.rows.type = args->common.type;
    job.queries.type = query_type(job.rows.type, job.queries.info.dtype);
    if (!job_shapes_agree(&job, args) || !job_memory_take(&job, args) || !job_do(&job)) goto done;
    const struct vic_truth truth = {.nq = job.best.nq, .k = job.best.k, .ids = job.best.ids, .distances = job.best.scores};
    TRY(vic_truth_write(args->output, &truth));
    printf("%s: %s queries, %s neighbours each of %s rows, %s; %s\n", args->output, show_count(truth.nq), show_count(truth.k),
           show_count(job.rows.info.rows), vic_metric_name(job.metric), show_seconds(seconds_now() - job.began));
    code = DONE;
done:
    answers_free(&job.merged);
    answers_free(&job.part);
    answers_free(&job.best);
    free(job.query_data);
    free(job.part_data);
    input_close(&job.queries);
    input_close(&job.rows);
    vic_device_free(device);
    return code;
}

const struct command truth_command = {
    .name = "truth",
    .line = "exact neighbours, in the field's formats",
    .operands = "ROWS QUERIES",
    .about = "ROWS and QUERIES are files of vectors. The k nearest rows of each query, exact, equal ones by the smaller "
             "row number. Rows are read in parts, so the file may be larger than memory; the result does not depend on the "
             "parts. With fewer than k rows, all of them are written.",
    .example = "vicinal truth rows.fbin queries.fbin -k 10 --metric l2 -o truth.bin",
    .options = truth_rows,
    .defaults = &(const struct truth_args){.common = {.k = 100}},
    .args_bytes = sizeof(struct truth_args),
    .common = COMMON_K | COMMON_METRIC | COMMON_TYPE | COMMON_READ | COMMON_RUNS,
    .run = truth_run,
};
