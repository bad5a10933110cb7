/* Batches on planes: a block of packed queries against rows as they lie in the plane, the bound tested in registers: the body
 * shared by the instruction sets. A file includes its lanes header, defines what is listed below, then names PLANE_TILE.
 *
 * A lane is a query. Queries are packed once a block, LANES of them side by side word by word, behind their constants; a row
 * needs no packing, since a word of it is broadcast from where it lies. The sums of a few rows and VECTORS * LANES queries
 * stay in registers, become `upper` there and are compared with each query's own threshold; what reaches it is written down,
 * the sums are not. All queries pass while a group's rows stay in the first-level cache.
 *
 * Bound by the multiply-add units: VECTORS + ROWS loads for VECTORS * ROWS multiply-adds of a register. With VNNI, 256 queries
 * of 384 dimensions, the sums take 33 ms of one thread for 117,659 rows, the peak of 740 GOPS, and the test of the bound 5
 * (Xeon, Emerald Rapids, 2026-11-30). Few queries are bound by reading the codes.
 *
 * What the including file defines:
 *   WORD_DIMS                     dimensions a 32-bit word: 4 (8-bit products) or 2 (16-bit products)
 *   ROWS, VECTORS                 the register tile
 *   query_word                    the word of `count` codes of a query, zeros behind them
 *   row_decodes                   by plane: a row's codes (not less the offset) to words; NULL: they lie as words already
 *   step                          sum + products of words
 *   floats_reaching               bit i: lane i of a is not below lane i of b, or one of them is NaN */
#ifndef CPU_KERNEL_PLANE_H
#define CPU_KERNEL_PLANE_H

#include "backend/cpu/plane.h"

enum { FETCH_BYTES = 16384 };
/* Vectors of a packed group in front of its words. */
enum constant { STEP, ALPHA, BETA, GAMMA, KAPPA, BIAS, CONSTANTS };

static int64_t words_count(int64_t dim) { return (dim + WORD_DIMS - 1) / WORD_DIMS; }
/* Bytes of a decoded row. */
static int64_t decoded_stride(int64_t dim) { return plane_query_elements(dim) / WORD_DIMS * 4; }
static int64_t decoded_bytes(int64_t dim) { return GROUP_ROWS * decoded_stride(dim); }
static int64_t group_words(int64_t dim) { return (CONSTANTS + words_count(dim)) * LANES; }
static int64_t queries_bytes(int64_t nq, int64_t dim) { return (nq + LANES - 1) / LANES * group_words(dim) * 4; }

/* A lane of a query that is not there has constants and codes of 0 and is masked where it matters. */
static void pack(const struct plane_query *queries, int64_t nq, enum plane_kind kind, int64_t dim, void *packed) {
    uint32_t *at = packed;
    memset(packed, 0, (size_t)queries_bytes(nq, dim));
    for (int64_t j = 0; j < nq; j++) {
        const struct plane_query *query = &queries[j];
        uint32_t *lane = at + j / LANES * group_words(dim) + j % LANES;
        const float constants[] = {query->step, query->alpha, query->beta, query->gamma, query->kappa};
        for (int c = STEP; c < BIAS; c++) lane[c * LANES] = float_bits(constants[c]);
        lane[BIAS * LANES] = (uint32_t)query->bias_low[kind];
        if (!query->low) continue;
        for (int64_t w = 0; w < words_count(dim); w++) {
            int64_t left = dim - w * WORD_DIMS;
            lane[(CONSTANTS + w) * LANES] = query_word(query->low + w * WORD_DIMS, left < WORD_DIMS ? left : WORD_DIMS);
        }
    }
}

/* Rows of a tile: their words, one every `stride` bytes, the last one repeated where there are fewer. */
struct tile_rows {
    const char *at[ROWS];
    int64_t first, n; /* in the plane; how many are real */
};

/* The pairs found so far. */
struct found {
    uint32_t *pairs;
    float *uppers;
    int64_t count;
};

INLINE void found_add(struct found *found, uint32_t bits, floats upper, int64_t query, int64_t row) {
    float values[LANES];
    floats_store(values, upper);
    for (; bits; bits &= bits - 1) {
        int lane = __builtin_ctz(bits);
        found->pairs[found->count] = (uint32_t)((query + lane) * GROUP_ROWS + row);
        found->uppers[found->count++] = values[lane];
    }
}

INLINE floats constant_of(const uint32_t *queries, enum constant which) { return floats_load(VIC_F32, queries, which * LANES); }

