/* Queries and hits on the device, on the caller's streams: order, capture, and what is refused. */
#include "gpu/late.h"
#include "gpu/pair.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum { ROWS = 20000, DIM = 64, K = 10, QUERIES = 40 };

static struct data data;
static struct pair pair;
static float *queries, *queries_device;
static cudaStream_t stream;

static int group_begin(void **state) {
    (void)state;
    data = data_make(1, ROWS, DIM, VIC_F32, VIC_COSINE, VALUES_UNIT);
    pair = pair_build(&data);
    struct random random = test_random(4);
    queries = take(QUERIES * DIM * 4);
    random_fill(&random, VALUES_UNIT, VIC_F32, (int64_t)QUERIES * DIM, queries);
    queries_device = to_device(queries, QUERIES * DIM * 4);
    cuda_must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return 0;
}

static int group_end(void **state) {
    (void)state;
    cuda_must(cudaStreamDestroy(stream));
    cuda_must(cudaFree(queries_device));
    free(queries);
    pair_free(&pair);
    free(data.rows);
    return 0;
}

static struct answer right_of(int64_t first, int64_t nq, int64_t k) {
    struct answer right = answer_make(nq, k);
    struct vic_hits hits = answer_hits(&right);
    struct vic_matrix matrix = matrix_of(queries + first * DIM, nq, DIM, VIC_F32);
    must(vic_index_search(pair.cpu, &matrix, k, NULL, &hits));
    return right;
}

static struct vic_matrix on_device(float *vectors, int64_t nq) {
    return (struct vic_matrix){.data = vectors, .rows = nq, .dim = DIM, .place = VIC_DEVICE};
}

static void equal_on_device(const struct vic_hits *hits, int64_t first, int64_t nq, int64_t k) {
    struct answer right = right_of(first, nq, k), found = answer_make(nq, k);
    hits_fetch(hits, &found);
    answers_equal(&found, &right);
    answer_free(&right);
    answer_free(&found);
}

/* CON-03: the query is written 50 ms after the search was asked for; nobody synchronises before. Since the stream is then
 * still at work, the search must have returned without waiting. */
static void CON_03_a_late_query_is_waited_for_on_the_stream(void **state) {
    (void)state;
    struct vic_search_options options = {.size = sizeof options, .stream = stream};
    struct vic_hits hits = hits_on_device(1, K);
    float *query = to_device(NULL, DIM * 4);
    struct vic_matrix matrix = on_device(query, 1);
    for (int turn = 0; turn < 100; turn++) {
        cuda_must(cudaMemsetAsync(query, 0, DIM * 4, stream));
        cuda_must(launch_late_copy(query, queries_device + turn % QUERIES * DIM, DIM, 50, stream));
        must(vic_index_search(pair.gpu, &matrix, K, &options, &hits));
        assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
        cuda_must(cudaStreamSynchronize(stream));
        equal_on_device(&hits, turn % QUERIES, 1, K);
    }
    cuda_must(cudaFree(query));
    hits_release(&hits);
}

/* Work enqueued behind the search sees the hits, and the query may be overwritten there. */
static void hits_are_valid_in_stream_order(void **state) {
    (void)state;
    struct vic_search_options options = {.size = sizeof options, .stream = stream};
    struct vic_hits hits = hits_on_device(QUERIES, K);
    struct answer found = answer_make(QUERIES, K), right = right_of(0, QUERIES, K);
    float *query = to_device(queries, QUERIES * DIM * 4);
    int64_t *pinned = NULL;
    cuda_must(cudaMallocHost((void **)&pinned, QUERIES * K * 8));
    struct vic_matrix matrix = on_device(query, QUERIES);
    for (int turn = 0; turn < 20; turn++) {
        cuda_must(launch_late_copy(query, queries_device, QUERIES * DIM, 5, stream));
        must(vic_index_search(pair.gpu, &matrix, K, &options, &hits));
        cuda_must(cudaMemsetAsync(query, 0xFF, QUERIES * DIM * 4, stream));
        cuda_must(cudaMemcpyAsync(pinned, hits.ids, QUERIES * K * 8, cudaMemcpyDeviceToHost, stream));
        cuda_must(cudaStreamSynchronize(stream));
        memcpy(found.ids, pinned, QUERIES * K * 8);
        assert_memory_equal(found.ids, right.ids, QUERIES * K * 8);
    }
    cuda_must(cudaFreeHost(pinned));
    cuda_must(cudaFree(query));
    answer_free(&found);
    answer_free(&right);
    hits_release(&hits);
}

