/* The CUDA backend's stand-in: opens libvicinal_cuda.so when it is first asked for and passes every call on.
 *
 * The library, and the program on it, run on machines without a GPU, a driver or the object; then the one device that is
 * described here says in a sentence which of them is missing. The object lies beside the library (or beside the program
 * that the library was linked into), or where VICINAL_CUDA_LIBRARY says. It is never closed: the CUDA runtime inside it
 * leaves threads and handlers behind. */
#define _GNU_SOURCE /* dladdr */
#include "backend/backend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char object_name[] = "libvicinal_cuda.so", symbol_name[] = "vicinal_backend_object";

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct backend_ops *loaded; /* NULL: `missing` says why */
static char missing[256];

static enum vic_status sentence_take(enum vic_status status, const char *sentence) {
    return status_fail(status, "%s", sentence);
}

/* Where the object should be. False when the path is too long for any file. */
static bool path_find(char *path, size_t bytes) {
    const char *given = getenv("VICINAL_CUDA_LIBRARY");
    Dl_info self;
    /* A name without a slash would be looked for along the system's search path: it means this folder instead. */
    if (given && *given) return (size_t)snprintf(path, bytes, "%s%s", strchr(given, '/') ? "" : "./", given) < bytes;
    const char *own = dladdr(&once, &self) != 0 && self.dli_fname && strchr(self.dli_fname, '/') ? self.dli_fname : "./";
    return (size_t)snprintf(path, bytes, "%.*s%s", (int)(strrchr(own, '/') - own + 1), own, object_name) < bytes;
}

static void load(void) {
    char path[4096];
    if (!path_find(path, sizeof path) || access(path, F_OK) != 0) {
        (void)snprintf(missing, sizeof missing,
                       "expected the CUDA backend, found no file %.140s; VICINAL_CUDA_LIBRARY can name another", path);
        return;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        (void)snprintf(missing, sizeof missing, "expected a CUDA backend, found a file that cannot be opened: %.180s",
                       dlerror());
        return;
    }
    const struct backend_object *object = dlsym(handle, symbol_name);
    if (!object || object->abi != BACKEND_ABI) {
        if (object)
            (void)snprintf(missing, sizeof missing, "expected a CUDA backend of interface %d, found interface %u in %.140s",
                           BACKEND_ABI, object->abi, path);
        else
            (void)snprintf(missing, sizeof missing, "expected a CUDA backend, found no symbol %s in %.140s", symbol_name, path);
        (void)dlclose(handle);
        return;
    }
    object->start(sentence_take);
    loaded = object->ops;
}

static enum vic_status load_describe(int ordinal, struct vic_device_info *info) {
    (void)pthread_once(&once, load);
    if (loaded) return loaded->describe(ordinal, info);
    if (ordinal != 0) return status_fail(VIC_NOT_FOUND, "expected GPU number 0, found %d: %s", ordinal, missing);
    (void)snprintf(info->name, sizeof info->name, "%s", cuda_backend.name);
    (void)snprintf(info->sentence, sizeof info->sentence, "%s", missing);
    return VIC_OK;
}

/* Only a device that was described as usable is opened, so from here on the object is there. */
static enum vic_status load_open(int ordinal, int threads, struct mem *host, struct mem *device, struct backend **backend) {
    (void)pthread_once(&once, load);
    return loaded ? loaded->open(ordinal, threads, host, device, backend) : status_fail(VIC_UNAVAILABLE, "%s", missing);
}
static void load_close(struct backend *backend) { loaded->close(backend); }
static enum vic_status load_plan(const struct backend *backend, const struct rows *shape, struct resident_plan *plan) {
    return loaded->plan(backend, shape, plan);
}
static enum vic_status load_attach(struct backend *backend, const struct rows *rows, const struct mapped *mapped,
                                   const struct vic_progress *progress, struct resident **resident) {
    return loaded->attach(backend, rows, mapped, progress, resident);
}
static void load_detach(struct resident *resident) { loaded->detach(resident); }
static enum vic_status load_search(struct resident *resident, const struct search_call *call, const struct vic_hits *hits) {
    return loaded->search(resident, call, hits);
}
static enum vic_status load_within(struct resident *resident, const struct search_call *call, float score,
                                   const struct vic_ranges *ranges) {
    return loaded->within(resident, call, score, ranges);
}
static enum vic_status load_score(struct resident *resident, const struct search_call *call, const struct row_source *wanted,
                                  float *scores) {
    return loaded->score(resident, call, wanted, scores);
}

const struct backend_ops cuda_backend = {
    .name = "cuda",
    .describe = load_describe,
    .open = load_open,
    .close = load_close,
    .plan = load_plan,
    .attach = load_attach,
    .detach = load_detach,
    .search = load_search,
    .within = load_within,
    .score = load_score,
};
