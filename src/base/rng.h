/* Philox 4x32-10, counter-based random numbers (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
 *
 * Word i of stream s under a seed is a pure function of the three: data can be made in any order by any number of
 * threads and has the same bytes. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct philox {
    uint32_t words[4];
};

/* Block `counter` of stream `stream` under `seed`. */
static inline struct philox philox_block(uint64_t seed, uint64_t stream, uint64_t counter) {
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return (struct philox){{c0, c1, c2, c3}};
}

/* Uniform in (0, 1], 24 bits: never zero, so its logarithm is finite. */
static inline float philox_unit(uint32_t word) { return (float)((word >> 8) + 1) * 0x1p-24f; }

#endif
