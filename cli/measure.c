/* Measuring: see measure.h. */
#include "measure.h"
#include "input.h"
#include "term.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- threads */

struct piece {
    pthread_t thread;
    void (*work)(void *context, int64_t first, int64_t count);
    void *context;
    int64_t first, count;
};

static void *piece_run(void *argument) {
    struct piece *piece = argument;
    piece->work(piece->context, piece->first, piece->count);
    return NULL;
}

bool threads_run(int threads, int64_t total, void (*work)(void *context, int64_t first, int64_t count), void *context) {
    int started = 0;
    struct piece *pieces = memory_take((uint64_t)threads, sizeof *pieces);
    for (; pieces && started < threads; started++) {
        int64_t first = total / threads * started, end = started == threads - 1 ? total : total / threads * (started + 1);
        pieces[started] = (struct piece){.work = work, .context = context, .first = first, .count = end - first};
        if (pthread_create(&pieces[started].thread, NULL, piece_run, &pieces[started]) != 0) break;
    }
    bool all = pieces && started == threads;
    if (pieces && !all) say("%d threads could not be started", threads);
    while (started > 0) (void)pthread_join(pieces[--started].thread, NULL);
    free(pieces);
    return all;
}

/* ---- the roof */

/* Words added side by side, so that the adds are never what is waited for, and how far ahead lines are asked for: worth
 * 5 % on the machine where it was measured (AMD EPYC, 2 threads, 48 to 51 GB/s). */
enum { LANES = 32, LINE = 8, AHEAD = 256 };

struct read_job {
    const uint64_t *words;
    int rounds;
    uint64_t sum; /* of one thread; kept so that no read can be left out */
};

static void read_piece(void *context, int64_t first, int64_t count) {
    struct read_job *job = context;
    uint64_t lanes[LANES] = {0}, sum = 0;
    for (int round = 0; round < job->rounds; round++)
        for (int64_t i = first; i + LANES <= first + count; i += LANES) {
            for (int j = 0; j < LANES; j += LINE) __builtin_prefetch(job->words + i + AHEAD + j);
            for (int j = 0; j < LANES; j++) lanes[j] += job->words[i + j];
        }
    for (int j = 0; j < LANES; j++) sum += lanes[j];
    (void)__atomic_fetch_add(&job->sum, sum, __ATOMIC_RELAXED);
}

/* Each thread reads its own piece over and over, so that starting the threads costs nothing against the reading. The best
 * of five, because a roof is what can be reached. Above 1 GiB the size no longer matters. */
double plain_read_gbps(int threads, uint64_t bytes) {
    const uint64_t most = UINT64_C(1) << 30, at_once = UINT64_C(1) << 31;
    if (bytes > most) bytes = most;
    if (bytes < 65536) bytes = 65536;
    double best = 0;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        say("%s to measure a plain read could not be had", show_bytes(bytes));
        return 0;
    }
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    memset(memory, 1, bytes);
    struct read_job job = {.words = memory, .rounds = (int)(at_once / bytes)};
    for (int repeat = 0; repeat < 5; repeat++) {
        double began = seconds_now();
        if (!threads_run(threads, (int64_t)(bytes / sizeof(uint64_t)), read_piece, &job)) break;
        double gbps = (double)bytes * job.rounds / (seconds_now() - began) * 1e-9;
        if (gbps > best) best = gbps;
    }
    (void)munmap(memory, bytes);
    return best;
}

/* ---- names */

const char *path_name(enum vic_path path) {
    switch (path) {
    case VIC_PATH_SCAN: return "scan";
    case VIC_PATH_SELECT: return "select";
    case VIC_PATH_CERTIFIED: return "certified";
    case VIC_PATH_GRAPH: return "graph";
    }
    return "?";
}

const char *codes_name(enum vic_codes codes) {
    static const char *const names[] = {"auto", "rows", "8", "4", "pq"};
    return codes < sizeof names / sizeof *names ? names[codes] : "?";
}

/* ---- percentiles */

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sort_doubles(double *values, int64_t count) { qsort(values, (size_t)count, sizeof *values, compare_doubles); }

double percentile(const double *sorted, int64_t count, double share) {
    int64_t place = (int64_t)ceil(share * (double)count) - 1;
    return count == 0 ? 0 : sorted[place < 0 ? 0 : place >= count ? count - 1 : place];
}
