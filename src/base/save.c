/* The surprising step of locking is the look afterwards: between open and flock another writer may have renamed the
 * temporary to its target or removed it, so the lock counts only if the name still leads to the locked file. */
#define _GNU_SOURCE /* fallocate */

#include "base/save.h"
#include "base/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static enum vic_status save_fail(const struct save *save, const char *what) {
    return status_fail_errno(errno, what, save->path);
}

/* Fills path, name and temporary, and opens the folder. */
static enum vic_status save_resolve(struct save *save, const char *path) {
    if (!realpath(path, save->path)) {
        if (errno != ENOENT) return status_fail_errno(errno, "write", path);
        if (strlen(path) >= sizeof save->path) return status_fail_errno(ENAMETOOLONG, "write", path);
        memcpy(save->path, path, strlen(path) + 1);
    }
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(save->path, '/');
    save->name = slash ? slash + 1 : save->path;
    if (slash) (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - save->path) + 1, save->path);
    if (!*save->name) return status_fail(VIC_ARGUMENT, "expected the name of a file to write, found \"%s\"", path);

    /* A name that leaves no room for the rest gives its hash instead. */
    size_t length = strlen(save->name);
    if (length + sizeof "..vicinal-tmp" <= sizeof save->temporary)
        (void)snprintf(save->temporary, sizeof save->temporary, ".%s.vicinal-tmp", save->name);
    else
        (void)snprintf(save->temporary, sizeof save->temporary, ".%016llx.vicinal-tmp",
                       (unsigned long long)XXH3_64bits(save->name, length));
    memcpy(save->old, save->temporary, sizeof save->old);
    memcpy(save->old + strlen(save->old) - 3, "old", 3); /* in the place of "tmp" */

    save->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return save->folder < 0 ? status_fail_errno(errno, "open the folder", folder) : VIC_OK;
}

/* What is at the target now: nothing (*mode stays), or a regular file, whose permission bits *mode gets. A pipe or
 * /dev/null must not be replaced by a file. */
