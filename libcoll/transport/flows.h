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

/* A flow of so many bytes, from now on; its number, or -1: no memory. It gets
 * its rate at the next flows_settle(). With no uses it ends at once. */
int flows_add(struct flows *, const struct flow_use *, int nuses, double bytes,
              double now);

/* Takes a flow away before or after its end; its number may come again. */
void flows_remove(struct flows *, int flow);

/* Rates anew, where flows came or went. False: no memory. */
bool flows_settle(struct flows *, double now);

/* When the next flow ends; a settled one. False: there is none. */
bool flows_next(const struct flows *, double *at, int *flow);

#endif
