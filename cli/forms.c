/* Forms of answers: see forms.h. No form shows an unused slot: what it gets are real hits. */
#include "forms.h"
#include "input.h"
#include "term.h"

#include <stdlib.h>
#include <string.h>

const char *metric_words(enum vic_metric metric) {
    static const char *const words[] = {"?", "dot product, larger is better", "cosine, larger is better",
                                        "squared l2 distance, smaller is better"};
    return words[metric];
}

static bool hit_text(const struct form *form, int64_t id, const char **text, size_t *bytes) {
    return form->texts && vic_index_text(form->index, id, text, bytes) == VIC_OK;
}

/* The line of texts that belongs to a query, or false. */
static bool line_of(const struct vic_texts *texts, int64_t query, const char **text, size_t *bytes) {
    if (!texts || query >= texts->count) return false;
    *text = texts->bytes + texts->offsets[query];
    *bytes = (size_t)(texts->offsets[query + 1] - texts->offsets[query]);
    return true;
}

static bool nothing_to_finish(struct form *form) {
    (void)form;
    return true;
}

/* ---- a table */

static bool table_open(struct form *form, const char *path, int64_t nq, int64_t k) {
    (void)path, (void)nq, (void)k;
    form->width = term_width();
    printf("%sscores: %s%s\n", ink(INK_FAINT), metric_words(form->metric), ink(INK_PLAIN));
    return true;
}

static void heading_put(const struct form *form, const struct answer *answer) {
    const char *text = NULL;
    size_t bytes = 0;
    printf("\n%s", ink(INK_TITLE));
    if (line_of(form->questions, answer->query, &text, &bytes))
        text_show(stdout, text, bytes, form->width, false);
    else
        printf("query %lld", (long long)answer->query);
    printf("%s\n", ink(INK_PLAIN));
    if (answer->expected_rank < 0 || !line_of(form->expected, answer->query, &text, &bytes)) return;
    printf("  %sexpected: ", ink(INK_FAINT));
    text_show(stdout, text, bytes, form->width > 50 ? form->width - 38 : 0, false);
    printf("%s %s", ink(INK_PLAIN), ink(answer->expected_rank ? INK_GOOD : INK_BAD));
    if (answer->expected_rank)
        printf("(found at place %d)", answer->expected_rank);
    else
        printf("(not among the first ten)");
    printf("%s\n", ink(INK_PLAIN));
}

static bool table_put(struct form *form, const struct answer *answer) {
    heading_put(form, answer);
    for (int64_t i = 0; i < answer->count && i < form->show; i++) {
        const char *text = NULL;
        size_t bytes = 0;
        char score[24], id[24];
        int used = 4 + snprintf(score, sizeof score, "%#10.6g", (double)answer->scores[i]);
        bool texted = hit_text(form, answer->ids[i], &text, &bytes);
        used += snprintf(id, sizeof id, "#%-*lld", texted ? 6 : 0, (long long)answer->ids[i]);
        printf("  %s%s%s  %s%s%s", ink(INK_NUMBER), score, ink(INK_PLAIN), ink(INK_FAINT), id, ink(INK_PLAIN));
        if (texted) {
            printf("  ");
            text_show(stdout, text, bytes, form->width > used + 12 ? form->width - used - 2 : form->width ? 10 : 0, true);
        }
        printf("\n");
    }
    if (answer->count == 0) printf("  no hits\n");
    return stream_good(stdout);
}

/* ---- JSON, one object a query: as lines, or as one array in a file */

static bool lines_open(struct form *form, const char *path, int64_t nq, int64_t k) {
    (void)nq, (void)k;
    form->stream = stdout;
    if (!path) return true;
    if (!out_file_open(&form->file, path)) return false;
    form->stream = form->file.stream;
    return true;
}

