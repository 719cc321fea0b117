/* SPDX-License-Identifier: MIT */
/* How a long vector is moved, learned from what it took.
 *
 * Which of a few ways is fastest depends on which caches the ranks share, and
 * nothing that a machine says of itself tells: a store into a line that another
 * core has may cost as much as a load or ten times that. So the first rank of a
 * host learns what operations took their slowest rank, by kind and size, tries
 * each way a time or two, and says in its entry, which all ranks read, which
 * way it is to be. All ways that are possible form the same sums in the
 * same order, so results do not depend on it.
 */
#ifndef NODE_MODES_H
#define NODE_MODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"

/* On vectors within reach: */
enum {
    MODE_WHOLE = 1,  /* each rank makes all of its own result; else each makes
                        its slice of all results */
    MODE_STREAM = 2, /* results are stored past the caches */
    MODE_NEAR = 4,   /* alone: by groups, see near.c */
};
/* On others: */
enum {
    MODE_STAGE = 0,        /* block by block through the segment */
    MODE_STAGE_STREAM = 1, /* whose lines are stored past the caches */
    MODE_READ = 2,         /* each makes all of its own result */
    MODE_READ_WRITE = 3,   /* each its slice of all */
};
enum { NMODES = 5, MODE_SIZES = 48, MODE_SAMPLES = 4 };

/* Of operations of one kind and about one size. */
struct mode_record {
    float ticks[NMODES];     /* what each took, see modes.c */
    uint8_t samples[NMODES]; /* of that, up to MODE_SAMPLES; 0: unknown */
    uint8_t looks[NMODES];   /* how often it was looked at, up to two */
    uint8_t look, left;      /* 1 + the mode that was last, and for how many
                                operations more it is */
    uint8_t best, ran;       /* 1 + the best, and the one heard of last */
    uint16_t passed, pause;  /* operations since the last look, and from one to
                                the next */
};

struct modes {
    struct mode_record record[NKINDS][2][MODE_SIZES]; /* [][foreign][] */
    uint64_t started;
};

/* Which mode the next operation is to try. likely: the first to be tried. may:
 * bit m, whether mode m is possible. */
int modes_choose(struct modes *, enum coll_kind, bool foreign, size_t bytes,
                 int likely, unsigned may);
/* One took so long, in a unit that is always the same. */
void modes_learn(struct modes *, enum coll_kind, bool foreign, size_t bytes,
                 int mode, float ticks);
/* By a clock that starts here, */
void modes_start(struct modes *);
/* and is read here. */
float modes_ticks(const struct modes *);

#endif
