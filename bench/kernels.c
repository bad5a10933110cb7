/* Every kernel of every table, timed alone on one thread: JSON lines on stdout.
 *
 *   scan, scan_exact   rows far beyond the caches (GB/s, and the share of a plain read of the same bytes), rows inside them
 *   tile, tile_exact   256 queries against one packed tile; GFLOPS (GOPS for integers), and the share of what this core's
 *                      multiply-add units give in a loop of nothing else
 *   pack               rows into a tile, GB/s of what is written
 *
 * The best of several rounds is printed: what the code can do, not what the machine was busy with. */
#include "backend/cpu/kernels.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A kernel call with its arguments; timed, the best of `rounds` rounds of `repeats` calls, in seconds a call. */
struct call {
    scan_kernel *scan;
    const struct tile_kernel *tile;
    bool pack;
    const void *rows, *query;
    int64_t n, nq, dim;
    float *scores;
    void *packed_rows, *packed_queries;
};
static void call_make(const struct call *c) {
    if (c->scan)
        c->scan(c->rows, c->n, c->dim, c->query, c->scores);
    else if (c->pack)
        c->tile->pack_rows(c->rows, c->n, c->dim, c->packed_rows);
    else
        c->tile->run(c->packed_rows, c->packed_queries, c->nq, c->dim, c->scores, c->tile->row_tile);
}
static double call_time(const struct call *c, int rounds, int repeats) {
    double best = 1e9;
    for (int round = 0; round < rounds; round++) {
        double start = seconds();
        for (int i = 0; i < repeats; i++) call_make(c);
        double took = (seconds() - start) / repeats;
        if (took < best) best = took;
    }
    return best;
}

/* ---------------------------------------------------------------- what the machine gives */

typedef uint64_t wide __attribute__((vector_size(64)));

/* A plain read, fetched ahead like the kernels do, in seconds. */
static double read_time(const void *memory, int64_t bytes) {
    const wide *from = memory;
    double start = seconds();
    wide a = {0}, b = {0}, c = {0}, d = {0};
    for (int64_t i = 0; i + 4 <= bytes / 64; i += 4) {
        for (int line = 0; line < 4; line++) __builtin_prefetch(from + i + line + 32);
        a |= from[i], b |= from[i + 1], c |= from[i + 2], d |= from[i + 3];
    }
    a |= b | c | d;
    __asm__ volatile("" ::"r"(a[0]));
    return seconds() - start;
}

/* Multiply-adds of a table's own width and nothing else: twelve chains, so that latency is covered. */
#if defined(__x86_64__)
enum { CHAINS = 12, PEAK_STEPS = 200000 };
#define PEAK_LOOP(name, body)                                                                                                  \
    static void name(void) {                                                                                                   \
        __asm__ volatile(".irp n,0,1,2,3,4,5,6,7,8,9,10,11,14,15\n\tvpxor %%ymm\\n, %%ymm\\n, %%ymm\\n\n\t.endr" ::            \
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",        \
                               "xmm11", "xmm14", "xmm15");                                                                     \
        for (int s = 0; s < PEAK_STEPS; s++)                                                                                   \
            __asm__ volatile(".irp n,0,1,2,3,4,5,6,7,8,9,10,11\n\t" body "\n\t.endr" ::                                        \
                                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",    \
                                   "xmm11", "xmm14", "xmm15");                                                                 \
    }
