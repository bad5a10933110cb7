/* DiskANN's files: what DiskANN itself wrote is read and named, every generation of the layouts, and every way to be wrong. */
#include "data/diskann.h"
#include "support/diskann_set.h"
#include "support/foreign.h"
#include "support/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#define GOLDEN "test/data/diskann/"

static const struct diskann_sample small = {.n = 40, .dim = 6, .dtype = VIC_F32, .room = 5, .start = 3};

static void check_note(const char *path, const char *format, const char *words) {
    struct vic_file_info info = {.size = sizeof info};
    must(vic_file_info(path, &info));
    assert_string_equal(info.format, format);
    if (!strstr(info.note, words)) print_message("\"%s\" should hold \"%s\"\n", info.note, words);
    assert_non_null(strstr(info.note, words));
}

/* ---- what DiskANN wrote */

static void a_disk_index_gives_the_rows_it_was_built_from(void **state) {
    (void)state;
    static const struct {
        const char *disk, *data;
        enum vic_dtype dtype;
        int64_t dim;
    } sets[] = {{GOLDEN "f_disk.index", GOLDEN "f.data", VIC_F32, 12}, {GOLDEN "u_disk.index", GOLDEN "u.data", VIC_U8, 16}};
    for (size_t i = 0; i < 2; i++) {
        struct blob data = blob_read(sets[i].data);
        foreign_check(sets[i].disk, NULL, sets[i].dtype, 300, sets[i].dim, data.bytes + 8);
        blob_free(&data);
    }
}

/* For inner products it divides rows by the largest norm and adds a coordinate: both are undone, up to rounding. */
static void rows_for_inner_products_come_back_unscaled(void **state) {
    (void)state;
    struct vic_matrix rows = {0};
    struct blob data = blob_read(GOLDEN "ip.data");
    const float *right = (const float *)(const void *)(data.bytes + 8);
    must(foreign_read(GOLDEN "ip_disk.index", NULL, &rows));
    assert_int_equal(rows.dim, 12);
    for (int64_t i = 0; i < 300 * 12; i++) {
        float found = ((float *)rows.data)[i], off = found - right[i];
        assert_true((off < 0 ? -off : off) <= 2e-7f * (right[i] < 0 ? -right[i] : right[i]));
    }
    vic_matrix_free(&rows);
    blob_free(&data);
}

static void every_file_of_a_set_is_named_with_its_numbers(void **state) {
    (void)state;
    check_note(GOLDEN "f", "diskann-graph", "24-byte header): 300 nodes, 0 of them frozen, degree 8, start 106");
    check_note(GOLDEN "dyn", "diskann-graph", "301 nodes, 1 of them frozen, degree 10, start 300");
    check_note(GOLDEN "f_disk.index", "diskann-disk",
               "(C++ header): 300 nodes of 84 bytes, 48 nodes a sector, degree 8, medoid 106, 0 frozen");
    check_note(GOLDEN "u_disk.index", "diskann-disk", "300 nodes of 52 bytes, 78 nodes a sector, degree 8, medoid 130");
    check_note(GOLDEN "ip_disk.index", "diskann-disk", "inner product with an extra coordinate");
    check_note(GOLDEN "f_pq_pivots.bin", "diskann-pivots", "(4 offsets): 256 centres of dim 12 in 3 chunks");
    check_note(GOLDEN "f_pq_compressed.bin", "diskann-codes", "300 nodes of 3 chunks");
}

static void check_product(const char *path, int32_t chunks, const char *note) {
    struct vic_file_info info = {.size = sizeof info};
    must(vic_file_info(path, &info));
    if (strcmp(info.pq_note, note) != 0) fail_msg("%s: expected \"%s\", found \"%s\"", path, note, info.pq_note);
    assert_int_equal(info.pq_chunks, chunks);
    assert_int_equal(info.pq_centres, chunks ? 256 : 0);
}

