/* Hits against lists. */
#include "support/hits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

struct vic_index *index_of_values(struct vic_device *device, enum vic_metric metric, const float *values, int64_t n,
                                  int64_t dim, const int64_t *ids) {
    struct data data = {(void *)(uintptr_t)values, n, dim, VIC_F32, metric, ids};
    return index_with_planes(device, &data, VIC_PLANES_8 | VIC_PLANES_4);
}

static void check_slots(const struct vic_index_info *info, const int64_t *found_ids, const float *found_scores, int64_t k,
                        int64_t count, const int64_t *ids, const float *scores) {
    float worst = info->metric == VIC_L2 ? INFINITY : -INFINITY;
    for (int64_t i = 0; i < k; i++) {
        int64_t id = i < count ? ids[i] : -1;
        float score = i < count && scores ? scores[i] : worst;
        if (found_ids[i] != id)
            fail_msg("slot %lld: expected id %lld, found %lld", (long long)i, (long long)id, (long long)found_ids[i]);
        if (i < count && !scores) continue;
        if (memcmp(&found_scores[i], &score, 4) != 0)
            fail_msg("slot %lld: expected score %.9g, found %.9g", (long long)i, (double)score, (double)found_scores[i]);
    }
}

void expect_hits_filtered(const struct vic_index *index, const struct vic_filter *filter, const float *query, int64_t k,
                          int64_t count, const int64_t *ids, const float *scores) {
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    struct vic_matrix queries = matrix_of(query, 1, info.dim, VIC_F32);
    int64_t *found_ids = take((size_t)k * 8);
    float *found_scores = take((size_t)k * 4);
    for (int p = 0; p < PATHS; p++) {
        struct vic_search_options options = {.size = sizeof options, .path = paths[p], .filter = filter};
        int32_t found = -1;
        struct vic_hits hits = {found_ids, found_scores, &found, VIC_HOST};
        memset(found_ids, 0xAA, (size_t)k * 8);
        memset(found_scores, 0xAA, (size_t)k * 4);
        must(vic_index_search(index, &queries, k, &options, &hits));
        assert_int_equal(found, count);
        check_slots(&info, found_ids, found_scores, k, count, ids, scores);
    }
    free(found_ids);
    free(found_scores);
}

void expect_hits(const struct vic_index *index, const float *query, int64_t k, int64_t count, const int64_t *ids,
                 const float *scores) {
    expect_hits_filtered(index, NULL, query, k, count, ids, scores);
}

void expect_oracle(const struct vic_index *index, const struct order *order, int64_t k) {
    for (int p = 0; p < PATHS; p++) {
        struct vic_search_options options = {.size = sizeof options, .path = paths[p]};
        order_check_search(order, index, &order->queries, 0, k, &options);
    }
}

float *values_random(uint64_t seed, int64_t count) {
    struct random random = {seed};
    float *values = take((size_t)count * 4);
    random_fill(&random, VALUES_UNIT, VIC_F32, count, values);
    return values;
}

void expect_short_answers(struct vic_index *(*build)(struct vic_device *device, const struct data *data)) {
    static const int64_t kept[] = {3, 7, 11, 19};
    float *values = values_random(12, 20 * 5), *query = values_random(13, 5);
    for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++) {
        struct data data = {values, 20, 5, VIC_F32, metric, NULL};
        struct order order = order_of(&data, query, 1, VIC_F32), filtered = order_filtered(&order, kept, 4, false);
        struct vic_index *index = build(test_device, &data);
        struct vic_filter *filter = NULL;
        must(vic_filter_create(index, kept, 4, NULL, &filter));
        expect_hits(index, query, 50, 20, order.ids, order.scores);
        expect_hits_filtered(index, filter, query, 50, 4, filtered.ids, filtered.scores);
        vic_filter_free(filter);
        vic_index_free(index);
        order_free(&order), order_free(&filtered);
    }
    free(values), free(query);
}
