/* Reads that go on until all is there. */
#include "base/read.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Linux moves at most 2 GiB a call, other systems refuse more; whole pages of it, so that every call but the last stays
 * aligned. */
static const uint64_t part_bytes_most = UINT64_C(1) << 30;

int read_at(int file, uint64_t offset, void *to, uint64_t bytes, uint64_t *got) {
    for (*got = 0; *got < bytes;) {
        uint64_t left = bytes - *got;
        size_t part = (size_t)(left < part_bytes_most ? left : part_bytes_most);
        ssize_t count = pread(file, (char *)to + *got, part, (off_t)(offset + *got));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return errno;
        if (count == 0) return 0;
        *got += (uint64_t)count;
    }
    return 0;
}

bool mapped_copy(const struct mapped *mapped, const void *from, uint64_t bytes, void *to, struct read_fault *fault) {
    uint64_t offset = mapped ? (uint64_t)((uintptr_t)from - (uintptr_t)mapped->bytes) : 0, got = 0;
    if (!mapped || offset > mapped->size || bytes > mapped->size - offset) {
        memcpy(to, from, (size_t)bytes);
        return true;
    }
    int error = read_at(mapped->file, offset, to, bytes, &got);
    *fault = (struct read_fault){error, offset + got};
    return error == 0 && got == bytes;
}

enum vic_status mapped_fail(const struct mapped *mapped, const struct read_fault *fault) {
    if (fault->error) return status_fail_errno(fault->error, "read", mapped->path);
    return status_fail(VIC_IO, "%s: expected %llu bytes, as when it was opened, found that it ends by byte %llu", mapped->path,
                       (unsigned long long)mapped->size, (unsigned long long)fault->offset);
}
