/* Scratch folder and whole files; any failure of them ends the test program. */
#include "support/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static char folder[256];

static void need(bool right, const char *what) {
    if (right) return;
    perror(what);
    abort();
}

const char *scratch_folder(void) { return folder; }

struct path {
    struct path *next;
    char text[600];
};
static struct path *paths;

const char *scratch_path(const char *name) {
    struct path *path = malloc(sizeof *path);
    need(path != NULL, name);
    path->next = paths;
    paths = path;
    (void)snprintf(path->text, sizeof path->text, "%s/%s", folder, name);
    return path->text;
}

/* Containers often have 64 MB there. */
static bool shared_memory_is_wide(void) {
    struct statvfs facts;
    return access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &facts) == 0 &&
           (uint64_t)facts.f_bavail * facts.f_frsize >= (uint64_t)1 << 30;
}

int scratch_open(void **state) {
    (void)state;
    const char *place = shared_memory_is_wide() ? "/dev/shm" : getenv("TMPDIR");
    (void)snprintf(folder, sizeof folder, "%s/vicinal-test-XXXXXX", place ? place : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

/* Counts the entries, and removes them if that is wanted. */
static int64_t each_entry(bool removed) {
    DIR *listing = opendir(folder);
    need(listing != NULL, folder);
    int64_t count = 0;
    for (const struct dirent *entry; (entry = readdir(listing));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        count++;
        if (removed) (void)unlinkat(dirfd(listing), entry->d_name, entry->d_type == DT_DIR ? AT_REMOVEDIR : 0);
    }
    (void)closedir(listing);
    return count;
}

int64_t scratch_count(void) { return each_entry(false); }
void scratch_clear(void) { (void)each_entry(true); }

int scratch_empty(void **state) {
    (void)state;
    scratch_clear();
    return 0;
}

bool scratch_has(const char *name) {
    struct stat found;
    return lstat(scratch_path(name), &found) == 0;
}

int scratch_close(void **state) {
    (void)state;
    scratch_clear();
    while (paths) {
        struct path *next = paths->next;
        free(paths);
        paths = next;
    }
    return rmdir(folder);
}

struct blob blob_read(const char *path) {
    FILE *file = fopen(path, "rb");
    need(file != NULL, path);
    struct stat found;
    need(fstat(fileno(file), &found) == 0, path);
    struct blob blob = {malloc((size_t)found.st_size + 1), (size_t)found.st_size};
    need(blob.bytes && fread(blob.bytes, 1, blob.size, file) == blob.size, path);
    (void)fclose(file);
    return blob;
}

struct blob blob_copy(const struct blob *blob) {
    struct blob copy = {malloc(blob->size + 1), blob->size};
    need(copy.bytes != NULL, "a copy");
    memcpy(copy.bytes, blob->bytes, blob->size);
    return copy;
}

void blob_write(const char *path, const unsigned char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    need(file != NULL, path);
    need(fwrite(bytes, 1, size, file) == size, path);
    need(fclose(file) == 0, path);
}

bool blob_equals_file(const struct blob *blob, const char *path) {
    struct blob other = blob_read(path);
    bool equal = blob->size == other.size && memcmp(blob->bytes, other.bytes, blob->size) == 0;
    blob_free(&other);
    return equal;
}

void blob_free(struct blob *blob) {
    free(blob->bytes);
    *blob = (struct blob){0};
}
