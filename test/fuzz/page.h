/* The first page of a container, by the numbers of docs/format.md: a fuzzer does not guess checksums, so they are made right,
 * as a hostile writer would. */
#ifndef FUZZ_PAGE_H
#define FUZZ_PAGE_H

#include <stdint.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { PAGE = 4096, COUNT = 40, FILE_BYTES = 32, ENTRIES = 64, ENTRY = 64, OFFSET = 24, BYTES = 32, CHECKSUM = 40, SUM = 4088 };

static inline uint64_t word_get(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}
static inline void word_set(uint8_t *at, uint64_t word) { memcpy(at, &word, sizeof word); }

/* Magic, size and every checksum that lies inside made right. */
static inline void seal(uint8_t *bytes, size_t size) {
    if (size < PAGE) return;
    memcpy(bytes, "VICINAL\n\1\0\0\0\4\3\2\1", 16);
    word_set(bytes + FILE_BYTES, size);
    for (uint8_t i = 0; i < 32 && i < bytes[COUNT]; i++) {
        uint8_t *entry = bytes + ENTRIES + ENTRY * i;
        uint64_t offset = word_get(entry + OFFSET), length = word_get(entry + BYTES);
        if (offset <= size && length <= size - offset) word_set(entry + CHECKSUM, XXH3_64bits(bytes + offset, (size_t)length));
    }
    word_set(bytes + SUM, XXH3_64bits(bytes, SUM));
}

#endif
