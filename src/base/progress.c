/* Progress reports, at most ten a second. A job of many parts is run in slices, each as long as the time between two reports as
 * far as the ones before it tell; the hook is only ever called between them, by the thread that began the job. */
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

struct slice {
    const struct progress_job *job;
    int64_t first;
};

static void slice_part(void *argument, int worker, int64_t part) {
    const struct slice *slice = argument;
    slice->job->task(slice->job->job, worker, slice->first + part);
}

/* Twice as many parts at most as last time, for the first ones are short and say little. */
static int64_t slice_next(int64_t parts, int64_t spent_ns) {
    if (spent_ns * 2 <= report_every_ns) return parts * 2;
    int64_t fitting = (int64_t)((double)parts * (double)report_every_ns / (double)spent_ns);
    return fitting > 1 ? fitting : 1;
}

enum vic_status progress_run(struct progress *progress, struct thread_pool *pool, const struct progress_job *job) {
    struct slice slice = {.job = job};
    int64_t most = progress->hook ? thread_pool_size(pool) : job->parts;
    for (int64_t count; slice.first < job->parts; slice.first += count) {
        int64_t began = now_ns(), done;
        count = job->parts - slice.first < most ? job->parts - slice.first : most;
        (void)thread_pool_run(pool, count, slice_part, &slice);
        most = slice_next(count, now_ns() - began);
        done = job->done + (slice.first + count) * job->each;
        enum vic_status status = progress_step(progress, done < progress->total ? done : progress->total - 1);
        if (status != VIC_OK) return status;
    }
    return VIC_OK;
}
