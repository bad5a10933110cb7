/* Disk indexes of DiskANN for inner products: rows divided by the largest norm, with a coordinate more, in its nodes and in its
 * codes. The rows come back, walks over the codes rank as DiskANN ranks, all goes out again, and a norm that does not belong
 * to the set is named. */
#include "index/index.h"
#include "support/diskann_set.h"
#include "support/foreign.h"
#include "support/oracle.h"
#include "support/sample.h"

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
enum { N = 300, DIM = 12, WIDE = DIM + 1, CHUNKS = 3, NQ = 20, K = 5, NODE_BYTES = 88, A_SECTOR = 46 }; /* of the golden set */

static int setup(void **state) { return device_setup(state) || scratch_open(state); }
static int teardown(void **state) { return device_teardown(state) || scratch_close(state); }

static struct vic_index *opened(const char *path, enum vic_metric metric) {
    const struct vic_open_options options = {.size = sizeof options, .metric = metric, .check = 1};
    struct vic_index *index = NULL;
    must(vic_index_open(test_device, path, &options, &index));
    return index;
}

static void save(const struct vic_index *index, const char *name, const char *format) {
    const struct vic_save_options options = {.size = sizeof options, .format = format};
    must(vic_index_save(index, scratch_path(name), &options));
}

static int32_t chunks_of(const struct vic_index *index) {
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    return info.pq_chunks;
}

static const char *const ends[] = {"_disk.index", "_disk.index_max_base_norm.bin", "_metadata.bin", "_pq_pivots.bin",
                                   "_pq_compressed.bin"};
enum { ENDS = sizeof ends / sizeof *ends };
static const char norm_end[] = "x_disk.index_max_base_norm.bin", metadata_end[] = "x_metadata.bin";

/* The golden set as x; the path to open. */
static const char *golden_copy(void) {
    for (int i = 0; i < ENDS; i++) {
        char from[64], to[64];
        (void)snprintf(from, sizeof from, GOLDEN "ip%s", ends[i]);
        (void)snprintf(to, sizeof to, "x%s", ends[i]);
        file_copy(from, to);
    }
    return scratch_path("x_disk.index");
}

/* The vector of a node as the file has it. */
static const float *node_vector(const struct blob *disk, int64_t node) {
    return (const float *)(const void *)(disk->bytes + (1 + node / A_SECTOR) * 4096 + node % A_SECTOR * NODE_BYTES);
}

static void check_close(double found, double right) {
    if (!(fabs(found - right) <= 1e-5 * fabs(right) + 1e-9)) fail_msg("expected %.9g, found %.9g", right, found);
}

/* ---- adopted */

static void codes_stand_for_the_rows_with_a_coordinate_more(void **state) {
    (void)state;
    struct vic_index *index = opened(GOLDEN "ip_disk.index", 0);
    struct blob disk = blob_read(GOLDEN "ip_disk.index"), codes = blob_read(GOLDEN "ip_pq_compressed.bin");
    struct blob norm = blob_read(GOLDEN "ip_disk.index_max_base_norm.bin");
    const struct graph_product *product = index->graph.product;
    assert_int_equal(index->corpus.rows.metric, VIC_DOT);
    assert_int_equal(chunks_of(index), CHUNKS);
    assert_memory_equal(&product->pq.parts.max_norm, norm.bytes + 8, 4);
    assert_memory_equal(product->codes, codes.bytes + 8, N * CHUNKS);
    double mean = 0, largest = 0;
    for (int64_t i = 0; i < N; i++) {
        const float *right = node_vector(&disk, i);
        float decoded[WIDE], row[WIDE];
        double error = 0;
        pq_decode(&product->pq, codes.bytes + 8 + i * CHUNKS, decoded);
        pq_row_load(&index->corpus.rows, product->pq.parts.max_norm, i, row);
        for (int j = 0; j < WIDE; j++) {
            error += pow((double)right[j] - (double)decoded[j], 2);
            /* of the longest row a coordinate below the square root of what float32 can tell */
            assert_true(fabsf(row[j] - right[j]) <= (j < DIM ? 2e-7f * fabsf(right[j]) : 4e-4f));
        }
        mean += error / (double)N, largest = error > largest ? error : largest;
    }
    assert_true(fabs(product->error.mean - mean) <= 1e-3 * mean);
    assert_true(fabs(product->error.largest - largest) <= 1e-3 * largest);
    blob_free(&disk), blob_free(&codes), blob_free(&norm);
    vic_index_free(index);
}

