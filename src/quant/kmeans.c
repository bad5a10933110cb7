/* k-means: seeds, rounds, and the order of every sum. Points of a centre are added in ascending order whoever adds them, so
 * parts of the work are centres there, and runs of points where each point's answer is its own. */
#include "quant/kmeans.h"
#include "base/rng.h"
#include "quant/nearest.h"

#include <math.h>
#include <string.h>

enum { SEEDS_LEAST = 8192, PART_POINTS = 512, PART_CENTRES = 8, SLICE = 64 };

struct run {
    const struct kmeans *task;
    struct thread_pool *pool;
    struct centres centres; /* in columns; count grows while seeds are drawn */
    float *values;          /* the columns, to be written */
    int32_t *nearest;       /* of each point */
    int32_t *before;        /* in the last round */
    uint32_t *order;        /* points by centre, ascending within */
    int64_t *start;         /* of each centre in `order`, and the end */
    double *apart;          /* a point's squared distance: from its seed, or for empty centres from its centre */
    float *seeds;           /* evenly spaced points, by element */
    float *seed_apart;      /* their squared distances from the last one that was drawn */
    int64_t seed_count;
};

static inline const float *point_at(const struct run *run, int64_t i) { return run->task->points + i * run->task->stride; }

static int64_t seeds_wanted(int64_t n, int64_t centres) {
    int64_t most = 2 * centres > SEEDS_LEAST ? 2 * centres : SEEDS_LEAST;
    return n < most ? n : most;
}

/* ---------------------------------------------------------------- seeds */

static int64_t seed_point(const struct run *run, int64_t seed) {
    return (int64_t)((unsigned __int128)seed * (uint64_t)run->task->n / (uint64_t)run->seed_count);
}

/* By element, as columns are. */
static void seeds_load(struct run *run) {
    for (int64_t s = 0; s < run->seed_count; s++) {
        const float *point = point_at(run, seed_point(run, s));
        for (int64_t d = 0; d < run->task->dim; d++) run->seeds[d * run->seed_count + s] = point[d];
        run->apart[s] = INFINITY;
    }
}

static void centre_put(struct run *run, int64_t centre, const float *point) {
    for (int64_t d = 0; d < run->task->dim; d++) run->values[d * run->centres.columns.stride + centre] = point[d];
}

/* Each point's squared distance from the nearest seed, now that `point` is one. In float32, whose order is fixed here: what
 * vanishes in it or overflows makes a worse seed, nothing else. */
static void seeds_approach(struct run *run, const float *point) {
    const struct columns columns = {run->seeds, run->task->dim, run->seed_count, run->seed_count};
    run->centres.kernels->l2(&columns, point, run->seed_apart);
    for (int64_t s = 0; s < run->seed_count; s++) {
        double apart = (double)run->seed_apart[s];
        run->apart[s] = apart < run->apart[s] ? apart : run->apart[s];
    }
}

/* The seed at which the running sum of squared distances passes a random share of them; -1 when all are 0. */
static int64_t seed_draw(const struct run *run, int64_t number) {
    struct philox random = philox_block(run->task->seed, run->task->stream, (uint64_t)number);
    double share = ((double)random.words[0] * 0x1p32 + (double)random.words[1]) * 0x1p-64, total = 0, passed = 0;
    int64_t last = -1;
    for (int64_t s = 0; s < run->seed_count; s++) total += run->apart[s];
    for (int64_t s = 0; s < run->seed_count; s++) {
        if (run->apart[s] == 0) continue;
        passed += run->apart[s];
        last = s;
        if (passed > share * total) break;
    }
    return last;
}

static void seeds_choose(struct run *run) {
    const struct kmeans *task = run->task;
    uint32_t first = philox_block(task->seed, task->stream, 0).words[2];
    int64_t seed = (int64_t)((uint64_t)first * (uint64_t)run->seed_count >> 32);
    seeds_load(run);
    for (int64_t c = 0; c < task->centres && seed >= 0; c++) {
        const float *point = point_at(run, seed_point(run, seed));
        centre_put(run, c, point);
        run->centres.columns.count = c + 1;
        seeds_approach(run, point);
        seed = c + 1 < task->centres ? seed_draw(run, c + 1) : -1;
    }
}

/* ---------------------------------------------------------------- rounds */

static int64_t part_end(int64_t part, int64_t each, int64_t n) { return (part + 1) * each < n ? (part + 1) * each : n; }
static int64_t parts_of(int64_t n, int64_t each) { return (n + each - 1) / each; }