static void what_lies_beside_a_disk_index_is_told(void **state) {
    (void)state;
    const float centres[256 * 6] = {0}, turn[36] = {1};
    const uint8_t codes[80] = {0};
    check_product(GOLDEN "f_disk.index", 3, "pivots of 4 offsets, dim 12, no rotation");
    check_product(GOLDEN "ip_disk.index", 3,
                  "pivots of 4 offsets, dim 13, one coordinate more and rows divided by 40.7722, no rotation");
    check_product(GOLDEN "u_disk.index", 0, "");
    const char *path = diskann_disk_write(&small, "x");
    bin_write("x_pq_compressed.bin", 40, 2, codes, sizeof codes);
    check_product(path, 0, "left alone: there is no _pq_pivots.bin beside _pq_compressed.bin");
    bin_write("x_pq_pivots.bin", 256, 6, centres, sizeof centres);
    check_product(path, 0, "left alone: _pq_pivots.bin is of 2021, whose other parts lie in more files");
    diskann_pivots_write("x_pq_pivots.bin", 6, 2);
    bin_write("x_pq_pivots.bin_rotation_matrix.bin", 6, 6, turn, sizeof turn);
    check_product(path, 2, "pivots of 4 offsets, dim 6, a rotation");
    diskann_pivots_write("x_pq_pivots.bin", 6, 3);
    foreign_refused(path, NULL, VIC_FORMAT,
                    "expected codes of 3 chunks in _pq_compressed.bin beside it, as _pq_pivots.bin has, found 2");
    scratch_clear();
}

static void pivots_are_read_whole(void **state) {
    (void)state;
    struct source source;
    struct diskann_pivots pivots;
    static float centres[256 * 12], centroid[12];
    uint32_t offsets[4];
    must(source_open(GOLDEN "f_pq_pivots.bin", &source));
    must(diskann_pivots_open(&source, &pivots));
    assert_int_equal(pivots.dim, 12);
    assert_int_equal(pivots.chunks, 3);
    must(diskann_pivots_read(&source, &pivots, centres, centroid, offsets));
    source_close(&source);
    const uint32_t thirds[] = {0, 4, 8, 12};
    assert_memory_equal(offsets, thirds, sizeof thirds);
    struct blob blob = blob_read(GOLDEN "f_pq_pivots.bin");
    assert_memory_equal(centres, blob.bytes + 4096 + 8, sizeof centres);
    assert_memory_equal(centroid, blob.bytes + 4096 + 8 + sizeof centres + 8, sizeof centroid);
    blob_free(&blob);
}

/* ---- every generation */

static void check_disk(const struct diskann_sample *sample, enum vic_dtype asked, enum vic_dtype dtype, int64_t dim) {
    const struct vic_reader_options options = {.size = sizeof options, .dtype = asked};
    struct diskann_sample full = *sample;
    full.dim = dim, full.dtype = dtype;
    void *rows = diskann_rows(&full);
    foreign_check(diskann_disk_write(sample, "x"), &options, dtype, sample->n - sample->frozen, dim, rows);
    free(rows);
    scratch_clear();
}

static void disk_indexes_of_every_generation_are_read(void **state) {
    (void)state;
    check_disk(&small, 0, VIC_F32, 6);
    struct diskann_sample sample = small;
    sample.form = HEADER_2021; /* says neither type nor dim */
    check_disk(&sample, VIC_F32, VIC_F32, 6);
    sample.form = HEADER_RUST, sample.extra_bytes = 8, sample.sector_bytes = 8192;
    check_disk(&sample, 0, VIC_F32, 6);
    sample = small, sample.dtype = VIC_I8;
    check_disk(&sample, VIC_I8, VIC_I8, 6);
    sample.form = HEADER_2021;
    check_disk(&sample, VIC_I8, VIC_I8, 6);
    sample = small, sample.frozen = 1, sample.start = 39;
    check_disk(&sample, 0, VIC_F32, 6);
    sample = small, sample.dtype = VIC_F16, sample.form = HEADER_RUST;
    check_disk(&sample, 0, VIC_F16, 6);
    sample = small, sample.dtype = VIC_U8, sample.reorder_dim = 100; /* ten a sector */
    check_disk(&sample, 0, VIC_F32, 100);
}

