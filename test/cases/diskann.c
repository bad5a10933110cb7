/* FMT and QNT: files of DiskANN. Public cases, distilled from bug reports of this field. */
#include "data/diskann.h"
#include "index/index.h"
#include "quant/pq.h"
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

static int setup(void **state) { return device_setup(state) || scratch_open(state); }
static int teardown(void **state) { return device_teardown(state) || scratch_close(state); }

static void refused(const char *path, enum vic_status status, const char *words) {
    struct vic_index *index = NULL;
    enum vic_status found = vic_index_open(test_device, path, NULL, &index);
    if (found != status || !strstr(vic_last_error(), words))
        print_message("%s: \"%s\" should hold \"%s\"\n", vic_status_name(found), vic_last_error(), words);
    assert_int_equal(found, status);
    assert_non_null(strstr(vic_last_error(), words));
    assert_null(index);
}

static void FMT_03_a_disk_index_that_was_cut(void **state) {
    (void)state;
    const struct diskann_sample sample = {.n = 100, .dim = 8, .dtype = VIC_F32, .room = 16};
    const char *path = diskann_disk_write(&sample, "x");
    struct blob whole = blob_read(path);
    const size_t sizes[] = {0, 7, 8, 4095, 4096, whole.size - 1, whole.size + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char found[64];
        (void)snprintf(found, sizeof found, "found %zu", sizes[i]);
        struct blob cut = blob_copy(&whole);
        blob_write(path, cut.bytes, sizes[i]);
        blob_free(&cut);
        refused(path, VIC_FORMAT, "x_disk.index: expected");
        refused(path, VIC_FORMAT, found);
        foreign_refused(path, NULL, VIC_FORMAT, found);
    }
    blob_free(&whole);
    scratch_clear();
}

static void FMT_06_a_graph_that_does_not_fit_its_vectors(void **state) {
    (void)state;
    struct diskann_sample sample = {.n = 1000, .dim = 8, .dtype = VIC_F32, .room = 16};
    const char *path = diskann_memory_write(&sample, "m");
    struct blob graph = blob_read(path);
    const uint32_t wild = 1164097742;
    memcpy(graph.bytes + 24 + 4 + 4 * 5, &wild, 4); /* of node 0 */
    blob_write(path, graph.bytes, graph.size);
    refused(path, VIC_FORMAT, "expected neighbours below 1000, the number of nodes, found 1164097742 at node 0, slot 5");
    blob_free(&graph);
    (void)diskann_disk_write(&sample, "d");
    struct blob disk = blob_read(scratch_path("d_disk.index"));
    memcpy(disk.bytes + diskann_node_at(&sample, 7) + 32 + 4, &wild, 4);
    blob_write(scratch_path("d_disk.index"), disk.bytes, disk.size);
    refused(scratch_path("d_disk.index"), VIC_FORMAT, "found 1164097742 at node 7, slot 0");
    blob_free(&disk);
    struct diskann_sample fewer = sample, wider = sample;
    fewer.n = 999, wider.dim = 9;
    graph = diskann_graph_blob(&fewer);
    blob_write(path, graph.bytes, graph.size);
    refused(path, VIC_FORMAT, "m.data: expected 999 vectors, as many as the nodes of");
    blob_free(&graph);
    path = diskann_memory_write(&wider, "m"); /* the number of dimensions is only said beside it */
    const uint64_t description[] = {0, 0, 1000, 8};
    blob_write(scratch_path("m_metadata.bin"), (const unsigned char *)description, sizeof description);
    refused(path, VIC_FORMAT, "expected dim 8, as _metadata.bin beside it says, found 9");
    scratch_clear();
}

static void FMT_07_nodes_around_and_beyond_a_sector(void **state) {
    (void)state;
    static const struct {
        int64_t dim;
        size_t node_bytes, sectors;
    } shapes[] = {{1007, 4096, 1}, {1008, 4100, 2}, {1536, 6212, 2}, {4097, 16456, 5}};
    for (size_t i = 0; i < 4; i++) {
        const struct diskann_sample sample = {.n = 100, .dim = shapes[i].dim, .dtype = VIC_F32, .room = 16};
        const char *path = diskann_disk_write(&sample, "x");
        struct source source;
        struct diskann_disk disk;
        must(source_open(path, &source));
        must(diskann_disk_open(&source, ELEMENT_NONE, &disk));
        assert_int_equal(source.bytes, 4096 * (1 + 100 * shapes[i].sectors));
        assert_int_equal(disk.node_bytes, shapes[i].node_bytes);
        assert_int_equal(diskann_node_offset(&disk, 99), 4096 * (1 + 99 * shapes[i].sectors));
        source_close(&source);
        void *rows = diskann_rows(&sample);
        foreign_check(path, NULL, VIC_F32, 100, shapes[i].dim, rows);
        free(rows);
        scratch_clear();
    }
}

