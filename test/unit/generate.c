/* Generated data: the same bytes for ever and from any number of threads, and the shape that each kind promises. */
#include "support/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static struct vic_generate_options kind_of(const char *kind, uint64_t seed) {
    return (struct vic_generate_options){.size = sizeof(struct vic_generate_options), .kind = kind, .seed = seed};
}

static void *generate(const struct vic_generate_options *options, int64_t first, int32_t threads, int64_t n, int64_t dim,
                      enum vic_dtype dtype) {
    void *rows = take((size_t)(n * dim) * vic_dtype_bytes(dtype));
    struct vic_matrix out = matrix_of(rows, n, dim, dtype);
    must(vic_generate(options, first, threads, &out));
    return rows;
}

/* Data that others have measured with must not change: these hashes are the promise. */
static void bytes_are_what_they_have_always_been(void **state) {
    (void)state;
    static const struct {
        const char *kind;
        double norm_sigma;
        enum vic_dtype dtype;
        uint64_t hash;
    } rows[] = {
        {"gauss", 0, VIC_F32, UINT64_C(0x7c1da1312436de0c)},     {"gauss", 0, VIC_F16, UINT64_C(0x70f53af623118fbf)},
        {"gauss", 0, VIC_BF16, UINT64_C(0xb36c42909798c5cb)},    {"gauss", 0, VIC_I8, UINT64_C(0x3d85044bacba93e8)},
        {"gauss", 0, VIC_U8, UINT64_C(0xfb11b3768504bf75)},      {"clusters", 0, VIC_F32, UINT64_C(0x83ec2284c55e7e39)},
        {"clusters", 0, VIC_U8, UINT64_C(0xa7b13fc6c0abf9d2)},   {"manifold", 0, VIC_F32, UINT64_C(0x329c820095d2355b)},
        {"manifold", 0, VIC_U8, UINT64_C(0x72b7d0e6229f57f6)},   {"duplicates", 0, VIC_F32, UINT64_C(0x5df9e0ba21dd9b17)},
        {"duplicates", 0, VIC_U8, UINT64_C(0x4d9094aa460c6ac0)}, {"gauss", 0.5, VIC_F32, UINT64_C(0x587ce1e1d0849aba)},
    };
    enum { N = 300, DIM = 50 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct vic_generate_options options = kind_of(rows[i].kind, 7);
        options.norm_sigma = rows[i].norm_sigma;
        void *found = generate(&options, 1000, 2, N, DIM, rows[i].dtype);
        uint64_t hash = XXH3_64bits(found, N * DIM * vic_dtype_bytes(rows[i].dtype));
        if (hash != rows[i].hash)
            fail_msg("%s of %s: 0x%016llx", rows[i].kind, vic_dtype_name(rows[i].dtype), (unsigned long long)hash);
        free(found);
    }
}

static const char *const kinds[] = {"gauss", "clusters", "manifold", "duplicates"};
enum { KINDS = 4 };

/* Any number of threads, blocks of any size, rows with gaps, rows one by one. */
static void threads_and_blocks_do_not_matter(void **state) {
    (void)state;
    enum { N = 1000, DIM = 21, GAP = 3 };
    for (size_t f = 0; f < KINDS; f++)
        for (enum vic_dtype dtype = VIC_F32; dtype <= VIC_U8; dtype++) {
            const struct vic_generate_options options = kind_of(kinds[f], 5);
            size_t row_bytes = DIM * vic_dtype_bytes(dtype);
            char *whole = generate(&options, 0, 1, N, DIM, dtype);
            static const int32_t threads[] = {0, 2, 3, 16};
            for (size_t t = 0; t < 4; t++) {
                char *other = generate(&options, 0, threads[t], N, DIM, dtype);
                assert_memory_equal(other, whole, N * row_bytes);
                free(other);
            }
            static const int64_t blocks[] = {1, 63, 64, 65, 500};
            for (size_t b = 0; b < 5; b++) {
                int64_t first = b == 0 ? N - 7 : 0; /* one by one only the last rows */
                for (; first < N; first += blocks[b]) {
                    int64_t n = blocks[b] < N - first ? blocks[b] : N - first;
                    char *part = generate(&options, first, 2, n, DIM, dtype);
                    assert_memory_equal(part, whole + (size_t)first * row_bytes, (size_t)n * row_bytes);
                    free(part);
                }
            }
            unsigned char gapped[100 * (DIM * 4 + GAP)];
            memset(gapped, 0x3C, sizeof gapped);
            struct vic_matrix out = matrix_of(gapped, 100, DIM, dtype);
            out.stride_bytes = (int64_t)row_bytes + GAP;
            must(vic_generate(&options, 10, 2, &out));
            for (size_t i = 0; i < 100; i++) {
                const unsigned char *row = gapped + i * (row_bytes + GAP);
                assert_memory_equal(row, whole + (10 + i) * row_bytes, row_bytes);
                for (size_t j = 0; j < GAP; j++) assert_int_equal(row[row_bytes + j], 0x3C);
            }
            free(whole);
        }
}

