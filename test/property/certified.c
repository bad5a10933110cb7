/* A search on planes answers with the bytes of a scan, on all data that could make it differ: noise, clusters, heavy tails, an
 * outlier dimension, constant rows, copies by the thousand, rows that differ in the last bit, sparse rows, norms from 1e-30 to
 * 1e30, any finite bits; every metric, float type, table of kernels, either plane and both. */
#include "support/scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#define COUNT(array) (int64_t)(sizeof(array) / sizeof *(array))

/* ---- rows and queries; a filler writes n rows of float32, of which the last nq become the queries */

struct values_kind {
    const char *name;
    void (*fill)(struct random *random, float *rows, int64_t n, int64_t dim);
};

static void gaussian(struct random *random, float *rows, int64_t n, int64_t dim) {
    for (int64_t i = 0; i < n * dim; i++) rows[i] = random_normal(random);
}
static void clustered(struct random *random, float *rows, int64_t n, int64_t dim) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < dim; j++)
            rows[i * dim + j] = i < 7 ? random_normal(random) : rows[i % 7 * dim + j] + 0.05f * random_normal(random);
}
static void heavy_tailed(struct random *random, float *rows, int64_t n, int64_t dim) {
    for (int64_t i = 0; i < n * dim; i++) {
        float value = random_normal(random);
        rows[i] = value * value * value * value * value;
    }
}
static void outlier_dimension(struct random *random, float *rows, int64_t n, int64_t dim) {
    gaussian(random, rows, n, dim);
    for (int64_t i = 0; i < n; i++) rows[i * dim + dim / 3] *= 1000;
}
static void constant_rows(struct random *random, float *rows, int64_t n, int64_t dim) {
    for (int64_t i = 0; i < n; i++) {
        float value = random_unit(random);
        for (int64_t j = 0; j < dim; j++) rows[i * dim + j] = value;
    }
}
static void copies(struct random *random, float *rows, int64_t n, int64_t dim) {
    gaussian(random, rows, n, dim);
    for (int64_t i = 5; i < n; i++) memcpy(rows + i * dim, rows + i % 5 * dim, (size_t)dim * sizeof *rows);
}
static void all_equal(struct random *random, float *rows, int64_t n, int64_t dim) {
    gaussian(random, rows, 1, dim);
    for (int64_t i = 1; i < n; i++) memcpy(rows + i * dim, rows, (size_t)dim * sizeof *rows);
}
static void last_bit(struct random *random, float *rows, int64_t n, int64_t dim) {
    all_equal(random, rows, n, dim);
    for (int64_t i = 1; i < n; i++) {
        float *changed = rows + i * dim + random_below(random, dim);
        *changed = nextafterf(*changed, random_below(random, 2) ? INFINITY : -INFINITY);
    }
}
static void sparse(struct random *random, float *rows, int64_t n, int64_t dim) {
    for (int64_t i = 0; i < n * dim; i++) rows[i] = random_below(random, 20) ? 0 : random_normal(random);
}
static void norms_of_any_size(struct random *random, float *rows, int64_t n, int64_t dim) {
    for (int64_t i = 0; i < n; i++) {
        float size = powf(10, (float)random_below(random, 61) - 30);
        for (int64_t j = 0; j < dim; j++) rows[i * dim + j] = size * random_normal(random);
    }
}
static void tiny_differences(struct random *random, float *rows, int64_t n, int64_t dim) {
    all_equal(random, rows, n, dim);
    for (int64_t i = 1; i < n; i++)
        for (int64_t j = 0; j < dim; j++) rows[i * dim + j] += 1e-4f * random_normal(random);
}
static void any_bits(struct random *random, float *rows, int64_t n, int64_t dim) {
    random_fill(random, VALUES_WILD, VIC_F32, n * dim, rows);
}

static const struct values_kind kinds[] = {
    {"gaussian", gaussian},
    {"clustered", clustered},
    {"heavy-tailed", heavy_tailed},
    {"outlier dimension", outlier_dimension},
    {"constant rows", constant_rows},
    {"copies", copies},
    {"all equal", all_equal},
    {"last bit", last_bit},
    {"sparse", sparse},
    {"norms of any size", norms_of_any_size},
    {"tiny differences", tiny_differences},
    {"any bits", any_bits},
};

