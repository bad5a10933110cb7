/* The kernels of backend/columns.h, written once in the names of lanes.h. Included behind a lanes header, by a file that
 * says how many sums it has registers for:
 *   COLUMN_SUMS     vectors of sums that `dot` and `l2` keep
 *   NEAREST_POINTS  x NEAREST_SUMS: points that share a load of columns, and vectors of columns at once
 * A lane is a column, so sums have the contract's order by themselves. 256 columns of 8 elements with AVX-512: 90 ns a point
 * (Xeon at 2.7 GHz, 2026-11-30), a third of it multiplications, the rest keeping the two best of each lane and of all lanes. */
#ifndef CPU_KERNEL_COLUMNS_H
#define CPU_KERNEL_COLUMNS_H

#include "backend/cpu/lanes.h"

#include <math.h>
#include <string.h>

INLINE floats column_step(enum kernel_op op, floats sum, floats element, floats column) {
    floats term = op == OP_L2 ? floats_sub(element, column) : column;
    return floats_add(sum, floats_mul(op == OP_L2 ? term : element, term));
}

/* Columns first .. first + count - 1, count <= COLUMN_SUMS * LANES. */
INLINE void column_block(enum kernel_op op, const struct columns *columns, const float *vector, int64_t first, int64_t count,
                         float *sums) {
    floats sum[COLUMN_SUMS];
    float last[LANES];
    int64_t whole = count / LANES, rest = count % LANES;
#pragma GCC unroll 16
    for (int v = 0; v < COLUMN_SUMS; v++) sum[v] = floats_zero();
    if (whole == COLUMN_SUMS) {
        for (int64_t d = 0; d < columns->dim; d++) {
            const float *column = columns->values + d * columns->stride + first;
            floats element = floats_broadcast(vector + d);
#pragma GCC unroll 16
            for (int v = 0; v < COLUMN_SUMS; v++)
                sum[v] = column_step(op, sum[v], element, floats_load(VIC_F32, column, v * LANES));
        }
#pragma GCC unroll 16
        for (int v = 0; v < COLUMN_SUMS; v++) floats_store(sums + first + v * LANES, sum[v]);
        return;
    }
    for (int64_t at = 0; at < count; at += LANES) {
        int64_t some = at < whole * LANES ? LANES : rest;
        floats one = floats_zero();
        for (int64_t d = 0; d < columns->dim; d++) {
            const float *column = columns->values + d * columns->stride + first;
            one = column_step(op, one, floats_broadcast(vector + d), floats_load_some(VIC_F32, column, at, some));
        }
        floats_store(last, one);
        memcpy(sums + first + at, last, (size_t)some * sizeof *last);
    }
}

INLINE void column_sums(enum kernel_op op, const struct columns *columns, const float *vector, float *sums) {
    for (int64_t first = 0; first < columns->count; first += COLUMN_SUMS * LANES) {
        int64_t left = columns->count - first;
        column_block(op, columns, vector, first, left < COLUMN_SUMS * LANES ? left : COLUMN_SUMS * LANES, sums);
    }
}

static void columns_dot(const struct columns *columns, const float *vector, float *sums) {
    column_sums(OP_DOT, columns, vector, sums);
}
static void columns_l2(const struct columns *columns, const float *vector, float *sums) {
    column_sums(OP_L2, columns, vector, sums);
}

/* The best and the second best score of each lane, and the best one's column as a float (exact below 2^24). */
struct lane_bests {
    floats best, second, place;
};

INLINE void bests_take(struct lane_bests *bests, floats score, floats place) {
    bests->second = floats_min(bests->second, floats_max(bests->best, score));
    bests->place = floats_pick_less(score, bests->best, place, bests->place);
    bests->best = floats_min(score, bests->best);
}

static void bests_merge(const struct lane_bests *bests, int32_t *nearest, float *margin) {
    float best[LANES], second[LANES], place[LANES];
    floats_store(best, bests->best), floats_store(second, bests->second), floats_store(place, bests->place);
    int lane = 0;
    for (int l = 1; l < LANES; l++) lane = best[l] < best[lane] ? l : lane;
    float least = best[lane], next = second[lane];
    best[lane] = INFINITY;
    for (int l = 0; l < LANES; l++) next = best[l] < next ? best[l] : next;
    *nearest = (int32_t)place[lane];
    *margin = next - least;
}

/* `count` points against `sums` vectors of columns from `first` on. */
INLINE void nearest_block(const struct columns *columns, const float *halves, const float *points, int64_t stride, int count,
                          int sums, int64_t first, struct lane_bests *bests) {
    static const float numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    floats sum[NEAREST_POINTS * NEAREST_SUMS];
#pragma GCC unroll 16
    for (int v = 0; v < sums; v++)
#pragma GCC unroll 4
        for (int p = 0; p < count; p++) sum[p * NEAREST_SUMS + v] = floats_load(VIC_F32, halves, first + v * LANES);
    for (int64_t d = 0; d < columns->dim; d++) {
        const float *column = columns->values + d * columns->stride + first;
        floats element[NEAREST_POINTS];
#pragma GCC unroll 4
        for (int p = 0; p < count; p++) element[p] = floats_sub(floats_zero(), floats_broadcast(points + p * stride + d));
#pragma GCC unroll 16
        for (int v = 0; v < sums; v++) {
            floats one = floats_load(VIC_F32, column, v * LANES);
#pragma GCC unroll 4
            for (int p = 0; p < count; p++) sum[p * NEAREST_SUMS + v] = floats_fma(element[p], one, sum[p * NEAREST_SUMS + v]);
        }
    }
    float base = (float)first;
    floats place = floats_add(floats_load(VIC_F32, numbers, 0), floats_broadcast(&base));
    float step = (float)LANES;
#pragma GCC unroll 16
    for (int v = 0; v < sums; v++) {
#pragma GCC unroll 4
        for (int p = 0; p < count; p++) bests_take(&bests[p], sum[p * NEAREST_SUMS + v], place);
        place = floats_add(place, floats_broadcast(&step));
    }
}

INLINE void nearest_some(const struct columns *columns, const float *halves, const float *points, int64_t stride, int count,
                         int32_t *nearest, float *margins) {
    static const float infinite = INFINITY;
    struct lane_bests bests[NEAREST_POINTS];
    for (int p = 0; p < count; p++) {
        bests[p].best = bests[p].second = floats_broadcast(&infinite);
        bests[p].place = floats_zero();
    }
    int64_t first = 0;
    for (; first + NEAREST_SUMS * LANES <= columns->stride; first += NEAREST_SUMS * LANES)
        nearest_block(columns, halves, points, stride, count, NEAREST_SUMS, first, bests);
    for (; first < columns->stride; first += LANES) nearest_block(columns, halves, points, stride, count, 1, first, bests);
    for (int p = 0; p < count; p++) bests_merge(&bests[p], nearest + p, margins + p);
}

static void columns_nearest(const struct columns *columns, const float *halves, const float *points, int64_t stride, int64_t n,
                            int32_t *nearest, float *margins) {
    int64_t i = 0;
    for (; i + NEAREST_POINTS <= n; i += NEAREST_POINTS)
        nearest_some(columns, halves, points + i * stride, stride, NEAREST_POINTS, nearest + i, margins + i);
    for (; i < n; i++) nearest_some(columns, halves, points + i * stride, stride, 1, nearest + i, margins + i);
}

#define COLUMN_KERNELS                                                                                                         \
    { .dot = columns_dot, .l2 = columns_l2, .nearest = columns_nearest }

#endif
