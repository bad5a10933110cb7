/* Memory between two pages that may not be touched, and the inputs on which kernels go wrong.
 *
 * A block ends at the page behind it, to the byte, or begins at the page before it; a kernel that reads or writes one
 * byte too many ends the test with a signal. */
#ifndef TEST_GUARDED_H
#define TEST_GUARDED_H

#include "base/dtype.h"

#include <stddef.h>

struct guarded {
    void *data; /* `bytes` bytes, filled with 0xAA */
    void *map;
    size_t map_bytes;
};
/* Where a block lies. */
enum place { PLACE_END, PLACE_START, PLACE_COUNT };

struct guarded guarded_take(size_t bytes, enum place place);
void guarded_give(struct guarded *block);

/* What vectors are made of. Every value is finite. */
enum adverse {
    ADVERSE_UNIT,     /* uniform in (-1, 1]; integers: all of the type's */
    ADVERSE_BITS,     /* any finite bits: overflow, infinity less infinity, cancellation */
    ADVERSE_DENORMAL, /* denormals and the smallest normal numbers */
    ADVERSE_HUGE,     /* the largest number, either sign */
    ADVERSE_ZERO,     /* zeros of both signs, a few ones of both signs */
    ADVERSE_EXTREME,  /* the type's largest in every place (255), -128 for int8 */
    ADVERSE_COUNT
};
/* `count` elements; the same for the same seed. */
void adverse_fill(enum adverse kind, enum vic_dtype dtype, uint64_t seed, int64_t count, void *target);

#endif
