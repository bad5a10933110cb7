/* The walk by its definition. */
#include "support/walker.h"
#include "support/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARENTS_MOST = 8 };

static struct walker_codes codes_take(const struct data *data) {
    size_t n = (size_t)data->n;
    return (struct walker_codes){take(n * (size_t)data->dim), take(n * sizeof(float)), take(n * sizeof(float))};
}

/* A plane of `bits` bits as docs/format.md lays it out; one with NULL where the file has none. */
static struct walker_codes plane_read(const struct walker *walker, int bits) {
    const struct data *data = walker->data;
    size_t bytes = 0, n = (size_t)data->n, dim = (size_t)data->dim;
    const unsigned char *plane = section_bytes(&walker->file, bits == 8 ? "plane8" : "plane4", &bytes);
    if (!plane) return (struct walker_codes){.codes = NULL};
    struct walker_codes read = codes_take(data);
    size_t stride = bits == 8 ? (dim + 63) / 64 * 64 : (dim + 127) / 128 * 64;
    for (size_t row = 0; row < n; row++)
        for (size_t i = 0; i < dim; i++) {
            const unsigned char *line = plane + row * stride + (bits == 8 ? i : i / 128 * 64 + i % 64);
            int code = bits == 8 ? *line - 128 : (*line >> (i % 128 < 64 ? 0 : 4) & 15) - 8;
            read.codes[row * dim + i] = (int8_t)code;
        }
    memcpy(read.scale, section_bytes(&walker->file, bits == 8 ? "plane8_scale" : "plane4_scale", &bytes), n * sizeof(float));
    return read;
}

static void squares_sum(const struct data *data, struct walker_codes *codes) {
    for (int64_t row = 0; codes->codes && row < data->n; row++) {
        int64_t sum = 0;
        for (int64_t i = 0; i < data->dim; i++) {
            int64_t code = codes->codes[row * data->dim + i];
            sum += code * code;
        }
        codes->square[row] = codes->scale[row] * codes->scale[row] * (float)sum;
    }
}

struct walker walker_of(const struct vic_index *index, const struct data *data) {
    const char *path = scratch_path("walked");
    size_t bytes = 0;
    must(vic_index_save(index, path, NULL));
    struct walker walker = {.file = blob_read(path), .data = data};
    walker.slots = (const void *)section_bytes(&walker.file, "graph", &bytes);
    walker.degree = (int64_t)bytes / 4 / data->n;
    walker.entries = (const void *)section_bytes(&walker.file, "entry", &bytes);
    walker.entry_count = (int64_t)bytes / 4;
    walker.plane8 = plane_read(&walker, 8), walker.plane4 = plane_read(&walker, 4);
    squares_sum(data, &walker.plane8);
    squares_sum(data, &walker.plane4);
    return walker;
}

static void codes_free(struct walker_codes *codes) { free(codes->codes), free(codes->scale), free(codes->square); }

void walker_free(struct walker *walker) {
    codes_free(&walker->plane8), codes_free(&walker->plane4);
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
    const struct walker_codes *codes; /* NULL: the rows themselves */
    const void *query;
    enum vic_dtype query_dtype;
    int8_t *query_codes;
    float step; /* what a query's code stands for under l2; nothing else orders by it */
    bool whole; /* the codes are the query, which has values of the rows' integer type */
    bool *met;
    struct candidate *list;
    int64_t count, room; /* room: rows that the list holds */
    struct walked *walked;
};

static void query_code(struct walk_state *state) {
    int64_t dim = state->walker->data->dim;
    float largest = 0;
    for (int64_t i = 0; i < dim; i++) largest = fmaxf(largest, fabsf(element_get(state->query_dtype, state->query, i)));
    float inverse = largest >= 0x1p-100f ? 127 / largest : 0;
    for (int64_t i = 0; i < dim; i++)
        state->query_codes[i] = (int8_t)rintf(element_get(state->query_dtype, state->query, i) * inverse);
    state->step = largest / 127;
}

