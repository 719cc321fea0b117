/* SPDX-License-Identifier: MIT */
#include "exec/cast.h"

#include <stdlib.h>

#include "exec/rehearse.h"

coll_status cast_make(struct cast *cast, const struct rehearsal *c)
{
    const int n = c->nranks;
    int *order = malloc((size_t)n * sizeof(*order));
    struct cast made = {calloc((size_t)n, sizeof(*made.plans)), n};
    coll_status status = order && made.plans ? COLL_OK : COLL_ERR_MEMORY;
    for (int i = 0; i < n && order; i++)
        order[i] = c->order ? c->order[i] : (i + c->root) % n;
    for (int i = 0; i < n && status == COLL_OK; i++) {
        struct plan *p = &made.plans[order[i]];
        c->plan(p,
                &(struct plan_shape){i, n, c->segments, c->tree, c->root_at});
        status = p->status;
        if (status == COLL_OK)
            plan_renumber(p, order);
    }
    free(order);
    if (status == COLL_OK)
        *cast = made;
    else
        cast_free(&made);
    return status;
}

void cast_free(struct cast *cast)
{
    for (int r = 0; cast->plans && r < cast->nranks; r++)
        plan_free(&cast->plans[r]);
    free(cast->plans);
    *cast = (struct cast){0};
}

size_t cast_bytes(const struct cast *cast)
{
    size_t bytes = 0;
    for (int r = 0; r < cast->nranks; r++)
        bytes += sizeof(struct plan)
                 + (size_t)cast->plans[r].capacity * sizeof(struct step);
    return bytes;
}
