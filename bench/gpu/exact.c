/* Exact search on the GPU, timed: host to host, enqueued on a stream, and the CPU of the same machine beside it.
 *
 *     bench_exact_gpu ROWS N DIM QUERIES TYPE METRIC KS BATCHES REPEATS [cpu] [questions]
 *
 * ROWS and QUERIES are files of packed float32 (QUERIES: at least 64, for questions 256), or "-" for the library's own Gaussian
 * data, seed 1. TYPE is what the index stores; KS and BATCHES are lists as 8,32,100; "cpu" times the CPU's own round trip too,
 * and the rows' way up from an index file and from memory, "questions" threshold searches and scores of given ids. Nothing is
 * timed before ids and scores equal the CPU's bytes. Prints JSON lines (fields: docs/benchmarks.md). */
#include "vicinal.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { QUERIES = 64, QUESTIONS = 256, SCORED = 1000, WARMUP = 50 };

struct bench {
    int64_t n, dim;
    enum vic_dtype dtype, query_dtype;
    enum vic_metric metric;
    struct vic_matrix rows, queries;
    struct vic_device *cpu, *gpu;
    struct vic_index *cpu_index, *gpu_index;
    int64_t repeats;
    double *us;
};

static void stop(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fputc('\n', stderr);
    exit(1);
}
static void must(enum vic_status status) {
    if (status != VIC_OK) stop("%s: %s", vic_status_name(status), vic_last_error());
}
static void cuda_must(cudaError_t error) {
    if (error != cudaSuccess) stop("CUDA says %s", cudaGetErrorString(error));
}
static void *take(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) stop("no memory for %zu bytes", bytes);
    return memory;
}
static double now_us(void) {
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

/* ---- data */

static struct vic_matrix vectors_take(const char *path, int64_t first, int64_t count, int64_t dim, enum vic_dtype dtype) {
    struct vic_matrix matrix = {.rows = count, .dim = dim, .dtype = dtype};
    size_t bytes = (size_t)(count * dim) * vic_dtype_bytes(dtype);
    if (strcmp(path, "-") == 0) {
        struct vic_generate_options options = {.size = sizeof options, .seed = 1};
        matrix.data = take(bytes);
        must(vic_generate(&options, first, 0, &matrix));
        return matrix;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    matrix.dtype = VIC_F32;
    bytes = (size_t)(count * dim) * 4;
    matrix.data = file < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    if (matrix.data == MAP_FAILED || lseek(file, 0, SEEK_END) < (off_t)bytes)
        stop("%s: expected a file of %zu bytes", path, bytes);
    (void)close(file);
    return matrix;
}

static struct vic_device *device_named(const char *name) {
    struct vic_device_options options = {.size = sizeof options, .name = name};
    struct vic_device *device = NULL;
    must(vic_device_open(&options, &device));
    return device;
}

static struct vic_index *index_on(struct bench *bench, struct vic_device *device) {
    struct vic_build_options options = {
        .size = sizeof options, .metric = bench->metric, .dtype = bench->dtype, .planes = VIC_PLANES_NONE};
    struct vic_index *index = NULL;
    must(vic_index_build(device, &bench->rows, &options, &index));
    return index;
}

/* ---- one search */

static struct vic_matrix batch_at(const struct bench *bench, int64_t turn, int64_t batch) {
    struct vic_matrix queries = bench->queries;
    int64_t first = turn * batch % (bench->queries.rows - batch + 1);
    queries.data = (char *)queries.data + (size_t)(first * bench->dim) * vic_dtype_bytes(queries.dtype);
    queries.rows = batch;
    return queries;
}

static struct vic_hits hits_take(int64_t batch, int64_t k) {
    return (struct vic_hits){.ids = take((size_t)(batch * k) * 8), .scores = take((size_t)(batch * k) * 4)};
}
static void hits_drop(struct vic_hits *hits) {
    free(hits->ids);
    free(hits->scores);
}

static void verify(const struct bench *bench, int64_t batch, int64_t k) {
    struct vic_hits right = hits_take(batch, k), found = hits_take(batch, k);
    struct vic_matrix queries = batch_at(bench, 1, batch);
    must(vic_index_search(bench->gpu_index, &queries, k, NULL, &found));
    int64_t checked = batch < 16 ? batch : 16;
    queries.rows = checked;
    must(vic_index_search(bench->cpu_index, &queries, k, NULL, &right));
    if (memcmp(right.ids, found.ids, (size_t)(checked * k) * 8) != 0 ||
        memcmp(right.scores, found.scores, (size_t)(checked * k) * 4) != 0)
        stop("the GPU's hits are not the CPU's: n %lld dim %lld k %lld batch %lld", (long long)bench->n, (long long)bench->dim,
             (long long)k, (long long)batch);
    hits_drop(&right);
    hits_drop(&found);
}

/* ---- records */

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void record(const struct bench *bench, const char *device, int64_t batch, int64_t k, int64_t repeats, const char *more) {
    qsort(bench->us, (size_t)repeats, sizeof *bench->us, compare_doubles);
    double p50 = bench->us[repeats / 2];
    (void)printf(
        "{\"record\": \"exact\", \"system\": \"vicinal\", \"rows\": %lld, \"dim\": %lld, \"k\": %lld, \"batch\": %lld, "
        "\"metric\": \"%s\", \"dtype\": \"%s\", \"device\": \"%s\", \"path\": \"scan\", \"p50_us\": %.2f, \"p99_us\": %.2f, "
        "\"p999_us\": %.2f, \"max_us\": %.2f, \"repeats\": %lld, \"qps\": %.0f, \"verified\": true%s}\n",
        (long long)bench->n, (long long)bench->dim, (long long)k, (long long)batch, vic_metric_name(bench->metric),
        vic_dtype_name(bench->dtype), device, p50, bench->us[repeats * 99 / 100], bench->us[repeats * 999 / 1000],
        bench->us[repeats - 1], (long long)repeats, (double)batch / p50 * 1e6, more);
    (void)fflush(stdout);
}

static void time_host(const struct bench *bench, const struct vic_index *index, const char *device, int64_t batch, int64_t k,
                      int64_t repeats, int64_t warmup) {
    struct vic_hits hits = hits_take(batch, k);
    for (int64_t turn = -warmup; turn < repeats; turn++) {
        struct vic_matrix queries = batch_at(bench, turn + warmup, batch);
        double began = now_us();
        must(vic_index_search(index, &queries, k, NULL, &hits));
        if (turn >= 0) bench->us[turn] = now_us() - began;
    }
    record(bench, device, batch, k, repeats, "");
    hits_drop(&hits);
}

/* Query and hits on the device: how long the call takes (the stream kept short), and how long the GPU works on it. */
static void time_device(const struct bench *bench, int64_t k, int64_t repeats) {
    struct vic_hits hits = {.place = VIC_DEVICE};
    struct vic_matrix query = batch_at(bench, 0, 1);
    size_t bytes = (size_t)bench->dim * vic_dtype_bytes(query.dtype);
    void *copy = NULL;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    float ms = 0;
    char more[160];
    cuda_must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda_must(cudaEventCreate(&begin));
    cuda_must(cudaEventCreate(&end));
    cuda_must(cudaMalloc(&copy, bytes));
    cuda_must(cudaMalloc((void **)&hits.ids, (size_t)k * 8));
    cuda_must(cudaMalloc((void **)&hits.scores, (size_t)k * 4));
    cuda_must(cudaMemcpy(copy, query.data, bytes, cudaMemcpyHostToDevice));
    query.data = copy, query.place = VIC_DEVICE;
    struct vic_search_options options = {.size = sizeof options, .stream = stream};
    for (int64_t turn = -WARMUP; turn < repeats; turn++) {
        double began = now_us();
        must(vic_index_search(bench->gpu_index, &query, k, &options, &hits));
        if (turn >= 0) bench->us[turn] = now_us() - began;
        cuda_must(cudaStreamSynchronize(stream));
    }
    cuda_must(cudaEventRecord(begin, stream));
    for (int i = 0; i < 100; i++) must(vic_index_search(bench->gpu_index, &query, k, &options, &hits));
    cuda_must(cudaEventRecord(end, stream));
    cuda_must(cudaEventSynchronize(end));
    cuda_must(cudaEventElapsedTime(&ms, begin, end));
    (void)snprintf(more, sizeof more, ", \"place\": \"device\", \"timed\": \"enqueue\", \"gpu_us\": %.2f", (double)ms * 10);
    record(bench, "cuda", 1, k, repeats, more);
    cuda_must(cudaFree(copy));
    cuda_must(cudaFree(hits.ids));
    cuda_must(cudaFree(hits.scores));
    cuda_must(cudaEventDestroy(begin));
    cuda_must(cudaEventDestroy(end));
    cuda_must(cudaStreamDestroy(stream));
}

/* ---- the other questions */

static void record_question(const struct bench *bench, const char *question, int64_t batch, const char *each, double count,
                            int64_t repeats) {
    qsort(bench->us, (size_t)repeats, sizeof *bench->us, compare_doubles);
    double p50 = bench->us[repeats / 2];
    (void)printf(
        "{\"record\": \"question\", \"system\": \"vicinal\", \"question\": \"%s\", \"rows\": %lld, \"dim\": %lld, "
        "\"batch\": %lld, \"%s\": %.0f, \"metric\": \"%s\", \"dtype\": \"%s\", \"device\": \"cuda\", \"p50_us\": %.2f, "
        "\"p99_us\": %.2f, \"max_us\": %.2f, \"repeats\": %lld, \"qps\": %.0f, \"verified\": true}\n",
        question, (long long)bench->n, (long long)bench->dim, (long long)batch, each, count, vic_metric_name(bench->metric),
        vic_dtype_name(bench->dtype), p50, bench->us[repeats * 99 / 100], bench->us[repeats - 1], (long long)repeats,
        (double)batch / p50 * 1e6);
    (void)fflush(stdout);
}

static struct vic_ranges ranges_take(int64_t nq, int64_t capacity) {
    return (struct vic_ranges){take((size_t)(nq + 1) * 8), take((size_t)capacity * 8), take((size_t)capacity * 4), capacity};
}
static void ranges_drop(struct vic_ranges *ranges) {
    free(ranges->offsets);
    free(ranges->ids);
    free(ranges->scores);
}

/* Rows that are at least as good as the `hits`-th best of the first query. */
static void time_within(const struct bench *bench, int64_t batch, int64_t hits, int64_t repeats) {
    struct vic_hits best = hits_take(1, hits);
    struct vic_matrix queries = batch_at(bench, 0, batch), one = batch_at(bench, 0, 1);
    must(vic_index_search(bench->gpu_index, &one, hits, NULL, &best));
    float score = best.scores[hits - 1];
    struct vic_ranges counted = ranges_take(batch, 0);
    if (vic_index_within(bench->gpu_index, &queries, score, NULL, &counted) != VIC_CAPACITY) stop("expected hits, found none");
    int64_t total = counted.offsets[batch], checked = batch < 16 ? batch : 16;
    struct vic_ranges found = ranges_take(batch, total), right = ranges_take(batch, total);
    for (int64_t turn = -3; turn < repeats; turn++) {
        double began = now_us();
        must(vic_index_within(bench->gpu_index, &queries, score, NULL, &found));
        if (turn >= 0) bench->us[turn] = now_us() - began;
        if (turn != -3) continue;
        struct vic_matrix some = queries;
        some.rows = checked;
        must(vic_index_within(bench->cpu_index, &some, score, NULL, &right));
        if (memcmp(right.offsets, found.offsets, (size_t)(checked + 1) * 8) != 0 ||
            memcmp(right.ids, found.ids, (size_t)right.offsets[checked] * 8) != 0 ||
            memcmp(right.scores, found.scores, (size_t)right.offsets[checked] * 4) != 0)
            stop("the GPU's rows within a threshold are not the CPU's: batch %lld", (long long)batch);
    }
    record_question(bench, "within", batch, "hits", (double)total / (double)batch, repeats);
    ranges_drop(&counted);
    ranges_drop(&found);
    ranges_drop(&right);
    hits_drop(&best);
}

static void time_score(const struct bench *bench, int64_t repeats) {
    struct vic_matrix queries = batch_at(bench, 0, QUESTIONS);
    size_t slots = (size_t)QUESTIONS * SCORED;
    int64_t *ids = take(slots * 8);
    float *found = take(slots * 4), *right = take(slots * 4);
    for (size_t i = 0; i < slots; i++) ids[i] = (int64_t)((i * UINT64_C(0x9E3779B97F4A7C15) >> 20) % (uint64_t)bench->n);
    must(vic_index_score(bench->cpu_index, &queries, ids, SCORED, NULL, right));
    for (int64_t turn = -3; turn < repeats; turn++) {
        double began = now_us();
        must(vic_index_score(bench->gpu_index, &queries, ids, SCORED, NULL, found));
        if (turn >= 0) bench->us[turn] = now_us() - began;
        if (memcmp(found, right, slots * 4) != 0) stop("the GPU's scores are not the CPU's");
    }
    record_question(bench, "score", QUESTIONS, "ids", SCORED, repeats);
    free(ids);
    free(found);
    free(right);
}

static void time_questions(const struct bench *bench) {
    static const int64_t batches[] = {1, 16, QUESTIONS};
    for (int i = 0; i < 3; i++) time_within(bench, batches[i], 100, 1000 / batches[i] + 9);
    time_within(bench, QUESTIONS, bench->n / 100, 9);
    time_score(bench, 100);
}

/* ---- the way up */

/* The first times that a file is opened after it was written can be half as fast. */
enum { OPENS = 15, OPENS_BEFORE = 3 };
static const size_t link_bytes = (size_t)1 << 30;

static double link_gbps(void *device, const void *pinned) {
    double began = now_us();
    cuda_must(cudaMemcpy(device, pinned, link_bytes, cudaMemcpyHostToDevice));
    return (double)link_bytes / (now_us() - began) / 1e3;
}

/* The stage "uploading" alone: a build from memory also looks at every row. */
static int upload_hear(void *user, const struct vic_progress_state *state) {
    if (strcmp(state->stage, "uploading") == 0 && state->done == state->total) *(double *)user = state->seconds;
    return 0;
}

static void open_record(const struct bench *bench, const char *from, double bytes, double *gbps, double link) {
    qsort(gbps, OPENS, sizeof *gbps, compare_doubles);
    (void)printf(
        "{\"record\": \"open\", \"system\": \"vicinal\", \"rows\": %lld, \"dim\": %lld, \"dtype\": \"%s\", "
        "\"device\": \"cuda\", \"from\": \"%s\", \"bytes\": %.0f, \"gbps\": %.2f, \"least_gbps\": %.2f, \"most_gbps\": %.2f, "
        "\"link_gbps\": %.2f, \"repeats\": %d, \"verified\": true}\n",
        (long long)bench->n, (long long)bench->dim, vic_dtype_name(bench->dtype), from, bytes, gbps[OPENS / 2], gbps[0],
        gbps[OPENS - 1], link, OPENS);
    (void)fflush(stdout);
}

/* From a mapped file that lies in the page cache, the whole of vic_index_open, and from memory; turn by turn with what the link
 * does with pinned memory. */
static void time_open(const struct bench *bench) {
    const char *path = "/dev/shm/vicinal-bench.vic";
    double link[OPENS], file[OPENS], memory[OPENS], upload_s = 0;
    double bytes = (double)bench->n * (double)bench->dim * (double)vic_dtype_bytes(bench->dtype);
    struct vic_build_options build = {.size = sizeof build,
                                      .metric = bench->metric,
                                      .dtype = bench->dtype,
                                      .planes = VIC_PLANES_NONE,
                                      .progress = {upload_hear, &upload_s}};
    struct bench other = *bench;
    void *device = NULL, *pinned = NULL;
    cuda_must(cudaMalloc(&device, link_bytes));
    cuda_must(cudaHostAlloc(&pinned, link_bytes, cudaHostAllocDefault));
    must(vic_index_save(bench->cpu_index, path, NULL));
    for (int turn = -OPENS_BEFORE; turn < OPENS; turn++) {
        int slot = turn < 0 ? 0 : turn;
        link[slot] = link_gbps(device, pinned);
        double began = now_us();
        must(vic_index_open(bench->gpu, path, NULL, &other.gpu_index));
        file[slot] = bytes / (now_us() - began) / 1e3;
        verify(&other, 1, 10);
        vic_index_free(other.gpu_index);
        must(vic_index_build(bench->gpu, &bench->rows, &build, &other.gpu_index));
        memory[slot] = bytes / upload_s / 1e9;
        verify(&other, 1, 10);
        vic_index_free(other.gpu_index);
    }
    (void)unlink(path);
    cuda_must(cudaFree(device));
    cuda_must(cudaFreeHost(pinned));
    qsort(link, OPENS, sizeof *link, compare_doubles);
    open_record(bench, "file", bytes, file, link[OPENS / 2]);
    open_record(bench, "memory", bytes, memory, link[OPENS / 2]);
}

int main(int argc, char **argv) {
    if (argc < 10) stop("usage: %s ROWS N DIM QUERIES TYPE METRIC KS BATCHES REPEATS [cpu] [questions]", argv[0]);
    struct bench bench = {.n = atoll(argv[2]), .dim = atoll(argv[3]), .repeats = atoll(argv[9])};
    int64_t ks[16], batches[16], k_count = 0, batch_count = 0, most = QUERIES;
    must(vic_dtype_parse(argv[5], &bench.dtype));
    must(vic_metric_parse(argv[6], &bench.metric));
    for (char *at = strtok(argv[7], ","); at && k_count < 16; at = strtok(NULL, ",")) ks[k_count++] = atoll(at);
    for (char *at = strtok(argv[8], ","); at && batch_count < 16; at = strtok(NULL, ",")) {
        batches[batch_count++] = atoll(at);
        if (atoll(at) > most) most = atoll(at);
    }
    bool cpu = false, questions = false;
    for (int i = 10; i < argc; i++) {
        cpu |= strcmp(argv[i], "cpu") == 0;
        questions |= strcmp(argv[i], "questions") == 0;
    }
    if (questions && most < QUESTIONS) most = QUESTIONS;
    bench.query_dtype = bench.dtype == VIC_I8 || bench.dtype == VIC_U8 ? bench.dtype : VIC_F32;
    bench.rows = vectors_take(argv[1], 0, bench.n, bench.dim, bench.dtype);
    bench.queries = vectors_take(argv[4], bench.n, most, bench.dim, bench.query_dtype);
    /* A batch is repeated up to 2,005 times whatever was asked for. */
    bench.us = take((size_t)(bench.repeats > 2005 ? bench.repeats : 2005) * sizeof *bench.us);
    bench.cpu = device_named("cpu"), bench.gpu = device_named("cuda");
    bench.cpu_index = index_on(&bench, bench.cpu), bench.gpu_index = index_on(&bench, bench.gpu);
    for (int64_t b = 0; b < batch_count; b++)
        for (int64_t i = 0; i < k_count; i++) {
            int64_t repeats = batches[b] == 1 ? bench.repeats : 2000 / batches[b] + 5;
            verify(&bench, batches[b], ks[i]);
            time_host(&bench, bench.gpu_index, "cuda", batches[b], ks[i], repeats, batches[b] == 1 ? WARMUP : 3);
        }
    if (batches[0] == 1) time_device(&bench, ks[0], bench.repeats < 1000 ? bench.repeats : 1000);
    if (questions) time_questions(&bench);
    if (cpu) {
        time_host(&bench, bench.cpu_index, "cpu", 1, ks[0], 15, 3);
        time_open(&bench);
    }
    vic_index_free(bench.cpu_index);
    vic_index_free(bench.gpu_index);
    vic_device_free(bench.cpu);
    vic_device_free(bench.gpu);
    return 0;
}
