/* Sizes, allocation and claiming of search workspaces.
 *
 * Everything lies in one block, cut by a running offset, so a plan is the block's size and an allocation can fail in one
 * place only. 6 to 18 MiB up to sixteen threads whatever the corpus, plus 8 bytes a row for selection by large k, and
 * with planes six bytes a row for each of two to four surveys. */
#include "backend/cpu/cpu.h"

#include <string.h>

static const int64_t chunk_bytes = 256 << 10;       /* rows of a part: stays in the second-level cache */
static const int64_t tile_bytes_max = 256 << 10;    /* above this a packed row tile would not */
static const int64_t decoded_bytes_max = 512 << 10; /* the same of decoded codes, which take turns with the queries there */
static const int64_t workspaces_bytes = 12 << 20;   /* all workspaces together, about */

static int64_t clamp(int64_t value, int64_t low, int64_t high) { return value < low ? low : value > high ? high : value; }

/* The tile kernels that rows of this type may need; dim decides whether their tiles fit. */
static const struct tile_kernel *tile_of(const struct backend *backend, const struct rows *shape, bool exact) {
    enum kernel_op op = shape->metric == VIC_L2 ? OP_L2 : OP_DOT;
    return exact ? backend->kernels.tile_exact[shape->dtype][op] : backend->kernels.tile[shape->dtype][op];
}

static void layout_tiles(const struct backend *backend, const struct rows *shape, struct layout *layout) {
    for (int exact = 0; exact <= (dtype_is_integer(shape->dtype) ? 1 : 0); exact++) {
        const struct tile_kernel *tile = tile_of(backend, shape, exact);
        int64_t row_bytes = tile->row_tile_bytes(shape->dim), group_bytes = tile->query_group_bytes(shape->dim);
        int64_t groups = (layout->queries_count + tile->query_tile - 1) / tile->query_tile;
        if (row_bytes > tile_bytes_max || layout->queries_count < tile->query_tile || GROUP_ROWS % tile->row_tile != 0)
            layout->tiles = false;
        if ((uint64_t)row_bytes > layout->packed_rows_bytes) layout->packed_rows_bytes = (uint64_t)row_bytes;
        if ((uint64_t)(groups * group_bytes) > layout->packed_queries_bytes)
            layout->packed_queries_bytes = (uint64_t)(groups * group_bytes);
        int64_t scores = (groups * tile->query_tile) * GROUP_ROWS;
        if (scores > layout->scores_count) layout->scores_count = scores;
    }
    if (!layout->tiles) layout->packed_rows_bytes = layout->packed_queries_bytes = 0;
}

/* Batches on planes. */
static void layout_plane_tiles(const struct backend *backend, int64_t dim, struct layout *layout) {
    const struct plane_tile *tile = backend->kernels.planes->tile;
    int64_t queries = layout->queries_count, decoded = tile->decoded_bytes(dim);
    layout->plane_tiles = decoded <= decoded_bytes_max;
    if (!layout->plane_tiles) return;
    if (queries * GROUP_ROWS > layout->scores_count) layout->scores_count = queries * GROUP_ROWS;
    layout->query_codes_bytes = round_up((uint64_t)(queries * dim), 64);
    layout->packed_query_codes_bytes = round_up((uint64_t)tile->queries_bytes(queries, dim), 64);
    layout->decoded_bytes = round_up((uint64_t)decoded, 64);
    layout->least_bytes = round_up((uint64_t)queries * sizeof(float), 64);
}

/* What planes add. From about two fifths of the rows left by a plane a scan is faster. */
static void layout_planes(const struct backend *backend, const struct rows *shape, struct layout *layout) {
    bool coded = false;
    for (int kind = 0; kind < PLANE_COUNT; kind++) coded = coded || shape->planes[kind].stride_bytes > 0;
    if (!coded) return;
    layout->candidates_count = shape->n / 5 * 2 + 64;
    layout->surveys = (int)clamp(layout->threads, 2, SURVEYS_MAX);
    layout_plane_tiles(backend, shape->dim, layout);
    uint64_t one_query = (uint64_t)(2 * plane_query_elements(shape->dim));
    if (one_query > layout->query_codes_bytes) layout->query_codes_bytes = one_query;
}

