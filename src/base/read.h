/* Exact reads: of a file, and of what is mapped from one.
 *
 * A copy out of a mapping is a signal where the file has become shorter meanwhile, or its disk fails. A read of the same bytes
 * is an error with a sentence, so whoever moves much of a file elsewhere reads while the file is open. */
#ifndef BASE_READ_H
#define BASE_READ_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Reads [offset, offset + bytes) in as many calls as it takes. *got: bytes that came before the file ended or an error.
 * 0, or errno. */
int read_at(int file, uint64_t offset, void *to, uint64_t bytes, uint64_t *got);

/* A file that is open and mapped, both from its first byte to its last. Borrowed. */
struct mapped {
    int file;
    const void *bytes;
    uint64_t size;
    const char *path; /* for sentences */
};

/* Why bytes did not come: for threads whose sentence nobody hears. */
struct read_fault {
    int error;       /* errno; 0: the file ended */
    uint64_t offset; /* of the first byte that is missing */
};

/* [from, from + bytes) to `to`: by reads when all of it lies in the mapping, else out of memory. mapped NULL: out of memory.
 * False: the fault says why; what was written to `to` means nothing then. Any number of threads at once. */
bool mapped_copy(const struct mapped *mapped, const void *from, uint64_t bytes, void *to, struct read_fault *fault);
/* The sentence of a fault: VIC_IO and the like, naming the file. */
enum vic_status mapped_fail(const struct mapped *mapped, const struct read_fault *fault);

#endif
