/* Options structs that begin with `size`: how a caller's version of one becomes ours.
 *
 * The smaller of the two sizes is copied over zeroes; bytes that the caller has and we do not know must be zero, so a
 * newer caller learns that its wish cannot be met instead of having it ignored. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/status.h"

/* `ours` is a struct of `ours_bytes` that begins with size_t size; `theirs` may be NULL. `name` for the sentence. */
enum vic_status options_take(void *ours, size_t ours_bytes, const void *theirs, const char *name);

/* Writes a result struct back into a caller's that may be smaller or larger; theirs->size decides and stays. */
enum vic_status options_give(void *theirs, const void *ours, size_t ours_bytes, const char *name);

#endif
