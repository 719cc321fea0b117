/* SPDX-License-Identifier: MIT */
#include "comm/copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static coll_status copy_learned(struct select *s, const struct select *from)
{
    struct select_class *const *class = &from->class[0][0][0],
                               **copy = &s->class[0][0][0];
    for (size_t i = 0; i < sizeof(s->class) / sizeof(*copy); i++) {
        if (!class[i])
            continue;
        copy[i] = malloc(sizeof(*copy[i]));
        if (!copy[i])
            return fail(COLL_ERR_MEMORY, "comm", "no memory for classes");
        *copy[i] = *class[i];
    }
    return COLL_OK;
}

coll_status copy_rails(coll_comm *c)
{
    memcpy(c->rails, c->parent->rails, sizeof(c->rails));
    c->job.rails = c->rails;
    c->job.nrails = c->parent->job.nrails;
    return COLL_OK;
}

coll_status copy_layout(coll_comm *c)
{
    const int by_hosts = c->layout.by_hosts;
    const coll_status status = layout_copy(&c->layout, &c->parent->layout);
    c->layout.by_hosts = by_hosts;
    return status;
}

/* What was measured is not for who may not measure, nor what was not for
 * others.
 */
bool copy_serves(const coll_comm *c)
{
    return c->parent && c->calibrates == c->parent->calibrates;
}

bool copy_fits(const coll_comm *c)
{
    return copy_serves(c) && c->nranks == c->parent->nranks
           && c->determinism == c->parent->determinism
           && c->layout.by_hosts == c->parent->layout.by_hosts
           && layout_digest(&c->layout) == layout_digest(&c->parent->layout);
}

coll_status copy_prices(coll_comm *c)
{
    c->select.prices = c->parent->select.prices;
    return strcmp(c->rules, c->parent->rules)
               ? COLL_OK
               : copy_learned(&c->select, &c->parent->select);
}
