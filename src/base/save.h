/* A file that appears under its name whole or not at all.
 *
 * Everything goes into `.NAME.vicinal-tmp` in the same folder, then fsync, rename, fsync of the folder. The temporary is
 * also the lock against a second writer (flock: it dies with its owner), and its name is fixed, so that the leftover of
 * a writer that died is found and taken over by the next one instead of piling up. */
#ifndef BASE_SAVE_H
#define BASE_SAVE_H

#include "base/mem.h"

#include <limits.h>

struct save {
    int folder, file;    /* descriptors; -1: not open */
    bool owned;          /* the temporary is ours to remove */
    const char *name;    /* of the target, in its folder; points into path, so the struct must not move */
    char path[PATH_MAX]; /* of the target, links resolved; for sentences too */
    char temporary[NAME_MAX + 1];
    char old[NAME_MAX + 1]; /* what the target is called while it is set aside */
    bool named, aside;      /* the new file has its name; what was there before has the name `old` */
};

/* Takes the lock and makes an empty temporary. VIC_LOCKED, VIC_IO, VIC_NOT_FOUND ... naming the path. Where `path` is a
 * symbolic link its target gets replaced; anything there but a regular file is refused; a file that is there hands its
 * permission bits on. To be closed with save_close, also after a failure. */
enum vic_status save_open(struct save *save, const char *path);
/* Asks the file system for the blocks now, so that a full disk shows before the work. */
enum vic_status save_reserve(struct save *save, uint64_t offset, uint64_t bytes);
/* All of it, anywhere in the file. */
enum vic_status save_write(struct save *save, uint64_t offset, const void *data, uint64_t bytes);
/* Bytes that were written before. */
enum vic_status save_read(struct save *save, uint64_t offset, void *data, uint64_t bytes);
/* Sets the size, makes the file durable and gives it its name. Nothing may be written afterwards. When the folder cannot
 * be made durable the new file is there all the same. */
enum vic_status save_commit(struct save *save, uint64_t bytes);
/* The two halves of a commit: size and durability; then the name. */
enum vic_status save_finish(struct save *save, uint64_t bytes);
enum vic_status save_publish(struct save *save);
/* Files that belong together, of so many bytes, the last one being that which leads to the others: save_set.c. All become
 * durable before any is renamed, and a failure leaves what was there. Who opens the last one has files of one save: while they
 * are renamed there is none of that name, and what was there is called `.NAME.vicinal-old`, also after a crash at that moment.
 */
enum vic_status save_commit_all(struct save *const *saves, const uint64_t *bytes, int count);
/* Without a commit before it the temporary is removed and the target is as it was. Releases the lock. */
void save_close(struct save *save);

#endif
