/* What a subcommand is: a row of words, options and one function. main.c has the table of them, args.c turns a command
 * line into the subcommand's own struct, so that no subcommand parses anything itself.
 *
 * The surprising rule: every subcommand's argument struct begins with struct common_args, because the options that several
 * subcommands share are written once, in args.c, and find their place there.
 * Exit codes: 0 done, 1 failed (one sentence on stderr), 2 the command line was wrong. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <vicinal.h>

#include <stdbool.h>
#include <stddef.h>

enum { DONE = 0, FAILED = 1, USAGE = 2 };

enum option_kind {
    OPTION_FLAG,   /* int, set to 1 */
    OPTION_TEXT,   /* const char * */
    OPTION_INT,    /* int64_t, low to high */
    OPTION_REAL,   /* double */
    OPTION_BYTES,  /* uint64_t, with K, M, G, T for powers of 1024 */
    OPTION_METRIC, /* enum vic_metric */
    OPTION_DTYPE,  /* enum vic_dtype */
    OPTION_CHOICE  /* int, the number (from 0) of the word in `value` */
};

enum option_need { OPTIONAL, NEEDED };

struct option_row {
    const char *name; /* --name */
    char letter;      /* -k; 0: none */
    enum option_kind kind;
    const char *value; /* what help shows for the value; OPTION_CHOICE: the words, "auto|scan|select" */
    int64_t low, high; /* OPTION_INT */
    size_t offset;     /* of the field in the argument struct */
    enum option_need need;
    const char *help;
};

/* Shared options: a subcommand names the ones it takes in struct command's `common`. */
enum common_bit {
    COMMON_DEVICE = 1,
    COMMON_THREADS = 2,
    COMMON_BUDGET = 4,
    COMMON_METRIC = 8,
    COMMON_TYPE = 16,
    COMMON_K = 32,
    COMMON_READ = 64, /* --read-type, --dataset */
    COMMON_JSON = 128,
    COMMON_PLANES = 256,
    COMMON_RUNS = COMMON_DEVICE | COMMON_THREADS | COMMON_BUDGET /* whatever opens a device */
};

struct common_args {
    const char *device, *dataset;
    int64_t threads, k;
    uint64_t budget;
    enum vic_metric metric;
    enum vic_dtype type, read_type;
    int json, planes; /* planes: the option's choice, for planes_from */
};

struct command {
    const char *name;
    const char *line;                 /* what it does, in a few words */
    const char *operands;             /* "INDEX QUERIES": all of them are needed; "[QUERIES TRUTH]": all or none */
    const char *about;                /* a paragraph for --help */
    const char *example;              /* lines that run as they are, one after the other through all subcommands */
    const struct option_row *options; /* its own ones, ended by a NULL name; NULL: none, its struct is common_args */
    const void *defaults;             /* a filled argument struct */
    size_t args_bytes;                /* at most ARGS_BYTES */
    unsigned common;                  /* of enum common_bit */
    int (*run)(const void *args, char *const *operands);
};

enum { ARGS_BYTES = 512 };

extern const struct command build_command, search_command, truth_command, eval_command, info_command, check_command,
    convert_command, gen_command, bench_command, devices_command;

/* Fills args (args_bytes of it) and *operands (the operands, in order). DONE: run it; USAGE: it was wrong and has been
 * said; -1: help was asked for and has been printed. */
int args_parse(const struct command *command, int argc, char **argv, void *args, char ***operands);
void args_help(const struct command *command);
/* The word of words[0..count) that was probably meant, or NULL when none is close. */
const char *nearest_word(const char *word, const char *const *words, size_t count);

/* One sentence on stderr, "vicinal build: ..." */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
/* The same for a command line that makes no sense; returns USAGE. */
__attribute__((format(printf, 1, 2))) int say_usage(const char *format, ...);
/* Says the library's last sentence. */
void say_library(void);
/* Whose name the sentences begin with. */
void say_as(const char *name);

/* For a call of the library in a function with a `done:` label. */
#define TRY(call)                                                                                                              \
    do {                                                                                                                       \
        if ((call) != VIC_OK) {                                                                                                \
            say_library();                                                                                                     \
            goto done;                                                                                                         \
        }                                                                                                                      \
    } while (0)

/* --planes as the library takes it. */
int32_t planes_from(const struct common_args *args);
/* The device that the shared options ask for; on failure says why. */
bool device_from(const struct common_args *args, struct vic_device **device);

#endif