/* ---- one situation */

/* Where vic_search_stats.rows_coded counts a plane. */
enum { PLANE_8_STATS, PLANE_4_STATS };

struct situation {
    int64_t n, nq, dim;
    enum vic_dtype dtype;
    enum vic_metric metric;
    int32_t planes;
};

static struct vic_index *index_with(struct vic_device *device, const struct situation *situation, const void *rows) {
    struct vic_index *index = NULL;
    struct vic_matrix matrix = matrix_of(rows, situation->n, situation->dim, situation->dtype);
    struct vic_build_options options = {.size = sizeof options, .metric = situation->metric, .planes = situation->planes};
    must(vic_index_build(device, &matrix, &options, &index));
    return index;
}

/* float32 to the type of the rows, held to what the type can express. */
static void *narrowed(const float *values, int64_t count, enum vic_dtype dtype) {
    void *target = take((size_t)count * vic_dtype_bytes(dtype));
    float most = dtype == VIC_F16 ? 60000.0f : 0x1.fep127f;
    for (int64_t i = 0; i < count; i++) element_set(dtype, target, i, fmaxf(-most, fminf(most, values[i])));
    return target;
}

struct answer {
    int64_t *ids;
    float *scores;
    int32_t *counts;
};

static struct answer ask(const struct vic_index *index, const struct vic_matrix *queries, int64_t k, enum vic_path path,
                         const struct vic_filter *filter, struct vic_search_stats *stats) {
    size_t slots = (size_t)(queries->rows * k);
    struct answer answer = {take(slots * 8), take(slots * 4), take((size_t)queries->rows * 4)};
    struct vic_hits hits = {.ids = answer.ids, .scores = answer.scores, .counts = answer.counts};
    memset(answer.ids, 0xAA, slots * 8), memset(answer.scores, 0xAA, slots * 4);
    *stats = (struct vic_search_stats){.size = sizeof *stats};
    struct vic_search_options options = {.size = sizeof options, .path = path, .filter = filter, .stats = stats};
    must(vic_index_search(index, queries, k, &options, &hits));
    return answer;
}

static void answer_free(struct answer *answer) { free(answer->ids), free(answer->scores), free(answer->counts); }

/* The two paths, byte by byte; what the certified one did is left in `stats`. */
static void check_paths(const struct vic_index *index, const struct vic_matrix *queries, int64_t k,
                        const struct vic_filter *filter, struct vic_search_stats *stats) {
    struct vic_search_stats ignored;
    struct answer right = ask(index, queries, k, VIC_PATH_SELECT, filter, &ignored);
    struct answer found = ask(index, queries, k, VIC_PATH_CERTIFIED, filter, stats);
    size_t slots = (size_t)(queries->rows * k);
    assert_memory_equal(found.counts, right.counts, (size_t)queries->rows * 4);
    assert_memory_equal(found.ids, right.ids, slots * 8);
    assert_memory_equal(found.scores, right.scores, slots * 4);
    assert_int_equal(stats->queries, queries->rows);
    assert_true(stats->path == VIC_PATH_CERTIFIED || stats->fallbacks == queries->rows);
    assert_true((stats->fallbacks > 0) == (stats->fallback != VIC_FALLBACK_NONE));
    answer_free(&right), answer_free(&found);
}

static struct vic_device *devices[8];
static int devices_open(void **state) {
    (void)state;
    for (int table = 0; kernels_here()[table]; table++) devices[table] = device_with(kernels_here()[table], 1 + table);
    return 0;
}
static int devices_close(void **state) {
    (void)state;
    for (int table = 0; devices[table]; table++) vic_device_free(devices[table]);
    return 0;
}

/* Threshold searches, the two paths. */
struct found {
    int64_t *offsets, *ids;
    float *scores;
};

