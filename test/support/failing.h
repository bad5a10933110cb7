/* The C library's allocator, watched: how often malloc and its kin are called, whether all of it comes back, and what
 * happens when the n-th call finds no memory. Programs that use it replace malloc, calloc, realloc, free and the aligned
 * forms by linking support/failing.c; outside a watch these are the C library's own.
 *
 *     for (int64_t n = 1;; n++) {
 *         failing_start(n);                                    0: refuse nothing, only count
 *         enum vic_status status = vic_index_save(index, path, NULL);
 *         struct failing_counts counts = failing_stop();
 *         if (counts.refused == 0) break;                      fewer than n calls: every one has been refused once
 *         assert_int_equal(status, VIC_NO_MEMORY);
 *     }
 *
 * The surprising rule: a watch sees the calls of all threads, since a search works in the pool's threads, so nothing else
 * may run meanwhile. Run what is watched once before: the C library allocates some things once and keeps them.
 * Under a sanitizer, which brings an allocator of its own, failing_available() is false and nothing is counted. */
#ifndef TEST_FAILING_H
#define TEST_FAILING_H

#include <stdbool.h>
#include <stdint.h>

struct failing_counts {
    int64_t calls;   /* that ask for memory */
    int64_t refused; /* 0 or 1 */
    int64_t kept;    /* blocks taken and not given back since the start */
};

bool failing_available(void);
/* Starts a watch in which the n-th call, counted from 1, is refused. */
void failing_start(int64_t n);
/* What was seen so far; the watch goes on, and after a refusal no other follows. */
struct failing_counts failing_look(void);
/* Ends the watch. */
struct failing_counts failing_stop(void);

#endif