static void far_rows_and_other_seeds_differ(void **state) {
    (void)state;
    enum { DIM = 33 };
    static const int64_t firsts[] = {0, 1, INT64_C(1) << 32, INT64_MAX - 1};
    for (size_t f = 0; f < KINDS; f++) {
        float *rows[8];
        for (size_t i = 0; i < 8; i++) {
            struct vic_generate_options options = kind_of(kinds[f], i < 4 ? 1 : UINT64_C(1) << 33);
            options.duplicate_share = 1e-9;
            rows[i] = generate(&options, firsts[i % 4], 1, 1, DIM, VIC_F32);
            for (size_t j = 0; j < i; j++) assert_memory_not_equal(rows[i], rows[j], DIM * sizeof(float));
        }
        for (size_t i = 0; i < 8; i++) free(rows[i]);
    }
}

static double norm_of(const float *row, int64_t dim) {
    double sum = 0;
    for (int64_t j = 0; j < dim; j++) sum += (double)row[j] * (double)row[j];
    return sqrt(sum);
}

/* Unit length, and directions without a preference: mean, deviation, fourth moment and the correlation of neighbours as a
 * normal distribution has them. */
static void gauss_rows_are_normal_of_unit_length(void **state) {
    (void)state;
    enum { N = 4000, DIM = 100 };
    float *rows = generate(NULL, 0, 0, N, DIM, VIC_F32);
    double mean = 0, second = 0, fourth = 0, next = 0;
    for (int64_t i = 0; i < N; i++) {
        assert_true(fabs(norm_of(rows + i * DIM, DIM) - 1.0) < 1e-6);
        for (int64_t j = 0; j < DIM; j++) {
            double x = (double)rows[i * DIM + j] * sqrt(DIM);
            mean += x, second += x * x, fourth += x * x * x * x;
            if (j > 0) next += x * (double)rows[i * DIM + j - 1] * sqrt(DIM);
        }
    }
    double cells = (double)N * (double)DIM;
    assert_true(fabs(mean / cells) < 0.01);
    assert_true(fabs(second / cells - 1) < 1e-6);
    assert_true(fabs(fourth / cells - 3) < 0.1);
    assert_true(fabs(next / cells) < 0.01);
    free(rows);
}

static void norms_are_log_normal_when_asked(void **state) {
    (void)state;
    enum { N = 20000, DIM = 8 };
    struct vic_generate_options options = kind_of("gauss", 3);
    options.norm_sigma = 0.5;
    float *rows = generate(&options, 0, 0, N, DIM, VIC_F32);
    double mean = 0, square = 0, third = 0;
    for (int64_t i = 0; i < N; i++) {
        double x = log(norm_of(rows + i * DIM, DIM)) / 0.5;
        mean += x, square += x * x, third += x * x * x;
    }
    assert_true(fabs(mean / (double)N) < 0.03);
    assert_true(fabs(square / (double)N - 1) < 0.05);
    assert_true(fabs(third / (double)N) < 0.15);
    /* The directions are those of unit length. */
    const struct vic_generate_options unit = kind_of("gauss", 3);
    float *same = generate(&unit, 0, 0, N, DIM, VIC_F32);
    for (int64_t i = 0; i < N; i += 100)
        for (int64_t j = 0; j < DIM; j++)
            assert_true(fabs((double)rows[i * DIM + j] / norm_of(rows + i * DIM, DIM) - (double)same[i * DIM + j]) < 1e-6);
    free(same);
    free(rows);
}

static double distance_of(const float *a, const float *b, int64_t dim) {
    double sum = 0;
    for (int64_t j = 0; j < dim; j++) sum += ((double)a[j] - (double)b[j]) * ((double)a[j] - (double)b[j]);
    return sqrt(sum);
}

/* With little noise rows of one cluster lie together and others far away: as many groups as clusters. */
static void clusters_are_as_many_and_as_wide_as_asked(void **state) {
    (void)state;
    enum { N = 600, DIM = 64, CLUSTERS = 7 };
    struct vic_generate_options options = kind_of("clusters", 11);
    options.clusters = CLUSTERS, options.spread = 0.01;
    float *rows = generate(&options, 0, 0, N, DIM, VIC_F32);
    int64_t leaders[N], groups = 0;
    double square = 0, pairs = 0;
    for (int64_t i = 0; i < N; i++) {
        int64_t g = 0;
        while (g < groups && distance_of(rows + i * DIM, rows + leaders[g] * DIM, DIM) > 0.4) g++;
        if (g == groups) {
            leaders[groups++] = i;
        } else {
            double distance = distance_of(rows + i * DIM, rows + leaders[g] * DIM, DIM);
            square += distance * distance, pairs += 1;
        }
    }
    assert_int_equal(groups, CLUSTERS);
    /* Two rows differ by twice the variance in each dimension. */
    assert_true(fabs(sqrt(square / pairs / 2 / (double)DIM) / 0.01 - 1) < 0.1);
    free(rows);
}

