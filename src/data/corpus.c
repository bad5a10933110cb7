/* Memory, order, texts and metadata of an index's rows. */
#include "data/corpus.h"

#include "base/dtype.h"
#include "base/json_text.h"

#include <stdlib.h>
#include <string.h>

int64_t ids_find(const int64_t *ids, int64_t n, int64_t id) {
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && ids[low] == id ? low : -1;
}

enum vic_status corpus_text(const struct corpus *corpus, int64_t row, const char **text, size_t *bytes) {
    if (!corpus->texts.offsets) return status_fail(VIC_NOT_FOUND, "the index holds no texts");
    int64_t start = corpus->texts.offsets[row], end = corpus->texts.offsets[row + 1];
    if (start < 0 || end < start || (uint64_t)end > corpus->texts_bytes)
        return status_fail(VIC_FORMAT, "expected the text of row %lld within %llu bytes, found it from byte %lld to %lld",
                           (long long)row, (unsigned long long)corpus->texts_bytes, (long long)start, (long long)end);
    *text = corpus->texts.bytes + start;
    *bytes = (size_t)(end - start);
    return VIC_OK;
}

enum vic_status corpus_check_shape(int64_t n, int64_t dim, enum vic_dtype dtype, enum vic_metric metric) {
    if (n < 0 || n > ROWS_MAX)
        return status_fail(VIC_ARGUMENT, "expected 0 to %lld rows, found %lld", (long long)ROWS_MAX, (long long)n);
    if (dim < 1 || dim > DIM_MAX)
        return status_fail(VIC_DIMENSION, "expected a dimension from 1 to %lld, found %lld", (long long)DIM_MAX,
                           (long long)dim);
    if (!dtype_valid(dtype)) return status_fail(VIC_ARGUMENT, "expected a dtype from 1 (f32) to 5 (u8), found %d", (int)dtype);
    if (!metric_valid(metric))
        return status_fail(VIC_ARGUMENT, "expected a metric from 1 (dot) to 3 (l2), found %d", (int)metric);
    return VIC_OK;
}

struct numbered_id {
    int64_t id;
    uint32_t number;
};

static int numbered_compare(const void *a, const void *b) {
    int64_t x = ((const struct numbered_id *)a)->id, y = ((const struct numbered_id *)b)->id;
    return (x > y) - (x < y);
}

/* Negative ids, and whether they ascend. */
static enum vic_status ids_look(const int64_t *ids, int64_t n, bool *ascend) {
    *ascend = true;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0)
            return status_fail(VIC_ID, "expected ids of at least 0, found %lld for row %lld", (long long)ids[i], (long long)i);
        if (i > 0 && ids[i] <= ids[i - 1]) *ascend = false;
    }
    return VIC_OK;
}

enum vic_status corpus_places(struct mem *mem, const int64_t *ids, int64_t n, uint32_t **places) {
    bool ascend = true;
    void *order_memory = NULL, *places_memory = NULL;
    enum vic_status status = ids_look(ids, n, &ascend);
    *places = NULL;
    if (status != VIC_OK || ascend) return status;
    TRY(mem_alloc_array(mem, (uint64_t)n, sizeof(struct numbered_id), "sorting the ids", &order_memory));
    struct numbered_id *order = order_memory;
    for (int64_t i = 0; i < n; i++) order[i] = (struct numbered_id){ids[i], (uint32_t)i};
    qsort(order, (size_t)n, sizeof *order, numbered_compare);
    for (int64_t i = 1; i < n; i++)
        if (order[i].id == order[i - 1].id)
            TRY(status_fail(VIC_ID, "expected every id once, found %lld for row %u and row %u", (long long)order[i].id,
                            order[i - 1].number, order[i].number));
    TRY(mem_alloc_array(mem, (uint64_t)n, sizeof(uint32_t), "the order of the ids", &places_memory));
    *places = places_memory;
    for (int64_t i = 0; i < n; i++) (*places)[order[i].number] = (uint32_t)i;
done:
    mem_free(mem, order_memory, (uint64_t)n * sizeof(struct numbered_id));
    return status;
}

enum vic_status corpus_alloc(struct mem *mem, int64_t n, int64_t dim, enum vic_dtype dtype, enum vic_metric metric,
                             bool with_ids, struct corpus *corpus) {
    enum vic_status status = VIC_OK;
    *corpus = (struct corpus){.rows = {.n = n, .dim = dim, .dtype = dtype, .metric = metric}, .mem = mem, .next_id = n};
    TRY(mem_alloc(mem, rows_bytes(&corpus->rows), "the rows", &corpus->own_rows));
    if (metric == VIC_COSINE) TRY(mem_alloc_array(mem, (uint64_t)n, sizeof(float), "the norms", &corpus->own_norms));
    if (with_ids) TRY(mem_alloc_array(mem, (uint64_t)n, sizeof(int64_t), "the ids", &corpus->own_ids));
    corpus->rows.data = corpus->own_rows;
    corpus->rows.norms = corpus->own_norms;
    corpus->rows.ids = corpus->own_ids;
    return VIC_OK;
done:
    corpus_free(corpus);
    return status;
}

