/* Appending to a file that appears whole or not at all: base/save.h with a buffer, for formats whose rows are short. */
#ifndef DATA_SINK_H
#define DATA_SINK_H

#include "base/save.h"

struct sink;

/* VIC_NOT_FOUND (no such folder), VIC_LOCKED, VIC_IO ... With `bytes` above 0 that much room is asked for at once, so that
 * a full disk shows before the work. Free with sink_free in every case. */
enum vic_status sink_open(const char *path, uint64_t bytes, struct sink **sink);
enum vic_status sink_write(struct sink *sink, const void *data, uint64_t bytes);
/* Durable, and under its name. */
enum vic_status sink_commit(struct sink *sink);
/* The same for files that belong together, the one that leads to the others last (save_commit_all); NULL ones are left out. */
enum { SINKS_MOST = 8 };
enum vic_status sink_commit_all(struct sink *const *sinks, int count);
/* NULL is accepted. Without a commit nothing is left, and what was there before is as it was. */
void sink_free(struct sink *sink);

#endif
