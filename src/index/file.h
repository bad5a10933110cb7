/* The container: one file of named, aligned, checksummed sections. docs/format.md is the specification.
 *
 * Writing is all or nothing: a temporary file in the same folder, fsync, rename, fsync of the folder, under a lock that
 * dies with its owner. Reading trusts nothing: every count and offset is held against the file's size before use.
 * This file knows bytes and names; what the sections of an index mean is index/sections.c's. */
#ifndef INDEX_FILE_H
#define INDEX_FILE_H

#include "base/mem.h"
#include "base/read.h"

#define FILE_SECTION_NAME_BYTES 24 /* with the terminator */
#define FILE_SECTIONS_MAX       32
#define FILE_VERSION            1 /* written, and the newest that is read */

/* ---- writing */
struct file_writer;

/* Takes the lock and creates the temporary file. VIC_LOCKED, VIC_IO, VIC_NO_SPACE ... naming the path. A leftover of a
 * writer that died is taken over, other files are never touched. Where `path` is a symbolic link its target is what gets
 * replaced; anything there but a regular file is refused, and a file that is there hands its permissions on. */
enum vic_status file_create(const char *path, struct file_writer **writer);
/* Starts a section of exactly `bytes` (space is reserved in the file system where it can be, so a full disk shows here).
 * Sections are written one at a time. */
enum vic_status file_section(struct file_writer *writer, const char *name, uint64_t bytes);
/* Appends to the section; together exactly its bytes. */
enum vic_status file_append(struct file_writer *writer, const void *data, uint64_t bytes);
/* Writes anywhere in the section instead, for rows that arrive out of order (every byte once, by the caller); the section
 * is then read back for its checksum when it ends. */
enum vic_status file_put(struct file_writer *writer, uint64_t offset, const void *data, uint64_t bytes);
/* Table, header, fsync, rename, fsync of the folder. The writer is spent but must still be freed. A failure of the last
 * step alone leaves the new file under its name. */
enum vic_status file_commit(struct file_writer *writer);
/* Without a commit before it the temporary is removed and `path` is as it was. Releases the lock. NULL is accepted. */
void file_writer_free(struct file_writer *writer);

/* ---- reading */
struct file_map {
    const unsigned char *bytes; /* the whole file, mapped read-only */
    uint64_t size;
    int file; /* open until file_map_settle, then -1 */
    int32_t version;
    int32_t count;
    char path[128]; /* for sentences; a long one loses its beginning */
    struct file_map_section {
        char name[FILE_SECTION_NAME_BYTES];
        uint64_t offset, bytes, checksum;
    } sections[FILE_SECTIONS_MAX];
};

/* Maps and validates header and table (which have a checksum of their own, always verified). VIC_FORMAT, VIC_CHECKSUM,
 * VIC_VERSION (naming the unknown feature), VIC_NOT_FOUND. Never blocks on a pipe; reads the first 4096 bytes alone. */
enum vic_status file_map_open(const char *path, struct file_map *map);
/* The section of this name, or NULL with *bytes 0. */
const void *file_map_find(const struct file_map *map, const char *name, uint64_t *bytes);
/* Verifies every section's checksum, and that the gaps between sections are zero; VIC_CHECKSUM names the section or the
 * place. progress may be NULL. */
enum vic_status file_map_verify(const struct file_map *map, const struct vic_progress *progress);
/* One section's alone. */
enum vic_status file_map_verify_section(const struct file_map *map, const struct file_map_section *section);
/* What copies out of it by reads; borrowed, and only until file_map_settle. */
struct mapped file_map_mapped(const struct file_map *map);
/* Closes the file, whose mapping stays: an index that is open holds no descriptor. */
void file_map_settle(struct file_map *map);
/* Closes, unmaps and zeroes. */
void file_map_close(struct file_map *map);
/* Whether the first bytes are our magic: for readers that name what a file looks like. */
bool file_is_container(const void *bytes, uint64_t count);

#endif
