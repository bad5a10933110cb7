/* The pool. One mutex and two conditions; `generation` tells sleeping workers that there is a job. The parts are handed
 * out by an atomic counter, so the mutex is touched twice a job, not once a part.
 *
 * Workers look for the next job for some microseconds before they sleep: waking a thread costs up to 50 us in a virtual
 * machine, as much as a whole search of ten thousand rows.
 *
 * A worker that is woken may be put on the caller's own processor, and there it only gets to run when the job is over; the
 * system's balancing takes milliseconds to see it. So workers remember where they ran, and one that ran where the caller
 * is now is kept off that processor (10,000 x 384: 240 us a search with the worker beside the caller, 105 us without). */
#define _GNU_SOURCE
#include "base/thread.h"

#include "base/fpenv.h"
#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

enum { THREADS_MAX = 1024 };
static const int64_t spin_ns = 30000;

struct thread_pool {
    struct mem *mem;
    int size;    /* workers, the caller among them */
    int started; /* threads to join */
    pid_t owner;
    cpu_set_t allowed; /* where the process may run; empty: not known, or too few for all workers */
    atomic_flag busy;
    pthread_mutex_t mutex;
    pthread_cond_t work, idle;
    atomic_uint generation;
    bool stopping;
    /* The job: written by the caller before `generation` moves. */
    thread_task *task;
    void *job;
    int64_t parts;
    _Atomic int64_t next;
    atomic_int running; /* workers inside the job */
    struct thread_worker {
        struct thread_pool *pool;
        pthread_t thread;
        int number;
        atomic_int processor; /* where it ended its last job; -1: not known */
    } workers[];
};

static inline void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

int thread_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

static void pool_work(struct thread_pool *pool, int worker) {
    for (;;) {
        int64_t part = atomic_fetch_add(&pool->next, 1);
        if (part >= pool->parts) return;
        pool->task(pool->job, worker, part);
    }
}

/* Waits until `generation` differs from `seen`: first by looking, then asleep. */
static unsigned pool_wait(struct thread_pool *pool, unsigned seen) {
    int64_t start = now_ns();
    do {
        for (int i = 0; i < 64; i++) {
            unsigned generation = atomic_load(&pool->generation);
            if (generation != seen) return generation;
            cpu_relax();
        }
    } while (now_ns() - start < spin_ns);
    (void)pthread_mutex_lock(&pool->mutex);
    while (atomic_load(&pool->generation) == seen) (void)pthread_cond_wait(&pool->work, &pool->mutex);
    (void)pthread_mutex_unlock(&pool->mutex);
    return atomic_load(&pool->generation);
}

static void *worker_main(void *argument) {
    struct thread_worker *worker = argument;
    struct thread_pool *pool = worker->pool;
    (void)fpenv_enter();
    for (unsigned seen = 0;;) {
        seen = pool_wait(pool, seen);
        if (pool->stopping) return NULL;
        pool_work(pool, worker->number);
        atomic_store(&worker->processor, sched_getcpu());
        if (atomic_fetch_sub(&pool->running, 1) == 1) {
            (void)pthread_mutex_lock(&pool->mutex);
            (void)pthread_cond_signal(&pool->idle);
            (void)pthread_mutex_unlock(&pool->mutex);
        }
    }
}

/* Keeps workers that ran on the caller's processor off it from now on. A look at each; a system call only when one did. */
static void pool_spread(struct thread_pool *pool) {
    int here = sched_getcpu();
    size_t processor = (size_t)here;
    if (here < 0 || here >= CPU_SETSIZE || !CPU_ISSET(processor, &pool->allowed)) return;
    for (int i = 1; i < pool->size; i++) {
        struct thread_worker *worker = &pool->workers[i];
        if (atomic_load(&worker->processor) != here) continue;
        cpu_set_t others = pool->allowed;
        CPU_CLR(processor, &others);
        (void)pthread_setaffinity_np(worker->thread, sizeof others, &others);
        atomic_store(&worker->processor, -1);
    }
}

