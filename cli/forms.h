/* Where answers go: a table for people, JSON, or a file of neighbours. One struct of functions a form. */
#ifndef CLI_FORMS_H
#define CLI_FORMS_H

#include "output.h"

#include <vicinal.h>

#include <stddef.h>
#include <stdint.h>

/* The hits of one query, only real ones, best first. */
struct answer {
    int64_t query, count;
    const int64_t *ids;
    const float *scores;
    int expected_rank; /* place of the first hit with an expected word; 0: none has; -1: nothing was expected */
};

struct form;

struct form_kind {
    bool ranges; /* answers may differ in length */
    /* path NULL: standard output */
    bool (*open)(struct form *form, const char *path, int64_t nq, int64_t k);
    bool (*put)(struct form *form, const struct answer *answer);
    bool (*finish)(struct form *form);
};

struct form {
    const struct form_kind *kind;
    /* what the forms show, set by the caller */
    const struct vic_index *index;
    enum vic_metric metric;
    bool texts;
    int64_t show;                      /* most hits a query in a table */
    const struct vic_texts *questions; /* the queries in words, or NULL */
    const struct vic_texts *expected;  /* words looked for, or NULL */
    /* a form's own */
    FILE *stream;
    struct out_file file;
    struct vic_truth truth;
    char *path;
    int width;
    int64_t written;
};

extern const struct form_kind form_table, form_lines;
/* The form that a file's name asks for; NULL has been said. */
const struct form_kind *form_by_name(const char *path);
/* Closes what is open; a file that was not finished is gone. */
void form_drop(struct form *form);
/* "cosine, larger is better" */
const char *metric_words(enum vic_metric metric);

#endif
