/* Large k: one key a row, then selection and sorting in linear time. One query at a time; the keys array is the
 * resident's, the second array that sorting by radix needs is the caller's own ids, which are written last. */
#include "backend/cpu/cpu.h"

struct select_job {
    struct scan scan;
    uint64_t *keys;
    int64_t part_rows;
    _Atomic int64_t dropped; /* rows that the filter kept out */
};

static void select_part(void *argument, int worker, int64_t part) {
    struct select_job *job = argument;
    const struct scan *scan = &job->scan;
    struct scratch *scratch = scan_scratch(scan, worker);
    int64_t n = scan->resident->rows.n, first = part * job->part_rows, dropped = 0;
    int64_t end = first + job->part_rows < n ? first + job->part_rows : n;
    scan_rows(scan, scratch, 0, first, end - first);
    for (int64_t row = first; row < end; row++) {
        bool passes = filter_passes(scan->filter, row);
        job->keys[row] = passes ? key_make(scratch->scores[row - first], (uint32_t)row, scan->smaller_better) : KEY_NONE;
        dropped += !passes;
    }
    if (dropped) atomic_fetch_add(&job->dropped, dropped);
}

void select_search(struct resident *resident, struct workspace *workspace, const struct search_call *call,
                   const struct vic_hits *hits) {
    const struct rows *rows = &resident->rows;
    select_claim(resident);
    struct select_job job = {
        .scan = scan_start(resident, workspace, call), .keys = resident->select_keys, .part_rows = resident->layout.chunk_rows};
    int64_t parts = (rows->n + job.part_rows - 1) / job.part_rows;
    for (int64_t j = 0; j < call->queries->rows; j++) {
        queries_prepare(resident, workspace, call->queries, j, 1, false);
        atomic_store(&job.dropped, 0);
        int threads = thread_pool_run(resident->backend->pool, parts, select_part, &job);
        if (threads > call->stats->threads) call->stats->threads = threads;
        int64_t found = rows->n - atomic_load(&job.dropped); /* dropped rows have the smallest key and are never chosen */
        if (found > call->k) found = call->k;
        keys_select(job.keys, rows->n, found);
        keys_sort(job.keys, found, (uint64_t *)(hits->ids + j * call->k));
        hits_write(rows, hits, j, call->k, job.keys, found);
    }
    select_release(resident);
    call->stats->rows_scored += call->queries->rows * rows->n;
    call->stats->bytes_read += call->queries->rows * rows->n * rows->dim * (int64_t)vic_dtype_bytes(rows->dtype);
}
