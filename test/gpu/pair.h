/* One corpus on both devices: whatever is asked of the GPU is asked of the CPU too, and the bytes must be the same.
 *
 * The CPU answers are held against the oracle elsewhere (test/property), so here the CPU may speak for it, which makes
 * large shapes affordable. Programs that include this are skipped (exit code 77) where no GPU can be used. */
#ifndef TEST_GPU_PAIR_H
#define TEST_GPU_PAIR_H

#include "support/scene.h"

#include <cuda_runtime_api.h>

enum { SKIPPED = 77 };

/* Opened once a program; false when there is no GPU, after saying so. */
bool devices_begin(void);
void devices_end(void);
struct vic_device *device_cpu(void);
struct vic_device *device_gpu(void);

struct pair {
    struct vic_index *cpu, *gpu;
};
struct pair pair_build(const struct data *data);
void pair_free(struct pair *pair);

/* Hits of one search in memory of the test, filled with 0xAA before. */
struct answer {
    int64_t nq, k;
    int64_t *ids;
    float *scores;
    int32_t *counts;
};
struct answer answer_make(int64_t nq, int64_t k);
struct vic_hits answer_hits(const struct answer *answer);
void answer_free(struct answer *answer);
void answers_equal(const struct answer *a, const struct answer *b);

/* Both devices' answers to the same question. filter_ids NULL: none. */
void pair_check(const struct pair *pair, const struct vic_matrix *queries, int64_t k, enum vic_path path,
                const int64_t *filter_ids, int64_t filter_count);
/* Threshold searches without room, with exactly what is needed, and with one slot less. filter_ids NULL: none. */
void pair_check_within(const struct pair *pair, const struct vic_matrix *queries, float score, const int64_t *filter_ids,
                       int64_t filter_count);
/* The score of the `rank`-th best row (from 1) for the first of the queries: a threshold that so many reach, or more. */
float pair_threshold(const struct pair *pair, const struct vic_matrix *queries, int64_t rank);
void pair_check_score(const struct pair *pair, const struct vic_matrix *queries, const int64_t *ids, int64_t count);

/* Ends the test with CUDA's words unless the call worked. */
void cuda_must(cudaError_t error);
/* Device memory with a copy of `bytes` from the host (NULL: 0xAA). */
void *to_device(const void *host, size_t bytes);
/* Hits in device memory of the same shape. */
struct vic_hits hits_on_device(int64_t nq, int64_t k);
void hits_fetch(const struct vic_hits *device, const struct answer *answer);
void hits_release(struct vic_hits *device);

/* Rows of a kind, seeded; free(data.rows) when done. */
struct data data_make(uint64_t seed, int64_t n, int64_t dim, enum vic_dtype dtype, enum vic_metric metric, enum values values);

#endif