/* Two streams in turn use the same workspaces: the second waits for the first on the device, not on the host. */
static void streams_in_turn_do_not_mix(void **state) {
    (void)state;
    cudaStream_t other;
    cuda_must(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    struct vic_hits hits[8];
    for (int i = 0; i < 8; i++) {
        struct vic_search_options options = {.size = sizeof options, .stream = i % 2 ? other : stream};
        struct vic_matrix matrix = on_device(queries_device + (int64_t)i * DIM, i % 3 + 1);
        hits[i] = hits_on_device(i % 3 + 1, K);
        must(vic_index_search(pair.gpu, &matrix, K, &options, &hits[i]));
    }
    cuda_must(cudaStreamSynchronize(stream));
    cuda_must(cudaStreamSynchronize(other));
    for (int i = 0; i < 8; i++) {
        equal_on_device(&hits[i], i, i % 3 + 1, K);
        hits_release(&hits[i]);
    }
    cuda_must(cudaStreamDestroy(other));
}

/* One search on a stream, its query and hits on the device. */
struct asked {
    cudaStream_t stream;
    float *query;
    int64_t number, nq; /* of the first query, and how many */
    struct vic_hits hits;
};

static struct asked asked_make(cudaStream_t at, int64_t number, int64_t nq) {
    return (struct asked){at, to_device(NULL, (size_t)nq * DIM * 4), number, nq, hits_on_device(nq, K)};
}

/* The queries come `ms` late; nobody waits. */
static void asked_enqueue(const struct asked *asked, const struct vic_index *index, int ms) {
    struct vic_search_options options = {.size = sizeof options, .stream = asked->stream};
    struct vic_matrix matrix = on_device(asked->query, asked->nq);
    int count = (int)asked->nq * DIM;
    cuda_must(launch_late_copy(asked->query, queries_device + asked->number * DIM, count, ms, asked->stream));
    must(vic_index_search(index, &matrix, K, &options, &asked->hits));
}

static void asked_check(struct asked *asked) {
    equal_on_device(&asked->hits, asked->number, asked->nq, K);
    hits_release(&asked->hits);
    cuda_must(cudaFree(asked->query));
}

/* Every stream's work lasts until all have asked, and there are more of them than workspaces: so a search is let in behind
 * another stream's, single behind batch and the other way round, and no call waits for it. */
static void more_streams_than_workspaces_wait_on_the_device(void **state) {
    (void)state;
    enum { STREAMS = 40, LATE_MS = 50 };
    struct asked asked[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        cudaStream_t own;
        cuda_must(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
        asked[i] = asked_make(own, i % (QUERIES - 3), i % 3 == 2 ? 3 : 1);
    }
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < STREAMS; i++) asked_enqueue(&asked[i], pair.gpu, LATE_MS);
        for (int i = 0; i < STREAMS && turn > 0; i++) /* the first turn makes workspaces, which takes its time */
            assert_int_equal(cudaStreamQuery(asked[i].stream), cudaErrorNotReady);
        cuda_must(cudaDeviceSynchronize());
    }
    for (int i = 0; i < STREAMS; i++) {
        asked_check(&asked[i]);
        cuda_must(cudaStreamDestroy(asked[i].stream));
    }
}

