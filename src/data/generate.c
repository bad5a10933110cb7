/* vic_generate: data sets that are functions of their options, for tests and benchmarks.
 *
 * Every random word is Philox of (seed, item, purpose and number), so a row can be made alone, in any order, by any number
 * of threads. The surprising rule: no function of the C library that rounds is called (data/elementary.h has its own), so
 * the bytes do not depend on the machine, the compiler or its options either; a test holds their hashes.
 *
 * A kind is a row of the table: how one row of float32 comes about, and how wide its values spread, which is what integer
 * types are scaled by: four deviations fill their range. */
#include "base/fpenv.h"
#include "base/options.h"
#include "base/rng.h"
#include "base/thread.h"
#include "data/elementary.h"
#include "data/matrix.h"

#include <strings.h>

enum { ROWS_A_PART = 64, HIDDEN_LEAST = 64, LATENT_MAX = 4096 };
static const int64_t clusters_max = INT64_C(1) << 31;

/* What the words of one item are for; in the top byte of the counter. */
enum purpose { FOR_VALUES = 1, FOR_NORM, FOR_CHOICE, FOR_CENTRE, FOR_LAYER_1, FOR_BIAS, FOR_LAYER_2 };

struct recipe {
    struct vic_generate_options options; /* defaults filled in */
    const struct kind *kind;
    struct vic_matrix out;
    int64_t first;
    double unit;    /* integer types: what 1.0 becomes */
    int64_t hidden; /* manifold: units of the layer in between */
    float *layer_1; /* manifold: latent_dim * hidden, then the hidden biases, then hidden * dim */
    float *scratch; /* scratch_floats a worker */
    int64_t scratch_floats;
};

struct kind {
    const char *name;
    double spread; /* default */
    /* Row `row` of the endless data set into dim floats; `spare` has dim + latent_dim + hidden more. */
    void (*row)(const struct recipe *recipe, uint64_t row, float *values, float *spare);
    double (*deviation)(const struct recipe *recipe);
};

/* ---- random pieces */

static struct philox words_of(const struct recipe *recipe, enum purpose purpose, uint64_t item, uint64_t number) {
    return philox_block(recipe->options.seed, item, (uint64_t)purpose << 56 | number);
}

static void normals_fill(const struct recipe *recipe, enum purpose purpose, uint64_t item, int64_t count, double scale,
                         float *values) {
    for (int64_t j = 0; j < count; j += 4) {
        struct philox block = words_of(recipe, purpose, item, (uint64_t)j / 4);
        for (int64_t i = 0; i < 4 && j + i < count; i++) values[j + i] = (float)(elementary_normal(block.words[i]) * scale);
    }
}

/* Scales to a length. The sum runs in one order, in double; normal deviates are never all zero. */
static void length_set(float *values, int64_t dim, double length) {
    double sum = 0;
    for (int64_t j = 0; j < dim; j++) sum += (double)values[j] * (double)values[j];
    double scale = length / sqrt(sum);
    for (int64_t j = 0; j < dim; j++) values[j] = (float)((double)values[j] * scale);
}

static uint64_t cluster_choose(const struct recipe *recipe, uint64_t row) {
    return (uint64_t)words_of(recipe, FOR_CHOICE, row, 0).words[0] * (uint64_t)recipe->options.clusters >> 32;
}

/* ---- kinds */

static void gauss_row(const struct recipe *recipe, uint64_t row, float *values, float *spare) {
    (void)spare;
    double length = 1.0;
    if (recipe->options.norm_sigma > 0)
        length = elementary_exp(recipe->options.norm_sigma * elementary_normal(words_of(recipe, FOR_NORM, row, 0).words[0]));
    normals_fill(recipe, FOR_VALUES, row, recipe->out.dim, 1.0, values);
    length_set(values, recipe->out.dim, length);
}

static double gauss_deviation(const struct recipe *recipe) { return 1.0 / sqrt((double)recipe->out.dim); }

/* Centres of unit length, normal noise around them in every dimension. */
static void clusters_row(const struct recipe *recipe, uint64_t row, float *values, float *spare) {
    int64_t dim = recipe->out.dim;
    normals_fill(recipe, FOR_CENTRE, cluster_choose(recipe, row), dim, 1.0, values);
    length_set(values, dim, 1.0);
    normals_fill(recipe, FOR_VALUES, row, dim, recipe->options.spread, spare);
    for (int64_t j = 0; j < dim; j++) values[j] += spare[j];
}

static double clusters_deviation(const struct recipe *recipe) {
    return sqrt(1.0 / (double)recipe->out.dim + recipe->options.spread * recipe->options.spread);
}

