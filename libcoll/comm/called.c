/* SPDX-License-Identifier: MIT */
#include "comm/called.h"

#include <stdio.h>

#include "op/handle.h"

/* Of a communicator's own operators, also which. */
static const char *op_text(unsigned byte, char own[24])
{
    if (!(byte & OP_IS_OWN))
        return coll_op_name((coll_op)byte);
    snprintf(own, 24, "%s %d",
             op_is_scaled((coll_op)byte) ? "pre_mul_sum" : "user",
             op_handle_index((coll_op)byte));
    return own;
}

const char *called_name(int kind)
{
    static const char *const others[] = {"coll_comm_split()",
                                         "coll_comm_dup()",
                                         "coll_comm_grow()",
                                         "coll_comm_share()",
                                         "coll_comm_destroy()",
                                         "send",
                                         "receive"};
    return kind < 0            ? NULL
           : kind < NKINDS     ? kind_names[kind]
           : kind < CALLED_END ? others[kind - NKINDS]
                               : NULL;
}

const char *called_text(const struct called *c, char text[CALLED_TEXT])
{
    struct called *from = (struct called *)c; /* C17 loads from no const */
    const uint64_t what =
        atomic_load_explicit(&from->what, memory_order_acquire);
    const uint64_t count =
        atomic_load_explicit(&from->count, memory_order_acquire);
    const int kind = called_kind(what);
    const char *name = called_name(kind);
    const char *dtype = coll_dtype_name((coll_dtype)called_dtype(what));
    char own[24];
    const char *op = op_text((unsigned)called_op(what), own);
    int n = snprintf(text, CALLED_TEXT, "%s%s", name ? name : "nothing",
                     name && what & CALLED_UNEVEN ? "_v" : "");
    if (!name || kind >= NKINDS || kind == BARRIER)
        return text;
    n += snprintf(text + n, CALLED_TEXT - (size_t)n, " of %llu %s",
                  (unsigned long long)count, dtype ? dtype : "?");
    if (kind_reduces((enum coll_kind)kind))
        n += snprintf(text + n, CALLED_TEXT - (size_t)n, ", %s", op ? op : "?");
    if (what & CALLED_UNEVEN && (kind == ALLGATHER || kind == REDUCE_SCATTER))
        snprintf(text + n, CALLED_TEXT - (size_t)n, ", lengths #%08x",
                 called_root(what));
    else if (kind == ALLREDUCE && called_root(what))
        snprintf(text + n, CALLED_TEXT - (size_t)n, ", grouped lengths #%08x",
                 called_root(what));
    else if (kind_has_root((enum coll_kind)kind))
        snprintf(text + n, CALLED_TEXT - (size_t)n, ", root %u",
                 called_root(what));
    return text;
}
