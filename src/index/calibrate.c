/* What work costs on this machine, measured on rows made for it: a scan, a search through each plane, scores of rows that
 * lie anywhere, and a search on planes of next to nothing.
 *
 * The fastest of several turns counts, since what else the machine does only ever adds. The surprising rule: every turn asks
 * something else, and the scans between them push the rows of the last turn out of the caches. */
#include "index/calibration.h"

#include "base/clock.h"
#include "base/rng.h"
#include "quant/quantizer.h"

enum {
    ROWS = 65536, /* of 1,536 bytes: 96 MiB, more than a core's share of any cache */
    ROWS_FEW = 1024,
    DIM = 384,
    CENTRES = 64, /* rows lie around these, so that planes decide */
    SCORED = 4096,
    TURNS_MOST = 32,
    TURNS_LEAST = 3
};
static const double seconds_most = 1.6; /* after which no other turn begins */

/* Since a reading of the clock. */
static double seconds_since(int64_t start_ns) { return 1e-9 * (double)(now_ns() - start_ns); }

struct bench {
    struct vic_device *device;
    struct corpus corpus;
    struct resident *all, *few;
    uint32_t wanted[SCORED];
    float scores[SCORED];
    /* Seconds of the fastest turn, and what it had to score. */
    double scan, plane[PLANE_COUNT], few_plane, score;
    int64_t rescored[PLANE_COUNT];
};

static void row_fill(void *argument, int worker, int64_t i) {
    float *row = (float *)argument + i * DIM;
    (void)worker;
    for (int64_t j = 0; j < DIM; j += 4) {
        struct philox centre = philox_block(1, (uint64_t)(i % CENTRES), (uint64_t)j);
        struct philox noise = philox_block(2, (uint64_t)i, (uint64_t)j);
        for (int at = 0; at < 4; at++)
            row[j + at] = philox_unit(centre.words[at]) - 0.5f + 0.3f * (philox_unit(noise.words[at]) - 0.5f);
    }
}

static enum vic_status bench_open(struct vic_device *device, struct bench *bench) {
    struct corpus *corpus = &bench->corpus;
    enum vic_status status = VIC_OK;
    bench->device = device;
    TRY(corpus_alloc(&device->host, ROWS, DIM, VIC_F32, VIC_DOT, false, corpus));
    (void)thread_pool_run(device->host_ops->pool(device->host_backend), ROWS, row_fill, corpus->own_rows);
    TRY(planes_alloc(corpus, DIM, VIC_PLANES_8 | VIC_PLANES_4));
    TRY(planes_code(device, corpus, &corpus->rows, 0, NULL));
    TRY(device->host_ops->attach(device->host_backend, &corpus->rows, NULL, NULL, &bench->all));
    struct rows few = corpus->rows;
    few.n = ROWS_FEW;
    TRY(device->host_ops->attach(device->host_backend, &few, NULL, NULL, &bench->few));
done:
    return status;
}

static void bench_close(struct bench *bench) {
    if (bench->few) bench->device->host_ops->detach(bench->few);
    if (bench->all) bench->device->host_ops->detach(bench->all);
    corpus_free(&bench->corpus);
}

/* One question about row `row`; *best falls to its time where planes that were wanted decided. */
static enum vic_status ask(struct bench *bench, struct resident *resident, int64_t row, enum vic_path path,
                           enum plane_kind kind, double *best, int64_t *rescored) {
    int64_t id = 0;
    struct vic_search_stats stats = {.size = sizeof stats};
    struct vic_matrix query = {(float *)bench->corpus.own_rows + row * DIM, 1, DIM, DIM * sizeof(float), VIC_F32, VIC_HOST};
    struct search_call call = {.queries = &query, .k = 1, .path = path, .plane = kind, .stats = &stats, .left_most = {1, 1}};
    struct vic_hits hits = {.ids = &id};
    int64_t start_ns = now_ns();
    enum vic_status status = bench->device->host_ops->search(resident, &call, &hits);
    double seconds = seconds_since(start_ns);
    if (stats.fallbacks == 0 && seconds < *best) *best = seconds, *rescored = stats.rows_rescored;
    return status;
}

