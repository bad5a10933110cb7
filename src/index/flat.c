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

/* Ids to row numbers. VIC_NOT_FOUND names the first that is not there. */
static enum vic_status ids_to_rows(const struct corpus *corpus, const int64_t *ids, int64_t count, uint32_t *rows) {
    for (int64_t i = 0; i < count; i++) {
        int64_t row = ids[i] == -1 ? (int64_t)UINT32_MAX : corpus_find(corpus, ids[i]);
        if (row < 0) return status_fail(VIC_NOT_FOUND, "the index has no row with id %lld", (long long)ids[i]);
        rows[i] = (uint32_t)row;
    }
    return VIC_OK;
}

/* Row numbers live on the stack, so ids go to the backend in slices: as many whole queries as fit, or a part of one. */
enum { SCORE_SLICE = 4096 };

static enum vic_status flat_score(const struct vic_index *index, const struct search_call *call, const int64_t *ids,
                                  float *scores) {
    uint32_t rows[SCORE_SLICE];
    int64_t nq = call->queries->rows, width = call->k < SCORE_SLICE ? call->k : SCORE_SLICE;
    int64_t queries_each = SCORE_SLICE / width > 0 && width == call->k ? SCORE_SLICE / width : 1;
    for (int64_t j = 0; j < nq; j += queries_each) {
        struct vic_matrix queries = *call->queries;
        queries.data = (char *)call->queries->data + j * call->queries->stride_bytes;
        queries.rows = nq - j < queries_each ? nq - j : queries_each;
        for (int64_t at = 0; at < call->k; at += width) {
            struct search_call slice = *call;
            slice.queries = &queries;
            slice.first = j;
            slice.k = call->k - at < width ? call->k - at : width;
            enum vic_status status = ids_to_rows(&index->corpus, ids + j * call->k + at, queries.rows * slice.k, rows);
            if (status == VIC_OK) status = index->device->ops->score(index->resident, &slice, rows, scores + j * call->k + at);
            if (status != VIC_OK) return status;
        }
    }
    call->stats->queries = nq;
    return VIC_OK;
}

const struct index_kind flat_kind = {"flat", flat_search, flat_within, flat_score};

const struct index_kind *const index_kinds[] = {&flat_kind, &graph_kind, NULL};
