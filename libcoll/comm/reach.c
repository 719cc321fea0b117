/* SPDX-License-Identifier: MIT */
#include "comm/reach.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"

static const double patience_seconds = 3;

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
                             const struct bootstrap_door *door, int error)
{
    char address[INET6_ADDRSTRLEN] = "?";
    inet_ntop((int)door->at.family, door->at.bytes, address, sizeof(address));
    return fail(COLL_ERR_PEER, "comm",
                "rank %d (host %s) does not reach rank %d (host %s) at %s: %s; "
                "COLL_INTERFACE names another interface",
                from, c->ranks[from].hostname, to, c->ranks[to].hostname,
                address, strerror(error));
}

coll_status comm_reach(coll_comm *c)
{
    const char *named = setting_text(SETTING_INTERFACE);
    const char *interface = *named ? named : c->interface;
    struct bootstrap_door mine = {.port = 0},
                          *doors = calloc((size_t)c->nranks, sizeof(mine));
    int32_t error = 0, *errors = calloc((size_t)c->nranks, sizeof(error));
    coll_status status = doors && errors
                             ? COLL_OK
                             : fail(COLL_ERR_MEMORY, "comm",
                                    "no memory for %d ranks", c->nranks);
    const int next = next_host(c);
    const int fd =
        next >= 0 && *interface ? bootstrap_open_door(interface, &mine) : -1;
    if (status == COLL_OK)
        status = bootstrap_allgather(c->bootstrap, &mine, doors, sizeof(mine));
    if (status == COLL_OK && next >= 0 && doors[next].port)
        error = bootstrap_knock(&doors[next], patience_seconds);
    if (status == COLL_OK)
        status =
            bootstrap_allgather(c->bootstrap, &error, errors, sizeof(error));
    for (int r = 0; r < c->nranks && status == COLL_OK; r++)
        if (errors[r]) {
            /* Whose next host that was only it knows. */
            status = r == c->rank
                         ? unreached(c, r, next, &doors[next], errors[r])
                         : fail(COLL_ERR_PEER, "comm",
                                "rank %d (host %s) does not reach the next "
                                "host: %s; COLL_INTERFACE names another "
                                "interface",
                                r, c->ranks[r].hostname, strerror(errors[r]));
        }
    bootstrap_close_door(fd);
    free(doors);
    free(errors);
    return status;
}
