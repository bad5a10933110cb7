/* MEM-04: memory that runs out at every single request, in everything that takes memory; and searches, which take none.
 *
 * An operation is one row of a table: it makes something, frees it, and is repeated with its first, second, third ...
 * request refused until none is. Each time it must say VIC_NO_MEMORY with a sentence, keep no block, leave no file, and the
 * index that was there before must give its earlier bytes. Two allocators refuse: the C library's (support/failing.h, not
 * under sanitizers) and the device's hooks (support/counting.h, everywhere, so leaks are also seen by LeakSanitizer). */
#include "support/counting.h"
#include "support/failing.h"
#include "support/oracle.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

enum { N = 600, DIM = 40, NQ = 9, K = 5 };

/* What the operations work on: an index that stays, and the inputs of those that come and go. */
struct world {
    struct counting counting;
    struct vic_device *device;
    struct vic_index *index;
    float rows[N * DIM], queries[NQ * DIM];
    int64_t ids[N];
    char texts[N];
    int64_t offsets[N + 1];
    char folder[64], index_path[96], other_path[96], matrix_path[96], graph_path[96];
    int64_t expected_ids[NQ * K];
    float expected_scores[NQ * K];
};

static struct vic_matrix world_rows(struct world *world) { return matrix_of(world->rows, N, DIM, VIC_F32); }
static struct vic_matrix world_queries(struct world *world) { return matrix_of(world->queries, NQ, DIM, VIC_F32); }

/* Everything that a row can have, and ids that have to be sorted. */
static struct vic_build_options world_options(struct world *world, struct vic_texts *texts) {
    *texts = (struct vic_texts){.bytes = world->texts, .offsets = world->offsets, .count = N};
    return (struct vic_build_options){.size = sizeof(struct vic_build_options),
                                      .metric = VIC_COSINE,
                                      .dtype = VIC_F16,
                                      .ids = world->ids,
                                      .texts = texts,
                                      .metadata = "{\"name\": \"world\", \"list\": [1, 2, 3]}"};
}

