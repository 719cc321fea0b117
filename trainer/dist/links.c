/* SPDX-License-Identifier: MIT */
#include "dist/links.h"

#include <stdlib.h>

#include "crew.h"

int links_server(const struct links *l)
{
    return l->rank < l->nworkers ? -1 : l->rank - l->nworkers;
}

static int others(const struct links *l)
{
    return links_server(l) < 0 ? l->nservers : l->nworkers;
}

/* In round r worker i meets server k if i + k = r, modulo the number of rounds:
 * each rank is in one pair at a time, and each pair comes once. */
static coll_status make_pairs(struct links *l)
{
    const int nrounds = l->nworkers > l->nservers ? l->nworkers : l->nservers;
    const int server = links_server(l), mine = server < 0 ? l->rank : server;
    for (int r = 0; r < nrounds; r++) {
        const int other = (r - mine + nrounds) % nrounds;
        coll_comm *pair;
        const int worker = server < 0 ? mine : other;
        const coll_status status = coll_comm_split(
            l->comm, other < others(l) ? worker : COLL_SPLIT_NOCOLOR, l->rank,
            &pair, NULL);
        if (status)
            return status;
        if (pair)
            l->pairs[other] = pair;
    }
    return COLL_OK;
}

coll_status links_open(struct links *l, coll_comm *comm, int nservers,
                       size_t count, bool pairs)
{
    *l = (struct links){
        .comm = comm,
        .nworkers = coll_comm_count(comm) - nservers,
        .nservers = nservers,
        .rank = coll_comm_user_rank(comm),
        .count = count,
    };
    if (!pairs)
        return COLL_OK;
    l->pairs = calloc((size_t)others(l), sizeof(*l->pairs));
    const coll_status status = l->pairs ? make_pairs(l) : COLL_ERR_MEMORY;
    if (status)
        links_close(l);
    return status;
}

void links_close(struct links *l)
{
    for (int i = 0; l->pairs && i < others(l); i++)
        coll_comm_destroy(l->pairs[i]);
    free(l->pairs);
    *l = (struct links){0};
}

void links_abort(const struct links *l)
{
    for (int i = 0; l->pairs && i < others(l); i++)
        coll_comm_abort(l->pairs[i]);
}

void links_failed(const struct links *l)
{
    links_abort(l);
    if (l->pairs)
        coll_barrier(l->comm, NULL);
}

const char *links_error(const struct links *l)
{
    const bool whole = coll_comm_get_async_error(l->comm) < 0;
    for (int i = 0; !whole && l->pairs && i < others(l); i++)
        if (coll_comm_get_async_error(l->pairs[i]) < 0)
            return coll_last_error(l->pairs[i]);
    return coll_last_error(l->comm);
}

struct link links_to_server(const struct links *l, int server)
{
    return l->pairs ? (struct link){l->pairs[server], 1}
                    : (struct link){l->comm, l->nworkers + server};
}

struct link links_to_worker(const struct links *l, int worker)
{
    return l->pairs ? (struct link){l->pairs[worker], 0}
                    : (struct link){l->comm, worker};
}

size_t links_shard(const struct links *l, int server, size_t *first)
{
    return crew_floats(l->count, server, l->nservers, first);
}