static void assign_part(void *argument, int worker, int64_t part) {
    const struct run *run = argument;
    int64_t first = part * PART_POINTS, end = part_end(part, PART_POINTS, run->task->n);
    (void)worker;
    centres_nearest(&run->centres, point_at(run, first), run->task->stride, end - first, run->nearest + first);
}

static void apart_part(void *argument, int worker, int64_t part) {
    const struct run *run = argument;
    (void)worker;
    for (int64_t i = part * PART_POINTS; i < part_end(part, PART_POINTS, run->task->n); i++)
        run->apart[i] = centre_distance(&run->centres, run->nearest[i], point_at(run, i));
}

/* Points of each centre, into start[centre + 1]. */
static void points_count(const struct run *run) {
    memset(run->start, 0, ((size_t)run->task->centres + 1) * sizeof *run->start);
    for (int64_t i = 0; i < run->task->n; i++) run->start[run->nearest[i] + 1]++;
}

/* The farthest point that is neither on its centre nor its centre's only one; -1: there is none. */
static int64_t farthest_point(const struct run *run) {
    int64_t farthest = -1;
    for (int64_t i = 0; i < run->task->n; i++)
        if (run->apart[i] > (farthest < 0 ? 0 : run->apart[farthest]) && run->start[run->nearest[i] + 1] > 1) farthest = i;
    return farthest;
}

/* Gives every empty centre, also those that no seed was found for, a point of its own. */
static void empty_fill(struct run *run) {
    int64_t empty = 0;
    for (int64_t c = 0; c < run->task->centres; c++) empty += run->start[c + 1] == 0;
    if (empty == 0) return;
    (void)thread_pool_run(run->pool, parts_of(run->task->n, PART_POINTS), apart_part, run);
    for (int64_t c = 0; c < run->task->centres; c++) {
        if (run->start[c + 1] > 0) continue;
        int64_t point = farthest_point(run);
        if (point < 0) return;
        run->start[run->nearest[point] + 1]--;
        run->start[c + 1] = 1;
        run->nearest[point] = (int32_t)c;
        run->apart[point] = 0;
        if (c >= run->centres.columns.count) run->centres.columns.count = c + 1;
    }
}

static void points_order(const struct run *run) {
    for (int64_t c = 0; c < run->task->centres; c++) run->start[c + 1] += run->start[c];
    for (int64_t i = run->task->n - 1; i >= 0; i--) run->order[--run->start[run->nearest[i] + 1]] = (uint32_t)i;
    /* start[c + 1] is now where centre c begins. */
    memmove(run->start, run->start + 1, (size_t)run->task->centres * sizeof *run->start);
    run->start[run->task->centres] = run->task->n;
}

static void mean_part(void *argument, int worker, int64_t part) {
    const struct run *run = argument;
    int64_t stride = run->centres.columns.stride;
    (void)worker;
    for (int64_t c = part * PART_CENTRES; c < part_end(part, PART_CENTRES, run->centres.columns.count); c++) {
        int64_t begin = run->start[c], end = run->start[c + 1];
        for (int64_t first = 0; first < run->task->dim && begin < end; first += SLICE) {
            double sums[SLICE] = {0};
            int64_t count = run->task->dim - first < SLICE ? run->task->dim - first : SLICE;
            for (int64_t at = begin; at < end; at++) {
                const float *elements = point_at(run, run->order[at]) + first;
                for (int64_t d = 0; d < count; d++) sums[d] += (double)elements[d];
            }
            for (int64_t d = 0; d < count; d++)
                run->values[(first + d) * stride + c] = (float)(sums[d] / (double)(end - begin));
        }
    }
}

static enum vic_status rounds_run(struct run *run) {
    const struct kmeans *task = run->task;
    size_t nearest_bytes = (size_t)task->n * sizeof *run->nearest;
    enum vic_status status = VIC_OK;
    for (int64_t round = 0; round < task->rounds && status == VIC_OK; round++) {
        centres_measure(&run->centres);
        (void)thread_pool_run(run->pool, parts_of(task->n, PART_POINTS), assign_part, run);
        points_count(run);
        empty_fill(run);
        if (round > 0 && memcmp(run->before, run->nearest, nearest_bytes) == 0) break;
        memcpy(run->before, run->nearest, nearest_bytes);
        points_order(run);
        (void)thread_pool_run(run->pool, parts_of(run->centres.columns.count, PART_CENTRES), mean_part, run);
        if (task->progress) status = progress_step(task->progress, task->progress_base + round);
    }
    return status;
}

