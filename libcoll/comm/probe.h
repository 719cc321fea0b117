/* SPDX-License-Identifier: MIT */
/* What messages between the hosts of a job cost, measured when it starts, and
 * which hosts are near one another.
 *
 * One rank of each host takes part. It greets all that it will meet, which
 * makes the connections, and asks all at once whether they are far (sound.h;
 * where ranks outnumber processors not of more than 3), unless that was known
 * before (reach.h): then such pairs, and if all are, all that follows is left
 * out.
 * Then in round k, host i meets host i xor k, all pairs at the same time, as a
 * collective would (pair.h): short messages in all rounds, then long ones in
 * all rounds. Then the first two ranks of each host do the same. All tell all,
 * and hosts whose messages are fast form groups (nearby.h); if those are not
 * certain, all meet once more, twice where ranks outnumber processors. If there
 * are several, one pair of hosts of different groups sends a train of messages
 * alone, which tells a link that the hosts of a group share from slow ports:
 * in the rounds several pairs met, slower if they share it. If they were no
 * slower, up to 8 such pairs send trains at once.
 *
 * Short messages take up to a millisecond a round, long ones 24 ms in all
 * rounds: they are as long as the rate of the round before allows, no pair
 * spends more than its share and one message, and once the time is spent they
 * are left out, but for the first round. Where a round trip takes more than
 * 2 ms it is all that is asked, two where ranks outnumber processors, and a
 * train of 256 KiB.
 */
#ifndef COMM_PROBE_H
#define COMM_PROBE_H

#include "comm/comm.h"
#include "comm/phases.h"

/* Figures of LogGP: a message of b bytes takes alpha + 2 overhead + beta b. */
struct probe_groups {
    int ngroups;            /* 1: all hosts are alike */
    int *group_of;          /* per host, in the order of their lowest ranks */
    struct sim_link inside; /* between hosts of one group */
    struct sim_link across;
    /* The least that a short message took; across, if there are groups. */
    double soonest;
    double shared; /* seconds per byte of a group's link; 0: not shared */
    struct sim_link local; /* between ranks of one host; beta 0: not measured */
    double seconds;        /* that it took */
    struct probe_cost cost;
};

/* All ranks call it and get the same. host: per rank, numbered from 0 by lowest
 * ranks. Fails with MEMORY, and as messages do. probe_free() afterwards. */
coll_status probe_hosts(coll_comm *, const int *host, int nhosts,
                        struct probe_groups *);
void probe_free(struct probe_groups *);

#endif
