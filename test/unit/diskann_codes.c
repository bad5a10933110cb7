/* The pivots and codes beside a disk index of DiskANN become the product codes of its graph, and go out again as they came;
 * files that disagree are named; codes of other rows than the index has are left alone. */
#include "index/index.h"
#include "support/diskann_set.h"
#include "support/foreign.h"
#include "support/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#define GOLDEN DISKANN_GOLDEN
enum { N = 300, DIM = 12, CHUNKS = 3, CENTRES = 256 }; /* of the golden set */
enum { CENTRES_AT = 4096 + 8, CENTROID_AT = CENTRES_AT + CENTRES * DIM * 4 + 8, CHUNKS_AT = CENTROID_AT + DIM * 4 + 8 };

static int setup(void **state) { return device_setup(state) || scratch_open(state); }
static int teardown(void **state) { return device_teardown(state) || scratch_close(state); }

/* With whether codes name centres and the error is theirs looked at. */
static struct vic_index *opened(const char *path, enum vic_metric metric) {
    const struct vic_open_options options = {.size = sizeof options, .metric = metric, .check = 1};
    struct vic_index *index = NULL;
    must(vic_index_open(test_device, path, &options, &index));
    return index;
}

static void refused(const char *path, enum vic_status status, const char *words) { diskann_refused(path, 0, status, words); }

static void save(const struct vic_index *index, const char *name, const char *format) {
    const struct vic_save_options options = {.size = sizeof options, .format = format};
    must(vic_index_save(index, scratch_path(name), &options));
}

static struct vic_index_info info_of(const struct vic_index *index) {
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    return info;
}

static int32_t chunks_of(const char *path, enum vic_metric metric) {
    struct vic_index *index = opened(path, metric);
    int32_t chunks = info_of(index).pq_chunks;
    vic_index_free(index);
    return chunks;
}

/* The golden set as x; the path to open. */
static const char *golden_copy(void) {
    file_copy(GOLDEN "f_disk.index", "x_disk.index");
    file_copy(GOLDEN "f_pq_pivots.bin", "x_pq_pivots.bin");
    file_copy(GOLDEN "f_pq_compressed.bin", "x_pq_compressed.bin");
    return scratch_path("x_disk.index");
}

/* ---- adopted */

static void check_close(double found, double right) {
    if (!(fabs(found - right) <= 1e-5 * fabs(right))) fail_msg("expected %.9g, found %.9g", right, found);
}

/* From the file's own bytes: a code is a pivot for each chunk, and the centroid; the error is the distance from it. */
static void codes_stand_for_their_pivots_and_the_centroid(void **state) {
    (void)state;
    struct vic_index *index = opened(GOLDEN "f_disk.index", 0);
    struct blob pivots = blob_read(GOLDEN "f_pq_pivots.bin"), codes = blob_read(GOLDEN "f_pq_compressed.bin");
    const float *centres = (const float *)(const void *)(pivots.bytes + CENTRES_AT);
    const float *centroid = (const float *)(const void *)(pivots.bytes + CENTROID_AT), *rows = index->corpus.rows.data;
    const struct vic_index_info info = info_of(index);
    double mean = 0, largest = 0;
    assert_int_equal(info.pq_chunks, CHUNKS);
    assert_int_equal(info.pq_centres, CENTRES);
    assert_memory_equal(index->graph.product->codes, codes.bytes + 8, N * CHUNKS);
    for (int64_t i = 0; i < N; i++) {
        const uint8_t *code = codes.bytes + 8 + i * CHUNKS;
        float decoded[DIM];
        double error = 0;
        pq_decode(&index->graph.product->pq, code, decoded);
        for (int64_t j = 0; j < DIM; j++) {
            float right = centroid[j] + centres[code[j / 4] * DIM + j];
            assert_true(decoded[j] == right);
            error += pow((double)rows[i * DIM + j] - (double)right, 2);
        }
        mean += error / (double)N, largest = error > largest ? error : largest;
    }
    check_close(info.pq_error, mean);
    check_close(info.pq_error_largest, largest);
    blob_free(&pivots), blob_free(&codes);
    vic_index_free(index);
}

static void a_walk_over_its_codes_finds_what_diskann_found(void **state) {
    (void)state;
    golden_walk_agrees("f");
}