/* upper of one row and LANES queries, the order of kernels.h. */
INLINE floats upper_of_queries(const struct plane_group *group, const uint32_t *queries, words sum, int64_t row) {
    floats m = words_round(words_sub(sum, words_load(queries + BIAS * LANES)), true);
    floats slack = constant_of(queries, GAMMA);
    if (group->norms) {
        floats norm = floats_broadcast(group->norms + row);
        floats slope = floats_fma(constant_of(queries, KAPPA), norm, constant_of(queries, BETA));
        slack = floats_fma(norm, slope, slack);
    }
    slack = floats_fma(constant_of(queries, ALPHA), floats_broadcast(group->plane->error + row), slack);
    return floats_fma(floats_mul(m, floats_broadcast(group->plane->scale + row)), constant_of(queries, STEP), slack);
}

/* `vectors` groups of queries from query `query` on. `fetch`: rows are asked for ahead. */
INLINE void tile_run(const struct plane_group *group, const struct tile_rows *rows, int vectors, int64_t query, bool fetch,
                     struct found *found) {
    const uint32_t *queries = (const uint32_t *)group->queries + query / LANES * group_words(group->dim);
    int64_t count = words_count(group->dim), next = group_words(group->dim);
    words sums[ROWS][VECTORS];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < vectors; v++) sums[r][v] = words_zero();
    for (int64_t line = 0; line < count; line += 16) {
        int64_t end = line + 16 < count ? line + 16 : count;
        for (int r = 0; fetch && r < ROWS; r++) __builtin_prefetch(rows->at[r] + line * 4 + FETCH_BYTES);
        for (int64_t w = line; w < end; w++) {
            words of_queries[VECTORS];
            for (int v = 0; v < vectors; v++) of_queries[v] = words_load(queries + v * next + (CONSTANTS + w) * LANES);
            for (int r = 0; r < ROWS; r++) {
                words of_row = words_broadcast((const uint32_t *)rows->at[r] + w);
                for (int v = 0; v < vectors; v++) sums[r][v] = words_pinned(step(sums[r][v], of_row, of_queries[v]));
            }
        }
    }
    for (int v = 0; v < vectors; v++) {
        int64_t at = query + v * LANES, left = group->nq - at;
        uint32_t real = left < LANES ? (UINT32_C(1) << left) - 1 : UINT32_MAX;
        for (int r = 0; r < ROWS; r++) {
            if (r >= rows->n) break;
            int64_t row = rows->first + r;
            floats upper = upper_of_queries(group, queries + v * next, sums[r][v], row);
            uint32_t bits = floats_reaching(upper, floats_load(VIC_F32, group->least, at)) & real;
            if (bits) found_add(found, bits, upper, at, row - group->first);
        }
    }
}

INLINE void rows_run(const struct plane_group *group, const char *decoded, int64_t stride, int vectors, int64_t query,
                     bool fetch, struct found *found) {
    for (int64_t i = 0; i < group->n; i += ROWS) {
        struct tile_rows rows = {.first = group->first + i, .n = group->n - i};
        for (int r = 0; r < ROWS; r++) rows.at[r] = decoded + (i + (r < rows.n ? r : rows.n - 1)) * stride;
        tile_run(group, &rows, vectors, query, fetch, found);
    }
}

static int64_t run(const struct plane_group *group, uint32_t *pairs, float *uppers) {
    struct found found = {pairs, uppers, 0};
    int64_t stride = group->plane->stride_bytes;
    const uint8_t *codes = group->plane->codes + group->first * stride;
    const char *decoded = (const char *)codes;
    row_decode *decode = row_decodes[group->kind];
    if (decode) {
        for (int64_t i = 0; i < group->n; i++, codes += stride) {
            for (int64_t line = 0; line < stride; line += 64) __builtin_prefetch(codes + line + FETCH_BYTES);
            decode(codes, stride, (char *)group->decoded + i * decoded_stride(group->dim));
        }
        decoded = group->decoded, stride = decoded_stride(group->dim);
    }
    for (int64_t query = 0; query < group->nq; query += VECTORS * LANES) {
        bool fetch = !decode && query == 0;
        if (group->nq - query > (VECTORS - 1) * LANES)
            rows_run(group, decoded, stride, VECTORS, query, fetch, &found);
        else
            rows_run(group, decoded, stride, 1, query, fetch, &found);
    }
    return found.count;
}

#define PLANE_TILE                                                                                                             \
    { queries_bytes, decoded_bytes, pack, run }

#endif
