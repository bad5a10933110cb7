/* A graph over the rows of an index (Vamana): whoever is near is reached by a few hops from any place.
 *
 * The graph is `degree` slots a row, the nearest neighbours first, unused slots at the end. It is built over 8-bit codes of
 * the rows (the plane of docs/certified.md), or over the rows where those are bytes, and walked over these or another kind of
 * points, and what a search returns is scored on the rows themselves. Building and searching are pure functions of
 * their input: the same graph and the same hits, byte for byte, for any number of threads and on every processor.
 *
 * The surprising rule: a file's slots are not trusted. A walk stops reading a row's slots at the first one that names no row,
 * so the worst that a damaged graph can do is a wrong answer. */
#ifndef INDEX_VAMANA_H
#define INDEX_VAMANA_H

#include "base/json_text.h"
#include "base/thread.h"
#include "base/topk.h"
#include "quant/pq.h"
#include "quant/quantizer.h"

enum {
    GRAPH_DEGREE_MAX = 512,
    GRAPH_BEAM_MAX = 2048, /* lists lie on the stack; a wider beam is a scan's work */
    GRAPH_BUILD_BEAM_MAX = 1024,
    GRAPH_PARENTS_MAX = 8,
    GRAPH_PQ_CHUNKS_MAX = 1024,
    GRAPH_ENTRIES_MOST = 8,  /* that a build makes */
    GRAPH_ENTRIES_MAX = 256, /* that a file may have */
    GRAPH_ROWS_LEAST = 4096  /* fewer rows are scanned as fast as they are walked */
};
static const int64_t graph_rows_most = INT64_C(1) << 31; /* a walk keeps a row's number and a flag in 32 bits */
static const uint32_t slot_unused = UINT32_MAX;

/* ---- points: rows as a walk sees them, in one of several kinds */
enum { POINTS_8, POINTS_4, POINTS_ROWS, POINTS_PQ, POINT_KINDS };

/* The distance of codes is scale * sum of products. */
struct point_term {
    float scale, square; /* square: the length of the decoded row, squared */
};

/* The rows of one index in one kind. What it points to is the corpus's or the graph's. */
struct points {
    const struct point_kind *kind; /* NULL: the index does not have it */
    int64_t n, row_bytes;          /* row_bytes: what a look at a row reads */
    const char *ahead;             /* what points_ask asks for beside codes, row i's at ahead + i * ahead_bytes */
    int64_t ahead_bytes;
    const struct rows *rows;
    /* Codes. */
    const uint8_t *codes;
    int64_t stride_bytes;
    const struct point_term *terms; /* NULL: no lengths are asked for, and so the scales are enough */
    const float *scale;
    bool inner; /* rows are compared by inner product while a graph is built, else by squared distance */
    code_sums *sums;
    /* In a build. */
    const struct pair_kind *pairs;
    byte_sums *products, *squares; /* integer rows; with them codes are the rows and stride_bytes is dim */
    const double *inverse;         /* one over each row's length, 0 for a zero row; NULL: no cosines are asked for */
    /* Rows. */
    const struct backend_ops *ops;
    const struct backend *backend;
    /* Product codes. */
    const struct graph_product *product;
};

/* What distances are measured from, a query or a row. Codes:
 *     (factor * scale) * product + (base + weight * square) */
struct aim {
    const struct points *points;
    const int8_t *codes; /* a signed one for each of the rows' */
    int32_t bias;        /* what the offset of the rows' codes adds: it times the sum of these codes */
    float factor, base, weight;
    const void *bytes;     /* a row of integers, in a build */
    double inverse;        /* one over its length */
    struct row_aim row;    /* rows */
    struct pq_table table; /* product codes */
};

/* Asks for what distances of rows[0..n) read; of long rows for the beginning, behind which the processor follows by itself.
 * Inlined at all costs: GCC takes a function that does nothing but ask for one without effect and drops the call. */
