/* Product codes in an index file: what goes in comes out, every section of the wrong size is refused by name, wrong contents
 * are refused or found by a check, and codes that name no centre hurt nobody. */
#include "index/index.h"
#include "support/oracle.h"
#include "support/sample.h"

#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

enum { N = 50, DIM = 7 };
static const struct sample coded = {N, DIM, VIC_F32, VIC_L2, false, false, NULL, 31, SAMPLE_PRODUCT};

static struct blob whole;

static int open_all(void **state) {
    int status = place_of_one_setup(state);
    vic_index_free(sample_build(test_device, &coded, scratch_path("whole")));
    whole = blob_read(scratch_path("whole"));
    return status;
}
static int close_all(void **state) {
    blob_free(&whole);
    return place_teardown(state);
}

static void what_goes_in_comes_out(void **state) {
    (void)state;
    struct vic_index *built = sample_build(test_device, &coded, NULL),
                     *opened = sample_open(test_device, scratch_path("whole"));
    const struct graph_product *first = built->graph.product, *second = opened->graph.product;
    struct vic_index_info info = {.size = sizeof info};
    assert_non_null(first->own_codes);
    assert_null(second->own_codes);
    assert_memory_equal(first->codes, second->codes, N * SAMPLE_CHUNKS);
    assert_memory_equal(&first->error, &second->error, sizeof first->error);
    assert_memory_equal(first->pq.parts.pivots, second->pq.parts.pivots, (size_t)first->pq.parts.centres * DIM * sizeof(float));
    assert_true(sample_hash(built) == sample_hash(opened));
    must(vic_index_info(opened, &info));
    assert_int_equal(info.pq_chunks, SAMPLE_CHUNKS);
    assert_int_equal(info.pq_centres, N);
    assert_true(info.pq_error == first->error.mean && info.pq_error_largest == first->error.largest);
    must(vic_index_check(built, NULL));
    must(vic_index_check(opened, NULL));
    must(vic_index_save(opened, scratch_path("again"), NULL));
    struct blob again = blob_read(scratch_path("again"));
    assert_int_equal(again.size, whole.size);
    assert_memory_equal(again.bytes, whole.bytes, whole.size);
    blob_free(&again);
    vic_index_free(opened), vic_index_free(built);
}

static void sections_of_another_size_are_refused_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t bytes;
    } rows[] = {
        {"pq_offsets", 0},
        {"pq_offsets", 4},
        {"pq_offsets", 11},
        {"pq_offsets", 16},
        {"pq_offsets", 4 * (DIM + 2)},
        {"pq_pivots", 0},
        {"pq_pivots", 4},
        {"pq_pivots", 4 * DIM + 4},
        {"pq_pivots", 257 * 4 * DIM},
        {"pq_centroid", 0},
        {"pq_centroid", 4 * DIM + 4},
        {"pq_codes", 0},
        {"pq_codes", N * SAMPLE_CHUNKS - 1},
        {"pq_error", 8},
        {"pq_error", 24},
    };
    unsigned char *zeros = calloc(1, 1 << 16);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct blob blob = blob_copy(&whole);
        section_replace(&blob, rows[i].name, zeros, rows[i].bytes);
        page_seal(&blob);
        /* Other chunks than the codes have show in the size of the codes. */
        blob_refused(test_device, &blob, VIC_FORMAT, rows[i].bytes == 16 ? "pq_codes" : rows[i].name);
        blob_free(&blob);
    }
    free(zeros);
}

static void refused_with(const char *section, size_t offset, const void *value, size_t bytes, const char *says) {
    struct blob blob = blob_copy(&whole);
    size_t size = 0;
    memcpy(section_bytes(&blob, section, &size) + offset, value, bytes);
    page_seal(&blob);
    blob_refused(test_device, &blob, VIC_FORMAT, says);
    blob_free(&blob);
}

static void contents_that_cannot_be_are_refused_when_opened(void **state) {
    (void)state;
    const uint32_t none = 0, far = 8, nan = 0x7fc00000;
    const double negative = -1;
    refused_with("pq_offsets", 4, &none, 4, "found 0 for the beginning of chunk 1");
    refused_with("pq_offsets", 8, &far, 4, "found 8 for the beginning of chunk 2");
    refused_with("pq_pivots", 4 * DIM + 8, &nan, 4, "centre 1 is not finite in dimension 2");
    refused_with("pq_centroid", 8, &nan, 4, "centroid is not finite in dimension 2");
    refused_with("pq_error", 8, &negative, 8, "section pq_error");
}

static void a_check_finds_codes_and_errors_that_are_not_true(void **state) {
    (void)state;
    size_t size = 0;
    struct blob blob = blob_copy(&whole);
    section_bytes(&blob, "pq_codes", &size)[5 * SAMPLE_CHUNKS + 1] = N; /* the centres are as many as the rows */
    page_seal(&blob);
    blob_found_by_check(test_device, &blob, "section pq_codes: expected centres below 50, found 50 in row 5, chunk 1");
    struct vic_index *index = NULL;
    must(blob_open(test_device, &blob, 0, &index)); /* and a walk over them ends all the same */
    (void)sample_hash(index);
    vic_index_free(index);
    blob_free(&blob);
    blob = blob_copy(&whole);
    section_bytes(&blob, "pq_codes", &size)[7]++;
    if (section_bytes(&blob, "pq_codes", &size)[7] >= N) section_bytes(&blob, "pq_codes", &size)[7] = 0;
    page_seal(&blob);
    blob_found_by_check(test_device, &blob, "section pq_error");
    blob_free(&blob);
}

static void an_index_without_them_says_so(void **state) {
    (void)state;
    struct sample plain = coded;
    plain.planes = SAMPLE_GRAPH;
    struct vic_index *index = sample_build(test_device, &plain, NULL);
    struct vic_index_info info = {.size = sizeof info};
    float query[DIM] = {1}, score;
    int64_t id;
    const struct vic_matrix matrix = matrix_of(query, 1, DIM, VIC_F32);
    const struct vic_search_options options = {.size = sizeof options, .codes = VIC_CODES_PQ};
    must(vic_index_info(index, &info));
    assert_int_equal(info.pq_chunks, 0);
    assert_int_equal(vic_index_search(index, &matrix, 1, &options, &(struct vic_hits){.ids = &id, .scores = &score}),
                     VIC_UNSUPPORTED);
    assert_non_null(strstr(vic_last_error(), "walked over codes pq, found one for 8"));
    vic_index_free(index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(sections_of_another_size_are_refused_by_name),
        cmocka_unit_test(contents_that_cannot_be_are_refused_when_opened),
        cmocka_unit_test(a_check_finds_codes_and_errors_that_are_not_true),
        cmocka_unit_test(an_index_without_them_says_so),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
