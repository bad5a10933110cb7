/* Which kernels run: the list of tables, and their merge for this processor.
 *
 * A table fills the slots where it is better than the ones before it; a slot that it leaves NULL keeps what is there. The
 * file is compiled for the plainest processor, and so are the questions about the processor: nothing that was compiled
 * for a wider one runs before the answer. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/processor.h"

#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <cpuid.h>

bool processor_has_avx2(void) {
    /* clang 14 does not know "f16c". That the system saves the registers is part of the answer about AVX2. */
    unsigned a = 0, b = 0, c = 0, d = 0;
    bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
bool processor_has_avx512(void) {
    return processor_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
bool processor_has_avx512vnni(void) { return processor_has_avx512() && __builtin_cpu_supports("avx512vnni"); }
#endif

const struct kernels *const kernels_list[] = {
    &kernels_scalar,
#if defined(__x86_64__)
    &kernels_avx2,
    &kernels_avx512,
    &kernels_avx512vnni,
#endif
    NULL,
};

#define TAKE(slot)                                                                                                             \
    if (table->slot) merged->slot = table->slot

static void kernels_overlay(struct kernels *merged, const struct kernels *table) {
    for (int type = 0; type < DTYPE_COUNT; type++) {
        for (int op = 0; op < OP_COUNT; op++) {
            TAKE(scan[type][op]);
            TAKE(scan_exact[type][op]);
            TAKE(gather[type][op]);
            TAKE(gather_exact[type][op]);
            TAKE(tile[type][op]);
            TAKE(tile_exact[type][op]);
        }
        TAKE(to_float[type]);
        TAKE(from_float[type]);
        TAKE(first_not_finite[type]);
    }
    TAKE(cosine);
    TAKE(replace_nan);
    TAKE(above);
    TAKE(largest);
    TAKE(planes);
    for (int kind = 0; kind < PLANE_COUNT; kind++) TAKE(sums[kind]);
    TAKE(columns);
}

/* A table whose name goes on from the one before is its extension: "avx512", then "avx512vnni", is "avx512+vnni". */
static void kernels_describe(const char *before, const char *last, char *name) {
    size_t shared = strlen(before);
    if (strncmp(last, before, shared) == 0 && last[shared])
        (void)snprintf(name, 64, "%s+%s", before, last + shared);
    else
        (void)snprintf(name, 64, "%s", last);
}

/* The position of a table by its name; NULL: the last that this processor can run. -1: there is none. */
static int kernels_find(const char *last) {
    int found = -1;
    for (int i = 0; kernels_list[i]; i++)
        if (last ? strcmp(kernels_list[i]->name, last) == 0 : kernels_list[i]->available()) found = i;
    return found;
}

enum vic_status kernels_merge(const char *last, struct kernels *merged, char *name) {
    int end = kernels_find(last);
    if (end < 0) {
        char known[64] = "";
        for (int i = 0; kernels_list[i]; i++)
            (void)snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", kernels_list[i]->name);
        return status_fail(VIC_ARGUMENT, "expected the name of a kernel table (%s), found \"%.40s\"", known, last);
    }
    if (!kernels_list[end]->available())
        return status_fail(VIC_UNAVAILABLE, "expected a processor that runs the \"%s\" kernels, found one that does not",
                           kernels_list[end]->name);
    *merged = kernels_scalar;
    const char *before = "scalar";
    kernels_describe(before, before, name);
    for (int i = 1; i <= end; i++) {
        if (!kernels_list[i]->available()) continue;
        kernels_overlay(merged, kernels_list[i]);
        kernels_describe(before, kernels_list[i]->name, name);
        merged->name = before = kernels_list[i]->name;
    }
    return VIC_OK;
}

enum vic_status kernels_pick(struct kernels *merged, char *name) {
    const char *forced = getenv("VICINAL_KERNELS");
    return kernels_merge(forced && *forced ? forced : NULL, merged, name);
}
