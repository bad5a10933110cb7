/* The container on disk: a page of header and table, then sections (docs/format.md).
 *
 * Writer: everything goes into `.NAME.vicinal-tmp` beside the target, which is also the lock (flock, so it dies with its
 * owner). Its name is fixed so that a leftover is found and taken over by the next writer instead of piling up. The
 * surprising step is the look after locking: between open and lock another writer may have renamed or removed the file,
 * so the lock counts only if the name still leads to the locked file.
 *
 * Reader: the first page is read, not mapped, and judged before anything is mapped; after that every section is known to
 * lie inside the file, and opening costs the same for 1 KiB and for 1 TiB. */
#define _GNU_SOURCE /* fallocate */

#include "index/file.h"
#include "base/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "sections are mapped as they are: little-endian machines only");

enum { PAGE_BYTES = 4096, SMALL_ALIGNMENT = 64 };
static const unsigned char magic[8] = "VICINAL\n";
static const uint32_t byte_order_mark = 0x01020304;

struct header_entry {
    char name[FILE_SECTION_NAME_BYTES];
    uint64_t offset, bytes, checksum;
    uint64_t reserved[2];
};

struct header_page {
    unsigned char magic[8];
    uint32_t version, byte_order;
    uint64_t required, optional; /* feature bits */
    uint64_t file_bytes;
    uint32_t count, reserved[5];
    struct header_entry entries[FILE_SECTIONS_MAX];
    unsigned char unused[PAGE_BYTES - 64 - 64 * FILE_SECTIONS_MAX - 8];
    uint64_t checksum; /* of all bytes before it */
};
_Static_assert(sizeof(struct header_page) == PAGE_BYTES, "the header is one page");

/* Features that this library refuses but can name; by bit. */
static const char *const feature_names[64] = {"removed rows", "shards"};

/* Large sections begin on a page, for uploads and direct reads; small ones on a cache line, so that a tiny index stays
 * tiny. */
static uint64_t section_alignment(uint64_t bytes) { return bytes >= PAGE_BYTES ? PAGE_BYTES : SMALL_ALIGNMENT; }

static uint64_t page_checksum(const struct header_page *page) {
    return XXH3_64bits(page, offsetof(struct header_page, checksum));
}

bool file_is_container(const void *bytes, uint64_t count) {
    return count >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

/* ---------------------------------------------------------------- writing */

struct file_writer {
    int folder, file; /* descriptors, -1: not open */
    bool owned;       /* the temporary is ours to remove */
    bool kept_mode;   /* `mode` is that of the file to be replaced */
    mode_t mode;
    const char *name;    /* of the target, in its folder; points into path */
    char path[PATH_MAX]; /* links resolved */
    char temporary[NAME_MAX + 1];
    struct header_page page; /* page.count sections are begun, the last one may be open */
    bool open, scattered;    /* a section is being written; by file_put */
    uint64_t written;        /* of it */
    XXH3_state_t hash;
};

static enum vic_status writer_fail(const struct file_writer *writer, const char *what) {
    return status_fail_errno(errno, what, writer->path);
}

/* Fills path, name and temporary, and opens the folder. */
static enum vic_status writer_resolve(struct file_writer *writer, const char *path) {
    if (!realpath(path, writer->path)) {
        if (errno != ENOENT) return status_fail_errno(errno, "write", path);
        if (strlen(path) >= sizeof writer->path) return status_fail_errno(ENAMETOOLONG, "write", path);
        memcpy(writer->path, path, strlen(path) + 1);
    }
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(writer->path, '/');
    writer->name = slash ? slash + 1 : writer->path;
    if (slash) (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - writer->path) + 1, writer->path);
    if (!*writer->name) return status_fail(VIC_ARGUMENT, "expected the name of a file to write, found \"%s\"", path);

    /* A name that leaves no room for the rest gives its hash instead. */
    size_t length = strlen(writer->name);
    if (length + sizeof "..vicinal-tmp" <= sizeof writer->temporary)
        (void)snprintf(writer->temporary, sizeof writer->temporary, ".%s.vicinal-tmp", writer->name);
    else
        (void)snprintf(writer->temporary, sizeof writer->temporary, ".%016llx.vicinal-tmp",
                       (unsigned long long)XXH3_64bits(writer->name, length));

    writer->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return writer->folder < 0 ? status_fail_errno(errno, "open the folder", folder) : VIC_OK;
}

