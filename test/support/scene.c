/* Drawing situations, and telling which one failed. */
#include "support/scene.h"

#include "backend/cpu/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

const enum vic_dtype type_pairs[TYPE_PAIRS][2] = {{VIC_F32, VIC_F32},  {VIC_F16, VIC_F32},   {VIC_F16, VIC_F16},
                                                  {VIC_BF16, VIC_F32}, {VIC_BF16, VIC_BF16}, {VIC_I8, VIC_F32},
                                                  {VIC_I8, VIC_I8},    {VIC_U8, VIC_F32},    {VIC_U8, VIC_U8}};

const enum vic_path paths[PATHS] = {0, VIC_PATH_SCAN, VIC_PATH_SELECT, VIC_PATH_CERTIFIED};

/* ---- what is tried */

static char trying[512];

static uint64_t seed(void) {
    const char *given = getenv("VICINAL_TEST_SEED");
    return given && *given ? strtoull(given, NULL, 0) : 20261130;
}

struct random test_random(uint64_t test) {
    struct random random = {seed() ^ test << 32};
    (void)random_next(&random);
    return random;
}

void test_says(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(trying, sizeof trying, format, arguments);
    va_end(arguments);
}

void test_says_shape(const struct shape *shape, const char *kernels, int32_t threads) {
    test_says("n %lld, nq %lld, dim %lld, rows %s, queries %s, %s, values %d, ids %d, kernels %s, threads %d",
              (long long)shape->n, (long long)shape->nq, (long long)shape->dim, vic_dtype_name(shape->dtype),
              vic_dtype_name(shape->query_dtype), vic_metric_name(shape->metric), (int)shape->values, (int)shape->ids, kernels,
              (int)threads);
}

void test_done(void) { trying[0] = '\0'; }

int test_tell(void **state) {
    (void)state;
    if (trying[0]) print_error("VICINAL_TEST_SEED=%llu: %s\n", (unsigned long long)seed(), trying);
    test_done();
    return 0;
}

/* ---- scenes */

/* A quarter of the rows copy another one, some are zero: ties and rows without a direction. */
static void rows_spoil(struct random *random, char *rows, int64_t n, size_t row_bytes) {
    for (int64_t i = 1; i < n; i++) {
        int64_t lot = random_below(random, 16);
        if (lot < 4) memcpy(rows + (size_t)i * row_bytes, rows + (size_t)random_below(random, i) * row_bytes, row_bytes);
        if (lot == 4) memset(rows + (size_t)i * row_bytes, 0, row_bytes);
    }
}

/* A third of the queries are rows, one in sixteen is zero. */
static void queries_spoil(struct random *random, const struct scene *scene, int64_t nq, enum vic_dtype query_dtype) {
    const struct data *data = &scene->data;
    for (int64_t j = 0; j < nq; j++) {
        int64_t lot = random_below(random, 16), row = data->n ? random_below(random, data->n) : 0;
        for (int64_t i = 0; i < data->dim; i++) {
            if (lot == 0) element_set(query_dtype, scene->queries, j * data->dim + i, 0.0f);
            if (lot > 10 && data->n)
                element_set(query_dtype, scene->queries, j * data->dim + i,
                            element_get(data->dtype, data->rows, row * data->dim + i));
        }
    }
}

static int64_t *ids_draw(struct random *random, int64_t n, enum scene_ids kind) {
    if (kind == IDS_NONE) return NULL;
    int64_t *ids = take((size_t)n * 8), step = (INT64_C(1) << 62) / (n ? n : 1);
    for (int64_t i = 0; i < n; i++) ids[i] = i * step + random_below(random, step);
    for (int64_t i = n - 1; kind == IDS_SHUFFLED && i > 0; i--) {
        int64_t other = random_below(random, i + 1), kept = ids[i];
        ids[i] = ids[other];
        ids[other] = kept;
    }
    return ids;
}

void scene_make(struct random *random, const struct shape *shape, struct scene *scene) {
    size_t row_bytes = (size_t)shape->dim * vic_dtype_bytes(shape->dtype);
    size_t query_bytes = (size_t)shape->dim * vic_dtype_bytes(shape->query_dtype);
    *scene =
        (struct scene){.data = {take((size_t)shape->n * row_bytes), shape->n, shape->dim, shape->dtype, shape->metric, NULL},
                       .queries = take((size_t)shape->nq * query_bytes)};
    random_fill(random, shape->values, shape->dtype, shape->n * shape->dim, scene->data.rows);
    rows_spoil(random, scene->data.rows, shape->n, row_bytes);
    random_fill(random, shape->values, shape->query_dtype, shape->nq * shape->dim, scene->queries);
    queries_spoil(random, scene, shape->nq, shape->query_dtype);
    scene->ids = ids_draw(random, shape->n, shape->ids);
    scene->data.ids = scene->ids;
    scene->order = order_of(&scene->data, scene->queries, shape->nq, shape->query_dtype);
}

void scene_free(struct scene *scene) {
    order_free(&scene->order);
    free(scene->data.rows);
    free(scene->queries);
    free(scene->ids);
}

struct vic_index *index_with_planes(struct vic_device *device, const struct data *data, int32_t planes) {
    struct vic_index *index = NULL;
    bool integers = data->dtype == VIC_I8 || data->dtype == VIC_U8;
    struct vic_matrix rows = matrix_of(data->rows, data->n, data->dim, data->dtype);
    struct vic_build_options options = {
        .size = sizeof options, .metric = data->metric, .ids = data->ids, .planes = integers ? VIC_PLANES_NONE : planes};
    must(vic_index_build(device, &rows, &options, &index));
    return index;
}

/* ---- devices of all tables */

const char *const *kernels_here(void) {
    static const char *names[16];
    int count = 0;
    for (int i = 0; kernels_list[i] && count < 15; i++)
        if (kernels_list[i]->available()) names[count++] = kernels_list[i]->name;
    names[count] = NULL;
    return names;
}

struct vic_device *device_with(const char *kernels, int32_t threads) {
    const char *before = getenv("VICINAL_KERNELS");
    char kept[64] = "";
    if (before) (void)snprintf(kept, sizeof kept, "%s", before);
    if (kernels) (void)setenv("VICINAL_KERNELS", kernels, 1);
    struct vic_device *device = device_of(threads);
    if (kernels && before) (void)setenv("VICINAL_KERNELS", kept, 1);
    if (kernels && !before) (void)unsetenv("VICINAL_KERNELS");
    return device;
}