/* out[o] = tanh(out[o] + sum of in[i] * weights[i][o]), each sum in ascending i. */
static void layer_apply(const float *weights, const float *in, int64_t in_count, float *out, int64_t out_count) {
    for (int64_t i = 0; i < in_count; i++, weights += out_count)
        for (int64_t o = 0; o < out_count; o++) out[o] += in[i] * weights[o];
    for (int64_t o = 0; o < out_count; o++) out[o] = elementary_tanh(out[o]);
}

/* A point of the latent space near a cluster's centre, through two layers that are the same for all rows. */
static void manifold_row(const struct recipe *recipe, uint64_t row, float *values, float *spare) {
    int64_t dim = recipe->out.dim, latent = recipe->options.latent_dim, hidden = recipe->hidden;
    const float *bias = recipe->layer_1 + latent * hidden, *layer_2 = bias + hidden;
    float *point = spare, *middle = point + latent; /* values is free until the second layer */
    normals_fill(recipe, FOR_CENTRE, cluster_choose(recipe, row), latent, 1.0, point);
    normals_fill(recipe, FOR_VALUES, row, latent, recipe->options.spread, middle);
    for (int64_t i = 0; i < latent; i++) point[i] += middle[i];
    memcpy(middle, bias, (size_t)hidden * sizeof *middle);
    layer_apply(recipe->layer_1, point, latent, middle, hidden);
    memset(values, 0, (size_t)dim * sizeof *values);
    layer_apply(layer_2, middle, hidden, values, dim);
}

/* Values lie in [-1, 1]: a quarter fills the range. */
static double manifold_deviation(const struct recipe *recipe) {
    (void)recipe;
    return 0.25;
}

/* Follows copies of copies back to a row that is its own: sources only ever lie before. */
static void duplicates_row(const struct recipe *recipe, uint64_t row, float *values, float *spare) {
    for (;;) {
        struct philox block = words_of(recipe, FOR_CHOICE, row, 0);
        if (row == 0 || (double)block.words[0] >= recipe->options.duplicate_share * 0x1p32) break;
        row = ((uint64_t)block.words[1] << 32 | block.words[2]) % row;
    }
    gauss_row(recipe, row, values, spare);
}