static enum vic_status texts_check(const struct vic_texts *texts, int64_t n) {
    if (texts->count != n)
        return status_fail(VIC_DIMENSION, "expected a text for each of %lld rows, found %lld texts", (long long)n,
                           (long long)texts->count);
    if (!texts->offsets || (!texts->bytes && texts->offsets[n] > 0))
        return status_fail(VIC_ARGUMENT, "expected texts with bytes and offsets, found NULL");
    if (texts->offsets[0] != 0)
        return status_fail(VIC_ARGUMENT, "expected texts.offsets to start at 0, found %lld", (long long)texts->offsets[0]);
    for (int64_t i = 0; i < n; i++)
        if (texts->offsets[i + 1] < texts->offsets[i])
            return status_fail(VIC_ARGUMENT, "expected texts.offsets never to fall, found %lld after %lld at text %lld",
                               (long long)texts->offsets[i + 1], (long long)texts->offsets[i], (long long)i);
    return VIC_OK;
}

enum vic_status corpus_set_texts(struct corpus *corpus, const struct vic_texts *texts, const uint32_t *places) {
    int64_t n = corpus->rows.n;
    enum vic_status status = texts_check(texts, n);
    if (status != VIC_OK) return status;
    uint64_t total = (uint64_t)texts->offsets[n];
    status = mem_alloc_array(corpus->mem, (uint64_t)n + 1, sizeof(int64_t), "the texts' offsets", &corpus->own_offsets);
    if (status != VIC_OK) return status;
    corpus->texts_bytes = total;
    status = mem_alloc(corpus->mem, total, "the texts", &corpus->own_texts);
    if (status != VIC_OK) return status;
    int64_t *offsets = corpus->own_offsets;
    char *bytes = corpus->own_texts;
    memset(offsets, 0, ((size_t)n + 1) * sizeof *offsets);
    for (int64_t i = 0; i < n; i++) offsets[(places ? places[i] : i) + 1] = texts->offsets[i + 1] - texts->offsets[i];
    for (int64_t i = 0; i < n; i++) offsets[i + 1] += offsets[i];
    for (int64_t i = 0; i < n; i++) {
        int64_t length = texts->offsets[i + 1] - texts->offsets[i];
        if (length) memcpy(bytes + offsets[places ? places[i] : i], texts->bytes + texts->offsets[i], (size_t)length);
    }
    corpus->texts = (struct vic_texts){bytes, offsets, n};
    return VIC_OK;
}

enum vic_status corpus_set_metadata(struct corpus *corpus, const char *metadata) {
    const char *text = metadata ? metadata : "{}";
    json_t *object = NULL;
    enum vic_status status = json_text_parse(text, strlen(text), "metadata", VIC_ARGUMENT, &object);
    json_decref(object);
    if (status != VIC_OK) return status;
    uint64_t bytes = strlen(text) + 1;
    status = mem_alloc(corpus->mem, bytes, "the metadata", &corpus->own_metadata);
    if (status != VIC_OK) return status;
    corpus->own_metadata_bytes = bytes;
    memcpy(corpus->own_metadata, text, bytes);
    corpus->metadata = corpus->own_metadata;
    return VIC_OK;
}

void corpus_free(struct corpus *corpus) {
    uint64_t n = (uint64_t)corpus->rows.n;
    if (corpus->mem) {
        mem_free(corpus->mem, corpus->own_plane_norms, n * sizeof(float));
        for (int kind = 0; kind < PLANE_COUNT; kind++) {
            struct corpus_plane *plane = &corpus->own_planes[kind];
            mem_free(corpus->mem, plane->error, n * sizeof(float));
            mem_free(corpus->mem, plane->scale, n * sizeof(float));
            mem_free(corpus->mem, plane->codes, plane->codes_bytes);
        }
        mem_free(corpus->mem, corpus->own_metadata, corpus->own_metadata_bytes);
        mem_free(corpus->mem, corpus->own_texts, corpus->texts_bytes);
        mem_free(corpus->mem, corpus->own_offsets, (n + 1) * sizeof(int64_t));
        mem_free(corpus->mem, corpus->own_ids, n * sizeof(int64_t));
        mem_free(corpus->mem, corpus->own_norms, n * sizeof(float));
        mem_free(corpus->mem, corpus->own_rows, rows_bytes(&corpus->rows));
    }
    *corpus = (struct corpus){0};
}
