/* SPDX-License-Identifier: MIT */
/* What messages between this rank and another cost. Both call the same
 * functions; where it matters how many messages follow, the lower rank says so
 * to the other. All fail as messages do.
 */
#ifndef COMM_PAIR_H
#define COMM_PAIR_H

#include "comm/comm.h"
#include "comm/nearby.h"
#include "comm/probe.h"

enum { PAIR_MESSAGES = 16, PAIR_BUFFER_BYTES = 4 << 20 };

/* A round trip that is longer forbids many of them. */
static const double pair_far_seconds = 0.002;

struct pair_meter {
    coll_comm *comm;
    char *buf;            /* PAIR_BUFFER_BYTES */
    double begun, budget; /* seconds: since when all rates together take this */
    double share;         /* of a pair's; the same on all ranks */
    double beta;          /* what was found last, where to start; 0: nothing */
    bool settled;         /* whether that would be found again */
    bool sure; /* one long message more: the shorter of two that agree counts */
    struct probe_cost *cost;
};

/* A word to up to PAIR_MESSAGES peers at once and theirs to this rank: that
 * makes the connections. */
coll_status pair_greet(struct pair_meter *, const int *peers, int n);

/* alpha and overhead. Both ends agree on their sum, what a message takes in
 * all, and so on whether it is far. */
coll_status pair_find_latency(struct pair_meter *, int peer,
                              struct nearby_pair *);

/* beta, of a pair whose latency was found; 0: there was no time for it. must:
 * whatever has been spent. The lower rank says first whether it is to be found.
 * Both agree on whether it has settled: two long messages in a row took as
 * long, or the pair is far. */
coll_status pair_find_rate(struct pair_meter *, int peer, bool must,
                           struct nearby_pair *);

/* The same of a pair that both ends know to be far, without a word before. */
coll_status pair_find_far_rate(struct pair_meter *, int peer,
                               struct nearby_pair *);

/* Seconds per byte by the distance at which messages of one train of n come in,
 * which says nothing of how long they were under way. The first half opens
 * windows and empties token buckets. far: a window may still open after that,
 * so the longest of the distances does not count. */
coll_status pair_run_train(struct pair_meter *, int peer, int n, size_t bytes,
                           bool far, double *beta);

/* How long the messages of a train of PAIR_MESSAGES are to be. */
size_t pair_train_bytes(double beta);

#endif
