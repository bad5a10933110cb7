/* JSON that came from outside: text to jansson's values, with memory that ran out told apart from text that is wrong. */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include "base/status.h"

#include <jansson.h>
#include <stdint.h>

/* One JSON object of `bytes` bytes, no key twice. Free with json_decref. `what` begins the sentence; `wrong` is the status
 * of a text that is no such object, with line and reason. VIC_NO_MEMORY otherwise. */
enum vic_status json_text_parse(const char *text, uint64_t bytes, const char *what, enum vic_status wrong, json_t **object);

#endif
