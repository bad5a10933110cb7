/* What the file of an index says of its graph beside the slots: who built it and how. Nothing depends on it but what is told;
 * a file without it, or with something that makes no sense, is as good. */
#include "index/vamana.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shortest decimal number that is this float32: as a double it would have digits that nobody gave. */
static double shortest(float value) {
    char text[32] = "";
    for (int digits = 6; digits <= 9; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return strtod(text, NULL);
}

bool graph_meta_put(json_t *meta, const struct graph *graph) {
    const struct graph_origin *origin = &graph->origin;
    if (!*origin->builder) return true;
    json_t *object = json_pack("{s:s, s:i, s:f, s:I}", "builder", origin->builder, "beam", origin->beam, "alpha",
                               shortest(origin->alpha), "repairs", (json_int_t)graph->repairs);
    return object && json_object_set_new(meta, "graph", object) == 0;
}

/* jansson's own unpacking allocates, and what then fails would pass for something that makes no sense. */
void graph_meta_take(const json_t *meta, struct graph *graph) {
    const json_t *object = json_object_get(meta, "graph");
    const char *builder = json_string_value(json_object_get(object, "builder"));
    json_int_t beam = json_integer_value(json_object_get(object, "beam"));
    json_int_t repairs = json_integer_value(json_object_get(object, "repairs"));
    double alpha = json_number_value(json_object_get(object, "alpha"));
    struct graph_origin *origin = &graph->origin;
    size_t length = builder ? strlen(builder) : 0;
    bool sensible = length > 0 && length < sizeof origin->builder && beam >= 0 && beam <= GRAPH_BUILD_BEAM_MAX && alpha >= 0 &&
                    alpha <= 2 && repairs >= 0 && repairs <= graph->n;
    for (size_t i = 0; i < length && sensible; i++) sensible = builder[i] >= ' ' && builder[i] <= '~';
    if (!sensible) return;
    memcpy(origin->builder, builder, length + 1);
    origin->beam = (int32_t)beam, origin->alpha = (float)alpha;
    graph->repairs = repairs;
}
