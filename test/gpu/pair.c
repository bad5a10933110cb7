/* Two indexes over one corpus, and comparing what they say. */
#include "gpu/pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

static struct vic_device *cpu, *gpu;

static struct vic_device *device_named(const char *name) {
    struct vic_device_options options = {.size = sizeof options, .name = name};
    struct vic_device *device = NULL;
    return vic_device_open(&options, &device) == VIC_OK ? device : NULL;
}

bool devices_begin(void) {
    cpu = device_named("cpu");
    gpu = device_named("cuda");
    if (!gpu) (void)fprintf(stderr, "skipped: %s\n", vic_last_error());
    return gpu != NULL;
}

void devices_end(void) {
    vic_device_free(gpu);
    vic_device_free(cpu);
}

struct vic_device *device_cpu(void) {
    return cpu;
}
struct vic_device *device_gpu(void) {
    return gpu;
}

static struct vic_index *index_plain(struct vic_device *device, const struct data *data) {
    struct vic_index *index = NULL;
    struct vic_matrix rows = matrix_of(data->rows, data->n, data->dim, data->dtype);
    struct vic_build_options options = {
        .size = sizeof options, .metric = data->metric, .ids = data->ids, .planes = VIC_PLANES_NONE};
    must(vic_index_build(device, &rows, &options, &index));
    return index;
}

struct pair pair_build(const struct data *data) {
    return (struct pair){index_plain(cpu, data), index_plain(gpu, data)};
}

void pair_free(struct pair *pair) {
    vic_index_free(pair->cpu);
    vic_index_free(pair->gpu);
}

struct answer answer_make(int64_t nq, int64_t k) {
    struct answer answer = {nq, k, take((size_t)(nq * k) * 8), take((size_t)(nq * k) * 4), take((size_t)nq * 4)};
    memset(answer.ids, 0xAA, (size_t)(nq * k) * 8);
    memset(answer.scores, 0xAA, (size_t)(nq * k) * 4);
    memset(answer.counts, 0xAA, (size_t)nq * 4);
    return answer;
}

struct vic_hits answer_hits(const struct answer *answer) {
    return (struct vic_hits){.ids = answer->ids, .scores = answer->scores, .counts = answer->counts};
}

void answer_free(struct answer *answer) {
    free(answer->ids);
    free(answer->scores);
    free(answer->counts);
}

void answers_equal(const struct answer *a, const struct answer *b) {
    assert_true(a->nq == b->nq && a->k == b->k);
    assert_memory_equal(a->counts, b->counts, (size_t)a->nq * 4);
    assert_memory_equal(a->scores, b->scores, (size_t)(a->nq * a->k) * 4);
    assert_memory_equal(a->ids, b->ids, (size_t)(a->nq * a->k) * 8);
}

static struct answer answer_of(const struct vic_index *index, const struct vic_matrix *queries, int64_t k, enum vic_path path,
                               const int64_t *filter_ids, int64_t filter_count) {
    struct answer answer = answer_make(queries->rows, k);
    struct vic_hits hits = answer_hits(&answer);
    struct vic_filter *filter = NULL;
    if (filter_ids) must(vic_filter_create(index, filter_ids, filter_count, NULL, &filter));
    struct vic_search_options options = {.size = sizeof options, .path = path, .filter = filter};
    must(vic_index_search(index, queries, k, &options, &hits));
    vic_filter_free(filter);
    return answer;
}

void pair_check(const struct pair *pair, const struct vic_matrix *queries, int64_t k, enum vic_path path,
                const int64_t *filter_ids, int64_t filter_count) {
    struct answer right = answer_of(pair->cpu, queries, k, 0, filter_ids, filter_count);
    struct answer found = answer_of(pair->gpu, queries, k, path, filter_ids, filter_count);
    answers_equal(&found, &right);
    answer_free(&right);
    answer_free(&found);
}

struct ranges {
    struct vic_ranges view;
    enum vic_status status;
};

static struct ranges ranges_of(const struct vic_index *index, const struct vic_matrix *queries, float score, int64_t capacity,
                               const struct vic_search_options *options) {
    struct ranges ranges = {
        {take((size_t)(queries->rows + 1) * 8), take((size_t)capacity * 8), take((size_t)capacity * 4), capacity}, VIC_OK};
    memset(ranges.view.ids, 0xAA, (size_t)capacity * 8);
    memset(ranges.view.scores, 0xAA, (size_t)capacity * 4);
    ranges.status = vic_index_within(index, queries, score, options, &ranges.view);
    return ranges;
}

static void ranges_free(struct ranges *ranges) {
    free(ranges->view.offsets);
    free(ranges->view.ids);
    free(ranges->view.scores);
}

