/* The table of planes, and their memory beside the rows of a corpus. */
#include "quant/quantizer.h"

const struct quantizer *const quantizers[PLANE_COUNT] = {[PLANE_8] = &plane8_quantizer, [PLANE_4] = &plane4_quantizer};

static bool norms_needed(const struct rows *shape) { return shape->metric != VIC_COSINE; }

uint64_t planes_bytes(const struct rows *shape, int32_t planes) {
    uint64_t n = (uint64_t)shape->n, bytes = 0;
    for (int kind = 0; kind < PLANE_COUNT; kind++)
        if (planes & (int32_t)quantizers[kind]->bit)
            bytes += n * ((uint64_t)plane_stride((enum plane_kind)kind, shape->dim) + 2 * sizeof(float));
    return bytes && norms_needed(shape) ? bytes + n * sizeof(float) : bytes;
}

int32_t planes_present(const struct rows *rows) {
    int32_t planes = 0;
    for (int kind = 0; kind < PLANE_COUNT; kind++)
        if (rows->planes[kind].codes) planes |= (int32_t)quantizers[kind]->bit;
    return planes;
}

static enum vic_status plane_alloc(struct corpus *corpus, int64_t dim, enum plane_kind kind) {
    uint64_t n = (uint64_t)corpus->rows.n;
    struct corpus_plane *own = &corpus->own_planes[kind];
    int64_t stride = plane_stride(kind, dim);
    enum vic_status status = VIC_OK;
    own->codes_bytes = n * (uint64_t)stride;
    TRY(mem_alloc(corpus->mem, own->codes_bytes, "the codes of a plane", &own->codes));
    TRY(mem_alloc_array(corpus->mem, n, sizeof(float), "the scales of a plane", &own->scale));
    TRY(mem_alloc_array(corpus->mem, n, sizeof(float), "the errors of a plane", &own->error));
    corpus->rows.planes[kind] =
        (struct plane){.codes = own->codes, .stride_bytes = stride, .scale = own->scale, .error = own->error};
done:
    return status;
}

enum vic_status planes_alloc(struct corpus *corpus, int64_t dim, int32_t planes) {
    enum vic_status status = VIC_OK;
    for (int kind = 0; kind < PLANE_COUNT; kind++)
        if (planes & (int32_t)quantizers[kind]->bit && !corpus->rows.planes[kind].codes)
            TRY(plane_alloc(corpus, dim, (enum plane_kind)kind));
    if (planes_present(&corpus->rows) && norms_needed(&corpus->rows) && !corpus->rows.plane_norms) {
        TRY(mem_alloc_array(corpus->mem, (uint64_t)corpus->rows.n, sizeof(float), "the planes' norms",
                            &corpus->own_plane_norms));
        corpus->rows.plane_norms = corpus->own_plane_norms;
    }
done:
    return status;
}

/* Only planes that the corpus owns are written: those of a file are what they are. */
enum vic_status planes_code(struct vic_device *device, struct corpus *corpus, const struct rows *block, int64_t first,
                            const uint32_t *places) {
    for (int kind = 0; kind < PLANE_COUNT; kind++) {
        struct corpus_plane *own = &corpus->own_planes[kind];
        if (!own->codes) continue;
        int64_t slot = places ? 0 : first;
        struct plane_coding coding = {
            .rows = block,
            .kind = (enum plane_kind)kind,
            .steps = quantizers[kind]->steps,
            .places = places,
            .codes = (uint8_t *)own->codes + slot * plane_stride((enum plane_kind)kind, block->dim),
            .scale = (float *)own->scale + slot,
            .error = (float *)own->error + slot,
            .norms = corpus->own_plane_norms ? (float *)corpus->own_plane_norms + slot : NULL,
        };
        enum vic_status status = device->host_ops->code(device->host_backend, &coding);
        if (status != VIC_OK) return status;
    }
    return VIC_OK;
}
