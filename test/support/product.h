/* Rows with a product quantiser and codes of their own, for tests; and what the codes of a row must be. */
#ifndef TEST_PRODUCT_H
#define TEST_PRODUCT_H

#include "index/index.h"
#include "quant/pq.h"
#include "support/oracle.h"

struct product {
    struct data data;
    struct vic_index *index; /* flat, over the data: its rows are what is coded */
    struct pq pq;
    uint8_t *codes;
};

/* Random rows of their own seed; no quantiser yet. */
void product_make(struct product *product, struct vic_device *device, int64_t n, int64_t dim, enum vic_dtype dtype,
                  enum vic_metric metric, enum values values, uint64_t seed);
/* Trains and codes, anew if need be. error may be NULL. */
void product_train(struct product *product, const struct pq_training *training, struct pq_error *error);
/* Every code is the nearest centre to its chunk by plain loops in double precision, the smaller one of two. */
void product_check(const struct product *product);
void product_free(struct product *product);

#endif
