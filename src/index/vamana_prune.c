/* Robust prune: of the candidates for a row, the nearest is taken and every other one that lies nearer to it than to the row
 * is dropped, again and again. With alpha above 1 it must lie nearer by that much (on squared distances), which leaves some
 * long edges; those are what makes a walk short.
 *
 * A copy of a chosen candidate is dropped whatever alpha is, so copies never fill a row's slots.
 *
 * Inner products are no distances: a candidate is dropped when it is more like a chosen one than like the row, and the long
 * rows, which answer most questions, would drop nearly everything. So the slots that are left over go to the most alike of
 * those that were dropped. Measured on 20,000 rows of 64 with log-normal norms: recall@10 of 0.998 at beam 64, against 0.15
 * for the usual reduction to a distance by one more coordinate. */
#include "index/vamana.h"

#include <math.h>

struct rivals {
    uint32_t rows[PRUNE_MOST];
    float distance[PRUNE_MOST], factor[PRUNE_MOST]; /* from the row; how much nearer a chosen one lies. Chosen: infinite */
    bool spent[PRUNE_MOST];                         /* chosen, or under an inner product a copy of a chosen one */
    int64_t count;
};

/* Sorted by distance and row, each row once, without the row itself. */
static void rivals_sort(struct rivals *rivals, uint32_t row, uint64_t *keys, int64_t count) {
    for (int64_t i = 0; i < count; i++) keys[i] = ~(keys[i] & ~UINT64_C(1));
    keys_sort(keys, count, keys + count);
    rivals->count = 0;
    for (int64_t i = 0; i < count && rivals->count < PRUNE_MOST; i++) {
        uint32_t candidate = walk_key_row(~keys[i]);
        if (candidate == row || (i > 0 && keys[i] == keys[i - 1])) continue;
        rivals->rows[rivals->count] = candidate;
        rivals->distance[rivals->count] = score_from_order((uint32_t)(~keys[i] >> 32), false);
        rivals->spent[rivals->count] = false;
        rivals->factor[rivals->count++] = 0;
    }
}

/* How much nearer a candidate lies to a chosen one (`apart`) than to the row. Inner products: how much more alike it is. */
static float occlusion(bool inner, float distance, float apart) {
    if (inner) return distance < 0 ? apart / distance : apart < distance ? INFINITY : 0;
    return apart > 0 ? distance / apart : INFINITY;
}

/* Whether two rows have the same codes: as alike as each is to itself. */
static bool is_copy(const struct points *points, uint32_t row, uint32_t other, float apart) {
    return -apart >= points->terms[row].square && -apart >= points->terms[other].square;
}

/* `at` was chosen: what it does to those behind it that are still in the race. */
static void rivals_occlude(const struct points *points, struct rivals *rivals, int64_t at, float alpha) {
    int8_t codes[DIM_MAX];
    uint32_t rows[WALK_BATCH], places[WALK_BATCH];
    float apart[WALK_BATCH];
    struct aim aim = aim_at_row(points, rivals->rows[at], codes);
    for (int64_t next = at + 1; next < rivals->count;) {
        int64_t count = 0;
        for (; next < rivals->count && count < WALK_BATCH; next++)
            if (rivals->factor[next] <= alpha) places[count] = (uint32_t)next, rows[count++] = rivals->rows[next];
        points_distances(points, &aim, rows, count, apart);
        for (int64_t i = 0; i < count; i++) {
            float factor = occlusion(points->inner, rivals->distance[places[i]], apart[i]);
            if (points->inner && is_copy(points, rivals->rows[at], rows[i], apart[i])) {
                factor = INFINITY;
                rivals->spent[places[i]] = true;
            }
            if (factor > rivals->factor[places[i]]) rivals->factor[places[i]] = factor;
        }
    }
}

int64_t points_prune(const struct points *points, uint32_t row, uint64_t *candidates, int64_t count, int64_t degree,
                     float alpha, uint64_t *chosen) {
    struct rivals rivals;
    int64_t taken = 0;
    rivals_sort(&rivals, row, candidates, count);
    for (float most = 1;; most = most * 1.2f < alpha ? most * 1.2f : alpha) {
        for (int64_t i = 0; i < rivals.count && taken < degree; i++) {
            if (rivals.factor[i] > most) continue;
            chosen[taken++] = walk_key(rivals.distance[i], rivals.rows[i]);
            rivals.factor[i] = INFINITY;
            rivals.spent[i] = true;
            if (taken < degree) rivals_occlude(points, &rivals, i, alpha);
        }
        if (taken == degree || most >= alpha) break;
    }
    for (int64_t i = 0; points->inner && i < rivals.count && taken < degree; i++)
        if (!rivals.spent[i]) chosen[taken++] = walk_key(rivals.distance[i], rivals.rows[i]);
    return taken;
}
