/* Telling a caller how far a long call is, and hearing that it should stop. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include "base/status.h"

struct progress {
    const struct vic_progress *hook; /* NULL or an empty one: silent */
    const char *stage;
    int64_t total;
    int64_t start_ns, last_ns;
};

struct progress progress_start(const struct vic_progress *hook, const char *stage, int64_t total);
/* Reports if a tenth of a second has passed since the last report or done reached total. VIC_CANCELLED: the hook said
 * stop. */
enum vic_status progress_step(struct progress *progress, int64_t done);

#endif
