/* SPDX-License-Identifier: MIT */
/* How well a net does on a data set, with the images split over the ranks. */
#ifndef TRAINER_EVALUATE_H
#define TRAINER_EVALUATE_H

#include "data/dataset.h"
#include "dist/strategy.h"
#include "net/net.h"

struct score {
    double loss, accuracy; /* means over all images */
};

/* -1 and one line in error if the images do not fit the net's input. */
int net_fits(const struct net *, const struct dataset *, char *error,
             size_t error_bytes);

/* The first image of a rank's share, which ends where the next one's begins. */
size_t evaluate_first(const struct dataset *, int rank, int nranks);

/* Every rank of the strategy's communicator calls this and gets the same score.
 * rows, if not NULL, gets a row for each image of this rank's share: its label,
 * then the log probability of each class of the net. An image that cannot be
 * read is COLL_ERR_SYSTEM on its rank, with one line in error, which other
 * failures leave as it is; the others wait until that rank gives up. */
coll_status evaluate(struct net *, const struct dataset *, struct strategy *,
                     float *rows, struct score *, char *error,
                     size_t error_bytes);

#endif
