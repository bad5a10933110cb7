/* Indexes of DiskANN opened as ours and written again: rows, lists, entry points, types, metrics; what was wrong is named and
 * nothing half-built stays. */
#include "data/diskann.h"
#include "index/index.h"
#include "support/diskann_set.h"
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

#define GOLDEN "test/data/diskann/"

static const struct diskann_sample small = {.n = 40, .dim = 6, .dtype = VIC_F32, .room = 5, .start = 3};

static int setup(void **state) { return device_setup(state) || scratch_open(state); }
static int teardown(void **state) { return device_teardown(state) || scratch_close(state); }

static struct vic_index *opened(const char *path, enum vic_metric metric, enum vic_dtype dtype) {
    const struct vic_open_options options = {.size = sizeof options, .metric = metric, .dtype = dtype, .check = 1};
    struct vic_index *index = NULL;
    must(vic_index_open(test_device, path, &options, &index));
    return index;
}

static void save(const struct vic_index *index, const char *path, const char *format) {
    const struct vic_save_options options = {.size = sizeof options, .format = format};
    must(vic_index_save(index, path, &options));
}

/* ---- what DiskANN wrote */

/* It answers for 20 of its own rows, k = 5, with a beam of 64: the same beam here finds as much and more. */
static void what_diskann_finds_is_found(void **state) {
    (void)state;
    static const struct {
        const char *path, *data, *answers;
    } sets[] = {{GOLDEN "f", GOLDEN "f.data", GOLDEN "f_answers.bin"},
                {GOLDEN "f_disk.index", GOLDEN "f.data", GOLDEN "f_answers.bin"},
                {GOLDEN "u", GOLDEN "u.data", GOLDEN "u_answers.bin"},
                {GOLDEN "u_disk.index", GOLDEN "u.data", GOLDEN "u_answers.bin"},
                {GOLDEN "ip_disk.index", GOLDEN "ip.data", GOLDEN "ip_answers.bin"}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct vic_index *index = opened(sets[i].path, 0, 0);
        struct vic_truth answers;
        struct blob data = blob_read(sets[i].data);
        int64_t ids[100];
        float scores[100];
        double recall = 0;
        must(vic_truth_read(sets[i].answers, &answers));
        const struct rows *rows = &index->corpus.rows;
        const struct vic_matrix queries = matrix_of(data.bytes + 8, 20, rows->dim, rows->dtype);
        const struct vic_search_options options = {.size = sizeof options, .path = VIC_PATH_GRAPH, .beam = 64};
        const struct vic_hits hits = {.ids = ids, .scores = scores};
        must(vic_index_search(index, &queries, 5, &options, &hits));
        const struct vic_truth found = {.nq = 20, .k = 5, .ids = ids};
        struct vic_truth ids_alone = answers;
        ids_alone.distances = NULL; /* of another sign for inner products */
        must(vic_recall(&found, &ids_alone, 5, 300, &recall));
        assert_true(recall >= 0.99); /* the best of inner products, which DiskANN does not always find, are more */
        vic_truth_free(&answers);
        vic_index_free(index);
        blob_free(&data);
    }
}

static void its_own_files_come_out_as_they_went_in(void **state) {
    (void)state;
    static const char *const prefixes[] = {"f", "u"};
    for (size_t i = 0; i < 2; i++) {
        char path[64], other[96];
        (void)snprintf(path, sizeof path, GOLDEN "%s", prefixes[i]);
        struct vic_index *index = opened(path, 0, 0);
        assert_int_equal(index->graph.repairs, 0);
        save(index, scratch_path("o"), "diskann");
        vic_index_free(index);
        check_same_files(path, scratch_path("o"));
        (void)snprintf(other, sizeof other, "%s.data", path);
        check_same_files(other, scratch_path("o.data"));
        (void)snprintf(other, sizeof other, "%s_metadata.bin", path);
        check_same_files(other, scratch_path("o_metadata.bin"));
        scratch_clear();
    }
}

