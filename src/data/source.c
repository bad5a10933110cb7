/* Opening and exact reads. */
#include "data/source.h"

#include "base/read.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the formats are little-endian and so must the host be");

void path_ending(const char *path, char *ending, size_t capacity) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    ending[0] = '\0';
    if (!dot || strlen(dot + 1) >= capacity) return;
    size_t i = 0;
    for (; dot[i + 1]; i++) ending[i] = (char)tolower((unsigned char)dot[i + 1]);
    ending[i] = '\0';
}

static void name_set(struct source *source, const char *path) {
    size_t length = strlen(path), most = sizeof source->name - 1;
    if (length <= most)
        memcpy(source->name, path, length + 1);
    else
        (void)snprintf(source->name, sizeof source->name, "...%s", path + length - (most - 3));
}

enum vic_status source_open(const char *path, struct source *source) {
    *source = (struct source){.fd = -1};
    if (!path) return status_fail(VIC_ARGUMENT, "expected the path of a file, found NULL");
    enum vic_status status = VIC_OK;
    source->path = path;
    name_set(source, path);
    path_ending(path, source->ending, sizeof source->ending);
    /* Without O_NONBLOCK opening a pipe would wait for its other end. */
    source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (source->fd < 0) return status_fail_errno(errno, "open", path);
    struct stat facts;
    if (fstat(source->fd, &facts) != 0)
        status = status_fail_errno(errno, "examine", path);
    else if (!S_ISREG(facts.st_mode))
        status = status_fail(VIC_IO, "expected a file at %s, found %s", source->name,
                             S_ISDIR(facts.st_mode) ? "a folder" : "a pipe, socket or device");
    if (status == VIC_OK) {
        source->bytes = (uint64_t)facts.st_size;
        source->head_bytes = source->bytes < SOURCE_HEAD_BYTES ? source->bytes : SOURCE_HEAD_BYTES;
        status = source_read(source, 0, source->head, source->head_bytes);
    }
    if (status != VIC_OK) source_close(source);
    return status;
}

enum vic_status source_read(const struct source *source, uint64_t offset, void *to, uint64_t bytes) {
    uint64_t got = 0;
    int error = read_at(source->fd, offset, to, bytes, &got);
    if (error) return status_fail_errno(error, "read", source->name);
    if (got == bytes) return VIC_OK;
    return status_fail(VIC_IO, "%s ends at byte %llu although it had %llu bytes when it was opened", source->name,
                       (unsigned long long)(offset + got), (unsigned long long)source->bytes);
}

enum vic_status source_still_there(const struct source *source, const char *path) {
    struct stat opened, named;
    if (fstat(source->fd, &opened) != 0) return status_fail_errno(errno, "examine", source->name);
    bool there = stat(path, &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
    return there ? VIC_OK : status_fail(VIC_IO, "%s was replaced while it and the files beside it were read", source->name);
}

void source_close(struct source *source) {
    if (source->fd >= 0) (void)close(source->fd);
    source->fd = -1;
}

uint32_t source_word(const struct source *source, uint64_t offset) {
    uint32_t word = 0;
    if (offset + sizeof word <= source->head_bytes) memcpy(&word, source->head + offset, sizeof word);
    return word;
}

bool words_are_ids(const uint32_t *words, uint64_t count) {
    uint32_t all = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (words[i] >= 0x3c000000u && words[i] != UINT32_MAX) return false;
        all |= words[i];
    }
    return all != 0;
}

bool source_has_ids(const struct source *source, uint64_t offset, uint64_t count) {
    uint32_t words[1024];
    if (count > sizeof words / sizeof *words) count = sizeof words / sizeof *words;
    if (offset > source->bytes || count > (source->bytes - offset) / sizeof *words) return false;
    return source_read(source, offset, words, count * sizeof *words) == VIC_OK && words_are_ids(words, count);
}
