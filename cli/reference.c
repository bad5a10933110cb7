/* Reference: the canonical scores of docs/numerics.md in plain C, sharing no code with the library.
 *
 * The surprising rule is the order of additions: 128 accumulators, element i into number i mod 128, then a halving tree.
 * Everything else here is as naive as it can be: all scores, one sort. */
#include "reference.h"
#include "measure.h"
#include "input.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A vector ready to be compared: as float32, times a power of two where cosine asks for it, and its norm. */
struct prepared {
    float *values;
    float norm;
};

struct scored {
    float score;
    int64_t id;
};

struct judge {
    const struct vic_index *index;
    struct vic_index_info info;
    int64_t nq;
    bool whole; /* integer rows and queries of their own type: sums are exact */
    struct prepared *queries;
    struct scored *scored; /* nq lists of info.rows */
    int failed;
};

/* ---- arithmetic */

static float half_value(uint16_t half) {
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    float magnitude = exponent ? ldexpf((float)(mantissa + 1024), exponent - 25) : ldexpf((float)mantissa, -24);
    return half & 0x8000 ? -magnitude : magnitude;
}

static float element(enum vic_dtype dtype, const void *vector, int64_t i) {
    uint32_t bits;
    float value;
    switch (dtype) {
    case VIC_F32: return ((const float *)vector)[i];
    case VIC_F16: return half_value(((const uint16_t *)vector)[i]);
    case VIC_I8: return ((const int8_t *)vector)[i];
    case VIC_U8: return ((const uint8_t *)vector)[i];
    case VIC_BF16: break;
    }
    bits = (uint32_t)((const uint16_t *)vector)[i] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float canonical_sum(const float *x, const float *q, int64_t dim, bool l2) {
    float a[128] = {0};
    for (int64_t i = 0; i < dim; i++) {
        float d = x[i] - q[i];
        a[i % 128] = l2 ? fmaf(d, d, a[i % 128]) : fmaf(x[i], q[i], a[i % 128]);
    }
    for (int w = 64; w > 0; w /= 2)
        for (int j = 0; j < w; j++) a[j] = a[j] + a[j + w];
    return a[0] + 0.0f;
}

static float whole_sum(const float *x, const float *q, int64_t dim, bool l2) {
    int64_t sum = 0;
    for (int64_t i = 0; i < dim; i++) {
        int64_t a = (int64_t)x[i], b = (int64_t)q[i];
        sum += l2 ? (a - b) * (a - b) : a * b;
    }
    return (float)sum;
}

/* Vectors whose largest element is beyond [2^-40, 2^50) are brought to [1, 2) before anything is squared. */
static void cosine_scale(float *values, int64_t dim) {
    float largest = 0;
    for (int64_t i = 0; i < dim; i++) largest = fmaxf(largest, fabsf(values[i]));
    int exponent = largest > 0 ? ilogbf(largest) : 0;
    if (exponent >= -40 && exponent < 50) return;
    for (int64_t i = 0; i < dim; i++) values[i] = ldexpf(values[i], -exponent);
}

static void prepare(const struct judge *judge, enum vic_dtype dtype, const void *vector, bool whole, struct prepared *out) {
    int64_t dim = judge->info.dim;
    for (int64_t i = 0; i < dim; i++) out->values[i] = element(dtype, vector, i);
    if (judge->info.metric != VIC_COSINE) return;
    if (!whole) cosine_scale(out->values, dim);
    out->norm =
        sqrtf(whole ? whole_sum(out->values, out->values, dim, false) : canonical_sum(out->values, out->values, dim, false));
}

static float score(const struct judge *judge, const struct prepared *row, const struct prepared *query) {
    bool l2 = judge->info.metric == VIC_L2, cosine = judge->info.metric == VIC_COSINE;
    if (cosine && (row->norm == 0 || query->norm == 0)) return -INFINITY;
    float value = (judge->whole ? whole_sum : canonical_sum)(row->values, query->values, judge->info.dim, l2);
    if (cosine) value = fminf(fmaxf(value / (row->norm * query->norm), -1), 1) + 0.0f;
    return isnan(value) ? l2 ? INFINITY : -INFINITY : value;
}

/* ---- every row against every query */

static void judge_rows(void *context, int64_t first, int64_t count) {
    struct judge *judge = context;
    const bool integers = judge->info.dtype == VIC_I8 || judge->info.dtype == VIC_U8;
    void *vector = memory_take((uint64_t)judge->info.dim, sizeof(float));
    struct prepared row = {.values = vector ? memory_take((uint64_t)judge->info.dim, sizeof(float)) : NULL};
    bool good = row.values != NULL;
    for (int64_t i = first; good && i < first + count; i++) {
        int64_t id = 0;
        good = vic_index_ids(judge->index, i, 1, &id) == VIC_OK && vic_index_vector(judge->index, id, vector) == VIC_OK;
        if (!good) break;
        prepare(judge, judge->info.dtype, vector, integers, &row);
        for (int64_t q = 0; q < judge->nq; q++)
            judge->scored[q * judge->info.rows + i] = (struct scored){score(judge, &row, &judge->queries[q]), id};
    }
    if (!good) (void)__atomic_fetch_add(&judge->failed, 1, __ATOMIC_RELAXED);
    free(row.values);
    free(vector);
}

static int larger_first(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static int smaller_first(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static bool hits_agree(const struct judge *judge, int64_t k, const struct vic_hits *hits) {
    for (int64_t q = 0; q < judge->nq; q++) {
        struct scored *list = judge->scored + q * judge->info.rows;
        qsort(list, (size_t)judge->info.rows, sizeof *list, judge->info.metric == VIC_L2 ? smaller_first : larger_first);
        for (int64_t i = 0; i < k && i < judge->info.rows; i++) {
            float found = hits->scores[q * k + i];
            if (hits->ids[q * k + i] == list[i].id && bits_of(found) == bits_of(list[i].score)) continue;
            say("query %lld, hit %lld: expected id %lld with score %.9g, found id %lld with %.9g; nothing is timed",
                (long long)q, (long long)i, (long long)list[i].id, (double)list[i].score, (long long)hits->ids[q * k + i],
                (double)found);
            return false;
        }
    }
    return true;
}

bool reference_agrees(const struct vic_index *index, const struct vic_matrix *queries, int64_t k, int threads,
                      const struct vic_hits *hits) {
    struct judge judge = {.index = index, .info = {.size = sizeof judge.info}, .nq = queries->rows};
    bool agree = false;
    float *values = NULL;
    TRY(vic_index_info(index, &judge.info));
    judge.whole = queries->dtype != VIC_F32;
    judge.queries = memory_take((uint64_t)judge.nq, sizeof *judge.queries);
    judge.scored = memory_take((uint64_t)judge.nq * (uint64_t)judge.info.rows, sizeof *judge.scored);
    values = memory_take((uint64_t)judge.nq * (uint64_t)judge.info.dim, sizeof *values);
    if (!judge.queries || !judge.scored || !values) goto done;
    for (int64_t q = 0; q < judge.nq; q++) {
        size_t row_bytes = (size_t)judge.info.dim * vic_dtype_bytes(queries->dtype);
        judge.queries[q].values = values + q * judge.info.dim;
        prepare(&judge, queries->dtype, (const char *)queries->data + (size_t)q * row_bytes, judge.whole, &judge.queries[q]);
    }
    if (!threads_run(threads, judge.info.rows, judge_rows, &judge)) goto done;
    if (judge.failed)
        say("the rows could not be read back from the index");
    else
        agree = hits_agree(&judge, k, hits);
done:
    free(values);
    free(judge.scored);
    free(judge.queries);
    return agree;
}
