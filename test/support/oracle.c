/* The oracle, seeded data, and the shortest way to an index in a test. */
#include "support/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

void *take(size_t bytes) {
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        (void)fprintf(stderr, "a test needs %zu bytes\n", bytes);
        abort();
    }
    return memory;
}

/* ---- elements */

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static float half_value(uint16_t half) {
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    float magnitude = exponent == 0 ? ldexpf((float)mantissa, -24) : ldexpf((float)(mantissa + 1024), exponent - 25);
    if (exponent == 31) magnitude = mantissa ? NAN : INFINITY;
    return half >> 15 ? -magnitude : magnitude;
}

float element_get(enum vic_dtype dtype, const void *vector, int64_t index) {
    uint16_t half;
    uint32_t bits;
    float value;
    if (dtype == VIC_I8) return ((const int8_t *)vector)[index];
    if (dtype == VIC_U8) return ((const uint8_t *)vector)[index];
    if (dtype == VIC_F32) {
        memcpy(&value, (const char *)vector + 4 * index, 4);
        return value;
    }
    memcpy(&half, (const char *)vector + 2 * index, 2);
    if (dtype == VIC_F16) return half_value(half);
    bits = (uint32_t)half << 16;
    memcpy(&value, &bits, 4);
    return value;
}

/* The nearest half by search over all of them would do; this one rounds the scaled mantissa with rintf. */
static uint16_t half_nearest(float value) {
    float magnitude = fabsf(value);
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (magnitude == 0) return sign;
    if (!isfinite(value)) return (uint16_t)(sign | (isnan(value) ? 0x7e00 : 0x7c00));
    int exponent = ilogbf(magnitude);
    if (exponent < -14) exponent = -14;
    float mantissa = rintf(ldexpf(magnitude, 10 - exponent)); /* 1024 .. 2048, or less for a denormal */
    uint32_t half = (uint32_t)mantissa + (uint32_t)((exponent + 14) << 10);
    return (uint16_t)(sign | (half > 0x7c00 ? 0x7c00 : half));
}

void element_set(enum vic_dtype dtype, void *vector, int64_t index, float value) {
    if (dtype == VIC_I8) {
        ((int8_t *)vector)[index] = (int8_t)value;
    } else if (dtype == VIC_U8) {
        ((uint8_t *)vector)[index] = (uint8_t)value;
    } else if (dtype == VIC_F32) {
        memcpy((char *)vector + 4 * index, &value, 4);
    } else {
        uint32_t bits = bits_of(value);
        uint16_t half = dtype == VIC_F16 ? half_nearest(value) : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        memcpy((char *)vector + 2 * index, &half, 2);
    }
}

/* ---- scores */

/* The canonical sum, as written in the contract. */
static float canonical(const float *x, const float *q, int64_t dim, bool l2) {
    float a[128] = {0};
    for (int64_t start = 0; start < dim; start += 128)
        for (int64_t j = 0; j < 128; j++) {
            float xj = start + j < dim ? x[start + j] : 0.0f, qj = start + j < dim ? q[start + j] : 0.0f;
            float d = l2 ? xj - qj : xj;
            a[j] = fmaf(d, l2 ? d : qj, a[j]);
        }
    for (int w = 64; w > 0; w /= 2)
        for (int j = 0; j < w; j++) a[j] = a[j] + a[j + w];
    return a[0] + 0.0f;
}

static int64_t integer_sum(enum vic_dtype dtype, const void *x, const void *q, int64_t dim, bool l2) {
    int64_t sum = 0;
    for (int64_t i = 0; i < dim; i++) {
        int64_t xi = (int64_t)element_get(dtype, x, i), qi = (int64_t)element_get(dtype, q, i);
        sum += l2 ? (xi - qi) * (xi - qi) : xi * qi;
    }
    return sum;
}

