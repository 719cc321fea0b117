/* SPDX-License-Identifier: MIT */
/* Starting and ending the agent of a host: here as a child, elsewhere through
 * ssh or what --rsh names. */
#ifndef PROGRAMS_REMOTE_H
#define PROGRAMS_REMOTE_H

#include <stdbool.h>
#include <sys/types.h>

#include "programs/link.h"

struct remote {
    const char *rsh;     /* words, separated by spaces */
    const char *collrun; /* path on the remote hosts */
};

/* "localhost" needs no ssh. */
bool remote_is_local(const char *host);

/* The name under which other hosts reach that one. */
void remote_address(const char *host, bool only_host, char *text, size_t size);

/* Starts an agent and opens the link to it. Returns its pid (that of ssh for a
 * remote one), or -1 with errno. */
pid_t remote_start(const struct remote *, const char *host, struct link *);

/* Waits up to `ms` for its end; kills it then. Returns its wait status. */
int remote_wait(pid_t, int ms);

/* For `collrun --agent`: serves stdin and stdout; returns the exit status. */
int remote_serve_stdio(void);

#endif