/* Too little room: the counts are all there all the same. */
static void check_no_room(const struct pair *pair, const struct vic_matrix *queries, float score, int64_t capacity,
                          const struct vic_search_options *options, const struct ranges *right) {
    struct ranges found = ranges_of(pair->gpu, queries, score, capacity, options);
    assert_int_equal(found.status, VIC_CAPACITY);
    assert_memory_equal(found.view.offsets, right->view.offsets, (size_t)(queries->rows + 1) * 8);
    ranges_free(&found);
}

void pair_check_within(const struct pair *pair, const struct vic_matrix *queries, float score, const int64_t *filter_ids,
                       int64_t filter_count) {
    struct vic_search_options options[2] = {{.size = sizeof *options}, {.size = sizeof *options}};
    struct vic_filter *filters[2] = {NULL, NULL};
    const struct vic_index *const indexes[2] = {pair->cpu, pair->gpu};
    for (int i = 0; i < 2 && filter_ids; i++) {
        must(vic_filter_create(indexes[i], filter_ids, filter_count, NULL, &filters[i]));
        options[i].filter = filters[i];
    }
    struct ranges counted = ranges_of(pair->cpu, queries, score, 0, &options[0]);
    int64_t total = counted.view.offsets[queries->rows];
    if (total > 0) check_no_room(pair, queries, score, 0, &options[1], &counted);
    if (total > 1) check_no_room(pair, queries, score, total - 1, &options[1], &counted);
    struct ranges right = ranges_of(pair->cpu, queries, score, total, &options[0]);
    struct ranges found = ranges_of(pair->gpu, queries, score, total, &options[1]);
    must(right.status);
    must(found.status);
    assert_memory_equal(found.view.offsets, right.view.offsets, (size_t)(queries->rows + 1) * 8);
    if (total) assert_memory_equal(found.view.ids, right.view.ids, (size_t)total * 8);
    if (total) assert_memory_equal(found.view.scores, right.view.scores, (size_t)total * 4);
    for (int i = 0; i < 2; i++) vic_filter_free(filters[i]);
    ranges_free(&counted);
    ranges_free(&right);
    ranges_free(&found);
}

float pair_threshold(const struct pair *pair, const struct vic_matrix *queries, int64_t rank) {
    struct vic_matrix one = *queries;
    struct answer answer = answer_make(1, rank);
    struct vic_hits hits = answer_hits(&answer);
    one.rows = 1;
    must(vic_index_search(pair->cpu, &one, rank, NULL, &hits));
    float score = answer.scores[rank - 1];
    answer_free(&answer);
    return score;
}

void pair_check_score(const struct pair *pair, const struct vic_matrix *queries, const int64_t *ids, int64_t count) {
    size_t bytes = (size_t)(queries->rows * count) * 4;
    float *right = take(bytes), *found = take(bytes);
    memset(found, 0xAA, bytes);
    must(vic_index_score(pair->cpu, queries, ids, count, NULL, right));
    must(vic_index_score(pair->gpu, queries, ids, count, NULL, found));
    assert_memory_equal(found, right, bytes);
    free(right);
    free(found);
}

/* ---- device memory */

void cuda_must(cudaError_t error) {
    if (error != cudaSuccess) fail_msg("CUDA says %s", cudaGetErrorString(error));
}

void *to_device(const void *host, size_t bytes) {
    void *device = NULL;
    cuda_must(cudaMalloc(&device, bytes ? bytes : 1));
    cuda_must(host ? cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice) : cudaMemset(device, 0xAA, bytes));
    return device;
}

struct vic_hits hits_on_device(int64_t nq, int64_t k) {
    return (struct vic_hits){.ids = to_device(NULL, (size_t)(nq * k) * 8),
                             .scores = to_device(NULL, (size_t)(nq * k) * 4),
                             .counts = to_device(NULL, (size_t)nq * 4),
                             .place = VIC_DEVICE};
}

void hits_fetch(const struct vic_hits *device, const struct answer *answer) {
    size_t slots = (size_t)(answer->nq * answer->k);
    cuda_must(cudaMemcpy(answer->ids, device->ids, slots * 8, cudaMemcpyDeviceToHost));
    cuda_must(cudaMemcpy(answer->scores, device->scores, slots * 4, cudaMemcpyDeviceToHost));
    cuda_must(cudaMemcpy(answer->counts, device->counts, (size_t)answer->nq * 4, cudaMemcpyDeviceToHost));
}

void hits_release(struct vic_hits *device) {
    cuda_must(cudaFree(device->ids));
    cuda_must(cudaFree(device->scores));
    cuda_must(cudaFree(device->counts));
}

struct data data_make(uint64_t seed, int64_t n, int64_t dim, enum vic_dtype dtype, enum vic_metric metric, enum values values) {
    struct random random = {seed};
    struct data data = {take((size_t)(n * dim) * vic_dtype_bytes(dtype)), n, dim, dtype, metric, NULL};
    random_fill(&random, values, dtype, n * dim, data.rows);
    return data;
}