static struct found ask_within(const struct vic_index *index, const struct vic_matrix *queries, int64_t n, float score,
                               enum vic_path path, const struct vic_filter *filter, struct vic_search_stats *stats) {
    size_t slots = (size_t)(queries->rows * n);
    struct found found = {take((size_t)(queries->rows + 1) * 8), take(slots * 8), take(slots * 4)};
    struct vic_ranges ranges = {found.offsets, found.ids, found.scores, (int64_t)slots};
    *stats = (struct vic_search_stats){.size = sizeof *stats};
    struct vic_search_options options = {.size = sizeof options, .path = path, .filter = filter, .stats = stats};
    must(vic_index_within(index, queries, score, &options, &ranges));
    return found;
}

static void found_free(struct found *found) { free(found->offsets), free(found->ids), free(found->scores); }

static void check_within(const struct vic_index *index, const struct vic_matrix *queries, int64_t n, float score,
                         const struct vic_filter *filter, struct vic_search_stats *stats) {
    struct vic_search_stats ignored;
    struct found right = ask_within(index, queries, n, score, VIC_PATH_SCAN, filter, &ignored);
    struct found found = ask_within(index, queries, n, score, VIC_PATH_CERTIFIED, filter, stats);
    size_t count = (size_t)right.offsets[queries->rows];
    assert_int_equal(ignored.path, VIC_PATH_SCAN);
    assert_memory_equal(found.offsets, right.offsets, (size_t)(queries->rows + 1) * 8);
    if (count) assert_memory_equal(found.ids, right.ids, count * 8);
    if (count) assert_memory_equal(found.scores, right.scores, count * 4);
    assert_true((stats->path == VIC_PATH_CERTIFIED) == (stats->fallbacks < queries->rows));
    assert_true((stats->fallbacks > 0) == (stats->fallback != VIC_FALLBACK_NONE));
    found_free(&right), found_free(&found);
}

/* Thresholds at, just above and just below the scores of ranks from the first to the last, and where nothing or all reach. */
static void thresholds_check(const struct vic_index *index, const struct vic_matrix *queries, int64_t n) {
    const int64_t ranks[] = {0, 3, n / 50, n / 3, n - 1};
    struct vic_search_stats stats;
    struct answer all = ask(index, queries, n, VIC_PATH_SELECT, NULL, &stats);
    for (int64_t i = 0; i < COUNT(ranks); i++) {
        float at = all.scores[ranks[i]];
        check_within(index, queries, n, at, NULL, &stats);
        check_within(index, queries, n, nextafterf(at, INFINITY), NULL, &stats);
        check_within(index, queries, n, nextafterf(at, -INFINITY), NULL, &stats);
    }
    const float limits[] = {0.0f, -0.0f, 1, -1, INFINITY, -INFINITY, 0x1.fffffep127f, -0x1.fffffep127f};
    for (int64_t i = 0; i < COUNT(limits); i++) check_within(index, queries, n, limits[i], NULL, &stats);
    answer_free(&all);
}

static void situation_check(struct random *random, const struct values_kind *kind, const struct situation *situation,
                            struct vic_device *device) {
    int64_t total = situation->n + situation->nq;
    float *values = take((size_t)(total * situation->dim) * sizeof *values);
    kind->fill(random, values, total, situation->dim);
    for (int64_t i = 0; i < total * situation->dim; i++)
        if (!isfinite(values[i])) values[i] = 0;
    void *rows = narrowed(values, situation->n * situation->dim, situation->dtype);
    struct vic_index *index = index_with(device, situation, rows);
    const struct vic_matrix queries = matrix_of(values + situation->n * situation->dim, situation->nq, situation->dim, VIC_F32);
    const int64_t ks[] = {1, 1 + random_below(random, 30), 1 + random_below(random, situation->n), situation->n,
                          situation->n + 3};
    for (int64_t i = 0; i < COUNT(ks); i++) {
        struct vic_search_stats stats;
        test_says("%s, n %lld nq %lld dim %lld dtype %d metric %d planes %d k %lld", kind->name, (long long)situation->n,
                  (long long)situation->nq, (long long)situation->dim, situation->dtype, situation->metric, situation->planes,
                  (long long)ks[i]);
        check_paths(index, &queries, ks[i], NULL, &stats);
    }
    const struct vic_matrix two = matrix_of(queries.data, situation->nq < 2 ? situation->nq : 2, situation->dim, VIC_F32);
    thresholds_check(index, &two, situation->n);
    vic_index_free(index);
    free(rows), free(values);
}

