/* A folder of a test program's own, in memory where there is /dev/shm, and whole files in and out. */
#ifndef TEST_SCRATCH_H
#define TEST_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Group set-up and tear-down of cmocka: make the folder, remove it with all that is in it. */
int scratch_open(void **state);
int scratch_close(void **state);
/* The folder's path, and a name in it; valid until the folder goes. */
const char *scratch_folder(void);
const char *scratch_path(const char *name);
/* Entries of the folder, "." and ".." apart; and whether one is there. */
int64_t scratch_count(void);
bool scratch_has(const char *name);
/* Removes everything in the folder. */
void scratch_clear(void);
int scratch_empty(void **state); /* the same, as a tear-down of a test */

struct blob {
    unsigned char *bytes;
    size_t size;
};
/* With room for one byte more. */
struct blob blob_read(const char *path);
struct blob blob_copy(const struct blob *blob);
void blob_write(const char *path, const unsigned char *bytes, size_t size);
bool blob_equals_file(const struct blob *blob, const char *path);
void blob_free(struct blob *blob);

#endif
