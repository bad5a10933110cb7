/* A child process whose system calls are counted and interfered with: killed before its n-th call, or given an error in
 * place of it, or made to move only half of the bytes, or kept waiting while we do something. By ptrace, so the library needs
 * no seam for it; Linux on x86-64. */
#ifndef TEST_TRACER_H
#define TEST_TRACER_H

#include <stdbool.h>
#include <stdint.h>

enum tracer_action {
    TRACER_WATCH,   /* only count */
    TRACER_KILL,    /* SIGKILL before the call is made */
    TRACER_FAIL,    /* the call is not made and returns -error */
    TRACER_SHORTEN, /* a read or write moves half of what was asked */
    TRACER_MEET     /* meet(argument) runs in the parent before the call is made */
};

struct tracer_plan {
    enum tracer_action action;
    int64_t at;          /* the call that is meant, counted from 1; 0: every one */
    int error;           /* TRACER_FAIL */
    bool files_only;     /* count only calls that touch files (open, read, write, fsync, rename ...), not memory or exit */
    const char *of_name; /* count only calls of this name; NULL: all */
    void (*meet)(void *argument);
};

struct tracer_seen {
    int64_t calls;    /* counted */
    bool hit;         /* the one that was meant came */
    char name[24];    /* of it */
    bool killed;      /* by a signal */
    char trail[1024]; /* names of the counted calls that touch files, each with a blank behind it, as far as they fit */
    int exit_code;    /* what work returned, when not killed */
};

/* Whether this system lets us; otherwise a test should say so and skip. */
bool tracer_available(void);
/* Forks; the child runs work(argument) and exits with its value. */
struct tracer_seen tracer_run(const struct tracer_plan *plan, int (*work)(void *argument), void *argument);

#endif