static void every_kind_of_data_gives_the_bytes_of_a_scan(void **state) {
    (void)state;
    struct random random = test_random(1);
    static const int64_t dims[] = {1, 2, 7, 16, 33, 64, 100, 128, 129, 384};
    static const int32_t planes[] = {VIC_PLANES_8, VIC_PLANES_4, VIC_PLANES_8 | VIC_PLANES_4};
    for (int64_t kind = 0; kind < COUNT(kinds); kind++)
        for (int metric = VIC_DOT; metric <= VIC_L2; metric++)
            for (int dtype = VIC_F32; dtype <= VIC_BF16; dtype++)
                for (int turn = 0; turn < 4; turn++) {
                    int table = (int)random_below(&random, 8);
                    while (!devices[table]) table--;
                    int64_t dim = dims[random_below(&random, COUNT(dims))];
                    struct situation situation = {200 + random_below(&random, dim > 100 ? 400 : 1500),
                                                  1 + random_below(&random, 10),
                                                  dim,
                                                  (enum vic_dtype)dtype,
                                                  (enum vic_metric)metric,
                                                  planes[random_below(&random, 3)]};
                    situation_check(&random, &kinds[kind], &situation, devices[table]);
                }
    test_done();
}

static void every_dimension_gives_the_bytes_of_a_scan(void **state) {
    (void)state;
    struct random random = test_random(2);
    static const int64_t wide[] = {1000, 1023, 4096, 4097, 65536};
    struct situation situation = {150, 2, 1, VIC_F32, VIC_DOT, VIC_PLANES_8};
    for (int64_t turn = 0; turn < 300 + COUNT(wide); turn++) {
        situation.dim = turn < 300 ? turn + 1 : wide[turn - 300];
        situation.metric = (enum vic_metric)(1 + turn % 3);
        situation.planes = turn % 2 ? VIC_PLANES_4 : VIC_PLANES_8;
        if (situation.dim > 1000) situation.n = 70;
        situation_check(&random, &kinds[turn % 2], &situation, devices[turn % 3 && devices[1] ? 1 : 0]);
    }
    test_done();
}

/* Where planes help, they are used: else all of the above would only compare a scan with itself. */
static void data_with_structure_is_decided_by_the_planes(void **state) {
    (void)state;
    struct random random = test_random(3);
    enum { N = 4000, NQ = 20, DIM = 64 };
    float *values = take((N + NQ) * DIM * sizeof *values);
    gaussian(&random, values, N + NQ, DIM);
    for (int metric = VIC_DOT; metric <= VIC_L2; metric++)
        for (int32_t planes = VIC_PLANES_8; planes <= VIC_PLANES_4; planes *= 2) {
            struct situation situation = {N, NQ, DIM, VIC_F32, (enum vic_metric)metric, planes};
            struct vic_index *index = index_with(devices[0], &situation, values);
            struct vic_matrix queries = matrix_of(values + N * DIM, NQ, DIM, VIC_F32);
            struct vic_search_stats stats;
            check_paths(index, &queries, 10, NULL, &stats);
            assert_int_equal(stats.path, VIC_PATH_CERTIFIED);
            assert_true(stats.rows_coded[planes == VIC_PLANES_8 ? 0 : 1] == (int64_t)N * NQ);
            assert_true(stats.rows_coded[planes == VIC_PLANES_8 ? 1 : 0] == 0);
            assert_true(stats.rows_rescored > 0 && stats.rows_rescored < (int64_t)N * NQ / (planes == VIC_PLANES_8 ? 20 : 4));
            assert_true(stats.fallbacks * 2 < NQ);
            vic_index_free(index);
        }
    free(values);
    test_done();
}

