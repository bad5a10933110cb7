/* The product codes beside a disk index become its graph's. `_pq_pivots.bin` has the centres, `_pq_compressed.bin` a code for
 * every node, and, from optimised product quantisation, `_pq_pivots.bin_rotation_matrix.bin` a rotation. DiskANN subtracts the
 * centroid, then multiplies row vector times matrix, as quant/pq.h does: nothing is computed anew but the error.
 *
 * For inner products DiskANN codes rows divided by the largest norm, with one coordinate more; quant/pq.h has that form too.
 *
 * The surprising rule: codes are only taken where they are of the rows as the index has them. Those for inner products say
 * nothing of other metrics; for cosine DiskANN codes what its nodes hold, which must then be of unit length. */
#include "index/diskann.h"

#include <inttypes.h>
#include <math.h>

/* The files' parts as they are read, given back when they are copied. */
struct reading {
    struct mem *mem;
    struct source pivots, codes, rotation; /* rotation: open if there is one */
    struct diskann_pivots layout;
    bool rotates;
    void *values; /* centres, centroid, rotation */
    void *offsets;
};

static uint64_t dim_of(const struct reading *reading) { return (uint64_t)reading->layout.dim; }
/* Dimensions are at most 65,536, and a rotation was held against its file. */
static uint64_t values_of(const struct reading *reading) {
    return (DISKANN_CENTRES + 1 + (reading->rotates ? dim_of(reading) : 0)) * dim_of(reading);
}
static uint64_t offsets_of(const struct reading *reading) { return (uint64_t)reading->layout.chunks + 1; }

static void reading_close(struct reading *reading) {
    mem_free(reading->mem, reading->values, values_of(reading) * sizeof(float));
    mem_free(reading->mem, reading->offsets, offsets_of(reading) * sizeof(uint32_t));
    source_close(&reading->pivots), source_close(&reading->codes), source_close(&reading->rotation);
}

/* A row between these is of unit length, as far as float32 and half precision can say. */
static bool unit_length(double norm) { return fabs(norm - 1) <= 1e-2; }

static bool rows_are_coded(const struct rows *rows, const struct diskann_beside *beside) {
    if (beside->codes_rows < 0 || beside->pivots.dim < 0) return false;
    if (beside->max_base_norm > 0 && rows->metric != VIC_DOT) return false;
    for (int64_t i = 0; rows->metric == VIC_COSINE && i < rows->n; i++) /* 0: a row without a direction, all zeros */
        if (rows->norms[i] != 0 && !unit_length((double)rows->norms[i])) return false;
    return true;
}

/* Files against each other; how many nodes there are and, but for vectors behind the nodes, the dimension are right already. */
static enum vic_status reading_check(struct reading *reading, const struct rows *rows, float max_norm) {
    int64_t nodes = 0, chunks = 0, height = 0, width = 0, dim = reading->layout.dim, wanted = pq_row_dim(rows, max_norm);
    enum vic_status status = VIC_OK;
    TRY(diskann_bin_open(&reading->codes, 1, &nodes, &chunks));
    if (dim != wanted)
        return status_fail(VIC_FORMAT, "%s: expected pivots of dim %" PRId64 ", as the rows have%s, found dim %" PRId64,
                           reading->pivots.name, wanted, max_norm > 0 ? " with one coordinate more" : "", dim);
    if (!reading->rotates) return VIC_OK;
    TRY(diskann_bin_open(&reading->rotation, sizeof(float), &height, &width));
    if (height != dim || width != dim)
        return status_fail(VIC_FORMAT,
                           "%s: expected a rotation of %" PRId64 " x %" PRId64
                           ", as _pq_pivots.bin beside it has, found %" PRId64 " x %" PRId64,
                           reading->rotation.name, dim, dim, height, width);
done:
    return status;
}

