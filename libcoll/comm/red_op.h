/* SPDX-License-Identifier: MIT */
/* How a call reduces: operators, a communicator's own too, and how much their
 * results may depend on the algorithm. */
#ifndef COMM_RED_OP_H
#define COMM_RED_OP_H

#include "comm/comm.h"

/* What coll_red_op_create() and _pre_mul_sum() keep. */
struct red_op {
    struct combine combine[OP_NDTYPES]; /* of a function; by dtype */
    bool commutative;
    coll_dtype dtype; /* of the number below, and of what it multiplies */
    unsigned char scalar[8];
};

struct reduction {
    const struct combine *combine;
    const struct red_op *scaled; /* the input is first multiplied; or NULL */
    enum algo_order in_order;    /* what the result asks for */
    bool flat;                   /* ways of node/ are to use no groups */
};

/* What a result asks for of an operator that is not the caller's own. */
enum algo_order red_op_order(const coll_comm *, coll_dtype);

/* what: the call's name, for sentences. Fails with INVALID, UNSUPPORTED. */
coll_status red_op_find(const coll_comm *, const char *what, coll_dtype,
                        coll_op, struct reduction *);

/* Multiplies the input of a request that starts now, which is elsewhere until
 * the request is over. Fails with MEMORY. */
coll_status red_op_scale(coll_request *);

void red_op_free_all(coll_comm *);

#endif
