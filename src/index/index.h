/* Ways to answer "which k are nearest": one struct of functions a kind, one row of the table each. */
#ifndef INDEX_INDEX_H
#define INDEX_INDEX_H

#include "data/corpus.h"
#include "index/file.h"
#include "index/vamana.h"

struct index_kind {
    const char *name; /* as stored in files: "flat" */
    enum vic_status (*search)(const struct vic_index *index, const struct search_call *call, const struct vic_hits *hits);
    enum vic_status (*within)(const struct vic_index *index, const struct search_call *call, float score,
                              const struct vic_ranges *ranges);
    enum vic_status (*score)(const struct vic_index *index, const struct search_call *call, const int64_t *ids, float *scores);
};

/* Ended by NULL. */
extern const struct index_kind *const index_kinds[];
extern const struct index_kind flat_kind, graph_kind;

struct vic_index {
    struct vic_device *device;
    const struct index_kind *kind;
    struct corpus corpus;
    struct resident *resident;
    struct file_map map; /* bytes NULL: not behind a file */
    uint64_t workspace_bytes, device_bytes;
    struct graph graph; /* kind graph; else all zero */
};

/* ---- build.c: rows in. options resolved by options_take. */
enum vic_status index_plan(const struct vic_device *device, int64_t n, int64_t dim, const struct vic_build_options *options,
                           struct vic_plan *plan);
enum vic_status index_build(struct vic_device *device, const struct vic_matrix *rows, const struct vic_build_options *options,
                            struct vic_index **index);
enum vic_status index_build_file(struct vic_device *device, const char *rows_path, const struct vic_build_options *options,
                                 struct vic_index **index);
/* From a reader that is open, whose rows and type are taken as they are; it stays the caller's. */
enum vic_status index_build_reader(struct vic_device *device, struct vic_reader *reader,
                                   const struct vic_build_options *options, struct vic_index **index);
/* Takes a filled corpus (and map) over: picks the kind, makes it resident. On failure both are the caller's still. progress
 * hears of rows that are copied to a device; it may be NULL. */
enum vic_status index_assemble(struct vic_device *device, const struct index_kind *kind, struct corpus *corpus,
                               struct file_map *map, const struct vic_progress *progress, struct vic_index **index);
/* Whether n rows get a graph, and of which form; given NULL: none. */
enum vic_status graph_wanted(const struct vic_graph_options *given, int64_t n, int64_t dim, struct graph_options *options,
                             bool *wanted);
/* Whether the budget allows for a graph over rows that are there already, and for the 8-bit codes that float types need. */
enum vic_status graph_budget_check(struct vic_device *device, const struct rows *rows, const struct graph_options *options);
/* An index gains a graph, which is moved in: it answers by walks from now on. Searches must not be running. */
enum vic_status index_take_graph(struct vic_index *index, struct graph *graph);
/* The same with one that is built now, over the 8-bit codes of the rows, which float types must have. */
enum vic_status index_gain_graph(struct vic_index *index, const struct graph_options *options,
                                 const struct vic_progress *progress);
void index_free(struct vic_index *index);

/* ---- sections.c: an index as sections of a container. */
enum vic_status index_save(const struct vic_index *index, const char *path, const struct vic_progress *progress);
enum vic_status index_open(struct vic_device *device, const char *path, const struct vic_open_options *options,
                           struct vic_index **index);
/* What vic_index_graph says. */
enum vic_status index_graph_report(const struct vic_index *index, struct vic_graph_report *report);
/* Checksums of the file behind it, if any, and the invariants of what is in memory. */
enum vic_status index_check(const struct vic_index *index, const struct vic_progress *progress);
/* Fills in what our own container says: rows, dim, type, metric, version, sections, note. A damaged file is no error. */
enum vic_status index_file_info(const char *path, struct vic_file_info *info);
/* Writes all sections but the rows, which a streaming build has written already, and commits. graph: NULL, or one to add. */
enum vic_status index_write_rest(struct file_writer *writer, const struct index_kind *kind, const struct corpus *corpus,
                                 const struct graph *graph);
/* What vic_file_info says of a container. A damaged or too new one is no failure: the note says what is wrong. */
enum vic_status index_file_info(const char *path, struct vic_file_info *info);

#endif