static uint64_t planes_workspace_bytes(const struct layout *layout) {
    if (layout->candidates_count == 0) return 0;
    uint64_t queries = (uint64_t)layout->queries_count;
    return layout->query_codes_bytes + layout->packed_query_codes_bytes + round_up(queries * sizeof(struct plane_query), 64) +
           round_up(queries * sizeof(uint32_t), 64);
}

static uint64_t surveys_bytes(const struct rows *shape, const struct layout *layout) {
    return (uint64_t)layout->surveys * (round_up((uint64_t)shape->n * sizeof(float), 64) +
                                        round_up((uint64_t)layout->candidates_count * sizeof(uint32_t), 64));
}

struct layout layout_plan(const struct backend *backend, const struct rows *shape) {
    struct layout layout = {.threads = thread_pool_size(backend->pool), .tiles = true};
    layout.workspaces = (int)clamp(layout.threads, 4, WORKSPACES_MAX);
    int64_t part_bytes = workspaces_bytes / layout.workspaces / 3;
    int64_t row_bytes = shape->dim * (int64_t)vic_dtype_bytes(shape->dtype);
    layout.chunk_rows = clamp(chunk_bytes / row_bytes, 16, 2048) & ~INT64_C(15);
    layout.queries_count = clamp(part_bytes / (shape->dim * 4), 1, QUERIES_MAX);
    layout.keys_count = part_bytes / 8;
    layout.tops_count = layout.queries_count * layout.threads;
    layout.scores_count = layout.chunk_rows;
    layout_tiles(backend, shape, &layout);
    layout_planes(backend, shape, &layout);
    layout.queries_bytes = round_up((uint64_t)(layout.queries_count * shape->dim * 4), 64);
    layout.row_bytes = round_up((uint64_t)shape->dim * 4, 64);
    layout.scratch_bytes = round_up((uint64_t)layout.scores_count * 8, 64) + layout.row_bytes + layout.packed_rows_bytes +
                           layout.decoded_bytes + layout.least_bytes;
    layout.workspace_bytes = layout.queries_bytes + layout.packed_queries_bytes +
                             round_up((uint64_t)layout.queries_count * 4, 64) + (uint64_t)layout.keys_count * 8 +
                             round_up((uint64_t)layout.tops_count * sizeof(struct topk), 64) + layout.scratch_bytes +
                             planes_workspace_bytes(&layout);
    layout.select_bytes = round_up((uint64_t)shape->n * 8, 64);
    layout.total_bytes =
        round_up(sizeof(struct resident), 64) + round_up((uint64_t)layout.workspaces * sizeof(struct workspace), 64) +
        round_up((uint64_t)layout.threads * sizeof(struct scratch), 64) + (uint64_t)layout.workspaces * layout.workspace_bytes +
        (uint64_t)(layout.threads - 1) * layout.scratch_bytes + layout.select_bytes + surveys_bytes(shape, &layout);
    return layout;
}

enum vic_status cpu_plan(const struct backend *backend, const struct rows *shape, struct resident_plan *plan) {
    *plan = (struct resident_plan){.workspace_bytes = layout_plan(backend, shape).total_bytes};
    return VIC_OK;
}

/* Cuts the next piece off the block. */
static void *take(char **at, uint64_t bytes) {
    void *piece = *at;
    *at += round_up(bytes, 64);
    return piece;
}

static struct scratch take_scratch(char **at, const struct layout *layout) {
    struct scratch scratch = {.scores = take(at, (uint64_t)layout->scores_count * 4)};
    scratch.positions = take(at, (uint64_t)layout->scores_count * 4);
    scratch.row = take(at, layout->row_bytes);
    if (layout->tiles) scratch.packed_rows = take(at, layout->packed_rows_bytes);
    if (layout->plane_tiles) scratch.decoded = take(at, layout->decoded_bytes);
    if (layout->plane_tiles) scratch.least = take(at, layout->least_bytes);
    return scratch;
}