PEAK_LOOP(peak_avx2, "vfmadd231ps %%ymm15, %%ymm15, %%ymm\\n")
PEAK_LOOP(peak_avx2_exact, "vpmaddwd %%ymm15, %%ymm15, %%ymm14\n\tvpaddd %%ymm14, %%ymm\\n, %%ymm\\n")
PEAK_LOOP(peak_avx512, "vfmadd231ps %%zmm15, %%zmm15, %%zmm\\n")
PEAK_LOOP(peak_avx512vnni_exact, "vpdpbusd %%zmm15, %%zmm15, %%zmm\\n")
static const struct peak {
    const char *table;
    bool exact;
    int operations; /* of one step of a chain, multiplications and additions */
    void (*loop)(void);
} peaks[] = {
    {"avx2", false, 16, peak_avx2},
    {"avx2", true, 32, peak_avx2_exact},
    {"avx512", false, 32, peak_avx512},
    {"avx512vnni", true, 128, peak_avx512vnni_exact},
};
/* In GFLOPS or GOPS; 0: there is no such loop here. */
static double peak_gops(const char *table, bool exact) {
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++) {
        if (strcmp(peaks[i].table, table) != 0 || peaks[i].exact != exact) continue;
        double best = 1e9;
        for (int round = 0; round < 50; round++) {
            double start = seconds();
            peaks[i].loop();
            double took = seconds() - start;
            if (took < best) best = took;
        }
        return (double)PEAK_STEPS * (double)CHAINS * peaks[i].operations / best * 1e-9;
    }
    return 0;
}
#else
static double peak_gops(const char *table, bool exact) { return (void)table, (void)exact, 0; }
#endif

/* ---------------------------------------------------------------- the report */

static void line_print(const struct kernels *table, const char *slot, int dtype, int op, int64_t n, int64_t nq, int64_t dim,
                       const char *unit, double rate, double roof) {
    (void)printf("{\"bench\": \"kernels\", \"table\": \"%s\", \"slot\": \"%s\", \"type\": \"%s\", \"op\": \"%s\", \"n\": %lld, "
                 "\"nq\": %lld, \"dim\": %lld, \"%s\": %.2f",
                 table->name, slot, vic_dtype_name((enum vic_dtype)dtype), op == OP_DOT ? "dot" : "l2", (long long)n,
                 (long long)nq, (long long)dim, unit, rate);
    if (roof > 0) (void)printf(", \"share\": %.3f", rate / roof);
    (void)puts("}");
    (void)fflush(stdout);
}

struct room {
    char *rows; /* `bytes` random bytes that are small numbers in every type */
    void *query, *scores, *packed_rows, *packed_queries;
    int64_t bytes;
};

/* Rows that fill the room, turn by turn with a plain read of the same bytes, or the first 4 MiB of it. */
static void scans_time(const struct kernels *table, const struct room *room, int64_t dim, int64_t bytes) {
    bool far = bytes == room->bytes, slow = table == &kernels_scalar;
    for (int exact = 0; exact < 2; exact++)
        for (int dtype = VIC_F32; dtype < DTYPE_COUNT; dtype++)
            for (int op = 0; op < OP_COUNT; op++) {
                scan_kernel *scan = exact ? table->scan_exact[dtype][op] : table->scan[dtype][op];
                if (!scan || (far && slow)) continue;
                int64_t row_bytes = dim * (int64_t)vic_dtype_bytes((enum vic_dtype)dtype), n = bytes / row_bytes;
                struct call call = {
                    .scan = scan, .rows = room->rows, .n = n, .dim = dim, .query = room->query, .scores = room->scores};
                double best = 1e9, plain = 1e9;
                for (int round = 0; round < (slow ? 1 : 15); round++) {
                    double read = far ? read_time(room->rows, bytes) : 1e9, took = call_time(&call, 1, far || slow ? 1 : 5);
                    if (read < plain) plain = read;
                    if (took < best) best = took;
                }
                line_print(table, exact ? "scan_exact" : "scan", dtype, op, n, 1, dim, "gb_s",
                           (double)(n * row_bytes) / best * 1e-9, far ? (double)bytes / plain * 1e-9 : 0);
            }
}

