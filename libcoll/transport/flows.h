/* SPDX-License-Identifier: MIT */
/* Messages that share ports and links, in virtual time.
 *
 * A flow uses resources, each with a weight in seconds per byte: alone it would
 * move 1 / weight bytes a second there. All flows of a resource together use at
 * most one second of it per second:  sum of rate * weight <= 1. Rates are
 * max-min fair: none can grow but at the cost of a slower one (Bertsekas and
 * Gallager, Data Networks, 1992, section 6.5.2), which is what TCP's and most
 * networks' flow control come near to.
 */
#ifndef TRANSPORT_FLOWS_H
#define TRANSPORT_FLOWS_H

#include <stdbool.h>
#include <stddef.h>

enum { FLOW_USES = 16 };

struct flow_use {
    int resource;
    double weight; /* seconds per byte, above 0 */
};

struct flows *flows_create(int nresources); /* NULL: no memory */
void flows_free(struct flows *);

/* A way on which bytes may flow, those of one flow at a time; its number, from
 * 0 on, or -1: no memory. */
int flows_add_way(struct flows *, const struct flow_use *, int nuses);

/* A flow of so many bytes, from now on, by a way that has none. It gets its
 * rate at the next flows_settle(). With no uses it ends at once. False: no
 * memory. */
bool flows_start(struct flows *, int way, double bytes, double now);

/* Takes a flow away before or after its end. */
void flows_stop(struct flows *, int way);

/* Rates anew, where flows came or went. False: no memory. */
bool flows_settle(struct flows *, double now);

/* When the next flow ends, and on which way; a settled one. False: there is
 * none. */
bool flows_next(struct flows *, double *at, int *way);

#endif