static void codes_go_out_as_they_came_in(void **state) {
    (void)state;
    struct vic_index *index = opened(GOLDEN "f_disk.index", 0);
    struct golden_answers first, again;
    golden_ask(index, "f", VIC_CODES_PQ, &first);
    save(index, "a.vic", NULL);
    vic_index_free(index);
    index = opened(scratch_path("a.vic"), 0);
    golden_ask(index, "f", VIC_CODES_PQ, &again);
    assert_memory_equal(&first, &again, sizeof first);
    save(index, "y_disk.index", "diskann-disk");
    vic_index_free(index);
    check_same_files(GOLDEN "f_disk.index", scratch_path("y_disk.index"));
    check_same_files(GOLDEN "f_pq_pivots.bin", scratch_path("y_pq_pivots.bin"));
    check_same_files(GOLDEN "f_pq_compressed.bin", scratch_path("y_pq_compressed.bin"));
    assert_false(scratch_has("y_pq_pivots.bin_rotation_matrix.bin"));
    scratch_clear();
}

/* Codes lie for all nodes, the frozen one last. */
static void a_frozen_node_has_a_code_and_no_row(void **state) {
    (void)state;
    const struct diskann_sample sample = {.n = 40, .dim = 6, .dtype = VIC_F32, .room = 5, .start = 39, .frozen = 1};
    const char *path = diskann_disk_write(&sample, "z");
    uint8_t codes[80];
    for (int i = 0; i < 80; i++) codes[i] = (uint8_t)(3 * i);
    diskann_pivots_write("z_pq_pivots.bin", 6, 2);
    bin_write("z_pq_compressed.bin", 40, 2, codes, sizeof codes);
    struct vic_index *index = opened(path, 0);
    assert_int_equal(index->corpus.rows.n, 39);
    assert_memory_equal(index->graph.product->codes, codes, 78);
    vic_index_free(index);
    bin_write("z_pq_compressed.bin", 39, 2, codes, 78);
    refused(path, VIC_FORMAT, "expected codes of 40 nodes in _pq_compressed.bin beside it, found 39");
    scratch_clear();
}

static void pivots_are_of_the_vectors_behind_the_nodes(void **state) {
    (void)state;
    const struct diskann_sample sample = {.n = 40, .dim = 6, .dtype = VIC_U8, .room = 5, .start = 3, .reorder_dim = 100};
    const char *path = diskann_disk_write(&sample, "r");
    const uint8_t codes[80] = {1};
    bin_write("r_pq_compressed.bin", 40, 2, codes, sizeof codes);
    diskann_pivots_write("r_pq_pivots.bin", 100, 2);
    file_copy(scratch_path("r_pq_pivots.bin"), "r_disk.index_pq_pivots.bin");
    assert_int_equal(chunks_of(path, 0), 2);
    diskann_pivots_write("r_pq_pivots.bin", 6, 2);
    refused(path, VIC_FORMAT, "r_pq_pivots.bin: expected pivots of dim 100, as the rows have, found dim 6");
    scratch_clear();
}

/* ---- turned */

typedef float square[DIM][DIM];

static void identity(square matrix) {
    for (int i = 0; i < DIM; i++)
        for (int j = 0; j < DIM; j++) matrix[i][j] = i == j;
}

/* Dimensions of a chunk in another order. */
static void permutation(square matrix) {
    memset(matrix, 0, sizeof(square));
    for (int i = 0; i < DIM; i++) matrix[i][i / 4 * 4 + (i + 1) % 4] = 1;
}

/* A mirror, I - 2 v v' / |v|^2: every dimension has a part of every other. */
static void mirror(square matrix) {
    double length = 0;
    for (int i = 0; i < DIM; i++) length += (i + 1) * (i + 1);
    for (int i = 0; i < DIM; i++)
        for (int j = 0; j < DIM; j++) matrix[i][j] = (float)((i == j) - 2.0 * (i + 1) * (j + 1) / length);
}

static void turn(const square matrix, const float *from, float *to) {
    for (int j = 0; j < DIM; j++) {
        double sum = 0;
        for (int i = 0; i < DIM; i++) sum += (double)from[i] * (double)matrix[i][j];
        to[j] = (float)sum;
    }
}

static void rotation_write(const square matrix) {
    bin_write("x_pq_pivots.bin_rotation_matrix.bin", DIM, DIM, matrix, sizeof(square));
}

