/* Building a graph in batches: every row of a batch walks the graph as it was before the batch, is pruned, and then becomes
 * a neighbour of those it chose. Batches double until they are 2 % of the rows.
 *
 * Who computes what does not matter: a row's walk and prune are functions of the frozen graph, the edges back are brought
 * into the order of (row, distance, source), and a row that they make too full is pruned by itself. So the bytes are the same
 * for any number of threads. Rows come in a random order that depends on their number alone; the entry points come first.
 *
 * Lists may grow to 1.3 times the degree before they are pruned: pruning each time costs twice as much for the same graph.
 * Measured (117,659 x 384, degree 64, beam 100, alpha 1.1): a row costs some 3,000 distances to place and 1,600 to prune. */
#include "index/vamana.h"

#include "base/progress.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

enum {
    SAMPLE_ROWS = 16384,  /* that the middle is taken from */
    LONGEST = 4,          /* entry points of an inner product's graph that are its longest rows */
    SPREAD_ROWS = 1024,   /* that the other entry points are chosen from */
    EXPANDED_MOST = 2048, /* of a walk; prune looks at the nearest 750 */
    TARGET_ROWS = 512,    /* a part of the work on edges back */
    BATCHES_LEAST = 50    /* a batch is at most this part of the rows */
};
static const uint64_t order_seed = 20261130;

struct builder {
    struct thread_pool *pool;
    struct mem *mem;
    const struct graph_options *options;
    struct graph graph; /* growing: `degree` is the room of a row, 1.3 times the degree */
    uint32_t *slots;    /* its neighbours */
    uint32_t *order;    /* rows in the order in which they are placed */
    int64_t batch_most;
    /* One batch: rows order[first .. first + count). */
    int64_t first, count;
    uint64_t *chosen; /* degree keys a row of the batch */
    int32_t *chosen_count;
    uint32_t *starts; /* n + 1: edges back to row t are back[starts[t] .. starts[t + 1]) */
    uint64_t *back;   /* distance's order above the source */
    uint32_t *final;  /* the graph as it will be kept */
};

static int64_t parts_of(int64_t n, int64_t each) { return (n + each - 1) / each; }
static int64_t slots_room(int64_t degree) { return degree + (3 * degree + 9) / 10; }
/* A batch's edges are counted in 32 bits. */
static int64_t batch_rows_most(int64_t n, int64_t degree) {
    int64_t most = n / BATCHES_LEAST > 1 ? n / BATCHES_LEAST : 1;
    return most < UINT32_MAX / degree ? most : UINT32_MAX / degree;
}

uint64_t graph_bytes(int64_t n, const struct graph_options *options) {
    return (uint64_t)n * (uint64_t)options->degree * sizeof(uint32_t) + GRAPH_ENTRIES_MOST * sizeof(uint32_t);
}

/* What builder_open takes, terms of points, and the mean and the repair, each of which is there for a while. */
uint64_t graph_build_bytes(int64_t n, const struct graph_options *options) {
    uint64_t rows = (uint64_t)n, batch = (uint64_t)batch_rows_most(n, options->degree),
             edges = batch * (uint64_t)options->degree;
    uint64_t growing = rows * (uint64_t)slots_room(options->degree) * sizeof(uint32_t);
    uint64_t builder = growing + (2 * rows + 1) * sizeof(uint32_t) + edges * 2 * sizeof(uint64_t) + batch * sizeof(int32_t);
    return builder + rows * sizeof(struct point_term) + DIM_MAX * sizeof(double) + graph_repair_bytes(n);
}

/* ---------------------------------------------------------------- where walks begin, and in which order rows are placed */

/* The row of a sample that lies nearest to its mean. */
static uint32_t middle_find(const struct points *points, double *mean, int8_t *codes) {
    int64_t count = points->n < SAMPLE_ROWS ? points->n : SAMPLE_ROWS;
    float distance = 0, least = INFINITY;
    uint32_t best = 0;
    memset(mean, 0, (size_t)points->stride_bytes * sizeof *mean);
    for (int64_t i = 0; i < count; i++) points->pairs->mean_add(points, (uint32_t)(i * points->n / count), count, mean);
    struct aim aim = points->pairs->at_mean(points, mean, codes);
    for (int64_t i = 0; i < count; i++) {
        uint32_t row = (uint32_t)(i * points->n / count);
        points_distances(points, &aim, &row, 1, &distance);
        if (distance < least) least = distance, best = row;
    }
    return best;
}