struct scored_rows {
    struct row_source source;
    const uint32_t *rows;
};
static enum vic_status scored_take(const struct row_source *source, int64_t first, int64_t count, uint32_t *rows) {
    memcpy(rows, ((const struct scored_rows *)(const void *)source)->rows + first, (size_t)count * sizeof *rows);
    return VIC_OK;
}

static enum vic_status score_some(struct bench *bench, uint64_t turn) {
    struct vic_search_stats stats = {.size = sizeof stats};
    struct vic_matrix query = {bench->corpus.own_rows, 1, DIM, DIM * sizeof(float), VIC_F32, VIC_HOST};
    struct search_call call = {.queries = &query, .k = SCORED, .stats = &stats};
    for (int64_t i = 0; i < SCORED; i++) bench->wanted[i] = philox_block(3, turn, (uint64_t)i).words[0] % ROWS;
    struct scored_rows wanted = {{scored_take}, bench->wanted};
    int64_t start_ns = now_ns();
    enum vic_status status = bench->device->host_ops->score(bench->all, &call, &wanted.source, bench->scores);
    double seconds = seconds_since(start_ns);
    if (seconds < bench->score) bench->score = seconds;
    return status;
}

static enum vic_status bench_turn(struct bench *bench, int64_t turn) {
    int64_t row = turn * 1009 % ROWS, ignored = 0;
    enum vic_status status = VIC_OK;
    TRY(ask(bench, bench->all, row, VIC_PATH_SCAN, PLANE_8, &bench->scan, &ignored));
    TRY(score_some(bench, (uint64_t)turn));
    for (int kind = 0; kind < PLANE_COUNT; kind++)
        TRY(ask(bench, bench->all, row, VIC_PATH_CERTIFIED, (enum plane_kind)kind, &bench->plane[kind],
                &bench->rescored[kind]));
    TRY(ask(bench, bench->few, row % ROWS_FEW, VIC_PATH_CERTIFIED, PLANE_8, &bench->few_plane, &ignored));
done:
    return status;
}

/* Times to costs; a number that no machine could have stays what it was. */
static struct costs costs_of(const struct bench *bench) {
    struct costs costs = costs_builtin, tried = costs_builtin;
    double row_s = bench->scan / (double)ROWS;
    tried.scan_bytes_s = DIM * sizeof(float) / row_s;
    tried.rescore_cost = bench->score / (double)SCORED / row_s;
    tried.handover_us = bench->few_plane * 1e6;
    for (int kind = 0; kind < PLANE_COUNT; kind++) {
        double pass = bench->plane[kind] - bench->few_plane - (double)bench->rescored[kind] * tried.rescore_cost * row_s;
        tried.plane_bytes_s[kind] = (double)plane_stride((enum plane_kind)kind, DIM) * (double)ROWS / pass;
    }
    double *const targets[] = {&costs.scan_bytes_s, &costs.rescore_cost, &costs.handover_us, &costs.plane_bytes_s[PLANE_8],
                               &costs.plane_bytes_s[PLANE_4]};
    const double values[] = {tried.scan_bytes_s, tried.rescore_cost, tried.handover_us, tried.plane_bytes_s[PLANE_8],
                             tried.plane_bytes_s[PLANE_4]};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        double before = *targets[i];
        *targets[i] = values[i];
        if (!costs_sane(&costs)) *targets[i] = before;
    }
    return costs;
}

enum vic_status calibration_measure(struct vic_device *device, double *seconds) {
    struct bench *bench = NULL;
    void *memory = NULL;
    int64_t start_ns = now_ns();
    enum vic_status status = mem_alloc(&device->host, sizeof *bench, "measuring", &memory);
    if (status != VIC_OK) return status;
    bench = memory;
    *bench = (struct bench){.scan = 1e9, .plane = {1e9, 1e9}, .few_plane = 1e9, .score = 1e9};
    TRY(bench_open(device, bench));
    for (int64_t turn = 0; turn < TURNS_MOST && (turn < TURNS_LEAST || seconds_since(start_ns) < seconds_most); turn++)
        TRY(bench_turn(bench, turn));
    device->costs = costs_of(bench);
done:
    bench_close(bench);
    mem_free(&device->host, bench, sizeof *bench);
    *seconds = seconds_since(start_ns);
    return status;
}
