/* The program: a table of subcommands and what is common to all of them - help, signals, the end of standard output.
 *
 * A new subcommand is one file that defines a struct command, and one row here. */
#include "command.h"
#include "output.h"
#include "term.h"

#include <errno.h>
#include <signal.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = {&build_command, &search_command, &truth_command,   &eval_command,
                                                 &info_command,  &check_command,  &convert_command, &gen_command,
                                                 &bench_command, &devices_command};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void help_show(FILE *out) {
    (void)fprintf(out,
                  "vicinal %s: exact nearest neighbours of vectors, with their texts\n\n"
                  "usage: vicinal COMMAND ...\n\n",
                  vic_version());
    for (size_t i = 0; i < COMMANDS; i++)
        (void)fprintf(out, "  %-8s %-16s %s\n", commands[i]->name, commands[i]->operands, commands[i]->line);
    (void)fprintf(out, "\nvicinal COMMAND --help explains one and has an example. To begin:\n"
                       "  vicinal gen gauss rows.fbin --n 10000 --dim 64\n"
                       "  vicinal build rows.fbin -o rows.vic\n"
                       "  vicinal search rows.vic rows.fbin -k 3 | head -n 2\n");
}

static const struct command *command_find(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++) names[i] = commands[i]->name;
    const char *nearest = nearest_word(name, names, COMMANDS);
    if (nearest)
        (void)say_usage("unknown command '%s'; did you mean '%s'?", name, nearest);
    else
        (void)say_usage("unknown command '%s'", name);
    return NULL;
}

/* What was printed must have arrived: a full disk behind '>' is a failure like any other. A reader that closed the pipe
 * has its reasons, so that one is not spoken of. */
static int output_finish(int code) {
    int error = output_error();
    if (error == 0) return code;
    if (error != EPIPE) say("standard output could not be written: %s", strerror(error));
    return FAILED;
}

static int command_run(const struct command *command, int argc, char **argv) {
    alignas(max_align_t) char args[ARGS_BYTES];
    char **operands = NULL;
    say_as(command->name);
    int code = args_parse(command, argc, argv, args, &operands);
    if (code < 0) return DONE;
    return code == DONE ? command->run(args, operands) : code;
}

static int word_run(int argc, char **argv) {
    const char *word = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        help_show(stderr);
        return USAGE;
    }
    if (strcmp(word, "--version") == 0) return printf("vicinal %s\n", vic_version()), DONE;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || (strcmp(word, "help") == 0 && argc < 3))
        return help_show(stdout), DONE;
    bool help = strcmp(word, "help") == 0;
    const struct command *command = command_find(help ? argv[2] : word);
    if (!command) return USAGE;
    if (help) return args_help(command), DONE;
    return command_run(command, argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe is seen as EPIPE, and nothing is left half-written */
    interrupt_catch();
    return output_finish(word_run(argc, argv));
}