/* Under an inner product the longest rows answer most questions, and walks begin at some of those. */
static int64_t longest_find(const struct points *points, uint32_t *entries) {
    float squares[LONGEST];
    int64_t count = 0;
    for (int64_t row = 0; row < points->n; row++) {
        int64_t at = count;
        float square = points->pairs->square(points, (uint32_t)row);
        while (at > 0 && squares[at - 1] < square) at--;
        if (at == LONGEST) continue;
        if (count < LONGEST) count++;
        memmove(entries + at + 1, entries + at, (size_t)(count - 1 - at) * sizeof *entries);
        memmove(squares + at + 1, squares + at, (size_t)(count - 1 - at) * sizeof *squares);
        entries[at] = (uint32_t)row, squares[at] = square;
    }
    return count;
}

/* The middle, or the longest rows, then each time the row of a small sample that lies farthest from those there are, so
 * that every region has a way in. Copies are left out. */
static int64_t entries_choose(const struct points *given, double *mean, int8_t *codes, uint32_t *entries) {
    struct points points = *given;
    uint32_t sample[SPREAD_ROWS];
    float nearest[SPREAD_ROWS], distances[WALK_BATCH];
    int64_t count = points.n < SPREAD_ROWS ? points.n : SPREAD_ROWS, chosen = 1;
    points.inner = false;
    for (int64_t i = 0; i < count; i++) sample[i] = (uint32_t)(i * points.n / count), nearest[i] = INFINITY;
    if (given->inner)
        chosen = longest_find(&points, entries);
    else
        entries[0] = middle_find(&points, mean, codes);
    for (int64_t known = 0; known < chosen; known++) {
        struct aim aim = aim_at_row(&points, entries[known], codes);
        int64_t farthest = 0;
        for (int64_t i = 0; i < count; i++) {
            if (i % WALK_BATCH == 0)
                points_distances(&points, &aim, sample + i, count - i < WALK_BATCH ? count - i : WALK_BATCH, distances);
            if (distances[i % WALK_BATCH] < nearest[i]) nearest[i] = distances[i % WALK_BATCH];
            if (nearest[i] > nearest[farthest]) farthest = i;
        }
        if (known == chosen - 1 && chosen < GRAPH_ENTRIES_MOST && nearest[farthest] > 0) entries[chosen++] = sample[farthest];
    }
    return chosen;
}

static void order_make(struct builder *builder) {
    const struct graph *graph = &builder->graph;
    uint32_t *order = builder->order;
    for (int64_t i = 0; i < graph->n; i++) order[i] = (uint32_t)i;
    for (int64_t i = graph->n - 1; i > 0; i--) {
        struct philox random = philox_block(order_seed, 0, (uint64_t)i);
        int64_t other = (int64_t)(((uint64_t)random.words[0] << 32 | random.words[1]) % (uint64_t)(i + 1));
        uint32_t swapped = order[i];
        order[i] = order[other], order[other] = swapped;
    }
    for (int64_t entry = 0; entry < graph->entry_count; entry++)
        for (int64_t i = entry; i < graph->n; i++)
            if (order[i] == graph->entries[entry]) {
                order[i] = order[entry], order[entry] = graph->entries[entry];
                break;
            }
}

/* ---------------------------------------------------------------- a batch */

static void place_part(void *argument, int worker, int64_t part) {
    struct builder *builder = argument;
    const struct points *points = &builder->graph.points;
    int64_t degree = builder->options->degree;
    uint32_t row = builder->order[builder->first + part];
    uint64_t list[GRAPH_BUILD_BEAM_MAX], expanded[2 * EXPANDED_MOST];
    int8_t codes[DIM_MAX];
    (void)worker;
    struct aim aim = aim_at_row(points, row, codes);
    struct walk walk = {
        .keys = list, .beam = builder->options->beam, .parents = 1, .expanded = expanded, .expanded_most = EXPANDED_MOST};
    graph_walk(&builder->graph, builder->graph.entry_count, &aim, &walk);
    builder->chosen_count[part] = (int32_t)points_prune(points, row, expanded, walk.expanded_count, degree,
                                                        builder->options->alpha, builder->chosen + part * degree);
}

