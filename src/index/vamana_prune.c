/* Robust prune: of the candidates for a row, the nearest is taken and every other one that lies nearer to it than to the row
 * is dropped, again and again. With alpha above 1 it must lie nearer by that much (on squared distances), which leaves some
 * long edges; those are what makes a walk short.
 *
 * A copy of a chosen candidate is dropped whatever alpha is, so copies never fill a row's slots.
 *
 * Inner products are no distances: a candidate is dropped when it is more like a chosen one than like the row, and the long
 * rows, which answer most questions, would drop nearly everything. So the slots that are left over go to the most alike of
 * those that were dropped. Measured on 20,000 rows of 64 with log-normal norms: recall@10 of 0.998 at beam 64, against 0.15
 * for the usual reduction to a distance by one more coordinate.
 *
 * Who was dropped or chosen leaves the arrays, which stay in order and close together: the distances of one chosen row from
 * all that are left are then one call and one loop without a branch. */
#include "index/vamana.h"

#include <math.h>
#include <string.h>

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
        rivals->factor[rivals->count++] = 0;
    }
}

static void rival_move(struct rivals *rivals, int64_t from, int64_t to) {
    rivals->rows[to] = rivals->rows[from], rivals->bias[to] = rivals->bias[from];
    rivals->distance[to] = rivals->distance[from], rivals->factor[to] = rivals->factor[from];
    rivals->scale[to] = rivals->scale[from], rivals->square[to] = rivals->square[from];
}

/* How much nearer to a chosen row than to the row itself the rivals from `first` on lie: apart[i] is rival first + i's
 * distance from it. */
static void factors_raise(struct rivals *rivals, int64_t first, const float *apart, int64_t count) {
    const float *distance = rivals->distance + first;
    float *factors = rivals->factor + first;
    for (int64_t i = 0; i < count; i++) {
        float ratio = distance[i] / apart[i], factor = apart[i] > 0 ? ratio : INFINITY;
        factors[i] = factor > factors[i] ? factor : factors[i];
    }
}

/* Inner products: how much more alike. A copy of the chosen row, whose own term is `square`, is dropped for good; two rows
 * are copies when they are as alike as each is to itself. */
static void factors_raise_inner(struct rivals *rivals, int64_t first, const float *apart, int64_t count, float alpha,
                                float square) {
    for (int64_t i = 0; i < count; i++) {
        float distance = rivals->distance[first + i], *factor = &rivals->factor[first + i];
        float raised = distance < 0 ? apart[i] / distance : apart[i] < distance ? INFINITY : 0;
        bool copy = -apart[i] >= square && -apart[i] >= rivals->square[first + i];
        if (raised > *factor) *factor = raised;
        if (copy) *factor = INFINITY;
        if (*factor > alpha && !copy) rivals->dropped[rivals->dropped_count++] = walk_key(distance, rivals->rows[first + i]);
    }
}

/* Rivals [first, count) without those beyond alpha. */
static void rivals_close(struct rivals *rivals, int64_t first, float alpha) {
    int64_t kept = first;
    for (int64_t i = first; i < rivals->count; i++)
        if (rivals->factor[i] <= alpha) rival_move(rivals, i, kept++);
    rivals->count = kept;
}

/* Rival `at` was chosen: what it does to those behind it. It leaves the race itself. */
static void rivals_occlude(const struct points *points, struct rivals *rivals, int64_t at, float alpha) {
    float apart[WALK_BATCH], square = rivals->square[at];
    rivals->factor[at] = INFINITY;
    for (int64_t next = at + 1, count; next < rivals->count; next += count) {
        count = rivals->count - next < WALK_BATCH ? rivals->count - next : WALK_BATCH;
        points->pairs->rivals_apart(points, rivals, at, next, count, apart);
        if (points->inner)
            factors_raise_inner(rivals, next, apart, count, alpha, square);
        else
            factors_raise(rivals, next, apart, count);
    }
    rivals_close(rivals, at, alpha);
}

/* The most alike of those that were dropped. */
static int64_t slots_fill(struct rivals *rivals, int64_t degree, uint64_t *chosen, int64_t taken) {
    uint64_t *keys = rivals->dropped;
    int64_t count = rivals->dropped_count;
    for (int64_t i = 0; i < count; i++) keys[i] = ~keys[i];
    keys_sort(keys, count, NULL);
    for (int64_t i = 0; i < count && taken < degree; i++) chosen[taken++] = ~keys[i];
    return taken;
}

int64_t points_prune(const struct points *points, uint32_t row, uint64_t *candidates, int64_t count, int64_t degree,
                     float alpha, uint64_t *chosen) {
    struct rivals rivals;
    int64_t taken = 0;
    rivals_sort(&rivals, row, candidates, count);
    points->pairs->rivals_read(points, &rivals);
    rivals.dropped = candidates, rivals.dropped_count = 0;
    for (float most = 1;; most = most * 1.2f < alpha ? most * 1.2f : alpha) {
        for (int64_t i = 0; i < rivals.count && taken < degree;) {
            if (rivals.factor[i] > most) {
                i++;
                continue;
            }
            chosen[taken++] = walk_key(rivals.distance[i], rivals.rows[i]);
            rivals_occlude(points, &rivals, i, alpha);
        }
        if (taken == degree || most >= alpha) break;
    }
    return points->inner ? slots_fill(&rivals, degree, chosen, taken) : taken;
}
