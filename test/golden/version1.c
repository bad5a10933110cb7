/* FMT-11: index files of format version 1, kept in the tree with what they answer. Every later library must open them and
 * say the same, bit for bit.
 *
 * `test_golden_version1 make` (in the root of the tree) writes files that are not there yet, after holding their answers
 * against the oracle; it never touches one that is. A new format version gets a program of its own beside this one. */
#include "support/oracle.h"
#include "support/sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

static const struct golden {
    const char *name;
    struct sample sample;
} goldens[] = {
    {"f32-cosine", {12, 5, VIC_F32, VIC_COSINE, true, true, "{\"title\": \"all there is\", \"share\": 0.1}", 11, 0}},
    {"f32-dot", {12, 3, VIC_F32, VIC_DOT, false, false, NULL, 12, 0}},
    {"f32-l2", {7, 130, VIC_F32, VIC_L2, true, false, NULL, 13, 0}},
    {"f16-cosine", {12, 17, VIC_F16, VIC_COSINE, false, false, NULL, 14, 0}},
    {"bf16-dot", {12, 16, VIC_BF16, VIC_DOT, false, true, NULL, 15, 0}},
    {"i8-l2", {12, 33, VIC_I8, VIC_L2, false, false, "{\"n\":12345678901234567}", 16, 0}},
    {"u8-cosine", {12, 9, VIC_U8, VIC_COSINE, true, false, NULL, 17, 0}},
    {"f32-planes", {12, 70, VIC_F32, VIC_L2, true, false, NULL, 19, VIC_PLANES_8 | VIC_PLANES_4}},
    {"f32-graph", {60, 9, VIC_F32, VIC_L2, true, false, NULL, 20, SAMPLE_GRAPH}},
    {"u8-graph", {60, 5, VIC_U8, VIC_DOT, false, false, NULL, 21, SAMPLE_GRAPH}},
    {"f32-product", {40, 9, VIC_F32, VIC_COSINE, false, false, NULL, 22, SAMPLE_PRODUCT}},
    {"empty", {0, 4, VIC_F32, VIC_COSINE, false, true, NULL, 18, 0}},
};
enum { GOLDENS = sizeof goldens / sizeof *goldens, QUERIES = 4, K = 8 };

static const char *golden_path(const struct golden *golden, const char *ending) {
    static char path[2][128];
    static int next;
    next = !next;
    (void)snprintf(path[next], sizeof path[0], "test/golden/files/v1-%s.%s", golden->name, ending);
    return path[next];
}

/* Queries that any program can make: eighths from -1 to 1. */
static void queries_make(float *queries, int64_t dim) {
    for (int64_t i = 0; i < QUERIES * dim; i++) queries[i] = (float)((i * 37 + i / dim * 11) % 17 - 8) / 8.0f;
}

static void hits_print(const struct vic_index *index, int64_t dim, const struct vic_search_options *options, FILE *out) {
    float *queries = take((size_t)(QUERIES * dim) * sizeof *queries), scores[QUERIES * K];
    int64_t ids[QUERIES * K];
    int32_t counts[QUERIES];
    queries_make(queries, dim);
    struct vic_matrix matrix = matrix_of(queries, QUERIES, dim, VIC_F32);
    struct vic_hits hits = {.ids = ids, .scores = scores, .counts = counts};
    must(vic_index_search(index, &matrix, K, options, &hits));
    for (int q = 0; q < QUERIES; q++) {
        (void)fprintf(out, "query %d: %d hits", q, counts[q]);
        for (int i = 0; i < K; i++) {
            uint32_t bits;
            memcpy(&bits, &scores[q * K + i], sizeof bits);
            (void)fprintf(out, " %" PRId64 ":%08" PRIx32, ids[q * K + i], bits);
        }
        (void)fprintf(out, "\n");
    }
    free(queries);
}

