/* SPDX-License-Identifier: MIT */
/* Starting one rank: a process group of its own, bound to its core, that dies
 * with the process that started it. */
#ifndef PROGRAMS_LAUNCH_H
#define PROGRAMS_LAUNCH_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct launch {
    char *const *argv;
    char *const *env; /* NAME=VALUE on top of this process's own; NULL ends */
    const char *cwd;
    const cpu_set_t *cpus;       /* NULL: not bound */
    bool wants_input;            /* else stdin is /dev/null */
    bool direct_out, direct_err; /* inherit, else a pipe */
};

struct process {
    pid_t pid;        /* also its process group */
    int in, out, err; /* our ends, non-blocking, or -1 */
};

/* Returns once the program runs. Else false and a sentence in error. */
bool launch(const struct launch *, struct process *, char *error, size_t size);

/* Back to the state that a program expects: signals not blocked, none that
 * collrun ignores still ignored. For a child before it executes. */
void launch_reset_signals(void);

#endif
