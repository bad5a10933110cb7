/* Command lines: options from tables, one parser for all subcommands, help made from the same tables.
 *
 * A value is checked here, so that a wrong one is named with its option and its range before any file is touched. Names of
 * metrics and types are the library's to know: its sentence is passed on. */
#include "command.h"
#include "term.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    unsigned bit;
    struct option_row row;
} common_rows[] = {
    {COMMON_K, {"k", 'k', OPTION_INT, "N", 1, INT64_MAX, offsetof(struct common_args, k), OPTIONAL, "hits a query"}},
    {COMMON_METRIC,
     {"metric", 0, OPTION_METRIC, "dot|cosine|l2", 0, 0, offsetof(struct common_args, metric), OPTIONAL,
      "how closeness is measured"}},
    {COMMON_TYPE,
     {"type", 0, OPTION_DTYPE, "f32|f16|bf16|i8|u8", 0, 0, offsetof(struct common_args, type), OPTIONAL,
      "element type to store"}},
    {COMMON_PLANES,
     {"planes", 0, OPTION_CHOICE, "auto|none|8|4|both", 0, 0, offsetof(struct common_args, planes), OPTIONAL,
      "codes of 8 or 4 bits beside the rows: more memory, less time, the same answers (auto)"}},
    {COMMON_READ,
     {"read-type", 0, OPTION_DTYPE, "f32|f16|bf16|i8|u8", 0, 0, offsetof(struct common_args, read_type), OPTIONAL,
      "element type of a .bin file, which does not say it"}},
    {COMMON_READ,
     {"dataset", 0, OPTION_TEXT, "NAME", 0, 0, offsetof(struct common_args, dataset), OPTIONAL,
      "which data set of an HDF5 file (train for rows, test for queries)"}},
    {COMMON_DEVICE,
     {"device", 0, OPTION_TEXT, "NAME", 0, 0, offsetof(struct common_args, device), OPTIONAL,
      "auto, cpu ...: see 'vicinal devices' (auto)"}},
    {COMMON_THREADS,
     {"threads", 0, OPTION_INT, "N", 0, 1024, offsetof(struct common_args, threads), OPTIONAL, "0: one for each core (0)"}},
    {COMMON_BUDGET,
     {"budget", 0, OPTION_BYTES, "BYTES", 0, 0, offsetof(struct common_args, budget), OPTIONAL,
      "most memory to hold, as 512M or 8G (the machine's)"}},
    {COMMON_JSON,
     {"json", 0, OPTION_FLAG, NULL, 0, 0, offsetof(struct common_args, json), OPTIONAL, "JSON instead of words for people"}},
};
enum { COMMON_ROWS = sizeof common_rows / sizeof *common_rows, ROWS_MOST = 32, FIRST_LONG = 256, HELP = 255 };

/* All options of a subcommand: its own, then the shared ones. */
struct option_set {
    const struct option_row *rows[ROWS_MOST];
    bool seen[ROWS_MOST];
    int count;
};

static void options_gather(const struct command *command, struct option_set *set) {
    *set = (struct option_set){.count = 0};
    for (const struct option_row *row = command->options; row && row->name; row++) set->rows[set->count++] = row;
    for (size_t i = 0; i < COMMON_ROWS; i++)
        if (command->common & common_rows[i].bit) set->rows[set->count++] = &common_rows[i].row;
}

/* ---- values */

static bool parse_int(const struct option_row *row, const char *text, int64_t *value) {
    char *end = NULL;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (end != text && !*end && errno == 0 && parsed >= row->low && parsed <= row->high) {
        *value = parsed;
        return true;
    }
    if (row->high == INT64_MAX)
        say_usage("--%s %s: expected a whole number of at least %lld", row->name, text, (long long)row->low);
    else
        say_usage("--%s %s: expected a whole number from %lld to %lld", row->name, text, (long long)row->low,
                  (long long)row->high);
    return false;
}

static bool parse_real(const struct option_row *row, const char *text, double *value) {
    char *end = NULL;
    *value = strtod(text, &end);
    if (end != text && !*end && isfinite(*value)) return true;
    say_usage("--%s %s: expected a number", row->name, text);
    return false;
}

