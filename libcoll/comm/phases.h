/* SPDX-License-Identifier: MIT */
/* What measuring at start costs this rank, phase by phase. */
#ifndef COMM_PHASES_H
#define COMM_PHASES_H

#include <stddef.h>

/* In this order; each may come several times. */
enum probe_phase {
    PHASE_GREET,   /* connections are made */
    PHASE_LATENCY, /* short messages of pairs */
    PHASE_RATE,    /* long ones */
    PHASE_INSIDE,  /* both, inside the hosts */
    PHASE_GATHER,  /* all tell all, and wait for the last */
    PHASE_TRAIN,   /* whether groups share a link */
    PHASE_CROWD,   /* rounds of all */
    PHASES
};

struct probe_part {
    double seconds;
    unsigned waits; /* for messages of others, one after another */
    size_t bytes;   /* sent */
};

/* What this rank sent to find out, and how often all told all. */
struct probe_cost {
    unsigned messages, gathers;
    size_t bytes;
    struct probe_part parts[PHASES];
    enum probe_phase phase;
    double since; /* on comm_clock(), when that began; 0: none has */
};

/* The phase before ends, this one begins; PHASES: none does. */
void phases_begin(struct probe_cost *, enum probe_phase);

/* So many messages of so many bytes each, in the present phase. */
void phases_sent(struct probe_cost *, unsigned messages, size_t bytes);

/* So many waits more, in the present phase. */
void phases_waited(struct probe_cost *, unsigned times);

/* Tells the log at level debug: of each phase that came milliseconds, waits
 * and KiB sent. */
void phases_tell(const struct probe_cost *);

#endif
