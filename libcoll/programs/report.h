/* SPDX-License-Identifier: MIT */
/* What became of each rank, and how collrun tells it. */
#ifndef PROGRAMS_REPORT_H
#define PROGRAMS_REPORT_H

#include <stdbool.h>
#include <sys/types.h>

#include "programs/hosts.h"

enum rank_state { RANK_WAITING, RANK_RUNNING, RANK_EXITED, RANK_LOST };

struct rank_result {
    enum rank_state state;
    pid_t pid;
    int status;       /* as of waitpid(), if exited */
    int order;        /* of all ends, from 1 */
    bool ended_by_us; /* killed by a signal that collrun had sent before */
    bool told;        /* another rank's failure was the reason of its own */
};

bool rank_failed(const struct rank_result *);

/* Says on stderr which rank failed first and how, then the others with a reason
 * of their own, then which were told of a failure, and which collrun ended.
 * Nothing if all went well. `name` begins each line; the signals are 0 or what
 * ended collrun, and what it only handed on. */
void report(const char *name, const struct hosts *,
            const struct rank_result *ranks, int interrupted_by, int passed_on);

/* The status of the rank that failed first, of those that had a reason of their
 * own if any had: 128 + signal, 1 for a lost one; else 0. */
int report_status(const struct rank_result *ranks, int nranks);

#endif
