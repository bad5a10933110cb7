/* A pool of threads that share the parts of one job.
 *
 * The surprising rule: a job never waits for the pool. If another caller is using it, the job runs in the calling thread
 * alone, so sixteen callers of one index each make progress and a search never queues behind a long one. Results do not
 * depend on who ran which part. Also in a child after fork(), where the pool's threads do not exist: the caller's thread
 * does all the parts. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include "base/mem.h"

struct thread_pool;

/* Runs part `part` of a job; `worker` is below the pool's size and used by one thread at a time within a job. */
typedef void thread_task(void *job, int worker, int64_t part);

/* threads - 1 threads are started (the caller is the other); 0 means one a core that this process may run on. A thread
 * that cannot be started is VIC_NO_MEMORY and nothing is left running. */
enum vic_status thread_pool_open(struct mem *mem, int threads, struct thread_pool **pool);
int thread_pool_size(const struct thread_pool *pool);
/* Runs parts 0 .. parts-1, each once, and returns when all are done, with the number of workers that were asked. Parts
 * are handed out one after another. NULL pool: in the caller. Allocates nothing. */
int thread_pool_run(struct thread_pool *pool, int64_t parts, thread_task *task, void *job);
/* NULL is accepted; no job may be running. */
void thread_pool_close(struct thread_pool *pool);

/* Cores this process may run on, at least 1. */
int thread_cores(void);

#endif
