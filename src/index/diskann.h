/* Indexes in DiskANN's files, opened as ours and written from ours (docs/diskann.md). */
#ifndef INDEX_DISKANN_H
#define INDEX_DISKANN_H

#include "index/index.h"

/* Whether a file's bytes claim to be a graph or a disk index of DiskANN. What cannot be read is none. */
bool diskann_index_claimed(const char *path);
/* Rows and graph copied into memory, an ordinary index from then on; options resolved by options_take. */
enum vic_status diskann_index_open(struct vic_device *device, const char *path, const struct vic_open_options *options,
                                   struct vic_index **index);
/* Files that DiskANN loads; format as in vic_save_options. */
enum vic_status diskann_index_save(const struct vic_index *index, const char *path, const char *format,
                                   const struct vic_progress *progress);

#endif