/* What is at the target now: nothing, or a regular file whose permissions are kept. A pipe or /dev/null must not be
 * replaced by a file. */
static enum vic_status writer_look(struct file_writer *writer) {
    struct stat target;
    if (fstatat(writer->folder, writer->name, &target, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? VIC_OK : writer_fail(writer, "look at");
    if (S_ISLNK(target.st_mode)) return VIC_OK; /* leads nowhere, or realpath would have followed it */
    if (!S_ISREG(target.st_mode))
        return status_fail(VIC_IO, "expected a file or nothing at %s, found %s", writer->path,
                           S_ISDIR(target.st_mode) ? "a folder" : "a device or a pipe");
    writer->kept_mode = true;
    writer->mode = target.st_mode & 0777;
    return VIC_OK;
}

/* One attempt to open and lock the temporary; *again: it was renamed or removed under us. */
static enum vic_status writer_try_lock(struct file_writer *writer, bool *again) {
    *again = false;
    writer->file = openat(writer->folder, writer->temporary, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (writer->file < 0) return writer_fail(writer, "create the temporary file for");
    int locked = 0;
    do locked = flock(writer->file, LOCK_EX | LOCK_NB);
    while (locked != 0 && errno == EINTR);
    if (locked != 0 && errno == EWOULDBLOCK)
        return status_fail(VIC_LOCKED, "another writer holds %s (its temporary file %s is locked)", writer->path,
                           writer->temporary);
    if (locked != 0) return writer_fail(writer, "lock");

    struct stat opened, named;
    if (fstat(writer->file, &opened) != 0) return writer_fail(writer, "look at the temporary file for");
    if (fstatat(writer->folder, writer->temporary, &named, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT) return writer_fail(writer, "look at the temporary file for");
        *again = true;
    } else if (opened.st_ino != named.st_ino || opened.st_dev != named.st_dev) {
        *again = true;
    } else if (!S_ISREG(opened.st_mode) || opened.st_nlink != 1) {
        return status_fail(VIC_IO, "expected %s beside %s to be a temporary file of ours, found %s", writer->temporary,
                           writer->path, S_ISREG(opened.st_mode) ? "a file with a second name" : "no regular file");
    }
    if (*again) {
        (void)close(writer->file);
        writer->file = -1;
    }
    return VIC_OK;
}

static enum vic_status writer_lock(struct file_writer *writer) {
    bool again = true;
    for (int attempt = 0; again; attempt++) {
        if (attempt == 100)
            return status_fail(VIC_LOCKED, "other writers hold %s: its temporary file changed under us 100 times",
                               writer->path);
        enum vic_status status = writer_try_lock(writer, &again);
        if (status != VIC_OK) return status;
    }
    writer->owned = true;
    if (ftruncate(writer->file, 0) != 0) return writer_fail(writer, "empty the temporary file for");
    if (writer->kept_mode && fchmod(writer->file, writer->mode) != 0) return writer_fail(writer, "keep the permissions of");
    return VIC_OK;
}

enum vic_status file_create(const char *path, struct file_writer **result) {
    struct file_writer *writer = NULL;
    void *memory = NULL;
    enum vic_status status = VIC_OK;
    TRY(mem_alloc(&mem_default, sizeof *writer, "a file writer", &memory));
    writer = memory;
    memset(writer, 0, sizeof *writer);
    writer->folder = writer->file = -1;
    memcpy(writer->page.magic, magic, sizeof magic);
    writer->page.version = FILE_VERSION;
    writer->page.byte_order = byte_order_mark;
    writer->page.file_bytes = PAGE_BYTES;
    TRY(writer_resolve(writer, path));
    TRY(writer_look(writer));
    TRY(writer_lock(writer));
    *result = writer;
    writer = NULL;
done:
    file_writer_free(writer);
    return status;
}

/* All of `bytes` at `offset`; a short write and an interruption go on where they stopped. */
static enum vic_status write_all(struct file_writer *writer, uint64_t offset, const void *data, uint64_t bytes) {
    const char *next = data;
    while (bytes > 0) {
        size_t part = bytes < (UINT64_C(1) << 30) ? (size_t)bytes : (size_t)1 << 30;
        ssize_t count = pwrite(writer->file, next, part, (off_t)offset);
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) errno = EIO;
        if (count <= 0) return writer_fail(writer, "write");
        next += count;
        offset += (uint64_t)count;
        bytes -= (uint64_t)count;
    }
    return VIC_OK;
}

static struct header_entry *writer_entry(struct file_writer *writer) { return &writer->page.entries[writer->page.count - 1]; }

/* Hashes the open section from the file, for one that was written out of order. */
static enum vic_status section_read_back(struct file_writer *writer) {
    const struct header_entry *entry = writer_entry(writer);
    unsigned char block[1 << 16];
    for (uint64_t done = 0; done < entry->bytes;) {
        size_t part = entry->bytes - done < sizeof block ? (size_t)(entry->bytes - done) : sizeof block;
        ssize_t count = pread(writer->file, block, part, (off_t)(entry->offset + done));
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) errno = EIO;
        if (count <= 0) return writer_fail(writer, "read back");
        (void)XXH3_64bits_update(&writer->hash, block, (size_t)count);
        done += (uint64_t)count;
    }
    return VIC_OK;
}

static enum vic_status section_end(struct file_writer *writer) {
    if (!writer->open) return VIC_OK;
    struct header_entry *entry = writer_entry(writer);
    if (writer->written != entry->bytes)
        return status_fail(VIC_INTERNAL, "section %s of %s was announced with %llu bytes, %llu were written", entry->name,
                           writer->path, (unsigned long long)entry->bytes, (unsigned long long)writer->written);
    enum vic_status status = writer->scattered ? section_read_back(writer) : VIC_OK;
    if (status != VIC_OK) return status;
    entry->checksum = XXH3_64bits_digest(&writer->hash);
    writer->open = false;
    return VIC_OK;
}

/* Lower-case letters, digits, '_', '-' and '.', zeroes to the end, at least one of each. */
static bool name_valid(const char name[FILE_SECTION_NAME_BYTES]) {
    size_t length = strnlen(name, FILE_SECTION_NAME_BYTES);
    if (length == 0 || length == FILE_SECTION_NAME_BYTES) return false;
    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-.") != length) return false;
    for (size_t i = length; i < FILE_SECTION_NAME_BYTES; i++)
        if (name[i]) return false;
    return true;
}

/* Asks the file system for the section's blocks. One that cannot reserve says so only when it is full. */
static enum vic_status section_reserve(struct file_writer *writer, const struct header_entry *entry) {
#if defined(__linux__)
    int failed = 0;
    if (entry->bytes == 0) return VIC_OK;
    do failed = fallocate(writer->file, 0, (off_t)entry->offset, (off_t)entry->bytes);
    while (failed != 0 && errno == EINTR);
    if (failed != 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
        return writer_fail(writer, "reserve space for");
#else
    (void)writer, (void)entry;
#endif
    return VIC_OK;
}

enum vic_status file_section(struct file_writer *writer, const char *name, uint64_t bytes) {
    enum vic_status status = section_end(writer);
    if (status != VIC_OK) return status;
    if (writer->page.count == FILE_SECTIONS_MAX)
        return status_fail(VIC_INTERNAL, "a file has at most %d sections, %s would be one more", FILE_SECTIONS_MAX, name);
    struct header_entry *entry = &writer->page.entries[writer->page.count];
    memset(entry, 0, sizeof *entry);
    (void)snprintf(entry->name, sizeof entry->name, "%s", name);
    if (strcmp(entry->name, name) != 0 || !name_valid(entry->name))
        return status_fail(VIC_INTERNAL, "\"%s\" cannot be the name of a section", name);
    for (uint32_t i = 0; i < writer->page.count; i++)
        if (strcmp(writer->page.entries[i].name, name) == 0)
            return status_fail(VIC_INTERNAL, "section %s is written twice", name);
    entry->offset = round_up(writer->page.file_bytes, section_alignment(bytes));
    entry->bytes = bytes;
    if (bytes > (uint64_t)INT64_MAX - entry->offset)
        return status_fail(VIC_ARGUMENT, "section %s of %llu bytes is more than a file can hold", name,
                           (unsigned long long)bytes);
    status = section_reserve(writer, entry);
    if (status != VIC_OK) return status;
    writer->page.count++;
    writer->page.file_bytes = entry->offset + bytes;
    writer->open = true;
    writer->scattered = false;
    writer->written = 0;
    (void)XXH3_64bits_reset(&writer->hash);
    return VIC_OK;
}

/* Whether [offset, offset + bytes) lies in the open section. */
static enum vic_status section_holds(struct file_writer *writer, uint64_t offset, uint64_t bytes) {
    if (!writer->open) return status_fail(VIC_INTERNAL, "bytes for %s belong to no section", writer->path);
    const struct header_entry *entry = writer_entry(writer);
    if (offset <= entry->bytes && bytes <= entry->bytes - offset) return VIC_OK;
    return status_fail(VIC_INTERNAL, "section %s of %llu bytes cannot take %llu bytes at %llu", entry->name,
                       (unsigned long long)entry->bytes, (unsigned long long)bytes, (unsigned long long)offset);
}

enum vic_status file_append(struct file_writer *writer, const void *data, uint64_t bytes) {
    enum vic_status status = section_holds(writer, writer->written, bytes);
    if (status == VIC_OK) status = write_all(writer, writer_entry(writer)->offset + writer->written, data, bytes);
    if (status != VIC_OK) return status;
    (void)XXH3_64bits_update(&writer->hash, data, (size_t)bytes);
    writer->written += bytes;
    return VIC_OK;
}

enum vic_status file_put(struct file_writer *writer, uint64_t offset, const void *data, uint64_t bytes) {
    enum vic_status status = section_holds(writer, offset, bytes);
    if (status == VIC_OK) status = write_all(writer, writer_entry(writer)->offset + offset, data, bytes);
    if (status != VIC_OK) return status;
    writer->scattered = true;
    writer->written += bytes;
    return VIC_OK;
}

enum vic_status file_commit(struct file_writer *writer) {
    enum vic_status status = section_end(writer);
    if (status != VIC_OK) return status;
    writer->page.checksum = page_checksum(&writer->page);
    status = write_all(writer, 0, &writer->page, sizeof writer->page);
    if (status != VIC_OK) return status;
    if (ftruncate(writer->file, (off_t)writer->page.file_bytes) != 0) return writer_fail(writer, "set the size of");
    if (fsync(writer->file) != 0) return writer_fail(writer, "make durable");
    if (renameat(writer->folder, writer->temporary, writer->folder, writer->name) != 0)
        return writer_fail(writer, "rename the temporary file to");
    writer->owned = false;
    /* EINVAL: a file system whose folders cannot be synchronised. */
    if (fsync(writer->folder) != 0 && errno != EINVAL) return writer_fail(writer, "make durable the folder of");
    return VIC_OK;
}

void file_writer_free(struct file_writer *writer) {
    if (!writer) return;
    /* Removed while it is still locked: afterwards the name may be another writer's. */
    if (writer->owned) (void)unlinkat(writer->folder, writer->temporary, 0);
    if (writer->file >= 0) {
        (void)flock(writer->file, LOCK_UN); /* a child forked meanwhile holds the descriptor too */
        (void)close(writer->file);
    }
    if (writer->folder >= 0) (void)close(writer->folder);
    mem_free(&mem_default, writer, sizeof *writer);
}

/* ---------------------------------------------------------------- reading */

static enum vic_status page_check_features(const struct header_page *page, const char *path) {
    if (!page->required) return VIC_OK;
    int bit = __builtin_ctzll(page->required);
    if (feature_names[bit])
        return status_fail(VIC_VERSION, "%s needs the feature \"%s\" (bit %d), which this library (%s) does not know", path,
                           feature_names[bit], bit, vic_version());
    return status_fail(VIC_VERSION, "%s needs feature bit %d, which this library (%s) does not know", path, bit, vic_version());
}

/* The table: at most 32 names, each once, in the order of their offsets, aligned, inside the file, not overlapping. */
static enum vic_status page_check_table(const struct header_page *page, const char *path) {
    if (page->count > FILE_SECTIONS_MAX)
        return status_fail(VIC_FORMAT, "%s: expected at most %d sections, found %u", path, FILE_SECTIONS_MAX, page->count);
    uint64_t end = PAGE_BYTES;
    for (uint32_t i = 0; i < page->count; i++) {
        const struct header_entry *entry = &page->entries[i];
        if (!name_valid(entry->name)) return status_fail(VIC_FORMAT, "%s: section %u has no valid name", path, i);
        for (uint32_t j = 0; j < i; j++)
            if (memcmp(entry->name, page->entries[j].name, sizeof entry->name) == 0)
                return status_fail(VIC_FORMAT, "%s: two sections are named %s", path, entry->name);
        uint64_t alignment = section_alignment(entry->bytes);
        if (entry->offset % alignment)
            return status_fail(VIC_FORMAT, "%s: expected section %s at a multiple of %llu, found offset %llu", path,
                               entry->name, (unsigned long long)alignment, (unsigned long long)entry->offset);
        if (entry->offset < end)
            return status_fail(VIC_FORMAT, "%s: expected section %s at byte %llu or later, found offset %llu", path,
                               entry->name, (unsigned long long)end, (unsigned long long)entry->offset);
        if (entry->offset > page->file_bytes || entry->bytes > page->file_bytes - entry->offset)
            return status_fail(VIC_FORMAT, "%s: section %s (%llu bytes at %llu) ends past the file's %llu bytes", path,
                               entry->name, (unsigned long long)entry->bytes, (unsigned long long)entry->offset,
                               (unsigned long long)page->file_bytes);
        end = entry->offset + entry->bytes;
    }
    if (end != page->file_bytes)
        return status_fail(VIC_FORMAT, "%s: the sections end at byte %llu, the file at %llu", path, (unsigned long long)end,
                           (unsigned long long)page->file_bytes);
    return VIC_OK;
}

/* `bytes` of the page were there to be read. */
static enum vic_status page_check(const struct header_page *page, uint64_t bytes, uint64_t size, const char *path) {
    if (bytes == 0) return status_fail(VIC_FORMAT, "%s: expected a vicinal file, found no bytes at all", path);
    if (memcmp(page->magic, magic, bytes < sizeof magic ? (size_t)bytes : sizeof magic) != 0)
        return status_fail(VIC_FORMAT, "%s: expected a vicinal file (first bytes \"VICINAL\\n\"), found something else", path);
    if (bytes < PAGE_BYTES)
        return status_fail(VIC_FORMAT, "%s is cut short: expected a header of %d bytes, found %llu", path, PAGE_BYTES,
                           (unsigned long long)bytes);
    if (page->checksum != page_checksum(page))
        return status_fail(VIC_CHECKSUM, "%s: the header does not have its checksum %016llx", path,
                           (unsigned long long)page->checksum);
    if (page->byte_order != byte_order_mark)
        return status_fail(VIC_FORMAT, "%s: expected byte order mark %08x, found %08x", path, byte_order_mark,
                           page->byte_order);
    if (page->version == 0) return status_fail(VIC_FORMAT, "%s: expected format version 1 or later, found 0", path);
    if (page->version > FILE_VERSION)
        return status_fail(VIC_VERSION, "%s has format version %u, this library (%s) reads up to %d", path, page->version,
                           vic_version(), FILE_VERSION);
    enum vic_status status = page_check_features(page, path);
    if (status != VIC_OK) return status;
    if (page->file_bytes != size)
        return status_fail(VIC_FORMAT, "%s: expected %llu bytes, as its header says, found %llu", path,
                           (unsigned long long)page->file_bytes, (unsigned long long)size);
    return page_check_table(page, path);
}

/* Opens a regular file and reads as much of the first page as there is. */
static enum vic_status page_read(const char *path, int *file, uint64_t *size, struct header_page *page, uint64_t *bytes) {
    struct stat found;
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*file < 0) return status_fail_errno(errno, "open", path);
    if (fstat(*file, &found) != 0) return status_fail_errno(errno, "look at", path);
    if (!S_ISREG(found.st_mode))
        return status_fail(VIC_FORMAT, "%s: expected a vicinal file, found %s", path,
                           S_ISDIR(found.st_mode) ? "a folder" : "a device or a pipe");
    *size = (uint64_t)found.st_size;
    for (*bytes = 0; *bytes < sizeof *page;) {
        ssize_t count = pread(*file, (char *)page + *bytes, sizeof *page - (size_t)*bytes, (off_t)*bytes);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return status_fail_errno(errno, "read", path);
        if (count == 0) break;
        *bytes += (uint64_t)count;
    }
    return VIC_OK;
}

enum vic_status file_map_open(const char *path, struct file_map *map) {
    struct header_page page;
    int file = -1;
    uint64_t size = 0, bytes = 0;
    enum vic_status status = VIC_OK;
    TRY(page_read(path, &file, &size, &page, &bytes));
    TRY(page_check(&page, bytes, size, path));
    void *mapped = size > SIZE_MAX ? MAP_FAILED : mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        status = status_fail_errno(errno, "map", path);
        goto done;
    }
    size_t length = strlen(path), most = sizeof map->path - 1;
    *map = (struct file_map){.bytes = mapped, .size = size, .version = (int32_t)page.version, .count = (int32_t)page.count};
    (void)snprintf(map->path, sizeof map->path, "%s", length > most ? path + length - most : path);
    for (int32_t i = 0; i < map->count; i++) {
        const struct header_entry *entry = &page.entries[i];
        map->sections[i] = (struct file_map_section){"", entry->offset, entry->bytes, entry->checksum};
        memcpy(map->sections[i].name, entry->name, sizeof entry->name);
    }
done:
    if (file >= 0) (void)close(file);
    return status;
}

