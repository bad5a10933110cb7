/* Making rows resident: the sizes of everything, the memory, and the copy to the device. */
#include "backend/cuda/cuda.h"

#include <string.h>

static const uint64_t list_keys_most = UINT64_C(4) << 20, queries_bytes_most = UINT64_C(4) << 20,
                      hits_bytes_most = UINT64_C(4) << 20, batch_bytes_most = UINT64_C(8) << 20;

static uint64_t take(uint64_t *total, uint64_t bytes) {
    uint64_t at = *total;
    *total = round_up(at + bytes, 256);
    return at;
}

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static void layout_workspace(struct layout *layout, int64_t n) {
    uint64_t queries = (uint64_t)layout->queries_count, *device = &layout->device_bytes, *pinned = &layout->pinned_bytes;
    uint64_t raw = queries * (uint64_t)layout->rows.dim * 4, filter = (uint64_t)((n + 63) / 64) * 8;
    uint64_t hits = queries * ((uint64_t)least_of(n, SMALL_KEEP) * 12 + 4);
    layout->orders_at = take(device, (uint64_t)layout->shape.warps * layout->shape.per_warp * 4);
    layout->maxima_at = take(device, (uint64_t)layout->shape.warps * 8);
    layout->bests_at = take(device, (uint64_t)layout->shape.warps * SCAN_BESTS * 8);
    layout->rests_at = take(device, (uint64_t)layout->shape.warps * 4);
    layout->done_at = take(device, 4);
    layout->state_at = take(device, SELECT_STATE_BYTES);
    layout->raw_at = take(device, raw);
    layout->prepared_at = take(device, queries * (uint64_t)query_stride_of(&layout->rows));
    layout->norms_at = take(device, queries * 4);
    layout->squares_at = take(device, queries * 8);
    layout->floors_at = take(device, queries * 8);
    layout->counts_at = take(device, queries * 4);
    layout->lists_at = take(device, (uint64_t)layout->list_keys * 8);
    layout->filter_at = take(device, filter);
    (void)take(pinned, 256); /* the word */
    layout->raw_pinned_at = take(pinned, raw);
    layout->filter_pinned_at = take(pinned, filter);
    layout->hits_pinned_bytes = hits < hits_bytes_most ? hits : hits_bytes_most;
    if (layout->hits_pinned_bytes < HITS_PINNED_LEAST) layout->hits_pinned_bytes = HITS_PINNED_LEAST;
    layout->hits_pinned_at = take(pinned, layout->hits_pinned_bytes);
    /* Two slices, each with a row number and a score a slot. */
    layout->score_slots = least_of((int64_t)layout->hits_pinned_bytes / (2 * 8), SCORE_SLOTS_MAX);
    layout->wanted_at = take(device, (uint64_t)layout->score_slots * 2 * 4);
    layout->scores_at = take(device, (uint64_t)layout->score_slots * 2 * 4);
}

/* Rows with a negative norm in bfloat16 are widened (pack.cu). */
static enum vic_dtype stored_dtype(const struct rows *rows) {
    if (rows->dtype != VIC_BF16 || !rows->norms) return rows->dtype;
    for (int64_t i = 0; i < rows->n; i++)
        if (rows->norms[i] < 0) return VIC_F32;
    return rows->dtype;
}

static struct layout layout_plan(const struct backend *backend, const struct rows *shape) {
    struct layout layout = {0};
    int64_t n = shape->n, places = (shape->dim + 31) / 32 * 32;
    enum vic_dtype dtype = stored_dtype(shape);
    int64_t element = element_bytes(dtype);
    layout.rows = (struct packed_rows){.n = n,
                                       .stride_bytes = places * element,
                                       .dim = (int32_t)shape->dim,
                                       .chunks = (int32_t)(places / 128),
                                       .units = (int32_t)(places % 128 / 32),
                                       .dtype = dtype,
                                       .metric = shape->metric};
    layout.shape = scan_shape_of(&layout.rows, backend->multiprocessors);
    layout.queries_count = least_of((int64_t)queries_bytes_most / query_stride_of(&layout.rows), QUERIES_MAX);
    layout.list_keys = least_of(layout.queries_count * n, (int64_t)list_keys_most);
    layout.rows_bytes = round_up((uint64_t)n, ROW_PAD) * (uint64_t)layout.rows.stride_bytes;
    layout.norms_bytes = shape->metric == VIC_COSINE ? (uint64_t)n * 4 : 0;
    layout.ids_bytes = shape->ids ? (uint64_t)n * 8 : 0;
    layout.select_keys_bytes = round_up((uint64_t)n, SORT_TILE) * 8;
    layout.select_scores_bytes = (uint64_t)n * 4;
    layout_workspace(&layout, n);
    /* Batches lie in the first workspace while nobody uses it. */
    uint64_t total = round_up((uint64_t)n * (uint64_t)(shape->dim * element_bytes(shape->dtype)), 256);
    layout.batch_bytes = layout.device_bytes / UPLOAD_BATCHES / 256 * 256;
    if (layout.batch_bytes > batch_bytes_most) layout.batch_bytes = batch_bytes_most;
    if (layout.batch_bytes > total) layout.batch_bytes = total;
    return layout;
}

static uint64_t layout_device_bytes(const struct layout *layout) {
    return layout->rows_bytes + layout->norms_bytes + layout->ids_bytes + 2 * layout->select_keys_bytes +
           layout->select_scores_bytes + layout->device_bytes;
}