/* Walks too short to find everything, whose hits are therefore the graph's and not the rows' alone. */
static void walks_print(const struct vic_index *index, int64_t dim, enum vic_codes codes, FILE *out) {
    static const int32_t shapes[][2] = {{8, 1}, {8, 3}, {16, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct vic_search_stats stats = {.size = sizeof stats};
        const struct vic_search_options options = {.size = sizeof options,
                                                   .path = VIC_PATH_GRAPH,
                                                   .beam = shapes[i][0],
                                                   .parents = shapes[i][1],
                                                   .codes = codes,
                                                   .stats = &stats};
        hits_print(index, dim, &options, out);
        (void)fprintf(out, "beam %d, parents %d: %" PRId64 " hops\n", stats.beam, stats.parents, stats.hops);
    }
}

/* All that an index says of itself, as text. */
static void index_print(const struct vic_index *index, FILE *out) {
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    (void)fprintf(out, "%s %s %s, %" PRId64 " rows of %" PRId64 ", next id %" PRId64 ", metadata %s\n", info.kind,
                  vic_metric_name(info.metric), vic_dtype_name(info.dtype), info.rows, info.dim, info.next_id, info.metadata);
    size_t bytes = (size_t)info.dim * vic_dtype_bytes(info.dtype), text_bytes = 0;
    unsigned char *vector = take(bytes);
    for (int64_t row = 0; row < info.rows; row++) {
        int64_t id = 0;
        const char *text = NULL;
        must(vic_index_ids(index, row, 1, &id));
        must(vic_index_vector(index, id, vector));
        if (info.has_texts) must(vic_index_text(index, id, &text, &text_bytes));
        (void)fprintf(out, "row %" PRId64 ": text \"%.*s\" vector ", id, (int)text_bytes, text ? text : "");
        for (size_t i = 0; i < bytes; i++) (void)fprintf(out, "%02x", vector[i]);
        (void)fprintf(out, "\n");
    }
    free(vector);
    hits_print(index, info.dim, NULL, out);
    if (info.degree) walks_print(index, info.dim, 0, out);
    if (!info.pq_chunks) return;
    (void)fprintf(out, "product codes: %d chunks of %d centres, error %a, largest %a\n", info.pq_chunks, info.pq_centres,
                  info.pq_error, info.pq_error_largest);
    walks_print(index, info.dim, VIC_CODES_PQ, out);
}

static char *index_text(const struct vic_index *index) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    index_print(index, out);
    (void)fclose(out);
    return text;
}

static void FMT_11_files_of_version_1_say_what_they_always_said(void **state) {
    (void)state;
    struct vic_device *device = device_of(1);
    for (size_t i = 0; i < GOLDENS; i++) {
        struct vic_index *index = NULL;
        must(sample_try_open(device, golden_path(&goldens[i], "vicinal"), 1, &index));
        char *said = index_text(index);
        struct blob expected = blob_read(golden_path(&goldens[i], "txt"));
        expected.bytes[expected.size] = 0;
        assert_string_equal(said, (char *)expected.bytes);
        vic_index_free(index);
        blob_free(&expected);
        free(said);
    }
    vic_device_free(device);
}

static void every_type_and_metric_is_among_them(void **state) {
    (void)state;
    unsigned seen = 0;
    for (size_t i = 0; i < GOLDENS; i++) {
        struct vic_file_info info = {.size = sizeof info};
        must(vic_file_info(golden_path(&goldens[i], "vicinal"), &info));
        assert_int_equal(info.version, 1);
        assert_int_equal(info.rows, goldens[i].sample.n);
        assert_int_equal(info.dtype, goldens[i].sample.dtype);
        assert_int_equal(info.metric, goldens[i].sample.metric);
        seen |= 1u << info.dtype | 256u << info.metric;
    }
    assert_int_equal(seen, 0x3e | 0xe00);
}

/* A reader of docs/format.md alone, which knows the sample's shape and shares no code with the library, finds each row. */
static void row_by_hand(const struct blob *blob, const struct sample *sample, int64_t row, int64_t *id, const void **vector,
                        const char **text, size_t *bytes) {
    size_t size = 0, element = sample->dtype == VIC_F32 ? 4 : sample->dtype <= VIC_BF16 ? 2 : 1;
    const unsigned char *ids = section_bytes(blob, "ids", &size);
    *id = row;
    if (ids) memcpy(id, ids + 8 * row, 8);
    *vector = section_bytes(blob, "rows", &size) + (size_t)(row * sample->dim) * element;
    const unsigned char *offsets = section_bytes(blob, "text_offsets", &size);
    if (!offsets) return;
    int64_t bounds[2];
    memcpy(bounds, offsets + 8 * row, sizeof bounds);
    *text = (const char *)section_bytes(blob, "texts", &size) + bounds[0];
    *bytes = (size_t)(bounds[1] - bounds[0]);
}

