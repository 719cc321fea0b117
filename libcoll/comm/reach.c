/* SPDX-License-Identifier: MIT */
#include "comm/reach.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"

static const double patience_seconds = 3;

/* What a host found; travels. */
struct found {
    double bytes_per_second;
    int64_t error;
};

/* The first rank of this host speaks for it; -1 if there is no other host. */
static int next_host(const coll_comm *c)
{
    int first = 0;
    while (c->host_of[first] != c->host_of[c->rank])
        first++;
    if (first != c->rank)
        return -1;
    for (int i = 1; i < c->nranks; i++) {
        const int r = (c->rank + i) % c->nranks;
        if (c->host_of[r] == c->host_of[c->rank])
            continue;
        first = 0;
        while (c->host_of[first] != c->host_of[r])
            first++;
        return first;
    }
    return -1;
}

static coll_status unreached(const coll_comm *c, int from, int to,
                             const struct bootstrap_door *door, int64_t error)
{
    char address[INET6_ADDRSTRLEN] = "?";
    inet_ntop((int)door->at.family, door->at.bytes, address, sizeof(address));
    return fail(COLL_ERR_PEER, "comm",
                "rank %d (host %s) does not reach rank %d (host %s) at %s: %s; "
                "COLL_INTERFACE names another interface",
                from, c->ranks[from].hostname, to, c->ranks[to].hostname,
                address, strerror((int)error));
}

coll_status comm_reach(coll_comm *c)
{
    const char *named = setting_text(SETTING_INTERFACE);
    const char *interface = *named ? named : c->interface;
    struct bootstrap_door mine = {.port = 0},
                          *doors = calloc((size_t)c->nranks, sizeof(mine));
    struct found found = {0}, *all = calloc((size_t)c->nranks, sizeof(found));
    coll_status status = doors && all
                             ? COLL_OK
                             : fail(COLL_ERR_MEMORY, "comm",
                                    "no memory for %d ranks", c->nranks);
    const int next = next_host(c);
    const int fd =
        next >= 0 && *interface ? bootstrap_open_door(interface, &mine) : -1;
    if (status == COLL_OK)
        status = bootstrap_allgather(c->bootstrap, &mine, doors, sizeof(mine));
    if (status == COLL_OK && next >= 0 && doors[next].port)
        found.error = bootstrap_knock(fd, &doors[next], patience_seconds,
                                      &found.bytes_per_second);
    if (status == COLL_OK)
        status = bootstrap_allgather(c->bootstrap, &found, all, sizeof(found));
    for (int r = 0; r < c->nranks && status == COLL_OK; r++) {
        const double rate = all[r].bytes_per_second;
        if (rate > 0 && (c->job.slowest == 0 || rate < c->job.slowest))
            c->job.slowest = rate;
        if (all[r].error) {
            /* Whose next host that was only it knows. */
            status = r == c->rank
                         ? unreached(c, r, next, &doors[next], all[r].error)
                         : fail(COLL_ERR_PEER, "comm",
                                "rank %d (host %s) does not reach the next "
                                "host: %s; COLL_INTERFACE names another "
                                "interface",
                                r, c->ranks[r].hostname,
                                strerror((int)all[r].error));
        }
    }
    bootstrap_close_door(fd);
    free(doors);
    free(all);
    return status;
}
