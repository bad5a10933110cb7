/* Canonical scores of rows here and there for one query: what a walk over the rows themselves measures by. Unlike the three
 * questions it needs no workspace, so it never waits; all it writes to is what the caller lends. */
#include "backend/cpu/cpu.h"

enum { AIM_NORMS = 64, AIM_SUMS = 256 };

/* Raw sums of rows which[0..n), n <= AIM_NORMS, to cosines. */
static void cosines_finish(const struct row_aim *aim, const uint32_t *which, int64_t n, float *scores) {
    const struct kernels *kernels = aim->kernels;
    float norms[AIM_NORMS];
    for (int64_t i = 0; i < n; i++) norms[i] = aim->rows->norms[which[i]];
    kernels->cosine(scores, norms, n, aim->query_norm);
    for (int64_t i = 0; i < n; i++)
        if (norms[i] < 0) scores[i] = row_rescale(kernels, aim->rows, which[i], aim->query, aim->query_norm, aim->spare);
}

/* Exact sums, each rounded once. */
static void exact_scores(const struct row_aim *aim, enum kernel_op op, const uint32_t *which, int64_t n, float *scores) {
    const struct rows *rows = aim->rows;
    byte_sums *gather = ((const struct kernels *)aim->kernels)->gather_exact[rows->dtype][op];
    bool is_signed = rows->dtype == VIC_I8 && op == OP_DOT;
    uint32_t sums[AIM_SUMS];
    for (int64_t first = 0, count; first < n; first += count) {
        count = n - first < AIM_SUMS ? n - first : AIM_SUMS;
        gather(rows->data, which + first, count, rows->dim, aim->query, sums);
        for (int64_t i = 0; i < count; i++) scores[first + i] = is_signed ? (float)(int32_t)sums[i] : (float)sums[i];
    }
}

void aim_scores(const struct row_aim *aim, const uint32_t *which, int64_t n, float *scores) {
    const struct rows *rows = aim->rows;
    const struct kernels *kernels = aim->kernels;
    enum kernel_op op = rows->metric == VIC_L2 ? OP_L2 : OP_DOT;
    if (rows->metric == VIC_COSINE && aim->query_norm == 0) {
        for (int64_t i = 0; i < n; i++) scores[i] = score_worst(false);
        return;
    }
    if (aim->exact)
        exact_scores(aim, op, which, n, scores);
    else
        kernels->gather[rows->dtype][op](rows->data, which, n, rows->dim, aim->query, scores);
    for (int64_t i = 0; rows->metric == VIC_COSINE && i < n; i += AIM_NORMS)
        cosines_finish(aim, which + i, n - i < AIM_NORMS ? n - i : AIM_NORMS, scores + i);
    if (rows->metric != VIC_L2 && !aim->exact) kernels->replace_nan(scores, n);
}

void cpu_aim(const struct backend *backend, const struct rows *rows, const struct vic_matrix *query, float *room,
             struct row_aim *aim) {
    *aim = (struct row_aim){.scores = aim_scores,
                            .rows = rows,
                            .kernels = &backend->kernels,
                            .query = room,
                            .spare = room + rows->dim,
                            .exact = queries_exact(rows, query)};
    aim->query_norm = query_prepare(&backend->kernels, rows, query, 0, room);
}
