/* Status and sentence: how every failure inside the library is reported.
 *
 * A function that can fail returns a vic_status and, where the failure is found, writes one sentence with status_fail:
 * what was expected, what was found, where. Callers pass the status up unchanged; the sentence is this thread's until
 * its next failure. Worker threads hand theirs over with status_keep/status_raise. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "vicinal.h"

#define STATUS_SENTENCE_BYTES 512

/* Writes the sentence (cut at STATUS_SENTENCE_BYTES) and returns `status`, so that a caller can `return status_fail(...)`. */
enum vic_status status_fail(enum vic_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a failed system call: errno decides between VIC_NO_SPACE, VIC_NOT_FOUND, VIC_NO_MEMORY and VIC_IO, and
 * its text ends the sentence. `what` names the operation ("open", "write"), `path` the file. */
enum vic_status status_fail_errno(int error, const char *what, const char *path);

/* A failure carried from one thread to another. */
struct status_note {
    enum vic_status status;
    char sentence[STATUS_SENTENCE_BYTES];
};
void status_keep(struct status_note *note, enum vic_status status); /* copies this thread's sentence */
enum vic_status status_raise(const struct status_note *note);       /* makes it this thread's */

/* Leaves for the function's one `done:` label on failure; expects a local `enum vic_status status`. */
#define TRY(expression)                                                                                                        \
    do {                                                                                                                       \
        if ((status = (expression)) != VIC_OK) goto done;                                                                      \
    } while (0)

#endif
