/* Expected words: see expect.h. */
#include "expect.h"

#include <string.h>
#include <strings.h>

static bool holds(const char *text, size_t bytes, const char *word, size_t word_bytes) {
    for (size_t at = 0; at + word_bytes <= bytes; at++)
        if (strncasecmp(text + at, word, word_bytes) == 0) return true;
    return false;
}

/* Whether one of the words of a line "autumn, fall" is in the text. */
static bool holds_one(const char *text, size_t bytes, const char *words, size_t words_bytes) {
    for (size_t at = 0; at < words_bytes;) {
        const char *comma = memchr(words + at, ',', words_bytes - at);
        size_t end = comma ? (size_t)(comma - words) : words_bytes, next = end + 1;
        while (at < end && words[at] == ' ') at++;
        while (end > at && words[end - 1] == ' ') end--;
        if (end > at && holds(text, bytes, words + at, end - at)) return true;
        at = next;
    }
    return false;
}

int expect_rank(struct expect *expect, const struct vic_index *index, const struct answer *answer) {
    if (answer->query >= expect->words.count) return 0;
    const int64_t *line = expect->words.offsets + answer->query;
    expect->asked++;
    for (int i = 0; i < EXPECT_HITS && i < answer->count; i++) {
        const char *text = NULL;
        size_t bytes = 0;
        if (vic_index_text(index, answer->ids[i], &text, &bytes) != VIC_OK) continue;
        const char *colon = memchr(text, ':', bytes);
        if (colon) bytes = (size_t)(colon - text);
        if (!holds_one(text, bytes, expect->words.bytes + line[0], (size_t)(line[1] - line[0]))) continue;
        expect->answered++;
        return i + 1;
    }
    return 0;
}
