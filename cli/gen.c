/* vicinal gen: deterministic vectors for tests and benchmarks, the same bytes for any number of threads. */
#include "input.h"
#include "term.h"

#include <stdlib.h>

struct gen_args {
    struct common_args common;
    int64_t rows, dim, seed, first, clusters, latent;
    double spread, sigma, share;
};

static const struct option_row gen_rows[] = {
    {"n", 'n', OPTION_INT, "N", 0, 4294967294, offsetof(struct gen_args, rows), NEEDED, "how many vectors"},
    {"dim", 'd', OPTION_INT, "N", 1, 65536, offsetof(struct gen_args, dim), NEEDED, "how many dimensions"},
    {"seed", 0, OPTION_INT, "N", 0, INT64_MAX, offsetof(struct gen_args, seed), OPTIONAL, "another seed, another data set (0)"},
    {"first", 0, OPTION_INT, "ROW", 0, INT64_MAX / 2, offsetof(struct gen_args, first), OPTIONAL,
     "begin at this row of the endless set: for queries (0)"},
    {"clusters", 0, OPTION_INT, "N", 1, 1 << 24, offsetof(struct gen_args, clusters), OPTIONAL, "clusters, manifold (100)"},
    {"spread", 0, OPTION_REAL, "X", 0, 0, offsetof(struct gen_args, spread), OPTIONAL,
     "standard deviation within a cluster (0.1; manifold 0.3)"},
    {"latent-dim", 0, OPTION_INT, "N", 1, 65536, offsetof(struct gen_args, latent), OPTIONAL,
     "manifold: the dimension underneath (16)"},
    {"norm-sigma", 0, OPTION_REAL, "X", 0, 0, offsetof(struct gen_args, sigma), OPTIONAL,
     "gauss: norms are exp(X * normal); 0: unit length (0)"},
    {"share", 0, OPTION_REAL, "X", 0, 0, offsetof(struct gen_args, share), OPTIONAL,
     "duplicates: share of rows that copy another (0.25)"},
    {.name = NULL},
};

enum { BLOCK_BYTES = 8 << 20 };

static bool blocks_generate(const struct gen_args *args, const struct vic_generate_options *options, enum vic_dtype type,
                            struct vic_writer *writer, void *block, int64_t step) {
    double began = seconds_now();
    for (int64_t done_rows = 0; done_rows < args->rows; done_rows += step) {
        int64_t left = args->rows - done_rows, count = left < step ? left : step;
        const struct vic_matrix rows = {.data = block, .rows = count, .dim = args->dim, .dtype = type};
        TRY(vic_generate(options, args->first + done_rows, (int32_t)args->common.threads, &rows));
        TRY(vic_writer_write(writer, &rows));
        if (!progress_tick("generating", done_rows + count, args->rows, began)) return false;
    }
    return true;
done:
    return false;
}

static int gen_run(const void *arguments, char *const *operands) {
    const struct gen_args *args = arguments;
    int code = FAILED;
    struct vic_writer *writer = NULL;
    const enum vic_dtype type = args->common.type ? args->common.type : type_by_name(operands[1]);
    const size_t row_bytes = (size_t)args->dim * vic_dtype_bytes(type);
    const int64_t step = row_bytes < BLOCK_BYTES ? BLOCK_BYTES / (int64_t)row_bytes : 1;
    const struct vic_generate_options options = {
        .size = sizeof options,
        .kind = operands[0],
        .seed = (uint64_t)args->seed,
        .norm_sigma = args->sigma,
        .clusters = args->clusters,
        .spread = args->spread,
        .latent_dim = args->latent,
        .duplicate_share = args->share,
    };
    const struct vic_matrix none = {.dim = args->dim, .dtype = type}; /* what is asked for, judged before a file is there */
    if (vic_generate(&options, args->first, 1, &none) != VIC_OK) return say_usage("%s", vic_last_error());
    void *block = memory_take((uint64_t)step, row_bytes);
    if (!block) goto done;
    TRY(vic_writer_open(operands[1], args->rows, args->dim, type, NULL, &writer));
    if (!blocks_generate(args, &options, type, writer, block, step)) goto done;
    TRY(vic_writer_finish(writer));
    printf("%s: %s rows x %s, %s, %s, seed %lld\n", operands[1], show_count(args->rows), show_count(args->dim),
           vic_dtype_name(type), operands[0], (long long)args->seed);
    code = DONE;
done:
    vic_writer_free(writer);
    free(block);
    return code;
}

const struct command gen_command = {
    .name = "gen",
    .line = "deterministic vectors for tests and benchmarks",
    .operands = "KIND OUT",
    .about = "KIND is gauss, clusters, manifold or duplicates. The ending of OUT says the format, and the element type "
             "unless --type does. Row i depends on the options and on i alone: any number of threads writes the same "
             "bytes, and --first gives other rows of the same set, for example queries.",
    .example = "vicinal gen gauss rows.fbin --n 10000 --dim 64 --seed 1\n"
               "vicinal gen gauss queries.fbin --n 100 --dim 64 --seed 1 --first 10000",
    .options = gen_rows,
    .defaults = &(const struct gen_args){.rows = 0},
    .args_bytes = sizeof(struct gen_args),
    .common = COMMON_TYPE | COMMON_THREADS,
    .run = gen_run,
};
