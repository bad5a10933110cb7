/* Fuzz target of walks: a sound index whose slots and entry points are the input's, searched at the input's beam, parents and
 * codes. Whatever they are, a search answers with different rows and their true scores; and a graph that a check calls sound
 * gives all rows to a beam that holds all.
 *
 * The input: type and metric, degree, entry points, beam, parents, codes, k, then two bytes a slot: mostly a
 * row or one just beyond, also the unused slot, or a number far out. What the input does not say is zero. */
#define _GNU_SOURCE /* memfd_create */

#include "page.h"
#include "vicinal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N = 40, DIM = 5, DEGREE_MOST = 9, ENTRIES_MOST = 6, FORMS = 6, BEAM_MOST = 50, ROOM = 65536 };

static void must(enum vic_status status) {
    if (status == VIC_OK) return;
    (void)fprintf(stderr, "%s\n", vic_last_error());
    abort();
}

struct input {
    const uint8_t *bytes;
    size_t left;
};
static uint32_t byte_take(struct input *input) {
    if (input->left == 0) return 0;
    input->left--;
    return *input->bytes++;
}
static uint32_t slot_take(struct input *input) {
    uint32_t low = byte_take(input), high = byte_take(input);
    if (high < 200) return (low + high) % (N + 2);
    return high < 240 ? UINT32_MAX : high << 24 | low;
}

/* The files that get other graphs: every metric, whole numbers and floats with both planes. */
struct form {
    uint8_t bytes[ROOM];
    size_t size;
    enum vic_dtype dtype;
    float rows[N * DIM];
};

static void form_make(struct vic_device *device, struct form *form, int which, const char *path) {
    const struct vic_graph_options graph = {.size = sizeof graph, .degree = 3, .beam = 8, .force = 1};
    const struct vic_build_options options = {.size = sizeof options,
                                              .metric = (enum vic_metric)(VIC_DOT + which % 3),
                                              .dtype = which < 3 ? VIC_F32 : VIC_I8,
                                              .planes = VIC_PLANES_4,
                                              .graph = &graph};
    struct vic_index *index = NULL;
    form->dtype = options.dtype;
    for (int i = 0; i < N * DIM; i++) form->rows[i] = (float)((i * 37 + i / DIM * i) % 19 - 9);
    const struct vic_matrix rows = {.data = form->rows, .rows = N, .dim = DIM};
    must(vic_index_build(device, &rows, &options, &index));
    must(vic_index_save(index, path, NULL));
    vic_index_free(index);
    FILE *file = fopen(path, "rb");
    if (!file) abort();
    form->size = fread(form->bytes, 1, ROOM / 2, file);
    (void)fclose(file);
}

/* A section's contents, at the end of the file and of its table, which is in the order of offsets. */
static void section_move(uint8_t *bytes, size_t *size, const char *name, const uint32_t *words, size_t count) {
    uint8_t moved[ENTRY], *entry = bytes + ENTRIES, *last = bytes + ENTRIES + ENTRY * (bytes[COUNT] - 1);
    while (strncmp((const char *)entry, name, OFFSET) != 0) entry += ENTRY;
    memset(bytes + word_get(entry + OFFSET), 0, word_get(entry + BYTES)); /* what lies between sections is zero */
    memcpy(moved, entry, ENTRY);
    memmove(entry, entry + ENTRY, (size_t)(last - entry));
    *size = (*size + PAGE - 1) / PAGE * PAGE;
    word_set(moved + OFFSET, *size);
    word_set(moved + BYTES, count * sizeof *words);
    memcpy(last, moved, ENTRY);
    memcpy(bytes + *size, words, count * sizeof *words);
    *size += count * sizeof *words;
}