const void *file_map_find(const struct file_map *map, const char *name, uint64_t *bytes) {
    for (int32_t i = 0; i < map->count; i++) {
        if (strcmp(map->sections[i].name, name) != 0) continue;
        *bytes = map->sections[i].bytes;
        return map->bytes + map->sections[i].offset;
    }
    *bytes = 0;
    return NULL;
}

/* Progress is in bytes of the file; the last section ends it. */
static enum vic_status section_verify(const struct file_map *map, const struct file_map_section *section,
                                      struct progress *progress) {
    const uint64_t block = UINT64_C(4) << 20;
    XXH3_state_t hash;
    (void)XXH3_64bits_reset(&hash);
    for (uint64_t done = 0; done < section->bytes;) {
        uint64_t part = section->bytes - done < block ? section->bytes - done : block;
        (void)XXH3_64bits_update(&hash, map->bytes + section->offset + done, (size_t)part);
        done += part;
        enum vic_status status = progress_step(progress, (int64_t)(section->offset + done));
        if (status != VIC_OK) return status;
    }
    uint64_t found = XXH3_64bits_digest(&hash);
    if (found == section->checksum) return VIC_OK;
    return status_fail(VIC_CHECKSUM, "%s: expected checksum %016llx for section %s, found %016llx", map->path,
                       (unsigned long long)section->checksum, section->name, (unsigned long long)found);
}

enum vic_status file_map_verify_section(const struct file_map *map, const struct file_map_section *section) {
    struct progress silent = progress_start(NULL, "checking", 0);
    return section_verify(map, section, &silent);
}

enum vic_status file_map_verify(const struct file_map *map, const struct vic_progress *hook) {
    struct progress progress = progress_start(hook, "checking", (int64_t)map->size);
    uint64_t end = PAGE_BYTES;
    for (int32_t i = 0; i < map->count; i++) {
        const struct file_map_section *section = &map->sections[i];
        for (uint64_t at = end; at < section->offset; at++)
            if (map->bytes[at])
                return status_fail(VIC_CHECKSUM, "%s: expected zeroes before section %s, found %02x at byte %llu", map->path,
                                   section->name, map->bytes[at], (unsigned long long)at);
        enum vic_status status = section_verify(map, section, &progress);
        if (status != VIC_OK) return status;
        end = section->offset + section->bytes;
    }
    return VIC_OK;
}

void file_map_close(struct file_map *map) {
    if (map->bytes) (void)munmap((void *)(uintptr_t)map->bytes, (size_t)map->size);
    *map = (struct file_map){0};
}
