/* The flat index: every question goes to the backend, whose rows are resident. Always exact. */
#include "index/index.h"
#include "index/planner.h"

static enum vic_status flat_search(const struct vic_index *index, const struct search_call *call, const struct vic_hits *hits) {
    struct search_call planned = *call;
    enum vic_fallback why = VIC_FALLBACK_NONE;
    planner_path(index->device, &index->corpus.rows, &planned, &why);
    enum vic_status status = index->device->ops->search(index->resident, &planned, hits);
    if (why != VIC_FALLBACK_NONE) call->stats->fallback = why, call->stats->fallbacks = call->queries->rows;
    return status;
}

static enum vic_status flat_within(const struct vic_index *index, const struct search_call *call, float score,
                                   const struct vic_ranges *ranges) {
    struct search_call planned = *call;
    enum vic_fallback why = VIC_FALLBACK_NONE;
    planner_path(index->device, &index->corpus.rows, &planned, &why);
    enum vic_status status = index->device->ops->within(index->resident, &planned, score, ranges);
    if (why != VIC_FALLBACK_NONE) call->stats->fallback = why, call->stats->fallbacks = call->queries->rows;
    return status;
}

struct id_source {
    struct row_source source;
    const struct corpus *corpus;
    const int64_t *ids;
};

/* Ids to row numbers. VIC_NOT_FOUND names the first that is not there. */
static enum vic_status ids_take(const struct row_source *source, int64_t first, int64_t count, uint32_t *rows) {
    const struct id_source *from = (const struct id_source *)(const void *)source;
    for (int64_t i = 0; i < count; i++) {
        int64_t id = from->ids[first + i], row = id == -1 ? (int64_t)UINT32_MAX : corpus_find(from->corpus, id);
        if (row < 0) return status_fail(VIC_NOT_FOUND, "the index has no row with id %lld", (long long)id);
        rows[i] = (uint32_t)row;
    }
    return VIC_OK;
}

static enum vic_status flat_score(const struct vic_index *index, const struct search_call *call, const int64_t *ids,
                                  float *scores) {
    struct id_source wanted = {{ids_take}, &index->corpus, ids};
    return index->device->ops->score(index->resident, call, &wanted.source, scores);
}

const struct index_kind flat_kind = {"flat", flat_search, flat_within, flat_score};

const struct index_kind *const index_kinds[] = {&flat_kind, &graph_kind, NULL};
