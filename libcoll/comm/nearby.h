/* SPDX-License-Identifier: MIT */
/* From what pairs of hosts measured to groups of hosts that are near.
 *
 * Noise only makes messages slower, so a fast pair is believed and a slow one
 * is not: hosts are in one group if fast pairs lead from one to the other
 * (single linkage). Pairs that found no rate join what nothing else tells
 * apart. Pure: equal tables give equal groups, on all ranks.
 */
#ifndef COMM_NEARBY_H
#define COMM_NEARBY_H

#include <stdbool.h>

#include "transport/sim.h"

enum { NEARBY_MAX_ROUNDS = 15 };

/* What a host found with its partner, figures of LogGP; travels. 0: not
 * measured. */
struct nearby_pair {
    float alpha, overhead, beta;
};

struct nearby_table {
    int nhosts, nrounds;
    struct nearby_pair *pairs; /* [nhosts][nrounds] */
    float *scratch;            /* as many */
};

/* How many rounds so many hosts need to meet, at most NEARBY_MAX_ROUNDS; for up
 * to 16 hosts these are enough for each to meet every other. */
int nearby_rounds(int nhosts);

/* Whom a host meets in a round: itself xor 1, 2, 4, ..., then the other
 * numbers; with few rounds powers of two reach farthest. -1: nobody. */
int nearby_partner(int nhosts, int host, int round);

/* Fills group_of[host] and returns how many groups there are. floor: seconds
 * per byte; less tells of processors, not of links. *certain: limits that
 * are less or more by 1.4 give the same groups, and so do rates without
 * latencies, no host is alone among groups, and every group hangs together by
 * rates; if not, another measurement is worth its time. */
int nearby_find(const struct nearby_table *, float floor, int *group_of,
                bool *certain);

/* The middle of the figures of all pairs in one group, or across. */
struct sim_link nearby_link(const struct nearby_table *, const int *group_of,
                            bool across);

/* The least that one short message took within a group, or across; 0: none was
 * timed. */
double nearby_soonest(const struct nearby_table *, const int *group_of,
                      bool across);

/* Of two measurements of a pair the less of each figure, as noise only adds.
 * But where the first took milliseconds for what the second took much less for,
 * it was no message that took them, and none of its figures counts. */
void nearby_keep_better(struct nearby_pair *, const struct nearby_pair *again);

#endif
