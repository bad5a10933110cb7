/* The rows themselves: a distance is the canonical score, turned round where larger is better. Nothing is lost and nothing is
 * kept in memory beside the rows, but a row of float32 is four times as much to read as its 8-bit codes. Integer rows are
 * walked over in no other way: exact sums of bytes for a query of their type, canonical sums for a float32 one. */
#include "index/vamana.h"

/* A query as float32 and, for rows that are scaled before they are scored, one row. */
static int64_t room_bytes(const struct points *points) { return 2 * points->rows->dim * (int64_t)sizeof(float); }

static enum vic_status rows_open(struct vic_device *device, const struct rows *rows, bool build, struct graph *graph,
                                 struct points *points) {
    (void)graph, (void)build;
    int64_t row_bytes = rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
    *points = (struct points){.n = rows->n,
                              .row_bytes = row_bytes + (rows->norms ? (int64_t)sizeof *rows->norms : 0),
                              .ahead = rows->norms ? (const char *)rows->norms : rows->data,
                              .ahead_bytes = rows->norms ? (int64_t)sizeof *rows->norms : row_bytes,
                              .rows = rows,
                              .codes = dtype_is_integer(rows->dtype) ? rows->data : NULL, /* asked for ahead */
                              .stride_bytes = dtype_is_integer(rows->dtype) ? row_bytes : 0,
                              .ops = device->host_ops,
                              .backend = device->host_backend,
                              .kind = &points_rows};
    return VIC_OK;
}

static void rows_aim(const struct points *points, const struct vic_matrix *query, void *room, struct aim *aim) {
    *aim = (struct aim){.points = points};
    points->ops->aim(points->backend, points->rows, query, room, &aim->row);
}

static void rows_distances(const struct points *points, const struct aim *aim, const uint32_t *rows, int64_t n,
                           float *distances) {
    aim->row.scores(&aim->row, rows, n, distances);
    for (int64_t i = 0; points->rows->metric != VIC_L2 && i < n; i++) distances[i] = -distances[i];
}

static int64_t list(int64_t beam) { return beam; }

const struct point_kind points_rows = {"rows", VIC_CODES_ROWS, rows_open, room_bytes, rows_aim, rows_distances, list};
