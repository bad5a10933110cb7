/* Terminal: see term.h.
 *
 * What a file holds is never sent to a terminal as it is: an escape sequence inside a text could retitle the window or
 * worse, so control characters are shown as '?'. */
#include "command.h"
#include "term.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static bool colored;
static bool line_shown; /* a progress line is on stderr */
static const char *command_name = "";
static volatile sig_atomic_t stop_asked;

/* ---- sentences */

void say_as(const char *name) { command_name = name; }

static void say_list(const char *format, va_list list) {
    progress_clear();
    (void)fflush(stdout);
    (void)fprintf(stderr, "vicinal%s%s: ", *command_name ? " " : "", command_name);
    (void)vfprintf(stderr, format, list);
}

void say(const char *format, ...) {
    va_list list;
    va_start(list, format);
    say_list(format, list);
    va_end(list);
    (void)fputc('\n', stderr);
}

int say_usage(const char *format, ...) {
    va_list list;
    va_start(list, format);
    say_list(format, list);
    va_end(list);
    (void)fprintf(stderr, "\nsee: vicinal%s%s --help\n", *command_name ? " " : "", command_name);
    return USAGE;
}

void say_library(void) {
    if (interrupted())
        say("stopped before the end; no file was written");
    else
        say("%s", vic_last_error());
}

/* ---- colour and text */

void color_choose(enum color_choice choice) {
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    bool can = isatty(STDOUT_FILENO) && !(none && *none) && term && strcmp(term, "dumb") != 0;
    colored = choice == COLOR_ALWAYS || (choice == COLOR_AUTO && can);
}

const char *ink(enum ink which) {
    static const char *const codes[] = {"\033[0m", "\033[1;36m", "\033[33m", "\033[1m", "\033[2m", "\033[32m", "\033[31m"};
    return colored ? codes[which] : "";
}

int term_width(void) {
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    const char *columns = getenv("COLUMNS");
    int given = columns ? atoi(columns) : 0;
    if (given > 0) return given;
    return isatty(STDOUT_FILENO) ? 80 : 0;
}

int utf8_take(const char *text, size_t left, unsigned *code) {
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    if (left == 0) return 0;
    int bytes = at[0] < 0x80 ? 1 : at[0] < 0xc0 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf8 ? 4 : 0;
    if (bytes == 0 || (size_t)bytes > left) return 0;
    unsigned value = bytes == 1 ? at[0] : at[0] & (0x7fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        if ((at[i] & 0xc0u) != 0x80u) return 0;
        value = value << 6 | (at[i] & 0x3fu);
    }
    if (value < least[bytes] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return 0;
    *code = value;
    return bytes;
}

/* Scripts whose characters take two columns, roughly; locale tables would say nothing in the C locale. */
static int columns_of(unsigned code) {
    static const unsigned wide[][2] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf},   {0xac00, 0xd7a3}, {0xf900, 0xfaff},
                                       {0xfe30, 0xfe6f}, {0x1f300, 0x1faff}, {0xff00, 0xff60}, {0x20000, 0x3fffd}};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (code >= wide[i][0] && code <= wide[i][1]) return 2;
    return 1;
}

/* One character at a time: its bytes, or "?" for what must not reach a terminal. */
static int character_take(const char *text, size_t left, const char **shown, int *shown_bytes, int *columns) {
    unsigned code = 0;
    int bytes = utf8_take(text, left, &code);
    bool safe = bytes > 0 && code >= 0x20 && !(code >= 0x7f && code < 0xa0);
    *shown = safe ? text : "?";
    *shown_bytes = safe ? bytes : 1;
    *columns = safe ? columns_of(code) : 1;
    return bytes > 0 ? bytes : 1;
}

/* How many bytes of text fit into `columns`. */
static size_t text_fit(const char *text, size_t bytes, int columns, int *used) {
    size_t at = 0;
    for (*used = 0; at < bytes;) {
        const char *shown;
        int shown_bytes, width, taken = character_take(text + at, bytes - at, &shown, &shown_bytes, &width);
        if (*used + width > columns) break;
        *used += width;
        at += (size_t)taken;
    }
    return at;
}

