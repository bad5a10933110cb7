/* The index kind "graph": a walk over codes for every query, then the canonical score of all that the walk kept in sight.
 *
 * Everything in the list is scored, not only the k best by codes: rows cost some eighth of the walk (measured), and
 * so the first k of an answer are the same for every k that the beam covers. What a graph cannot answer - filters, beams
 * wider than the stack holds, ranges, scores - goes to the exact index that is there anyway. */
#include "index/index.h"

#include "base/options.h"

#include <stdio.h>
#include <string.h>

enum { BEAM_DEFAULT = 64 };

enum vic_status graph_options_take(const struct vic_graph_options *given, struct graph_options *options) {
    struct vic_graph_options wish;
    enum vic_status status = options_take(&wish, sizeof wish, given, "vic_graph_options");
    if (status != VIC_OK) return status;
    *options = (struct graph_options){
        .degree = wish.degree ? wish.degree : 64,
        .beam = wish.beam ? wish.beam : 100,
        .alpha = wish.alpha != 0 ? wish.alpha : 1.1f,
        .force = wish.force != 0,
        .pq_chunks = wish.pq_chunks,
    };
    if (options->degree < 1 || options->degree > GRAPH_DEGREE_MAX)
        return status_fail(VIC_ARGUMENT, "expected a graph's degree from 1 to %d, found %lld", GRAPH_DEGREE_MAX,
                           (long long)options->degree);
    if (options->beam < 1 || options->beam > GRAPH_BUILD_BEAM_MAX)
        return status_fail(VIC_ARGUMENT, "expected a beam from 1 to %d for building a graph, found %lld", GRAPH_BUILD_BEAM_MAX,
                           (long long)options->beam);
    if (options->pq_chunks < 0 || options->pq_chunks > GRAPH_PQ_CHUNKS_MAX)
        return status_fail(VIC_ARGUMENT, "expected product codes of a graph's rows in 0 (none) to %d chunks, found %lld",
                           GRAPH_PQ_CHUNKS_MAX, (long long)options->pq_chunks);
    if (options->alpha >= 1 && options->alpha <= 2) return VIC_OK;
    return status_fail(VIC_ARGUMENT, "expected a graph's alpha from 1 to 2, found %g", (double)options->alpha);
}

struct search_job {
    const struct vic_index *index;
    const struct search_call *call;
    const struct vic_hits *hits;
    const struct points *points; /* what is walked over */
    int64_t beam, list, parents; /* list: rows kept and scored */
    int64_t run;                 /* queries a part */
    _Atomic int64_t hops, distances, scored;
};

static void hits_put(const struct search_job *job, int64_t j, uint64_t *keys, int64_t count) {
    const struct rows *rows = &job->index->corpus.rows;
    bool smaller_better = rows->metric == VIC_L2;
    int64_t k = job->call->k, *ids = job->hits->ids + j * k;
    float *scores = job->hits->scores ? job->hits->scores + j * k : NULL;
    int64_t found = count < k ? count : k;
    keys_sort(keys, count, keys + count);
    for (int64_t i = 0; i < k; i++) {
        ids[i] = i < found ? rows_id(rows, key_row(keys[i])) : -1;
        if (scores) scores[i] = i < found ? key_score(keys[i], smaller_better) : score_worst(smaller_better);
    }
    if (job->hits->counts) job->hits->counts[j] = (int32_t)found;
}

/* The canonical scores of all that a walk kept, and the best of them into the answer. */
static void walk_score(const struct search_job *job, int64_t j, const struct aim *exact, struct walk *walk) {
    bool smaller_better = job->index->corpus.rows.metric == VIC_L2;
    uint32_t found[GRAPH_BEAM_MAX];
    float scores[GRAPH_BEAM_MAX];
    for (int64_t i = 0; i < walk->count; i++) found[i] = walk_key_row(walk->keys[i]);
    exact->row.scores(&exact->row, found, walk->count, scores);
    for (int64_t i = 0; i < walk->count; i++) walk->keys[i] = key_make(scores[i], found[i], smaller_better);
    hits_put(job, j, walk->keys, walk->count);
}

/* One query. room: for both of its aims, one after the other. */
static void query_walk(struct search_job *job, int64_t j, void *room) {
    const struct graph *graph = &job->index->graph;
    const struct points *exact = &graph->kinds[POINTS_ROWS];
    struct vic_matrix query = *job->call->queries;
    uint64_t keys[2 * GRAPH_BEAM_MAX];
    struct aim aim;
    query.data = (char *)query.data + j * query.stride_bytes, query.rows = 1;
    job->points->kind->aim(job->points, &query, room, &aim);
    struct walk walk = {.keys = keys, .beam = job->beam, .list = job->list, .parents = job->parents};
    graph_walk(graph, graph->entry_count, &aim, &walk);
    exact->ops->aim(exact->backend, exact->rows, &query, (float *)room, &aim.row);
    walk_score(job, j, &aim, &walk);
    atomic_fetch_add(&job->hops, walk.hops);
    atomic_fetch_add(&job->distances, walk.distances);
    atomic_fetch_add(&job->scored, walk.count);
}

/* The larger room has a frame of its own, so that a search of usual dimensions touches less of the stack. */
static __attribute__((noinline)) void queries_on_stack(struct search_job *job, int64_t first, int64_t end) {
    _Alignas(64) char room[ROOM_STACK];
    for (int64_t j = first; j < end; j++) query_walk(job, j, room);
}

