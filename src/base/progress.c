/* The clock behind progress reports. */
#include "base/progress.h"

#include <time.h>

static const double seconds_between_reports = 0.1;

static double clock_seconds(void) {
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static enum vic_status progress_report(struct progress *progress, double now) {
    progress->last = now;
    progress->state.seconds = now - progress->began;
    if (progress->hook->report(progress->hook->user, &progress->state) == 0) return VIC_OK;
    return status_fail(VIC_CANCELLED, "the progress callback asked to stop while %s, at %lld of %lld", progress->state.stage,
                       (long long)progress->state.done, (long long)progress->state.total);
}

void progress_begin(struct progress *progress, const struct vic_progress *hook, const char *stage, int64_t total) {
    *progress = (struct progress){.hook = hook && hook->report ? hook : NULL, .state = {.stage = stage, .total = total}};
    if (progress->hook) progress->began = progress->last = clock_seconds();
}

enum vic_status progress_step(struct progress *progress, int64_t done) {
    progress->state.done += done;
    if (!progress->hook) return VIC_OK;
    double now = clock_seconds();
    return now - progress->last < seconds_between_reports ? VIC_OK : progress_report(progress, now);
}

enum vic_status progress_end(struct progress *progress) {
    return progress->hook ? progress_report(progress, clock_seconds()) : VIC_OK;
}