static void the_specification_is_enough_to_read_them(void **state) {
    (void)state;
    struct vic_device *device = device_of(1);
    for (size_t i = 0; i < GOLDENS; i++) {
        const struct sample *sample = &goldens[i].sample;
        struct blob blob = blob_read(golden_path(&goldens[i], "vicinal")), sealed = blob_copy(&blob);
        struct vic_index *index = sample_open(device, golden_path(&goldens[i], "vicinal"));
        page_seal(&sealed); /* every checksum is where the page says, of what it says */
        assert_memory_equal(blob.bytes, sealed.bytes, blob.size);
        char vector[130 * 4];
        for (int64_t row = 0; row < sample->n; row++) {
            const void *by_hand = NULL;
            const char *text = NULL, *same_text = NULL;
            size_t bytes = 0, same_bytes = 0;
            int64_t id = 0, same_id = 0;
            row_by_hand(&blob, sample, row, &id, &by_hand, &text, &bytes);
            must(vic_index_ids(index, row, 1, &same_id));
            assert_int_equal(id, same_id);
            must(vic_index_vector(index, id, vector));
            assert_memory_equal(by_hand, vector, (size_t)sample->dim * vic_dtype_bytes(sample->dtype));
            assert_int_equal(vic_index_text(index, id, &same_text, &same_bytes), text ? VIC_OK : VIC_NOT_FOUND);
            assert_int_equal(bytes, same_bytes);
            if (bytes) assert_memory_equal(text, same_text, bytes);
        }
        vic_index_free(index);
        blob_free(&blob);
        blob_free(&sealed);
    }
    vic_device_free(device);
}

/* ---- making */

/* The index's rows in its own order, for the oracle. */
static void oracle_agrees(const struct vic_index *index, const struct sample *sample) {
    size_t bytes = (size_t)sample->dim * vic_dtype_bytes(sample->dtype);
    char *rows = take((size_t)sample->n * bytes);
    int64_t *ids = take((size_t)sample->n * sizeof *ids);
    float *queries = take((size_t)(QUERIES * sample->dim) * sizeof *queries);
    must(vic_index_ids(index, 0, sample->n, ids));
    for (int64_t i = 0; i < sample->n; i++) must(vic_index_vector(index, ids[i], rows + (size_t)i * bytes));
    queries_make(queries, sample->dim);
    const struct data data = {rows, sample->n, sample->dim, sample->dtype, sample->metric, ids};
    check_search(index, &data, queries, QUERIES, VIC_F32, K);
    free(rows);
    free(ids);
    free(queries);
}

static void missing_files_are_made(void **state) {
    (void)state;
    struct vic_device *device = device_of(1);
    for (size_t i = 0; i < GOLDENS; i++) {
        if (access(golden_path(&goldens[i], "vicinal"), F_OK) == 0) continue;
        struct vic_index *index = sample_build(device, &goldens[i].sample, golden_path(&goldens[i], "vicinal"));
        oracle_agrees(index, &goldens[i].sample);
        char *text = index_text(index);
        blob_write(golden_path(&goldens[i], "txt"), (const unsigned char *)text, strlen(text));
        vic_index_free(index);
        free(text);
    }
    vic_device_free(device);
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(FMT_11_files_of_version_1_say_what_they_always_said),
        cmocka_unit_test(every_type_and_metric_is_among_them),
        cmocka_unit_test(the_specification_is_enough_to_read_them),
    };
    const struct CMUnitTest makers[] = {cmocka_unit_test(missing_files_are_made)};
    if (count == 2 && strcmp(arguments[1], "make") == 0) return cmocka_run_group_tests(makers, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
