/* Rows as product codes (quant/pq.h): the fewest bytes a row, and the coarsest distances. A query costs a table first, as much
 * as some hundred distances; then a distance is an addition a chunk. Lists are twice as long as the beam, so that rows that
 * the codes misjudge still get the score that orders them rightly. */
#include "index/vamana.h"

#include <inttypes.h>

static int64_t room_bytes(const struct points *points) { return pq_table_room(&points->product->pq) * (int64_t)sizeof(float); }

static enum vic_status open_pq(struct vic_device *device, const struct rows *rows, bool build, struct graph *graph,
                               struct points *points) {
    const struct graph_product *product = graph->product;
    (void)device, (void)build;
    if (!product) return VIC_OK;
    int64_t chunks = product->pq.parts.chunks;
    *points = (struct points){.n = rows->n,
                              .row_bytes = chunks,
                              .ahead = (const char *)product->codes,
                              .ahead_bytes = chunks,
                              .rows = rows,
                              .product = product};
    if (chunks <= GRAPH_PQ_CHUNKS_MAX) points->kind = &points_pq;
    return VIC_OK;
}

static void aim_pq(const struct points *points, const struct vic_matrix *query, void *room, struct aim *aim) {
    *aim = (struct aim){.points = points};
    pq_table_fill(&points->product->pq, points->rows->metric, query->dtype, query->data, room, &aim->table);
}

static void distances_pq(const struct points *points, const struct aim *aim, const uint32_t *rows, int64_t n,
                         float *distances) {
    pq_distances(&aim->table, points->product->codes, points->product->pq.parts.chunks, rows, n, distances);
}

static int64_t list_pq(int64_t beam) { return 2 * beam < GRAPH_BEAM_MAX ? 2 * beam : GRAPH_BEAM_MAX; }

const struct point_kind points_pq = {"pq", VIC_CODES_PQ, open_pq, room_bytes, aim_pq, distances_pq, list_pq};

/* ---------------------------------------------------------------- memory */

static uint64_t codes_bytes(int64_t n, int64_t chunks) { return (uint64_t)n * (uint64_t)chunks; }

uint64_t graph_product_bytes(int64_t n, int64_t dim, int64_t chunks) {
    return sizeof(struct graph_product) + pq_bytes(dim, chunks, PQ_CENTRES, false) + codes_bytes(n, chunks);
}

uint64_t graph_product_build_bytes(int64_t n, int64_t dim, int64_t chunks, int threads) {
    const struct pq_training training = {.chunks = chunks};
    uint64_t train = pq_train_bytes(n, dim, &training, threads), encode = pq_encode_bytes(n, dim, threads);
    return train > encode ? train : encode;
}

uint64_t graph_product_host_bytes(const struct graph *graph) {
    const struct graph_product *product = graph->product;
    if (!product) return 0;
    uint64_t codes = product->own_codes ? codes_bytes(graph->n, product->pq.parts.chunks) : 0;
    return sizeof *product + product->pq.bytes + codes;
}

void graph_product_free(struct graph *graph) {
    struct graph_product *product = graph->product;
    if (!product) return;
    mem_free(graph->mem, product->own_codes, codes_bytes(graph->n, product->pq.parts.chunks));
    pq_free(&product->pq);
    mem_free(graph->mem, product, sizeof *product);
    graph->product = NULL;
}

static enum vic_status product_alloc(struct vic_device *device, struct graph *graph) {
    void *memory = NULL;
    graph->mem = &device->host;
    enum vic_status status = mem_alloc(graph->mem, sizeof *graph->product, "a graph's product codes", &memory);
    if (status != VIC_OK) return status;
    graph->product = memory;
    *graph->product = (struct graph_product){0};
    return VIC_OK;
}

enum vic_status graph_product_make(struct vic_device *device, const struct rows *rows, int64_t chunks,
                                   const struct vic_progress *hook, struct graph *graph) {
    const struct pq_training training = {.chunks = chunks};
    struct graph_product *product;
    enum vic_status status = product_alloc(device, graph);
    if (status != VIC_OK) return status;
    product = graph->product;
    TRY(pq_train(device, rows, &training, hook, &product->pq));
    TRY(mem_alloc(graph->mem, codes_bytes(rows->n, chunks), "the product codes of rows", &product->own_codes));
    TRY(pq_encode(device, &product->pq, rows, hook, product->own_codes, &product->error));
    product->codes = product->own_codes;
    TRY(open_pq(device, rows, false, graph, &graph->kinds[POINTS_PQ]));
done:
    if (status != VIC_OK) graph_product_free(graph);
    return status;
}

enum vic_status graph_product_take(struct vic_device *device, const struct product_parts *parts, const char *where,
                                   struct graph *graph) {
    enum vic_status status = product_alloc(device, graph);
    if (status == VIC_OK) status = pq_open(device, &parts->pq, where, &graph->product->pq);
    if (status != VIC_OK) {
        graph_product_free(graph);
        return status;
    }
    graph->product->codes = parts->codes;
    graph->product->error = parts->error;
    return VIC_OK;
}

enum vic_status graph_product_check(struct vic_device *device, const struct rows *rows, const struct graph *graph,
                                    const char *where, const struct vic_progress *hook) {
    const struct graph_product *product = graph->product;
    struct pq_error error;
    if (!product) return VIC_OK;
    int64_t chunks = product->pq.parts.chunks, centres = product->pq.parts.centres;
    for (int64_t i = 0; i < rows->n * chunks; i++)
        if (product->codes[i] >= centres)
            return status_fail(VIC_FORMAT,
                               "%s: section pq_codes: expected centres below %" PRId64 ", found %d in row %" PRId64
                               ", chunk %" PRId64,
                               where, centres, product->codes[i], i / chunks, i % chunks);
    enum vic_status status = pq_measure(device, &product->pq, rows, hook, product->codes, &error);
    if (status != VIC_OK || (error.mean == product->error.mean && error.largest == product->error.largest)) return status;
    return status_fail(VIC_FORMAT, "%s: section pq_error: expected %.17g and %.17g, found %.17g and %.17g", where, error.mean,
                       error.largest, product->error.mean, product->error.largest);
}
