/* What the files that know sections share: whole sections in and out, and each part of an index that has several. */
#ifndef INDEX_SECTIONS_H
#define INDEX_SECTIONS_H

#include "index/index.h"

enum vic_status section_write(struct file_writer *writer, const char *name, const void *data, uint64_t bytes);
/* A section of exactly so many bytes; VIC_FORMAT names it and both numbers. */
enum vic_status section_sized(const struct file_map *map, const char *name, uint64_t bytes, const void **data);

/* ---- sections_pq.c: product codes. Nothing where there are none (parts->codes NULL). */
enum vic_status product_write(struct file_writer *writer, const struct graph *graph);
/* Of these rows, whose data it does not look at; what it points to lies in the map. */
enum vic_status product_map(const struct file_map *map, const struct rows *rows, struct product_parts *parts);

#endif