static void the_type_is_asked_for_where_nothing_tells(void **state) {
    (void)state;
    struct diskann_sample sample = small;
    sample.dtype = VIC_U8;
    const char *path = diskann_disk_write(&sample, "x");
    foreign_refused(path, NULL, VIC_TYPE, "i8 or u8 by its nodes");
    const uint64_t description[] = {2, 0, 40, 6}; /* what the Python package leaves beside it */
    blob_write(scratch_path("x_metadata.bin"), (const unsigned char *)description, sizeof description);
    must(foreign_read(path, NULL, NULL));
    sample.form = HEADER_2021;
    path = diskann_disk_write(&sample, "y");
    foreign_refused(path, NULL, VIC_TYPE, "its vectors have 6 bytes");
    scratch_clear();
}

static void a_type_that_does_not_fit_is_refused(void **state) {
    (void)state;
    const struct vic_reader_options options = {.size = sizeof options, .dtype = VIC_F32};
    struct diskann_sample sample = small;
    sample.dtype = VIC_U8, sample.dim = 16;
    foreign_refused(diskann_disk_write(&sample, "x"), &options, VIC_TYPE, "found vectors of 64 bytes as f32");
    scratch_clear();
}

/* Zero frozen nodes read as two nodes without neighbours: the longer header is the likelier one, and vectors decide. */
static void graphs_of_both_headers_are_told_apart(void **state) {
    (void)state;
    struct diskann_sample sample = small;
    struct diskann_graph graph;
    struct source source;
    for (int form = HEADER_CPP; form <= HEADER_2021; form++) {
        sample.form = (enum header_form)form;
        must(source_open(diskann_memory_write(&sample, "g"), &source));
        must(diskann_graph_open(&source, 40, &graph));
        assert_int_equal(graph.header_bytes, form == HEADER_CPP ? 24 : 16);
        assert_int_equal(graph.nodes, 40);
        assert_int_equal(graph.most_neighbours, 5);
        must(diskann_graph_open(&source, -1, &graph));
        assert_int_equal(graph.nodes, 40);
        must(diskann_graph_open(&source, 42, &graph)); /* of 42 rows with two that lead nowhere */
        assert_int_equal(graph.nodes, form == HEADER_CPP ? 42 : 40);
        source_close(&source);
    }
    check_note(scratch_path("g"), "diskann-graph", "16-byte, 2021");
    scratch_clear();
}

/* ---- wrong ones */

static void every_cut_of_a_disk_index_is_refused(void **state) {
    (void)state;
    struct blob disk = diskann_disk_blob(&small);
    foreign_check_cuts(&disk, "c_disk.index", NULL, 0);
    foreign_check_flips(&disk, "c_disk.index", NULL, 3000);
    blob_free(&disk);
    scratch_clear();
}

static void check_header_refused(size_t word, uint64_t value, enum vic_status status, const char *words) {
    struct blob disk = diskann_disk_blob(&small);
    memcpy(disk.bytes + 8 + word * 8, &value, sizeof value);
    blob_write(scratch_path("h_disk.index"), disk.bytes, disk.size);
    foreign_refused(scratch_path("h_disk.index"), NULL, status, words);
    blob_free(&disk);
}

