/* A file being read: its size, its first bytes, and exact reads anywhere in it.
 *
 * Reads go by pread, never by a mapping: a file that shrinks under a mapping is a signal, under pread it is a status. */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include "base/mem.h"

enum { SOURCE_HEAD_BYTES = 512 };

struct source {
    int fd; /* -1: none */
    uint64_t bytes;
    const char *path; /* borrowed, only while a reader is being opened */
    char name[168];   /* the end of the path, for sentences */
    char ending[12];  /* after the last dot of the file's name, lower case; "" when there is none or a longer one */
    unsigned char head[SOURCE_HEAD_BYTES];
    uint64_t head_bytes; /* how many of them the file has */
};

/* Opens a regular file. VIC_NOT_FOUND, VIC_IO. Close with source_close. */
enum vic_status source_open(const char *path, struct source *source);
/* Exactly `bytes` from `offset`; beyond the end is VIC_IO. */
enum vic_status source_read(const struct source *source, uint64_t offset, void *to, uint64_t bytes);
/* VIC_IO unless the path still leads to the file that is open: files beside it may be of another save else. */
enum vic_status source_still_there(const struct source *source, const char *path);
/* A source that was never opened is accepted when its fd is -1. */
void source_close(struct source *source);

/* The last part of a path in lower case after its last dot. */
void path_ending(const char *path, char *ending, size_t capacity);

/* Four bytes as they lie in the head; zero beyond its end. */
uint32_t source_word(const struct source *source, uint64_t offset);

/* Whether `count` 32-bit words look like row ids rather than float32: as floats they would all lie between 0 and 0.0078,
 * which vectors do not. All ones (an unused slot) passes; words that are all zero say nothing, so they do not. */
bool words_are_ids(const uint32_t *words, uint64_t count);
/* The same for the words of a file from `offset`, at most `count` of them. */
bool source_has_ids(const struct source *source, uint64_t offset, uint64_t count);

#endif
