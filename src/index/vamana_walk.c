/* The walk: from the entry points to where nobody nearer is seen any more, with a list of the `beam` nearest.
 *
 * A hop takes the best `parents` entries that have not been expanded and offers all their neighbours. The list keeps its
 * best; what falls out of it can never come back, since the worst entry only gets better. A list may hold more than the beam:
 * what lies behind it is kept and never expanded, which changes nothing in front. So the result does not depend on
 * the order within a hop, nor on how visited rows are remembered: a table that forgets saves most distances, and repeats
 * are found in the list. */
#include "index/vamana.h"

#include <string.h>

enum { VISITED = 4096, VISITED_WIDE = 16384, VISITED_WIDE_BEAM = 160 };

struct steps {
    const struct graph *graph;
    const struct aim *aim;
    const struct points *points; /* the aim's */
    struct walk *walk;
    int64_t list; /* rows that are kept */
    uint32_t *visited;
    uint32_t visited_shift;
    int64_t fresh_count, first; /* first: the best place that changed in the list */
    uint32_t fresh[WALK_BATCH];
};

/* Into the ascending list, unless it is there. */
static inline void walk_offer(struct walk *walk, int64_t list, uint64_t key, int64_t *first) {
    uint64_t *keys = walk->keys;
    int64_t low = 0, count = walk->count;
    if (count == list && key >= (keys[count - 1] & ~UINT64_C(1))) return;
    for (int64_t length = count; length > 0;) {
        int64_t half = length / 2;
        bool right = keys[low + half] < key;
        low = right ? low + half + 1 : low;
        length = right ? length - half - 1 : half;
    }
    if (low < count && (keys[low] & ~UINT64_C(1)) == key) return;
    if (count < list) walk->count = ++count;
    memmove(keys + low + 1, keys + low, (size_t)(count - 1 - low) * sizeof *keys);
    keys[low] = key;
    if (low < *first) *first = low;
}

static void fresh_offer(struct steps *steps) {
    struct walk *walk = steps->walk;
    float distances[WALK_BATCH];
    steps->points->kind->distances(steps->points, steps->aim, steps->fresh, steps->fresh_count, distances);
    for (int64_t i = 0; i < steps->fresh_count; i++)
        walk_offer(walk, steps->list, walk_key(distances[i], steps->fresh[i]), &steps->first);
    walk->distances += steps->fresh_count;
    steps->fresh_count = 0;
}

static inline void row_meet(struct steps *steps, uint32_t row) {
    uint32_t *slot = &steps->visited[row * 2654435761u >> steps->visited_shift];
    if (*slot == row) return;
    *slot = row;
    if (steps->fresh_count == WALK_BATCH) fresh_offer(steps);
    __builtin_prefetch(steps->points->ahead + row * steps->points->ahead_bytes);
    steps->fresh[steps->fresh_count++] = row;
}

static inline void slots_prefetch(const struct graph *graph, uint64_t key) {
    const uint32_t *slots = graph_row(graph, walk_key_row(key));
    for (int64_t i = 0; i < graph->degree && i < 128; i += 16) __builtin_prefetch(slots + i);
}

static void row_expand(struct steps *steps, uint64_t key) {
    const struct graph *graph = steps->graph;
    struct walk *walk = steps->walk;
    const uint32_t *slots = graph_row(graph, walk_key_row(key));
    if (walk->expanded && walk->expanded_count < walk->expanded_most) walk->expanded[walk->expanded_count++] = key;
    for (int64_t i = 0; i < graph->degree && slots[i] < graph->n; i++) row_meet(steps, slots[i]);
    walk->hops++;
}

/* Marks the best `parents` unexpanded entries from place *at on; *at is where the next one is, or the end. */
static int64_t parents_take(struct walk *walk, int64_t *at, uint64_t *parents) {
    int64_t count = 0, place = *at;
    for (; place < walk->count && place < walk->beam; place++) {
        if (walk->keys[place] & 1) continue;
        if (count == walk->parents) break;
        parents[count++] = walk->keys[place];
        walk->keys[place] |= 1;
    }
    *at = place;
    return count;
}

static void walk_run(struct steps *steps, int64_t entries) {
    const struct graph *graph = steps->graph;
    struct walk *walk = steps->walk;
    uint64_t parents[GRAPH_PARENTS_MAX];
    walk->count = walk->expanded_count = walk->hops = walk->distances = 0;
    for (int64_t i = 0; i < entries; i++)
        if (graph->entries[i] < graph->n) row_meet(steps, graph->entries[i]);
    fresh_offer(steps);
    for (int64_t at = 0, count; (count = parents_take(walk, &at, parents)) > 0;) {
        if (at < walk->count) slots_prefetch(graph, walk->keys[at]); /* the runner-up is often the next one */
        steps->first = walk->count;
        for (int64_t i = 0; i < count; i++) row_expand(steps, parents[i]);
        fresh_offer(steps);
        if (steps->first < at) at = steps->first;
        if (at < walk->count) slots_prefetch(graph, walk->keys[at]);
    }
}

/* The larger table has a frame of its own, so that a narrow walk does not touch it. */
static __attribute__((noinline)) void walk_wide(struct steps *steps, int64_t entries) {
    uint32_t visited[VISITED_WIDE];
    memset(visited, 0xff, sizeof visited);
    steps->visited = visited, steps->visited_shift = 18;
    walk_run(steps, entries);
}

static __attribute__((noinline)) void walk_narrow(struct steps *steps, int64_t entries) {
    uint32_t visited[VISITED];
    memset(visited, 0xff, sizeof visited);
    steps->visited = visited, steps->visited_shift = 20;
    walk_run(steps, entries);
}

void graph_walk(const struct graph *graph, int64_t entries, const struct aim *aim, struct walk *walk) {
    struct steps steps;
    steps.graph = graph, steps.aim = aim, steps.points = aim->points, steps.walk = walk;
    steps.list = walk->list ? walk->list : walk->beam;
    steps.fresh_count = steps.first = 0;
    if (walk->beam > VISITED_WIDE_BEAM)
        walk_wide(&steps, entries);
    else
        walk_narrow(&steps, entries);
}