static void wrong_headers_are_refused_naming_the_field(void **state) {
    (void)state;
    enum { NODES, DIM, MEDOID, NODE_BYTES, PER_SECTOR, FROZEN, FROZEN_AT, REORDER, FILE_BYTES };
    check_header_refused(NODES, 0, VIC_FORMAT, "nodes, found 0");
    check_header_refused(NODES, UINT64_MAX, VIC_FORMAT, "nodes, found 18446744073709551615");
    check_header_refused(NODES, 400, VIC_FORMAT, "for 400 nodes of 48 bytes, found 8192");
    check_header_refused(DIM, 0, VIC_FORMAT, "found dim 0");
    check_header_refused(DIM, UINT64_C(1) << 40, VIC_FORMAT, "found dim 1099511627776");
    check_header_refused(DIM, 7, VIC_FORMAT, "expected nodes of vectors of dim 7");
    check_header_refused(MEDOID, 40, VIC_FORMAT, "expected a medoid below 40");
    check_header_refused(NODE_BYTES, 4, VIC_FORMAT, "found 4, 0 of them extra");
    check_header_refused(NODE_BYTES, UINT64_MAX, VIC_FORMAT, "found 18446744073709551615");
    check_header_refused(NODE_BYTES, 49, VIC_FORMAT, "at most 83 nodes of 49 bytes a sector, found 85");
    check_header_refused(PER_SECTOR, 86, VIC_FORMAT, "at most 85 nodes");
    check_header_refused(PER_SECTOR, 0, VIC_FORMAT, "expected 167936 bytes");
    check_header_refused(FROZEN, 2, VIC_UNSUPPORTED, "found 2 beginning with node 0");
    check_header_refused(FROZEN, 1, VIC_UNSUPPORTED, "found 1 beginning with node 0");
    check_header_refused(FILE_BYTES, 4096, VIC_FORMAT, "found 8192 bytes and 4096 in its header");
    scratch_clear();
}