/* Different rows, each with its own score, the best first. */
static void hits_check(const struct vic_index *index, const struct vic_matrix *query, const struct vic_hits *hits, int64_t k,
                       bool smaller_better) {
    bool seen[N] = {false};
    float scores[N];
    int64_t count = *hits->counts;
    if (count > k || count > N) abort();
    if (count > 0) must(vic_index_score(index, query, hits->ids, count, NULL, scores));
    if (memcmp(scores, hits->scores, (size_t)count * sizeof *scores) != 0) abort();
    for (int64_t i = 0; i < k; i++) {
        int64_t id = hits->ids[i];
        if (i >= count && id != -1) abort();
        if (i >= count) continue;
        if (id < 0 || id >= N || seen[id]) abort();
        seen[id] = true;
        if (i > 0 && (smaller_better ? scores[i] < scores[i - 1] : scores[i] > scores[i - 1])) abort();
    }
}

static void try(const struct vic_index *index, const struct form *form, struct input *wish) {
    struct vic_index_info info = {.size = sizeof info};
    must(vic_index_info(index, &info));
    struct vic_search_options options = {.size = sizeof options, .path = VIC_PATH_GRAPH};
    options.beam = (int32_t)(byte_take(wish) % BEAM_MOST), options.parents = (int32_t)(byte_take(wish) % 9);
    options.codes = (enum vic_codes)(byte_take(wish) % (form->dtype == VIC_F32 ? 4 : 3));
    int64_t k = 1 + byte_take(wish) % BEAM_MOST, ids[2][BEAM_MOST];
    float scores[2][BEAM_MOST];
    int32_t counts[2];
    const struct vic_matrix query = {
        .data = (void *)(uintptr_t)(form->rows + byte_take(wish) % N * DIM), .rows = 1, .dim = DIM};
    struct vic_hits hits = {.ids = ids[0], .scores = scores[0], .counts = &counts[0]};
    must(vic_index_search(index, &query, k, &options, &hits));
    hits_check(index, &query, &hits, k, info.metric == VIC_L2);
    if (vic_index_check(index, NULL) != VIC_OK) return;
    const struct vic_search_options scan = {.size = sizeof scan, .path = VIC_PATH_SCAN};
    const struct vic_hits right = {.ids = ids[1], .scores = scores[1], .counts = &counts[1]};
    options.beam = N;
    must(vic_index_search(index, &query, k, &options, &hits));
    must(vic_index_search(index, &query, k, &scan, &right));
    if (counts[0] != counts[1] || memcmp(ids[0], ids[1], (size_t)k * sizeof *ids[0]) != 0) abort();
    if (memcmp(scores[0], scores[1], (size_t)k * sizeof *scores[0]) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct vic_device *device;
    static struct form forms[FORMS];
    static int file = -1;
    static char path[64];
    static uint8_t bytes[ROOM];
    if (!device) {
        struct vic_device_options options = {.size = sizeof options, .name = "cpu", .threads = 1, .host_bytes = 64 << 20};
        char made[] = "/tmp/vicinal-fuzz-XXXXXX";
        if (mkstemp(made) < 0) abort();
        must(vic_device_open(&options, &device));
        for (int i = 0; i < FORMS; i++) form_make(device, &forms[i], i, made);
        (void)unlink(made);
        file = memfd_create("graph", MFD_CLOEXEC);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    struct input input = {data, size}, wish;
    const struct form *form = &forms[byte_take(&input) % FORMS];
    uint32_t degree = 1 + byte_take(&input) % DEGREE_MOST, entries = 1 + byte_take(&input) % ENTRIES_MOST;
    uint32_t slots[N * DEGREE_MOST], entry[ENTRIES_MOST];
    wish = input;
    for (int i = 0; i < 5; i++) (void)byte_take(&input);
    for (uint32_t i = 0; i < entries; i++) entry[i] = slot_take(&input);
    for (uint32_t i = 0; i < N * degree; i++) slots[i] = slot_take(&input);
    size_t whole = form->size;
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, form->bytes, form->size);
    section_move(bytes, &whole, "graph", slots, N * degree);
    section_move(bytes, &whole, "entry", entry, entries);
    seal(bytes, whole);
    if (ftruncate(file, 0) != 0 || pwrite(file, bytes, whole, 0) != (ssize_t)whole) abort();
    struct vic_index *index = NULL;
    must(vic_index_open(device, path, NULL, &index));
    try(index, form, &wish);
    vic_index_free(index);
    return 0;
}