/* |query / its length, and 0 - what the code stands for|^2, whatever the query's length. */
static void distances_are_those_that_diskann_ranks_by(void **state) {
    (void)state;
    static float room[CHUNKS * PQ_CENTRES + 2 * WIDE];
    static const float lengths[] = {1, 1e-30f, 3e30f, 0};
    struct vic_index *index = opened(GOLDEN "ip_disk.index", 0);
    const struct graph_product *product = index->graph.product;
    struct random random = {3};
    uint32_t rows[N];
    for (uint32_t i = 0; i < N; i++) rows[i] = i;
    assert_true(pq_table_room(&product->pq) <= (int64_t)(sizeof room / sizeof *room));
    for (int q = 0; q < NQ; q++) {
        float query[DIM], found[N];
        double sum = 0;
        struct pq_table table;
        for (int j = 0; j < DIM; j++) query[j] = random_unit(&random) * lengths[q % 4];
        for (int j = 0; j < DIM; j++) sum += (double)query[j] * (double)query[j];
        pq_table_fill(&product->pq, VIC_DOT, VIC_F32, query, room, &table);
        pq_distances(&table, product->codes, CHUNKS, rows, N, found);
        for (int i = 0; i < N; i++) {
            float decoded[WIDE];
            pq_decode(&product->pq, product->codes + i * CHUNKS, decoded);
            double right = pow((double)decoded[DIM], 2);
            for (int j = 0; j < DIM; j++) right += pow((sum > 0 ? (double)query[j] / sqrt(sum) : 0) - (double)decoded[j], 2);
            check_close((double)found[i], right);
        }
    }
    vic_index_free(index);
}

static void a_walk_over_its_codes_finds_what_diskann_found(void **state) {
    (void)state;
    golden_walk_agrees("ip");
}

static void codes_and_norm_go_out_as_they_came_in(void **state) {
    (void)state;
    struct vic_index *index = opened(GOLDEN "ip_disk.index", 0), *again;
    struct golden_answers first, second;
    golden_ask(index, "ip", VIC_CODES_PQ, &first);
    save(index, "a.vic", NULL);
    again = opened(scratch_path("a.vic"), 0);
    golden_ask(again, "ip", VIC_CODES_PQ, &second);
    assert_memory_equal(&first, &second, sizeof first);
    save(again, "b.vic", NULL);
    check_same_files(scratch_path("a.vic"), scratch_path("b.vic"));
    save(again, "y_disk.index", "diskann-disk");
    vic_index_free(again);
    for (int i = 1; i < ENDS; i++) {
        char from[64], to[64];
        (void)snprintf(from, sizeof from, GOLDEN "ip%s", ends[i]);
        (void)snprintf(to, sizeof to, "y%s", ends[i]);
        check_same_files(from, scratch_path(to));
    }
    again = opened(scratch_path("y_disk.index"), 0);
    assert_memory_equal(again->graph.neighbours, index->graph.neighbours, (size_t)(N * index->graph.degree) * 4);
    vic_index_free(again);
    vic_index_free(index);
    scratch_clear();
}

/* Ours for inner products, which are of rows as they are, do not suit DiskANN: those it gets, and gives back, are of others. */
static void rows_that_never_were_diskanns_get_codes_of_that_form(void **state) {
    (void)state;
    const struct vic_graph_options graph = {.size = sizeof graph, .force = 1, .pq_chunks = 4};
    const struct vic_build_options options = {.size = sizeof options, .metric = VIC_DOT, .graph = &graph, .dtype = VIC_F16};
    struct blob data = blob_read(GOLDEN "ip.data");
    const struct vic_matrix rows = matrix_of(data.bytes + 8, N, DIM, VIC_F32);
    struct vic_index *index = NULL;
    must(vic_index_build(test_device, &rows, &options, &index));
    assert_true(index->graph.product->pq.parts.max_norm == 0);
    save(index, "x_disk.index", "diskann-disk");
    vic_index_free(index);
    index = opened(scratch_path("x_disk.index"), 0);
    const struct graph_product *product = index->graph.product;
    assert_int_equal(product->pq.parts.dim, WIDE);
    assert_int_equal(product->pq.parts.chunks, WIDE);
    assert_true(product->pq.parts.max_norm > 40 && product->error.mean < 1e-4);
    struct golden_answers exact, found;
    golden_ask(index, "ip", 0, &exact);
    golden_ask(index, "ip", VIC_CODES_PQ, &found);
    assert_memory_equal(exact.ids, found.ids, sizeof exact.ids);
    vic_index_free(index);
    blob_free(&data);
    scratch_clear();
}