static void an_opened_index_is_an_index_like_any_other(void **state) {
    (void)state;
    struct vic_index *index = opened(GOLDEN "f_disk.index", 0, 0);
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    assert_string_equal(info.kind, "graph");
    assert_int_equal(info.metric, VIC_L2);
    assert_int_equal(info.next_id, 300);
    assert_int_equal(info.degree, 8);
    assert_int_equal(info.mapped_bytes, 0);
    save(index, scratch_path("a.vic"), NULL);
    struct vic_index *again = opened(scratch_path("a.vic"), VIC_L2, VIC_F32);
    save(again, scratch_path("b.vic"), NULL);
    check_same_files(scratch_path("a.vic"), scratch_path("b.vic"));
    save(again, scratch_path("c_disk.index"), "diskann-disk");
    vic_index_free(again);
    again = opened(scratch_path("c_disk.index"), 0, 0); /* from the disk form, through ours, to the disk form, and back */
    save(again, scratch_path("d.vic"), NULL);
    check_same_files(scratch_path("a.vic"), scratch_path("d.vic"));
    vic_index_free(again);
    vic_index_free(index);
    scratch_clear();
}

/* A frozen node is where searches begin and no row: its neighbours are the entry points. */
static void frozen_nodes_are_entries_and_no_rows(void **state) {
    (void)state;
    struct vic_index *index = opened(GOLDEN "dyn", 0, 0);
    struct blob data = blob_read(GOLDEN "dyn.data"), graph = blob_read(GOLDEN "dyn");
    assert_int_equal(index->corpus.rows.n, 300);
    assert_memory_equal(index->corpus.rows.data, data.bytes + 8, 300 * 12 * 4);
    uint32_t last[11]; /* the last list of the file: the frozen node's */
    int64_t count = index->graph.entry_count;
    memcpy(last, graph.bytes + graph.size - (size_t)(count + 1) * 4, (size_t)(count + 1) * 4);
    assert_int_equal(last[0], count);
    assert_memory_equal(index->graph.entries, last + 1, (size_t)count * 4);
    vic_index_free(index);
    blob_free(&data), blob_free(&graph);
    struct diskann_sample sample = small;
    sample.frozen = 1, sample.start = 39;
    index = opened(diskann_disk_write(&sample, "x"), 0, 0);
    assert_int_equal(index->corpus.rows.n, 39);
    assert_int_equal(index->graph.entries[0], 0);
    vic_index_free(index);
    scratch_clear();
}

/* ---- lists */

static void check_lists(const struct vic_index *index, const struct diskann_sample *sample) {
    const struct graph *graph = &index->graph;
    for (int64_t node = 0; node < sample->n; node++) {
        int64_t used = slots_used(graph_row(graph, node), graph->degree);
        assert_int_equal(used, diskann_count(sample, node));
        for (uint32_t slot = 0; slot < used; slot++)
            assert_int_equal(graph_row(graph, node)[slot], diskann_neighbour(sample, node, slot));
    }
}

static void lists_of_every_generation_become_slots(void **state) {
    (void)state;
    for (int form = HEADER_CPP; form <= HEADER_RUST; form++) {
        struct diskann_sample sample = small;
        sample.form = (enum header_form)form;
        if (form != HEADER_RUST) {
            struct vic_index *index = opened(diskann_memory_write(&sample, "m"), 0, 0);
            check_lists(index, &sample);
            assert_int_equal(index->graph.entries[0], 3);
            vic_index_free(index);
        }
        struct vic_index *index = opened(diskann_disk_write(&sample, "d"), 0, VIC_F32);
        check_lists(index, &sample);
        vic_index_free(index);
    }
    struct diskann_sample coded = small;
    coded.dtype = VIC_U8, coded.reorder_dim = 100;
    struct vic_index *index = opened(diskann_disk_write(&coded, "r"), 0, 0);
    check_lists(index, &coded);
    assert_int_equal(index->corpus.rows.dim, 100);
    vic_index_free(index);
    scratch_clear();
}

