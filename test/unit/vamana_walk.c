/* The walk and the prune against their definitions written out with plain loops and no table of visited rows: the list of
 * keys, what was expanded, how many hops; which candidates are chosen, in which order. */
#include "support/graphs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { N = 700, DIM = 19, BEAM_MOST = 300 };

static float *rows;

static int setup(void **state) {
    rows = copies_random(11, N, DIM, N - 100);
    return device_setup(state);
}

static int teardown(void **state) {
    free(rows);
    return device_teardown(state);
}

static float distance_to(const struct points *points, const struct aim *aim, uint32_t row) {
    const uint8_t *codes = points->codes + row * points->stride_bytes;
    int64_t sum = 0;
    for (int64_t i = 0; i < points->stride_bytes; i++) sum += (codes[i] - 128) * aim->codes[i];
    float square = points->terms ? points->terms[row].square : 0; /* l2 alone asks for it */
    return (aim->factor * points->scale[row]) * (float)sum + (aim->base + aim->weight * square);
}

static int64_t walk_plainly(const struct graph *graph, const struct aim *aim, int64_t beam, int64_t parents, struct seen *list,
                            int64_t *hops) {
    int64_t count = 0;
    *hops = 0;
    for (int64_t i = 0; i < graph->entry_count; i++)
        count = seen_put(list, count, beam, walk_key(distance_to(&graph->points, aim, graph->entries[i]), graph->entries[i]));
    for (;;) {
        uint32_t chosen[GRAPH_PARENTS_MAX];
        int64_t taken = 0;
        for (int64_t i = 0; i < count && taken < parents; i++)
            if (!list[i].expanded) {
                list[i].expanded = true;
                chosen[taken++] = walk_key_row(list[i].key);
            }
        if (taken == 0) return count;
        *hops += taken;
        for (int64_t p = 0; p < taken; p++)
            for (int64_t i = 0; i < graph->degree; i++) {
                uint32_t row = graph_row(graph, chosen[p])[i];
                if (row == slot_unused) break;
                count = seen_put(list, count, beam, walk_key(distance_to(&graph->points, aim, row), row));
            }
    }
}

static void a_walk_is_what_its_definition_says(void **state) {
    (void)state;
    static const int64_t beams[] = {1, 2, 10, 64, 161, BEAM_MOST}, parents[] = {1, 2, 8};
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        struct data data = {rows, N, DIM, VIC_F32, metric, NULL};
        struct vic_index *index = graph_of(test_device, &data, 12, 30);
        const struct graph *graph = &index->graph;
        for (int q = 0; q < 10; q++)
            for (int b = 0; b < 6; b++)
                for (int p = 0; p < 3; p++) {
                    int8_t codes[64];
                    uint64_t keys[BEAM_MOST];
                    struct seen list[BEAM_MOST];
                    int64_t hops = 0;
                    const struct vic_matrix query = matrix_of(rows + q * 31, 1, DIM, VIC_F32);
                    struct aim aim;
                    points_8.aim(&graph->points, &query, codes, &aim);
                    struct walk walk = {.keys = keys, .beam = beams[b], .parents = parents[p]};
                    graph_walk(graph, graph->entry_count, &aim, &walk);
                    assert_int_equal(walk.count, walk_plainly(graph, &aim, beams[b], parents[p], list, &hops));
                    assert_int_equal(walk.hops, hops);
                    for (int64_t i = 0; i < walk.count; i++) {
                        assert_true(keys[i] == (list[i].key | 1));
                        assert_true(list[i].expanded);
                    }
                }
        vic_index_free(index);
    }
}

/* From row to row, as both ends see it. */
static void distances_of_rows_are_the_same_both_ways_and_none_to_a_copy(void **state) {
    (void)state;
    struct data data = {rows, N, DIM, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = graph_of(test_device, &data, 12, 30);
    const struct points *points = &index->graph.points;
    int8_t codes[2][64];
    for (uint32_t i = 0; i < N; i++) {
        uint32_t other = (i * 37 + 5) % N;
        struct aim here = aim_at_row(points, i, codes[0]), there = aim_at_row(points, other, codes[1]);
        float one = 0, two = 0, none = 1;
        points_distances(points, &here, &other, 1, &one);
        points_distances(points, &there, &i, 1, &two);
        points_distances(points, &here, &i, 1, &none);
        assert_memory_equal(&one, &two, sizeof one);
        assert_true(none == 0);
    }
    vic_index_free(index);
}

/* Robust prune from the definition, over `count` sorted distinct candidates. */
static int64_t prune_plainly(const struct points *points, const uint32_t *candidates, const float *distances, int64_t count,
                             int64_t degree, float alpha, uint32_t *chosen) {
    float factor[N] = {0};
    bool taken[N] = {false};
    int64_t kept = 0;
    for (float most = 1; kept < degree; most = fminf(most * 1.2f, alpha)) {
        for (int64_t i = 0; i < count && kept < degree; i++) {
            int8_t codes[64];
            if (taken[i] || factor[i] > most) continue;
            taken[i] = true;
            chosen[kept++] = candidates[i];
            struct aim aim = aim_at_row(points, candidates[i], codes);
            for (int64_t t = i + 1; t < count; t++) {
                float apart = distance_to(points, &aim, candidates[t]);
                factor[t] = fmaxf(factor[t], apart > 0 ? distances[t] / apart : INFINITY);
            }
        }
        if (most >= alpha) break;
    }
    return kept;
}

static void a_prune_is_what_its_definition_says(void **state) {
    (void)state;
    struct data data = {rows, N, DIM, VIC_F32, VIC_L2, NULL};
    struct vic_index *index = graph_of(test_device, &data, 12, 30);
    const struct points *points = &index->graph.points;
    static const float alphas[] = {1, 1.1f, 1.2f, 1.5f, 2};
    static const int64_t degrees[] = {1, 5, 32, 512};
    struct random random = {3};
    for (int round = 0; round < 40; round++) {
        uint32_t row = (uint32_t)random_below(&random, N), sorted[N], expected[N];
        uint64_t keys[2 * N], chosen[GRAPH_DEGREE_MAX];
        float distances[N];
        int8_t codes[64];
        int64_t count = 1 + random_below(&random, 400), distinct = 0;
        struct aim aim = aim_at_row(points, row, codes);
        struct seen list[N];
        for (int64_t i = 0; i < count; i++) { /* the row itself and repeats among them */
            uint32_t candidate = i == 0 ? row : (uint32_t)random_below(&random, N);
            keys[i] = walk_key(distance_to(points, &aim, candidate), candidate) | (uint64_t)(i & 1);
            if (candidate != row) distinct = seen_put(list, distinct, N, keys[i] & ~UINT64_C(1));
        }
        for (int64_t i = 0; i < distinct; i++) {
            sorted[i] = walk_key_row(list[i].key);
            distances[i] = distance_to(points, &aim, sorted[i]);
        }
        int64_t degree = degrees[round % 4];
        float alpha = alphas[round % 5];
        int64_t kept = prune_plainly(points, sorted, distances, distinct, degree, alpha, expected);
        assert_int_equal(points_prune(points, row, keys, count, degree, alpha, chosen), kept);
        for (int64_t i = 0; i < kept; i++) assert_int_equal(walk_key_row(chosen[i]), expected[i]);
    }
    vic_index_free(index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_walk_is_what_its_definition_says),
        cmocka_unit_test(distances_of_rows_are_the_same_both_ways_and_none_to_a_copy),
        cmocka_unit_test(a_prune_is_what_its_definition_says),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
