/* SPDX-License-Identifier: MIT */
/* What the files of the simulator share; nobody else includes it. */
#ifndef TRANSPORT_SIM_INSIDE_H
#define TRANSPORT_SIM_INSIDE_H

#include "transport/agenda.h"
#include "transport/sim.h"

enum { FREE = -1 };

/* Two ranks, of which one sends to the other; made at their first message. */
struct pair {
    int from, to;
    int level;  /* at which they are in different groups */
    int moving; /* messages that have begun and not left, the first of which */
    int last;   /* moves: a list from the one to the other; or FREE */
    struct transfer *waiting,
        *last_waiting; /* posted, without a partner: all */
    bool sends;        /* are sends, or receives */
    int next;          /* of the same slot of the table; or FREE */
};

/* All pairs that have exchanged something, by the numbers of their ranks. */
struct pairs {
    struct pair *all;
    int n, capacity;
    int *slot; /* nslots, a power of two: the first pair of each, or FREE */
    unsigned nslots;
};

/* The number of a pair in all[], or FREE if there is none yet. */
int pairs_find(const struct pairs *, int from, int to);
/* Adds one; its number, or FREE: no memory. Others may move. */
int pairs_add(struct pairs *, int from, int to, int level);
void pairs_free(struct pairs *);

struct rank {
    struct transport base; /* first: a transport pointer is a rank pointer */
    struct sim *sim;
    int me;
    double clock;
    int processor; /* of its machine, on which it ran last */
    bool over;
    struct sim_traffic traffic;
};

/* A message whose sides have both posted it. */
struct message {
    int pair; /* FREE: a free place */
    int next; /* of its pair's, or of free places; or FREE */
    bool moves;
    struct transfer *tx, *rx;
};

struct processor {
    double free_at;
    int looks; /* the rank that until then looks in vain, or FREE */
};

struct sim {
    struct sim_net net;
    int nranks;
    struct rank *ranks;
    struct pairs pairs;
    struct message *messages;
    int nmessages, capacity, free_message;
    struct agenda agenda; /* messages that begin or arrive */
    struct flows *flows;  /* a way for each pair, with its number */
    int nresources, first_rank_port, first_link[SIM_LEVELS],
        first_machine;            /* resources */
    struct processor *processors; /* of each machine */
    double *busy; /* per machine: seconds of its processors, all together */
    double now, rated; /* rated: when rates were last found */
    unsigned random;
    coll_status status; /* COLL_ERR_MEMORY once a message had none */
};

static inline const struct sim_link *link_at(const struct sim_net *net,
                                             int level)
{
    return level < net->nlevels ? &net->level[level].link : &net->link;
}

/* Numbers the resources; returns how many. */
int sim_number_resources(struct sim *);

#endif