/* The batch's edges, turned round and sorted by the row that they lead to; within a row they are in the batch's order. */
static void edges_turn(struct builder *builder) {
    int64_t degree = builder->options->degree, n = builder->graph.n;
    uint32_t *starts = builder->starts;
    memset(starts, 0, (size_t)(n + 1) * sizeof *starts);
    for (int64_t i = 0; i < builder->count; i++)
        for (int64_t j = 0; j < builder->chosen_count[i]; j++) starts[walk_key_row(builder->chosen[i * degree + j]) + 1]++;
    for (int64_t row = 0; row < n; row++) starts[row + 1] += starts[row];
    for (int64_t i = 0; i < builder->count; i++) {
        uint32_t row = builder->order[builder->first + i];
        uint32_t *slots = builder->slots + (int64_t)row * builder->graph.degree;
        for (int64_t j = 0; j < builder->chosen_count[i]; j++) {
            uint64_t key = builder->chosen[i * degree + j];
            slots[j] = walk_key_row(key);
            builder->back[starts[slots[j]]++] = (key & ~(uint64_t)UINT32_MAX) | (uint64_t)row << 1;
        }
    }
    /* Each start has moved to its row's end, which is the next row's start. */
    memmove(starts + 1, starts, (size_t)n * sizeof *starts);
    starts[0] = 0;
}

/* More neighbours for one row: appended while there is room, else the best of all of them. */
static void row_extend(struct builder *builder, uint32_t row, const uint64_t *back, int64_t count, uint64_t *keys) {
    const struct points *points = &builder->graph.points;
    int64_t room = builder->graph.degree, degree = builder->options->degree;
    uint32_t *slots = builder->slots + (int64_t)row * room;
    int64_t used = slots_used(slots, room);
    for (int64_t i = 0; i < count; i++) keys[i] = ~back[i];
    keys_sort(keys, count, keys + count);
    for (int64_t i = 0; i < count; i++) keys[i] = ~keys[i];
    if (used + count <= room) {
        for (int64_t i = 0; i < count; i++) slots[used + i] = walk_key_row(keys[i]);
        return;
    }
    int8_t codes[DIM_MAX];
    float distances[2 * WALK_BATCH];
    uint64_t chosen[GRAPH_DEGREE_MAX];
    struct aim aim = aim_at_row(points, row, codes);
    points_ask(points, slots, used);
    for (int64_t i = 0; i < used; i += WALK_BATCH)
        points_distances(points, &aim, slots + i, used - i < WALK_BATCH ? used - i : WALK_BATCH, distances + i);
    if (count > PRUNE_MOST) count = PRUNE_MOST;
    for (int64_t i = 0; i < used; i++) keys[count + i] = walk_key(distances[i], slots[i]);
    int64_t kept = points_prune(points, row, keys, count + used, degree, builder->options->alpha, chosen);
    for (int64_t i = 0; i < room; i++) slots[i] = i < kept ? walk_key_row(chosen[i]) : slot_unused;
}

/* All rows may lead to one, so edges back are cut to the nearest by parts of what the stack holds. */
enum { BACK_MOST = 2048 };

static void extend_part(void *argument, int worker, int64_t part) {
    struct builder *builder = argument;
    uint64_t keys[2 * (BACK_MOST + 2 * GRAPH_DEGREE_MAX)];
    int64_t end = (part + 1) * TARGET_ROWS < builder->graph.n ? (part + 1) * TARGET_ROWS : builder->graph.n;
    (void)worker;
    for (int64_t row = part * TARGET_ROWS; row < end; row++)
        for (int64_t at = builder->starts[row], last = builder->starts[row + 1]; at < last; at += BACK_MOST)
            row_extend(builder, (uint32_t)row, builder->back + at, last - at < BACK_MOST ? last - at : BACK_MOST, keys);
}