static int files_in(const char *folder) {
    int count = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

/* ---------------------------------------------------------------- operations */

static enum vic_status open_device(struct world *world) {
    struct vic_device_options options = {.size = sizeof options, .name = "cpu", .threads = 1};
    options.allocator = counting_allocator(&world->counting);
    struct vic_device *device = NULL;
    enum vic_status status = vic_device_open(&options, &device);
    vic_device_free(device);
    return status;
}

static enum vic_status build(struct world *world) {
    struct vic_texts texts;
    struct vic_build_options options = world_options(world, &texts);
    struct vic_matrix rows = world_rows(world);
    struct vic_index *index = NULL;
    enum vic_status status = vic_index_build(world->device, &rows, &options, &index);
    vic_index_free(index);
    return status;
}

static enum vic_status build_into_file(struct world *world) {
    struct vic_texts texts;
    struct vic_build_options options = world_options(world, &texts);
    options.path = world->other_path;
    struct vic_index *index = NULL;
    enum vic_status status = vic_index_build_file(world->device, world->matrix_path, &options, &index);
    vic_index_free(index);
    (void)unlink(world->other_path); /* also there when opening what had become a whole file failed */
    return status;
}

static enum vic_status open_path(struct world *world, const char *path) {
    struct vic_open_options options = {.size = sizeof options, .check = 1};
    struct vic_index *index = NULL;
    enum vic_status status = vic_index_open(world->device, path, &options, &index);
    vic_index_free(index);
    return status;
}
static enum vic_status open_file(struct world *world) { return open_path(world, world->index_path); }

/* A graph over the same rows as whole numbers, whose codes are made in memory, and product codes, into the file of graphs. */
static enum vic_status build_graph(struct world *world) {
    const struct vic_graph_options graph = {.size = sizeof graph, .degree = 6, .beam = 8, .force = 1, .pq_chunks = 4};
    const struct vic_build_options options = {
        .size = sizeof options, .metric = VIC_L2, .dtype = VIC_I8, .graph = &graph, .path = world->graph_path};
    struct vic_matrix rows = world_rows(world);
    float whole[N * DIM];
    for (int64_t i = 0; i < N * DIM; i++) whole[i] = (float)(int)(world->rows[i] * 100);
    rows.data = whole;
    struct vic_index *index = NULL;
    enum vic_status status = vic_index_build(world->device, &rows, &options, &index);
    vic_index_free(index);
    return status;
}
static enum vic_status open_graph(struct world *world) { return open_path(world, world->graph_path); }

/* What was saved without an error must be whole: opening it is part of the operation. */
static enum vic_status save(struct world *world) {
    enum vic_status status = vic_index_save(world->index, world->other_path, NULL);
    if (status != VIC_OK) return status;
    struct vic_open_options options = {.size = sizeof options, .check = 1};
    struct vic_index *index = NULL;
    status = vic_index_open(world->device, world->other_path, &options, &index);
    vic_index_free(index);
    (void)unlink(world->other_path);
    return status;
}

static enum vic_status check(struct world *world) { return vic_index_check(world->index, NULL); }

static enum vic_status make_filter(struct world *world) {
    struct vic_filter *filter = NULL;
    enum vic_status status = vic_filter_create(world->index, world->ids, N / 2, NULL, &filter);
    vic_filter_free(filter);
    return status;
}

static enum vic_status read_matrix(struct world *world) {
    struct vic_matrix matrix = {0};
    enum vic_status status = vic_matrix_read(world->matrix_path, NULL, &matrix);
    vic_matrix_free(&matrix);
    return status;
}

static enum vic_status write_matrix(struct world *world) {
    struct vic_matrix rows = world_rows(world);
    enum vic_status status = vic_matrix_write(
        world->other_path, &rows, &(struct vic_writer_options){.size = sizeof(struct vic_writer_options), .format = "npy"});
    if (status == VIC_OK) (void)unlink(world->other_path);
    return status;
}

static enum vic_status describe_file(struct world *world) {
    struct vic_file_info info = {.size = sizeof info};
    enum vic_status status = vic_file_info(world->index_path, &info);
    return status == VIC_OK && (strcmp(info.format, "vicinal") != 0 || info.rows != N) ? VIC_INTERNAL : status;
}

struct operation {
    const char *name;
    enum vic_status (*run)(struct world *world);
    bool device;  /* takes memory of the device's hooks */
    int optional; /* mallocs it can do without: fopen's for the processor's name, qsort's (it then sorts in place), and
                   * that of a probe for a kind of file that this is not */
};
static const struct operation operations[] = {
    {"vic_device_open", open_device, true, 2},
    {"vic_index_build", build, true, 1},
    {"vic_index_build_file", build_into_file, true, 1},
    {"vic_index_build with a graph", build_graph, true, 0},
    {"vic_index_open", open_file, true, 0},
    {"vic_index_open of a graph", open_graph, true, 0},
    {"vic_index_save", save, true, 0},
    {"vic_index_check", check, false, 0},
    {"vic_filter_create", make_filter, true, 0},
    {"vic_matrix_read", read_matrix, false, 0},
    {"vic_matrix_write", write_matrix, false, 0},
    {"vic_file_info", describe_file, false, 1},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* ---------------------------------------------------------------- the world */

static void search(struct world *world, int64_t *ids, float *scores) {
    struct vic_matrix queries = world_queries(world);
    struct vic_hits hits = {.ids = ids, .scores = scores};
    must(vic_index_search(world->index, &queries, K, NULL, &hits));
}

static void must_search_as_before(struct world *world) {
    int64_t ids[NQ * K];
    float scores[NQ * K];
    search(world, ids, scores);
    assert_memory_equal(ids, world->expected_ids, sizeof ids);
    assert_memory_equal(scores, world->expected_scores, sizeof scores);
}

static int world_make(void **state) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    struct random random = {7};
    random_fill(&random, VALUES_UNIT, VIC_F32, N * DIM, world->rows);
    random_fill(&random, VALUES_UNIT, VIC_F32, NQ * DIM, world->queries);
    for (int64_t i = 0; i < N; i++) world->ids[i] = (i * 7) % N + 100; /* 7 and N have no common divisor */
    memset(world->texts, 't', sizeof world->texts);
    for (int64_t i = 0; i <= N; i++) world->offsets[i] = i;
    (void)snprintf(world->folder, sizeof world->folder, "/tmp/vicinal-allocation-XXXXXX");
    assert_non_null(mkdtemp(world->folder));
    (void)snprintf(world->index_path, sizeof world->index_path, "%s/index.vic", world->folder);
    (void)snprintf(world->other_path, sizeof world->other_path, "%s/other", world->folder);
    (void)snprintf(world->graph_path, sizeof world->graph_path, "%s/graph.vic", world->folder);
    (void)snprintf(world->matrix_path, sizeof world->matrix_path, "%s/rows.fbin", world->folder);

    world->device = device_within(0, 2, &world->counting);
    struct vic_texts texts;
    struct vic_build_options build_options = world_options(world, &texts);
    struct vic_matrix rows = world_rows(world);
    must(vic_index_build(world->device, &rows, &build_options, &world->index));
    must(vic_index_save(world->index, world->index_path, NULL));
    must(vic_matrix_write(world->matrix_path, &rows, NULL));
    must(build_graph(world));
    search(world, world->expected_ids, world->expected_scores);
    *state = world;
    return 0;
}

static int world_free(void **state) {
    struct world *world = *state;
    vic_index_free(world->index);
    vic_device_free(world->device);
    assert_int_equal(world->counting.live_blocks, 0);
    assert_int_equal(world->counting.live_bytes, 0);
    assert_int_equal(world->counting.misaligned, 0);
    (void)unlink(world->index_path);
    (void)unlink(world->matrix_path);
    (void)unlink(world->graph_path);
    assert_int_equal(rmdir(world->folder), 0); /* nothing else was left in it */
    free(world);
    return 0;
}

/* ---------------------------------------------------------------- tests */

static void must_have_failed(const struct operation *operation, int64_t n, enum vic_status status) {
    if (status != VIC_NO_MEMORY)
        fail_msg("%s with request %lld refused: expected VIC_NO_MEMORY, found %s (%s)", operation->name, (long long)n,
                 vic_status_name(status), vic_last_error());
    if (!strstr(vic_last_error(), "memory") && !strstr(vic_last_error(), "bytes"))
        fail_msg("%s with request %lld refused says \"%s\"", operation->name, (long long)n, vic_last_error());
}

static void MEM_04_nth_malloc_refused_is_an_error_and_nothing_is_lost(void **state) {
    struct world *world = *state;
    if (!failing_available()) skip();
    for (int i = 0; i < OPERATIONS; i++) {
        const struct operation *operation = &operations[i];
        must(operation->run(world)); /* what the C library allocates once and keeps */
        int files = files_in(world->folder);
        int64_t n = 1;
        for (int absorbed = 0;; n++) {
            failing_start(n);
            enum vic_status status = operation->run(world);
            struct failing_counts counts = failing_stop();
            if (counts.kept != 0)
                fail_msg("%s with malloc %lld refused keeps %lld blocks", operation->name, (long long)n,
                         (long long)counts.kept);
            if (files_in(world->folder) != files)
                fail_msg("%s with malloc %lld refused leaves a file", operation->name, (long long)n);
            if (counts.refused == 0) {
                must(status);
                break;
            }
            if (status != VIC_OK || ++absorbed > operation->optional) must_have_failed(operation, n, status);
            must_search_as_before(world);
        }
        if (n == 1) fail_msg("%s was expected to need memory", operation->name);
    }
}

static void MEM_04_nth_device_allocation_refused_is_an_error_and_nothing_is_lost(void **state) {
    struct world *world = *state;
    struct counting *counting = &world->counting;
    for (int i = 0; i < OPERATIONS; i++) {
        const struct operation *operation = &operations[i];
        if (!operation->device) continue;
        int64_t blocks = counting->live_blocks, bytes = counting->live_bytes, n = 1;
        for (;; n++) {
            int64_t refused = counting->refused;
            counting->fail_at = counting->requests + n;
            enum vic_status status = operation->run(world);
            counting->fail_at = 0;
            if (counting->live_blocks != blocks || counting->live_bytes != bytes)
                fail_msg("%s with request %lld refused keeps %lld blocks, %lld bytes", operation->name, (long long)n,
                         (long long)(counting->live_blocks - blocks), (long long)(counting->live_bytes - bytes));
            if (counting->refused == refused) {
                must(status);
                break;
            }
            must_have_failed(operation, n, status);
            must_search_as_before(world);
        }
        if (n == 1) fail_msg("%s was expected to need memory of the device", operation->name);
    }
}

/* Each form of question once more than once, while both allocators count. */
static void ask_everything(struct world *world, const struct vic_filter *filter) {
    static int64_t ids[NQ * N], offsets[NQ + 1];
    static float scores[NQ * N];
    static int32_t counts[NQ];
    struct vic_hits hits = {.ids = ids, .scores = scores, .counts = counts};
    struct vic_matrix queries = world_queries(world);
    struct vic_search_options filtered = {.size = sizeof filtered, .filter = filter};
    for (int64_t nq = 1; nq <= NQ; nq += NQ - 1) {
        queries.rows = nq;
        for (int64_t k = 1; k <= N; k = k * 6 + 1) {
            must(vic_index_search(world->index, &queries, k, NULL, &hits));
            must(vic_index_search(world->index, &queries, k, &filtered, &hits));
        }
        for (enum vic_path path = VIC_PATH_SCAN; path <= VIC_PATH_SELECT; path++) {
            struct vic_search_options options = {.size = sizeof options, .path = path};
            must(vic_index_search(world->index, &queries, N, &options, &hits));
        }
        must(vic_index_within(world->index, &queries, 0.1f, NULL, &(struct vic_ranges){offsets, ids, scores, NQ * N}));
        must(vic_index_score(world->index, &queries, world->ids, 3, NULL, scores));
    }
}

static void search_path_allocates_nothing(void **state) {
    struct world *world = *state;
    struct vic_filter *filter = NULL;
    must(vic_filter_create(world->index, world->ids, N / 2, NULL, &filter));
    ask_everything(world, filter);
    int64_t requests = world->counting.requests;
    failing_start(0);
    ask_everything(world, filter);
    struct failing_counts counts = failing_stop();
    assert_int_equal(world->counting.requests, requests);
    assert_int_equal(counts.calls, 0);
    vic_filter_free(filter);
}

/* The watch itself: without it the two tests above could not fail. */
static void watch_sees_malloc_and_refuses_the_nth(void **state) {
    (void)state;
    if (!failing_available()) skip();
    failing_start(3);
    char *volatile first = malloc(10);
    char *volatile second = calloc(2, 10);
    char *volatile third = aligned_alloc(64, 64);
    struct failing_counts counts = failing_look();
    free(first);
    second = realloc(second, 100000);
    char *volatile copy = strdup("a copy that the C library allocates");
    struct failing_counts end = failing_stop();
    assert_true(first && second && !third && copy);
    assert_int_equal(counts.calls, 3);
    assert_int_equal(counts.refused, 1);
    assert_int_equal(counts.kept, 2);
    assert_int_equal(end.calls, 5);
    assert_int_equal(end.kept, 2);
    free(second);
    free(copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watch_sees_malloc_and_refuses_the_nth),
        cmocka_unit_test(search_path_allocates_nothing),
        cmocka_unit_test(MEM_04_nth_malloc_refused_is_an_error_and_nothing_is_lost),
        cmocka_unit_test(MEM_04_nth_device_allocation_refused_is_an_error_and_nothing_is_lost),
    };
    return cmocka_run_group_tests(tests, world_make, world_free);
}