static bool parse_bytes(const struct option_row *row, const char *text, uint64_t *value) {
    static const char suffixes[] = "KMGT";
    char *end = NULL;
    errno = 0;
    unsigned long long parsed = strtoull(text, &end, 10);
    const char *suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
    unsigned shift = suffix ? 10 * (unsigned)(suffix - suffixes + 1) : 0;
    const char *rest = suffix ? end + 1 : end;
    if (isdigit((unsigned char)*text) && errno == 0 && parsed > 0 &&
        (!*rest || strcmp(rest, "iB") == 0 || strcmp(rest, "B") == 0) && parsed <= UINT64_MAX >> shift) {
        *value = (uint64_t)parsed << shift;
        return true;
    }
    say_usage("--%s %s: expected bytes, as 500000000, 512M or 8G", row->name, text);
    return false;
}

static bool parse_choice(const struct option_row *row, const char *text, int *value) {
    size_t length = strlen(text);
    int number = 0;
    for (const char *word = row->value; word; number++) {
        size_t bytes = strcspn(word, "|");
        if (bytes == length && memcmp(word, text, length) == 0) {
            *value = number;
            return true;
        }
        word = word[bytes] ? word + bytes + 1 : NULL;
    }
    say_usage("--%s %s: expected one of %s", row->name, text, row->value);
    return false;
}

static bool library_word(const struct option_row *row, enum vic_status status) {
    if (status != VIC_OK) say_usage("--%s: %s", row->name, vic_last_error());
    return status == VIC_OK;
}

static bool option_store(const struct option_row *row, const char *text, void *args) {
    void *field = (char *)args + row->offset;
    switch (row->kind) {
    case OPTION_FLAG: *(int *)field = 1; return true;
    case OPTION_TEXT: *(const char **)field = text; return true;
    case OPTION_INT: return parse_int(row, text, field);
    case OPTION_REAL: return parse_real(row, text, field);
    case OPTION_BYTES: return parse_bytes(row, text, field);
    case OPTION_CHOICE: return parse_choice(row, text, field);
    case OPTION_METRIC: return library_word(row, vic_metric_parse(text, field));
    case OPTION_DTYPE: return library_word(row, vic_dtype_parse(text, field));
    }
    return false;
}

/* ---- near misses */

/* Optimal string alignment: a swap of neighbours counts one, as a wrong, a missing and a needless letter do. */
static size_t word_distance(const char *a, const char *b) {
    enum { MOST = 24 };
    size_t table[MOST + 1][MOST + 1], la = strlen(a), lb = strlen(b);
    if (la > MOST || lb > MOST) return SIZE_MAX;
    for (size_t i = 0; i <= la; i++)
        for (size_t j = 0; j <= lb; j++) {
            if (i == 0 || j == 0) {
                table[i][j] = i + j;
                continue;
            }
            size_t best = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            size_t gap = (table[i - 1][j] < table[i][j - 1] ? table[i - 1][j] : table[i][j - 1]) + 1;
            if (gap < best) best = gap;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && table[i - 2][j - 2] + 1 < best)
                best = table[i - 2][j - 2] + 1;
            table[i][j] = best;
        }
    return table[la][lb];
}

const char *nearest_word(const char *word, const char *const *words, size_t count) {
    const char *nearest = NULL;
    size_t best = strlen(word) < 4 ? 2 : 3; /* what counts as close is below this */
    for (size_t i = 0; i < count; i++) {
        size_t distance = word_distance(word, words[i]);
        if (distance < best) best = distance, nearest = words[i];
    }
    return nearest;
}

