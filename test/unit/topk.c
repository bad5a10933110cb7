/* The order of hits and the selection of the best: against plain comparisons and the C library's sort, on every sequence
 * that could make a selection slow, unstable or wrong. */
#include "base/topk.h"
#include "support/scene.h"

#include <math.h>
#include <stdlib.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#define COUNT(array) (int64_t)(sizeof(array) / sizeof *(array))

/* ---- the comparator */

static const float scores[] = {
    -INFINITY, -0x1.fffffep127f, -1.5f,     -1.0f, -0x1p-126f, -0x1.fffffcp-127f, -0x1p-149f, 0.0f, 0x1p-149f,
    0x1p-148f, 0x1.fffffcp-127f, 0x1p-126f, 1.0f,  1.0000001f, 0x1.fffffep127f,   INFINITY};
static const uint32_t rows[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0xfffffffd, 0xfffffffe};

static bool better(float a, uint32_t a_row, float b, uint32_t b_row, bool smaller_better) {
    if (a != b) return smaller_better ? a < b : a > b;
    return a_row < b_row;
}

static void every_pair_is_ordered_by_score_then_row(void **state) {
    (void)state;
    for (int smaller_better = 0; smaller_better < 2; smaller_better++)
        for (int64_t i = 0; i < COUNT(scores); i++)
            for (int64_t j = 0; j < COUNT(scores); j++)
                for (int64_t a = 0; a < COUNT(rows); a++)
                    for (int64_t b = 0; b < COUNT(rows); b++) {
                        uint64_t x = key_make(scores[i], rows[a], smaller_better),
                                 y = key_make(scores[j], rows[b], smaller_better);
                        assert_int_equal(x > y, better(scores[i], rows[a], scores[j], rows[b], smaller_better));
                        assert_int_equal(x == y, i == j && a == b);
                    }
}

static void a_key_gives_back_its_row_and_score_and_is_above_none(void **state) {
    (void)state;
    for (int smaller_better = 0; smaller_better < 2; smaller_better++)
        for (int64_t i = 0; i < COUNT(scores); i++)
            for (int64_t a = 0; a < COUNT(rows); a++) {
                uint64_t key = key_make(scores[i], rows[a], smaller_better);
                float score = key_score(key, smaller_better);
                assert_true(key > KEY_NONE);
                assert_true(key_row(key) == rows[a]);
                assert_memory_equal(&score, &scores[i], 4);
                assert_true(score_to_order(scores[i], smaller_better) >=
                            score_to_order(score_worst(smaller_better), smaller_better));
            }
}

static void equal_zeros_fall_to_the_smaller_row(void **state) {
    (void)state;
    /* what a canonical score does with -0 before it becomes a key */
    float negative = -0.0f, zero = negative + 0.0f;
    assert_false(signbit(zero));
    for (int smaller_better = 0; smaller_better < 2; smaller_better++)
        for (uint32_t row = 0; row < 4; row++)
            assert_true(key_make(zero, row, smaller_better) > key_make(0.0f, row + 1, smaller_better));
}

/* ---- sequences */

enum sequence { RANDOM, RISING, FALLING, EQUAL_SCORES, TWO_SCORES, ONE_BYTE, LOW_BYTES, ORGAN_PIPE, SEQUENCES };

static uint64_t key_at(struct random *random, enum sequence sequence, int64_t i, int64_t count) {
    uint64_t place = (uint64_t)i;
    switch (sequence) {
    case RANDOM: return random_next(random);
    case RISING: return (place + 1) * 0x100000001;
    case FALLING: return ((uint64_t)count - place) * 0x100000001;
    case EQUAL_SCORES: return key_make(1.0f, (uint32_t)(place * 2654435761u), false);
    case TWO_SCORES: return key_make(i % 2 ? 1.0f : 1.0000001f, (uint32_t)place, false);
    case ONE_BYTE: return (place * 167 & 255) << 40 | (place + 1); /* the bytes above agree */
    case LOW_BYTES: return UINT64_C(0xfedcba9876000000) | (place * 40503 & 0xffffff);
    default: return (place < (uint64_t)count / 2 ? place : (uint64_t)count - place) << 33 | (place + 1);
    }
}

static int key_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

static const int64_t lengths[] = {1, 2, 3, 4, 16, 47, 48, 49, 64, 65, 100, 255, 256, 257, 1000, 100000};

struct keys {
    uint64_t *given, *sorted, *work;
    int64_t count;
};

static struct keys keys_draw(struct random *random, enum sequence sequence, int64_t count) {
    struct keys keys = {take((size_t)count * 8), take((size_t)count * 8), take((size_t)count * 8), count};
    for (int64_t i = 0; i < count; i++) keys.sorted[i] = keys.given[i] = key_at(random, sequence, i, count);
    qsort(keys.sorted, (size_t)count, 8, key_compare);
    for (int64_t i = 1; i < count; i++) assert_true(keys.sorted[i] < keys.sorted[i - 1]); /* as the contract asks */
    return keys;
}