/* Centres that have points, in order. start is what points_order, or points_count and nothing else, left. */
static int64_t centres_take(const struct run *run, float *found) {
    int64_t count = 0;
    points_count(run);
    for (int64_t c = 0; c < run->centres.columns.count; c++) {
        if (run->start[c + 1] == 0) continue;
        for (int64_t d = 0; d < run->task->dim; d++)
            found[count * run->task->dim + d] = run->values[d * run->centres.columns.stride + c];
        count++;
    }
    return count;
}

/* ---------------------------------------------------------------- memory: one block, cut up */

struct piece {
    uint64_t count, bytes_each;
    uint64_t offset;
};
enum { VALUES, HALVES, NEAREST, BEFORE, ORDER, START, APART, SEEDS, SEED_APART, PIECES };

/* False where 64 bits do not hold the sum. */
static bool pieces_lay(int64_t n, int64_t dim, int64_t centres, struct piece pieces[PIECES], uint64_t *total) {
    uint64_t points = (uint64_t)n, elements = (uint64_t)dim, seeds = (uint64_t)seeds_wanted(n, centres);
    uint64_t stride = round_up((uint64_t)centres, COLUMNS_UNIT), values = 0, seed_values = 0;
    if (!checked_mul(elements, stride, &values) || !checked_mul(elements, seeds, &seed_values)) return false;
    pieces[VALUES] = (struct piece){values, sizeof(float), 0};
    pieces[HALVES] = (struct piece){stride, sizeof(float), 0};
    pieces[NEAREST] = pieces[BEFORE] = (struct piece){points, sizeof(int32_t), 0};
    pieces[ORDER] = (struct piece){points, sizeof(uint32_t), 0};
    pieces[START] = (struct piece){(uint64_t)centres + 1, sizeof(int64_t), 0};
    pieces[APART] = (struct piece){points, sizeof(double), 0};
    pieces[SEED_APART] = (struct piece){seeds, sizeof(float), 0};
    pieces[SEEDS] = (struct piece){seed_values, sizeof(float), 0};
    *total = 0;
    for (int p = 0; p < PIECES; p++) {
        uint64_t bytes = 0;
        pieces[p].offset = *total;
        if (!checked_mul(pieces[p].count, pieces[p].bytes_each, &bytes) || !checked_add(*total, round_up(bytes, 64), total))
            return false;
    }
    return true;
}

uint64_t kmeans_bytes(int64_t n, int64_t dim, int64_t centres) {
    struct piece pieces[PIECES];
    uint64_t total = 0;
    return pieces_lay(n, dim, centres, pieces, &total) ? total : UINT64_MAX;
}

enum vic_status kmeans_run(const struct kmeans *task, const struct column_kernels *kernels, struct thread_pool *pool,
                           struct mem *mem, float *found, int64_t *count) {
    struct piece pieces[PIECES];
    uint64_t total = 0;
    void *memory = NULL;
    *count = 0;
    if (task->n == 0) return VIC_OK;
    if (!pieces_lay(task->n, task->dim, task->centres, pieces, &total)) total = UINT64_MAX;
    enum vic_status status = mem_alloc(mem, total, "k-means", &memory);
    if (status != VIC_OK) return status;
    char *base = memory;
    struct run run = {.task = task,
                      .pool = pool,
                      .values = (float *)(base + pieces[VALUES].offset),
                      .nearest = (int32_t *)(base + pieces[NEAREST].offset),
                      .before = (int32_t *)(base + pieces[BEFORE].offset),
                      .order = (uint32_t *)(base + pieces[ORDER].offset),
                      .start = (int64_t *)(base + pieces[START].offset),
                      .apart = (double *)(base + pieces[APART].offset),
                      .seeds = (float *)(base + pieces[SEEDS].offset),
                      .seed_apart = (float *)(base + pieces[SEED_APART].offset),
                      .seed_count = seeds_wanted(task->n, task->centres)};
    run.centres =
        (struct centres){.columns = {run.values, task->dim, 0, (int64_t)round_up((uint64_t)task->centres, COLUMNS_UNIT)},
                         .halves = (float *)(base + pieces[HALVES].offset),
                         .kernels = kernels};
    memset(run.values, 0, (size_t)(pieces[VALUES].count * sizeof(float)));
    seeds_choose(&run);
    status = rounds_run(&run);
    if (status == VIC_OK) *count = centres_take(&run, found);
    mem_free(mem, memory, total);
    return status;
}
