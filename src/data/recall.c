/* vic_recall: how much of the truth was found.
 *
 * The surprising rule: where both sides carry distances, a hit as near as the k-th true neighbour counts although its id
 * is another one; which of several equally near rows a truth lists is chance. A hit listed twice, or beyond the rows there
 * are, is refused instead of being counted: both have made published figures too good. */
#include "base/fpenv.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>

struct place {
    int64_t id, slot;
};

static int place_compare(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

/* The first k slots of query j that hold ids, in order of id. */
static enum vic_status places_take(const struct vic_truth *from, const char *name, int64_t j, int64_t k, int64_t n,
                                   struct place *places, int64_t *count) {
    const int64_t *ids = from->ids + j * from->k;
    *count = 0;
    for (int64_t slot = 0; slot < k; slot++) {
        if (ids[slot] < -1 || (n > 0 && ids[slot] >= n))
            return status_fail(VIC_ID, "expected ids from 0 to %lld in %s, found %lld at query %lld slot %lld",
                               (long long)(n > 0 ? n - 1 : INT64_MAX), name, (long long)ids[slot], (long long)j,
                               (long long)slot);
        if (ids[slot] >= 0) places[(*count)++] = (struct place){ids[slot], slot};
    }
    qsort(places, (size_t)*count, sizeof *places, place_compare);
    for (int64_t i = 1; i < *count; i++)
        if (places[i].id == places[i - 1].id)
            return status_fail(
                VIC_ID, "expected each id once a query in %s, found %lld at query %lld slot %lld and again at slot %lld", name,
                (long long)places[i].id, (long long)j, (long long)places[i - 1].slot, (long long)places[i].slot);
    return VIC_OK;
}

/* The distance of the last true neighbour there is among the first k: a slot without one does not set it. */
static bool border_distance(const struct vic_truth *truth, int64_t j, int64_t k, float *border) {
    for (int64_t slot = k - 1; slot >= 0; slot--)
        if (truth->ids[j * truth->k + slot] >= 0) {
            *border = truth->distances[j * truth->k + slot];
            return true;
        }
    return false;
}

/* Hits that are true neighbours, or as near as the last of them. Both lists are in order of id. */
static int64_t places_match(const struct vic_truth *hits, const struct vic_truth *truth, int64_t j, int64_t k,
                            const struct place *found, int64_t found_count, const struct place *wanted, int64_t wanted_count) {
    float border = 0;
    bool ties = hits->distances && truth->distances && border_distance(truth, j, k, &border);
    int64_t matches = 0, next = 0;
    for (int64_t i = 0; i < found_count; i++) {
        while (next < wanted_count && wanted[next].id < found[i].id) next++;
        bool same = next < wanted_count && wanted[next].id == found[i].id;
        matches += same || (ties && hits->distances[j * hits->k + found[i].slot] == border);
    }
    return matches < wanted_count ? matches : wanted_count;
}

static enum vic_status shapes_check(const struct vic_truth *hits, const struct vic_truth *truth, int64_t k, int64_t n,
                                    const double *recall) {
    if (!hits || !truth || !recall || (hits->nq > 0 && (!hits->ids || !truth->ids)))
        return status_fail(VIC_ARGUMENT, "expected hits, truth and a place for the recall, found NULL");
    if (n < 0)
        return status_fail(VIC_ARGUMENT, "expected n of 0 (ids are not held against it) or more, found %lld", (long long)n);
    if (hits->nq != truth->nq)
        return status_fail(VIC_DIMENSION, "expected as many queries in the hits as in the truth, found %lld and %lld",
                           (long long)hits->nq, (long long)truth->nq);
    if (k < 1 || k > hits->k || k > truth->k)
        return status_fail(VIC_DIMENSION, "expected k from 1 to what the hits (%lld) and the truth (%lld) have, found %lld",
                           (long long)hits->k, (long long)truth->k, (long long)k);
    return VIC_OK;
}

/* A query without true neighbours has nothing to find and counts as 1, and so does a question of no queries. */
enum vic_status vic_recall(const struct vic_truth *hits, const struct vic_truth *truth, int64_t k, int64_t n, double *recall) {
    void *memory = NULL;
    double sum = 0;
    enum vic_status status = shapes_check(hits, truth, k, n, recall);
    if (status != VIC_OK) return status;
    if (hits->nq == 0) { /* with any k, so before memory for k is taken */
        *recall = 1.0;
        return VIC_OK;
    }
    TRY(mem_alloc_array(&mem_default, (uint64_t)k, 2 * sizeof(struct place), "recall", &memory));
    struct place *found = memory, *wanted = found + k;
    fpenv caller = fpenv_enter();
    for (int64_t j = 0; j < hits->nq && status == VIC_OK; j++) {
        int64_t found_count = 0, wanted_count = 0;
        status = places_take(truth, "the truth", j, k, n, wanted, &wanted_count);
        if (status == VIC_OK) status = places_take(hits, "the hits", j, k, n, found, &found_count);
        if (status != VIC_OK) break;
        int64_t matches = places_match(hits, truth, j, k, found, found_count, wanted, wanted_count);
        sum += wanted_count > 0 ? (double)matches / (double)wanted_count : 1.0;
    }
    if (status == VIC_OK) *recall = sum / (double)hits->nq;
    fpenv_leave(caller);
done:
    mem_free(&mem_default, memory, (uint64_t)k * 2 * sizeof(struct place));
    return status;
}