/* Scales in place when the largest magnitude asks for it, and gives the norm. */
static float scaled_norm(float *v, int64_t dim) {
    float largest = 0;
    for (int64_t i = 0; i < dim; i++) largest = fmaxf(largest, fabsf(v[i]));
    int exponent = largest == 0 ? 0 : ilogbf(largest);
    if (exponent < -40 || exponent >= 50)
        for (int64_t i = 0; i < dim; i++) v[i] = ldexpf(v[i], -exponent);
    return sqrtf(canonical(v, v, dim, false));
}

static float cosine_of(float dot, float row_norm, float query_norm) {
    if (row_norm == 0 || query_norm == 0) return -INFINITY;
    float score = dot / (row_norm * query_norm) + 0.0f;
    if (score > 1) score = 1;
    if (score < -1) score = -1;
    return isnan(score) ? -INFINITY : score;
}

static float score_exact(const struct data *data, const void *row, const void *query) {
    enum vic_dtype dtype = data->dtype;
    float sum = (float)integer_sum(dtype, row, query, data->dim, data->metric == VIC_L2);
    if (data->metric != VIC_COSINE) return sum;
    return cosine_of(sum, sqrtf((float)integer_sum(dtype, row, row, data->dim, false)),
                     sqrtf((float)integer_sum(dtype, query, query, data->dim, false)));
}

float oracle_score(const struct data *data, int64_t row, const void *query, enum vic_dtype query_dtype) {
    static const size_t bytes[] = {0, 4, 2, 2, 1, 1};
    int64_t dim = data->dim;
    const void *stored = (const char *)data->rows + (size_t)(row * dim) * bytes[data->dtype];
    bool integer = data->dtype == VIC_I8 || data->dtype == VIC_U8;
    if (integer && query_dtype == data->dtype) return score_exact(data, stored, query);
    float *x = take((size_t)dim * 4), *q = take((size_t)dim * 4), score = 0;
    for (int64_t i = 0; i < dim; i++) x[i] = element_get(data->dtype, stored, i), q[i] = element_get(query_dtype, query, i);
    if (data->metric == VIC_COSINE) {
        float row_norm = scaled_norm(x, dim), query_norm = scaled_norm(q, dim);
        if (integer) row_norm = sqrtf((float)integer_sum(data->dtype, stored, stored, dim, false));
        score = cosine_of(canonical(x, q, dim, false), row_norm, query_norm);
    } else {
        score = canonical(x, q, dim, data->metric == VIC_L2);
        if (isnan(score)) score = data->metric == VIC_L2 ? INFINITY : -INFINITY;
    }
    free(x);
    free(q);
    return score;
}

struct found {
    int64_t id;
    float score, sign; /* sign: -1 when smaller is better */
};