static void FMT_08_where_node_12_is(void **state) {
    (void)state;
    struct diskann_sample sample = {.n = 13, .dim = 128, .dtype = VIC_F32, .room = 56};
    assert_int_equal(diskann_node_at(&sample, 12), 13768);
    struct diskann_disk disk = {.nodes = 13, .sector_bytes = 4096, .node_bytes = 740, .per_sector = 5};
    assert_int_equal(diskann_node_offset(&disk, 12), 13768);
    disk.node_bytes = 644, disk.per_sector = 6;
    assert_int_equal(diskann_node_offset(&disk, 12), 12288);
    for (sample.room = 32; sample.room <= 56; sample.room += 24) {
        void *rows = diskann_rows(&sample);
        foreign_check(diskann_disk_write(&sample, "x"), NULL, VIC_F32, 13, 128, rows);
        free(rows);
    }
    scratch_clear();
}

static void check_degree(const struct diskann_sample *sample, bool on_disk) {
    struct vic_index *index = NULL;
    must(vic_index_open(test_device, on_disk ? diskann_disk_write(sample, "x") : diskann_memory_write(sample, "x"), NULL,
                        &index));
    for (int64_t node = 0; node < sample->n; node++) {
        const uint32_t *slots = graph_row(&index->graph, node);
        assert_int_equal(slots_used(slots, index->graph.degree), diskann_count(sample, node));
        for (uint32_t i = 0; i < diskann_count(sample, node); i++)
            assert_int_equal(slots[i], diskann_neighbour(sample, node, i));
    }
    must(vic_index_check(index, NULL));
    vic_index_free(index);
    scratch_clear();
}

static void FMT_09_every_degree_up_to_the_limit(void **state) {
    (void)state;
    static const uint32_t degrees[] = {1, 31, 32, 33, 64, 96, 128, 512};
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
        for (uint32_t spare = 0; spare <= 1; spare++) { /* and a header with room for one more */
            const struct diskann_sample sample = {
                .n = 600, .dim = 8, .dtype = VIC_F32, .room = degrees[i] + spare, .most = degrees[i]};
            check_degree(&sample, false);
            check_degree(&sample, true);
        }
    const struct diskann_sample beyond = {.n = 600, .dim = 8, .dtype = VIC_F32, .room = 513};
    refused(diskann_memory_write(&beyond, "x"), VIC_UNSUPPORTED, "expected at most 512 neighbours a node, found 513");
    refused(diskann_disk_write(&beyond, "x"), VIC_UNSUPPORTED, "expected at most 512 neighbours a node, found 513 at node 0");
    scratch_clear();
}

static void FMT_10_generations_are_told_apart(void **state) {
    (void)state;
    struct diskann_sample sample = {.n = 100, .dim = 8, .dtype = VIC_F32, .room = 16, .start = 5};
    static const char *const disks[] = {"(C++ header)", "(2021 header)", "(Rust header)"};
    const struct vic_reader_options f32 = {.size = sizeof f32, .dtype = VIC_F32};
    struct vic_file_info info = {.size = sizeof info};
    for (int form = HEADER_CPP; form <= HEADER_RUST; form++) {
        sample.form = (enum header_form)form;
        void *rows = diskann_rows(&sample);
        struct blob disk = diskann_disk_blob(&sample);
        const char *path = scratch_path("nameless"); /* nothing but the bytes says what it is */
        blob_write(path, disk.bytes, disk.size);
        foreign_check(path, &f32, VIC_F32, 100, 8, rows);
        must(vic_file_info(path, &info));
        assert_string_equal(info.format, "diskann-disk");
        if (form != HEADER_2021) assert_non_null(strstr(info.note, disks[form]));
        blob_free(&disk);
        free(rows);
        if (form == HEADER_RUST) continue; /* whose graph in memory is that of C++ */
        struct vic_index *index = NULL;
        must(vic_index_open(test_device, diskann_memory_write(&sample, "m"), NULL, &index));
        assert_int_equal(index->corpus.rows.n, 100);
        assert_int_equal(index->graph.entries[0], 5);
        vic_index_free(index);
    }
    sample.form = HEADER_CPP;
    struct blob disk = diskann_disk_blob(&sample);
    for (uint32_t words = 10; words <= 17; words++) {
        if (words == 12) continue;
        memcpy(disk.bytes, &words, sizeof words);
        blob_write(scratch_path("odd_disk.index"), disk.bytes, disk.size);
        refused(scratch_path("odd_disk.index"), VIC_FORMAT, "expected the header of a DiskANN disk index");
    }
    blob_free(&disk);
    scratch_clear();
}

