/* The judge of a graph: every slot names another row, each once, with none after an unused one; every row is reached. */
#include "index/vamana.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool has_edge(const struct graph *graph, int64_t from, uint32_t to) {
    const uint32_t *slots = graph_row(graph, from);
    for (int64_t i = 0; i < graph->degree && slots[i] != slot_unused; i++)
        if (slots[i] == to) return true;
    return false;
}

static int32_t compare_slots(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Where a row's first repeat lies, or -1. */
static int64_t repeat_find(const uint32_t *slots, int64_t used) {
    uint32_t sorted[GRAPH_DEGREE_MAX];
    bool repeats = false;
    memcpy(sorted, slots, (size_t)used * sizeof *slots);
    qsort(sorted, (size_t)used, sizeof *sorted, compare_slots);
    for (int64_t i = 1; i < used; i++) repeats |= sorted[i] == sorted[i - 1];
    for (int64_t i = 1; repeats && i < used; i++)
        for (int64_t j = 0; j < i; j++)
            if (slots[i] == slots[j]) return i;
    return -1;
}

static enum vic_status row_check(const struct graph *graph, int64_t row, const char *where, struct graph_report *report) {
    const uint32_t *slots = graph_row(graph, row);
    int64_t used = slots_used(slots, graph->degree);
    for (int64_t i = 0; i < graph->degree; i++) {
        if (i >= used && slots[i] != slot_unused)
            return status_fail(VIC_FORMAT,
                               "%s: section graph: expected no neighbour after an unused slot, found %" PRIu32
                               " in row %" PRId64 ", slot %" PRId64,
                               where, slots[i], row, i);
        if (i < used && (slots[i] >= graph->n || slots[i] == row))
            return status_fail(VIC_FORMAT,
                               "%s: section graph: expected another row below %" PRId64 ", found %" PRIu32 " in row %" PRId64
                               ", slot %" PRId64,
                               where, graph->n, slots[i], row, i);
    }
    int64_t repeat = repeat_find(slots, used);
    if (repeat >= 0)
        return status_fail(VIC_FORMAT,
                           "%s: section graph: expected each neighbour once, found %" PRIu32 " again in row %" PRId64
                           ", slot %" PRId64,
                           where, slots[repeat], row, repeat);
    report->histogram[used]++;
    report->edges += used;
    if (report->rows == 0 || used < report->least_degree) report->least_degree = used;
    if (used > report->most_degree) report->most_degree = used;
    report->rows++;
    return VIC_OK;
}

static enum vic_status entries_check(const struct graph *graph, const char *where) {
    if (graph->entry_count == 0 && graph->n > 0)
        return status_fail(VIC_FORMAT, "%s: section entry: expected an entry point, found none", where);
    for (int64_t i = 0; i < graph->entry_count; i++)
        if (graph->entries[i] >= graph->n)
            return status_fail(VIC_FORMAT, "%s: section entry: expected rows below %" PRId64 ", found %" PRIu32 " at %" PRId64,
                               where, graph->n, graph->entries[i], i);
    return VIC_OK;
}

/* From all entry points; the first row that is not reached, or -1. */
static int64_t unreached_find(const struct graph *graph, uint32_t *queue, uint64_t *marks, struct graph_report *report) {
    int64_t count = 0;
    for (int64_t i = 0; i < graph->entry_count; i++) {
        uint32_t row = graph->entries[i];
        if (marks[row >> 6] >> (row & 63) & 1) continue;
        marks[row >> 6] |= UINT64_C(1) << (row & 63);
        queue[count++] = row;
    }
    report->unreached = graph->n - graph_reach(graph, queue, count, marks);
    for (int64_t row = 0; report->unreached && row < graph->n; row++)
        if (!(marks[row >> 6] >> (row & 63) & 1)) return row;
    return -1;
}

enum vic_status graph_check(const struct graph *graph, struct mem *mem, const char *where, struct graph_report *wanted) {
    struct graph_report own, *report = wanted ? wanted : &own;
    uint64_t n = (uint64_t)graph->n, marks_bytes = (n + 63) / 64 * sizeof(uint64_t);
    void *queue = NULL, *marks = NULL;
    enum vic_status status = VIC_OK;
    *report = (struct graph_report){0};
    TRY(entries_check(graph, where));
    for (int64_t row = 0; row < graph->n; row++) TRY(row_check(graph, row, where, report));
    for (int64_t row = 0; wanted && row < graph->n; row++) {
        const uint32_t *slots = graph_row(graph, row);
        for (int64_t i = 0, used = slots_used(slots, graph->degree); i < used; i++)
            report->symmetric += has_edge(graph, slots[i], (uint32_t)row);
    }
    TRY(mem_alloc_array(mem, n, sizeof(uint32_t), "rows to go on from", &queue));
    TRY(mem_alloc(mem, marks_bytes, "marks of reached rows", &marks));
    memset(marks, 0, (size_t)marks_bytes);
    int64_t lost = unreached_find(graph, queue, marks, report);
    if (lost >= 0)
        status = status_fail(VIC_FORMAT,
                             "%s: section graph: expected every row to be reached from the entry points, found row %" PRId64
                             " and %" PRId64 " others that are not",
                             where, lost, report->unreached - 1);
done:
    mem_free(mem, marks, marks_bytes);
    mem_free(mem, queue, n * sizeof(uint32_t));
    return status;
}
