/* The two directions of versioned structs. */
#include "base/options.h"

#include <string.h>

static enum vic_status size_check(size_t size, size_t ours_bytes, const char *name) {
    if (size >= sizeof size && size <= 65536) return VIC_OK;
    return status_fail(VIC_ARGUMENT, "%s.size is %zu; set it to sizeof the struct (%zu here)", name, size, ours_bytes);
}

enum vic_status options_take(void *ours, size_t ours_bytes, const void *theirs, const char *name) {
    memset(ours, 0, ours_bytes);
    memcpy(ours, &ours_bytes, sizeof ours_bytes);
    if (!theirs) return VIC_OK;
    size_t size = 0;
    memcpy(&size, theirs, sizeof size);
    enum vic_status status = size_check(size, ours_bytes, name);
    if (status != VIC_OK) return status;
    const char *bytes = theirs;
    for (size_t i = ours_bytes; i < size; i++)
        if (bytes[i])
            return status_fail(VIC_UNSUPPORTED, "%s sets a field at byte %zu that this library (%s) does not know", name, i,
                               vic_version());
    memcpy(ours, theirs, size < ours_bytes ? size : ours_bytes);
    memcpy(ours, &ours_bytes, sizeof ours_bytes);
    return VIC_OK;
}

enum vic_status options_give(void *theirs, const void *ours, size_t ours_bytes, const char *name) {
    if (!theirs) return status_fail(VIC_ARGUMENT, "expected a %s to fill, found NULL", name);
    size_t size = 0;
    memcpy(&size, theirs, sizeof size);
    enum vic_status status = size_check(size, ours_bytes, name);
    if (status != VIC_OK) return status;
    size_t common = size < ours_bytes ? size : ours_bytes;
    memcpy((char *)theirs + sizeof size, (const char *)ours + sizeof size, common - sizeof size);
    if (size > common) memset((char *)theirs + common, 0, size - common);
    return VIC_OK;
}
