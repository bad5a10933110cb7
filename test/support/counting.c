/* The counting allocator: aligned_alloc and free below, counters above. */
#include "support/counting.h"

#include <stdlib.h>
#include <string.h>

static void *counting_allocate(void *user, size_t bytes, size_t alignment) {
    struct counting *counting = user;
    int64_t request = atomic_fetch_add(&counting->requests, 1) + 1;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) atomic_fetch_add(&counting->misaligned, 1);
    void *memory = request == counting->fail_at ? NULL : aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
    if (!memory) {
        atomic_fetch_add(&counting->refused, 1);
        return NULL;
    }
    memset(memory, 0xA5, bytes); /* nobody may rely on zeros */
    atomic_fetch_add(&counting->live_blocks, 1);
    int64_t live = atomic_fetch_add(&counting->live_bytes, (int64_t)bytes) + (int64_t)bytes;
    int64_t peak = atomic_load(&counting->peak_bytes);
    while (live > peak && !atomic_compare_exchange_weak(&counting->peak_bytes, &peak, live)) {
    }
    return memory;
}

static void counting_release(void *user, void *memory, size_t bytes) {
    struct counting *counting = user;
    atomic_fetch_sub(&counting->live_blocks, 1);
    atomic_fetch_sub(&counting->live_bytes, (int64_t)bytes);
    free(memory);
}

struct vic_allocator counting_allocator(struct counting *counting) {
    return (struct vic_allocator){.allocate = counting_allocate, .release = counting_release, .user = counting};
}