static __attribute__((noinline)) void queries_narrow(struct search_job *job, int64_t first, int64_t end) {
    _Alignas(64) char room[ROOM_NARROW];
    for (int64_t j = first; j < end; j++) query_walk(job, j, room);
}

static void queries_in_rooms(struct search_job *job, int64_t first, int64_t end) {
    void *room;
    int number = room_claim(job->index->graph.rooms, &room);
    for (int64_t j = first; j < end; j++) query_walk(job, j, room);
    room_give(job->index->graph.rooms, number);
}

static void search_part(void *argument, int worker, int64_t part) {
    struct search_job *job = argument;
    const struct points *points = job->points, *exact = &job->index->graph.kinds[POINTS_ROWS];
    int64_t room = points->kind->room_bytes(points), other = exact->kind->room_bytes(exact);
    if (room < other) room = other;
    void (*queries)(struct search_job *, int64_t, int64_t) = room <= ROOM_NARROW  ? queries_narrow
                                                             : room <= ROOM_STACK ? queries_on_stack
                                                                                  : queries_in_rooms;
    int64_t nq = job->call->queries->rows, end = (part + 1) * job->run < nq ? (part + 1) * job->run : nq;
    (void)worker;
    queries(job, part * job->run, end);
}

static enum vic_status exact_search(const struct vic_index *index, const struct search_call *call, const struct vic_hits *hits,
                                    enum vic_fallback why) {
    struct search_call exact = *call;
    if (exact.path == VIC_PATH_GRAPH) exact.path = 0;
    enum vic_status status = flat_kind.search(index, &exact, hits);
    if (why != VIC_FALLBACK_NONE) call->stats->fallback = why, call->stats->fallbacks = call->queries->rows;
    return status;
}

static enum vic_status codes_refuse(const struct graph *graph, enum vic_codes codes) {
    char have[64] = "";
    const char *wanted = "?";
    for (int kind = 0; kind < POINT_KINDS; kind++) {
        if (point_kinds[kind]->codes == codes) wanted = point_kinds[kind]->name;
        if (!graph->kinds[kind].kind) continue;
        (void)snprintf(have + strlen(have), sizeof have - strlen(have), "%s%s", *have ? ", " : "", point_kinds[kind]->name);
    }
    return status_fail(VIC_UNSUPPORTED, "expected a graph that can be walked over codes %s, found one for %s", wanted, have);
}

static enum vic_status graph_search(const struct vic_index *index, const struct search_call *call,
                                    const struct vic_hits *hits) {
    int64_t n = index->corpus.rows.n, keep = call->k < n ? call->k : n, nq = call->queries->rows;
    int64_t beam = call->beam > 0 ? call->beam : BEAM_DEFAULT;
    if (beam < keep) beam = keep;
    if (call->path != 0 && call->path != VIC_PATH_GRAPH) return exact_search(index, call, hits, VIC_FALLBACK_NONE);
    if (call->filter) return exact_search(index, call, hits, VIC_FALLBACK_FILTER);
    if (beam > GRAPH_BEAM_MAX) return exact_search(index, call, hits, VIC_FALLBACK_BEAM);
    const struct points *points = graph_points(&index->graph, call->codes);
    if (!points) return codes_refuse(&index->graph, call->codes);
    const struct vic_device *device = index->device;
    enum vic_status status = device->host_ops->check(device->host_backend, &index->corpus.rows, call);
    if (status != VIC_OK) return status;
    struct thread_pool *pool = device->host_ops->pool(device->host_backend);
    struct search_job job = {.index = index,
                             .call = call,
                             .hits = hits,
                             .points = points,
                             .beam = beam,
                             .list = points->kind->list(beam),
                             .parents = call->parents > 0 ? call->parents : 1,
                             .run = nq >= 256 ? 8 : 1};
    int threads = thread_pool_run(pool, (nq + job.run - 1) / job.run, search_part, &job);
    struct vic_search_stats *stats = call->stats;
    stats->path = VIC_PATH_GRAPH, stats->threads = threads, stats->queries = nq;
    stats->hops = job.hops, stats->distances = job.distances, stats->rows_rescored = job.scored;
    if (points->kind->codes == VIC_CODES_8) stats->rows_coded[0] = job.distances;
    if (points->kind->codes == VIC_CODES_4) stats->rows_coded[1] = job.distances;
    stats->beam = (int32_t)beam, stats->parents = (int32_t)job.parents, stats->codes = points->kind->codes;
    stats->bytes_read = job.distances * points->row_bytes + job.hops * index->graph.degree * (int64_t)sizeof(uint32_t) +
                        job.scored * index->corpus.rows.dim * (int64_t)vic_dtype_bytes(index->corpus.rows.dtype);
    return VIC_OK;
}

static enum vic_status graph_within(const struct vic_index *index, const struct search_call *call, float score,
                                    const struct vic_ranges *ranges) {
    return flat_kind.within(index, call, score, ranges);
}

static enum vic_status graph_score(const struct vic_index *index, const struct search_call *call, const int64_t *ids,
                                   float *scores) {
    return flat_kind.score(index, call, ids, scores);
}

const struct index_kind graph_kind = {"graph", graph_search, graph_within, graph_score};
