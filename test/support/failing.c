/* malloc and its kin, in front of the C library's. glibc lets a program define them and calls the program's from within
 * itself too; __libc_malloc and the like are its own underneath. Nothing here may allocate, and printing allocates. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "support/failing.h"
#include "support/sanitizer.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

static atomic_bool watching;
static _Atomic int64_t calls, refused, kept, refuse_at;

void failing_start(int64_t n) {
    calls = refused = kept = 0;
    refuse_at = n;
    watching = true;
}

struct failing_counts failing_look(void) {
    return (struct failing_counts){.calls = calls, .refused = refused, .kept = kept};
}

struct failing_counts failing_stop(void) {
    watching = false;
    return failing_look();
}

#if UNDER_ADDRESS_SANITIZER || UNDER_THREAD_SANITIZER || !defined(__GLIBC__)
bool failing_available(void) { return false; }
#else
bool failing_available(void) { return true; }

/* Seen by the C library, whose own calls shall come here, although the rest of a test is built with hidden symbols. */
#pragma GCC visibility push(default)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

/* Looking for a translation of an error's words, glibc 2.41 asks for memory and does well without. */
static _Thread_local bool in_words;

int __xpg_strerror_r(int error, char *text, size_t bytes);
int __xpg_strerror_r(int error, char *text, size_t bytes) {
    int (*own)(int, char *, size_t) = NULL;
    in_words = true;
    *(void **)&own = dlsym(RTLD_NEXT, "__xpg_strerror_r");
    int code = own(error, text, bytes);
    in_words = false;
    return code;
}

/* Whether the call may go through. */
static bool admit(void) {
    if (!watching || in_words) return true;
    if (atomic_fetch_add(&calls, 1) + 1 != refuse_at) return true;
    refused = 1;
    errno = ENOMEM;
    return false;
}

static void *taken(void *memory) {
    if (memory && watching && !in_words) atomic_fetch_add(&kept, 1);
    return memory;
}

void *malloc(size_t bytes) { return admit() ? taken(__libc_malloc(bytes)) : NULL; }
void *calloc(size_t count, size_t bytes) { return admit() ? taken(__libc_calloc(count, bytes)) : NULL; }
void *memalign(size_t alignment, size_t bytes) { return admit() ? taken(__libc_memalign(alignment, bytes)) : NULL; }
void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    void *block = memalign(alignment, bytes);
    if (!block) return ENOMEM;
    *memory = block;
    return 0;
}

/* A block that moves is one taken and one given back. */
void *realloc(void *memory, size_t bytes) {
    if (!admit()) return NULL;
    void *block = __libc_realloc(memory, bytes);
    return memory ? block : taken(block);
}

void free(void *memory) {
    if (memory && watching && !in_words) atomic_fetch_sub(&kept, 1);
    __libc_free(memory);
}
#pragma GCC visibility pop
#endif
