/* SPDX-License-Identifier: MIT */
/* Who knocks at whose doors when hosts try a network, when, and what that tells
 * of ways between hosts that are far. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "comm/pair.h"
#include "comm/reach_inside.h"

/* For one that the job needs, and for one that may be none: a first packet that
 * was lost is sent again after a second. */
static const double patience_seconds = 3, try_seconds = 1.5;

int reach_next_host(const struct search *s, int rank)
{
    const int own = s->host[rank];
    return s->first[own] == rank && s->nhosts > 1
               ? s->first[(own + 1) % s->nhosts]
               : -1;
}

int reach_offer_of(const struct search *s, int rank, int k)
{
    if (k == 0)
        return 0;
    for (int i = 1; i < CANDIDATES; i++)
        if (s->all[rank].network[i] == s->all[0].network[k])
            return i;
    return -1;
}

const struct bootstrap_door *reach_door_of(const struct search *s, int rank,
                                           int k)
{
    const int i = reach_offer_of(s, rank, k);
    return &s->all[rank].door[i < 0 ? 0 : i];
}

/* Whether this host and the next one have the same address there. */
static bool is_same(const struct search *s, int k)
{
    const struct bootstrap_door *own = reach_door_of(s, s->comm->rank, k);
    const struct bootstrap_door *next = reach_door_of(s, s->next, k);
    return own->port && !memcmp(&own->at, &next->at, sizeof(own->at));
}

bool reach_is_far(const struct search *s)
{
    return s->longest > pair_far_seconds;
}

/* Doors of those that this host meets in the rounds of probe.c. */
static void choose_visits(const struct search *s, int k, int *round,
                          struct bootstrap_knock *knock)
{
    const int me = s->host[s->comm->rank];
    for (int i = 0; i < nearby_rounds(s->nhosts); i++) {
        const int other = nearby_partner(s->nhosts, me, i);
        if (other < 0)
            continue;
        round[knock->nvisited] = i;
        knock->visited[knock->nvisited++] =
            *reach_door_of(s, s->first[other], k);
    }
}

/* Hosts hear from the hub sooner or later, and are to begin at the same time:
 * what one sends would delay the answers that others wait for. */
static void await_the_farthest(const struct search *s)
{
    const double seconds = (s->longest - s->mine.round_trip) / 2;
    if (reach_is_far(s) && seconds > 0)
        nanosleep(&(struct timespec){.tv_sec = (time_t)seconds,
                                     .tv_nsec = (long)(1e9 * fmod(seconds, 1))},
                  NULL);
}

/* A bridge that each host has for itself has the same address on all; so have
 * containers that share all of a host's network. */
void knock_at_doors(const struct search *s, int k, struct found *found)
{
    const int mine = reach_offer_of(s, s->comm->rank, k);
    int round[NEARBY_MAX_ROUNDS];
    struct bootstrap_knock knock = {
        .next = *reach_door_of(s, s->next, k),
        .far = reach_is_far(s),
    };
    if (!knock.next.port) {
        found->error = k == 0 ? 0 : EHOSTUNREACH;
        return;
    }
    if (is_same(s, k) && !is_same(s, 0)) {
        found->error = EADDRINUSE;
        return;
    }
    if (s->visits)
        choose_visits(s, k, round, &knock);
    await_the_farthest(s);
    found->error =
        bootstrap_knock(s->fd[mine < 0 ? 0 : mine], &knock,
                        k == 0 || s->named ? patience_seconds : try_seconds);
    found->bytes_per_second = knock.bytes_per_second;
    found->seen.seconds_per_byte = (float)knock.seconds_per_byte;
    for (int i = 0; i < knock.nvisited; i++)
        found->seen.round_trip[round[i]] = (float)knock.round_trip[i];
}

coll_status knock_find_ways(struct search *s)
{
    const size_t n = (size_t)s->nhosts;
    struct ways_seen *seen = calloc(n, sizeof(*seen));
    int *next = calloc(n, sizeof(*next));
    struct nearby_pair *ways =
        calloc(n * (size_t)nearby_rounds(s->nhosts), sizeof(*ways));
    const coll_status status =
        seen && next && ways
            ? COLL_OK
            : fail(COLL_ERR_MEMORY, "comm", "no memory for %zu hosts", n);
    for (int h = 0; h < s->nhosts && status == COLL_OK; h++) {
        seen[h] = s->found[s->first[h]].seen;
        next[h] = s->host[reach_next_host(s, s->first[h])];
    }
    if (status == COLL_OK
        && ways_find(s->nhosts, seen, next, (float)pair_far_seconds, ways)) {
        s->comm->ways = ways;
        ways = NULL;
    }
    free(ways);
    free(next);
    free(seen);
    return status;
}

/* By the time that all have told what they offer, who has what address on the
 * wire is known too; round trips would have that in them. Ranks beside the hub
 * have seen all others, and these them. */
void knock_wave(const struct search *s)
{
    const coll_comm *c = s->comm;
    if (s->next < 0 || s->mine.round_trip <= pair_far_seconds)
        return;
    for (int i = 0; i < nearby_rounds(s->nhosts); i++) {
        const int other = nearby_partner(s->nhosts, s->host[c->rank], i);
        if (other >= 0)
            bootstrap_wave(&c->ranks[s->first[other]].own);
    }
}