/* Noise that four bits say little about goes to the eight-bit plane before it goes to a scan, alone and in batches. */
static void noise_is_decided_by_the_finer_plane(void **state) {
    (void)state;
    struct random random = test_random(7);
    enum { N = 9000, NQ = 12, DIM = 512 };
    float *values = take((N + NQ) * DIM * sizeof *values);
    gaussian(&random, values, N + NQ, DIM);
    struct situation situation = {N, NQ, DIM, VIC_F32, VIC_COSINE, VIC_PLANES_8 | VIC_PLANES_4};
    struct vic_index *index = index_with(devices[0], &situation, values);
    for (int64_t nq = 1; nq <= NQ; nq += NQ - 1) {
        struct vic_matrix queries = matrix_of(values + N * DIM, nq, DIM, VIC_F32);
        struct vic_search_stats stats;
        check_paths(index, &queries, 10, NULL, &stats);
        assert_int_equal(stats.path, VIC_PATH_CERTIFIED);
        assert_true(stats.fallbacks == 0 && stats.rows_coded[PLANE_8_STATS] >= N);
        assert_true((stats.rows_coded[PLANE_4_STATS] > 0) == (nq == 1)); /* batches begin with eight bits */
    }
    vic_index_free(index);
    free(values);
    test_done();
}

/* Large k: eight bits first where both are there, for four leave several times as many rows; and where four are all there is,
 * they may leave more than an eighth of the rows before a scan is faster. */
static void large_k_is_decided_by_the_plane_that_leaves_less(void **state) {
    (void)state;
    struct random random = test_random(8);
    enum { N = 9000, DIM = 128 };
    float *values = take((N + 1) * DIM * sizeof *values);
    gaussian(&random, values, N + 1, DIM);
    struct vic_matrix query = matrix_of(values + N * DIM, 1, DIM, VIC_F32);
    struct situation situation = {N, 1, DIM, VIC_F32, VIC_DOT, VIC_PLANES_8 | VIC_PLANES_4};
    struct vic_index *both = index_with(devices[0], &situation, values);
    situation.planes = VIC_PLANES_4;
    struct vic_index *four = index_with(devices[0], &situation, values);
    struct vic_search_stats stats;
    bool many = false;
    check_paths(both, &query, 5, NULL, &stats);
    assert_true(stats.rows_coded[PLANE_4_STATS] > 0);
    for (int64_t k = 200; k <= 800; k += 150) {
        check_paths(both, &query, k, NULL, &stats);
        assert_true(stats.fallbacks == 0 && stats.rows_coded[PLANE_4_STATS] == 0 && stats.rows_coded[PLANE_8_STATS] == N);
    }
    for (int64_t k = 1; k < 200; k += 8) {
        check_paths(four, &query, k, NULL, &stats);
        many = many || (stats.fallbacks == 0 && stats.rows_rescored > N / 8 + 2 * k + 16);
    }
    assert_true(many);
    vic_index_free(both), vic_index_free(four);
    free(values);
    test_done();
}

/* Eight bits that decided every query before, and then one that they say nothing about: a sixteenth of the plane is all that is
 * read in vain, for every k. */
static void a_sudden_failure_reads_a_part_of_the_plane(void **state) {
    (void)state;
    struct random random = test_random(9);
    enum { N = 9000, NQ = 5, DIM = 64 };
    float *values = take((N + NQ) * DIM * sizeof *values);
    gaussian(&random, values, N + NQ, DIM);
    for (int64_t i = 0; i < N + NQ; i++) /* nine of ten rows, and the last query, are all but equal */
        for (int64_t j = 0; j < DIM && i % 10 != 0 && (i < N || i == N + NQ - 1); j++)
            values[i * DIM + j] = values[j] + 1e-4f * values[i * DIM + j];
    float *away = values + N * DIM; /* the good query: on the other side than those rows */
    for (int64_t j = 0; j < DIM; j++) away[j] = 0.5f * values[10 * DIM + j] - values[j];
    for (int metric = VIC_DOT; metric <= VIC_L2; metric++) {
        struct situation situation = {N, NQ, DIM, VIC_F32, (enum vic_metric)metric, VIC_PLANES_8};
        struct vic_index *index = index_with(devices[0], &situation, values);
        struct vic_matrix good = matrix_of(away, 1, DIM, VIC_F32);
        struct vic_matrix bad = matrix_of(values + (N + NQ - 1) * DIM, 1, DIM, VIC_F32);
        for (int64_t k = 1; k <= 64; k *= 4) {
            struct vic_search_stats stats;
            test_says("metric %d k %d", metric, (int)k);
            for (int turn = 0; turn < 3; turn++) {
                check_paths(index, &good, k, NULL, &stats);
                assert_true(stats.fallbacks == 0 && stats.rows_coded[PLANE_8_STATS] == N);
            }
            check_paths(index, &bad, k, NULL, &stats);
            assert_int_equal(stats.fallback, VIC_FALLBACK_SURVIVORS);
            assert_true(stats.rows_coded[PLANE_8_STATS] > 0 && stats.rows_coded[PLANE_8_STATS] <= N / 12);
        }
        vic_index_free(index);
    }
    free(values);
    test_done();
}