/* The same centres in another order of each chunk's dimensions, and the order as a rotation: the same codes, the same walk. */
static void a_rotation_of_centres_that_were_turned_changes_nothing(void **state) {
    (void)state;
    void (*const makes[])(square) = {identity, permutation};
    struct golden_answers plain, turned;
    struct vic_index *index = opened(GOLDEN "f_disk.index", 0);
    const double error = info_of(index).pq_error;
    golden_ask(index, "f", VIC_CODES_PQ, &plain);
    vic_index_free(index);
    for (size_t m = 0; m < 2; m++) {
        square matrix;
        makes[m](matrix);
        const char *path = golden_copy();
        struct blob pivots = blob_read(GOLDEN "f_pq_pivots.bin");
        for (int c = 0; c < CENTRES; c++) {
            float to[DIM], *centre = (float *)(void *)(pivots.bytes + CENTRES_AT) + c * DIM;
            turn((const float(*)[DIM])matrix, centre, to);
            memcpy(centre, to, sizeof to);
        }
        blob_write(scratch_path("x_pq_pivots.bin"), pivots.bytes, pivots.size);
        blob_free(&pivots);
        rotation_write((const float(*)[DIM])matrix);
        index = opened(path, 0);
        assert_non_null(index->graph.product->pq.parts.rotation);
        golden_ask(index, "f", VIC_CODES_PQ, &turned);
        assert_memory_equal(&plain, &turned, sizeof plain);
        check_close(info_of(index).pq_error, error);
        vic_index_free(index);
        scratch_clear();
    }
}

/* An index of the rows as the rotation turns them, with codes of its own. */
static struct vic_index *turned_by_hand(const square matrix) {
    const struct vic_graph_options graph = {.size = sizeof graph, .force = 1, .pq_chunks = 5};
    const struct vic_build_options options = {.size = sizeof options, .metric = VIC_L2, .graph = &graph};
    struct blob data = blob_read(GOLDEN "f.data");
    float *turned = take(N * DIM * 4);
    struct vic_index *index = NULL;
    for (int i = 0; i < N; i++) turn(matrix, (const float *)(const void *)(data.bytes + 8) + i * DIM, turned + i * DIM);
    const struct vic_matrix rows = matrix_of(turned, N, DIM, VIC_F32);
    must(vic_index_build(test_device, &rows, &options, &index));
    blob_free(&data);
    free(turned);
    return index;
}

static void a_rotation_is_what_turning_the_rows_by_hand_is(void **state) {
    (void)state;
    square matrix;
    mirror(matrix);
    const float(*rotation)[DIM] = (const float(*)[DIM])matrix;
    struct vic_index *right = turned_by_hand(rotation);
    const struct graph_product *product = right->graph.product;
    float centroid[DIM], decoded[DIM], back[DIM], hand[DIM];
    save(right, "x_disk.index",
         "diskann-disk"); /* its pivots and codes; then the rows as they were, and where they come from */
    file_copy(GOLDEN "f_disk.index", "x_disk.index");
    file_copy(GOLDEN "f_metadata.bin", "x_metadata.bin");
    struct blob pivots = blob_read(scratch_path("x_pq_pivots.bin"));
    turn(rotation, product->pq.parts.centroid, centroid); /* a mirror undoes itself */
    memcpy(pivots.bytes + CENTROID_AT, centroid, sizeof centroid);
    blob_write(scratch_path("x_pq_pivots.bin"), pivots.bytes, pivots.size);
    rotation_write(rotation);
    struct vic_index *index = opened(scratch_path("x_disk.index"), 0);
    check_close(info_of(index).pq_error, info_of(right).pq_error);
    check_close(info_of(index).pq_error_largest, info_of(right).pq_error_largest);
    for (int i = 0; i < N; i++) {
        pq_decode(&product->pq, product->codes + i * 5, hand);
        pq_decode(&index->graph.product->pq, index->graph.product->codes + i * 5, decoded);
        turn(rotation, decoded, back);
        for (int j = 0; j < DIM; j++) assert_true(fabsf(back[j] - hand[j]) <= 1e-5f * (1 + fabsf(hand[j])));
    }
    struct golden_answers exact, found;
    golden_ask(index, "f", 0, &exact);
    golden_ask(index, "f", VIC_CODES_PQ, &found);
    assert_memory_equal(exact.ids, found.ids, sizeof exact.ids);
    save(index, "y_disk.index", "diskann-disk");
    check_same_files(scratch_path("x_pq_pivots.bin"), scratch_path("y_pq_pivots.bin"));
    check_same_files(scratch_path("x_pq_compressed.bin"), scratch_path("y_pq_compressed.bin"));
    check_same_files(scratch_path("x_pq_pivots.bin_rotation_matrix.bin"), scratch_path("y_pq_pivots.bin_rotation_matrix.bin"));
    /* Codes without one may not lie beside it. */
    const struct vic_save_options options = {.size = sizeof options, .format = "diskann-disk"};
    assert_int_equal(vic_index_save(right, scratch_path("y_disk.index"), &options), VIC_ARGUMENT);
    assert_non_null(strstr(vic_last_error(), "y_pq_pivots.bin_rotation_matrix.bin"));
    blob_free(&pivots);
    vic_index_free(index);
    vic_index_free(right);
    scratch_clear();
}