void text_show(FILE *out, const char *text, size_t bytes, int columns, bool strong_head) {
    int used = 0;
    size_t fit = columns > 0 ? text_fit(text, bytes, columns, &used) : bytes;
    bool cut = fit < bytes;
    if (cut) fit = text_fit(text, bytes, columns - 1, &used);
    const char *colon = strong_head ? memmem(text, bytes, ": ", 2) : NULL;
    size_t strong = colon ? (size_t)(colon - text) : 0;
    if (strong) (void)fputs(ink(INK_STRONG), out);
    for (size_t at = 0; at < fit;) {
        const char *shown;
        int shown_bytes, width, taken = character_take(text + at, bytes - at, &shown, &shown_bytes, &width);
        (void)fwrite(shown, 1, (size_t)shown_bytes, out);
        at += (size_t)taken;
        if (at == strong) (void)fputs(ink(INK_PLAIN), out);
    }
    if (strong > fit) (void)fputs(ink(INK_PLAIN), out);
    if (cut && columns > 0) (void)fputs("…", out);
}

/* ---- numbers */

static char *show_buffer(void) {
    static char buffers[8][32];
    static unsigned next;
    return buffers[next++ % 8];
}

const char *show_count(int64_t count) {
    char digits[24], *shown = show_buffer();
    int length = snprintf(digits, sizeof digits, "%lld", (long long)count), at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-') shown[at++] = ',';
        shown[at++] = digits[i];
    }
    shown[at] = 0;
    return shown;
}

const char *show_bytes(uint64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    char *shown = show_buffer();
    double value = (double)bytes / 1024;
    int unit = 0;
    while (value >= 1024 && unit < 5) value /= 1024, unit++;
    if (bytes < 1024)
        (void)snprintf(shown, 32, "%d B", (int)bytes);
    else
        (void)snprintf(shown, 32, "%.*f %s", value < 100 ? 1 : 0, value, units[unit]);
    return shown;
}

const char *show_seconds(double seconds) {
    static const struct {
        double below, scale;
        const char *format;
    } forms[] = {{1e-5, 1e6, "%.1f us"}, {1e-3, 1e6, "%.0f us"}, {1, 1e3, "%.1f ms"}, {100, 1, "%.1f s"}};
    char *shown = show_buffer();
    int whole = seconds < 1e9 ? (int)seconds : 0;
    (void)snprintf(shown, 32, "%d min %02d s", whole / 60, whole % 60);
    for (size_t i = sizeof forms / sizeof *forms; i-- > 0;)
        if (seconds < forms[i].below) (void)snprintf(shown, 32, forms[i].format, seconds * forms[i].scale);
    return shown;
}

double seconds_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- Ctrl-C and progress */

static void interrupt_note(int signal_number) {
    (void)signal_number;
    stop_asked = 1;
}

void interrupt_catch(void) {
    const struct sigaction note = {.sa_handler = interrupt_note, .sa_flags = (int)SA_RESETHAND};
    const int signals[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        struct sigaction before;
        /* a signal that whoever started us ignores stays ignored */
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) (void)sigaction(signals[i], &note, NULL);
    }
}

bool interrupted(void) { return stop_asked != 0; }

bool progress_wanted(void) { return isatty(STDERR_FILENO); }

void progress_clear(void) {
    if (line_shown) (void)fputs("\r\033[K", stderr);
    line_shown = false;
}

static void progress_line(const char *stage, int64_t done, int64_t total, double seconds) {
    double rate = seconds > 0 ? (double)done / seconds : 0;
    (void)fprintf(stderr, "\r\033[K%s", stage);
    if (total > 0) (void)fprintf(stderr, "  %3.0f %%", 100.0 * (double)done / (double)total);
    if (rate > 0) (void)fprintf(stderr, "  %s/s", show_count((int64_t)rate));
    if (rate > 0 && total > done) (void)fprintf(stderr, "  %s left", show_seconds((double)(total - done) / rate));
    (void)fflush(stderr);
    line_shown = true;
    if (total > 0 && done >= total) progress_clear();
}

static int progress_report(void *user, const struct vic_progress_state *state) {
    (void)user;
    if (progress_wanted()) progress_line(state->stage, state->done, state->total, state->seconds);
    return interrupted();
}

struct vic_progress progress_hook(void) {
    return (struct vic_progress){.report = progress_report};
}

bool progress_tick(const char *stage, int64_t done, int64_t total, double began) {
    static double shown;
    double now = seconds_now();
    if (stage && progress_wanted() && (now - shown > 0.1 || done >= total)) {
        progress_line(stage, done, total, now - began);
        shown = now;
    }
    if (interrupted()) say("stopped before the end; no file was written");
    return !interrupted();
}