/* The estimate of Levina and Bickel over the ten nearest: near the latent dimension, far below the outer one. */
static void manifolds_have_the_dimension_underneath(void **state) {
    (void)state;
    enum { N = 20000, DIM = 128, QUERIES = 30, NEAR = 10 };
    static const struct {
        int64_t latent;
        double least, most;
    } rows[] = {{0, 9, 18}, {4, 2.8, 5.5}};
    for (size_t r = 0; r < 2; r++) {
        struct vic_generate_options options = kind_of("manifold", 2);
        options.latent_dim = rows[r].latent;
        uint8_t *data = generate(&options, 0, 0, N, DIM, VIC_U8);
        double estimate = 0;
        for (int64_t q = 0; q < QUERIES; q++) {
            int64_t nearest[NEAR + 1];
            for (int i = 0; i <= NEAR; i++) nearest[i] = INT64_MAX;
            for (int64_t i = 0; i < N; i++) {
                int64_t sum = 0;
                for (int64_t j = 0; j < DIM; j++) {
                    int difference = data[i * DIM + j] - data[q * DIM + j];
                    sum += difference * difference;
                }
                for (int s = 0; s <= NEAR && i != q; s++) /* insertion into a short list */
                    if (sum < nearest[s]) {
                        int64_t worse = nearest[s];
                        nearest[s] = sum, sum = worse;
                    }
            }
            double logs = 0;
            for (int s = 0; s < NEAR; s++) logs += 0.5 * log((double)nearest[NEAR] / (double)nearest[s]);
            estimate += (NEAR - 1) / logs / (double)QUERIES;
        }
        if (estimate < rows[r].least || estimate > rows[r].most) fail_msg("local dimension %g", estimate);
        free(data);
    }
}

static void manifolds_fill_the_range_of_bytes(void **state) {
    (void)state;
    enum { N = 2000, DIM = 128 };
    const struct vic_generate_options options = kind_of("manifold", 4);
    uint8_t *rows = generate(&options, 0, 0, N, DIM, VIC_U8);
    int64_t seen[256] = {0}, values = 0;
    for (int64_t c = 0; c < N * DIM; c++) seen[rows[c]]++;
    for (int v = 0; v < 256; v++) values += seen[v] > 0;
    assert_true(values > 200);
    assert_true(seen[0] + seen[1] + seen[254] + seen[255] < N * DIM / 20); /* and is not pressed against its ends */
    free(rows);
}

/* Copies are of earlier rows, byte by byte, in the share that was asked for; the others are all different. */
static void duplicates_are_copies_of_earlier_rows(void **state) {
    (void)state;
    enum { N = 3000, DIM = 12 };
    static const double shares[] = {0, 0.5, 1};
    for (size_t s = 0; s < 3; s++) {
        struct vic_generate_options options = kind_of("duplicates", 6);
        options.duplicate_share = shares[s];
        float *rows = generate(&options, 0, 0, N, DIM, VIC_F32);
        int64_t copies = 0;
        for (int64_t i = 1; i < N; i++) {
            bool copy = false;
            for (int64_t j = 0; j < i && !copy; j++) copy = memcmp(rows + i * DIM, rows + j * DIM, DIM * sizeof *rows) == 0;
            copies += copy;
        }
        double expected = shares[s] == 0 ? 0.25 : shares[s];
        assert_true(fabs((double)copies / (N - 1) - expected) < (shares[s] == 1 ? 1e-12 : 0.03));
        free(rows);
    }
}