/* A stream may be destroyed with its work outstanding, and the next one made is then often found at the same address. */
static void a_stream_in_the_place_of_another_is_another(void **state) {
    (void)state;
    enum { EACH = 20 };
    for (int64_t nq = 1; nq <= 3; nq += 2) {
        struct asked asked[2 * EACH];
        for (int half = 0; half < 2; half++) {
            cudaStream_t own;
            cuda_must(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
            for (int i = half * EACH; i < (half + 1) * EACH; i++) {
                asked[i] = asked_make(own, (i + 17 * half) % (QUERIES - 3), nq);
                asked_enqueue(&asked[i], pair.gpu, i == half * EACH ? 20 : 0);
            }
            cuda_must(cudaStreamDestroy(own));
        }
        cuda_must(cudaDeviceSynchronize());
        for (int i = 0; i < 2 * EACH; i++) asked_check(&asked[i]);
    }
}

/* Freeing the index waits for what was asked of it, also when the stream is gone. */
static void an_index_is_freed_behind_its_searches(void **state) {
    (void)state;
    for (int64_t nq = 1; nq <= 3; nq += 2) {
        struct pair own = pair_build(&data);
        cudaStream_t gone;
        cuda_must(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking));
        struct asked one = asked_make(gone, 3, nq), other = asked_make(stream, 5, nq);
        asked_enqueue(&one, own.gpu, 30);
        asked_enqueue(&other, own.gpu, 30);
        cuda_must(cudaStreamDestroy(gone));
        pair_free(&own);
        asked_check(&one);
        asked_check(&other);
    }
}

/* On one stream: what the host sends goes through memory that a search before it, still to come, does not read. */
static void host_queries_come_after_device_queries(void **state) {
    (void)state;
    struct asked late = asked_make(stream, 7, 1);
    struct vic_hits hits = hits_on_device(2, K);
    struct vic_search_options options = {.size = sizeof options, .stream = stream};
    struct vic_matrix host = matrix_of(queries + 9 * DIM, 2, DIM, VIC_F32);
    for (int turn = 0; turn < 5; turn++) {
        asked_enqueue(&late, pair.gpu, 10);
        must(vic_index_search(pair.gpu, &host, K, &options, &hits));
    }
    cuda_must(cudaStreamSynchronize(stream));
    equal_on_device(&hits, 9, 2, K);
    hits_release(&hits);
    asked_check(&late);
}

/* Every combination of places, with and without a stream of the caller. */
static void queries_and_hits_may_each_lie_on_either_side(void **state) {
    (void)state;
    for (int turn = 0; turn < 16; turn++) {
        int64_t nq = turn & 1 ? QUERIES : 1, k = turn & 2 ? 5000 : K;
        struct vic_search_options options = {.size = sizeof options, .stream = turn & 4 ? stream : NULL};
        struct vic_matrix host = matrix_of(queries, nq, DIM, VIC_F32), device = on_device(queries_device, nq);
        struct answer right = right_of(0, nq, k), found = answer_make(nq, k);
        struct vic_hits to_host = answer_hits(&found), hits = hits_on_device(nq, k);
        must(vic_index_search(pair.gpu, turn & 8 ? &device : &host, k, &options, &to_host));
        answers_equal(&found, &right);
        must(vic_index_search(pair.gpu, turn & 8 ? &device : &host, k, &options, &hits));
        if (options.stream) cuda_must(cudaStreamSynchronize(stream));
        equal_on_device(&hits, 0, nq, k);
        hits_release(&hits);
        answer_free(&right);
        answer_free(&found);
    }
}