enum { ASK_BYTES = 2048 };
static inline __attribute__((always_inline)) void points_ask(const struct points *points, const uint32_t *rows, int64_t n) {
    int64_t code_bytes = points->stride_bytes < ASK_BYTES ? points->stride_bytes : ASK_BYTES;
    for (int64_t i = 0; i < n; i++) {
        __builtin_prefetch(points->ahead + rows[i] * points->ahead_bytes);
        if (code_bytes == 0) continue; /* no codes, and no pointer to count from */
        const uint8_t *codes = points->codes + rows[i] * points->stride_bytes;
        for (int64_t at = 0; at < code_bytes; at += 64) __builtin_prefetch(codes + at);
        if (code_bytes % 64) __builtin_prefetch(codes + code_bytes - 1); /* such rows do not begin with a line */
    }
}

/* Distances a hop takes together. */
enum { WALK_BATCH = 512 };

struct graph;
/* One row of the table a kind. Every distance is a pure function of row and query, the same on every processor: sums of
 * integers and a handful of float operations in a fixed order, or canonical scores. */
struct point_kind {
    const char *name; /* "8", as the program spells it */
    enum vic_codes codes;
    /* Fills in points of an index's rows, or leaves kind NULL where there are none of it. What has to be made is owned by the
     * graph, whose mem is set. rows stay where they are. build: distances will be measured from rows, too. */
    enum vic_status (*open)(struct vic_device *device, const struct rows *rows, bool build, struct graph *graph,
                            struct points *points);
    /* Bytes that aim needs, aligned to 64. */
    int64_t (*room_bytes)(const struct points *points);
    /* At a query, one vector of any type: smaller is nearer, in the metric's own order. room is borrowed by the aim. */
    void (*aim)(const struct points *points, const struct vic_matrix *query, void *room, struct aim *aim);
    /* distances[i] of rows[i], i < n <= WALK_BATCH. */
    void (*distances)(const struct points *points, const struct aim *aim, const uint32_t *rows, int64_t n, float *distances);
    /* How many rows a list has to hold for a beam: coarse distances leave more of them to the canonical score. */
    int64_t (*list)(int64_t beam);
};
extern const struct point_kind *const point_kinds[POINT_KINDS];
extern const struct point_kind points_8, points_4, points_rows, points_pq;

/* The distance of a row, from the sum of its codes and its term. */
static inline float aim_distance(const struct aim *aim, int32_t sum, float scale, float square) {
    return (aim->factor * scale) * (float)(sum - aim->bias) + (aim->base + aim->weight * square);
}
/* For points of codes whose terms go: nothing will be measured from a row, and no metric asks for a length. */
void codes_forget_lengths(struct points *points);

/* ---- product codes of a graph's rows */
struct graph_product {
    struct pq pq;
    const uint8_t *codes; /* chunks bytes a row */
    struct pq_error error;
    void *own_codes; /* NULL: they lie in a mapped file */
};

/* The same as a file has it. */
struct product_parts {
    struct pq_parts pq;
    const uint8_t *codes; /* NULL: none */
    struct pq_error error;
};

/* Trains and codes all rows, for a graph that is built; or takes what a file has. Owned by the graph. */
enum vic_status graph_product_make(struct vic_device *device, const struct rows *rows, int64_t chunks,
                                   const struct vic_progress *hook, struct graph *graph);
enum vic_status graph_product_take(struct vic_device *device, const struct product_parts *parts, const char *where,
                                   struct graph *graph);
/* Whether every code names a centre and the error is that of the codes; VIC_FORMAT names section, row and chunk. */
enum vic_status graph_product_check(struct vic_device *device, const struct rows *rows, const struct graph *graph,
                                    const char *where, const struct vic_progress *hook);
/* Bytes that they keep, that making them needs beside that, and that a graph holds for them. */
uint64_t graph_product_bytes(int64_t n, int64_t dim, int64_t chunks);
uint64_t graph_product_build_bytes(int64_t n, int64_t dim, int64_t chunks, int threads);
uint64_t graph_product_host_bytes(const struct graph *graph);
void graph_product_free(struct graph *graph);

/* ---- the graph */

/* Where a graph comes from, as its file says; builder "": it does not. */
struct graph_origin {
    char builder[32]; /* "vicinal 2": who built it; the number changes when the same rows and options give another graph */
    int32_t beam;
    float alpha;
};

