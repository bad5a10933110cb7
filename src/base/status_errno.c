/* A failed system call as a status and a sentence. Apart from the thread's sentence, because backends in objects of their own
 * have no thread's sentence and yet make system calls. */
#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum vic_status status_fail_errno(int error, const char *what, const char *path) {
    enum vic_status status = VIC_IO;
    if (error == ENOSPC || error == EDQUOT) status = VIC_NO_SPACE;
    if (error == ENOENT) status = VIC_NOT_FOUND;
    if (error == ENOMEM) status = VIC_NO_MEMORY;
    char text[128] = "";
    if (strerror_r(error, text, sizeof text) != 0) (void)snprintf(text, sizeof text, "error %d", error);
    return status_fail(status, "cannot %s %s: %s", what, path, text);
}
