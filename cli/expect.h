/* Questions with known answers: which words are expected among the first hits, and whether one is there. */
#ifndef CLI_EXPECT_H
#define CLI_EXPECT_H

#include "forms.h"

enum { EXPECT_HITS = 10 }; /* a question counts as answered by one of so many */

struct expect {
    struct vic_texts words; /* one line a question, words separated by commas */
    int64_t asked, answered;
};

/* The place, from 1, of the first hit with an expected word before the colon of its text, ignoring case; 0: none.
 * Counted in asked and answered. */
int expect_rank(struct expect *expect, const struct vic_index *index, const struct answer *answer);

#endif