static void wrong_graphs_are_refused_naming_the_place(void **state) {
    (void)state;
    static const struct {
        size_t at;
        uint32_t word;
        const char *words;
    } faults[] = {
        {0, 24, "as its first 8 say, found"},
        {8, 3, "expected at most 3 neighbours a node, as its header says, found 5 at node 0"},
        {12, 40, "expected a start below 40, the number of nodes, found 40"},
        {16, 41, "expected at most 40 frozen nodes, found 41"},
        {24, 4000000, "found node 0 with 4000000 neighbours at byte 24"},
        {28, 40, "found 40 at node 0, slot 0"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct blob graph = diskann_graph_blob(&small);
        struct source source;
        struct diskann_graph found;
        memcpy(graph.bytes + faults[i].at, &faults[i].word, 4);
        blob_write(scratch_path("w"), graph.bytes, graph.size);
        must(source_open(scratch_path("w"), &source));
        enum vic_status status = diskann_graph_open(&source, 40, &found);
        if (status != VIC_FORMAT || !strstr(vic_last_error(), faults[i].words))
            print_message("%s should hold \"%s\"\n", vic_last_error(), faults[i].words);
        assert_int_equal(status, VIC_FORMAT);
        assert_non_null(strstr(vic_last_error(), faults[i].words));
        source_close(&source);
        blob_free(&graph);
    }
    scratch_clear();
}

static void graphs_and_pivots_are_no_vectors(void **state) {
    (void)state;
    foreign_refused(GOLDEN "f", NULL, VIC_TYPE, "its vectors are in the file beside it that ends in .data");
    foreign_refused(GOLDEN "f_pq_pivots.bin", NULL, VIC_FORMAT, "looks like a diskann-pivots file of 256 rows of dim 12");
    const struct vic_reader_options bytes = {.size = sizeof bytes, .dtype = VIC_U8};
    must(foreign_read(GOLDEN "f_pq_compressed.bin", &bytes, NULL)); /* codes may be read as bytes by who asks for them */
}

static void every_file_beside_a_disk_index_is_held_against_it(void **state) {
    (void)state;
    const char *path = diskann_disk_write(&small, "x");
    const uint64_t good[] = {0, 1, 40, 6};
    uint64_t words[4];
    static const struct {
        size_t word;
        uint64_t value;
        const char *words;
    } faults[] = {{0, 3, "expected an element type and a metric from 0 to 2, found 3"},
                  {1, 3, "found 0 and 3"},
                  {2, 41, "expected 41 rows, as _metadata.bin beside it says, found 40"},
                  {3, 7, "expected dim 7, as _metadata.bin beside it says, found 6"}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        memcpy(words, good, sizeof words);
        words[faults[i].word] = faults[i].value;
        blob_write(scratch_path("x_metadata.bin"), (const unsigned char *)words, sizeof words);
        foreign_refused(path, NULL, VIC_FORMAT, faults[i].words);
    }
    blob_write(scratch_path("x_metadata.bin"), (const unsigned char *)good, sizeof good);
    must(foreign_read(path, NULL, NULL));
    struct blob norm = {0};
    blob_add_u32(&norm, 1), blob_add_u32(&norm, 1), blob_add_u32(&norm, 0x7f800000u);
    blob_write(scratch_path("x_disk.index_max_base_norm.bin"), norm.bytes, norm.size);
    foreign_refused(path, NULL, VIC_FORMAT, "expected a finite norm above 0");
    blob_free(&norm);
    scratch_clear();
    path = diskann_disk_write(&small, "x");
    struct blob codes = {0};
    blob_add_u32(&codes, 39), blob_add_u32(&codes, 1), blob_add(&codes, diskann_node_at, 39);
    blob_write(scratch_path("x_pq_compressed.bin"), codes.bytes, codes.size);
    foreign_refused(path, NULL, VIC_FORMAT, "expected codes of 40 nodes in _pq_compressed.bin beside it, found 39");
    blob_free(&codes);
    scratch_clear();
    path = diskann_disk_write(&small, "x");
    struct blob pivots = blob_read(GOLDEN "f_pq_pivots.bin");
    blob_write(scratch_path("x_pq_pivots.bin"), pivots.bytes, pivots.size);
    foreign_refused(path, NULL, VIC_FORMAT, "expected pivots of dim 6 in _pq_pivots.bin beside it, found dim 12");
    blob_write(scratch_path("x_disk.index_pq_pivots.bin"), pivots.bytes, pivots.size);
    foreign_refused(path, NULL, VIC_UNSUPPORTED, "found codes of 6 bytes, since _pq_pivots.bin lies beside it");
    blob_free(&pivots);
    scratch_clear();
}

/* Nodes beyond 4 GiB: the arithmetic alone. */
static void addresses_have_64_bits(void **state) {
    (void)state;
    struct diskann_disk disk = {.nodes = INT64_C(1) << 32, .sector_bytes = 4096, .node_bytes = 740, .per_sector = 5};
    assert_int_equal(diskann_node_offset(&disk, 4294967294), (1 + UINT64_C(4294967294) / 5) * 4096 + 4 * 740);
    disk.node_bytes = 16456, disk.per_sector = 0;
    assert_int_equal(diskann_node_offset(&disk, 4294967294), (1 + UINT64_C(4294967294) * 5) * 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_disk_index_gives_the_rows_it_was_built_from),
        cmocka_unit_test(rows_for_inner_products_come_back_unscaled),
        cmocka_unit_test(every_file_of_a_set_is_named_with_its_numbers),
        cmocka_unit_test(what_lies_beside_a_disk_index_is_told),
        cmocka_unit_test(pivots_are_read_whole),
        cmocka_unit_test(disk_indexes_of_every_generation_are_read),
        cmocka_unit_test(the_type_is_asked_for_where_nothing_tells),
        cmocka_unit_test(a_type_that_does_not_fit_is_refused),
        cmocka_unit_test(graphs_of_both_headers_are_told_apart),
        cmocka_unit_test(every_cut_of_a_disk_index_is_refused),
        cmocka_unit_test(wrong_headers_are_refused_naming_the_field),
        cmocka_unit_test(wrong_graphs_are_refused_naming_the_place),
        cmocka_unit_test(graphs_and_pivots_are_no_vectors),
        cmocka_unit_test(every_file_beside_a_disk_index_is_held_against_it),
        cmocka_unit_test(addresses_have_64_bits),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