static enum vic_status batches_place(struct builder *builder, const struct vic_progress *hook) {
    int64_t n = builder->graph.n;
    struct progress progress = progress_start(hook, "building the graph", n);
    enum vic_status status = VIC_OK;
    for (builder->first = builder->graph.entry_count; builder->first < n; builder->first += builder->count) {
        int64_t most = builder->first < builder->batch_most ? builder->first : builder->batch_most;
        builder->count = n - builder->first < most ? n - builder->first : most;
        const struct progress_job place = {place_part, builder, builder->count, builder->first, 1};
        const struct progress_job extend = {extend_part, builder, parts_of(n, TARGET_ROWS), builder->first + builder->count, 0};
        TRY(progress_run(&progress, builder->pool, &place));
        edges_turn(builder);
        TRY(progress_run(&progress, builder->pool, &extend));
        TRY(progress_step(&progress, builder->first + builder->count));
    }
done:
    return status;
}

/* ---------------------------------------------------------------- the end */

/* Rows into the slots that are kept; those that are too full are pruned. */
static void keep_part(void *argument, int worker, int64_t part) {
    struct builder *builder = argument;
    int64_t room = builder->graph.degree, degree = builder->options->degree;
    int64_t end = (part + 1) * TARGET_ROWS < builder->graph.n ? (part + 1) * TARGET_ROWS : builder->graph.n;
    uint64_t keys[4 * GRAPH_DEGREE_MAX], chosen[GRAPH_DEGREE_MAX];
    float distances[2 * WALK_BATCH];
    int8_t codes[DIM_MAX];
    (void)worker;
    for (int64_t row = part * TARGET_ROWS; row < end; row++) {
        const uint32_t *slots = builder->slots + row * room;
        uint32_t *kept = builder->final + row * degree;
        int64_t used = slots_used(slots, room);
        struct aim aim = aim_at_row(&builder->graph.points, (uint32_t)row, codes);
        points_ask(&builder->graph.points, slots, used);
        for (int64_t i = 0; i < used; i += WALK_BATCH)
            points_distances(&builder->graph.points, &aim, slots + i, used - i < WALK_BATCH ? used - i : WALK_BATCH,
                             distances + i);
        for (int64_t i = 0; i < used; i++) keys[i] = walk_key(distances[i], slots[i]);
        if (used > degree) {
            used = points_prune(&builder->graph.points, (uint32_t)row, keys, used, degree, builder->options->alpha, chosen);
            memcpy(keys, chosen, (size_t)used * sizeof *keys);
        }
        for (int64_t i = 0; i < used; i++) keys[i] = ~keys[i];
        keys_sort(keys, used, keys + used);
        for (int64_t i = 0; i < degree; i++) kept[i] = i < used ? walk_key_row(~keys[i]) : slot_unused;
    }
}

static enum vic_status rows_keep(struct builder *builder, const struct vic_progress *hook) {
    int64_t n = builder->graph.n;
    struct progress progress = progress_start(hook, "pruning the graph", n);
    const struct progress_job job = {keep_part, builder, parts_of(n, TARGET_ROWS), 0, TARGET_ROWS};
    enum vic_status status = progress_run(&progress, builder->pool, &job);
    return status == VIC_OK ? progress_step(&progress, n) : status;
}

static enum vic_status builder_open(struct builder *builder, int64_t n) {
    enum vic_status status = VIC_OK;
    uint64_t rows = (uint64_t)n, room = (uint64_t)builder->graph.degree;
    uint64_t most = (uint64_t)builder->batch_most, edges = most * (uint64_t)builder->options->degree;
    void *slots = NULL, *order = NULL, *chosen = NULL, *counts = NULL, *starts = NULL, *back = NULL;
    status = mem_alloc_array(builder->mem, rows, room * sizeof(uint32_t), "a growing graph", &slots);
    builder->slots = slots;
    if (status == VIC_OK) status = mem_alloc_array(builder->mem, rows, sizeof(uint32_t), "an order of rows", &order);
    builder->order = order;
    if (status == VIC_OK) status = mem_alloc_array(builder->mem, edges, sizeof(uint64_t), "a batch's edges", &chosen);
    builder->chosen = chosen;
    if (status == VIC_OK) status = mem_alloc_array(builder->mem, most, sizeof(int32_t), "a batch's degrees", &counts);
    builder->chosen_count = counts;
    if (status == VIC_OK) status = mem_alloc_array(builder->mem, rows + 1, sizeof(uint32_t), "edges back by row", &starts);
    builder->starts = starts;
    if (status == VIC_OK) status = mem_alloc_array(builder->mem, edges, sizeof(uint64_t), "edges back", &back);
    builder->back = back;
    return status;
}

