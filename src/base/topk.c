/* Selection and sorting of hit keys. All in place and without recursion; every loop's length is bounded by its input. */
#include "base/topk.h"

#include <string.h>

enum { SORT_SHORT = 48 };

static inline void swap_keys(uint64_t *a, uint64_t *b) {
    uint64_t kept = *a;
    *a = *b;
    *b = kept;
}

/* Partitions by one byte of the key at a time: the buckets above the k-th's are in, those below are out, and the search
 * goes on inside the k-th's own. Eight rounds at most, each over a bucket, so the worst case is 8 passes. */
void keys_select(uint64_t *keys, int64_t count, int64_t k) {
    for (unsigned shift = 56; k > 0 && k < count; shift -= 8) {
        int64_t sizes[256] = {0};
        for (int64_t i = 0; i < count; i++) sizes[keys[i] >> shift & 255]++;
        int bucket = 255;
        int64_t above = 0;
        while (above + sizes[bucket] < k) above += sizes[bucket--];
        /* Three-way partition: above the bucket to the front, the bucket next, the rest behind. */
        int64_t front = 0, middle = 0, back = count;
        while (middle < back) {
            int byte = (int)(keys[middle] >> shift & 255);
            if (byte > bucket)
                swap_keys(&keys[front++], &keys[middle++]);
            else if (byte < bucket)
                swap_keys(&keys[middle], &keys[--back]);
            else
                middle++;
        }
        keys += above, k -= above, count = sizes[bucket];
        if (shift == 0) return;
    }
}

void topk_cut(struct topk *top) {
    if (top->count < top->k) return;
    if (top->count > top->k) keys_select(top->keys, top->count, top->k);
    top->count = top->k;
    uint64_t least = UINT64_MAX;
    for (int64_t i = 0; i < top->k; i++)
        if (top->keys[i] < least) least = top->keys[i];
    top->floor = least;
}

static void keys_sort_insertion(uint64_t *keys, int64_t count) {
    for (int64_t i = 1; i < count; i++) {
        uint64_t key = keys[i];
        int64_t j = i;
        while (j > 0 && keys[j - 1] < key) keys[j] = keys[j - 1], j--;
        keys[j] = key;
    }
}

static void keys_sift(uint64_t *keys, int64_t root, int64_t count) {
    for (int64_t child = 2 * root + 1; child < count; root = child, child = 2 * root + 1) {
        if (child + 1 < count && keys[child + 1] < keys[child]) child++;
        if (keys[root] <= keys[child]) return;
        swap_keys(&keys[root], &keys[child]);
    }
}

static void keys_sort_heap(uint64_t *keys, int64_t count) {
    for (int64_t i = count / 2 - 1; i >= 0; i--) keys_sift(keys, i, count);
    for (int64_t end = count - 1; end > 0; end--) {
        swap_keys(&keys[0], &keys[end]);
        keys_sift(keys, 0, end);
    }
}

/* Least significant byte first; a byte that all keys share costs a count and no move. */
static void keys_sort_radix(uint64_t *keys, int64_t count, uint64_t *spare) {
    uint64_t *from = keys, *to = spare;
    for (unsigned shift = 0; shift < 64; shift += 8) {
        int64_t starts[256] = {0};
        for (int64_t i = 0; i < count; i++) starts[from[i] >> shift & 255]++;
        if (starts[from[0] >> shift & 255] == count) continue;
        int64_t sum = 0;
        for (int byte = 255; byte >= 0; byte--) {
            int64_t size = starts[byte];
            starts[byte] = sum;
            sum += size;
        }
        for (int64_t i = 0; i < count; i++) to[starts[from[i] >> shift & 255]++] = from[i];
        uint64_t *kept = from;
        from = to;
        to = kept;
    }
    if (from != keys) memcpy(keys, from, (size_t)count * sizeof *keys);
}

void keys_sort(uint64_t *keys, int64_t count, uint64_t *spare) {
    if (count <= SORT_SHORT)
        keys_sort_insertion(keys, count);
    else if (spare)
        keys_sort_radix(keys, count, spare);
    else
        keys_sort_heap(keys, count);
}
