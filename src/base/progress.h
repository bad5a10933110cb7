/* Telling a caller how far a long call is, and hearing that it should stop. */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include "base/thread.h"

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

/* One of the jobs of a stage. */
struct progress_job {
    thread_task *task;
    void *job;
    int64_t parts;
    int64_t done, each; /* what is done of the stage before it, and what a part adds */
};
/* Runs it on a pool and looks at the hook some ten times a second meanwhile. It never reports the stage's end. VIC_CANCELLED:
 * as above; parts that had not begun are not run. */
enum vic_status progress_run(struct progress *progress, struct thread_pool *pool, const struct progress_job *job);

#endif