static void query_take_whole(struct walk_state *state) {
    const struct data *data = state->walker->data;
    state->whole = (data->dtype == VIC_I8 || data->dtype == VIC_U8) && state->query_dtype == VIC_F32;
    for (int64_t i = 0; state->whole && i < data->dim; i++) {
        float value = element_get(state->query_dtype, state->query, i);
        float held =
            data->dtype == VIC_I8 ? (float)(int8_t)fmaxf(fminf(value, 127), -128) : (float)(uint8_t)fmaxf(fminf(value, 255), 0);
        state->whole = held == value;
        state->query_codes[i] = (int8_t)(int)held;
    }
}

static float distance_of(const struct walk_state *state, uint32_t row) {
    const struct data *data = state->walker->data;
    if (!state->codes) {
        float score = state->whole ? oracle_score(data, row, state->query_codes, data->dtype)
                                   : oracle_score(data, row, state->query, state->query_dtype);
        return data->metric == VIC_L2 ? score : -score;
    }
    const int8_t *codes = state->codes->codes + row * data->dim;
    int64_t sum = 0;
    for (int64_t i = 0; i < data->dim; i++) sum += (int64_t)codes[i] * state->query_codes[i];
    if (data->metric != VIC_L2) return -state->codes->scale[row] * (float)sum;
    return -2 * state->step * state->codes->scale[row] * (float)sum + state->codes->square[row];
}

static bool before(const struct candidate *a, const struct candidate *b) {
    return a->distance < b->distance || (a->distance == b->distance && a->row < b->row);
}

/* The list keeps the nearest of all that were ever offered, each row once. */
static void offer(struct walk_state *state, uint32_t row) {
    struct candidate new = {distance_of(state, row), row, false};
    state->walked->offered++;
    if (!state->met[row]) state->walked->met++;
    state->met[row] = true;
    for (int64_t i = 0; i < state->count; i++)
        if (state->list[i].row == row) return;
    int64_t at = state->count;
    while (at > 0 && before(&new, &state->list[at - 1])) at--;
    if (at == state->room) return;
    if (state->count < state->room) state->count++;
    memmove(state->list + at + 1, state->list + at, (size_t)(state->count - 1 - at) * sizeof new);
    state->list[at] = new;
}

static void walk(struct walk_state *state, int64_t beam, int64_t parents) {
    const struct walker *walker = state->walker;
    for (int64_t i = 0; i < walker->entry_count; i++) offer(state, walker->entries[i]);
    for (;;) {
        uint32_t rows[PARENTS_MOST];
        int64_t count = 0;
        for (int64_t i = 0; i < state->count && i < beam && count < parents; i++)
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

int32_t walker_search(const struct walker *walker, const void *query, enum vic_dtype query_dtype, int64_t k,
                      const struct walker_wish *wish, int64_t *ids, float *scores, struct walked *walked) {
    const struct data *data = walker->data;
    size_t n = (size_t)data->n;
    struct walk_state state = {
        .walker = walker, .query = query, .query_dtype = query_dtype, .room = wish->beam, .walked = walked};
    if (wish->codes == VIC_CODES_8) state.codes = &walker->plane8;
    if (wish->codes == VIC_CODES_4) {
        state.codes = &walker->plane4;
        if (state.room < 32 + wish->beam / 4) state.room = 32 + wish->beam / 4;
    }
    uint32_t *rows = take(n * sizeof *rows);
    float *all = take(n * sizeof *all);
    state.query_codes = take((size_t)data->dim);
    state.met = take(n);
    memset(state.met, 0, n);
    state.list = take((size_t)(state.room + 1) * sizeof *state.list);
    query_code(&state);
    if (wish->codes == VIC_CODES_ROWS) query_take_whole(&state);
    walk(&state, wish->beam, wish->parents);
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
    free(state.list), free(state.met), free(state.query_codes), free(all), free(rows);
    return (int32_t)real;
}
