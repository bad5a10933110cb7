/* The surprising rule: a text that is refused is parsed a second time. jansson says "invalid token" also when a string's
 * memory could not be had, and nothing at all when an object's could not; what is right the second time was never wrong. */
#include "base/json_text.h"

#include <stdbool.h>

enum vic_status json_text_parse(const char *text, uint64_t bytes, const char *what, enum vic_status wrong, json_t **object) {
    json_error_t error;
    json_t *value = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(value)) {
        *object = value;
        return VIC_OK;
    }
    json_t *again = value ? NULL : json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);
    bool short_of_memory = again || (!value && error.text[0] == 0);
    json_decref(again);
    json_decref(value);
    if (short_of_memory) return status_fail(VIC_NO_MEMORY, "%s needs more memory than the system has", what);
    if (value) return status_fail(wrong, "%s: expected a JSON object, found another JSON value", what);
    return status_fail(wrong, "%s: expected a JSON object, found at line %d: %s", what, error.line, error.text);
}
