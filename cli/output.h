/* What goes out: JSON on a stream, and files that appear under their name only when they are complete. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Writes value on one line, floats with the nine digits that give float32 back; frees value. NULL: memory, said. */
bool json_put(FILE *out, json_t *value);
/* Any bytes as a JSON string: what is not UTF-8 becomes U+FFFD. */
json_t *json_text(const char *text, size_t bytes);
/* A number, or null for the infinities that JSON does not have. */
json_t *json_number(double value);

/* True while all that was printed to `out` could be; keeps the reason when it is standard output that fails. */
bool stream_good(FILE *out);
/* The errno of the first write to standard output that failed; 0: none. */
int output_error(void);

struct out_file {
    FILE *stream;
    char *path, *temporary;
};

/* Opens a temporary file beside path. Drop it in every case; on failure it has been said why. */
bool out_file_open(struct out_file *file, const char *path);
/* Makes it durable and gives it its name. */
bool out_file_finish(struct out_file *file);
/* Without a finish before it, nothing is left. */
void out_file_drop(struct out_file *file);

#endif
