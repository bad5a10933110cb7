/* Two indexes and the files they are saved to: the old one that lies at a path and the new one that is to replace it. */
#ifndef TEST_PAIR_H
#define TEST_PAIR_H

#include "support/sample.h"

enum { OLD, NEW };

struct pair {
    struct vic_device *device;
    struct vic_index *index[2];
    struct blob blob[2]; /* what a save writes */
    const char *path;    /* "index" in the scratch folder */
};

/* Scratch folder, a device of one thread, and both. Closed in the group's tear-down. */
struct pair *pair_open(const struct sample *old_sample, const struct sample *new_sample);
int pair_close(void **state);
/* Only the old file is there. */
void pair_reset(const struct pair *pair);
/* Whether the file at the path is the saved form of this one. */
bool pair_is(const struct pair *pair, int which);

#endif
