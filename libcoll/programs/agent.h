/* SPDX-License-Identifier: MIT */
/* The part of collrun that runs on each host: it is told over a link what to
 * run (see link.h), starts its ranks, carries their output and their ends
 * back, and kills them all when the link closes. Local jobs have one too, as
 * a child without ssh, so that there is one way to start a rank. */
#ifndef PROGRAMS_AGENT_H
#define PROGRAMS_AGENT_H

/* Serves the link with these two descriptors, which it takes, until all ranks
 * have ended and nothing of them is left. Returns the exit status. */
int agent_serve(int in, int out);

#endif
