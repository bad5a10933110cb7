/* Smaller codes for vectors: one row of a table a kind. Today: planes, codes with a proven error that let an exact search
 * leave most rows unread (docs/certified.md). */
#ifndef QUANT_QUANTIZER_H
#define QUANT_QUANTIZER_H

#include "data/corpus.h"

struct quantizer {
    const char *name;    /* "8", "4": as the program spells it */
    enum vic_planes bit; /* in options and infos */
    const char *codes_section, *scale_section, *error_section;
    /* Steps that are tried for a row; the one that leaves the smallest error is kept. */
    int (*steps)(float largest, double mean_square, float steps[PLANE_STEPS]);
};

extern const struct quantizer plane8_quantizer, plane4_quantizer;
/* By plane_kind. */
extern const struct quantizer *const quantizers[PLANE_COUNT];

/* Bytes that planes of these bits add to n rows, in memory and in a file. */
uint64_t planes_bytes(const struct rows *shape, int32_t planes);
/* Memory for the planes; their contents are written by planes_code. */
enum vic_status planes_alloc(struct corpus *corpus, int64_t dim, int32_t planes);
/* Codes of `block`, rows of the corpus's type and metric: row i goes to slot places[i] (NULL: first + i). */
enum vic_status planes_code(struct vic_device *device, struct corpus *corpus, const struct rows *block, int64_t first,
                            const uint32_t *places);
/* Whether what the planes say of rows [first, first + count) is true; VIC_FORMAT names section and row. `where` begins the
 * sentence. One thread, about 3 ns a dimension and plane. */
enum vic_status planes_verify(const struct rows *rows, int64_t first, int64_t count, const char *where);
/* Which planes a corpus has, as bits. */
int32_t planes_present(const struct rows *rows);

#endif