static json_t *hit_json(const struct form *form, int64_t id, float score) {
    const char *text = NULL;
    size_t bytes = 0;
    json_t *hit = json_pack("{s:I, s:o}", "id", (json_int_t)id, "score", json_number((double)score));
    if (hit && hit_text(form, id, &text, &bytes)) (void)json_object_set_new(hit, "text", json_text(text, bytes));
    return hit;
}

static bool lines_put(struct form *form, const struct answer *answer) {
    const char *text = NULL;
    size_t bytes = 0;
    json_t *hits = json_array(), *object = json_pack("{s:I}", "query", (json_int_t)answer->query);
    if (line_of(form->questions, answer->query, &text, &bytes))
        (void)json_object_set_new(object, "question", json_text(text, bytes));
    if (answer->expected_rank >= 0) (void)json_object_set_new(object, "expected_at", json_integer(answer->expected_rank));
    (void)json_object_set_new(object, "metric", json_string(vic_metric_name(form->metric)));
    (void)json_object_set_new(object, "better", json_string(form->metric == VIC_L2 ? "smaller" : "larger"));
    for (int64_t i = 0; i < answer->count; i++)
        (void)json_array_append_new(hits, hit_json(form, answer->ids[i], answer->scores[i]));
    (void)json_object_set_new(object, "hits", hits);
    return json_put(form->stream, object);
}

static bool lines_finish(struct form *form) { return !form->file.path || out_file_finish(&form->file); }

static bool array_put(struct form *form, const struct answer *answer) {
    (void)fputs(form->written++ ? "," : "[", form->stream);
    return lines_put(form, answer);
}

static bool array_finish(struct form *form) {
    (void)fputs(form->written ? "]\n" : "[]\n", form->stream);
    return lines_finish(form);
}

/* ---- neighbours as files of the field hold them */

static bool truth_open(struct form *form, const char *path, int64_t nq, int64_t k) {
    uint64_t slots = 0;
    if (__builtin_mul_overflow((uint64_t)nq, (uint64_t)k, &slots)) slots = UINT64_MAX;
    form->truth = (struct vic_truth){.nq = nq, .k = k};
    form->path = strdup(path);
    form->truth.ids = memory_take(slots, sizeof *form->truth.ids);
    form->truth.distances = form->truth.ids ? memory_take(slots, sizeof *form->truth.distances) : NULL;
    return form->path && form->truth.distances;
}

static bool truth_put(struct form *form, const struct answer *answer) {
    int64_t *ids = form->truth.ids + answer->query * form->truth.k;
    float *distances = form->truth.distances + answer->query * form->truth.k;
    for (int64_t i = 0; i < form->truth.k; i++) {
        bool real = i < answer->count;
        ids[i] = real ? answer->ids[i] : -1;
        distances[i] = real ? answer->scores[i] : form->metric == VIC_L2 ? __builtin_inff() : -__builtin_inff();
    }
    return true;
}

static bool truth_finish(struct form *form) {
    TRY(vic_truth_write(form->path, &form->truth));
    return true;
done:
    return false;
}

/* ---- which one */

const struct form_kind form_table = {true, table_open, table_put, nothing_to_finish};
const struct form_kind form_lines = {true, lines_open, lines_put, lines_finish};
static const struct form_kind form_array = {true, lines_open, array_put, array_finish};
static const struct form_kind form_truth = {false, truth_open, truth_put, truth_finish};

const struct form_kind *form_by_name(const char *path) {
    static const struct {
        const char *ending;
        const struct form_kind *kind;
    } forms[] = {
        {".jsonl", &form_lines}, {".json", &form_array}, {".bin", &form_truth}, {".ivecs", &form_truth}, {".npy", &form_truth}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (path_ends(path, forms[i].ending)) return forms[i].kind;
    (void)say_usage("-o %s: expected a name that ends in .bin, .ivecs, .npy, .json or .jsonl", path);
    return NULL;
}

void form_drop(struct form *form) {
    out_file_drop(&form->file);
    free(form->truth.ids);
    free(form->truth.distances);
    free(form->path);
}
