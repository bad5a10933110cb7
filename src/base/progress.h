/* Reports of long work to the caller's hook: at most ten a second and one at the end of a stage.
 *
 * A step costs a clock read, about 25 ns, so callers step once a block of a megabyte or so, not once a row. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include "base/status.h"

struct progress {
    const struct vic_progress *hook; /* borrowed; NULL or without a function: nobody listens */
    struct vic_progress_state state;
    double began, last; /* seconds of the monotonic clock; last: of the newest report */
};

/* `stage` is static text; total 0 when it is not known. */
void progress_begin(struct progress *progress, const struct vic_progress *hook, const char *stage, int64_t total);
/* `done` more units are finished. VIC_CANCELLED when the hook asks to stop. */
enum vic_status progress_step(struct progress *progress, int64_t done);
/* The report at the end of the stage, which may still cancel. */
enum vic_status progress_end(struct progress *progress);

#endif
