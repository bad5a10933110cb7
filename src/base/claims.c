/* The bits, and the sleep of those who find none. */
#include "base/claims.h"

#include <sched.h>
#include <unistd.h>

static void start(struct claims *claims) {
    atomic_store(&claims->free, claims->all);
    (void)pthread_mutex_init(&claims->mutex, NULL);
    (void)pthread_cond_init(&claims->freed, NULL);
}

void claims_start(struct claims *claims, int count) {
    claims->all = count > 0 ? UINT64_MAX >> (CLAIMS_MAX - count) : 0;
    start(claims);
    atomic_store(&claims->owner, getpid());
}

/* A child may have threads of its own by now: the first of them begins anew, while `owner` is the negative process, and the
 * others wait. */
static void forked_reset(struct claims *claims) {
    pid_t process = getpid(), owner = atomic_load(&claims->owner);
    if (owner == process) return;
    if (owner == -process || !atomic_compare_exchange_strong(&claims->owner, &owner, -process)) {
        while (atomic_load(&claims->owner) != process) (void)sched_yield();
        return;
    }
    start(claims);
    atomic_store(&claims->owner, process);
}

void claims_stop(struct claims *claims) {
    forked_reset(claims); /* destroying a condition that the parent's threads wait for would wait with them */
    (void)pthread_cond_destroy(&claims->freed);
    (void)pthread_mutex_destroy(&claims->mutex);
}

/* -1: none is free. */
static int take_one(struct claims *claims) {
    uint64_t free = atomic_load(&claims->free);
    while (free && !atomic_compare_exchange_weak(&claims->free, &free, free & (free - 1))) {
    }
    return free ? __builtin_ctzll(free) : -1;
}

int claims_take(struct claims *claims) {
    forked_reset(claims);
    int number = take_one(claims);
    if (number >= 0) return number;
    (void)pthread_mutex_lock(&claims->mutex);
    while ((number = take_one(claims)) < 0) (void)pthread_cond_wait(&claims->freed, &claims->mutex);
    (void)pthread_mutex_unlock(&claims->mutex);
    return number;
}

/* Under the mutex, so that a waiter between its last try and its sleep cannot miss it. */
void claims_give(struct claims *claims, int number) {
    (void)pthread_mutex_lock(&claims->mutex);
    atomic_fetch_or(&claims->free, UINT64_C(1) << number);
    (void)pthread_cond_broadcast(&claims->freed);
    (void)pthread_mutex_unlock(&claims->mutex);
}