static void tiles_time(const struct kernels *table, const struct room *room, int64_t dim, int64_t nq, const double roofs[2]) {
    for (int exact = 0; exact < 2; exact++)
        for (int dtype = VIC_F32; dtype < DTYPE_COUNT; dtype++)
            for (int op = 0; op < OP_COUNT; op++) {
                const struct tile_kernel *tile = exact ? table->tile_exact[dtype][op] : table->tile[dtype][op];
                if (!tile) continue;
                int64_t group_bytes = tile->query_group_bytes(dim), query_bytes = dim * (exact ? 1 : 4);
                for (int64_t q = 0; q < nq; q += tile->query_tile)
                    tile->pack_queries(room->rows + q * query_bytes, nq - q < tile->query_tile ? nq - q : tile->query_tile, dim,
                                       (char *)room->packed_queries + q / tile->query_tile * group_bytes);
                struct call call = {.tile = tile,
                                    .pack = true,
                                    .rows = room->rows,
                                    .n = tile->row_tile,
                                    .nq = nq,
                                    .dim = dim,
                                    .scores = room->scores,
                                    .packed_rows = room->packed_rows,
                                    .packed_queries = room->packed_queries};
                bool slow = table == &kernels_scalar;
                double packing = call_time(&call, slow ? 1 : 20, 10);
                line_print(table, exact ? "pack_exact" : "pack", dtype, op, call.n, nq, dim, "gb_s",
                           (double)tile->row_tile_bytes(dim) / packing * 1e-9, 0);
                call.pack = false;
                double running = call_time(&call, slow ? 1 : 20, slow ? 1 : 10);
                line_print(table, exact ? "tile_exact" : "tile", dtype, op, call.n, nq, dim, "gops",
                           2.0 * (double)(tile->row_tile * nq * dim) / running * 1e-9, roofs[exact]);
            }
}

int main(void) {
    enum { NQ = 256, DIM_LARGEST = 1024 };
    struct room room = {.bytes = INT64_C(180) << 20};
    void *rows = NULL;
    if (mem_alloc(&mem_default, (uint64_t)room.bytes, "rows", &rows) != VIC_OK ||
        mem_alloc(&mem_default, DIM_LARGEST * 4, "query", &room.query) != VIC_OK ||
        mem_alloc(&mem_default, (uint64_t)room.bytes / 16 + NQ * 4096, "scores", &room.scores) != VIC_OK ||
        mem_alloc(&mem_default, 64 * (DIM_LARGEST + 64) * 4, "tile", &room.packed_rows) != VIC_OK ||
        mem_alloc(&mem_default, 2 * NQ * (DIM_LARGEST + 64) * 4, "queries", &room.packed_queries) != VIC_OK) {
        (void)fprintf(stderr, "bench_kernels: %s\n", vic_last_error());
        return 1;
    }
    room.rows = rows;
    /* 0x3c.. and 0x3d.. are small normal numbers as float32, as bfloat16 and as float16 */
    for (int64_t i = 0; i < room.bytes / 16; i++) {
        struct philox random = philox_block(1, 2, (uint64_t)i);
        for (int w = 0; w < 4; w++) random.words[w] = (random.words[w] & 0x01ff01ffu) | 0x3c003c00u;
        memcpy(room.rows + i * 16, random.words, 16);
    }
    memcpy(room.query, room.rows, DIM_LARGEST * 4);
    const int64_t cached = INT64_C(4) << 20;
    for (int t = 0; kernels_list[t]; t++) {
        const struct kernels *table = kernels_list[t];
        if (!table->available()) continue;
        double roofs[2] = {peak_gops(table->name, false), peak_gops(table->name, true)};
        (void)printf("{\"bench\": \"kernels\", \"table\": \"%s\", \"peak_gflops\": %.1f, \"peak_gops\": %.1f}\n", table->name,
                     roofs[0], roofs[1]);
        scans_time(table, &room, 384, room.bytes);
        scans_time(table, &room, 384, cached);
        scans_time(table, &room, 100, cached);
        tiles_time(table, &room, 384, NQ, roofs);
        tiles_time(table, &room, 128, NQ, roofs);
    }
    return 0;
}
