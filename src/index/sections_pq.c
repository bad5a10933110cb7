/* Product codes as sections of a container, and back (docs/format.md). Sizes are held against rows, dimensions and each other
 * here; that chunks are in order and numbers finite, pq_open looks at, before anything is computed with them. */
#include "index/sections.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum vic_status product_write(struct file_writer *writer, const struct graph *graph) {
    const struct graph_product *product = graph->product;
    enum vic_status status = VIC_OK;
    if (!product) return VIC_OK;
    const struct pq_parts *parts = &product->pq.parts;
    const double error[2] = {product->error.mean, product->error.largest};
    uint64_t dim = (uint64_t)parts->dim, chunks = (uint64_t)parts->chunks;
    TRY(section_write(writer, "pq_offsets", parts->offsets, (chunks + 1) * sizeof *parts->offsets));
    TRY(section_write(writer, "pq_pivots", parts->pivots, (uint64_t)parts->centres * dim * sizeof *parts->pivots));
    TRY(section_write(writer, "pq_centroid", parts->centroid, dim * sizeof *parts->centroid));
    if (parts->rotation) TRY(section_write(writer, "pq_rotation", parts->rotation, dim * dim * sizeof *parts->rotation));
    if (parts->max_norm > 0) TRY(section_write(writer, "pq_max_norm", &parts->max_norm, sizeof parts->max_norm));
    TRY(section_write(writer, "pq_error", error, sizeof error));
    TRY(section_write(writer, "pq_codes", product->codes, (uint64_t)graph->n * chunks));
done:
    return status;
}

/* Only inner products have one. 0: the rows are coded as they are. */
static enum vic_status max_norm_map(const struct file_map *map, const struct rows *rows, float *max_norm) {
    uint64_t ignored = 0;
    const void *found = NULL;
    enum vic_status status = VIC_OK;
    *max_norm = 0;
    if (!file_map_find(map, "pq_max_norm", &ignored)) return VIC_OK;
    TRY(section_sized(map, "pq_max_norm", sizeof *max_norm, &found));
    memcpy(max_norm, found, sizeof *max_norm);
    if (rows->metric == VIC_DOT && *max_norm > 0 && float_finite(*max_norm)) return VIC_OK;
    status = status_fail(
        VIC_FORMAT,
        "%s: expected section pq_max_norm to have a finite norm above 0 for rows of the metric dot, found %g for %s", map->path,
        (double)*max_norm, vic_metric_name(rows->metric));
done:
    return status;
}

enum vic_status product_map(const struct file_map *map, const struct rows *rows, struct product_parts *parts) {
    uint64_t offsets_bytes = 0, pivots_bytes = 0, ignored = 0;
    const void *offsets = file_map_find(map, "pq_offsets", &offsets_bytes), *codes = NULL, *centroid = NULL;
    const void *pivots = file_map_find(map, "pq_pivots", &pivots_bytes), *rotation = NULL, *error = NULL;
    enum vic_status status = VIC_OK;
    *parts = (struct product_parts){0};
    float max_norm = 0;
    if (!offsets && !pivots && !file_map_find(map, "pq_codes", &ignored)) return VIC_OK;
    TRY(max_norm_map(map, rows, &max_norm));
    uint64_t dim = (uint64_t)pq_row_dim(rows, max_norm);
    uint64_t chunks = offsets_bytes / sizeof(uint32_t), row_bytes = dim * sizeof(float);
    if (offsets_bytes % sizeof(uint32_t) || chunks < 2 || chunks > dim + 1)
        return status_fail(
            VIC_FORMAT, "%s: expected section pq_offsets to have 2 to %" PRIu64 " numbers of 4 bytes, found %" PRIu64 " bytes",
            map->path, dim + 1, offsets_bytes);
    chunks--;
    if (pivots_bytes % row_bytes || pivots_bytes == 0 || pivots_bytes / row_bytes > PQ_CENTRES)
        return status_fail(
            VIC_FORMAT, "%s: expected section pq_pivots to have 1 to %d centres of %" PRIu64 " bytes, found %" PRIu64 " bytes",
            map->path, PQ_CENTRES, row_bytes, pivots_bytes);
    TRY(section_sized(map, "pq_centroid", row_bytes, &centroid));
    if (file_map_find(map, "pq_rotation", &ignored)) TRY(section_sized(map, "pq_rotation", dim * row_bytes, &rotation));
    TRY(section_sized(map, "pq_codes", (uint64_t)rows->n * chunks, &codes));
    TRY(section_sized(map, "pq_error", 2 * sizeof(double), &error));
    parts->pq = (struct pq_parts){.dim = (int64_t)dim,
                                  .chunks = (int64_t)chunks,
                                  .centres = (int64_t)(pivots_bytes / row_bytes),
                                  .offsets = offsets,
                                  .pivots = pivots,
                                  .centroid = centroid,
                                  .rotation = rotation,
                                  .max_norm = max_norm};
    parts->codes = codes;
    parts->error = (struct pq_error){((const double *)error)[0], ((const double *)error)[1]};
    if (parts->error.mean >= 0 && parts->error.largest >= 0 && isfinite(parts->error.mean) && isfinite(parts->error.largest))
        return VIC_OK;
    status = status_fail(VIC_FORMAT, "%s: expected section pq_error to have two numbers from 0 up, found %g and %g", map->path,
                         parts->error.mean, parts->error.largest);
done:
    return status;
}