/* Every type is the float32 rows, converted: halves to nearest, integers with four deviations in their range. */
static void narrow_types_are_the_float32_rows_rounded(void **state) {
    (void)state;
    enum { N = 200, DIM = 64 };
    const struct vic_generate_options options = kind_of("gauss", 8);
    float *wide = generate(&options, 0, 1, N, DIM, VIC_F32);
    for (enum vic_dtype dtype = VIC_F16; dtype <= VIC_U8; dtype++) {
        void *narrow = generate(&options, 0, 1, N, DIM, dtype);
        for (int64_t c = 0; c < N * DIM; c++) {
            double x = (double)wide[c], found = (double)element_get(dtype, narrow, c), unit = 127.0 / 4 * sqrt(DIM);
            if (dtype == VIC_F16) assert_true(fabs(found - x) <= fabs(x) * 0x1p-11 + 0x1p-25);
            if (dtype == VIC_BF16) assert_true(fabs(found - x) <= fabs(x) * 0x1p-8);
            if (dtype == VIC_I8) assert_true(fabs(found - fmin(fmax(x * unit, -128), 127)) <= 0.5001);
            if (dtype == VIC_U8) assert_true(fabs(found - fmin(fmax(x * unit + 128, 0), 255)) <= 0.5001);
        }
        free(narrow);
    }
    free(wide);
    /* Norms beyond what half precision holds stay finite. */
    struct vic_generate_options loud = kind_of("gauss", 8);
    loud.norm_sigma = 10;
    uint16_t *halves = generate(&loud, 0, 1, N, DIM, VIC_F16);
    for (int64_t c = 0; c < N * DIM; c++) assert_true((halves[c] & 0x7c00u) != 0x7c00u);
    free(halves);
}

/* The caller's rounding mode and flush-to-zero change nothing and are put back. */
static void the_callers_environment_does_not_matter(void **state) {
    (void)state;
#if defined(__x86_64__)
    enum { N = 40, DIM = 30 };
    for (size_t f = 0; f < KINDS; f++) {
        const struct vic_generate_options options = kind_of(kinds[f], 1);
        float *expected = generate(&options, 0, 2, N, DIM, VIC_F32), found[N * DIM];
        struct vic_matrix out = matrix_of(found, N, DIM, VIC_F32);
        unsigned before = __builtin_ia32_stmxcsr();
        __builtin_ia32_ldmxcsr(before | 0x8040u | 0x4000u);
        enum vic_status status = vic_generate(&options, 0, 2, &out);
        unsigned after = __builtin_ia32_stmxcsr();
        __builtin_ia32_ldmxcsr(before);
        must(status);
        assert_int_equal(after & 0xffc0u, (before | 0x8040u | 0x4000u) & 0xffc0u);
        assert_memory_equal(found, expected, sizeof found);
        free(expected);
    }
#else
    skip();
#endif
}

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    float row[4] = {9, 9, 9, 9};
    const struct vic_generate_options good = kind_of(NULL, 0);
    struct vic_generate_options bad[] = {good, good, good, good, good, good, good, good, good, good, good};
    bad[0].kind = "gaussian", bad[1].norm_sigma = -1, bad[2].norm_sigma = 11, bad[3].norm_sigma = NAN;
    bad[4].clusters = -1, bad[5].clusters = INT64_MAX, bad[6].spread = -1, bad[7].spread = NAN;
    bad[8].latent_dim = 4097, bad[9].duplicate_share = 1.01, bad[10].size = 3;
    static const char *const words[] = {"found \"gaussian\"", "norm_sigma",      "norm_sigma", "norm_sigma",
                                        "clusters",           "clusters",        "spread",     "spread",
                                        "latent_dim",         "duplicate_share", "size"};
    struct vic_matrix out = matrix_of(row, 1, 4, VIC_F32);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(vic_generate(&bad[i], 0, 1, &out), VIC_ARGUMENT);
        assert_non_null(strstr(vic_last_error(), words[i]));
    }
    assert_int_equal(vic_generate(&good, -1, 1, &out), VIC_ARGUMENT);
    assert_int_equal(vic_generate(&good, INT64_MAX, 1, &out), VIC_ARGUMENT);
    assert_int_equal(vic_generate(&good, 0, -1, &out), VIC_ARGUMENT);
    assert_int_equal(vic_generate(&good, 0, 1, NULL), VIC_ARGUMENT);
    out.dim = 0;
    assert_int_equal(vic_generate(&good, 0, 1, &out), VIC_DIMENSION);
    for (int j = 0; j < 4; j++) assert_true(row[j] == 9); /* written only on success */
    out.rows = 0, out.dim = 4, out.data = NULL;
    must(vic_generate(&good, 0, 1, &out));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_what_they_have_always_been),    cmocka_unit_test(threads_and_blocks_do_not_matter),
        cmocka_unit_test(far_rows_and_other_seeds_differ),         cmocka_unit_test(gauss_rows_are_normal_of_unit_length),
        cmocka_unit_test(norms_are_log_normal_when_asked),         cmocka_unit_test(clusters_are_as_many_and_as_wide_as_asked),
        cmocka_unit_test(manifolds_have_the_dimension_underneath), cmocka_unit_test(manifolds_fill_the_range_of_bytes),
        cmocka_unit_test(duplicates_are_copies_of_earlier_rows),   cmocka_unit_test(narrow_types_are_the_float32_rows_rounded),
        cmocka_unit_test(the_callers_environment_does_not_matter), cmocka_unit_test(options_out_of_range_are_refused),
    };
    return cmocka_run_group_tests_name("generate", tests, NULL, NULL);
}
