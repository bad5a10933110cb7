/* Both indexes are built once a program; what changes between tests is the folder. */
#include "support/pair.h"
#include "support/oracle.h"

#include <stdlib.h>

struct pair *pair_open(const struct sample *old_sample, const struct sample *new_sample) {
    static struct pair pair;
    const struct sample *const samples[] = {old_sample, new_sample};
    if (scratch_open(NULL) != 0) abort();
    pair.device = device_of(1);
    pair.path = scratch_path("index");
    for (int i = OLD; i <= NEW; i++) {
        pair.index[i] = sample_build(pair.device, samples[i], NULL);
        must(vic_index_save(pair.index[i], pair.path, NULL));
        pair.blob[i] = blob_read(pair.path);
    }
    return &pair;
}

int pair_close(void **state) {
    struct pair *pair = *state;
    for (int i = OLD; i <= NEW; i++) {
        vic_index_free(pair->index[i]);
        blob_free(&pair->blob[i]);
    }
    vic_device_free(pair->device);
    return scratch_close(state);
}

void pair_reset(const struct pair *pair) {
    scratch_clear();
    must(vic_index_save(pair->index[OLD], pair->path, NULL));
}

bool pair_is(const struct pair *pair, int which) {
    return scratch_has("index") && blob_equals_file(&pair->blob[which], pair->path);
}
