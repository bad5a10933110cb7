/* One hash over what the library answers: fixed rows and queries, every type and metric, one query and many, few hits and
 * all of them, ids and score bits; and one over graphs: the bytes of their files and what short walks find. Compiled at every
 * optimisation level by every compiler (test/tree/hash.sh), it must print the same line, since equal bits are the promise.
 *
 * The data are small whole numbers over powers of two and a few extremes, made by integer arithmetic, so that no compiler
 * and no C library can give other inputs. */
#include "vicinal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { ROWS = 700, QUERIES = 19, LONGEST = 300 };

struct shape {
    int64_t dim;
    enum vic_dtype dtype;
};
/* Around the chunk of 128 and the block of 16 dimensions, and a long one. */
static const struct shape shapes[] = {{1, VIC_F32},   {15, VIC_F16}, {16, VIC_BF16}, {127, VIC_F32}, {128, VIC_I8},
                                      {129, VIC_F16}, {200, VIC_U8}, {300, VIC_F32}, {33, VIC_I8},   {260, VIC_BF16}};

static float rows[ROWS * LONGEST], queries[QUERIES * LONGEST], scores[QUERIES * ROWS];
static unsigned char own_queries[QUERIES * LONGEST];
static int64_t ids[QUERIES * ROWS];

static uint32_t state = 1;
static int32_t next_whole(int32_t from, int32_t to) {
    state = state * 1664525u + 1013904223u;
    return from + (int32_t)((state >> 8) % (uint32_t)(to - from + 1));
}

/* Whole numbers for the integer types, else values with 7 bits of mantissa over a wide range: exact in all of ours. */
static void fill(float *values, int64_t count, enum vic_dtype dtype) {
    for (int64_t i = 0; i < count; i++) {
        if (dtype == VIC_I8 || dtype == VIC_U8)
            values[i] = (float)next_whole(dtype == VIC_I8 ? -128 : 0, dtype == VIC_I8 ? 127 : 255);
        else
            values[i] = (float)next_whole(-127, 127) / (float)(1 << next_whole(0, 9));
    }
}

static void must(enum vic_status status) {
    if (status == VIC_OK) return;
    (void)fprintf(stderr, "%s\n", vic_last_error());
    exit(1);
}

static void search(XXH3_state_t *hash, const struct vic_index *index, const struct vic_matrix *asked, int64_t k) {
    struct vic_hits hits = {.ids = ids, .scores = scores};
    must(vic_index_search(index, asked, k, NULL, &hits));
    XXH3_64bits_update(hash, ids, (size_t)(asked->rows * k) * sizeof *ids);
    XXH3_64bits_update(hash, scores, (size_t)(asked->rows * k) * sizeof *scores);
}

static void file_hash(XXH3_state_t *hash, const char *path) {
    static unsigned char bytes[65536];
    FILE *file = fopen(path, "rb");
    size_t count = 0;
    if (!file) exit(1);
    while ((count = fread(bytes, 1, sizeof bytes, file)) > 0) XXH3_64bits_update(hash, bytes, count);
    (void)fclose(file);
}

/* A graph over the rows as they are now, and walks that do not find everything. */
static void graph(XXH3_state_t *hash, struct vic_device *device, const struct vic_matrix *given, struct shape shape,
                  enum vic_metric metric, const char *path) {
    const struct vic_graph_options form = {.size = sizeof form, .degree = 9, .beam = 16, .force = 1};
    const struct vic_build_options options = {
        .size = sizeof options, .metric = metric, .dtype = shape.dtype, .graph = &form, .path = path};
    struct vic_index *index = NULL;
    must(vic_index_build(device, given, &options, &index));
    file_hash(hash, path);
    struct vic_matrix asked = {.data = queries, .rows = QUERIES, .dim = shape.dim};
    struct vic_hits hits = {.ids = ids, .scores = scores};
    for (int32_t parents = 1; parents <= 3; parents += 2) {
        const struct vic_search_options walk = {.size = sizeof walk, .beam = 12, .parents = parents};
        must(vic_index_search(index, &asked, 10, &walk, &hits));
        XXH3_64bits_update(hash, ids, (size_t)QUERIES * 10 * sizeof *ids);
        XXH3_64bits_update(hash, scores, (size_t)QUERIES * 10 * sizeof *scores);
    }
    vic_index_free(index);
}

static void answer(XXH3_state_t *hash, XXH3_state_t *graphs, struct vic_device *device, struct shape shape,
                   enum vic_metric metric, const char *path) {
    fill(rows, ROWS * shape.dim, shape.dtype);
    fill(queries, QUERIES * shape.dim, shape.dtype);
    memset(rows + 5 * shape.dim, 0, (size_t)shape.dim * sizeof *rows);                       /* no direction */
    memcpy(rows + 9 * shape.dim, rows + 400 * shape.dim, (size_t)shape.dim * sizeof *rows);  /* a tie */
    if (shape.dtype == VIC_F32) rows[11 * shape.dim] = 1e38f, rows[12 * shape.dim] = 1e-42f; /* the ends of the range */

    struct vic_matrix given = {.data = rows, .rows = ROWS, .dim = shape.dim};
    struct vic_build_options options = {.size = sizeof options, .metric = metric, .dtype = shape.dtype};
    struct vic_index *index = NULL;
    must(vic_index_build(device, &given, &options, &index));

    struct vic_matrix asked = {.data = queries, .rows = 1, .dim = shape.dim};
    search(hash, index, &asked, 10);
    asked.rows = QUERIES;
    search(hash, index, &asked, 7);
    search(hash, index, &asked, ROWS);
    if (shape.dtype == VIC_I8 || shape.dtype == VIC_U8) {
        for (int64_t i = 0; i < QUERIES * shape.dim; i++) own_queries[i] = (unsigned char)(int)queries[i];
        asked.data = own_queries, asked.dtype = shape.dtype;
        search(hash, index, &asked, 33);
    }
    vic_index_free(index);
    graph(graphs, device, &given, shape, metric, path);
}

int main(void) {
    struct vic_device_options options = {.size = sizeof options, .name = "cpu", .threads = 2};
    struct vic_device *device = NULL;
    enum vic_status status = vic_device_open(&options, &device);
    if (status == VIC_UNAVAILABLE) return 77; /* VICINAL_KERNELS names kernels that this processor cannot run */
    must(status);
    char path[] = "/tmp/vicinal-hash-XXXXXX";
    int file = mkstemp(path);
    XXH3_state_t *hash = XXH3_createState(), *graphs = XXH3_createState();
    if (file < 0 || !hash || !graphs) return 1;
    (void)XXH3_64bits_reset(hash);
    (void)XXH3_64bits_reset(graphs);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (enum vic_metric metric = VIC_DOT; metric <= VIC_L2; metric++)
            answer(hash, graphs, device, shapes[i], metric, path);
    (void)printf("%016llx %016llx\n", (unsigned long long)XXH3_64bits_digest(hash),
                 (unsigned long long)XXH3_64bits_digest(graphs));
    (void)XXH3_freeState(hash);
    (void)XXH3_freeState(graphs);
    (void)close(file);
    (void)unlink(path);
    vic_device_free(device);
    return 0;
}