/* A threshold search reads the codes and scores few rows; one that most rows reach, or that nothing can be said of, is a scan,
 * and a part of the plane is all that is read in vain. */
static void thresholds_are_decided_by_the_plane(void **state) {
    (void)state;
    struct random random = test_random(10);
    enum { N = 40000, NQ = 3, DIM = 48 };
    float *values = take((N + NQ) * DIM * sizeof *values);
    gaussian(&random, values, N + NQ, DIM);
    for (int metric = VIC_DOT; metric <= VIC_L2; metric++)
        for (int32_t planes = VIC_PLANES_8; planes <= VIC_PLANES_4; planes *= 2) {
            struct situation situation = {N, NQ, DIM, VIC_F32, (enum vic_metric)metric, planes};
            struct vic_index *index = index_with(devices[1] ? devices[1] : devices[0], &situation, values);
            struct vic_matrix queries = matrix_of(values + N * DIM, NQ, DIM, VIC_F32);
            struct vic_search_stats stats;
            int plane = planes == VIC_PLANES_8 ? PLANE_8_STATS : PLANE_4_STATS;
            struct answer best = ask(index, &queries, 20, VIC_PATH_SCAN, NULL, &stats);
            check_within(index, &queries, N, best.scores[19], NULL, &stats);
            assert_true(stats.fallbacks == 0 && stats.rows_scored == 0 && stats.rows_coded[plane] == (int64_t)N * NQ);
            assert_true(stats.rows_rescored >= 20 && stats.rows_rescored < (int64_t)N * NQ / (plane == PLANE_8_STATS ? 20 : 4));
            struct found open = ask_within(index, &queries, N, best.scores[19], 0, NULL, &stats);
            assert_int_equal(stats.path, VIC_PATH_CERTIFIED); /* the library's own choice */
            found_free(&open);
            check_within(index, &queries, N, metric == VIC_L2 ? 1e9f : metric == VIC_COSINE ? -0.99f : -1e9f, NULL, &stats);
            assert_true(stats.fallback == VIC_FALLBACK_SURVIVORS && stats.fallbacks == NQ);
            assert_true(stats.rows_scored == (int64_t)N * NQ && stats.rows_coded[plane] <= (int64_t)N * NQ / 2);
            check_within(index, &queries, N, metric == VIC_L2 ? INFINITY : -INFINITY, NULL, &stats);
            assert_true(stats.fallbacks == NQ && stats.rows_coded[plane] == 0);
            answer_free(&best);
            vic_index_free(index);
        }
    free(values);
    test_done();
}

static void batches_of_every_size_give_the_bytes_of_a_scan(void **state) {
    (void)state;
    struct random random = test_random(4);
    enum { N = 900, NQ = 130, DIM = 48 };
    float *values = take((N + NQ) * DIM * sizeof *values);
    clustered(&random, values, N + NQ, DIM);
    for (int metric = VIC_DOT; metric <= VIC_L2; metric++)
        for (int32_t planes = VIC_PLANES_8; planes <= VIC_PLANES_4; planes *= 2) {
            struct situation situation = {N, NQ, DIM, VIC_F32, (enum vic_metric)metric, planes};
            struct vic_index *index = index_with(devices[1] ? devices[1] : devices[0], &situation, values);
            for (int64_t nq = 1; nq <= NQ; nq++) {
                struct vic_matrix queries = matrix_of(values + N * DIM, nq, DIM, VIC_F32);
                struct vic_search_stats stats;
                test_says("metric %d planes %d nq %d", metric, planes, (int)nq);
                check_paths(index, &queries, 1 + nq % 7, NULL, &stats);
            }
            vic_index_free(index);
        }
    free(values);
    test_done();
}

