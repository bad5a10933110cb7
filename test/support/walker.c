/* The walk by its definition. */
#include "support/walker.h"
#include "support/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARENTS_MOST = 8 };

/* Codes of a row of an integer type, which a file does not have: a step of 1/127 of its largest value. */
static void integer_row_code(const struct walker *walker, int64_t row) {
    const struct data *data = walker->data;
    const char *vector = (const char *)data->rows + row * data->dim;
    uint8_t *codes = walker->codes + row * walker->stride;
    float largest = 0, norm = 1;
    int64_t square = 0;
    for (int64_t i = 0; i < data->dim; i++) {
        float value = element_get(data->dtype, vector, i);
        largest = fmaxf(largest, fabsf(value));
        square += (int64_t)value * (int64_t)value;
    }
    if (data->metric == VIC_COSINE) norm = sqrtf((float)square);
    float scale = largest > 0 ? largest / 127 / norm : 0;
    double step = (double)scale * (double)norm;
    float inverse = step > 0 ? (float)(1 / step) : 0;
    memset(codes, 128, (size_t)walker->stride);
    for (int64_t i = 0; i < data->dim; i++)
        codes[i] = (uint8_t)(128 + (int)fminf(rintf(element_get(data->dtype, vector, i) * inverse), 127));
    walker->scale[row] = scale;
}

struct walker walker_of(const struct vic_index *index, const struct data *data) {
    const char *path = scratch_path("walked");
    size_t bytes = 0, n = (size_t)data->n, stride = (size_t)(data->dim + 63) / 64 * 64;
    must(vic_index_save(index, path, NULL));
    struct walker walker = {.file = blob_read(path), .data = data, .stride = (int64_t)stride};
    walker.slots = (const void *)section_bytes(&walker.file, "graph", &bytes);
    walker.degree = (int64_t)(bytes / 4 / n);
    walker.entries = (const void *)section_bytes(&walker.file, "entry", &bytes);
    walker.entry_count = (int64_t)(bytes / 4);
    walker.codes = take(n * stride), walker.scale = take(n * 4), walker.square = take(n * 4);
    if (data->dtype == VIC_I8 || data->dtype == VIC_U8) {
        for (int64_t row = 0; row < data->n; row++) integer_row_code(&walker, row);
    } else {
        memcpy(walker.codes, section_bytes(&walker.file, "plane8", &bytes), n * stride);
        memcpy(walker.scale, section_bytes(&walker.file, "plane8_scale", &bytes), n * 4);
    }
    for (size_t row = 0; row < n; row++) {
        int64_t sum = 0;
        for (size_t i = 0; i < stride; i++) {
            int64_t code = walker.codes[row * stride + i] - 128;
            sum += code * code;
        }
        walker.square[row] = walker.scale[row] * walker.scale[row] * (float)sum;
    }
    return walker;
}

void walker_free(struct walker *walker) {
    free(walker->codes), free(walker->scale), free(walker->square);
    blob_free(&walker->file);
}

/* ---- one walk */

struct candidate {
    float distance;
    uint32_t row;
    bool expanded;
};

struct walk_state {
    const struct walker *walker;
    int8_t *query; /* its codes */
    float step;    /* what a query's code stands for under l2; nothing else orders by it */
    bool *met;
    struct candidate *list;
    int64_t count, beam;
    struct walked *walked;
};

static void query_code(struct walk_state *state, const void *query, enum vic_dtype dtype) {
    int64_t dim = state->walker->data->dim;
    float largest = 0;
    for (int64_t i = 0; i < dim; i++) largest = fmaxf(largest, fabsf(element_get(dtype, query, i)));
    float inverse = largest >= 0x1p-100f ? 127 / largest : 0;
    for (int64_t i = 0; i < dim; i++) state->query[i] = (int8_t)rintf(element_get(dtype, query, i) * inverse);
    state->step = largest / 127;
}

