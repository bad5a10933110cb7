/* Recall: counted against a plain loop, ties, and hits that would make figures too good. */
#include "support/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { NQ = 1000, K = 10, N = 5000 };

struct lists {
    int64_t ids[NQ * K];
    float distances[NQ * K];
};

/* Distinct ids a query, distances that rise and often repeat. */
static void lists_fill(struct lists *lists, uint64_t seed) {
    struct random random = {.state = seed};
    for (int64_t j = 0; j < NQ; j++) {
        float distance = 0;
        for (int64_t s = 0; s < K; s++) {
            int64_t *row = lists->ids + j * K;
            bool again = true;
            while (again) {
                row[s] = random_below(&random, N);
                again = false;
                for (int64_t t = 0; t < s; t++) again = again || row[t] == row[s];
            }
            distance += (float)random_below(&random, 2);
            lists->distances[j * K + s] = distance;
        }
    }
}

static struct vic_truth truth_of(struct lists *lists, bool distances) {
    return (struct vic_truth){.nq = NQ, .k = K, .ids = lists->ids, .distances = distances ? lists->distances : NULL};
}

static double recall_or_end(const struct vic_truth *hits, const struct vic_truth *truth, int64_t k, int64_t n) {
    double recall = -1;
    must(vic_recall(hits, truth, k, n, &recall));
    return recall;
}

static void refused(const struct vic_truth *hits, const struct vic_truth *truth, int64_t k, int64_t n, enum vic_status status,
                    const char *words) {
    double recall = -1;
    enum vic_status found = vic_recall(hits, truth, k, n, &recall);
    if (found != status || !strstr(vic_last_error(), words)) print_message("\"%s\"\n", vic_last_error());
    assert_int_equal(found, status);
    assert_non_null(strstr(vic_last_error(), words));
    assert_true(recall == -1);
}

static void GRS_06_truth_is_its_own_recall_of_exactly_1(void **state) {
    (void)state;
    static struct lists lists, swapped;
    lists_fill(&lists, 1);
    struct vic_truth truth = truth_of(&lists, true), hits = truth_of(&swapped, true);
    assert_true(recall_or_end(&truth, &truth, K, N) == 1.0);
    assert_true(recall_or_end(&truth, &truth, 1, 0) == 1.0);
    /* Every hit as near as the last true one becomes another row of that distance. */
    swapped = lists;
    int64_t changed = 0;
    for (int64_t j = 0; j < NQ; j++)
        for (int64_t s = 0; s < K; s++)
            if (lists.distances[j * K + s] == lists.distances[j * K + K - 1]) swapped.ids[j * K + s] = N + s, changed++;
    assert_true(changed > NQ);
    assert_true(recall_or_end(&hits, &truth, K, 0) == 1.0);
    hits.distances = NULL; /* without distances nobody can know */
    assert_true(recall_or_end(&hits, &truth, K, 0) < 1.0);
    hits.distances = swapped.distances, truth.distances = NULL;
    assert_true(recall_or_end(&hits, &truth, K, 0) < 1.0);
}

static void GRS_06_ids_twice_or_out_of_range_are_refused(void **state) {
    (void)state;
    static struct lists lists, other;
    lists_fill(&lists, 1);
    other = lists;
    struct vic_truth truth = truth_of(&lists, true), hits = truth_of(&other, true);
    other.ids[777 * K + 8] = other.ids[777 * K + 2];
    refused(&hits, &truth, K, N, VIC_ID, "in the hits, found ");
    refused(&hits, &truth, K, N, VIC_ID, "at query 777 slot 2 and again at slot 8");
    refused(&truth, &hits, K, N, VIC_ID, "in the truth, found ");
    assert_true(recall_or_end(&hits, &truth, 8, N) == 1.0); /* beyond k nothing is looked at */
    other = lists;
    other.ids[999 * K + 9] = N;
    refused(&hits, &truth, K, N, VIC_ID, "expected ids from 0 to 4999 in the hits, found 5000 at query 999 slot 9");
    refused(&truth, &hits, K, N, VIC_ID, "in the truth, found 5000");
    (void)recall_or_end(&hits, &truth, K, 0); /* 0: not checked */
    other.ids[0] = -2;
    refused(&hits, &truth, K, 0, VIC_ID, "found -2 at query 0 slot 0");
}

/* Plain loops over everything. */
static double recall_slowly(const struct vic_truth *hits, const struct vic_truth *truth, int64_t k) {
    double sum = 0;
    for (int64_t j = 0; j < truth->nq; j++) {
        const int64_t *found = hits->ids + j * hits->k, *wanted = truth->ids + j * truth->k;
        int64_t real = 0, matches = 0, last = -1;
        for (int64_t s = 0; s < k; s++)
            if (wanted[s] >= 0) real++, last = s;
        for (int64_t s = 0; s < k; s++) {
            bool match = false;
            for (int64_t t = 0; t < k; t++) match = match || (found[s] >= 0 && found[s] == wanted[t]);
            if (found[s] >= 0 && last >= 0 && hits->distances && truth->distances)
                match = match || hits->distances[j * hits->k + s] == truth->distances[j * truth->k + last];
            matches += match;
        }
        if (matches > real) matches = real;
        sum += real ? (double)matches / (double)real : 1.0;
    }
    return sum / (double)truth->nq;
}

