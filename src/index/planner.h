/* The one place that decides what is worth its cost: which planes an index gets, and how a search goes about its work.
 * Decisions never show in an answer's bytes. Only the CPU searches on planes yet. */
#ifndef INDEX_PLANNER_H
#define INDEX_PLANNER_H

#include "quant/quantizer.h"

/* Which planes rows of this kind want, as bits of enum vic_planes (0: none), from a search of a sample of them. `rows` are
 * all of the index or its first block, `n` how many the index has. */
enum vic_status planner_planes(struct vic_device *device, const struct rows *rows, int64_t n, int32_t *planes);

/* Path and plane of a call whose path is open. k = 0: a threshold search, which takes its queries one by one. */
void planner_path(const struct vic_device *device, const struct rows *rows, struct search_call *call, enum vic_fallback *why);

#endif
