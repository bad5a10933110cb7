/* The file of what work costs: a JSON object of a few numbers with the processor and kernels that they were measured on.
 *
 * Reading it must be able to fail in every way without a trace: the last error stays the caller's, nothing is said, and no
 * number is believed that no machine could have. A device opens without $HOME, and takes no memory where there is no file. */
#include "base/save.h"
#include "index/calibration.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_BYTES_MOST = 4096, FILE_VERSION = 1 };

/* The numbers of the file, where they lie, and what a machine could have. */
static const struct {
    const char *name;
    size_t offset;
    double least, most;
} numbers[] = {
    {"scan_bytes_s", offsetof(struct costs, scan_bytes_s), 1e8, 1e13},
    {"plane_8_bytes_s", offsetof(struct costs, plane_bytes_s[PLANE_8]), 1e8, 1e13},
    {"plane_4_bytes_s", offsetof(struct costs, plane_bytes_s[PLANE_4]), 1e8, 1e13},
    {"rescore_cost", offsetof(struct costs, rescore_cost), 1, 20},
    {"handover_us", offsetof(struct costs, handover_us), 0.1, 10000},
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

static double *number_at(struct costs *costs, size_t i) { return (double *)((char *)costs + numbers[i].offset); }

bool costs_sane(const struct costs *costs) {
    struct costs copy = *costs;
    for (size_t i = 0; i < NUMBERS; i++)
        if (!(*number_at(&copy, i) >= numbers[i].least && *number_at(&copy, i) <= numbers[i].most)) return false;
    return true;
}

/* The folder of caches as desktops have it: relative names do not count. False: there is none. */
static bool cache_folder(char folder[PATH_MAX]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = -1;
    if (cache && *cache == '/')
        length = snprintf(folder, PATH_MAX, "%s", cache);
    else if (home && *home == '/')
        length = snprintf(folder, PATH_MAX, "%s/.cache", home);
    return length > 0 && length < PATH_MAX - 64;
}

static void file_name(char path[PATH_MAX], const char *folder) {
    (void)snprintf(path, PATH_MAX, "%.*s/vicinal/calibration.json", PATH_MAX - 64, folder);
}

/* The processor's own description; the device's may be a GPU's. */
static bool processor_describe(const struct vic_device *device, struct vic_device_info *info) {
    *info = (struct vic_device_info){.size = sizeof *info};
    return device->host_ops->describe(0, info) == VIC_OK;
}

/* All of a small regular file; 0: not to be had. Never waits, also where the name is a pipe's. */
static size_t file_take(const char *path, char bytes[FILE_BYTES_MOST]) {
    struct stat facts;
    size_t size = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) return 0;
    if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size > 0 && facts.st_size <= FILE_BYTES_MOST) {
        ssize_t got = read(file, bytes, FILE_BYTES_MOST);
        if (got > 0) size = (size_t)got;
    }
    (void)close(file);
    return size;
}

static bool text_is(const json_t *object, const char *key, const char *wanted) {
    const char *found = json_string_value(json_object_get(object, key));
    return found && strcmp(found, wanted) == 0;
}

static bool costs_parse(const char *bytes, size_t size, const struct vic_device *device, struct costs *costs) {
    struct vic_device_info info;
    json_t *object = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, NULL);
    bool good = object && json_integer_value(json_object_get(object, "vicinal_calibration")) == FILE_VERSION &&
                processor_describe(device, &info) && text_is(object, "model", info.model) &&
                text_is(object, "kernels", info.kernels);
    for (size_t i = 0; good && i < NUMBERS; i++) {
        const json_t *value = json_object_get(object, numbers[i].name);
        good = json_is_number(value);
        *number_at(costs, i) = json_number_value(value);
    }
    json_decref(object);
    return good && costs_sane(costs);
}

void calibration_load(struct vic_device *device) {
    char folder[PATH_MAX], path[PATH_MAX], bytes[FILE_BYTES_MOST];
    struct costs costs = costs_builtin;
    int before = errno;
    size_t size = 0;
    if (cache_folder(folder)) {
        file_name(path, folder);
        size = file_take(path, bytes);
    }
    if (size > 0 && costs_parse(bytes, size, device, &costs)) device->costs = costs;
    errno = before;
}

static bool folder_make(const char *path) { return mkdir(path, 0700) == 0 || errno == EEXIST; }

/* The default place, with the folders that it lies in. */
static enum vic_status place_make(char path[PATH_MAX]) {
    char folder[PATH_MAX];
    if (!cache_folder(folder))
        return status_fail(VIC_NOT_FOUND,
                           "expected $XDG_CACHE_HOME or $HOME to name a folder for calibration.json, found none");
    file_name(path, folder);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    bool made = folder_make(folder) && folder_make(path);
    enum vic_status status =
        made ? VIC_OK : status_fail(VIC_NOT_FOUND, "expected to make the folder %s, found: %s", path, strerror(errno));
    *slash = '/';
    return status;
}

enum vic_status calibration_save(struct vic_device *device, const char *path) {
    char place[PATH_MAX], text[FILE_BYTES_MOST];
    struct vic_device_info info;
    struct save save = {.folder = -1, .file = -1};
    json_t *object = NULL;
    bool opened = false;
    enum vic_status status = VIC_OK;
    if (!path) {
        TRY(place_make(place));
        path = place;
    }
    if (!processor_describe(device, &info)) return status_fail(VIC_UNAVAILABLE, "expected a processor, found none");
    object = json_pack("{s:i, s:s, s:s}", "vicinal_calibration", FILE_VERSION, "model", info.model, "kernels", info.kernels);
    int failed = object ? 0 : -1;
    for (size_t i = 0; i < NUMBERS && failed == 0; i++)
        failed = json_object_set_new(object, numbers[i].name, json_real(*number_at(&device->costs, i)));
    size_t size = failed == 0 ? json_dumpb(object, text, sizeof text - 1, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : 0;
    if (size == 0 || size >= sizeof text) TRY(status_fail(VIC_NO_MEMORY, "no memory for the text of %s", path));
    text[size++] = '\n';
    opened = true;
    TRY(save_open(&save, path));
    TRY(save_write(&save, 0, text, size));
    TRY(save_commit(&save, size));
done:
    if (opened) save_close(&save);
    json_decref(object);
    return status;
}
