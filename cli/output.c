/* Output: see output.h. */
#include "output.h"
#include "command.h"
#include "term.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int first_error;

bool stream_good(FILE *out) {
    if (!ferror(out)) return true;
    if (out == stdout && first_error == 0) first_error = errno ? errno : EIO;
    return false;
}

int output_error(void) {
    errno = 0;
    if (fflush(stdout) != 0 && first_error == 0) first_error = errno;
    (void)stream_good(stdout);
    return first_error;
}

bool json_put(FILE *out, json_t *value) {
    bool put = value && json_dumpf(value, out, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', out) != EOF;
    bool good = stream_good(out); /* one that is not is spoken of where it is closed */
    if (good && !put) say("memory for the output could not be had");
    json_decref(value);
    return good && put;
}

json_t *json_text(const char *text, size_t bytes) {
    static const char unknown[] = "\xef\xbf\xbd";
    char *clean = malloc(3 * bytes + 1);
    size_t length = 0;
    for (size_t at = 0; clean && at < bytes;) {
        unsigned code = 0;
        int taken = utf8_take(text + at, bytes - at, &code);
        memcpy(clean + length, taken ? text + at : unknown, taken ? (size_t)taken : 3);
        length += taken ? (size_t)taken : 3;
        at += taken ? (size_t)taken : 1;
    }
    json_t *string = clean ? json_stringn(clean, length) : NULL;
    free(clean);
    return string;
}

json_t *json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static bool out_file_fail(const struct out_file *file, const char *what) {
    say("%s: %s: %s", file->path, what, strerror(errno));
    return false;
}

bool out_file_open(struct out_file *file, const char *path) {
    *file = (struct out_file){.path = strdup(path)};
    if (!file->path || asprintf(&file->temporary, "%s.%ld.tmp", path, (long)getpid()) < 0) {
        file->temporary = NULL;
        say("memory for a path could not be had");
        return false;
    }
    int fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    file->stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file->stream) {
        if (fd >= 0) (void)close(fd);
        return out_file_fail(file, "could not be created");
    }
    return true;
}

bool out_file_finish(struct out_file *file) {
    bool written = fflush(file->stream) == 0 && !ferror(file->stream) && fsync(fileno(file->stream)) == 0;
    if (!written) return out_file_fail(file, "could not be written");
    if (rename(file->temporary, file->path) != 0) return out_file_fail(file, "could not be given its name");
    free(file->temporary);
    file->temporary = NULL;
    return true;
}

void out_file_drop(struct out_file *file) {
    if (file->stream) (void)fclose(file->stream);
    if (file->temporary) (void)unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    *file = (struct out_file){.stream = NULL};
}
