/* SPDX-License-Identifier: MIT */
/* Which rank runs on which host, from --hosts, --hostfile and -n. */
#ifndef PROGRAMS_HOSTS_H
#define PROGRAMS_HOSTS_H

#include "programs/options.h"

enum { MAX_RANKS = 65536, MAX_LOCAL_RANKS = 4096, MAX_HOSTS = 16384 };

struct hosts {
    char **names; /* each once, in the order of first mention */
    int count;
    int *host_of; /* of each rank */
    int nranks;
};

/* "a:2,b,[fe80::1]:4"; ends the program on bad input. nranks 0: as many as the
 * list has room for. Ranks fill the entries in their order. */
struct hosts hosts_from_list(const struct program *, const char *list,
                             int nranks);

/* The same, one entry a line: "a", "a:2" or "a slots=2"; # starts a comment. */
struct hosts hosts_from_file(const struct program *, const char *path,
                             int nranks);

/* All ranks on this host, whose name is "localhost". */
struct hosts hosts_local(int nranks);

void hosts_free(struct hosts *);

#endif