/* Distances are kept only by a matrix whose rows are of unit length, which costs no more to see than reading it. */
static enum vic_status rotation_check(const struct source *source, const float *rotation, int64_t dim) {
    for (int64_t i = 0; i < dim; i++) {
        double sum = 0;
        for (int64_t j = 0; j < dim; j++) sum += (double)rotation[i * dim + j] * (double)rotation[i * dim + j];
        if (!unit_length(sqrt(sum)))
            return status_fail(VIC_FORMAT,
                               "%s: expected a rotation, whose rows are of length 1, found length %g in row %" PRId64,
                               source->name, sqrt(sum), i);
    }
    return VIC_OK;
}

static enum vic_status parts_read(struct reading *reading, struct pq_parts *parts) {
    uint64_t dim = dim_of(reading);
    enum vic_status status = VIC_OK;
    TRY(mem_alloc_array(reading->mem, values_of(reading), sizeof(float), "the pivots of DiskANN", &reading->values));
    TRY(mem_alloc_array(reading->mem, offsets_of(reading), sizeof(uint32_t), "the chunks of DiskANN", &reading->offsets));
    float *centres = reading->values, *centroid = centres + DISKANN_CENTRES * dim, *rotation = centroid + dim;
    TRY(diskann_pivots_read(&reading->pivots, &reading->layout, centres, centroid, reading->offsets));
    *parts = (struct pq_parts){.dim = reading->layout.dim,
                               .chunks = reading->layout.chunks,
                               .centres = DISKANN_CENTRES,
                               .offsets = reading->offsets,
                               .pivots = centres,
                               .centroid = centroid};
    if (!reading->rotates) goto done;
    TRY(source_read(&reading->rotation, 8, rotation, dim * dim * sizeof *rotation));
    TRY(rotation_check(&reading->rotation, rotation, parts->dim));
    parts->rotation = rotation;
done:
    return status;
}

/* 256 centres give every byte a meaning, so codes need no look but the error's. Frozen nodes are last and have no row. */
static enum vic_status codes_take(struct vic_device *device, const struct reading *reading, const struct pq_parts *pq,
                                  const struct rows *rows, const struct vic_progress *hook, struct graph *graph) {
    const struct product_parts parts = {.pq = *pq};
    uint64_t bytes = (uint64_t)rows->n * (uint64_t)pq->chunks; /* no more than the file has */
    enum vic_status status = VIC_OK;
    TRY(graph_product_take(device, &parts, reading->pivots.name, graph));
    struct graph_product *product = graph->product;
    TRY(mem_alloc(graph->mem, bytes, "the product codes of rows", &product->own_codes));
    TRY(source_read(&reading->codes, 8, product->own_codes, bytes));
    product->codes = product->own_codes;
    TRY(pq_measure(device, &product->pq, rows, hook, product->codes, &product->error));
done:
    return status;
}

enum vic_status diskann_product_take(struct vic_device *device, const char *path, const struct diskann_beside *beside,
                                     const struct rows *rows, const struct vic_progress *hook, struct graph *graph) {
    struct reading reading = {.mem = &device->host, .pivots = {.fd = -1}, .codes = {.fd = -1}, .rotation = {.fd = -1}};
    struct pq_parts parts;
    enum vic_status status = VIC_OK;
    if (!rows_are_coded(rows, beside)) return VIC_OK;
    TRY(diskann_beside_open(path, DISKANN_DISK_END, DISKANN_PIVOTS_END, &reading.pivots));
    if (source_word(&reading.pivots, 0) == DISKANN_CENTRES) goto done; /* of 2021, in several files */
    TRY(diskann_pivots_open(&reading.pivots, &reading.layout));
    if (reading.layout.chunks > GRAPH_PQ_CHUNKS_MAX) goto done;
    TRY(diskann_beside_open(path, DISKANN_DISK_END, "_pq_compressed.bin", &reading.codes));
    TRY(diskann_beside_look(path, DISKANN_DISK_END, DISKANN_ROTATION_END, &reading.rotation, &reading.rotates));
    TRY(reading_check(&reading, rows, beside->max_base_norm));
    TRY(parts_read(&reading, &parts));
    parts.max_norm = beside->max_base_norm;
    TRY(codes_take(device, &reading, &parts, rows, hook, graph));
done:
    reading_close(&reading);
    return status;
}