/* At least what a pool of UPLOAD_WORKERS takes for the time of an upload. */
static const uint64_t threads_bytes = 16384;

enum vic_status cuda_plan(const struct backend *backend, const struct rows *shape, struct resident_plan *plan) {
    struct layout layout = layout_plan(backend, shape);
    plan->workspace_bytes = layout.pinned_bytes + UPLOAD_BATCHES * layout.batch_bytes + sizeof(struct resident) + threads_bytes;
    plan->device_bytes = layout_device_bytes(&layout);
    return VIC_OK;
}

static enum vic_status kernels_load(struct resident *resident) {
    int shared_most = (int)resident->backend->shared_most;
    cudaError_t error = load_scan(&resident->rows, shared_most);
    if (error == cudaSuccess) error = load_tile(&resident->rows, shared_most, &resident->tile_engine);
    if (error == cudaSuccess) error = load_score(&resident->rows);
    if (error == cudaSuccess) error = load_select();
    if (error == cudaSuccess) error = load_cut();
    if (error == cudaSuccess) error = load_range();
    if (error == cudaSuccess) error = load_queries();
    return cuda_status(error, "loading kernels");
}

static enum vic_status memory_take(struct resident *resident) {
    struct mem *device = resident->backend->device;
    const struct layout *layout = &resident->layout;
    struct packed_rows *rows = &resident->rows;
    void *data = NULL, *norms = NULL, *ids = NULL, *keys = NULL, *spare = NULL, *scores = NULL;
    enum vic_status status = VIC_OK;
    TRY(mem_check(device, layout_device_bytes(layout), "the index on the GPU"));
    TRY(mem_alloc(device, layout->rows_bytes, "the rows on the GPU", &data));
    rows->data = data;
    if (layout->norms_bytes) TRY(mem_alloc(device, layout->norms_bytes, "the norms on the GPU", &norms));
    rows->norms = norms;
    if (layout->ids_bytes) TRY(mem_alloc(device, layout->ids_bytes, "the ids on the GPU", &ids));
    rows->ids = ids;
    TRY(mem_alloc(device, layout->select_keys_bytes, "selection on the GPU", &keys));
    resident->select.keys = keys;
    TRY(mem_alloc(device, layout->select_keys_bytes, "selection on the GPU", &spare));
    resident->select.spare = spare;
    TRY(mem_alloc(device, layout->select_scores_bytes, "selection on the GPU", &scores));
    resident->select.scores = scores;
    TRY(cuda_status(cudaEventCreateWithFlags(&resident->select.free_event, cudaEventDisableTiming), "making an event"));
    TRY(workspace_make(resident, &resident->workspaces[0]));
done:
    return status;
}

static void memory_give(struct resident *resident) {
    struct mem *device = resident->backend->device;
    const struct layout *layout = &resident->layout;
    for (int i = 0; i < WORKSPACES_MAX; i++)
        if (resident->workspaces[i].made) workspace_destroy(resident, &resident->workspaces[i]);
    if (resident->select.free_event && !device_forked()) {
        if (resident->select.pending) (void)cudaEventSynchronize(resident->select.free_event);
        (void)cudaEventDestroy(resident->select.free_event);
    }
    mem_free(device, resident->select.scores, layout->select_scores_bytes);
    mem_free(device, resident->select.spare, layout->select_keys_bytes);
    mem_free(device, resident->select.keys, layout->select_keys_bytes);
    mem_free(device, (void *)(uintptr_t)resident->rows.ids, layout->ids_bytes);
    mem_free(device, (void *)(uintptr_t)resident->rows.norms, layout->norms_bytes);
    mem_free(device, (void *)(uintptr_t)resident->rows.data, layout->rows_bytes);
}

enum vic_status cuda_attach(struct backend *backend, const struct rows *rows, const struct mapped *mapped,
                            const struct vic_progress *progress, struct resident **resident) {
    void *memory = NULL;
    int previous = backend->ordinal;
    enum vic_status status = mem_alloc(backend->host, sizeof(struct resident), "the resident rows", &memory);
    if (status != VIC_OK) return status;
    struct resident *made = memory;
    *made = (struct resident){.backend = backend, .source = *rows, .layout = layout_plan(backend, rows)};
    made->rows = made->layout.rows;
    (void)pthread_mutex_init(&made->mutex, NULL);
    (void)pthread_cond_init(&made->freed, NULL);
    TRY(device_enter(backend, &previous));
    TRY(kernels_load(made));
    TRY(memory_take(made));
    made->word_await = word_awaiter_find(&made->workspaces[0]);
    TRY(rows_upload(made, mapped, progress));
    device_leave(backend, previous);
    *resident = made;
    return VIC_OK;
done:
    memory_give(made);
    device_leave(backend, previous);
    mem_free(backend->host, made, sizeof *made);
    return status;
}

void cuda_detach(struct resident *resident) {
    if (!resident) return;
    struct backend *backend = resident->backend;
    int previous = backend->ordinal;
    if (!device_forked()) (void)device_enter(backend, &previous);
    memory_give(resident);
    if (!device_forked()) device_leave(backend, previous);
    (void)pthread_cond_destroy(&resident->freed);
    (void)pthread_mutex_destroy(&resident->mutex);
    mem_free(backend->host, resident, sizeof *resident);
}
