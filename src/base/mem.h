/* Memory with an owner: every lasting allocation goes through a `struct mem`, which counts it, holds it to a budget and
 * passes it to the caller's hooks if there are any.
 *
 * The surprising rule: mem_free needs the size again. Owners know their sizes, so no header is kept before a block and
 * blocks stay aligned for the vector units and for huge pages. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mem {
    struct vic_allocator hooks; /* all zero: the C library's */
    uint64_t budget;            /* bytes; UINT64_MAX: none */
    _Atomic uint64_t used, peak;
    const char *budget_name; /* for sentences: "host_bytes" */
};

/* The C library's memory without a budget, for files and readers that belong to no device. */
extern struct mem mem_default;

/* `bytes` aligned to 64 (to 2 MiB, with huge pages asked for, from 4 MiB up and without hooks). Zero bytes give a valid
 * non-NULL block. `what` names the purpose in the sentence. VIC_NO_MEMORY, or VIC_BUDGET naming both numbers. */
enum vic_status mem_alloc(struct mem *mem, uint64_t bytes, const char *what, void **memory);
/* The same for count * bytes_each, overflow checked. */
enum vic_status mem_alloc_array(struct mem *mem, uint64_t count, uint64_t bytes_each, const char *what, void **memory);
/* NULL is accepted. `bytes` as it was asked for. */
void mem_free(struct mem *mem, void *memory, uint64_t bytes);
/* Whether `bytes` more would fit, with the sentence that mem_alloc would give; allocates nothing. */
enum vic_status mem_check(const struct mem *mem, uint64_t bytes, const char *what);

/* False on overflow; the result is then not written. */
static inline bool checked_mul(uint64_t a, uint64_t b, uint64_t *product) { return !__builtin_mul_overflow(a, b, product); }
static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *sum) { return !__builtin_add_overflow(a, b, sum); }
/* Smallest multiple of `unit` (a power of two) not below `bytes`; saturates instead of wrapping. */
static inline uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return bytes > UINT64_MAX - (unit - 1) ? UINT64_MAX & ~(unit - 1) : (bytes + unit - 1) & ~(unit - 1);
}

#endif
