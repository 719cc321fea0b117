/* SPDX-License-Identifier: MIT */
/* The ends of one transport in one thread, for what transports promise.
 *
 * What goes wrong here fails the claim, by cr_assert. */
#ifndef TESTS_FABRIC_H
#define TESTS_FABRIC_H

#include <stdbool.h>
#include <stddef.h>

#include "letters.h"
#include "transport/sim.h"

enum { MAX_ENDS = 8 };

struct fabric { /* all ends of one job */
    const struct transport_ops *ops;
    int per_host; /* ranks of each host */
    int n, lanes;
    struct sim *sim;
    uint64_t hosts[MAX_ENDS];
    struct transport_job jobs[MAX_ENDS];
    struct transport *ends[MAX_ENDS];
};

/* False, with nothing left open, if the ends do not reach one another. */
bool fabric_open(struct fabric *, const struct transport_ops *, int per_host,
                 int n);
bool fabric_open_lanes(struct fabric *, const struct transport_ops *,
                       int per_host, int n, int lanes);
void fabric_close(struct fabric *);

/* Of ends that are open; whether each reaches all others. */
bool fabric_connect(struct fabric *);

/* Whether any end moved anything. */
bool fabric_progress(struct fabric *);

/* Until none of the letters is on its way; false if that takes too long. */
bool drive(struct fabric *, struct letter *const *letters, size_t n);

/* Drives, checks and frees. */
void deliver(struct fabric *, struct letter **letters, size_t n);

/* One message. The receive is posted before the send or after it. */
void exchange(struct fabric *, int from, int to, size_t bytes, bool late);

/* Runs a claim over all rows and arrangements. */
void everywhere(int n, void (*claim)(struct fabric *));

/* Over UCX between hosts, with lanes. */
void over_lanes(int n, void (*claim)(struct fabric *));

#endif
