/* SPDX-License-Identifier: MIT */
/* What a net thinks of each image of a data set, as a CSV file:
 *
 *     image,label,0,1,...          the classes of the net
 *     0,1,0.0125,0.9875,...        and their probabilities
 */
#ifndef TRAINER_PREDICT_H
#define TRAINER_PREDICT_H

#include "evaluate.h"

/* Room for the rows that evaluate() fills on this rank; the caller frees.
 * NULL: no memory. */
float *predict_rows(const struct net *, const struct dataset *, coll_comm *);

/* Every rank calls this with its rows; rank 0 writes the file, images in order.
 * On failure sets error: of the file, or what the library said. */
coll_status predict_write(const char *path, const struct net *,
                          const struct dataset *, const float *rows,
                          coll_comm *, char *error, size_t error_bytes);

#endif
