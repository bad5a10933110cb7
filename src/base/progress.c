/* Progress reports, at most ten a second. */
#include "base/progress.h"

#include "base/clock.h"

static const int64_t report_every_ns = 100000000;

struct progress progress_start(const struct vic_progress *hook, const char *stage, int64_t total) {
    int64_t now = now_ns();
    return (struct progress){hook && hook->report ? hook : NULL, stage, total, now, now};
}

enum vic_status progress_step(struct progress *progress, int64_t done) {
    if (!progress->hook) return VIC_OK;
    int64_t now = now_ns();
    if (now - progress->last_ns < report_every_ns && done != progress->total) return VIC_OK;
    progress->last_ns = now;
    struct vic_progress_state state = {progress->stage, done, progress->total, (double)(now - progress->start_ns) * 1e-9};
    if (progress->hook->report(progress->hook->user, &state) == 0) return VIC_OK;
    return status_fail(VIC_CANCELLED, "the progress callback asked to stop while %s, at %lld of %lld", progress->stage,
                       (long long)done, (long long)progress->total);
}
