/* Batches on planes, the reference: every pair's sum, code by code, and the bound as backend/bound.h has it. Packed queries are
 * the queries' constants as they are, which point at their codes. */
#include "backend/cpu/plane.h"

static int64_t queries_bytes(int64_t nq, int64_t dim) {
    (void)dim;
    return nq * (int64_t)sizeof(struct plane_query);
}
static int64_t decoded_bytes(int64_t dim) { return (void)dim, 0; }

static void pack(const struct plane_query *queries, int64_t nq, enum plane_kind kind, int64_t dim, void *packed) {
    (void)kind, (void)dim;
    memcpy(packed, queries, (size_t)nq * sizeof *queries);
}

/* Modulo 2^32, as in plane_scalar.c. */
static float pair_sum(const struct plane_group *group, const uint8_t *codes, const struct plane_query *query) {
    uint32_t sum = 0 - (uint32_t)query->bias_low[group->kind];
    for (int64_t i = 0; query->low && i < group->dim; i++) sum += (uint32_t)(plane_code(group->kind, codes, i) * query->low[i]);
    return (float)(int32_t)sum;
}

static int64_t run(const struct plane_group *group, uint32_t *pairs, float *uppers) {
    const struct plane *plane = group->plane;
    const struct plane_query *queries = group->queries;
    int64_t count = 0;
    for (int64_t i = 0; i < group->n; i++)
        for (int64_t j = 0; j < group->nq; j++) {
            int64_t row = group->first + i;
            float sum = pair_sum(group, plane->codes + row * plane->stride_bytes, &queries[j]);
            float upper =
                bound_upper(&queries[j], sum, plane->scale[row], plane->error[row], group->norms ? group->norms[row] : 0);
            if (upper < group->least[j]) continue;
            pairs[count] = (uint32_t)(j * GROUP_ROWS + i);
            uppers[count++] = upper;
        }
    return count;
}

const struct plane_tile plane_tile_scalar = {queries_bytes, decoded_bytes, pack, run};