static const struct kind kinds[] = {
    {"gauss", 0, gauss_row, gauss_deviation},
    {"clusters", 0.1, clusters_row, clusters_deviation},
    {"manifold", 0.3, manifold_row, manifold_deviation},
    {"duplicates", 0, duplicates_row, gauss_deviation},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- from float32 to the type asked for */

static long clamp_round(double value, double least, double most) {
    double held = value < least ? least : value > most ? most : value;
    return (long)(held < 0 ? held - 0.5 : held + 0.5);
}

static void row_store(const struct recipe *recipe, const float *values, char *to) {
    const float half_max = 65504.0f;
    for (int64_t j = 0; j < recipe->out.dim; j++) {
        float value = values[j];
        uint16_t half = 0;
        switch (recipe->out.dtype) {
        case VIC_F32: memcpy(to + j * 4, &value, 4); break;
        case VIC_F16:
            half = f16_from_float(value < -half_max ? -half_max : value > half_max ? half_max : value);
            memcpy(to + j * 2, &half, 2);
            break;
        case VIC_BF16:
            half = bf16_from_float(value);
            memcpy(to + j * 2, &half, 2);
            break;
        case VIC_I8: to[j] = (char)clamp_round((double)value * recipe->unit, -128, 127); break;
        case VIC_U8: to[j] = (char)clamp_round((double)value * recipe->unit + 128, 0, 255); break;
        }
    }
}

static void part_make(void *job, int worker, int64_t part) {
    const struct recipe *recipe = job;
    float *values = recipe->scratch + worker * recipe->scratch_floats;
    int64_t end = (part + 1) * ROWS_A_PART < recipe->out.rows ? (part + 1) * ROWS_A_PART : recipe->out.rows;
    for (int64_t i = part * ROWS_A_PART; i < end; i++) {
        recipe->kind->row(recipe, (uint64_t)(recipe->first + i), values, values + recipe->out.dim);
        row_store(recipe, values, (char *)recipe->out.data + i * recipe->out.stride_bytes);
    }
}

/* ---- the call */

static enum vic_status kind_find(const char *name, const struct kind **kind) {
    *kind = &kinds[0];
    for (int i = 0; name && i < KINDS; i++)
        if (strcasecmp(name, kinds[i].name) == 0) {
            *kind = &kinds[i];
            return VIC_OK;
        }
    if (!name) return VIC_OK;
    return status_fail(VIC_ARGUMENT, "expected a kind that is gauss, clusters, manifold or duplicates, found \"%.40s\"", name);
}

static enum vic_status options_settle(struct recipe *recipe) {
    struct vic_generate_options *o = &recipe->options;
    if (o->clusters == 0) o->clusters = 100;
    if (o->latent_dim == 0) o->latent_dim = 16;
    if (o->spread == 0) o->spread = recipe->kind->spread;
    if (o->duplicate_share == 0) o->duplicate_share = 0.25;
    if (!(o->norm_sigma >= 0 && o->norm_sigma <= 10))
        return status_fail(VIC_ARGUMENT, "expected norm_sigma from 0 to 10, found %g", o->norm_sigma);
    if (!(o->spread >= 0 && o->spread <= 1000))
        return status_fail(VIC_ARGUMENT, "expected spread from 0 to 1000, found %g", o->spread);
    if (!(o->duplicate_share >= 0 && o->duplicate_share <= 1))
        return status_fail(VIC_ARGUMENT, "expected duplicate_share from 0 to 1, found %g", o->duplicate_share);
    if (o->clusters < 1 || o->clusters > clusters_max)
        return status_fail(VIC_ARGUMENT, "expected 1 to 2^31 clusters, found %lld", (long long)o->clusters);
    if (o->latent_dim < 1 || o->latent_dim > LATENT_MAX)
        return status_fail(VIC_ARGUMENT, "expected latent_dim from 1 to %d, found %lld", LATENT_MAX, (long long)o->latent_dim);
    recipe->hidden = 4 * o->latent_dim > HIDDEN_LEAST ? 4 * o->latent_dim : HIDDEN_LEAST;
    recipe->unit = 127.0 / 4.0 / recipe->kind->deviation(recipe);
    recipe->scratch_floats = 2 * recipe->out.dim + o->latent_dim + recipe->hidden;
    return VIC_OK;
}

static uint64_t layers_bytes(const struct recipe *recipe) {
    return (uint64_t)(recipe->hidden * (recipe->options.latent_dim + 1 + recipe->out.dim)) * sizeof(float);
}

/* The two layers of a manifold. Gains that bend the map without flattening it against 1. */
static enum vic_status layers_make(struct recipe *recipe) {
    int64_t latent = recipe->options.latent_dim, hidden = recipe->hidden;
    void *memory = NULL;
    if (recipe->kind->row != manifold_row) return VIC_OK;
    enum vic_status status = mem_alloc(&mem_default, layers_bytes(recipe), "a manifold's layers", &memory);
    if (status != VIC_OK) return status;
    recipe->layer_1 = memory;
    normals_fill(recipe, FOR_LAYER_1, 0, latent * hidden, 1.0 / sqrt((double)latent), recipe->layer_1);
    normals_fill(recipe, FOR_BIAS, 0, hidden, 0.25, recipe->layer_1 + latent * hidden);
    normals_fill(recipe, FOR_LAYER_2, 0, hidden * recipe->out.dim, 1.25 / sqrt((double)hidden),
                 recipe->layer_1 + latent * hidden + hidden);
    return VIC_OK;
}

enum vic_status vic_generate(const struct vic_generate_options *options, int64_t first, int32_t threads,
                             const struct vic_matrix *out) {
    enum vic_status status = VIC_OK;
    struct recipe recipe = {.first = first};
    struct thread_pool *pool = NULL;
    void *memory = NULL;
    fpenv caller = fpenv_enter();
    TRY(options_take(&recipe.options, sizeof recipe.options, options, "generate options"));
    TRY(kind_find(recipe.options.kind, &recipe.kind));
    TRY(matrix_resolve(out, "the output matrix", &recipe.out));
    TRY(options_settle(&recipe));
    if (first < 0 || first > INT64_MAX - recipe.out.rows)
        TRY(status_fail(VIC_ARGUMENT, "expected a first row from 0 to 2^63-1 less %lld rows, found %lld",
                        (long long)recipe.out.rows, (long long)first));
    TRY(thread_pool_open(&mem_default, threads, &pool));
    uint64_t workers = (uint64_t)thread_pool_size(pool);
    TRY(mem_alloc_array(&mem_default, workers * (uint64_t)recipe.scratch_floats, sizeof(float), "generated rows", &memory));
    recipe.scratch = memory;
    TRY(layers_make(&recipe));
    int64_t parts = recipe.out.rows / ROWS_A_PART + (recipe.out.rows % ROWS_A_PART != 0);
    (void)thread_pool_run(pool, parts, part_make, &recipe);
done:
    if (recipe.layer_1) mem_free(&mem_default, recipe.layer_1, layers_bytes(&recipe));
    if (memory)
        mem_free(&mem_default, memory, (uint64_t)thread_pool_size(pool) * (uint64_t)recipe.scratch_floats * sizeof(float));
    thread_pool_close(pool);
    fpenv_leave(caller);
    return status;
}
