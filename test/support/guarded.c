#include "support/guarded.h"

#include "base/rng.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct guarded guarded_take(size_t bytes, enum place place) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page;
    struct guarded block = {.map_bytes = inside + 2 * page};
    block.map = mmap(NULL, block.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block.map == MAP_FAILED) abort();
    char *first = (char *)block.map + page;
    if (inside && mprotect(first, inside, PROT_READ | PROT_WRITE) != 0) abort();
    block.data = place == PLACE_END ? first + inside - bytes : first;
    memset(block.data, 0xAA, bytes);
    return block;
}

void guarded_give(struct guarded *block) { (void)munmap(block->map, block->map_bytes); }

/* Bits of a float type with `exponent_bits` of `bits`: 1 sign, the exponent, the mantissa. */
struct layout {
    int bits, exponent_bits;
};

static uint32_t float_pattern(enum adverse kind, struct layout layout, uint32_t word) {
    int mantissa_bits = layout.bits - 1 - layout.exponent_bits;
    uint32_t sign = (word & 1u) << (layout.bits - 1), mantissa = (word >> 1) & ((1u << mantissa_bits) - 1);
    uint32_t infinity = ((1u << layout.exponent_bits) - 1) << mantissa_bits, word_high = word >> 24;
    switch (kind) {
    case ADVERSE_BITS: {
        uint32_t exponent = (word_high * 0x9E3779B9u >> 8) % ((1u << layout.exponent_bits) - 1);
        return sign | exponent << mantissa_bits | mantissa;
    }
    case ADVERSE_DENORMAL: return sign | (word_high & 1u) << mantissa_bits | mantissa;
    case ADVERSE_HUGE: return sign | (infinity - 1);
    case ADVERSE_ZERO: {
        uint32_t one = ((1u << (layout.exponent_bits - 1)) - 1) << mantissa_bits;
        return sign | (word_high < 8 ? one : 0);
    }
    default: return infinity - 1;
    }
}

static uint8_t byte_pattern(enum adverse kind, enum vic_dtype dtype, uint32_t word) {
    uint8_t lowest = dtype == VIC_I8 ? 0x80 : 0, highest = dtype == VIC_I8 ? 0x7f : 0xff;
    switch (kind) {
    case ADVERSE_DENORMAL: return (uint8_t)(dtype == VIC_I8 ? (word % 3) - 1 : word % 2);
    case ADVERSE_HUGE: return word & 1u ? lowest : highest;
    case ADVERSE_ZERO: return (uint8_t)(word % 64 == 0);
    case ADVERSE_EXTREME: return dtype == VIC_I8 ? lowest : highest;
    default: return (uint8_t)word;
    }
}

void adverse_fill(enum adverse kind, enum vic_dtype dtype, uint64_t seed, int64_t count, void *target) {
    static const struct layout layouts[] = {[VIC_F32] = {32, 8}, [VIC_F16] = {16, 5}, [VIC_BF16] = {16, 8}};
    for (int64_t i = 0; i < count; i++) {
        uint32_t word = philox_block(seed, (uint64_t)kind, (uint64_t)i / 4).words[i % 4];
        float unit = philox_unit(word) * 2 - 1;
        if (dtype_is_integer(dtype)) {
            ((uint8_t *)target)[i] = byte_pattern(kind, dtype, word);
        } else if (dtype == VIC_F32) {
            uint32_t bits = kind == ADVERSE_UNIT ? float_bits(unit) : float_pattern(kind, layouts[dtype], word);
            memcpy((char *)target + i * 4, &bits, 4);
        } else {
            uint16_t half = (uint16_t)float_pattern(kind, layouts[dtype], word);
            if (kind == ADVERSE_UNIT) half = dtype == VIC_F16 ? f16_from_float(unit) : bf16_from_float(unit);
            memcpy((char *)target + i * 2, &half, 2);
        }
    }
}
