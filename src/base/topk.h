/* The order of hits, and the k best of a stream.
 *
 * A hit is one 64-bit key: the score's bits, mapped so that better is larger, above the complement of the row number.
 * Comparing two keys as integers *is* the comparator (better score first, equal scores by the smaller row), there is no
 * second one on the host, and the CUDA side uses the same mapping. Rows of an index are in ascending order of id, so
 * the smaller row is the smaller id. Canonical scores are never -0; NaN must have become the worst score before. */
#ifndef BASE_TOPK_H
#define BASE_TOPK_H

#include "base/dtype.h"

/* Smaller than every real key: row number 2^32-1 does not exist. */
#define KEY_NONE UINT64_C(0)

/* Order-preserving: larger is better for `smaller_better` false, the other way round for true. */
static inline uint32_t score_to_order(float score, bool smaller_better) {
    uint32_t bits = float_bits(score);
    uint32_t order = bits >> 31 ? ~bits : bits | 0x80000000u;
    return smaller_better ? ~order : order;
}
static inline float score_from_order(uint32_t order, bool smaller_better) {
    if (smaller_better) order = ~order;
    return float_from_bits(order >> 31 ? order & 0x7fffffffu : ~order);
}
static inline uint64_t key_make(float score, uint32_t row, bool smaller_better) {
    return (uint64_t)score_to_order(score, smaller_better) << 32 | (uint32_t)~row;
}
static inline uint32_t key_row(uint64_t key) { return ~(uint32_t)key; }
static inline float key_score(uint64_t key, bool smaller_better) {
    return score_from_order((uint32_t)(key >> 32), smaller_better);
}
static inline float score_worst(bool smaller_better) { return float_from_bits(smaller_better ? 0x7f800000u : 0xff800000u); }

/* The k best keys seen so far, among at most `capacity` kept. A key at or below `floor` cannot enter any more. When the
 * buffer is full it is cut to the k best in linear time, so a stream costs O(1) a key whatever its order: no heap, no
 * cliff between k = 10 and k = 1000, and rising scores (every key enters) cost twice the random order, not log k times. */
struct topk {
    uint64_t *keys; /* borrowed */
    int64_t count, k, capacity;
    uint64_t floor;
};

/* Fewest keys a buffer for k must hold; twice k plus slack keeps the cuts rare. */
static inline int64_t topk_capacity(int64_t k) { return 2 * k + 64; }

static inline void topk_start(struct topk *top, uint64_t *keys, int64_t k, int64_t capacity) {
    *top = (struct topk){keys, 0, k, capacity, KEY_NONE};
}
/* Keeps the k best, sets the floor. */
void topk_cut(struct topk *top);

static inline void topk_push(struct topk *top, uint64_t key) {
    if (key <= top->floor) return;
    if (top->count == top->capacity) {
        topk_cut(top);
        if (key <= top->floor) return;
    }
    top->keys[top->count++] = key;
}

/* Moves the k largest of keys[0..count) to the front, in no order; distinct keys, 1 <= k <= count. Linear time on any
 * input: radix by bytes from the top. */
void keys_select(uint64_t *keys, int64_t count, int64_t k);

/* Best first. `spare` holds count keys or is NULL; with it, long arrays are sorted by radix in linear time. */
void keys_sort(uint64_t *keys, int64_t count, uint64_t *spare);

#endif
