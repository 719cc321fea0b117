/* SPDX-License-Identifier: MIT */
/* Sums of gradients over slow links, in fewer bytes: by a codec, or of the
 * largest numbers only.
 *
 *     rank's vector -> code of each share -> alltoall -> sum in f32, of a share
 *                   -> its code           -> allgather -> the sum
 *
 * So what travels is rounded twice, however many ranks there are. Of top-k the
 * pairs of all ranks are gathered and added up, rounded never.
 *
 * What codes have not (of int8 and top-k) is kept, and added in the next step
 * (Seide et al., Interspeech 2014; for both roundings DoubleSqueeze, Tang et
 * al., ICML 2019): what all ranks keep and all results together are what went
 * in, up to f32.
 *
 * Where each host has as many ranks, these first add up in f32, then ranks at
 * equal positions exchange codes of their part, then the host gathers them. */
#ifndef TRAINER_DIST_WIRE_H
#define TRAINER_DIST_WIRE_H

#include <stdbool.h>

#include "coll/coll.h"
#include "tensor.h"

enum wire_kind { WIRE_F32, WIRE_BF16, WIRE_INT8, WIRE_TOPK };
extern const char *const wire_names[4];

struct wire_settings {
    enum wire_kind kind; /* but WIRE_F32, which needs no wire */
    double top;          /* of WIRE_TOPK: percent of the numbers that travel */
    bool always;         /* also where a trial says that they cost time */
};

/* Seconds that one sum takes: by an allreduce, in codes. */
struct wire_trial {
    double f32, coded;
};

struct wire;

/* For sums of x, whole or in at most most_pieces pieces. lost: by the first
 * wire_send() zeros as long as x, of a kind that has wire_loses(), else it may
 * be empty; stays the caller's, as x does. All ranks of comm make the same
 * calls, in the same order. */
coll_status wire_open(struct wire **, struct wire_settings, coll_comm *comm,
                      struct arena *x, struct arena *lost, int most_pieces);
/* Before the communicator is destroyed, after it is aborted if it is to be. */
void wire_close(struct wire *);

bool wire_loses(enum wire_kind);
/* Several ranks a host: only the whole vector can be sent. */
bool wire_is_whole(const struct wire *);
/* How long the library's model thinks that the exchange of so many takes. */
double wire_seconds(const struct wire *, size_t count);
/* Tries both out between two steps, with numbers of its own: eight sums each,
 * in turn, of a long vector with its first 512 KiB. All ranks get what rank 0
 * measured. */
coll_status wire_try(struct wire *, struct wire_trial *);

/* Starts to sum x[first] to x[first + count - 1], which stay untouched until
 * wire_finish() has returned. */
coll_status wire_send(struct wire *, size_t first, size_t count);
/* Moves on what is under way; never blocks. */
coll_status wire_test(struct wire *);
/* Returns when all that was sent has been replaced by its sum; the same bits on
 * all ranks. */
coll_status wire_finish(struct wire *);

#endif
