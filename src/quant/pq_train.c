/* Centres for every chunk, from a sample of the rows.
 *
 * The sample: 256 rows a centre (65,536 for 256 centres) or all there are, but at most 256 MiB as float32 and never fewer than
 * 16 a centre. The rows are cut into as many runs of equal length, and one of each run is drawn by its number (Philox), so
 * the sample does not depend on who draws it. The centroid is the sample's mean, summed in doubles in ascending order. */
#include "quant/pq.h"
#include "base/progress.h"
#include "base/rng.h"
#include "quant/kmeans.h"

#include <string.h>

enum { ROUNDS = 12, SAMPLE_A_CENTRE = 256, SAMPLE_A_CENTRE_LEAST = 16, PART_ROWS = 64, PART_DIMS = 64 };
static const int64_t sample_bytes_most = INT64_C(256) << 20;
static const uint64_t sample_stream = UINT64_MAX; /* chunks use the streams of their numbers */

struct sample {
    const struct rows *rows;
    struct pq_parts parts; /* as far as they are known */
    const struct column_kernels *kernels;
    uint64_t seed;
    int64_t n;
    float *values, *scratch; /* n * dim; dim a worker */
    float *centroid;
};

static int64_t sample_rows(int64_t n, int64_t dim, int64_t centres) {
    int64_t most = centres * SAMPLE_A_CENTRE, least = centres * SAMPLE_A_CENTRE_LEAST;
    int64_t fitting = sample_bytes_most / (dim * (int64_t)sizeof(float));
    if (most > fitting) most = fitting > least ? fitting : least;
    return n < most ? n : most;
}

/* The row that run `i` of n is represented by. */
static int64_t sample_row(const struct sample *sample, int64_t i) {
    int64_t n = sample->rows->n;
    int64_t first = (int64_t)((unsigned __int128)i * (uint64_t)n / (uint64_t)sample->n);
    int64_t end = (int64_t)(((unsigned __int128)i + 1) * (uint64_t)n / (uint64_t)sample->n);
    uint32_t random = philox_block(sample->seed, sample_stream, (uint64_t)i).words[0];
    return first + (int64_t)((uint64_t)random * (uint64_t)(end - first) >> 32);
}

static void load_part(void *argument, int worker, int64_t part) {
    const struct sample *sample = argument;
    int64_t end = (part + 1) * PART_ROWS < sample->n ? (part + 1) * PART_ROWS : sample->n;
    (void)worker;
    for (int64_t i = part * PART_ROWS; i < end; i++)
        pq_row_load(sample->rows, sample->parts.max_norm, sample_row(sample, i), sample->values + i * sample->parts.dim);
}

static void centroid_part(void *argument, int worker, int64_t part) {
    const struct sample *sample = argument;
    int64_t dim = sample->parts.dim, first = part * PART_DIMS, count = dim - first < PART_DIMS ? dim - first : PART_DIMS;
    double sums[PART_DIMS] = {0};
    (void)worker;
    for (int64_t i = 0; i < sample->n; i++)
        for (int64_t d = 0; d < count; d++) sums[d] += (double)sample->values[i * dim + first + d];
    for (int64_t d = 0; d < count; d++) sample->centroid[first + d] = sample->n ? (float)(sums[d] / (double)sample->n) : 0;
}

static void turn_part(void *argument, int worker, int64_t part) {
    const struct sample *sample = argument;
    int64_t dim = sample->parts.dim, end = (part + 1) * PART_ROWS < sample->n ? (part + 1) * PART_ROWS : sample->n;
    for (int64_t i = part * PART_ROWS; i < end; i++)
        pq_row_turn(&sample->parts, sample->kernels, sample->values + i * dim, sample->scratch + worker * dim);
}

static void sample_take(struct sample *sample, struct thread_pool *pool) {
    int64_t runs = (sample->n + PART_ROWS - 1) / PART_ROWS;
    (void)thread_pool_run(pool, runs, load_part, sample);
    (void)thread_pool_run(pool, (sample->parts.dim + PART_DIMS - 1) / PART_DIMS, centroid_part, sample);
    (void)thread_pool_run(pool, runs, turn_part, sample);
}

/* ---------------------------------------------------------------- chunks */

struct chunks {
    const struct sample *sample;
    int64_t rounds, centres;
    float *pivots, *found; /* PQ_CENTRES * dim each at most: all chunks, one chunk's */
};