static void builder_close(struct builder *builder, int64_t n) {
    uint64_t rows = (uint64_t)n, most = (uint64_t)builder->batch_most, edges = most * (uint64_t)builder->options->degree;
    mem_free(builder->mem, builder->back, edges * sizeof(uint64_t));
    mem_free(builder->mem, builder->starts, (rows + 1) * sizeof(uint32_t));
    mem_free(builder->mem, builder->chosen_count, most * sizeof(int32_t));
    mem_free(builder->mem, builder->chosen, edges * sizeof(uint64_t));
    mem_free(builder->mem, builder->order, rows * sizeof(uint32_t));
    mem_free(builder->mem, builder->slots, rows * (uint64_t)builder->graph.degree * sizeof(uint32_t));
}

/* The kept graph's memory and the entry points. */
static enum vic_status graph_open(struct builder *builder, const struct rows *rows, struct graph *graph) {
    double *mean = NULL;
    void *memory = NULL;
    int8_t codes[DIM_MAX];
    uint32_t entries[GRAPH_ENTRIES_MOST];
    uint64_t mean_bytes = (uint64_t)graph->points.stride_bytes * sizeof *mean;
    enum vic_status status = mem_alloc(builder->mem, mean_bytes, "the mean of rows", &memory);
    if (status != VIC_OK) return status;
    mean = memory;
    int64_t count = rows->n > 0 ? entries_choose(&graph->points, mean, codes, entries) : 0;
    mem_free(builder->mem, memory, mean_bytes);
    status = mem_alloc_array(builder->mem, (uint64_t)count, sizeof(uint32_t), "a graph's entry points", &graph->own_entries);
    if (status != VIC_OK) return status;
    memcpy(graph->own_entries, entries, (size_t)count * sizeof *entries);
    graph->entries = graph->own_entries, graph->entry_count = count;
    return mem_alloc_array(builder->mem, (uint64_t)rows->n, (uint64_t)graph->degree * sizeof(uint32_t), "a graph",
                           &graph->own_neighbours);
}

enum vic_status graph_build(struct vic_device *device, const struct corpus *corpus, const struct graph_options *options,
                            const struct vic_progress *hook, struct graph *graph) {
    const struct rows *rows = &corpus->rows;
    struct builder builder = {.pool = device->host_ops->pool(device->host_backend),
                              .mem = &device->host,
                              .options = options,
                              .batch_most = batch_rows_most(rows->n, options->degree)};
    enum vic_status status = VIC_OK;
    *graph = (struct graph){.mem = &device->host, .n = rows->n, .degree = options->degree};
    builder.graph.degree = slots_room(options->degree);
    TRY(graph_points_open(device, corpus, true, graph));
    TRY(builder_open(&builder, rows->n));
    TRY(graph_open(&builder, rows, graph));
    builder.graph = *graph;
    builder.graph.degree = slots_room(options->degree);
    builder.graph.neighbours = builder.slots;
    memset(builder.slots, 0xff, (size_t)rows->n * (size_t)builder.graph.degree * sizeof *builder.slots);
    order_make(&builder);
    TRY(batches_place(&builder, hook));
    builder.final = graph->own_neighbours;
    TRY(rows_keep(&builder, hook));
    graph->neighbours = graph->own_neighbours;
    TRY(graph_repair(builder.pool, graph, hook));
done:
    builder_close(&builder, rows->n);
    if (status != VIC_OK) graph_free(graph);
    return status;
}