struct graph {
    const uint32_t *neighbours; /* row i's at neighbours + i * degree */
    int64_t n, degree;
    const uint32_t *entries; /* where walks begin */
    int64_t entry_count;
    int64_t repairs; /* rows that the build had to tie in */
    struct graph_origin origin;
    struct points points; /* what it is built over: 8-bit codes, or integer rows */
    struct points kinds[POINT_KINDS];
    /* What this struct owns, NULL when the bytes lie in a mapped file. */
    struct mem *mem;
    void *own_neighbours, *own_entries, *own_terms[PLANE_COUNT], *own_inverse;
    struct graph_product *product; /* NULL: none */
    struct graph_rooms *rooms;     /* NULL: the stack is enough */
};

static inline const uint32_t *graph_row(const struct graph *graph, int64_t row) {
    return graph->neighbours + row * graph->degree;
}
/* Slots in use. */
static inline int64_t slots_used(const uint32_t *slots, int64_t degree) {
    int64_t used = 0;
    while (used < degree && slots[used] != slot_unused) used++;
    return used;
}

/* Integer rows as what a build measures over; the graph's mem is set. */
enum vic_status points_bytes_open(struct vic_device *device, const struct rows *rows, struct graph *graph,
                                  struct points *points);
/* All kinds of points that there are, for a graph whose mem is set. The corpus stays where it is. */
enum vic_status graph_points_open(struct vic_device *device, const struct corpus *corpus, bool build, struct graph *graph);
/* After a build: gives back what only it needed. */
void graph_points_settle(struct graph *graph);
/* Bytes that points keep beside the planes of the index. */
uint64_t graph_points_bytes(const struct rows *shape, int32_t planes);
/* What a search with this option is walked over; 0: the first kind there is. Integer rows are their own 8-bit codes. NULL: the
 * index does not have it. */
const struct points *graph_points(const struct graph *graph, enum vic_codes codes);
/* Host memory that it owns. */
uint64_t graph_host_bytes(const struct graph *graph);
/* Frees what it owns and zeroes it. */
void graph_free(struct graph *graph);

/* ---- rooms: what an aim needs lies on its caller's stack, or, where that is much, in memory of the graph's that searches take
 * turns with. So a search gets by with 256 KiB of stack whatever its dimensions, and still allocates nothing. */
enum { ROOM_NARROW = 1 << 13, ROOM_STACK = 1 << 16 };
struct graph_rooms;
/* Makes them where a kind of the graph's points needs more than ROOM_STACK. */
enum vic_status graph_rooms_make(struct vic_device *device, struct graph *graph);
void graph_rooms_free(struct graph *graph);
/* Bytes of those, for a plan; pq_chunks 0: no product codes. */
uint64_t graph_rooms_bytes(const struct vic_device *device, int64_t dim, int64_t pq_chunks);
uint64_t graph_rooms_host_bytes(const struct graph *graph);
/* Waits for one; it takes any kind's aim. Given back by the same number. */
int room_claim(struct graph_rooms *rooms, void **room);
void room_give(struct graph_rooms *rooms, int number);

/* ---- walking. A key is a distance's order above a row's number and a flag; smaller is nearer. */
static inline uint64_t walk_key(float distance, uint32_t row) {
    return (uint64_t)score_to_order(distance + 0.0f, false) << 32 | (uint64_t)row << 1;
}
static inline uint32_t walk_key_row(uint64_t key) { return (uint32_t)key >> 1; }

/* The nearest seen so far, ascending; the lowest bit of a key: its neighbours have been looked at. */
struct walk {
    uint64_t *keys; /* borrowed, `list` of them */
    int64_t count, parents;
    int64_t beam;       /* the nearest of the list that may be expanded */
    int64_t list;       /* rows kept; 0: beam */
    uint64_t *expanded; /* keys whose neighbours were looked at, in that order, or NULL */
    int64_t expanded_count, expanded_most;
    int64_t hops, distances;
};
/* From the entry points (or the first `entries` of them) towards `aim`, over its points. */
void graph_walk(const struct graph *graph, int64_t entries, const struct aim *aim, struct walk *walk);

/* ---- pruning: few neighbours that lead everywhere */
enum { PRUNE_MOST = 750 };

/* Candidates that are still in the race, nearest first. */
struct rivals {
    int64_t count;
    uint32_t rows[PRUNE_MOST];
    float distance[PRUNE_MOST], factor[PRUNE_MOST]; /* from the row; how much nearer a chosen one lies */
    float square[PRUNE_MOST];                       /* their squared lengths, where those are asked for */
    float scale[PRUNE_MOST];                        /* of codes */
    int32_t bias[PRUNE_MOST];                       /* of an aim at them: of codes */
    uint64_t *dropped;                              /* keys, under an inner product; no copies of chosen ones */
    int64_t dropped_count;
};