/* What our graphs may not hold is left out, and who is then lost is tied in. */
static void edges_to_itself_and_repeats_are_left_out(void **state) {
    (void)state;
    const char *path = diskann_memory_write(&small, "m");
    struct blob graph = blob_read(path);
    const uint32_t list[] = {0, 2, 2, 0, 1};
    memcpy(graph.bytes + 24 + 4, list, sizeof list); /* node 0 had 1, 2, 3, 4, 5 */
    blob_write(path, graph.bytes, graph.size);
    blob_free(&graph);
    struct vic_index *index = opened(path, 0, 0); /* which checks it */
    const uint32_t right[] = {2, 1, slot_unused};
    assert_memory_equal(graph_row(&index->graph, 0), right, sizeof right);
    vic_index_free(index);
    scratch_clear();
}

static void rows_that_cannot_be_reached_are_tied_in(void **state) {
    (void)state;
    struct diskann_sample sample = small;
    sample.most = 1;
    const char *path = diskann_memory_write(&sample, "m");
    struct blob graph = blob_read(path);
    const uint32_t back = 3; /* the ring 3, 4 ... 20 closes: the others are lost */
    memcpy(graph.bytes + 24 + 20 * 8 + 4, &back, 4);
    blob_write(path, graph.bytes, graph.size);
    blob_free(&graph);
    struct vic_index *index = opened(path, 0, 0);
    assert_true(index->graph.repairs > 0); /* and it was checked when it was opened */
    vic_index_free(index);
    scratch_clear();
}

static void medoids_beside_a_disk_index_are_entries(void **state) {
    (void)state;
    const char *path = diskann_disk_write(&small, "x");
    uint32_t medoids[] = {3, 1, 7, 3, 11};
    blob_write(scratch_path("x_disk.index_medoids.bin"), (unsigned char *)medoids, sizeof medoids);
    struct vic_index *index = opened(path, 0, 0);
    const uint32_t right[] = {3, 7, 11};
    assert_int_equal(index->graph.entry_count, 3);
    assert_memory_equal(index->graph.entries, right, sizeof right);
    /* Written, the start leads to all rows by itself: nothing is added. */
    save(index, scratch_path("o"), "diskann");
    struct blob graph = diskann_graph_blob(&small);
    assert_true(blob_equals_file(&graph, scratch_path("o")));
    blob_free(&graph);
    vic_index_free(index);
    medoids[3] = 40;
    blob_write(scratch_path("x_disk.index_medoids.bin"), (unsigned char *)medoids, sizeof medoids);
    diskann_refused(path, 0, VIC_FORMAT, "expected medoids below 40, the number of nodes, found 40");
    blob_write(scratch_path("x_disk.index_medoids.bin"), (unsigned char *)medoids, 16);
    diskann_refused(path, 0, VIC_FORMAT, "expected 8 bytes and 3 rows of 1 values");
    scratch_clear();
}

/* ---- metric and type */

static void the_metric_is_what_the_set_or_the_caller_says(void **state) {
    (void)state;
    struct vic_index *index = opened(diskann_memory_write(&small, "m"), 0, 0);
    assert_int_equal(index->corpus.rows.metric, VIC_L2);
    vic_index_free(index);
    index = opened(scratch_path("m"), VIC_COSINE, 0);
    assert_int_equal(index->corpus.rows.metric, VIC_COSINE);
    save(index, scratch_path("c"), "diskann"); /* unit vectors, and the word for it beside them */
    vic_index_free(index);
    index = opened(scratch_path("c"), 0, 0);
    assert_int_equal(index->corpus.rows.metric, VIC_COSINE);
    for (int64_t i = 0; i < 40; i++) {
        const float *row = (const float *)index->corpus.rows.data + i * 6;
        double sum = 0;
        for (int j = 0; j < 6; j++) sum += (double)row[j] * (double)row[j];
        assert_true(fabs(sum - 1) < 1e-6);
    }
    vic_index_free(index);
    const uint64_t description[] = {0, 1, 40, 6};
    blob_write(scratch_path("m_metadata.bin"), (const unsigned char *)description, sizeof description);
    index = opened(scratch_path("m"), 0, 0);
    assert_int_equal(index->corpus.rows.metric, VIC_DOT);
    vic_index_free(index);
    scratch_clear();
}