static void random_hits_are_counted_as_plain_loops_do(void **state) {
    (void)state;
    static struct lists lists, other;
    struct random random = {.state = 9};
    lists_fill(&lists, 2);
    for (int round = 0; round < 20; round++) {
        other = lists;
        for (int64_t c = 0; c < NQ * K; c++) {
            int64_t kind = random_below(&random, 8);
            if (kind == 0) other.ids[c] = -1;
            if (kind == 1) other.ids[c] = N + c;
            if (kind == 2) other.distances[c] = (float)random_below(&random, 6);
        }
        for (int64_t c = 0; c < NQ * K && round % 2; c++)
            if (random_below(&random, 9) == 0) lists.ids[c] = -1;
        struct vic_truth truth = truth_of(&lists, round % 3 != 0), hits = truth_of(&other, round % 5 != 0);
        for (int64_t k = 1; k <= K; k += 3) assert_true(recall_or_end(&hits, &truth, k, 0) == recall_slowly(&hits, &truth, k));
    }
}

/* A truth shorter than k: what is there counts. A query without any has nothing to find. */
static void unused_slots_of_the_truth_are_not_wanted(void **state) {
    (void)state;
    int64_t wanted[6] = {4, 5, -1, -1, -1, -1}, found[6] = {5, -1, -1, 9, -1, -1};
    float near[6] = {1, 2, 3, 3, 3, 3};
    const struct vic_truth truth = {.nq = 2, .k = 3, .ids = wanted}, hits = {.nq = 2, .k = 3, .ids = found};
    assert_true(recall_or_end(&hits, &truth, 3, 10) == 0.75);
    assert_true(recall_or_end(&truth, &truth, 3, 10) == 1.0);
    const struct vic_truth with = {.nq = 2, .k = 3, .ids = wanted, .distances = near};
    const struct vic_truth worse = {.nq = 2, .k = 3, .ids = found, .distances = (float[6]){3, 3, 3, 3, 3, 3}};
    assert_true(recall_or_end(&worse, &with, 3, 10) == 0.75); /* an unused slot's distance is no tie */
    const struct vic_truth none = {.nq = 0, .k = INT64_C(1) << 40};
    assert_true(recall_or_end(&none, &none, INT64_C(1) << 40, 10) == 1.0);
}

static void shapes_that_do_not_agree_are_refused(void **state) {
    (void)state;
    int64_t ids[4] = {1, 2, 3, 4};
    double recall = -1;
    const struct vic_truth two = {.nq = 2, .k = 2, .ids = ids}, one = {.nq = 1, .k = 4, .ids = ids};
    const struct vic_truth wide = {.nq = 1, .k = 2, .ids = ids}, nothing = {.nq = 2, .k = 2};
    refused(&two, &one, 1, 0, VIC_DIMENSION, "found 2 and 1");
    refused(&wide, &one, 3, 0, VIC_DIMENSION, "what the hits (2) and the truth (4) have, found 3");
    refused(&one, &wide, 3, 0, VIC_DIMENSION, "what the hits (4) and the truth (2) have, found 3");
    refused(&two, &two, 0, 0, VIC_DIMENSION, "found 0");
    refused(&two, &two, INT64_MIN, 0, VIC_DIMENSION, "found -");
    refused(&two, &two, 1, -1, VIC_ARGUMENT, "found -1");
    refused(&nothing, &two, 1, 0, VIC_ARGUMENT, "found NULL");
    refused(NULL, &two, 1, 0, VIC_ARGUMENT, "found NULL");
    refused(&two, NULL, 1, 0, VIC_ARGUMENT, "found NULL");
    assert_int_equal(vic_recall(&two, &two, 1, 0, NULL), VIC_ARGUMENT);
    assert_true(recall == -1);
}

/* NaN is as near as nothing; infinities of one sign are equally near. */
static void strange_distances_are_compared_as_numbers(void **state) {
    (void)state;
    int64_t wanted[2] = {1, 2}, found[2] = {7, 8};
    const struct {
        float border, hit;
        double recall;
    } rows[] = {{NAN, NAN, 0}, {INFINITY, INFINITY, 1}, {-INFINITY, INFINITY, 0}, {0.0f, -0.0f, 1}, {0x1p-149f, 0, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float truth_distances[2] = {0.5f, rows[i].border}, hit_distances[2] = {rows[i].hit, rows[i].hit};
        const struct vic_truth truth = {.nq = 1, .k = 2, .ids = wanted, .distances = truth_distances};
        const struct vic_truth hits = {.nq = 1, .k = 2, .ids = found, .distances = hit_distances};
        assert_true(recall_or_end(&hits, &truth, 2, 0) == rows[i].recall);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(GRS_06_truth_is_its_own_recall_of_exactly_1),
        cmocka_unit_test(GRS_06_ids_twice_or_out_of_range_are_refused),
        cmocka_unit_test(random_hits_are_counted_as_plain_loops_do),
        cmocka_unit_test(unused_slots_of_the_truth_are_not_wanted),
        cmocka_unit_test(shapes_that_do_not_agree_are_refused),
        cmocka_unit_test(strange_distances_are_compared_as_numbers),
    };
    return cmocka_run_group_tests_name("recall", tests, NULL, NULL);
}