/* ---- left alone */

static void codes_of_other_rows_are_left_alone(void **state) {
    (void)state;
    assert_int_equal(chunks_of(GOLDEN "f_disk.index", VIC_COSINE), 0);
    assert_int_equal(chunks_of(GOLDEN "f_disk.index", VIC_DOT), CHUNKS); /* the rows are the same */
    struct vic_index *index = opened(GOLDEN "f", VIC_COSINE);
    save(index, "c_disk.index", "diskann-disk"); /* unit vectors in the nodes, and codes of them */
    vic_index_free(index);
    index = opened(scratch_path("c_disk.index"), 0);
    assert_int_equal(index->corpus.rows.metric, VIC_COSINE);
    assert_int_equal(info_of(index).pq_chunks, DIM);
    assert_true(info_of(index).pq_error < 0.1);
    vic_index_free(index);
    scratch_clear();
}

static void a_set_without_them_opens_as_before(void **state) {
    (void)state;
    const char *path = golden_copy();
    assert_int_equal(remove(scratch_path("x_pq_compressed.bin")), 0);
    assert_int_equal(chunks_of(path, 0), 0);
    file_copy(GOLDEN "f_pq_compressed.bin", "x_pq_compressed.bin");
    assert_int_equal(remove(scratch_path("x_pq_pivots.bin")), 0);
    assert_int_equal(chunks_of(path, 0), 0);
    const float centres[CENTRES * DIM] = {0};
    bin_write("x_pq_pivots.bin", CENTRES, DIM, centres, sizeof centres); /* as in 2021, the rest in other files */
    assert_int_equal(chunks_of(path, 0), 0);
    const struct diskann_sample wide = {.n = 20, .dim = 1100, .dtype = VIC_F32, .room = 16, .start = 7};
    uint8_t *codes = take(20 * 1100);
    path = diskann_disk_write(&wide, "w");
    for (uint32_t chunks = 1024; chunks <= 1025; chunks++) { /* the most that a graph is walked over */
        diskann_pivots_write("w_pq_pivots.bin", 1100, chunks);
        bin_write("w_pq_compressed.bin", 20, chunks, codes, 20 * chunks);
        assert_int_equal(chunks_of(path, 0), chunks == 1024 ? 1024 : 0);
    }
    free(codes);
    scratch_clear();
}

/* ---- refusals */

/* The golden set with one file of it changed at `at`, or cut there. */
static void check_changed(const char *file, size_t at, const void *bytes, size_t count, const char *words) {
    const char *path = golden_copy();
    square matrix;
    identity(matrix);
    rotation_write((const float(*)[DIM])matrix);
    struct blob blob = blob_read(scratch_path(file));
    if (bytes) memcpy(blob.bytes + at, bytes, count);
    blob_write(scratch_path(file), blob.bytes, bytes ? blob.size : at);
    blob_free(&blob);
    refused(path, VIC_FORMAT, words);
    scratch_clear();
}