static void the_type_of_vectors_in_memory_is_asked_for_where_nothing_tells(void **state) {
    (void)state;
    struct diskann_sample sample = small;
    sample.dtype = VIC_I8;
    const char *path = diskann_memory_write(&sample, "m");
    diskann_refused(path, 0, VIC_TYPE, "i8 or u8 by its size");
    struct vic_index *index = opened(path, 0, VIC_I8);
    void *rows = diskann_rows(&sample);
    assert_memory_equal(index->corpus.rows.data, rows, 40 * 6);
    free(rows);
    vic_index_free(index);
    scratch_clear();
}

static void half_precision_goes_out_as_float32(void **state) {
    (void)state;
    const struct vic_graph_options graph = {.size = sizeof graph, .force = 1};
    const struct vic_build_options options = {.size = sizeof options, .metric = VIC_L2, .dtype = VIC_F16, .graph = &graph};
    float *values = diskann_rows(&small);
    const struct vic_matrix rows = matrix_of(values, 40, 6, VIC_F32);
    struct vic_index *index = NULL;
    must(vic_index_build(test_device, &rows, &options, &index));
    save(index, scratch_path("h"), "diskann");
    struct blob data = diskann_data_blob(&small);
    assert_true(blob_equals_file(&data, scratch_path("h.data")));
    blob_free(&data);
    vic_index_free(index);
    free(values);
    scratch_clear();
}

/* ---- several entry points */

/* DiskANN begins at one node: those that it would not come to are made its neighbours. */
static void the_start_leads_to_every_entry_point(void **state) {
    (void)state;
    struct diskann_sample sample = small;
    sample.most = 1;
    const char *path = diskann_disk_write(&sample, "x");
    struct blob disk = blob_read(path);
    const uint32_t back[] = {3, 21}; /* two rings */
    memcpy(disk.bytes + diskann_node_at(&sample, 20) + 24 + 4, &back[0], 4);
    memcpy(disk.bytes + diskann_node_at(&sample, 2) + 24 + 4, &back[1], 4);
    blob_write(path, disk.bytes, disk.size);
    blob_free(&disk);
    const uint32_t medoids[] = {2, 1, 3, 21};
    blob_write(scratch_path("x_disk.index_medoids.bin"), (const unsigned char *)medoids, sizeof medoids);
    struct vic_index *index = opened(path, 0, 0);
    assert_int_equal(index->graph.repairs, 0);
    save(index, scratch_path("o"), "diskann");
    vic_index_free(index);
    index = opened(scratch_path("o"), 0, 0);
    assert_int_equal(index->graph.repairs, 0);
    assert_int_equal(index->graph.entry_count, 1);
    const uint32_t right[] = {4, 21};
    assert_memory_equal(graph_row(&index->graph, 3), right, sizeof right);
    vic_index_free(index);
    scratch_clear();
}

/* ---- on a disk */

/* Pivots and codes of a set of 300 rows. */
static void check_codes(const char *prefix, int64_t dim) {
    struct source source;
    struct diskann_pivots pivots;
    int64_t rows = 0, chunks = 0;
    must(diskann_beside_open(scratch_path(prefix), NULL, "_pq_pivots.bin", &source));
    must(diskann_pivots_open(&source, &pivots));
    float *centres = take(256 * (size_t)dim * 4), *centroid = take((size_t)dim * 4);
    uint32_t *offsets = take(((size_t)pivots.chunks + 1) * 4);
    must(diskann_pivots_read(&source, &pivots, centres, centroid, offsets));
    assert_int_equal(pivots.dim, dim);
    source_close(&source);
    must(diskann_beside_open(scratch_path(prefix), NULL, "_pq_compressed.bin", &source));
    must(diskann_bin_open(&source, 1, &rows, &chunks));
    assert_int_equal(rows, 300);
    assert_int_equal(chunks, pivots.chunks);
    source_close(&source);
    free(centres), free(centroid), free(offsets);
}

