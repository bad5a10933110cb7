/* After a build every row must be reached from the entry points: which are, and a place for those that are not.
 *
 * A row that is not reached walks the graph: everything that it finds is reached. It becomes a neighbour of the nearest one
 * that has a slot left; if all are full it is put into the edge from the nearest one to that one's farthest neighbour. The
 * latter stays reached, through the new row, whose own farthest neighbour it replaces; so nothing that was reached is ever
 * cut off, at any degree, and every row is dealt with once. Copies are what mostly needs it. */
#include "index/vamana.h"

#include "base/progress.h"

#include <string.h>

static inline bool marked(const uint64_t *marks, uint32_t row) { return marks[row >> 6] >> (row & 63) & 1; }
static inline void mark(uint64_t *marks, uint32_t row) { marks[row >> 6] |= UINT64_C(1) << (row & 63); }
static uint64_t marks_bytes(int64_t n) { return ((uint64_t)n + 63) / 64 * sizeof(uint64_t); }

/* Goes on from queue[at .. end) and what it adds there; returns how many the queue has then. */
static int64_t reach_on(const struct graph *graph, uint32_t *queue, int64_t at, int64_t end, int64_t count, uint64_t *marks) {
    for (; at < count && at < end; at++) {
        const uint32_t *slots = graph_row(graph, queue[at]);
        for (int64_t i = 0; i < graph->degree && slots[i] < graph->n; i++)
            if (!marked(marks, slots[i])) {
                mark(marks, slots[i]);
                queue[count++] = slots[i];
            }
    }
    return count;
}

int64_t graph_reach(const struct graph *graph, uint32_t *queue, int64_t count, uint64_t *marks) {
    return reach_on(graph, queue, 0, INT64_MAX, count, marks);
}

/* HOSTS nearest reached rows for each of a run of rows that are not. */
enum { HOSTS = 16, RUN_ROWS = 4096, REACH_ROWS = 16384 };

uint64_t graph_repair_bytes(int64_t n) {
    return marks_bytes(n) + (uint64_t)n * sizeof(uint32_t) + RUN_ROWS * (HOSTS + 1) * sizeof(uint32_t);
}

struct repair {
    struct graph *graph;
    uint32_t *slots; /* its neighbours */
    uint64_t *marks;
    uint32_t *queue; /* n: rows to go on from */
    uint32_t *lost, *hosts;
    int64_t lost_count, reached;
    struct progress progress;
};

static void hosts_part(void *argument, int worker, int64_t part) {
    struct repair *repair = argument;
    int8_t codes[DIM_MAX];
    uint64_t keys[2 * HOSTS];
    (void)worker;
    struct aim aim = aim_at_row(&repair->graph->points, repair->lost[part], codes);
    struct walk walk = {.keys = keys, .beam = 2 * HOSTS, .parents = 1};
    graph_walk(repair->graph, repair->graph->entry_count, &aim, &walk);
    for (int64_t i = 0; i < HOSTS; i++) repair->hosts[part * HOSTS + i] = i < walk.count ? walk_key_row(keys[i]) : slot_unused;
}

static void row_tie(struct repair *repair, uint32_t row, const uint32_t *hosts) {
    int64_t degree = repair->graph->degree;
    for (int64_t i = 0; i < HOSTS && hosts[i] != slot_unused; i++) {
        uint32_t *slots = repair->slots + (int64_t)hosts[i] * degree;
        int64_t used = slots_used(slots, degree);
        if (used == degree) continue;
        slots[used] = row;
        return;
    }
    uint32_t *slots = repair->slots + (int64_t)hosts[0] * degree, *own = repair->slots + (int64_t)row * degree;
    uint32_t moved = slots[degree - 1];
    int64_t used = slots_used(own, degree);
    slots[degree - 1] = row;
    for (int64_t i = 0; i < used; i++)
        if (own[i] == moved) return;
    own[used < degree ? used : degree - 1] = moved;
}

