/* SPDX-License-Identifier: MIT */
/* What the library would choose on a world.
 *
 * Up to CHOICE_RANKS ranks that is what a communicator of such a job chooses
 * before it has learned anything: from the same prices, which it makes at
 * start. Beyond, where its prices would take minutes, it is the fastest of the
 * library's candidates. */
#ifndef PROGRAMS_SIM_CHOICE_H
#define PROGRAMS_SIM_CHOICE_H

#include "comm/select.h"
#include "programs/sim_trials.h"

enum { CHOICE_RANKS = PRICE_RANKS };

struct choices {
    const struct world *world;
    enum algo_order asked; /* of sums: ANY_ORDER, or IN_PAIRS */
    struct select select; /* priced, if that is told below */
    bool priced;
    double seconds; /* of a processor, that pricing took */
};

/* MEMORY. */
coll_status choices_open(struct choices *, const struct world *,
                         enum algo_order asked);
void choices_close(struct choices *);

/* Which algorithm, order and segments serve so many bytes. False: that has to
 * be tried out. */
bool choices_get(struct choices *, enum coll_kind, size_t bytes,
                 struct trial *);

/* Whether the library would consider this. */
bool choices_considers(const struct world *, const struct algo *,
                       enum layout_order);

/* Runs what choices_get() says, or tries out all that the library considers,
 * except what is larger than max_messages. sizes ascend. fastest[i] is for
 * sizes[i]; its state tells whether there is any. */
coll_status choices_run(struct choices *, enum coll_kind, const size_t *sizes,
                        int nsizes, const struct trials_limits *,
                        struct trial *fastest);

#endif
