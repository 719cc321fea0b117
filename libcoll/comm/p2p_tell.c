/* SPDX-License-Identifier: MIT */
/* What a wait that was too long has waited for. */
#include "comm/p2p.h"

#include <stdio.h>

#include "comm/request.h"

/* The older of two receives. */
static const coll_request *older(const coll_request *a, const coll_request *b)
{
    return !a || (b && b->p2p.order < a->p2p.order) ? b : a;
}

/* The oldest receive, else some send, else what moves. */
static const coll_request *waiting(const coll_comm *c)
{
    const struct p2p *p = c->p2p;
    const coll_request *receive = p->any.first, *send = NULL;
    for (int i = 0; i < c->nranks; i++) {
        receive = older(receive, p->peers[i].receives.first);
        if (!send)
            send = p->peers[i].sends.first;
    }
    return receive ? receive : send ? send : p->flying.first;
}

static const char *number(char text[32], const char *what, int x)
{
    if (x < 0)
        snprintf(text, 32, "any %s", what);
    else
        snprintf(text, 32, "%s %d", what, x);
    return text;
}

void p2p_tell_waiting(const coll_comm *c, char *text, size_t bytes)
{
    char rank[32], tag[32];
    const coll_request *r = c->p2p ? waiting(c) : NULL;
    text[0] = '\0';
    if (!r)
        return;
    const bool receives = r->p2p.way == P2P_RECEIVE;
    snprintf(text, bytes, "; %s of %s%zu %s %s %s with %s waits",
             request_what(r), receives ? "at most " : "", r->count,
             coll_dtype_name(r->dtype), receives ? "from" : "to",
             number(rank, "rank", r->p2p.peer), number(tag, "tag", r->p2p.tag));
}