static void codes_say_nothing_of_other_metrics(void **state) {
    (void)state;
    for (enum vic_metric metric = VIC_COSINE; metric <= VIC_L2; metric++) {
        struct vic_index *index = opened(GOLDEN "ip_disk.index", metric);
        assert_int_equal(index->corpus.rows.metric, metric);
        assert_int_equal(chunks_of(index), 0);
        vic_index_free(index);
    }
}

/* Vectors behind nodes of codes were divided, too. */
static void vectors_behind_the_nodes_come_back_unscaled(void **state) {
    (void)state;
    enum { ROWS = 40, REORDER = 5 };
    const struct diskann_sample sample = {.n = ROWS, .dim = 6, .dtype = VIC_U8, .room = 5, .reorder_dim = REORDER};
    const float norm = 8, vector[REORDER] = {0.5f, -0.5f, 0.25f, 0.25f, 0.6123724f};
    const uint8_t codes[ROWS * 2] = {1};
    const char *path = diskann_disk_write(&sample, "r");
    struct blob disk = blob_read(path);
    for (size_t i = 0; i < ROWS; i++) memcpy(disk.bytes + disk.size - 4096 + i * sizeof vector, vector, sizeof vector);
    blob_write(path, disk.bytes, disk.size);
    bin_write("r_disk.index_max_base_norm.bin", 1, 1, &norm, sizeof norm);
    bin_write("r_pq_compressed.bin", ROWS, 2, codes, sizeof codes);
    diskann_pivots_write("r_pq_pivots.bin", REORDER, 2);
    file_copy(scratch_path("r_pq_pivots.bin"), "r_disk.index_pq_pivots.bin");
    struct vic_index *index = opened(path, 0);
    const float right[] = {4, -4, 2, 2};
    assert_int_equal(index->corpus.rows.dim, 4);
    for (size_t i = 0; i < ROWS; i++)
        assert_memory_equal((const char *)index->corpus.rows.data + i * sizeof right, right, sizeof right);
    assert_int_equal(chunks_of(index), 2);
    vic_index_free(index);
    diskann_pivots_write("r_pq_pivots.bin", 4, 2);
    diskann_refused(path, 0, VIC_FORMAT,
                    "r_pq_pivots.bin: expected pivots of dim 5, as the rows have with one coordinate more, found dim 4");
    blob_free(&disk);
    scratch_clear();
}

/* ---- refusals */

static void a_norm_that_is_none_is_refused(void **state) {
    (void)state;
    static const uint32_t bits[] = {0, 0x80000000u, 0xc2280000u, 0x7f800000u, 0xff800000u, 0x7fc00000u};
    static const char *const words[] = {"00000000", "80000000", "c2280000", "7f800000", "ff800000", "7fc00000"};
    const char *path = golden_copy();
    const float two[] = {40, 41};
    for (int i = 0; i < 6; i++) {
        char says[128];
        bin_write(norm_end, 1, 1, &bits[i], 4);
        (void)snprintf(says, sizeof says, "%s: expected a finite norm above 0, found the bits %s", norm_end, words[i]);
        diskann_refused(path, 0, VIC_FORMAT, says);
    }
    bin_write(norm_end, 2, 1, two, 8);
    diskann_refused(path, 0, VIC_FORMAT, "x_disk.index_max_base_norm.bin: expected one number, found 2 rows of 1");
    bin_write(norm_end, 1, 1, two, 8);
    diskann_refused(path, 0, VIC_FORMAT, "max_base_norm.bin: expected 8 bytes and 1 rows of 1 values of 4 bytes, found 16");
    struct blob norm = blob_read(GOLDEN "ip_disk.index_max_base_norm.bin");
    for (size_t size = 0; size < norm.size; size++) {
        blob_write(scratch_path(norm_end), norm.bytes, size);
        diskann_refused(path, 0, VIC_FORMAT, norm_end);
    }
    blob_free(&norm);
    scratch_clear();
}

