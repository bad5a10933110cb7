/* What every lanes header begins with. A lanes header gives one instruction set's registers the names that kernel_scan.h,
 * kernel_tile.h, kernel_exact.h, kernel_plane.h and kernel_columns.h are written in, so that each algorithm exists once:
 *
 *   floats   LANES float32: zero, load (converting from any stored type), load_some (no byte past the last element is
 *            read), broadcast, store, add, sub, mul, fma; min, max, pick_less (a < b ? less : other), none of them for NaN;
 *            transpose: lane j of register i to lane i of register j
 *   words    LANES integers modulo 2^32: zero, load, broadcast, store, add, sub; round: to the nearest float32; pinned:
 *            the same in a register of its own (gcc 12 else copies each sum of an exact tile at each step: 740 GOPS for
 *            1,040 with VNNI, 100 for 220 with AVX2)
 *   shorts   the same register as 16-bit integers: load (widening 8-bit elements), broadcast, add, sub; step: sum + pairs
 *            of products
 *
 * Where a loop's counter indexes registers and gcc leaves the loop as it is, the array lives in memory: those loops have a
 * pragma.
 *
 * A new instruction set is a lanes header, a file with its table, and a row in pick.c. */
#ifndef CPU_LANES_H
#define CPU_LANES_H

#include "backend/cpu/kernels.h"

/* The bodies become kernels by inlining them with constant arguments: a type, an operation. */
#define INLINE static inline __attribute__((always_inline))

/* Bytes that a stream is fetched ahead of its use. Hardware prefetch stops at the end of a page and starts late on the
 * next; this does not. Fetching past the end of an array is harmless. */
enum { AHEAD = 4096 };
INLINE void fetch_ahead(const void *address) { __builtin_prefetch((const char *)address + AHEAD); }

/* Rows that lie anywhere: row i of `which` (NULL: row i itself). Four rows ahead, of each at most a page. */
enum { GATHER_AHEAD = 4 };
INLINE const char *row_at(const void *rows, const uint32_t *which, int64_t i, int64_t row_bytes) {
    return (const char *)rows + (which ? (int64_t)which[i] : i) * row_bytes;
}
INLINE void row_fetch(const void *rows, const uint32_t *which, int64_t i, int64_t n, int64_t row_bytes) {
    if (!which || i >= n) return;
    const char *row = row_at(rows, which, i, row_bytes);
    for (int64_t byte = 0; byte < row_bytes && byte < AHEAD; byte += 64) __builtin_prefetch(row + byte);
}

#endif
