/* The rows of an index with all that belongs to them, in memory of our own or inside a mapped file.
 *
 * The surprising rule: rows are kept in ascending order of id. A tie between equal scores then goes to the smaller row
 * number on every backend without looking at ids, an id is found by binary search without a table, and row numbers are
 * ids when the caller gave none. */
#ifndef DATA_CORPUS_H
#define DATA_CORPUS_H

#include "backend/backend.h"

/* Memory of one plane. */
struct corpus_plane {
    void *codes, *scale, *error;
    uint64_t codes_bytes;
};

struct corpus {
    struct rows rows;       /* what backends see */
    int64_t next_id;        /* the next automatic id; never goes back */
    struct vic_texts texts; /* in row order; offsets NULL: none */
    uint64_t texts_bytes;   /* that texts.bytes holds: offsets from a file are held against it at each use */
    const char *metadata;   /* a JSON object, terminated */
    /* What this struct owns, each NULL when the bytes lie in a mapped file. */
    struct mem *mem;
    void *own_rows, *own_norms, *own_ids, *own_offsets, *own_texts, *own_metadata;
    uint64_t own_metadata_bytes;
    struct corpus_plane own_planes[PLANE_COUNT];
    void *own_plane_norms;
};

/* The row among ascending ids that has this one, or -1. */
int64_t ids_find(const int64_t *ids, int64_t n, int64_t id);
/* The same in a corpus, whose ids may be its row numbers: then it is asked for by the hundred thousand. */
static inline int64_t corpus_find(const struct corpus *corpus, int64_t id) {
    const struct rows *rows = &corpus->rows;
    return rows->ids ? ids_find(rows->ids, rows->n, id) : id >= 0 && id < rows->n ? id : -1;
}
/* The text of a row; VIC_FORMAT when a file's offsets are not in order or leave the texts. */
enum vic_status corpus_text(const struct corpus *corpus, int64_t row, const char **text, size_t *bytes);
/* The id of a row. */
static inline int64_t rows_id(const struct rows *rows, int64_t row) { return rows->ids ? rows->ids[row] : row; }
/* Bytes of the rows; shapes within the limits never overflow. */
static inline uint64_t rows_bytes(const struct rows *rows) {
    return (uint64_t)rows->n * (uint64_t)rows->dim * vic_dtype_bytes(rows->dtype);
}
/* n, dim, dtype and metric in range, or a sentence naming the limit. */
enum vic_status corpus_check_shape(int64_t n, int64_t dim, enum vic_dtype dtype, enum vic_metric metric);

/* Where each of n given vectors goes so that ids ascend: places[i] is vector i's row. *places is NULL when they ascend
 * already. VIC_ID names a negative or repeated id. Free with mem_free(n * 4 bytes). */
enum vic_status corpus_places(struct mem *mem, const int64_t *ids, int64_t n, uint32_t **places);

/* Memory for n rows, with norms (cosine) and ids if wanted; contents not written yet. */
enum vic_status corpus_alloc(struct mem *mem, int64_t n, int64_t dim, enum vic_dtype dtype, enum vic_metric metric,
                             bool with_ids, struct corpus *corpus);
/* Copies texts in row order (places as above) and metadata (NULL: "{}"; VIC_ARGUMENT unless a JSON object). */
enum vic_status corpus_set_texts(struct corpus *corpus, const struct vic_texts *texts, const uint32_t *places);
enum vic_status corpus_set_metadata(struct corpus *corpus, const char *metadata);
/* Frees what it owns and zeroes it. */
void corpus_free(struct corpus *corpus);

#endif