static void a_norm_and_the_set_contradict_each_other(void **state) {
    (void)state;
    const char *path = golden_copy();
    uint64_t words[] = {0, 0, N, DIM};
    const float norm = 2;
    blob_write(scratch_path(metadata_end), (const unsigned char *)words, sizeof words);
    diskann_refused(path, 0, VIC_FORMAT,
                    "max_base_norm.bin: expected no norm, since _metadata.bin beside it says l2, found 40.77");
    words[1] = 1, words[3] = WIDE;
    blob_write(scratch_path(metadata_end), (const unsigned char *)words, sizeof words);
    diskann_refused(path, 0, VIC_FORMAT, "expected dim 13, as _metadata.bin beside it says, found 12");
    (void)golden_copy();
    assert_int_equal(remove(scratch_path(norm_end)), 0);
    diskann_refused(path, 0, VIC_NOT_FOUND,
                    "x_disk.index: expected _max_base_norm.bin beside it, since _metadata.bin says inner product of dim 12");
    (void)golden_copy();
    file_copy(GOLDEN "f_pq_pivots.bin", "x_pq_pivots.bin"); /* of 12 dimensions */
    diskann_refused(path, 0, VIC_FORMAT, "expected pivots of dim 13 in _pq_pivots.bin beside it, found dim 12");
    scratch_clear();
    file_copy(GOLDEN "f_disk.index", "x_disk.index"); /* vectors that were never divided */
    bin_write(norm_end, 1, 1, &norm, 4);
    diskann_refused(path, 0, VIC_FORMAT,
                    "x_disk.index: expected vectors of length 1, since _max_base_norm.bin lies beside it, found length");
    scratch_clear();
}

/* In a file of ours. */
static void a_section_with_the_norm_is_held_against_the_others(void **state) {
    (void)state;
    static const uint32_t wrong[] = {0, 0x7fc00000u, 0xc2280000u, 0x7f800000u};
    struct vic_index *index = opened(GOLDEN "ip_disk.index", 0);
    size_t size = 0;
    save(index, "a.vic", NULL);
    vic_index_free(index);
    struct blob whole = blob_read(scratch_path("a.vic"));
    for (int i = 0; i < 4; i++) {
        struct blob blob = blob_copy(&whole);
        memcpy(section_bytes(&blob, "pq_max_norm", &size), &wrong[i], 4);
        page_seal(&blob);
        blob_refused(test_device, &blob, VIC_FORMAT, "expected section pq_max_norm to have a finite norm above 0");
        blob_free(&blob);
    }
    struct blob blob = blob_copy(&whole);
    section_replace(&blob, "pq_max_norm", (const unsigned char *)wrong, 8);
    page_seal(&blob);
    blob_refused(test_device, &blob, VIC_FORMAT, "expected 4 bytes in section pq_max_norm, found 8");
    blob_free(&blob);
    blob_free(&whole);
    scratch_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_stand_for_the_rows_with_a_coordinate_more),
        cmocka_unit_test(distances_are_those_that_diskann_ranks_by),
        cmocka_unit_test(a_walk_over_its_codes_finds_what_diskann_found),
        cmocka_unit_test(codes_and_norm_go_out_as_they_came_in),
        cmocka_unit_test(rows_that_never_were_diskanns_get_codes_of_that_form),
        cmocka_unit_test(codes_say_nothing_of_other_metrics),
        cmocka_unit_test(vectors_behind_the_nodes_come_back_unscaled),
        cmocka_unit_test(a_norm_that_is_none_is_refused),
        cmocka_unit_test(a_norm_and_the_set_contradict_each_other),
        cmocka_unit_test(a_section_with_the_norm_is_held_against_the_others),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