/* Ours from its own lists: nodes are the same bytes, and codes are of as many rows and dimensions. */
static void disk_indexes_come_out_as_they_went_in(void **state) {
    (void)state;
    static const struct {
        const char *path, *prefix;
        int64_t dim;
    } sets[] = {{GOLDEN "f_disk.index", "f", 12}, {GOLDEN "u_disk.index", "u", 16}};
    for (size_t i = 0; i < 2; i++) {
        char name[32];
        struct vic_index *index = opened(sets[i].path, 0, 0);
        (void)snprintf(name, sizeof name, "%s_disk.index", sets[i].prefix);
        save(index, scratch_path(name), "diskann-disk");
        vic_index_free(index);
        check_same_files(sets[i].path, scratch_path(name));
        check_codes(sets[i].prefix, sets[i].dim);
        vic_index_free(opened(scratch_path(name), 0, 0)); /* all files are held against each other */
    }
    scratch_clear();
}

/* Divided and multiplied again, values are right to the last bit or two; the lists are the same. */
static void inner_products_on_a_disk_have_a_coordinate_more(void **state) {
    (void)state;
    struct vic_index *index = opened(GOLDEN "ip_disk.index", 0, 0);
    save(index, scratch_path("ip_disk.index"), "diskann-disk");
    check_codes("ip", 13);
    struct vic_index *again = opened(scratch_path("ip_disk.index"), 0, 0);
    assert_int_equal(again->corpus.rows.metric, VIC_DOT);
    assert_int_equal(again->corpus.rows.dim, 12);
    assert_memory_equal(again->graph.neighbours, index->graph.neighbours, (size_t)(300 * index->graph.degree) * 4);
    const float *right = index->corpus.rows.data, *found = again->corpus.rows.data;
    for (int64_t c = 0; c < 300 * 12; c++) assert_true(fabsf(found[c] - right[c]) <= 3e-7f * fabsf(right[c]));
    /* The coordinate that was added makes every row as long as the longest. */
    struct blob disk = blob_read(scratch_path("ip_disk.index"));
    const float *row = (const float *)(const void *)(disk.bytes + 4096);
    double sum = 0;
    for (int j = 0; j < 13; j++) sum += (double)row[j] * (double)row[j];
    assert_true(fabs(sum - 1) < 1e-6);
    blob_free(&disk);
    vic_index_free(again);
    vic_index_free(index);
    scratch_clear();
}

/* Rows that are unit vectors already, as DiskANN leaves them for cosine, keep every bit. */
static void unit_vectors_go_out_as_they_came_in(void **state) {
    (void)state;
    static const char *const ends[] = {"", ".data", "_metadata.bin"};
    struct vic_index *index = opened(GOLDEN "f", VIC_COSINE, 0);
    save(index, scratch_path("one"), "diskann");
    vic_index_free(index);
    index = opened(scratch_path("one"), 0, 0);
    assert_int_equal(index->corpus.rows.metric, VIC_COSINE);
    save(index, scratch_path("two"), "diskann");
    vic_index_free(index);
    for (int i = 0; i < 3; i++) {
        char one[32], two[32];
        (void)snprintf(one, sizeof one, "one%s", ends[i]);
        (void)snprintf(two, sizeof two, "two%s", ends[i]);
        check_same_files(scratch_path(one), scratch_path(two));
    }
    scratch_clear();
}

static void a_node_longer_than_a_sector_takes_several(void **state) {
    (void)state;
    const struct diskann_sample wide = {.n = 300, .dim = 1100, .dtype = VIC_F32, .room = 16, .start = 7};
    const char *path = diskann_disk_write(&wide, "w");
    struct vic_index *index = opened(path, 0, 0);
    save(index, scratch_path("o_disk.index"), "diskann-disk");
    check_same_files(path, scratch_path("o_disk.index"));
    vic_index_free(index);
    scratch_clear();
}