static float distance_of(const struct walk_state *state, uint32_t row) {
    const struct walker *walker = state->walker;
    const uint8_t *codes = walker->codes + row * walker->stride;
    int64_t sum = 0;
    for (int64_t i = 0; i < walker->data->dim; i++) sum += (int64_t)(codes[i] - 128) * state->query[i];
    if (walker->data->metric != VIC_L2) return -walker->scale[row] * (float)sum;
    return -2 * state->step * walker->scale[row] * (float)sum + walker->square[row];
}

static bool before(const struct candidate *a, const struct candidate *b) {
    return a->distance < b->distance || (a->distance == b->distance && a->row < b->row);
}

/* The list keeps the `beam` nearest of all that were ever offered, each row once. */
static void offer(struct walk_state *state, uint32_t row) {
    struct candidate new = {distance_of(state, row), row, false};
    state->walked->offered++;
    if (!state->met[row]) state->walked->met++;
    state->met[row] = true;
    for (int64_t i = 0; i < state->count; i++)
        if (state->list[i].row == row) return;
    int64_t at = state->count;
    while (at > 0 && before(&new, &state->list[at - 1])) at--;
    if (at == state->beam) return;
    if (state->count < state->beam) state->count++;
    memmove(state->list + at + 1, state->list + at, (size_t)(state->count - 1 - at) * sizeof new);
    state->list[at] = new;
}

static void walk(struct walk_state *state, int64_t parents) {
    const struct walker *walker = state->walker;
    for (int64_t i = 0; i < walker->entry_count; i++) offer(state, walker->entries[i]);
    for (;;) {
        uint32_t rows[PARENTS_MOST];
        int64_t count = 0;
        for (int64_t i = 0; i < state->count && count < parents; i++)
            if (!state->list[i].expanded) {
                state->list[i].expanded = true;
                rows[count++] = state->list[i].row;
            }
        if (count == 0) return;
        for (int64_t i = 0; i < count; i++) {
            const uint32_t *slots = walker->slots + (int64_t)rows[i] * walker->degree;
            for (int64_t slot = 0; slot < walker->degree && slots[slot] != UINT32_MAX; slot++) offer(state, slots[slot]);
        }
        state->walked->hops += count;
    }
}

/* ---- its answer: all that the list holds by canonical score */

static const struct data *sorting;
static const float *sorting_scores;

static int compare_hits(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    float one = sorting_scores[*x], two = sorting_scores[*y];
    bool less = sorting->metric == VIC_L2 ? one < two : one > two;
    return less ? -1 : one != two ? 1 : *x < *y ? -1 : 1;
}

int32_t walker_search(const struct walker *walker, const void *query, enum vic_dtype query_dtype, int64_t k, int64_t beam,
                      int64_t parents, int64_t *ids, float *scores, struct walked *walked) {
    const struct data *data = walker->data;
    size_t n = (size_t)data->n;
    struct walk_state state = {.walker = walker, .beam = beam, .walked = walked};
    uint32_t *rows = take(n * sizeof *rows);
    float *all = take(n * sizeof *all);
    state.query = take((size_t)data->dim);
    state.met = take(n);
    memset(state.met, 0, n);
    state.list = take((size_t)(beam + 1) * sizeof *state.list);
    query_code(&state, query, query_dtype);
    walk(&state, parents);
    for (int64_t i = 0; i < state.count; i++) {
        rows[i] = state.list[i].row;
        all[rows[i]] = oracle_score(data, rows[i], query, query_dtype);
    }
    sorting = data, sorting_scores = all;
    qsort(rows, (size_t)state.count, sizeof *rows, compare_hits);
    int64_t real = state.count < k ? state.count : k;
    for (int64_t i = 0; i < k; i++) {
        ids[i] = i >= real ? -1 : data->ids ? data->ids[rows[i]] : rows[i];
        scores[i] = i < real ? all[rows[i]] : data->metric == VIC_L2 ? INFINITY : -INFINITY;
    }
    walked->kept += state.count;
    free(state.list), free(state.met), free(state.query), free(all), free(rows);
    return (int32_t)real;
}
