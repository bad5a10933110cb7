/* Rows to codes, a block of rows at a time, and the error that codes leave. A row's code depends on that row alone; errors
 * are added up block after block. */
#include "quant/pq.h"
#include "base/progress.h"

#include <string.h>

/* Rows that are coded between two reports. */
enum { RUN_BLOCKS = 256 };

struct encode_job {
    const struct pq *pq;
    const struct rows *rows;
    int64_t first; /* row of the run */
    float *buffers;
    uint8_t *made;                      /* to be written; NULL: only the errors are asked for */
    const uint8_t *codes;               /* the same, or those that are there */
    struct pq_error errors[RUN_BLOCKS]; /* of each block: the sum, and the largest */
};

static int64_t buffer_floats(int64_t dim) { return (NEAREST_BLOCK + 1) * dim; }

uint64_t pq_encode_bytes(int64_t n, int64_t dim, int threads) {
    return n == 0 ? 0 : (uint64_t)threads * (uint64_t)buffer_floats(dim) * sizeof(float);
}

static void block_encode(const struct encode_job *job, const float *values, int64_t first, int64_t count) {
    const struct pq_parts *parts = &job->pq->parts;
    int32_t nearest[NEAREST_BLOCK];
    for (int64_t j = 0; j < parts->chunks; j++) {
        centres_nearest(&job->pq->coders[j], values + parts->offsets[j], parts->dim, count, nearest);
        for (int64_t i = 0; i < count; i++) job->made[(first + i) * parts->chunks + j] = (uint8_t)nearest[i];
    }
}

/* Of one row, chunk after chunk. */
static double row_error(const struct pq_parts *parts, const float *values, const uint8_t *code) {
    double sum = 0;
    for (int64_t j = 0; j < parts->chunks; j++) {
        const float *pivot = parts->pivots + code[j] * parts->dim;
        for (int64_t i = parts->offsets[j]; i < parts->offsets[j + 1]; i++) {
            double apart = (double)values[i] - (double)pivot[i];
            sum += apart * apart;
        }
    }
    return sum;
}

static void encode_part(void *argument, int worker, int64_t part) {
    struct encode_job *job = argument;
    const struct pq_parts *parts = &job->pq->parts;
    int64_t dim = parts->dim, first = job->first + part * NEAREST_BLOCK, left = job->rows->n - first;
    int64_t count = left < NEAREST_BLOCK ? left : NEAREST_BLOCK;
    float *values = job->buffers + worker * buffer_floats(dim), *scratch = values + NEAREST_BLOCK * dim;
    struct pq_error error = {0};
    for (int64_t i = 0; i < count; i++) {
        pq_row_load(job->rows, parts->max_norm, first + i, values + i * dim);
        pq_row_turn(parts, job->pq->kernels, values + i * dim, scratch);
    }
    if (job->made) block_encode(job, values, first, count);
    for (int64_t i = 0; i < count; i++) {
        double one = row_error(parts, values + i * dim, job->codes + (first + i) * parts->chunks);
        error.mean += one;
        if (one > error.largest) error.largest = one;
    }
    job->errors[part] = error;
}

static enum vic_status blocks_run(struct vic_device *device, struct encode_job *job, struct progress *progress,
                                  struct pq_error *error) {
    struct thread_pool *pool = device->host_ops->pool(device->host_backend);
    int64_t n = job->rows->n;
    uint64_t bytes = pq_encode_bytes(n, job->pq->parts.dim, thread_pool_size(pool));
    struct pq_error all = {0};
    void *buffers = NULL;
    enum vic_status status = mem_alloc(&device->host, bytes, "the coding of rows", &buffers);
    if (status != VIC_OK) return status;
    job->buffers = buffers;
    for (job->first = 0; job->first < n && status == VIC_OK; job->first += RUN_BLOCKS * NEAREST_BLOCK) {
        int64_t left = n - job->first, blocks = (left + NEAREST_BLOCK - 1) / NEAREST_BLOCK;
        if (blocks > RUN_BLOCKS) blocks = RUN_BLOCKS;
        (void)thread_pool_run(pool, blocks, encode_part, job);
        for (int64_t b = 0; b < blocks; b++) {
            all.mean += job->errors[b].mean;
            if (job->errors[b].largest > all.largest) all.largest = job->errors[b].largest;
        }
        int64_t done = job->first + blocks * NEAREST_BLOCK;
        status = progress_step(progress, done < n ? done : n);
    }
    mem_free(&device->host, buffers, bytes);
    if (n > 0) all.mean /= (double)n;
    if (error) *error = all;
    return status;
}

enum vic_status pq_encode(struct vic_device *device, const struct pq *pq, const struct rows *rows,
                          const struct vic_progress *hook, uint8_t *codes, struct pq_error *error) {
    struct encode_job job = {.pq = pq, .rows = rows, .made = codes, .codes = codes};
    struct progress progress = progress_start(hook, "coding rows", rows->n);
    return blocks_run(device, &job, &progress, error);
}

enum vic_status pq_measure(struct vic_device *device, const struct pq *pq, const struct rows *rows,
                           const struct vic_progress *hook, const uint8_t *codes, struct pq_error *error) {
    struct encode_job job = {.pq = pq, .rows = rows, .codes = codes};
    struct progress progress = progress_start(hook, "checking codes", rows->n);
    return blocks_run(device, &job, &progress, error);
}
