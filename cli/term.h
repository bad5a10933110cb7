/* The terminal: colour, width, progress, Ctrl-C, and how numbers are written for people. */
#ifndef CLI_TERM_H
#define CLI_TERM_H

#include <vicinal.h>

#include <stdbool.h>
#include <stdio.h>

/* The order of the words of --color. */
enum color_choice { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };
enum ink { INK_PLAIN, INK_TITLE, INK_NUMBER, INK_STRONG, INK_FAINT, INK_GOOD, INK_BAD };

/* AUTO: when stdout is a terminal, NO_COLOR is not set and TERM is not "dumb". */
void color_choose(enum color_choice choice);
/* The escape sequence that switches to an ink, or "" without colour. Static. */
const char *ink(enum ink which);
/* Columns of stdout's terminal; 0 when stdout is none and COLUMNS is not set either. */
int term_width(void);
/* Writes text in at most `columns` columns (0: all of it), cut with an ellipsis. Control characters, which could drive
 * the terminal, and bytes that are not UTF-8 are shown as '?'; with strong_head the part before the first ": " stands
 * out. */
void text_show(FILE *out, const char *text, size_t bytes, int columns, bool strong_head);
/* Bytes of the UTF-8 character that text begins with, at most `left`; 0 when it is none. *code gets the character. */
int utf8_take(const char *text, size_t left, unsigned *code);

/* For people: "10,000", "7.3 MiB", "85 us". Eight buffers in turn, so a printf may have several; the main thread only. */
const char *show_count(int64_t count);
const char *show_bytes(uint64_t bytes);
const char *show_seconds(double seconds);

double seconds_now(void);

/* The first Ctrl-C (or SIGTERM) asks the work to stop, the second one kills. */
void interrupt_catch(void);
bool interrupted(void);
/* Whether somebody watches: stderr is a terminal. */
bool progress_wanted(void);
/* A callback for the library: shows stage, share, rate and time left where stderr is a terminal, and stops on Ctrl-C. */
struct vic_progress progress_hook(void);
/* The same for loops of our own: false when it is time to stop, and that has been said. `began` from
 * seconds_now(); stage NULL shows nothing. */
bool progress_tick(const char *stage, int64_t done, int64_t total, double began);
/* Removes the line that progress left. */
void progress_clear(void);

#endif