static int say_unknown(const struct option_set *set, const char *word, int code) {
    if (code >= FIRST_LONG) return say_usage("option --%s takes no value", set->rows[code - FIRST_LONG]->name);
    if (code) return say_usage("unknown option -%c", code);
    const char *names[ROWS_MOST];
    for (int i = 0; i < set->count; i++) names[i] = set->rows[i]->name;
    char bare[32];
    (void)snprintf(bare, sizeof bare, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    const char *nearest = nearest_word(bare, names, (size_t)set->count);
    if (nearest) return say_usage("unknown option --%s; did you mean --%s?", bare, nearest);
    return say_usage("unknown option --%s", bare);
}

/* ---- parsing */

static int count_words(const char *text) {
    int words = 0;
    for (const char *at = text; at && *at; at++) words += *at != ' ' && (at == text || at[-1] == ' ');
    return words;
}

/* The tables in getopt_long's form: an option's code is FIRST_LONG and its place in the set. */
static void options_for_getopt(const struct option_set *set, struct option *longs, char *shorts) {
    *shorts++ = ':';
    *shorts++ = 'h';
    for (int i = 0; i < set->count; i++) {
        const struct option_row *row = set->rows[i];
        longs[i] = (struct option){row->name, row->kind == OPTION_FLAG ? no_argument : required_argument, NULL, FIRST_LONG + i};
        if (!row->letter) continue;
        *shorts++ = row->letter;
        if (row->kind != OPTION_FLAG) *shorts++ = ':';
    }
    longs[set->count] = (struct option){"help", no_argument, NULL, HELP};
    longs[set->count + 1] = (struct option){0};
    *shorts = 0;
}

static int option_index(const struct option_set *set, int code) {
    if (code >= FIRST_LONG) return code - FIRST_LONG;
    for (int i = 0; i < set->count; i++)
        if (set->rows[i]->letter == code) return i;
    return -1;
}

static int options_complete(const struct command *command, const struct option_set *set, char *const *words, int operands) {
    for (int i = 0; i < set->count; i++)
        if (set->rows[i]->need && !set->seen[i])
            return say_usage("--%s %s is needed: %s", set->rows[i]->name, set->rows[i]->value, set->rows[i]->help);
    int wanted = count_words(command->operands);
    if (operands == wanted || (operands == 0 && *command->operands == '[')) return DONE;
    if (operands > wanted)
        return say_usage("expected %s alone, found also %s", wanted ? command->operands : "options", words[wanted]);
    return say_usage("expected %s, found only %d of %d", command->operands, operands, wanted);
}

int args_parse(const struct command *command, int argc, char **argv, void *args, char ***operands) {
    struct option_set set;
    struct option longs[ROWS_MOST + 2];
    char shorts[2 * ROWS_MOST + 3];
    options_gather(command, &set);
    options_for_getopt(&set, longs, shorts);
    memcpy(args, command->defaults, command->args_bytes);
    opterr = 0;
    optind = 0; /* glibc: start afresh */
    for (int code; (code = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        if (code == 'h' || code == HELP) {
            args_help(command);
            return -1;
        }
        if (code == '?') return say_unknown(&set, argv[optind - 1], optopt);
        int i = option_index(&set, code == ':' ? optopt : code);
        if (code == ':') return say_usage("option --%s needs a value: %s", set.rows[i]->name, set.rows[i]->value);
        if (!option_store(set.rows[i], optarg, args)) return USAGE;
        set.seen[i] = true;
    }
    *operands = argv + optind;
    return options_complete(command, &set, *operands, argc - optind);
}

/* ---- help */

/* Words from column `column` on; lines of at most 80 columns, the further ones indented. */
static void words_show(const char *text, int column, int indent) {
    for (int at = column; *text;) {
        int bytes = (int)strcspn(text, " ");
        if (at > indent && at + 1 + bytes > 80) at = printf("\n%*s", indent, "") - 1;
        at += printf("%s%.*s", at > indent ? " " : "", bytes, text);
        text += bytes;
        text += *text == ' ';
    }
    (void)putchar('\n');
}

static void option_show(const struct option_row *row) {
    enum { COLUMN = 26 };
    char letter[4] = {'-', row->letter, ',', 0}, whole[160];
    int at =
        printf("  %3s --%s%s%s", row->letter ? letter : "", row->name, row->value ? " " : "", row->value ? row->value : "");
    if (at >= COLUMN) at = printf("\n") - 1;
    at += printf("%*s", COLUMN - at, "");
    (void)snprintf(whole, sizeof whole, "%s%s", row->help, row->need ? " (needed)" : "");
    words_show(whole, at, COLUMN);
}

void args_help(const struct command *command) {
    struct option_set set;
    options_gather(command, &set);
    printf("vicinal %s: %s\n\nusage: vicinal %s%s%s%s\n\n", command->name, command->line, command->name,
           *command->operands ? " " : "", command->operands, set.count ? " [options]" : "");
    words_show(command->about, 0, 0);
    if (set.count) printf("\noptions:\n");
    for (int i = 0; i < set.count; i++) option_show(set.rows[i]);
    printf("\nexample:\n");
    for (const char *line = command->example; *line;) {
        size_t bytes = strcspn(line, "\n");
        printf("  %.*s\n", (int)bytes, line);
        line += bytes + (line[bytes] == '\n');
    }
}

/* ---- what every subcommand that computes needs */

int32_t planes_from(const struct common_args *args) {
    static const int32_t choices[] = {0, VIC_PLANES_NONE, VIC_PLANES_8, VIC_PLANES_4, VIC_PLANES_8 | VIC_PLANES_4};
    return choices[args->planes];
}

bool device_from(const struct common_args *args, struct vic_device **device) {
    struct vic_device_options options = {
        .size = sizeof options, .name = args->device, .threads = (int32_t)args->threads, .host_bytes = args->budget};
    bool opened = vic_device_open(&options, device) == VIC_OK;
    if (!opened) say_library();
    return opened;
}
