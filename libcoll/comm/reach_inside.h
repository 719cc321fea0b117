/* SPDX-License-Identifier: MIT */
/* What reach.c (offers, networks and rails) and knock.c (doors of hosts, what
 * they tell) know of the search for rails. */
#ifndef COMM_REACH_INSIDE_H
#define COMM_REACH_INSIDE_H

#include "comm/comm.h"
#include "comm/ways.h"

enum { CANDIDATES = 8 /* networks that a host offers, the first one's too */ };

/* What a rank offers; travels. */
struct offers {
    uint64_t network[CANDIDATES]; /* place in a list; else a hash; 0: no more */
    struct bootstrap_door door[CANDIDATES];
    double round_trip; /* to the hub */
    uint64_t one_rail; /* whether UCX may go other ways than rails */
};

/* What a host found; travels. */
struct found {
    double bytes_per_second; /* 0: unknown; -1: this rank does not speak */
    int64_t error;
    struct ways_seen seen;
};

struct search {
    coll_comm *comm;
    int next; /* the first rank of the next host; -1: this one does not speak */
    bool named;    /* rank 0's user has said which */
    bool one_rail; /* of some rank */
    bool visits;   /* all doors are asked for round trips */
    int noffers;
    char name[CANDIDATES][sizeof(((struct transport_rail *)0)->interface)];
    int fd[CANDIDATES];
    struct offers mine, *all;
    struct found *found;
    double longest; /* round trip to the hub */
    int nhosts;
    int *host, *first; /* of a rank; the lowest rank of a host */
};

/* The first rank of the host that comes after a rank's, of all in a ring. The
 * first rank of a host speaks for it; -1 for others, and if there is no other
 * host. */
int reach_next_host(const struct search *s, int rank);

/* Which offer of a rank is of the network of rank 0's k-th; -1: none. The first
 * of all are of the network by which they met, and of no other one. */
int reach_offer_of(const struct search *s, int rank, int k);

/* Of that one. */
const struct bootstrap_door *reach_door_of(const struct search *s, int rank,
                                           int k);

/* Whether it takes milliseconds to the farthest host. */
bool reach_is_far(const struct search *s);

/* Once all have told their offers: this host knocks at the next one's door, and
 * at all that it is to visit. */
void knock_at_doors(const struct search *s, int k, struct found *found);

/* Before: hosts that are far find the way to one another. */
void knock_wave(const struct search *s);

/* From what all found to the communicator's `ways`: all, or none. */
coll_status knock_find_ways(struct search *s);

#endif