static void check_not_saved(const struct vic_index *index, const char *path, const char *format, enum vic_status status,
                            const char *words) {
    const struct vic_save_options options = {.size = sizeof options, .format = format};
    int64_t files = scratch_count();
    assert_int_equal(vic_index_save(index, path, &options), status);
    if (!strstr(vic_last_error(), words)) print_message("\"%s\" should hold \"%s\"\n", vic_last_error(), words);
    assert_non_null(strstr(vic_last_error(), words));
    assert_int_equal(scratch_count(), files);
}

/* DiskANN would take them for parts of the new set. */
static void files_of_another_set_are_in_the_way(void **state) {
    (void)state;
    static const char *const left[] = {"x_disk.index_medoids.bin",
                                       "x_disk.index_centroids.bin",
                                       "x_disk.index_pq_pivots.bin",
                                       "x_disk.index_max_base_norm.bin",
                                       "m.del",
                                       "m.tags"};
    struct vic_index *index = opened(GOLDEN "f", 0, 0);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        blob_write(scratch_path(left[i]), (const unsigned char *)"x", 1);
        if (left[i][0] == 'x')
            check_not_saved(index, scratch_path("x_disk.index"), "diskann-disk", VIC_ARGUMENT, left[i]);
        else
            check_not_saved(index, scratch_path("m"), "diskann", VIC_ARGUMENT, left[i]);
        scratch_clear();
    }
    check_not_saved(index, scratch_path("x.index"), "diskann-disk", VIC_ARGUMENT, "expected a path that ends in _disk.index");
    vic_index_free(index);
    index = opened(GOLDEN "u", VIC_COSINE, 0);
    check_not_saved(index, scratch_path("x_disk.index"), "diskann-disk", VIC_UNSUPPORTED,
                    "expected l2 for integers in DiskANN's disk form, found cosine of u8");
    vic_index_free(index);
}

/* ---- refusals */

static void what_diskann_cannot_hold_is_not_written(void **state) {
    (void)state;
    const struct vic_save_options to = {.size = sizeof to, .format = "diskann"}, odd = {.size = sizeof odd, .format = "faiss"};
    const struct vic_graph_options graph = {.size = sizeof graph, .force = 1};
    int64_t ids[40];
    for (int64_t i = 0; i < 40; i++) ids[i] = i + (i > 20);
    float *values = diskann_rows(&small);
    const struct vic_matrix rows = matrix_of(values, 40, 6, VIC_F32);
    struct vic_build_options options = {.size = sizeof options, .graph = &graph, .ids = ids};
    struct vic_index *index = NULL;
    must(vic_index_build(test_device, &rows, &options, &index));
    assert_int_equal(vic_index_save(index, scratch_path("o"), &odd), VIC_ARGUMENT);
    assert_int_equal(vic_index_save(index, scratch_path("o"), &to), VIC_UNSUPPORTED);
    assert_non_null(strstr(vic_last_error(), "found 22 for row 21"));
    vic_index_free(index);
    options.ids = NULL, options.graph = NULL;
    must(vic_index_build(test_device, &rows, &options, &index));
    assert_int_equal(vic_index_save(index, scratch_path("o"), &to), VIC_UNSUPPORTED);
    assert_non_null(strstr(vic_last_error(), "found a flat one"));
    vic_index_free(index);
    assert_int_equal(scratch_count(), 0);
    free(values);
}

