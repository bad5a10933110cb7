/* The kinds of points a graph can be walked over, which of them an index has, what it is built over, and who owns the memory.
 */
#include "index/vamana.h"

/* In the order in which a search that names none takes them. */
const struct point_kind *const point_kinds[POINT_KINDS] = {
    [POINTS_8] = &points_8, [POINTS_4] = &points_4, [POINTS_ROWS] = &points_rows, [POINTS_PQ] = &points_pq};

enum vic_status graph_points_open(struct vic_device *device, const struct corpus *corpus, bool build, struct graph *graph) {
    for (int kind = 0; kind < POINT_KINDS; kind++) {
        enum vic_status status = point_kinds[kind]->open(device, &corpus->rows, build, graph, &graph->kinds[kind]);
        if (status != VIC_OK) return status;
    }
    if (build && dtype_is_integer(corpus->rows.dtype)) return points_bytes_open(device, &corpus->rows, graph, &graph->points);
    graph->points = *graph_points(graph, 0);
    return VIC_OK;
}

void graph_points_settle(struct graph *graph) {
    mem_free(graph->mem, graph->own_inverse, (uint64_t)graph->n * sizeof(double));
    graph->own_inverse = NULL;
    graph->points = *graph_points(graph, 0);
    if (graph->points.rows->metric == VIC_L2) return;
    for (int kind = 0; kind < POINT_KINDS; kind++)
        if (graph->kinds[kind].terms) codes_forget_lengths(&graph->kinds[kind]);
    for (int kind = 0; kind < PLANE_COUNT; kind++) {
        mem_free(graph->mem, graph->own_terms[kind], (uint64_t)graph->n * sizeof(struct point_term));
        graph->own_terms[kind] = NULL;
    }
    graph->points = *graph_points(graph, 0);
}

uint64_t graph_points_bytes(const struct rows *shape, int32_t planes) {
    uint64_t bytes = 0;
    if (shape->metric != VIC_L2) return bytes;
    for (int kind = 0; kind < PLANE_COUNT; kind++)
        if (planes & (int32_t)quantizers[kind]->bit) bytes += (uint64_t)shape->n * sizeof(struct point_term);
    return bytes;
}

const struct points *graph_points(const struct graph *graph, enum vic_codes codes) {
    if (codes == VIC_CODES_8 && dtype_is_integer(graph->kinds[POINTS_ROWS].rows->dtype)) codes = VIC_CODES_ROWS;
    for (int kind = 0; kind < POINT_KINDS; kind++)
        if (graph->kinds[kind].kind && (codes == 0 || point_kinds[kind]->codes == codes)) return &graph->kinds[kind];
    return NULL;
}

uint64_t graph_host_bytes(const struct graph *graph) {
    uint64_t n = (uint64_t)graph->n, bytes = 0;
    if (graph->own_neighbours) bytes += n * (uint64_t)graph->degree * sizeof(uint32_t);
    if (graph->own_entries) bytes += (uint64_t)graph->entry_count * sizeof(uint32_t);
    for (int kind = 0; kind < PLANE_COUNT; kind++)
        if (graph->own_terms[kind]) bytes += n * sizeof(struct point_term);
    if (graph->own_inverse) bytes += n * sizeof(double);
    return bytes + graph_product_host_bytes(graph) + graph_rooms_host_bytes(graph);
}

void graph_free(struct graph *graph) {
    uint64_t n = (uint64_t)graph->n;
    if (graph->mem) {
        mem_free(graph->mem, graph->own_neighbours, n * (uint64_t)graph->degree * sizeof(uint32_t));
        mem_free(graph->mem, graph->own_entries, (uint64_t)graph->entry_count * sizeof(uint32_t));
        for (int kind = 0; kind < PLANE_COUNT; kind++)
            mem_free(graph->mem, graph->own_terms[kind], n * sizeof(struct point_term));
        mem_free(graph->mem, graph->own_inverse, n * sizeof(double));
        graph_product_free(graph);
        graph_rooms_free(graph);
    }
    *graph = (struct graph){0};
}
