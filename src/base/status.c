/* Names and meanings of statuses, the thread's last sentence, and the version that sentences name. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_sentence[STATUS_SENTENCE_BYTES];

struct status_row {
    enum vic_status status;
    const char *name, *meaning;
};

static const struct status_row status_rows[] = {
#define STATUS_ROW(constant, value, sentence) {constant, #constant, sentence},
    VIC_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

#define STRING_OF(number)                   #number
#define VERSION_STRING(major, minor, patch) STRING_OF(major) "." STRING_OF(minor) "." STRING_OF(patch)

const char *vic_version(void) { return VERSION_STRING(VIC_VERSION_MAJOR, VIC_VERSION_MINOR, VIC_VERSION_PATCH); }

static const struct status_row *status_find(enum vic_status status) {
    for (size_t i = 0; i < sizeof status_rows / sizeof *status_rows; i++)
        if (status_rows[i].status == status) return &status_rows[i];
    return NULL;
}

const char *vic_status_name(enum vic_status status) {
    const struct status_row *row = status_find(status);
    return row ? row->name : "unknown status";
}

const char *vic_status_meaning(enum vic_status status) {
    const struct status_row *row = status_find(status);
    return row ? row->meaning : "unknown status";
}

const char *vic_last_error(void) { return last_sentence; }

enum vic_status status_fail(enum vic_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(last_sentence, sizeof last_sentence, format, arguments);
    va_end(arguments);
    return status;
}

void status_keep(struct status_note *note, enum vic_status status) {
    note->status = status;
    memcpy(note->sentence, last_sentence, sizeof note->sentence);
}

enum vic_status status_raise(const struct status_note *note) {
    if (note->status != VIC_OK) memcpy(last_sentence, note->sentence, sizeof last_sentence);
    return note->status;
}