/* The room for rows that a plane leaves is met from below, exactly, and from above: `twins` rows share the best score. */
static void every_number_of_survivors_gives_the_bytes_of_a_scan(void **state) {
    (void)state;
    struct random random = test_random(5);
    enum { N = 512, DIM = 32 };
    float *values = take((N + 1) * DIM * sizeof *values);
    bool decided = false, overflowed = false;
    for (int64_t twins = 0; twins <= N; twins++) {
        gaussian(&random, values, N + 1, DIM);
        for (int64_t i = 0; i < twins; i++) memcpy(values + i * DIM, values + N * DIM, DIM * sizeof *values);
        for (int64_t i = 0; i < DIM; i++) values[twins % N * DIM + i] *= twins < N ? 1.5f : 1;
        struct situation situation = {N, 1, DIM, VIC_F32, VIC_COSINE, VIC_PLANES_8};
        struct vic_index *index = index_with(devices[0], &situation, values);
        struct vic_matrix queries = matrix_of(values + N * DIM, 1, DIM, VIC_F32);
        struct vic_search_stats stats;
        test_says("twins %d", (int)twins);
        for (int64_t k = 1; k <= 5; k += 4) {
            check_paths(index, &queries, k, NULL, &stats);
            decided = decided || stats.path == VIC_PATH_CERTIFIED;
            overflowed = overflowed || stats.fallback == VIC_FALLBACK_SURVIVORS;
        }
        vic_index_free(index);
    }
    assert_true(decided && overflowed);
    free(values);
    test_done();
}

static void filters_give_the_bytes_of_a_scan(void **state) {
    (void)state;
    struct random random = test_random(6);
    enum { N = 1500, NQ = 5, DIM = 40 };
    float *values = take((N + NQ) * DIM * sizeof *values);
    int64_t ids[N];
    gaussian(&random, values, N + NQ, DIM);
    struct situation situation = {N, NQ, DIM, VIC_F32, VIC_COSINE, VIC_PLANES_8};
    struct vic_index *index = index_with(devices[0], &situation, values);
    struct vic_matrix queries = matrix_of(values + N * DIM, NQ, DIM, VIC_F32);
    for (int64_t count = 0; count <= N; count = count * 2 + 1) {
        for (int64_t i = 0; i < count; i++) ids[i] = random_below(&random, N);
        for (int32_t exclude = 0; exclude <= 1; exclude++) {
            struct vic_filter *filter = NULL;
            struct vic_search_stats stats;
            struct vic_filter_options options = {.size = sizeof options, .exclude = exclude};
            must(vic_filter_create(index, ids, count, &options, &filter));
            test_says("filter of %d, exclude %d", (int)count, exclude);
            check_paths(index, &queries, 7, filter, &stats);
            check_within(index, &queries, N, 0.35f, filter, &stats);
            vic_filter_free(filter);
        }
    }
    vic_index_free(index);
    free(values);
    test_done();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_kind_of_data_gives_the_bytes_of_a_scan, test_tell),
        cmocka_unit_test_teardown(every_dimension_gives_the_bytes_of_a_scan, test_tell),
        cmocka_unit_test_teardown(data_with_structure_is_decided_by_the_planes, test_tell),
        cmocka_unit_test_teardown(noise_is_decided_by_the_finer_plane, test_tell),
        cmocka_unit_test_teardown(large_k_is_decided_by_the_plane_that_leaves_less, test_tell),
        cmocka_unit_test_teardown(a_sudden_failure_reads_a_part_of_the_plane, test_tell),
        cmocka_unit_test_teardown(thresholds_are_decided_by_the_plane, test_tell),
        cmocka_unit_test_teardown(batches_of_every_size_give_the_bytes_of_a_scan, test_tell),
        cmocka_unit_test_teardown(every_number_of_survivors_gives_the_bytes_of_a_scan, test_tell),
        cmocka_unit_test_teardown(filters_give_the_bytes_of_a_scan, test_tell),
    };
    return cmocka_run_group_tests(tests, devices_open, devices_close);
}