/* A captured search is replayed with other queries in the same place, while ordinary searches go on, there and elsewhere. */
static void a_captured_search_can_be_replayed(void **state) {
    (void)state;
    for (int64_t nq = 1; nq <= QUERIES; nq += QUERIES - 1) {
        struct vic_search_options options = {.size = sizeof options, .stream = stream};
        struct vic_hits hits = hits_on_device(nq, K);
        float *query = to_device(NULL, (size_t)nq * DIM * 4);
        struct vic_matrix matrix = on_device(query, nq);
        cudaGraph_t graph;
        cudaGraphExec_t runnable;
        cuda_must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        must(vic_index_search(pair.gpu, &matrix, K, &options, &hits));
        cuda_must(cudaStreamEndCapture(stream, &graph));
        cuda_must(cudaGraphInstantiate(&runnable, graph, 0));
        for (int64_t turn = 0; turn < 20; turn++) {
            int64_t first = nq == 1 ? turn : 0;
            cuda_must(
                cudaMemcpyAsync(query, queries_device + first * DIM, (size_t)nq * DIM * 4, cudaMemcpyDeviceToDevice, stream));
            cuda_must(cudaGraphLaunch(runnable, stream));
            struct vic_matrix ordinary = matrix_of(queries, nq, DIM, VIC_F32);
            pair_check(&pair, &ordinary, K, 0, NULL, 0);
            struct asked behind = asked_make(stream, 11, nq == 1 ? 1 : 3);
            asked_enqueue(&behind, pair.gpu, 0);
            cuda_must(cudaGraphLaunch(runnable, stream));
            cuda_must(cudaStreamSynchronize(stream));
            equal_on_device(&hits, first, nq, K);
            asked_check(&behind);
        }
        cuda_must(cudaGraphExecDestroy(runnable));
        cuda_must(cudaGraphDestroy(graph));
        cuda_must(cudaFree(query));
        hits_release(&hits);
    }
}

static void what_a_capture_cannot_hold_is_refused(void **state) {
    (void)state;
    struct vic_search_options options = {.size = sizeof options, .stream = stream};
    struct vic_matrix host = matrix_of(queries, 1, DIM, VIC_F32), device = on_device(queries_device, 1);
    struct answer answer = answer_make(1, 3000);
    struct vic_hits to_host = answer_hits(&answer), hits = hits_on_device(1, 3000);
    cudaGraph_t graph;
    cuda_must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    assert_int_equal(vic_index_search(pair.gpu, &host, K, &options, &hits), VIC_UNSUPPORTED);
    assert_int_equal(vic_index_search(pair.gpu, &device, K, &options, &to_host), VIC_UNSUPPORTED);
    assert_int_equal(vic_index_search(pair.gpu, &device, 3000, &options, &hits), VIC_UNSUPPORTED);
    cuda_must(cudaStreamEndCapture(stream, &graph));
    cuda_must(cudaGraphDestroy(graph));
    hits_release(&hits);
    answer_free(&answer);
}

/* A device query that holds NaN cannot be refused without waiting for it: every score is then the worst. */
static void a_query_of_nan_on_the_device_scores_worst(void **state) {
    (void)state;
    float *query = to_device(NULL, DIM * 4);
    cuda_must(cudaMemset(query, 0xFF, DIM * 4));
    struct vic_matrix matrix = on_device(query, 1);
    struct answer found = answer_make(1, 4);
    struct vic_hits hits = answer_hits(&found);
    must(vic_index_search(pair.gpu, &matrix, 4, NULL, &hits));
    for (int i = 0; i < 4; i++) assert_true(found.ids[i] == i && found.scores[i] == -1.0f / 0.0f);
    answer_free(&found);
    cuda_must(cudaFree(query));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(CON_03_a_late_query_is_waited_for_on_the_stream),
        cmocka_unit_test(hits_are_valid_in_stream_order),
        cmocka_unit_test(streams_in_turn_do_not_mix),
        cmocka_unit_test(more_streams_than_workspaces_wait_on_the_device),
        cmocka_unit_test(a_stream_in_the_place_of_another_is_another),
        cmocka_unit_test(an_index_is_freed_behind_its_searches),
        cmocka_unit_test(host_queries_come_after_device_queries),
        cmocka_unit_test(queries_and_hits_may_each_lie_on_either_side),
        cmocka_unit_test(a_captured_search_can_be_replayed),
        cmocka_unit_test(what_a_capture_cannot_hold_is_refused),
        cmocka_unit_test(a_query_of_nan_on_the_device_scores_worst),
    };
    if (!devices_begin()) return SKIPPED;
    int failed = cmocka_run_group_tests_name("gpu/streams", tests, group_begin, group_end);
    devices_end();
    return failed;
}
