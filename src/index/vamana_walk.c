/* The walk: from the entry points to where nobody nearer is seen any more, with a list of the `beam` nearest.
 *
 * A hop takes the best `parents` entries that have not been expanded and offers all their neighbours. The list keeps its
 * best; what falls out of it can never come back, since the worst entry only gets better. A list may hold more than the beam:
 * what lies behind it is kept and never expanded, which changes nothing in front. So the result does not depend on
 * the order within a hop, nor on how visited rows are remembered: a table that forgets saves most distances, and repeats
 * are found in the list. */
#include "index/vamana.h"

#include <string.h>

enum { VISITED_BITS = 12, VISITED_WIDE_BITS = 14, VISITED_WIDE_BEAM = 160, SLOT_BLOCK = 64 };

struct steps {
    const struct graph *graph;
    const struct aim *aim;
    const struct points *points; /* the aim's */
    struct walk *walk;
    int64_t list; /* rows that are kept */
    uint32_t *visited;
    uint32_t visited_shift;
    int64_t at; /* the best place that may not have been expanded */
    int64_t fresh_count;
    uint32_t fresh[WALK_BATCH];
};

/* Into the ascending list, unless it is there. */
static inline void walk_offer(struct steps *steps, uint64_t key) {
    struct walk *walk = steps->walk;
    uint64_t *keys = walk->keys;
    int64_t low = 0, count = walk->count;
    if (count == steps->list && key >= (keys[count - 1] & ~UINT64_C(1))) return;
    for (int64_t length = count; length > 0; length /= 2) { /* without a branch on what cannot be foretold */
        int64_t half = (length + 1) / 2;
        low += half & -(int64_t)(keys[low + half - 1] < key);
    }
    if (low < count && (keys[low] & ~UINT64_C(1)) == key) return;
    if (count < steps->list) walk->count = ++count;
    memmove(keys + low + 1, keys + low, (size_t)(count - 1 - low) * sizeof *keys);
    keys[low] = key;
    if (low < steps->at) steps->at = low;
}

/* Most fresh rows are too far: they are sifted out without a branch, since which ones cannot be foretold. */
static void fresh_offer(struct steps *steps) {
    struct walk *walk = steps->walk;
    float distances[WALK_BATCH];
    uint64_t near[WALK_BATCH];
    uint64_t most = walk->count == steps->list ? walk->keys[walk->count - 1] : UINT64_MAX;
    int64_t count = 0;
    steps->points->kind->distances(steps->points, steps->aim, steps->fresh, steps->fresh_count, distances);
    for (int64_t i = 0; i < steps->fresh_count; i++) {
        near[count] = walk_key(distances[i], steps->fresh[i]);
        count += near[count] < most;
    }
    for (int64_t i = 0; i < count; i++) walk_offer(steps, near[i]);
    walk->distances += steps->fresh_count;
    steps->fresh_count = 0;
}

/* The rows of slots[0..count) that the table does not know, count <= SLOT_BLOCK. */
static inline void rows_meet(struct steps *steps, const uint32_t *slots, int64_t count) {
    if (steps->fresh_count + count > WALK_BATCH) fresh_offer(steps);
    uint32_t *visited = steps->visited, *fresh = steps->fresh;
    int64_t fresh_count = steps->fresh_count;
    for (int64_t i = 0; i < count; i++) {
        uint32_t row = slots[i], *slot = &visited[row * 2654435761u >> steps->visited_shift];
        fresh[fresh_count] = row;
        fresh_count += *slot != row;
        *slot = row;
    }
    steps->fresh_count = fresh_count;
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
    for (int64_t first = 0, count = SLOT_BLOCK; count == SLOT_BLOCK; first += SLOT_BLOCK) {
        int64_t most = graph->degree - first < SLOT_BLOCK ? graph->degree - first : SLOT_BLOCK;
        for (count = 0; count < most && slots[first + count] < graph->n;) count++;
        rows_meet(steps, slots + first, count);
    }
    walk->hops++;
}

/* Marks the best `parents` unexpanded entries; `at` is then where the next one is, or the end. */
static int64_t parents_take(struct steps *steps, uint64_t *parents) {
    struct walk *walk = steps->walk;
    int64_t count = 0, place = steps->at;
    for (; place < walk->count && place < walk->beam; place++) {
        if (walk->keys[place] & 1) continue;
        if (count == walk->parents) break;
        parents[count++] = walk->keys[place];
        walk->keys[place] |= 1;
    }
    steps->at = place;
    return count;
}

/* False when there is nobody left to expand. The best one's slots, and then the codes of all that are met, are asked for
 * before they are needed. */
static bool walk_hop(struct steps *steps) {
    const struct walk *walk = steps->walk;
    uint64_t parents[GRAPH_PARENTS_MAX];
    if (steps->at < walk->count) slots_prefetch(steps->graph, walk->keys[steps->at]);
    int64_t count = parents_take(steps, parents);
    /* The runner-up is often the next one. */
    if (steps->at < walk->count) slots_prefetch(steps->graph, walk->keys[steps->at]);
    for (int64_t i = 0; i < count; i++) row_expand(steps, parents[i]);
    points_ask(steps->points, steps->fresh, steps->fresh_count);
    return count > 0;
}

static void walk_run(struct steps *steps, int64_t entries, uint32_t *visited, uint32_t bits) {
    struct walk *walk = steps->walk;
    memset(visited, 0xff, sizeof *visited << bits);
    steps->visited = visited, steps->visited_shift = 32 - bits;
    steps->at = steps->fresh_count = 0;
    walk->count = walk->expanded_count = walk->hops = walk->distances = 0;
    for (int64_t i = 0; i < entries; i++)
        if (steps->graph->entries[i] < steps->graph->n) rows_meet(steps, &steps->graph->entries[i], 1);
    points_ask(steps->points, steps->fresh, steps->fresh_count);
    do fresh_offer(steps);
    while (walk_hop(steps));
}

/* The larger table has a frame of its own, so that a narrow walk does not touch it. */
static __attribute__((noinline)) void walk_wide(struct steps *steps, int64_t entries) {
    uint32_t visited[1 << VISITED_WIDE_BITS];
    walk_run(steps, entries, visited, VISITED_WIDE_BITS);
}

static __attribute__((noinline)) void walk_narrow(struct steps *steps, int64_t entries) {
    uint32_t visited[1 << VISITED_BITS];
    walk_run(steps, entries, visited, VISITED_BITS);
}

void graph_walk(const struct graph *graph, int64_t entries, const struct aim *aim, struct walk *walk) {
    struct steps steps;
    steps.graph = graph, steps.aim = aim, steps.points = aim->points, steps.walk = walk;
    steps.list = walk->list ? walk->list : walk->beam;
    if (walk->beam > VISITED_WIDE_BEAM)
        walk_wide(&steps, entries);
    else
        walk_narrow(&steps, entries);
}