/* The same set with an order of dimensions before the chunks, as an older version wrote it. */
static struct blob with_order(const struct blob *pivots, uint32_t count) {
    struct blob blob = blob_copy(pivots);
    uint64_t at[5], dim = 12;
    memcpy(at, blob.bytes + 8, 4 * sizeof *at);
    struct blob tail = {0};
    blob_add_u32(&tail, (uint32_t)dim), blob_add_u32(&tail, 1);
    for (uint32_t j = 0; j < dim; j++) blob_add_u32(&tail, j);
    blob_add(&tail, blob.bytes + at[2], blob.size - at[2]);
    blob.size = at[2];
    blob_add(&blob, tail.bytes, tail.size);
    at[3] = at[2] + 8 + dim * 4, at[4] = blob.size;
    memcpy(blob.bytes, &count, 4);
    memcpy(blob.bytes + 8, at, sizeof at);
    blob_free(&tail);
    return blob;
}

static void table_of(const char *path, const float *query, float *room) {
    static float centres[256 * 12], centroid[12];
    uint32_t offsets[13];
    struct source source;
    struct diskann_pivots pivots;
    struct pq pq;
    struct pq_table table;
    must(source_open(path, &source));
    must(diskann_pivots_open(&source, &pivots));
    must(diskann_pivots_read(&source, &pivots, centres, centroid, offsets));
    source_close(&source);
    const struct pq_parts parts = {
        .dim = 12, .chunks = pivots.chunks, .centres = 256, .offsets = offsets, .pivots = centres, .centroid = centroid};
    must(pq_open(test_device, &parts, path, &pq));
    assert_true(pq_table_room(&pq) <= 4096);
    pq_table_fill(&pq, VIC_L2, VIC_F32, query, room, &table);
    pq_free(&pq);
}

static void QNT_05_pivots_of_four_and_of_five_offsets(void **state) {
    (void)state;
    static float four_room[4096], five_room[4096];
    struct blob four = blob_read("test/data/diskann/f_pq_pivots.bin"), data = blob_read("test/data/diskann/f.data");
    struct blob five = with_order(&four, 5), six = with_order(&four, 6), turned = with_order(&four, 5);
    blob_write(scratch_path("five.bin"), five.bytes, five.size);
    const float *query = (const float *)(const void *)(data.bytes + 8);
    table_of("test/data/diskann/f_pq_pivots.bin", query, four_room);
    table_of(scratch_path("five.bin"), query, five_room);
    assert_memory_equal(four_room, five_room, sizeof four_room);
    struct source source;
    struct diskann_pivots pivots;
    blob_write(scratch_path("six.bin"), six.bytes, six.size);
    must(source_open(scratch_path("six.bin"), &source));
    assert_int_equal(diskann_pivots_open(&source, &pivots), VIC_FORMAT);
    assert_non_null(strstr(vic_last_error(), "which begin with 4 or 5 and 1, found 6 and 1"));
    source_close(&source);
    uint64_t order;
    memcpy(&order, turned.bytes + 8 + 16, sizeof order);
    turned.bytes[order + 8] = 1, turned.bytes[order + 12] = 0;
    blob_write(scratch_path("turned.bin"), turned.bytes, turned.size);
    must(source_open(scratch_path("turned.bin"), &source));
    assert_int_equal(diskann_pivots_open(&source, &pivots), VIC_UNSUPPORTED);
    source_close(&source);
    blob_free(&four), blob_free(&five), blob_free(&six), blob_free(&turned), blob_free(&data);
    scratch_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(FMT_03_a_disk_index_that_was_cut),
        cmocka_unit_test(FMT_06_a_graph_that_does_not_fit_its_vectors),
        cmocka_unit_test(FMT_07_nodes_around_and_beyond_a_sector),
        cmocka_unit_test(FMT_08_where_node_12_is),
        cmocka_unit_test(FMT_09_every_degree_up_to_the_limit),
        cmocka_unit_test(FMT_10_generations_are_told_apart),
        cmocka_unit_test(QNT_05_pivots_of_four_and_of_five_offsets),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