static void sets_whose_files_disagree_are_refused(void **state) {
    (void)state;
    const char *path = diskann_memory_write(&small, "m");
    struct diskann_sample other = small;
    other.n = 39;
    struct blob data = diskann_data_blob(&other);
    blob_write(scratch_path("m.data"), data.bytes, data.size);
    diskann_refused(path, 0, VIC_FORMAT, "m.data: expected 40 vectors, as many as the nodes of");
    blob_free(&data);
    (void)diskann_memory_write(&small, "m");
    const uint64_t dims[] = {0, 0, 40, 7}, counts[] = {0, 0, 41, 6};
    blob_write(scratch_path("m_metadata.bin"), (const unsigned char *)dims, sizeof dims);
    diskann_refused(path, 0, VIC_FORMAT, "expected dim 7, as _metadata.bin beside it says, found 6");
    blob_write(scratch_path("m_metadata.bin"), (const unsigned char *)counts, sizeof counts);
    diskann_refused(path, 0, VIC_FORMAT, "expected 41 rows, as _metadata.bin beside it says, found 40");
    blob_write(scratch_path("m_metadata.bin"), (const unsigned char *)counts, 31);
    diskann_refused(path, 0, VIC_FORMAT, "expected 32 bytes");
    scratch_clear();
    struct blob graph = diskann_graph_blob(&small);
    blob_write(scratch_path("alone"), graph.bytes, graph.size);
    diskann_refused(scratch_path("alone"), 0, VIC_NOT_FOUND, "alone.data");
    blob_free(&graph);
    scratch_clear();
}

static void rows_that_are_not_finite_are_refused(void **state) {
    (void)state;
    const char *path = diskann_memory_write(&small, "m");
    struct blob data = blob_read(scratch_path("m.data"));
    const uint32_t infinity = 0x7f800000u;
    memcpy(data.bytes + 8 + (17 * 6 + 2) * 4, &infinity, 4);
    blob_write(scratch_path("m.data"), data.bytes, data.size);
    diskann_refused(path, 0, VIC_NOT_FINITE, "row 17");
    blob_free(&data);
    scratch_clear();
}

static void a_file_of_ours_keeps_its_own_word(void **state) {
    (void)state;
    struct vic_index *index = opened(diskann_memory_write(&small, "m"), 0, 0), *none = NULL;
    save(index, scratch_path("m.vic"), NULL);
    vic_index_free(index);
    const struct vic_open_options dot = {.size = sizeof dot, .metric = VIC_DOT}, half = {.size = sizeof half, .dtype = VIC_F16};
    const struct vic_open_options wild = {.size = sizeof wild, .metric = (enum vic_metric)9};
    const struct vic_open_options odd = {.size = sizeof odd, .dtype = (enum vic_dtype)9};
    const struct vic_open_options *wrong[] = {&dot, &half, &wild, &odd};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(vic_index_open(test_device, scratch_path("m.vic"), wrong[i], &none), VIC_ARGUMENT);
    scratch_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_diskann_finds_is_found),
        cmocka_unit_test(its_own_files_come_out_as_they_went_in),
        cmocka_unit_test(an_opened_index_is_an_index_like_any_other),
        cmocka_unit_test(frozen_nodes_are_entries_and_no_rows),
        cmocka_unit_test(lists_of_every_generation_become_slots),
        cmocka_unit_test(edges_to_itself_and_repeats_are_left_out),
        cmocka_unit_test(rows_that_cannot_be_reached_are_tied_in),
        cmocka_unit_test(medoids_beside_a_disk_index_are_entries),
        cmocka_unit_test(the_metric_is_what_the_set_or_the_caller_says),
        cmocka_unit_test(the_type_of_vectors_in_memory_is_asked_for_where_nothing_tells),
        cmocka_unit_test(half_precision_goes_out_as_float32),
        cmocka_unit_test(the_start_leads_to_every_entry_point),
        cmocka_unit_test(disk_indexes_come_out_as_they_went_in),
        cmocka_unit_test(inner_products_on_a_disk_have_a_coordinate_more),
        cmocka_unit_test(unit_vectors_go_out_as_they_came_in),
        cmocka_unit_test(a_node_longer_than_a_sector_takes_several),
        cmocka_unit_test(files_of_another_set_are_in_the_way),
        cmocka_unit_test(what_diskann_cannot_hold_is_not_written),
        cmocka_unit_test(sets_whose_files_disagree_are_refused),
        cmocka_unit_test(rows_that_are_not_finite_are_refused),
        cmocka_unit_test(a_file_of_ours_keeps_its_own_word),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