static void keys_done(struct keys *keys) {
    free(keys->given);
    free(keys->sorted);
    free(keys->work);
}

static void the_k_best_come_to_the_front_and_none_is_lost(void **state) {
    (void)state;
    struct random random = test_random(1);
    for (enum sequence sequence = 0; sequence < SEQUENCES; sequence++)
        for (int64_t i = 0; i < COUNT(lengths); i++) {
            struct keys keys = keys_draw(&random, sequence, lengths[i]);
            int64_t n = keys.count, ks[] = {1, 2, 10, n / 2, n - 1, n};
            for (int64_t j = 0; j < COUNT(ks); j++) {
                if (ks[j] < 1 || ks[j] > n) continue;
                memcpy(keys.work, keys.given, (size_t)n * 8);
                keys_select(keys.work, n, ks[j]);
                qsort(keys.work, (size_t)ks[j], 8, key_compare);
                qsort(keys.work + ks[j], (size_t)(n - ks[j]), 8, key_compare);
                assert_memory_equal(keys.work, keys.sorted, (size_t)n * 8);
            }
            keys_done(&keys);
        }
}

static void keys_sort_as_the_c_library_sorts_them(void **state) {
    (void)state;
    struct random random = test_random(2);
    for (enum sequence sequence = 0; sequence < SEQUENCES; sequence++)
        for (int64_t i = 0; i < COUNT(lengths); i++) {
            struct keys keys = keys_draw(&random, sequence, lengths[i]);
            size_t bytes = (size_t)keys.count * 8;
            uint64_t *spare = take(bytes);
            memcpy(keys.work, keys.given, bytes);
            keys_sort(keys.work, keys.count, NULL);
            assert_memory_equal(keys.work, keys.sorted, bytes);
            memcpy(keys.work, keys.given, bytes);
            keys_sort(keys.work, keys.count, spare);
            assert_memory_equal(keys.work, keys.sorted, bytes);
            free(spare);
            keys_done(&keys);
        }
}

static void nothing_is_selected_or_sorted_of_nothing(void **state) {
    (void)state;
    uint64_t keys[] = {5, 6}, untouched[] = {5, 6};
    keys_select(keys, 0, 0);
    keys_select(keys, 2, 0);
    keys_sort(keys, 0, NULL);
    keys_sort(keys, 0, keys);
    assert_memory_equal(keys, untouched, sizeof keys);
}

static void a_stream_keeps_its_k_best_whatever_its_order_and_room(void **state) {
    (void)state;
    struct random random = test_random(3);
    static const int64_t ks[] = {1, 2, 10, 64, 100, 1000};
    for (enum sequence sequence = 0; sequence < SEQUENCES; sequence++)
        for (int64_t i = 0; i < COUNT(lengths); i++)
            for (int64_t j = 0; j < COUNT(ks); j++)
                for (int64_t slack = 0; slack < 3; slack++) {
                    struct keys keys = keys_draw(&random, sequence, lengths[i] < 10000 ? lengths[i] : 10000);
                    int64_t capacity = topk_capacity(ks[j]) + slack * 333, kept = keys.count < ks[j] ? keys.count : ks[j];
                    uint64_t *room = take((size_t)capacity * 8);
                    struct topk top;
                    topk_start(&top, room, ks[j], capacity);
                    for (int64_t at = 0; at < keys.count; at++) topk_push(&top, keys.given[at]);
                    assert_in_range(top.count, kept, capacity);
                    topk_cut(&top);
                    qsort(room, (size_t)top.count, 8, key_compare);
                    assert_memory_equal(room, keys.sorted, (size_t)kept * 8);
                    if (keys.count >= ks[j]) {
                        assert_int_equal(top.count, ks[j]);
                        assert_true(top.floor == keys.sorted[ks[j] - 1]);
                    } else {
                        assert_true(top.floor == KEY_NONE);
                    }
                    free(room);
                    keys_done(&keys);
                }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_is_ordered_by_score_then_row),
        cmocka_unit_test(a_key_gives_back_its_row_and_score_and_is_above_none),
        cmocka_unit_test(equal_zeros_fall_to_the_smaller_row),
        cmocka_unit_test(the_k_best_come_to_the_front_and_none_is_lost),
        cmocka_unit_test(keys_sort_as_the_c_library_sorts_them),
        cmocka_unit_test(nothing_is_selected_or_sorted_of_nothing),
        cmocka_unit_test(a_stream_keeps_its_k_best_whatever_its_order_and_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
