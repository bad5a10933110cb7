/* vicinal eval: recall of hits against ground truth. */
#include "command.h"
#include "term.h"

struct eval_args {
    struct common_args common;
    int64_t rows;
};

static const struct option_row eval_rows[] = {
    {"rows", 0, OPTION_INT, "N", 0, INT64_MAX, offsetof(struct eval_args, rows), OPTIONAL,
     "refuse ids that are not below N (0: do not check)"},
    {.name = NULL},
};

static int eval_run(const void *arguments, char *const *operands) {
    const struct eval_args *args = arguments;
    int code = FAILED;
    double recall = 0;
    struct vic_truth hits = {.nq = 0}, truth = {.nq = 0};
    TRY(vic_truth_read(operands[0], &hits));
    TRY(vic_truth_read(operands[1], &truth));
    TRY(vic_recall(&hits, &truth, args->common.k, args->rows, &recall));
    printf(args->common.json ? "{\"k\": %lld, \"queries\": %lld, \"recall\": %.9g}\n" : "recall@%lld over %lld queries: %.6g\n",
           (long long)args->common.k, (long long)hits.nq, recall);
    code = DONE;
done:
    vic_truth_free(&hits);
    vic_truth_free(&truth);
    return code;
}

const struct command eval_command = {
    .name = "eval",
    .line = "recall of hits against ground truth",
    .operands = "HITS TRUTH",
    .about = "Both are files of neighbours: .bin, .ivecs, .npy, HDF5. The share of the k true neighbours that are among "
             "the first k hits, averaged over queries; where both files have distances, a hit as close as the k-th true "
             "neighbour counts as found. An id twice in one answer, or one not below --rows, is refused.",
    .example = "vicinal search rows.vic queries.fbin -k 10 -o hits.bin\n"
               "vicinal eval hits.bin truth.bin -k 10 --rows 10000",
    .options = eval_rows,
    .defaults = &(const struct eval_args){.common = {.k = 10}},
    .args_bytes = sizeof(struct eval_args),
    .common = COMMON_K | COMMON_JSON,
    .run = eval_run,
};
