/* The tracing parent: stops its child at the entry and the exit of each system call. */
#include "support/tracer.h"

#if defined(__linux__) && defined(__x86_64__)
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct call_name {
    long number;
    const char *name;
} file_calls[] = {
    {SYS_open, "open"},           {SYS_openat, "openat"},      {SYS_creat, "creat"},
    {SYS_close, "close"},         {SYS_read, "read"},          {SYS_pread64, "pread"},
    {SYS_write, "write"},         {SYS_pwrite64, "pwrite"},    {SYS_writev, "writev"},
    {SYS_pwritev, "pwritev"},     {SYS_truncate, "truncate"},  {SYS_ftruncate, "ftruncate"},
    {SYS_fallocate, "fallocate"}, {SYS_fsync, "fsync"},        {SYS_fdatasync, "fdatasync"},
    {SYS_syncfs, "syncfs"},       {SYS_rename, "rename"},      {SYS_renameat, "renameat"},
    {SYS_renameat2, "renameat"},  {SYS_link, "link"},          {SYS_linkat, "link"},
    {SYS_unlink, "unlink"},       {SYS_unlinkat, "unlink"},    {SYS_mkdir, "mkdir"},
    {SYS_chmod, "chmod"},         {SYS_fchmod, "fchmod"},      {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},         {SYS_stat, "stat"},          {SYS_fstat, "fstat"},
    {SYS_lstat, "lstat"},         {SYS_newfstatat, "fstatat"}, {SYS_readlink, "readlink"},
    {SYS_readlinkat, "readlink"}, {SYS_getcwd, "getcwd"},      {SYS_copy_file_range, "copy"},
    {SYS_sendfile, "sendfile"},   {SYS_statx, "statx"},        {SYS_dup, "dup"},
    {SYS_utimensat, "utimensat"},
};

static const char *file_call_name(long number) {
    for (size_t i = 0; i < sizeof file_calls / sizeof *file_calls; i++)
        if (file_calls[i].number == number) return file_calls[i].name;
    return NULL;
}

static _Noreturn void child_run(int (*work)(void *argument), void *argument) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(255);
    (void)raise(SIGSTOP);
    _exit(work(argument));
}

static bool counts(const struct tracer_plan *plan, const char *name) {
    if (plan->of_name) return name && strcmp(name, plan->of_name) == 0;
    return name || !plan->files_only;
}

/* At the entry of a call: counts it, and interferes when it is the one. True: the result must be replaced at the exit. */
static bool call_enter(const struct tracer_plan *plan, pid_t child, void *argument, struct tracer_seen *seen) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, child, NULL, &registers) != 0) return false;
    const char *name = file_call_name((long)registers.orig_rax);
    if (!counts(plan, name)) return false;
    seen->calls++;
    size_t used = strlen(seen->trail);
    if (name) (void)snprintf(seen->trail + used, sizeof seen->trail - used, "%s ", name);
    if (plan->action == TRACER_WATCH || (plan->at != 0 && seen->calls != plan->at)) return false;
    seen->hit = true;
    (void)snprintf(seen->name, sizeof seen->name, "%s", name ? name : "another call");
    if (plan->action == TRACER_KILL) (void)kill(child, SIGKILL); /* a stopped call is not made any more */
    if (plan->action == TRACER_MEET) plan->meet(argument);
    if (plan->action == TRACER_FAIL) registers.orig_rax = (unsigned long long)-1;
    if (plan->action == TRACER_SHORTEN && registers.rdx > 1) registers.rdx /= 2;
    if (plan->action != TRACER_KILL) (void)ptrace(PTRACE_SETREGS, child, NULL, &registers);
    return plan->action == TRACER_FAIL;
}

static void call_leave(pid_t child, int error) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, child, NULL, &registers) != 0) return;
    registers.rax = (unsigned long long)-(long long)error;
    (void)ptrace(PTRACE_SETREGS, child, NULL, &registers);
}

struct tracer_seen tracer_run(const struct tracer_plan *plan, int (*work)(void *argument), void *argument) {
    struct tracer_seen seen = {.exit_code = -1};
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) child_run(work, argument);
    int state = 0, deliver = 0;
    bool inside = false, replace = false, started = false;
    while (child > 0 && waitpid(child, &state, 0) == child && WIFSTOPPED(state)) {
        deliver = 0;
        if (!started) {
            (void)ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(uintptr_t)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
            started = true;
        } else if (WSTOPSIG(state) == (SIGTRAP | 0x80)) {
            if (!inside)
                replace = call_enter(plan, child, argument, &seen);
            else if (replace)
                call_leave(child, plan->error);
            inside = !inside;
        } else {
            deliver = WSTOPSIG(state);
        }
        (void)ptrace(PTRACE_SYSCALL, child, NULL, (void *)(uintptr_t)deliver);
    }
    seen.killed = WIFSIGNALED(state);
    if (WIFEXITED(state)) seen.exit_code = WEXITSTATUS(state);
    return seen;
}

static int nothing(void *argument) { return (void)argument, getppid() > 0 ? 7 : 8; }

bool tracer_available(void) {
    struct tracer_seen seen = tracer_run(&(struct tracer_plan){.action = TRACER_WATCH}, nothing, NULL);
    return seen.exit_code == 7 && seen.calls > 0;
}
#else
bool tracer_available(void) { return false; }
struct tracer_seen tracer_run(const struct tracer_plan *plan, int (*work)(void *argument), void *argument) {
    (void)plan, (void)work, (void)argument;
    return (struct tracer_seen){.exit_code = -1};
}
#endif
