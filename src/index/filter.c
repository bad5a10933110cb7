/* Filters from lists of ids. */
#include "index/filter.h"

#include <string.h>

enum vic_status filter_create(const struct vic_index *index, const int64_t *ids, int64_t count, bool exclude,
                              struct vic_filter **filter) {
    const struct rows *rows = &index->corpus.rows;
    uint64_t words = ((uint64_t)rows->n + 63) / 64, bytes = sizeof(struct vic_filter) + words * sizeof(uint64_t);
    void *memory = NULL;
    enum vic_status status = mem_alloc(&index->device->host, bytes, "the filter", &memory);
    if (status != VIC_OK) return status;
    struct vic_filter *made = memory;
    *made = (struct vic_filter){.index = index, .bits = (uint64_t *)(made + 1), .mem = &index->device->host, .bytes = bytes};
    memset(made->bits, 0, words * sizeof(uint64_t));
    for (int64_t i = 0; i < count; i++) {
        int64_t row = corpus_find(&index->corpus, ids[i]);
        if (row >= 0) made->bits[row >> 6] |= UINT64_C(1) << (row & 63);
    }
    for (uint64_t word = 0; word < words; word++) {
        if (exclude) made->bits[word] = ~made->bits[word];
        /* Bits past the last row stay clear, so that the count is right. */
        if (word == words - 1 && rows->n % 64) made->bits[word] &= (UINT64_C(1) << (rows->n % 64)) - 1;
        made->count += __builtin_popcountll(made->bits[word]);
    }
    *filter = made;
    return VIC_OK;
}

void filter_free(struct vic_filter *filter) {
    if (filter) mem_free(filter->mem, filter, filter->bytes);
}