static int found_compare(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    float xs = x->score * x->sign, ys = y->score * y->sign;
    if (xs != ys) return xs > ys ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

int32_t oracle_search(const struct data *data, const void *query, enum vic_dtype query_dtype, int64_t k, const bool *allowed,
                      int64_t *ids, float *scores) {
    struct found *all = take((size_t)data->n * sizeof *all);
    int64_t count = 0;
    bool l2 = data->metric == VIC_L2;
    for (int64_t i = 0; i < data->n; i++)
        if (!allowed || allowed[i])
            all[count++] =
                (struct found){data->ids ? data->ids[i] : i, oracle_score(data, i, query, query_dtype), l2 ? -1.0f : 1.0f};
    qsort(all, (size_t)count, sizeof *all, found_compare);
    if (count > k) count = k;
    for (int64_t i = 0; i < k; i++) {
        ids[i] = i < count ? all[i].id : -1;
        scores[i] = i < count ? all[i].score : l2 ? INFINITY : -INFINITY;
    }
    free(all);
    return (int32_t)count;
}

/* ---- seeded data */

uint64_t random_next(struct random *random) {
    uint64_t z = random->state += UINT64_C(0x9E3779B97F4A7C15); /* splitmix64 */
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

int64_t random_below(struct random *random, int64_t bound) { return (int64_t)(random_next(random) % (uint64_t)bound); }

float random_unit(struct random *random) { return (float)(int64_t)(random_next(random) >> 40) * 0x1p-23f - 1.0f; }

float random_normal(struct random *random) {
    float sum = 0;
    for (int i = 0; i < 12; i++) sum += random_unit(random);
    return sum * 0.5f;
}

static float wild(struct random *random, enum vic_dtype dtype) {
    static const float picks[] = {
        0.0f,     -0.0f,    1.0f,    -1.0f,     0x1p-149f, -0x1p-149f, 0x1p-130f, 0x1p-126f, 0x1.fffffep127f, -0x1.fffffep127f,
        0x1p100f, 0x1p-70f, 0x1p63f, -0x1p-40f, 65504.0f,  0x1p-24f};
    if (random_below(random, 2)) {
        float pick = picks[random_below(random, (int64_t)(sizeof picks / sizeof *picks))];
        if (dtype == VIC_F16 && fabsf(pick) > 65504.0f) pick = copysignf(65504.0f, pick);
        if (dtype == VIC_BF16 && fabsf(pick) > 0x1.fep127f) pick = copysignf(0x1.fep127f, pick);
        return pick;
    }
    int range = dtype == VIC_F16 ? 15 : 126;
    return ldexpf(random_unit(random), (int)random_below(random, 2 * range) - range);
}

void random_fill(struct random *random, enum values values, enum vic_dtype dtype, int64_t count, void *target) {
    for (int64_t i = 0; i < count; i++) {
        float value = 0;
        if (dtype == VIC_I8 || dtype == VIC_U8) {
            int64_t range = values == VALUES_SMALL_INT ? 7 : 256, low = dtype == VIC_U8              ? 0
                                                                        : values == VALUES_SMALL_INT ? -3
                                                                                                     : -128;
            value = (float)(random_below(random, range) + low);
            if (values == VALUES_WILD && random_below(random, 2)) value = dtype == VIC_U8 ? 255.0f : -128.0f;
        } else if (values == VALUES_SMALL_INT) {
            value = (float)(random_below(random, 7) - 3);
        } else {
            value = values == VALUES_WILD ? wild(random, dtype) : random_unit(random);
        }
        element_set(dtype, target, i, value);
    }
}

/* ---- the library, briefly */

struct vic_matrix matrix_of(const void *vectors, int64_t nq, int64_t dim, enum vic_dtype dtype) {
    return (struct vic_matrix){.data = (void *)(uintptr_t)vectors, .rows = nq, .dim = dim, .dtype = dtype};
}

struct vic_index *index_of(struct vic_device *device, const struct data *data) {
    struct vic_index *index = NULL;
    struct vic_matrix rows = matrix_of(data->rows, data->n, data->dim, data->dtype);
    struct vic_build_options options = {.size = sizeof options, .metric = data->metric, .ids = data->ids};
    must(vic_index_build(device, &rows, &options, &index));
    return index;
}

/* ---- whole orders */

struct order order_of(const struct data *data, const void *queries, int64_t nq, enum vic_dtype query_dtype) {
    struct order order = {.data = data, .nq = nq, .queries = matrix_of(queries, nq, data->dim, query_dtype)};
    size_t slots = (size_t)(nq * data->n), query_bytes = (size_t)data->dim * vic_dtype_bytes(query_dtype);
    order.ids = take(slots * 8);
    order.scores = take(slots * 4);
    order.counts = take((size_t)nq * 4);
    for (int64_t j = 0; j < nq; j++)
        order.counts[j] = oracle_search(data, (const char *)queries + (size_t)j * query_bytes, query_dtype, data->n, NULL,
                                        order.ids + j * data->n, order.scores + j * data->n);
    return order;
}

static int id_compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

struct order order_filtered(const struct order *order, const int64_t *ids, int64_t count, bool exclude) {
    int64_t n = order->data->n;
    struct order filtered = *order;
    int64_t *sorted = take((size_t)count * 8);
    if (count) memcpy(sorted, ids, (size_t)count * 8);
    qsort(sorted, (size_t)count, 8, id_compare);
    filtered.ids = take((size_t)(order->nq * n) * 8);
    filtered.scores = take((size_t)(order->nq * n) * 4);
    filtered.counts = take((size_t)order->nq * 4);
    for (int64_t j = 0; j < order->nq; j++) {
        int32_t kept = 0;
        for (int64_t i = j * n; i < j * n + order->counts[j]; i++) {
            bool listed = bsearch(&order->ids[i], sorted, (size_t)count, 8, id_compare) != NULL;
            if (listed == exclude) continue;
            filtered.ids[j * n + kept] = order->ids[i];
            filtered.scores[j * n + kept++] = order->scores[i];
        }
        filtered.counts[j] = kept;
    }
    free(sorted);
    return filtered;
}

void order_free(struct order *order) {
    free(order->ids);
    free(order->scores);
    free(order->counts);
}

static float worst_of(const struct order *order) { return order->data->metric == VIC_L2 ? INFINITY : -INFINITY; }

void order_check_hits(const struct order *order, int64_t j, int64_t k, const int64_t *ids, const float *scores, int32_t count) {
    int64_t n = order->data->n, real = order->counts[j] < k ? order->counts[j] : k;
    float worst = worst_of(order);
    assert_int_equal(count, real);
    if (real) assert_memory_equal(ids, order->ids + j * n, (size_t)real * 8);
    if (real) assert_memory_equal(scores, order->scores + j * n, (size_t)real * 4);
    for (int64_t i = real; i < k; i++) {
        assert_true(ids[i] == -1);
        assert_memory_equal(scores + i, &worst, 4);
    }
}

void order_check_search(const struct order *order, const struct vic_index *index, const struct vic_matrix *queries,
                        int64_t first, int64_t k, const struct vic_search_options *options) {
    int64_t nq = queries->rows;
    size_t slots = (size_t)(nq * k);
    int64_t *ids = take(slots * 8);
    float *scores = take(slots * 4);
    int32_t *counts = take((size_t)nq * 4);
    memset(ids, 0xAA, slots * 8);
    memset(scores, 0xAA, slots * 4);
    memset(counts, 0xAA, (size_t)nq * 4);
    struct vic_hits hits = {.ids = ids, .scores = scores, .counts = counts};
    must(vic_index_search(index, queries, k, options, &hits));
    for (int64_t j = 0; j < nq; j++)
        order_check_hits(order, (first + j) % order->nq, k, ids + j * k, scores + j * k, counts[j]);
    free(ids);
    free(scores);
    free(counts);
}

void order_check_within(const struct order *order, const struct vic_index *index, float score,
                        const struct vic_search_options *options) {
    int64_t n = order->data->n, total = 0;
    bool l2 = order->data->metric == VIC_L2;
    int64_t *offsets = take((size_t)(order->nq + 1) * 8), *ids = take((size_t)(order->nq * n) * 8);
    float *scores = take((size_t)(order->nq * n) * 4);
    struct vic_ranges ranges = {.offsets = offsets, .ids = ids, .scores = scores, .capacity = order->nq * n};
    must(vic_index_within(index, &order->queries, score, options, &ranges));
    assert_true(offsets[0] == 0);
    for (int64_t j = 0; j < order->nq; j++) {
        int64_t count = 0;
        const float *right = order->scores + j * n;
        while (count < order->counts[j] && (l2 ? right[count] <= score : right[count] >= score)) count++;
        assert_int_equal(offsets[j + 1] - offsets[j], count);
        if (count) assert_memory_equal(ids + total, order->ids + j * n, (size_t)count * 8);
        if (count) assert_memory_equal(scores + total, right, (size_t)count * 4);
        total += count;
    }
    free(offsets);
    free(ids);
    free(scores);
}

void check_search(const struct vic_index *index, const struct data *data, const void *queries, int64_t nq,
                  enum vic_dtype query_dtype, int64_t k) {
    struct order order = order_of(data, queries, nq, query_dtype);
    order_check_search(&order, index, &order.queries, 0, k, NULL);
    order_free(&order);
}
