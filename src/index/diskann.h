/* Indexes in DiskANN's files, opened as ours and written from ours (docs/diskann.md). */
#ifndef INDEX_DISKANN_H
#define INDEX_DISKANN_H

#include "data/diskann.h"
#include "data/sink.h"
#include "index/index.h"

#include <limits.h>

/* Whether a file's bytes claim to be a graph or a disk index of DiskANN. What cannot be read is none. */
bool diskann_index_claimed(const char *path);
/* Rows and graph copied into memory, an ordinary index from then on; options resolved by options_take. */
enum vic_status diskann_index_open(struct vic_device *device, const char *path, const struct vic_open_options *options,
                                   struct vic_index **index);
/* The product codes beside the disk index at path, as far as they are of these rows: for the graph that the caller frees. */
enum vic_status diskann_product_take(struct vic_device *device, const char *path, const struct diskann_beside *beside,
                                     const struct rows *rows, const struct vic_progress *hook, struct graph *graph);
/* Files that DiskANN loads; format as in vic_save_options. */
enum vic_status diskann_index_save(const struct vic_index *index, const char *path, const char *format,
                                   const struct vic_progress *progress);

/* ---- what both forms share when they are written: diskann_save.c */

/* Our slots, and the start's list, which other entry points may have been added to. */
struct diskann_lists {
    const struct graph *graph;
    uint32_t start, start_list[GRAPH_DEGREE_MAX];
    int64_t start_count;
    int64_t most; /* neighbours of a node */
    uint64_t edges;
};
enum vic_status diskann_lists_open(const struct vic_index *index, struct diskann_lists *lists);
const uint32_t *diskann_list(const struct diskann_lists *lists, int64_t row, int64_t *count);

/* Integers as they are, floats as float32, for cosine of unit length: dim elements. */
enum vic_dtype diskann_type(const struct rows *rows);
void diskann_row(const struct rows *rows, int64_t row, void *out);

/* A file of a set on its way. */
struct diskann_part {
    struct sink *sink;
    char path[PATH_MAX];
};
enum vic_status diskann_part_open(struct diskann_part *part, const char *prefix, const char *suffix, uint64_t bytes);
/* All of them, the one that leads to the others last; and what is left of them after a commit or a failure. */
enum vic_status diskann_parts_commit(const struct diskann_part *parts, int count);
void diskann_parts_close(struct diskann_part *parts, int count);
/* As the Python package of DiskANN describes an index; ours reads it too. */
enum vic_status diskann_description_write(const struct rows *rows, struct diskann_part *part);
/* VIC_ARGUMENT where a file with one of these endings (ended by NULL) lies beside path. */
enum vic_status diskann_leftover_refuse(const char *path, const char *const *suffixes);

/* The form on a disk: diskann_disk_save.c. */
enum vic_status diskann_disk_save(const struct vic_index *index, const char *path, const struct vic_progress *progress);

#endif
