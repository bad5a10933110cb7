/* What the files of the subcommand bench share. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "command.h"

#include <stdint.h>

struct bench_args {
    struct common_args common;
    const char *index, *queries, *graph, *beams;
    int64_t rows, dim, trials, warmup, seed, batch, parents;
    int codes;
};

/* --graph INDEX QUERIES TRUTH: one line a beam. The exit code. */
int bench_graph(const struct bench_args *args, char *const *operands);

#endif