/* Up to RUN_ROWS of the rows that are not reached, from `first` on; returns where to go on. */
static int64_t lost_find(struct repair *repair, int64_t first) {
    repair->lost_count = 0;
    for (; first < repair->graph->n && repair->lost_count < RUN_ROWS; first++)
        if (!marked(repair->marks, (uint32_t)first)) repair->lost[repair->lost_count++] = (uint32_t)first;
    return first;
}

/* All that is reached from the `count` marked rows of the queue, with looks at the hook. */
static enum vic_status reach_all(struct repair *repair, int64_t count) {
    enum vic_status status = VIC_OK;
    int64_t n = repair->graph->n, before = repair->reached;
    for (int64_t at = 0; at < count && status == VIC_OK; at += REACH_ROWS) {
        count = reach_on(repair->graph, repair->queue, at, at + REACH_ROWS, count, repair->marks);
        repair->reached = before + count;
        status = progress_step(&repair->progress, repair->reached < n ? repair->reached : n - 1);
    }
    return status;
}

/* A place for each of the lost rows. */
static enum vic_status lost_tie(struct repair *repair) {
    enum vic_status status = VIC_OK;
    for (int64_t i = 0; i < repair->lost_count && status == VIC_OK; i++) {
        uint32_t row = repair->lost[i];
        if (marked(repair->marks, row)) continue; /* an earlier one led here */
        row_tie(repair, row, repair->hosts + i * HOSTS);
        mark(repair->marks, row);
        repair->queue[0] = row;
        status = reach_all(repair, 1);
        repair->graph->repairs++;
    }
    return status;
}

static enum vic_status repair_run(struct repair *repair, struct thread_pool *pool) {
    struct graph *graph = repair->graph;
    enum vic_status status = VIC_OK;
    memset(repair->marks, 0, (size_t)marks_bytes(graph->n));
    for (int64_t i = 0; i < graph->entry_count; i++) mark(repair->marks, graph->entries[i]);
    memcpy(repair->queue, graph->entries, (size_t)graph->entry_count * sizeof *repair->queue);
    TRY(reach_all(repair, graph->entry_count));
    for (int64_t first = 0; first < graph->n;) {
        first = lost_find(repair, first);
        const struct progress_job hosts = {hosts_part, repair, repair->lost_count, repair->reached, 0};
        TRY(progress_run(&repair->progress, pool, &hosts));
        TRY(lost_tie(repair));
    }
    TRY(progress_step(&repair->progress, graph->n));
done:
    return status;
}

enum vic_status graph_repair(struct thread_pool *pool, struct graph *graph, const struct vic_progress *hook) {
    uint64_t n = (uint64_t)graph->n;
    void *marks = NULL, *queue = NULL, *lost = NULL, *hosts = NULL;
    enum vic_status status = VIC_OK;
    TRY(mem_alloc(graph->mem, marks_bytes(graph->n), "marks of reached rows", &marks));
    TRY(mem_alloc_array(graph->mem, n, sizeof(uint32_t), "rows to go on from", &queue));
    TRY(mem_alloc_array(graph->mem, RUN_ROWS, sizeof(uint32_t), "rows that are not reached", &lost));
    TRY(mem_alloc_array(graph->mem, RUN_ROWS * HOSTS, sizeof(uint32_t), "their hosts", &hosts));
    struct repair repair = {
        .graph = graph, .slots = graph->own_neighbours, .marks = marks, .queue = queue, .lost = lost, .hosts = hosts};
    repair.progress = progress_start(hook, "reaching every row", graph->n);
    status = repair_run(&repair, pool);
done:
    mem_free(graph->mem, hosts, RUN_ROWS * HOSTS * sizeof(uint32_t));
    mem_free(graph->mem, lost, RUN_ROWS * sizeof(uint32_t));
    mem_free(graph->mem, queue, n * sizeof(uint32_t));
    mem_free(graph->mem, marks, marks_bytes(graph->n));
    return status;
}