static enum vic_status save_look(const struct save *save, mode_t *mode) {
    struct stat target;
    if (fstatat(save->folder, save->name, &target, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? VIC_OK : save_fail(save, "look at");
    if (S_ISLNK(target.st_mode)) return VIC_OK; /* leads nowhere, or realpath would have followed it */
    if (!S_ISREG(target.st_mode))
        return status_fail(VIC_IO, "expected a file or nothing at %s, found %s", save->path,
                           S_ISDIR(target.st_mode) ? "a folder" : "a device or a pipe");
    *mode = target.st_mode & 0777;
    return VIC_OK;
}

/* Opens the temporary that is there or makes one, which is then ours to remove even if the lock cannot be had. *again: it
 * was removed between the two. */
static enum vic_status save_open_temporary(struct save *save, bool *again) {
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    save->file = openat(save->folder, save->temporary, flags | O_CREAT | O_EXCL, 0666);
    save->owned = save->file >= 0;
    if (save->owned) return VIC_OK;
    if (errno == EEXIST) {
        save->file = openat(save->folder, save->temporary, flags);
        *again = save->file < 0 && errno == ENOENT;
    }
    return save->file < 0 && !*again ? save_fail(save, "create the temporary file for") : VIC_OK;
}

/* One attempt to open and lock the temporary; *again: it was renamed or removed under us. */
static enum vic_status save_try_lock(struct save *save, bool *again) {
    *again = false;
    enum vic_status status = save_open_temporary(save, again);
    if (status != VIC_OK || *again) return status;
    int locked = 0;
    do locked = flock(save->file, LOCK_EX | LOCK_NB);
    while (locked != 0 && errno == EINTR);
    if (locked != 0 && errno == EWOULDBLOCK) {
        save->owned = false;
        return status_fail(VIC_LOCKED, "another writer holds %s: its temporary file %s is locked", save->path, save->temporary);
    }
    if (locked != 0) return save_fail(save, "lock");

    struct stat opened, named;
    if (fstat(save->file, &opened) != 0) return save_fail(save, "look at the temporary file for");
    if (fstatat(save->folder, save->temporary, &named, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT) return save_fail(save, "look at the temporary file for");
        *again = true;
    } else if (opened.st_ino != named.st_ino || opened.st_dev != named.st_dev) {
        *again = true;
    } else if (!S_ISREG(opened.st_mode) || opened.st_nlink != 1) {
        return status_fail(VIC_IO, "expected %s beside %s to be a temporary file of ours, found %s", save->temporary,
                           save->path, S_ISREG(opened.st_mode) ? "a file with a second name" : "no regular file");
    }
    if (!*again) {
        save->owned = true;
        return VIC_OK;
    }
    (void)close(save->file);
    save->file = -1;
    save->owned = false;
    return VIC_OK;
}

enum vic_status save_open(struct save *save, const char *path) {
    *save = (struct save){.folder = -1, .file = -1};
    const mode_t not_kept = (mode_t)-1;
    mode_t mode = not_kept;
    enum vic_status status = save_resolve(save, path);
    if (status == VIC_OK) status = save_look(save, &mode);
    if (status != VIC_OK) return status;
    bool again = true;
    for (int attempt = 0; again; attempt++) {
        if (attempt == 100)
            return status_fail(VIC_LOCKED, "other writers hold %s: its temporary file changed 100 times", save->path);
        status = save_try_lock(save, &again);
        if (status != VIC_OK) return status;
    }
    if (ftruncate(save->file, 0) != 0) return save_fail(save, "empty the temporary file for");
    if (mode != not_kept && fchmod(save->file, mode) != 0) return save_fail(save, "keep the permissions of");
    return VIC_OK;
}

enum vic_status save_reserve(struct save *save, uint64_t offset, uint64_t bytes) {
    if (offset > INT64_MAX || bytes > (uint64_t)INT64_MAX - offset)
        return status_fail(VIC_ARGUMENT, "%llu bytes at %llu of %s are more than a file can hold", (unsigned long long)bytes,
                           (unsigned long long)offset, save->path);
#if defined(__linux__)
    /* Not posix_fallocate, which writes to every block where the file system cannot reserve: such a one then says only
     * when it is full that it is. */
    int failed = 0;
    if (bytes == 0) return VIC_OK;
    do failed = fallocate(save->file, 0, (off_t)offset, (off_t)bytes);
    while (failed != 0 && errno == EINTR);
    if (failed != 0 && errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) return save_fail(save, "reserve space for");
#endif
    return VIC_OK;
}

/* As read_at reads: a call moves at most 2 GiB; whole pages of it, so that every call but the last stays aligned. */
static size_t part_of(uint64_t bytes) {
    const uint64_t most = UINT64_C(1) << 30;
    return (size_t)(bytes < most ? bytes : most);
}

enum vic_status save_write(struct save *save, uint64_t offset, const void *data, uint64_t bytes) {
    for (const char *next = data; bytes > 0;) {
        ssize_t count = pwrite(save->file, next, part_of(bytes), (off_t)offset);
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) errno = EIO;
        if (count <= 0) return save_fail(save, "write");
        next += count, offset += (uint64_t)count, bytes -= (uint64_t)count;
    }
    return VIC_OK;
}

enum vic_status save_read(struct save *save, uint64_t offset, void *data, uint64_t bytes) {
    uint64_t got = 0;
    int error = read_at(save->file, offset, data, bytes, &got);
    if (error == 0 && got < bytes) error = EIO;
    return error == 0 ? VIC_OK : status_fail_errno(error, "read back", save->path);
}

enum vic_status save_finish(struct save *save, uint64_t bytes) {
    if (ftruncate(save->file, (off_t)bytes) != 0) return save_fail(save, "set the size of");
    if (fsync(save->file) != 0) return save_fail(save, "make durable");
    return VIC_OK;
}

enum vic_status save_publish(struct save *save) {
    if (renameat(save->folder, save->temporary, save->folder, save->name) != 0)
        return save_fail(save, "rename the temporary file to");
    save->owned = false, save->named = true;
    /* EINVAL: a file system whose folders cannot be made durable. */
    if (fsync(save->folder) != 0 && errno != EINVAL) return save_fail(save, "make durable the folder of");
    return VIC_OK;
}

enum vic_status save_commit(struct save *save, uint64_t bytes) {
    enum vic_status status = save_finish(save, bytes);
    return status == VIC_OK ? save_publish(save) : status;
}

void save_close(struct save *save) {
    /* Removed while it is still locked: afterwards the name may be another writer's. */
    if (save->owned) (void)unlinkat(save->folder, save->temporary, 0);
    if (save->file >= 0) {
        (void)flock(save->file, LOCK_UN); /* a child forked meanwhile holds the descriptor too */
        (void)close(save->file);
    }
    if (save->folder >= 0) (void)close(save->folder);
    save->owned = false;
    save->file = save->folder = -1;
}