/* What a build measures with, beside the `distances` of its points: one for codes, one for integer rows. */
struct pair_kind {
    /* From a row: squared Euclidean distances (cosine: of rows at unit length), or with `inner` the negative inner products.
     * The same both ways, and 0 from a copy. codes: room for stride_bytes of them, borrowed. */
    struct aim (*at_row)(const struct points *points, uint32_t row, int8_t *codes);
    float (*square)(const struct points *points, uint32_t row); /* the row's length, squared */
    /* Towards a mean of rows, and from it; no inner products. */
    void (*mean_add)(const struct points *points, uint32_t row, int64_t count, double *mean); /* a count-th of the row */
    struct aim (*at_mean)(const struct points *points, const double *mean, int8_t *codes);
    /* Fills in what is kept of rivals beside row and distance, and brings the rows into the caches. */
    void (*rivals_read)(const struct points *points, struct rivals *rivals);
    /* apart[i]: the distance of rival `at` from rival first + i, i < count <= WALK_BATCH. */
    void (*rivals_apart)(const struct points *points, const struct rivals *rivals, int64_t at, int64_t first, int64_t count,
                         float *apart);
};
extern const struct pair_kind pairs_codes, pairs_bytes;

static inline struct aim aim_at_row(const struct points *points, uint32_t row, int8_t *codes) {
    return points->pairs->at_row(points, row, codes);
}
static inline void points_distances(const struct points *points, const struct aim *aim, const uint32_t *rows, int64_t n,
                                    float *distances) {
    points->kind->distances(points, aim, rows, n, distances);
}
/* Chooses at most `degree` of count candidate keys for `row`, in any order and with repeats, into `chosen`, in the order in
 * which they were chosen. candidates: room for 2 * count keys, overwritten. */
int64_t points_prune(const struct points *points, uint32_t row, uint64_t *candidates, int64_t count, int64_t degree,
                     float alpha, uint64_t *chosen);

/* ---- what a file's `meta` says of a graph */
/* Adds it to the object; false: no memory. Nothing where the origin is not known. */
bool graph_meta_put(json_t *meta, const struct graph *graph);
/* What is there and makes sense. For people, so nothing is refused. */
void graph_meta_take(const json_t *meta, struct graph *graph);

/* ---- build, repair, check */
struct graph_options {
    int64_t degree, beam, pq_chunks; /* pq_chunks 0: no product codes */
    float alpha;
    bool force;
};
/* Defaults and limits; VIC_ARGUMENT names the option. */
enum vic_status graph_options_take(const struct vic_graph_options *given, struct graph_options *options);
/* Bytes that a graph of n rows keeps, apart from its points, and what building it needs beside that. */
uint64_t graph_bytes(int64_t n, const struct graph_options *options);
uint64_t graph_build_bytes(int64_t n, const struct graph_options *options);
enum vic_status graph_build(struct vic_device *device, const struct corpus *corpus, const struct graph_options *options,
                            const struct vic_progress *hook, struct graph *graph);
/* Ties in every row that no walk could reach, into graph->own_neighbours; counts them in graph->repairs. */
uint64_t graph_repair_bytes(int64_t n);
enum vic_status graph_repair(struct thread_pool *pool, struct graph *graph, const struct vic_progress *hook);

struct graph_report {
    int64_t rows, edges, symmetric; /* symmetric: edges whose other direction is there too */
    int64_t unreached, least_degree, most_degree;
    int64_t histogram[GRAPH_DEGREE_MAX + 1]; /* rows by degree */
};
/* Judges slots and entry points; VIC_FORMAT names the first row and slot that is wrong, or the first row that is not reached.
 * The report is filled as far as the judge came; it may be NULL. */
enum vic_status graph_check(const struct graph *graph, struct mem *mem, const char *where, struct graph_report *report);
/* Marks every row that can be reached from those in queue[0..count), already marked; queue has room for all rows. */
int64_t graph_reach(const struct graph *graph, uint32_t *queue, int64_t count, uint64_t *marks);

#endif