/* Moves `generation` under the mutex, so that a worker between its last look and its sleep cannot miss it. */
static void pool_announce(struct thread_pool *pool) {
    (void)pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->generation, 1);
    (void)pthread_cond_broadcast(&pool->work);
    (void)pthread_mutex_unlock(&pool->mutex);
}

int thread_pool_run(struct thread_pool *pool, int64_t parts, thread_task *task, void *job) {
    if (parts <= 0) return 0;
    bool alone = !pool || pool->size == 1 || parts == 1 || getpid() != pool->owner || atomic_flag_test_and_set(&pool->busy);
    if (alone) {
        for (int64_t part = 0; part < parts; part++) task(job, 0, part);
        return 1;
    }
    pool->task = task, pool->job = job, pool->parts = parts;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->running, pool->size - 1);
    pool_spread(pool);
    pool_announce(pool);
    pool_work(pool, 0);
    int64_t start = now_ns();
    while (atomic_load(&pool->running) > 0 && now_ns() - start < spin_ns) cpu_relax();
    if (atomic_load(&pool->running) > 0) {
        (void)pthread_mutex_lock(&pool->mutex);
        while (atomic_load(&pool->running) > 0) (void)pthread_cond_wait(&pool->idle, &pool->mutex);
        (void)pthread_mutex_unlock(&pool->mutex);
    }
    atomic_flag_clear(&pool->busy);
    return pool->size;
}

int thread_pool_size(const struct thread_pool *pool) { return pool ? pool->size : 1; }

static uint64_t pool_bytes(int size) { return sizeof(struct thread_pool) + (uint64_t)size * sizeof(struct thread_worker); }

enum vic_status thread_pool_open(struct mem *mem, int threads, struct thread_pool **pool) {
    int size = threads > 0 ? threads : thread_cores();
    if (threads < 0 || size > THREADS_MAX)
        return status_fail(VIC_ARGUMENT, "expected threads from 0 (all cores) to %d, found %d", THREADS_MAX, threads);
    void *memory = NULL;
    enum vic_status status = mem_alloc(mem, pool_bytes(size), "the thread pool", &memory);
    if (status != VIC_OK) return status;
    struct thread_pool *made = memory;
    *made = (struct thread_pool){.mem = mem, .size = size, .owner = getpid(), .busy = ATOMIC_FLAG_INIT};
    if (sched_getaffinity(0, sizeof made->allowed, &made->allowed) != 0 || CPU_COUNT(&made->allowed) < size)
        CPU_ZERO(&made->allowed);
    (void)pthread_mutex_init(&made->mutex, NULL);
    (void)pthread_cond_init(&made->work, NULL);
    (void)pthread_cond_init(&made->idle, NULL);
    for (int i = 1; i < size; i++) {
        struct thread_worker *worker = &made->workers[i];
        *worker = (struct thread_worker){.pool = made, .number = i, .processor = -1};
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
            thread_pool_close(made);
            return status_fail(VIC_NO_MEMORY, "cannot start thread %d of %d", i + 1, size);
        }
        made->started++;
    }
    *pool = made;
    return VIC_OK;
}

void thread_pool_close(struct thread_pool *pool) {
    if (!pool) return;
    if (getpid() == pool->owner) {
        (void)pthread_mutex_lock(&pool->mutex);
        pool->stopping = true;
        (void)pthread_mutex_unlock(&pool->mutex);
        pool_announce(pool);
        for (int i = 1; i <= pool->started; i++) (void)pthread_join(pool->workers[i].thread, NULL);
        (void)pthread_cond_destroy(&pool->work);
        (void)pthread_cond_destroy(&pool->idle);
        (void)pthread_mutex_destroy(&pool->mutex);
    }
    mem_free(pool->mem, pool, pool_bytes(pool->size));
}
