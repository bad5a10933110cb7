/* The rows themselves: a distance is the canonical score, turned round where larger is better. Nothing is lost and nothing is
 * kept in memory beside the rows, but a row of float32 is four times as much to read as its 8-bit codes. Integer rows are
 * walked over in no other way: by exact sums of bytes for a query of their type, or a float32 one that has only values of their
 * type; by canonical sums, which take twice as long, for any other. */
#include "index/vamana.h"

#include <math.h>

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

/* A float32 query as one of integers, if it is. */
static bool query_is_whole(const float *query, int64_t dim, enum vic_dtype dtype, uint8_t *bytes) {
    float least = dtype == VIC_I8 ? -128 : 0, most = dtype == VIC_I8 ? 127 : 255;
    for (int64_t i = 0; i < dim; i++) {
        if (!(query[i] >= least && query[i] <= most) || query[i] != truncf(query[i])) return false;
        bytes[i] = (uint8_t)(int32_t)query[i];
    }
    return true;
}

/* The bytes lie where a row that has to be scaled would, which is never one of integers. */
static void rows_aim(const struct points *points, const struct vic_matrix *query, void *room, struct aim *aim) {
    const struct rows *rows = points->rows;
    struct vic_matrix same = *query;
    uint8_t *bytes = (uint8_t *)((float *)room + rows->dim);
    *aim = (struct aim){.points = points};
    if (dtype_is_integer(rows->dtype) && query->dtype == VIC_F32 && query_is_whole(query->data, rows->dim, rows->dtype, bytes))
        same.data = bytes, same.dtype = rows->dtype, same.stride_bytes = rows->dim;
    points->ops->aim(points->backend, rows, &same, room, &aim->row);
}

static void rows_distances(const struct points *points, const struct aim *aim, const uint32_t *rows, int64_t n,
                           float *distances) {
    aim->row.scores(&aim->row, rows, n, distances);
    for (int64_t i = 0; points->rows->metric != VIC_L2 && i < n; i++) distances[i] = -distances[i];
}

static int64_t list(int64_t beam) { return beam; }

const struct point_kind points_rows = {"rows", VIC_CODES_ROWS, rows_open, room_bytes, rows_aim, rows_distances, list};
