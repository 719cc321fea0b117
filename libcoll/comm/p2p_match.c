/* SPDX-License-Identifier: MIT */
/* Which receive gets which message. Numbers say what was first where there are
 * lists of several ranks. */
#include "comm/p2p.h"
#include "comm/request.h"

void p2p_wait_in(struct p2p_waiting *w, coll_request *r)
{
    r->next = NULL;
    *w->last = r;
    w->last = &r->next;
}

static coll_request *take(struct p2p_waiting *w, coll_request **at)
{
    coll_request *r = *at;
    *at = r->next;
    if (w->last == &r->next)
        w->last = at;
    return r;
}

coll_request *p2p_take_send(struct p2p_waiting *sends, uint32_t id)
{
    coll_request **at = &sends->first;
    while (*at && (*at)->p2p.id != id)
        at = &(*at)->next;
    return *at ? take(sends, at) : NULL;
}

static bool fits(const coll_request *r, int tag)
{
    return r->p2p.tag == tag || r->p2p.tag == COLL_ANY_TAG;
}

static coll_request **find_receive(struct p2p_waiting *w, int tag)
{
    coll_request **at = &w->first;
    while (*at && !fits(*at, tag))
        at = &(*at)->next;
    return at;
}

coll_request *p2p_match_receive(struct p2p *p, int peer, int tag)
{
    struct p2p_waiting *w = &p->peers[peer].receives;
    coll_request **of_it = find_receive(w, tag);
    coll_request **of_any = find_receive(&p->any, tag);
    if (*of_any && (!*of_it || (*of_any)->p2p.order < (*of_it)->p2p.order))
        return take(&p->any, of_any);
    return *of_it ? take(w, of_it) : NULL;
}

static struct p2p_message **find_message(struct p2p_peer *p,
                                         const coll_request *r)
{
    struct p2p_message **at = &p->messages;
    while (*at && !fits(r, (*at)->head.tag))
        at = &(*at)->next;
    return at;
}

struct p2p_message *p2p_match_message(struct p2p *p, int nranks,
                                      const coll_request *r, int *peer)
{
    const bool any = r->p2p.peer == COLL_ANY_SOURCE;
    struct p2p_message **best = NULL;
    for (int i = any ? 0 : r->p2p.peer; i < nranks; i++) {
        struct p2p_message **at = find_message(&p->peers[i], r);
        if (*at && (!best || (*at)->order < (*best)->order)) {
            best = at;
            *peer = i;
        }
        if (!any)
            break;
    }
    if (!best)
        return NULL;
    struct p2p_message *m = *best;
    *best = m->next;
    if (p->peers[*peer].last_message == &m->next)
        p->peers[*peer].last_message = best;
    return m;
}
