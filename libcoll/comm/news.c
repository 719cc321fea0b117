/* SPDX-License-Identifier: MIT */
#include "comm/news.h"

/* In these every rank hears from every other. */
static bool all_hear(const coll_request *r)
{
    return (r->count > 0 || r->kind == BARRIER) && r->kind != REDUCE
           && r->kind != BROADCAST;
}

/* The other way round, so that the least news is the largest time. */
static uint16_t turned(const coll_comm *c, uint16_t code)
{
    enum { CODES = 1 << LEARN_CODE_BITS };
    return code && c->crowded ? (uint16_t)(CODES - code) : code;
}

/* What this operation took goes out with the messages of the next one; when
 * that is over, all ranks know the least that any of them measured: who came
 * last waited for nobody. Where ranks take turns on a processor the last one
 * often finds all done, so there the longest time counts. */
void news_learn(coll_request *r, uint16_t heard)
{
    coll_comm *c = r->comm;
    if (!c->select.adapts || !all_hear(r))
        return;
    select_observe(&c->select, c->last_kind, &c->last, turned(c, heard));
    c->last_kind = r->kind;
    c->last = r->choice;
    c->news = turned(c, learn_quantise(comm_clock() - r->began));
}