/* Centres of one chunk into its dimensions of pivots, those that were not found as copies of the first. */
static enum vic_status chunk_train(struct chunks *chunks, struct vic_device *device, int64_t chunk, struct progress *progress,
                                   int64_t *most) {
    const struct sample *sample = chunks->sample;
    int64_t first = sample->parts.offsets[chunk], dim = sample->parts.offsets[chunk + 1] - first, count = 0;
    struct kmeans task = {.points = sample->values + first,
                          .n = sample->n,
                          .dim = dim,
                          .stride = sample->parts.dim,
                          .centres = chunks->centres,
                          .rounds = chunks->rounds,
                          .seed = sample->seed,
                          .stream = (uint64_t)chunk,
                          .progress = progress,
                          .progress_base = chunk * chunks->rounds};
    enum vic_status status =
        kmeans_run(&task, sample->kernels, device->host_ops->pool(device->host_backend), &device->host, chunks->found, &count);
    if (status != VIC_OK) return status;
    if (count == 0) memset(chunks->found, 0, (size_t)dim * sizeof(float)), count = 1;
    for (int64_t c = 0; c < chunks->centres; c++)
        memcpy(chunks->pivots + c * sample->parts.dim + first, chunks->found + (c < count ? c : 0) * dim,
               (size_t)dim * sizeof(float));
    if (count > *most) *most = count;
    return VIC_OK;
}

/* What training holds, and how many floats (offsets are as wide) of each. */
enum { VALUES, SCRATCH, CENTROID, PIVOTS, FOUND, OFFSETS, PIECES };

static void pieces_count(int64_t n, int64_t dim, int64_t chunks, int64_t centres, int threads, uint64_t counts[PIECES]) {
    counts[VALUES] = (uint64_t)sample_rows(n, dim, centres) * (uint64_t)dim;
    counts[SCRATCH] = (uint64_t)threads * (uint64_t)dim;
    counts[CENTROID] = (uint64_t)dim;
    counts[PIVOTS] = (uint64_t)centres * (uint64_t)dim;
    counts[FOUND] = (uint64_t)centres * (uint64_t)((dim + chunks - 1) / chunks);
    counts[OFFSETS] = (uint64_t)chunks + 1;
}

static int64_t centres_of(const struct pq_training *training) { return training->centres ? training->centres : PQ_CENTRES; }

uint64_t pq_train_bytes(int64_t n, int64_t dim, const struct pq_training *training, int threads) {
    uint64_t counts[PIECES], total = 0;
    int64_t centres = centres_of(training), widest = (dim + training->chunks - 1) / training->chunks;
    pieces_count(n, dim, training->chunks, centres, threads, counts);
    for (int i = 0; i < PIECES; i++) total += counts[i] * sizeof(float);
    return total + kmeans_bytes(sample_rows(n, dim, centres), widest, centres);
}

static enum vic_status train(struct vic_device *device, struct sample *sample, struct chunks *chunks,
                             const struct vic_progress *hook, struct pq *pq) {
    struct pq_parts parts = sample->parts;
    struct progress progress = progress_start(hook, "training codes", parts.chunks * chunks->rounds);
    enum vic_status status = VIC_OK;
    sample_take(sample, device->host_ops->pool(device->host_backend));
    for (int64_t j = 0; j < parts.chunks; j++) {
        TRY(chunk_train(chunks, device, j, &progress, &parts.centres));
        TRY(progress_step(&progress, (j + 1) * chunks->rounds));
    }
    parts.pivots = chunks->pivots;
    TRY(pq_open(device, &parts, "the centres", pq));
done:
    return status;
}

enum vic_status pq_train(struct vic_device *device, const struct rows *rows, const struct pq_training *training,
                         const struct vic_progress *hook, struct pq *pq) {
    int64_t dim = pq_row_dim(rows, training->max_norm), count = centres_of(training);
    int threads = thread_pool_size(device->host_ops->pool(device->host_backend));
    void *pieces[PIECES] = {NULL};
    uint64_t counts[PIECES];
    enum vic_status status = pq_chunks_check(training->chunks, dim);
    if (status != VIC_OK) return status;
    if (count < 1 || count > PQ_CENTRES)
        return status_fail(VIC_ARGUMENT, "expected from 1 to %d centres a chunk, found %lld", PQ_CENTRES, (long long)count);
    pieces_count(rows->n, dim, training->chunks, count, threads, counts);
    for (int i = 0; i < PIECES; i++)
        TRY(mem_alloc_array(&device->host, counts[i], sizeof(float), "the training of codes", &pieces[i]));
    struct sample sample = {.rows = rows,
                            .kernels = device->host_ops->columns(device->host_backend),
                            .seed = training->seed,
                            .n = sample_rows(rows->n, dim, count),
                            .values = pieces[VALUES],
                            .scratch = pieces[SCRATCH],
                            .centroid = pieces[CENTROID]};
    sample.parts = (struct pq_parts){.dim = dim,
                                     .chunks = training->chunks,
                                     .offsets = pieces[OFFSETS],
                                     .centroid = pieces[CENTROID],
                                     .rotation = training->rotation,
                                     .max_norm = training->max_norm};
    pq_offsets(training->chunks, dim, pieces[OFFSETS]);
    struct chunks chunks = {.sample = &sample,
                            .rounds = training->rounds ? training->rounds : ROUNDS,
                            .centres = count,
                            .pivots = pieces[PIVOTS],
                            .found = pieces[FOUND]};
    TRY(train(device, &sample, &chunks, hook, pq));
done:
    for (int i = 0; i < PIECES; i++) mem_free(&device->host, pieces[i], counts[i] * sizeof(float));
    return status;
}
