/* The counted allocator. */
#include "base/mem.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { MEM_ALIGNMENT = 64 };
static const uint64_t huge_page_bytes = UINT64_C(2) << 20;

struct mem mem_default = {.budget = UINT64_MAX, .budget_name = "host_bytes"};

static enum vic_status budget_fail(const struct mem *mem, uint64_t bytes, uint64_t used, const char *what) {
    return status_fail(VIC_BUDGET, "%s needs %llu bytes but the budget %s is %llu bytes, of which %llu are in use", what,
                       (unsigned long long)bytes, mem->budget_name, (unsigned long long)mem->budget, (unsigned long long)used);
}

enum vic_status mem_check(const struct mem *mem, uint64_t bytes, const char *what) {
    uint64_t used = atomic_load(&mem->used);
    return bytes > mem->budget || used > mem->budget - bytes ? budget_fail(mem, bytes, used, what) : VIC_OK;
}

/* Takes the bytes out of the budget before the memory is had: two threads that both fit alone must not both be let in. */
static enum vic_status mem_reserve(struct mem *mem, uint64_t bytes, const char *what, uint64_t *held) {
    uint64_t used = atomic_load(&mem->used);
    do {
        if (bytes > mem->budget || used > mem->budget - bytes) return budget_fail(mem, bytes, used, what);
    } while (!atomic_compare_exchange_weak(&mem->used, &used, used + bytes));
    *held = used + bytes;
    return VIC_OK;
}

static void mem_note_peak(struct mem *mem, uint64_t used) {
    uint64_t peak = atomic_load(&mem->peak);
    while (used > peak && !atomic_compare_exchange_weak(&mem->peak, &peak, used)) {
    }
}

static void *mem_from_libc(uint64_t bytes) {
    bool large = bytes >= 2 * huge_page_bytes;
    uint64_t alignment = large ? huge_page_bytes : MEM_ALIGNMENT;
    void *memory = aligned_alloc((size_t)alignment, (size_t)round_up(bytes ? bytes : 1, alignment));
    /* A scan touches every page of the rows once a query: with 4-KiB pages the page walks cost a tenth of the bandwidth. */
    if (memory && large) (void)madvise(memory, (size_t)bytes, MADV_HUGEPAGE);
    return memory;
}

enum vic_status mem_alloc(struct mem *mem, uint64_t bytes, const char *what, void **memory) {
    uint64_t held = 0;
    enum vic_status status = mem_reserve(mem, bytes, what, &held);
    if (status != VIC_OK) return status;
    void *block = NULL;
    if (bytes < (uint64_t)PTRDIFF_MAX - 2 * huge_page_bytes) {
        size_t asked = (size_t)(bytes ? bytes : 1);
        block = mem->hooks.allocate ? mem->hooks.allocate(mem->hooks.user, asked, MEM_ALIGNMENT) : mem_from_libc(bytes);
    }
    if (!block) {
        atomic_fetch_sub(&mem->used, bytes);
        return status_fail(VIC_NO_MEMORY, "%s needs %llu bytes and the system has no more", what, (unsigned long long)bytes);
    }
    mem_note_peak(mem, held);
    *memory = block;
    return VIC_OK;
}

enum vic_status mem_alloc_array(struct mem *mem, uint64_t count, uint64_t bytes_each, const char *what, void **memory) {
    uint64_t bytes = 0;
    if (!checked_mul(count, bytes_each, &bytes))
        return status_fail(VIC_NO_MEMORY, "%s needs %llu times %llu bytes, more than can be addressed", what,
                           (unsigned long long)count, (unsigned long long)bytes_each);
    return mem_alloc(mem, bytes, what, memory);
}

void mem_free(struct mem *mem, void *memory, uint64_t bytes) {
    if (!memory) return;
    atomic_fetch_sub(&mem->used, bytes);
    if (mem->hooks.release)
        mem->hooks.release(mem->hooks.user, memory, (size_t)(bytes ? bytes : 1));
    else
        free(memory);
}
