/* The container on disk: a page of header and table, then sections (docs/format.md).
 *
 * The writer knows every section's size beforehand, so bytes go straight to their place, and the page is written last.
 * The reader reads the page, not maps it, and judges it before anything is mapped; after that every section is known to
 * lie inside the file, and opening costs the same for 1 KiB and for 1 TiB. */
#include "index/file.h"
#include "base/progress.h"
#include "base/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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
    struct save save;
    struct header_page page; /* page.count sections are begun, the last one may be open */
    bool open, scattered;    /* a section is being written; by file_put */
    uint64_t written;        /* bytes of it */
    XXH3_state_t hash;
};

enum vic_status file_create(const char *path, struct file_writer **result) {
    void *memory = NULL;
    enum vic_status status = mem_alloc(&mem_default, sizeof(struct file_writer), "a file writer", &memory);
    if (status != VIC_OK) return status;
    struct file_writer *writer = memory;
    memset(writer, 0, sizeof *writer);
    memcpy(writer->page.magic, magic, sizeof magic);
    writer->page.version = FILE_VERSION;
    writer->page.byte_order = byte_order_mark;
    writer->page.file_bytes = PAGE_BYTES;
    status = save_open(&writer->save, path);
    if (status == VIC_OK)
        *result = writer;
    else
        file_writer_free(writer);
    return status;
}

static struct header_entry *writer_entry(struct file_writer *writer) { return &writer->page.entries[writer->page.count - 1]; }

/* Hashes the open section from the file, for one that was written out of order. */
static enum vic_status section_read_back(struct file_writer *writer) {
    const struct header_entry *entry = writer_entry(writer);
    unsigned char block[1 << 16];
    for (uint64_t done = 0; done < entry->bytes;) {
        uint64_t part = entry->bytes - done < sizeof block ? entry->bytes - done : sizeof block;
        enum vic_status status = save_read(&writer->save, entry->offset + done, block, part);
        if (status != VIC_OK) return status;
        (void)XXH3_64bits_update(&writer->hash, block, (size_t)part);
        done += part;
    }
    return VIC_OK;
}

static enum vic_status section_end(struct file_writer *writer) {
    if (!writer->open) return VIC_OK;
    struct header_entry *entry = writer_entry(writer);
    if (writer->written != entry->bytes)
        return status_fail(VIC_INTERNAL, "section %s of %s was announced with %llu bytes, %llu were written", entry->name,
                           writer->save.path, (unsigned long long)entry->bytes, (unsigned long long)writer->written);
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
    status = save_reserve(&writer->save, entry->offset, bytes);
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
    if (!writer->open) return status_fail(VIC_INTERNAL, "bytes for %s belong to no section", writer->save.path);
    const struct header_entry *entry = writer_entry(writer);
    if (offset <= entry->bytes && bytes <= entry->bytes - offset) return VIC_OK;
    return status_fail(VIC_INTERNAL, "section %s of %llu bytes cannot take %llu bytes at %llu", entry->name,
                       (unsigned long long)entry->bytes, (unsigned long long)bytes, (unsigned long long)offset);
}

enum vic_status file_append(struct file_writer *writer, const void *data, uint64_t bytes) {
    enum vic_status status = section_holds(writer, writer->written, bytes);
    if (status == VIC_OK) status = save_write(&writer->save, writer_entry(writer)->offset + writer->written, data, bytes);
    if (status != VIC_OK) return status;
    (void)XXH3_64bits_update(&writer->hash, data, (size_t)bytes);
    writer->written += bytes;
    return VIC_OK;
}

enum vic_status file_put(struct file_writer *writer, uint64_t offset, const void *data, uint64_t bytes) {
    enum vic_status status = section_holds(writer, offset, bytes);
    if (status == VIC_OK) status = save_write(&writer->save, writer_entry(writer)->offset + offset, data, bytes);
    if (status != VIC_OK) return status;
    writer->scattered = true;
    writer->written += bytes;
    return VIC_OK;
}

enum vic_status file_commit(struct file_writer *writer) {
    enum vic_status status = section_end(writer);
    if (status != VIC_OK) return status;
    writer->page.checksum = page_checksum(&writer->page);
    status = save_write(&writer->save, 0, &writer->page, sizeof writer->page);
    return status == VIC_OK ? save_commit(&writer->save, writer->page.file_bytes) : status;
}

void file_writer_free(struct file_writer *writer) {
    if (!writer) return;
    save_close(&writer->save);
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
    int error = read_at(*file, 0, page, sizeof *page, bytes);
    return error == 0 ? VIC_OK : status_fail_errno(error, "read", path);
}

enum vic_status file_map_open(const char *path, struct file_map *map) {
    struct header_page page;
    int file = -1;
    uint64_t size = 0, bytes = 0;
    enum vic_status status = VIC_OK;
    TRY(page_read(path, &file, &size, &page, &bytes));
    TRY(page_check(&page, bytes, size, path));
    /* Without advice: over 1 GiB neither MADV_SEQUENTIAL nor MADV_WILLNEED nor MADV_HUGEPAGE changed a scan, cold (292 ms,
     * the disk) or warm (27 ms, as from memory of our own); the page cache's large folios keep faults to 1,000. */
    void *mapped = size > SIZE_MAX ? MAP_FAILED : mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        status = status_fail_errno(errno, "map", path);
        goto done;
    }
    size_t length = strlen(path), most = sizeof map->path - 1;
    *map = (struct file_map){
        .bytes = mapped, .size = size, .file = file, .version = (int32_t)page.version, .count = (int32_t)page.count};
    file = -1;
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

struct mapped file_map_mapped(const struct file_map *map) {
    return (struct mapped){map->file, map->bytes, map->size, map->path};
}

void file_map_settle(struct file_map *map) {
    if (map->bytes && map->file >= 0) (void)close(map->file);
    map->file = -1;
}

void file_map_close(struct file_map *map) {
    file_map_settle(map);
    if (map->bytes) (void)munmap((void *)(uintptr_t)map->bytes, (size_t)map->size);
    *map = (struct file_map){0};
}
