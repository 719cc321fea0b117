/* SPDX-License-Identifier: MIT */
#include "programs/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child tells of the step that failed, through a pipe that a
 * successful exec closes. */
struct failure {
    enum { SET_UP, CHANGE_DIRECTORY, EXECUTE } step;
    int error;
};

void launch_reset_signals(void)
{
    sigset_t none;
    signal(SIGPIPE, SIG_DFL);
    signal(SIGTTIN, SIG_DFL);
    signal(SIGTTOU, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

__attribute__((noreturn)) static void give_up(int report, int step)
{
    const struct failure failure = {.step = step, .error = errno};
    const ssize_t wrote = write(report, &failure, sizeof(failure));
    _exit(wrote == sizeof(failure) ? 127 : 126);
}

__attribute__((noreturn)) static void become_rank(const struct launch *launch,
                                                  pid_t parent,
                                                  const int fds[3], int report)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before the prctl() */
        _exit(126);
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0 && dup2(fds[i], i) < 0)
            give_up(report, SET_UP);
    if (launch->cpus
        && sched_setaffinity(0, sizeof(*launch->cpus), launch->cpus))
        give_up(report, SET_UP);
    if (chdir(launch->cwd))
        give_up(report, CHANGE_DIRECTORY);
    for (char *const *e = launch->env; *e; e++)
        putenv(*e);
    launch_reset_signals();
    execvp(launch->argv[0], launch->argv);
    give_up(report, EXECUTE);
}

static void describe(const struct launch *launch, struct failure failure,
                     char *error, size_t size)
{
    if (failure.step == CHANGE_DIRECTORY)
        snprintf(error, size, "cannot enter the working directory %s: %s",
                 launch->cwd, strerror(failure.error));
    else if (failure.step == EXECUTE)
        snprintf(error, size, "cannot run \"%s\" (in %s): %s", launch->argv[0],
                 launch->cwd, strerror(failure.error));
    else
        snprintf(error, size, "cannot start a process: %s",
                 strerror(failure.error));
}

static void close_pipe(int pipe[2])
{
    for (int i = 0; i < 2; i++)
        if (pipe[i] >= 0)
            close(pipe[i]);
}

/* Waits until the child's end of `report` closes: by exec, or with a failure
 * written. */
static bool has_started(int report, struct failure *failure)
{
    ssize_t got;
    do
        got = read(report, failure, sizeof(*failure));
    while (got < 0 && errno == EINTR);
    return got == 0;
}

static int keep(int pipe[2], int end)
{
    const int fd = pipe[end];
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    pipe[end] = -1;
    return fd;
}

bool launch(const struct launch *launch, struct process *process, char *error,
            size_t size)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1},
        report[2] = {-1, -1};
    struct failure failure = {.step = SET_UP};
    bool started = false;
    pid_t pid = -1;
    if (launch->wants_input
            ? pipe2(in, O_CLOEXEC)
            : (in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
        goto out;
    if ((!launch->direct_out && pipe2(out, O_CLOEXEC))
        || (!launch->direct_err && pipe2(err, O_CLOEXEC))
        || pipe2(report, O_CLOEXEC))
        goto out;
    const pid_t parent = getpid();
    pid = fork();
    if (!pid)
        become_rank(launch, parent, (int[]){in[0], out[1], err[1]}, report[1]);
    if (pid < 0)
        goto out;
    setpgid(pid, pid); /* whoever comes first; a signal may follow at once */
    close(report[1]);
    report[1] = -1;
    started = has_started(report[0], &failure);
    if (!started)
        waitpid(pid, NULL, 0);
out:
    if (!started) {
        if (!failure.error)
            failure.error = errno;
        describe(launch, failure, error, size);
    } else {
        *process =
            (struct process){pid, keep(in, 1), keep(out, 0), keep(err, 0)};
    }
    close_pipe(in);
    close_pipe(out);
    close_pipe(err);
    close_pipe(report);
    return started;
}