static void files_that_disagree_are_named(void **state) {
    (void)state;
    static const char pivots[] = "x_pq_pivots.bin", codes[] = "x_pq_compressed.bin";
    static const char rotation[] = "x_pq_pivots.bin_rotation_matrix.bin";
    const uint32_t swapped[] = {100, 9}, thin[] = {N * CHUNKS, 1}, infinity = 0x7f800000u, four = 4, flat[] = {9, 16};
    const float two = 2;
    check_changed(codes, 907, NULL, 0, "x_pq_compressed.bin: expected 8 bytes and 300 rows of 3 values");
    check_changed(codes, 0, swapped, 8, "expected codes of 300 nodes in _pq_compressed.bin beside it, found 100");
    check_changed(codes, 0, thin, 8, "expected codes of 300 nodes");
    check_changed(pivots, 16471, NULL, 0, "x_pq_pivots.bin: expected 16472 bytes");
    check_changed(pivots, CENTRES_AT + 40, &infinity, 4, "x_pq_pivots.bin: expected finite centres");
    check_changed(pivots, CENTROID_AT, &infinity, 4, "x_pq_pivots.bin: expected finite centroid");
    check_changed(pivots, CHUNKS_AT + 8, &four, 4, "expected chunk offsets that rise from 0 to 12, found 4 at chunk 2");
    check_changed(rotation, 583, NULL, 0, "matrix.bin: expected 8 bytes and 12 rows of 12 values of 4 bytes, found 583");
    check_changed(rotation, 0, flat, 8,
                  "matrix.bin: expected a rotation of 12 x 12, as _pq_pivots.bin beside it has, found 9 x 16");
    check_changed(rotation, 8 + 13 * 4 * 3, &two, 4, "matrix.bin: expected a rotation, whose rows are of length 1, found");
    check_changed(rotation, 8, &infinity, 4, "found length inf in row 0");
    const char *path = golden_copy();
    const uint8_t bytes[N * 4] = {0};
    bin_write(codes, N, 4, bytes, sizeof bytes);
    refused(path, VIC_FORMAT,
            "x_disk.index: expected codes of 3 chunks in _pq_compressed.bin beside it, as _pq_pivots.bin has, found 4");
    diskann_pivots_write(pivots, 11, 4);
    refused(path, VIC_FORMAT, "expected pivots of dim 12 in _pq_pivots.bin beside it, found dim 11");
    scratch_clear();
}

/* Any bytes: refused by a sentence, or an index that is right in itself. */
static void check_survives(const char *path) {
    const struct vic_open_options options = {.size = sizeof options, .check = 1};
    struct vic_index *index = NULL;
    struct golden_answers answers;
    if (vic_index_open(test_device, path, &options, &index) == VIC_OK)
        golden_ask(index, "f", VIC_CODES_PQ, &answers);
    else
        assert_true(!index && vic_last_error()[0] != '\0');
    vic_index_free(index);
}

static void changed_bytes_are_refused_or_walked_over(void **state) {
    (void)state;
    static const char *const files[] = {"x_pq_pivots.bin", "x_pq_compressed.bin", "x_pq_pivots.bin_rotation_matrix.bin"};
    const char *path = golden_copy();
    struct random random = {7};
    square matrix;
    identity(matrix);
    rotation_write((const float(*)[DIM])matrix);
    for (int file = 0; file < 3; file++) {
        struct blob whole = blob_read(scratch_path(files[file]));
        for (int round = 0; round < 200; round++) {
            struct blob changed = blob_copy(&whole);
            size_t heads[] = {64, changed.size}; /* headers as often as what follows */
            changed.bytes[random_next(&random) % heads[round % 2]] = (unsigned char)random_next(&random);
            blob_write(scratch_path(files[file]), changed.bytes, changed.size);
            check_survives(path);
            blob_free(&changed);
        }
        for (size_t size = 0; size < whole.size; size += 1 + whole.size / 200) {
            blob_write(scratch_path(files[file]), whole.bytes, size);
            refused(path, VIC_FORMAT, files[file]);
        }
        blob_write(scratch_path(files[file]), whole.bytes, whole.size);
        blob_free(&whole);
    }
    assert_int_equal(chunks_of(path, 0), CHUNKS);
    scratch_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_stand_for_their_pivots_and_the_centroid),
        cmocka_unit_test(a_walk_over_its_codes_finds_what_diskann_found),
        cmocka_unit_test(codes_go_out_as_they_came_in),
        cmocka_unit_test(a_frozen_node_has_a_code_and_no_row),
        cmocka_unit_test(pivots_are_of_the_vectors_behind_the_nodes),
        cmocka_unit_test(a_rotation_of_centres_that_were_turned_changes_nothing),
        cmocka_unit_test(a_rotation_is_what_turning_the_rows_by_hand_is),
        cmocka_unit_test(codes_of_other_rows_are_left_alone),
        cmocka_unit_test(a_set_without_them_opens_as_before),
        cmocka_unit_test(files_that_disagree_are_named),
        cmocka_unit_test(changed_bytes_are_refused_or_walked_over),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
