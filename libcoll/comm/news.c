/* SPDX-License-Identifier: MIT */
#include "comm/news.h"

static void put_meeting(coll_request *r)
{
    coll_comm *c = r->comm;
    *c->meeting = (coll_request){
        .comm = c,
        .kind = BARRIER,
        .dtype = COLL_U8,
        .op = COLL_SUM,
        .way = BY_PLAN,
        .elem_bytes = 1,
        .fingerprint = ~r->fingerprint, /* ranks whose calls differ find out */
        .status = COLL_IN_PROGRESS,
        .early = COLL_OK,
        .meeting = true,
        .next = r,
    };
    c->first = c->meeting;
}

void news_time(coll_request *r)
{
    struct select *s = &r->comm->select;
    const bool pairs = r->in_order == IN_PAIRS;
    if (!s->adapts || r->uneven || (r->in_order && !pairs)
        || (r->count == 0 && r->kind != BARRIER))
        return;
    /* Without a root every rank hears from every other. */
    r->timed = !kind_has_root(r->kind)
               || select_is_due(s, pairs ? POOL_PAIRS : POOL_ANY, r->kind,
                                request_bytes(r));
    if (r->timed && kind_has_root(r->kind))
        put_meeting(r);
}

/* The least that any rank measured is the time of an operation: who came last
 * waited for nobody. But where ranks take turns on a processor the last one
 * often finds all done. And after a meeting they begin as one, while some are
 * soon through: a leaf that sends to the root, a root that sends to a leaf. So
 * there the longest time counts, and news go the other way round, as the least
 * is what travels. */
static uint16_t turned(const coll_comm *c, enum coll_kind kind, uint16_t code)
{
    enum { CODES = 1 << LEARN_CODE_BITS };
    return code && (c->crowded || kind_has_root(kind))
               ? (uint16_t)(CODES - code)
               : code;
}

void news_learn(coll_request *r, uint16_t heard)
{
    coll_comm *c = r->comm;
    if (r->meeting || (r->timed && !kind_has_root(r->kind)))
        select_observe(&c->select, c->last_kind, &c->last,
                       turned(c, c->last_kind, heard));
    if (!r->timed)
        return;
    c->last_kind = r->kind;
    c->last = r->choice;
    c->news = turned(c, r->kind, learn_quantise(comm_clock() - r->began));
}
