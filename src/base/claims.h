/* A few things that threads take turns with: whoever finds all of them taken waits until one is given back.
 *
 * The surprising rule: a child after fork() has none of the threads that had taken something, so there everything is free
 * again and the mutex is new. */
#ifndef BASE_CLAIMS_H
#define BASE_CLAIMS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

enum { CLAIMS_MAX = 64 };

struct claims {
    uint64_t all;          /* a bit a thing */
    _Atomic uint64_t free; /* of those, the ones that can be had */
    _Atomic pid_t owner;   /* the process whose threads claim; negative while a child begins anew */
    pthread_mutex_t mutex;
    pthread_cond_t freed;
};

/* 0 to CLAIMS_MAX things, all free. */
void claims_start(struct claims *claims, int count);
/* Nobody may hold or wait for one in this process. */
void claims_stop(struct claims *claims);
/* The number of one that was free; waits for it. */
int claims_take(struct claims *claims);
void claims_give(struct claims *claims, int number);

#endif