enum vic_status cpu_attach(struct backend *backend, const struct rows *rows, const struct mapped *mapped,
                           const struct vic_progress *progress, struct resident **resident) {
    (void)mapped, (void)progress; /* rows are searched where they are */
    struct layout layout = layout_plan(backend, rows);
    void *memory = NULL;
    enum vic_status status = mem_alloc(backend->mem, layout.total_bytes, "the search workspace", &memory);
    if (status != VIC_OK) return status;
    char *at = memory;
    struct resident *made = take(&at, sizeof *made);
    *made = (struct resident){.backend = backend, .rows = *rows, .layout = layout, .memory = memory};
    for (int i = 0; i < PLANE_COUNT * K_RANGES; i++) atomic_init(&made->doubt[i / K_RANGES][i % K_RANGES], 1);
    made->workspaces = take(&at, (uint64_t)layout.workspaces * sizeof *made->workspaces);
    made->workers = take(&at, (uint64_t)layout.threads * sizeof *made->workers);
    for (int i = 0; i < layout.workspaces; i++) {
        struct workspace *workspace = &made->workspaces[i];
        *workspace = (struct workspace){0};
        workspace->queries = take(&at, layout.queries_bytes);
        workspace->packed_queries = take(&at, layout.packed_queries_bytes);
        workspace->query_norms = take(&at, (uint64_t)layout.queries_count * 4);
        workspace->keys = take(&at, (uint64_t)layout.keys_count * 8);
        workspace->tops = take(&at, (uint64_t)layout.tops_count * sizeof *workspace->tops);
        workspace->own = take_scratch(&at, &layout);
        if (layout.candidates_count == 0) continue;
        workspace->query_codes = take(&at, layout.query_codes_bytes);
        workspace->packed_query_codes = take(&at, layout.packed_query_codes_bytes);
        workspace->plane_queries = take(&at, (uint64_t)layout.queries_count * sizeof *workspace->plane_queries);
        workspace->reached = take(&at, (uint64_t)layout.queries_count * sizeof *workspace->reached);
    }
    for (int i = 0; i + 1 < layout.threads; i++) made->workers[i] = take_scratch(&at, &layout);
    made->select_keys = take(&at, layout.select_bytes);
    for (int i = 0; i < layout.surveys; i++) {
        made->surveys[i].upper = take(&at, (uint64_t)rows->n * sizeof(float));
        made->surveys[i].candidates = take(&at, (uint64_t)layout.candidates_count * sizeof(uint32_t));
    }
    claims_start(&made->free_workspaces, layout.workspaces);
    claims_start(&made->free_surveys, layout.surveys);
    claims_start(&made->free_select, 1);
    *resident = made;
    return VIC_OK;
}

void cpu_detach(struct resident *resident) {
    if (!resident) return;
    claims_stop(&resident->free_workspaces);
    claims_stop(&resident->free_surveys);
    claims_stop(&resident->free_select);
    mem_free(resident->backend->mem, resident->memory, resident->layout.total_bytes);
}

struct workspace *workspace_claim(struct resident *resident) {
    return &resident->workspaces[claims_take(&resident->free_workspaces)];
}

void workspace_release(struct resident *resident, struct workspace *workspace) {
    claims_give(&resident->free_workspaces, (int)(workspace - resident->workspaces));
}

struct survey *survey_claim(struct resident *resident) {
    return &resident->surveys[claims_take(&resident->free_surveys)];
}

void survey_release(struct resident *resident, struct survey *survey) {
    claims_give(&resident->free_surveys, (int)(survey - resident->surveys));
}

void select_claim(struct resident *resident) { (void)claims_take(&resident->free_select); }

void select_release(struct resident *resident) { claims_give(&resident->free_select, 0); }
