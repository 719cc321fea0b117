/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "transport/sim_inside.h"

/* Notes of what happens to a message. */
enum { BEGINS, ARRIVES };

extern const struct transport_ops transport_sim;

static void enqueue(struct pair *p, struct transfer *t)
{
    t->next = NULL;
    if (p->waiting)
        p->last_waiting->next = t;
    else
        p->waiting = t;
    p->last_waiting = t;
}

/* The oldest transfer that waits, if it is of the other side; or NULL. */
static struct transfer *dequeue(struct pair *p, bool sends)
{
    struct transfer *t = p->waiting;
    if (!t || p->sends != sends)
        return NULL;
    p->waiting = t->next;
    return t;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* Jitter is in units of what the message takes alone. */
static double jitter(struct sim *s)
{
    if (!s->net.jitter_seed)
        return 0;
    s->random = s->random * 1664525u + 1013904223u;
    return (s->random >> 16) % 64;
}

static int take_message(struct sim *s)
{
    if (s->free_message != FREE) {
        const int place = s->free_message;
        s->free_message = s->messages[place].next;
        return place;
    }
    if (s->nmessages == s->capacity) {
        const int capacity = s->capacity ? 2 * s->capacity : 256;
        struct message *m = realloc(s->messages, (size_t)capacity * sizeof(*m));
        if (!m)
            return FREE;
        s->messages = m;
        s->capacity = capacity;
    }
    return s->nmessages++;
}

static void give_message(struct sim *s, int place)
{
    s->messages[place].pair = FREE;
    s->messages[place].next = s->free_message;
    s->free_message = place;
}

/* The number of a pair of ranks, or FREE: no memory. */
static int pair_of(struct sim *s, int from, int to)
{
    struct flow_use uses[FLOW_USES];
    const int found = pairs_find(&s->pairs, from, to);
    if (found != FREE)
        return found;
    const int way = flows_add_way(s->flows, uses, sim_uses(s, from, to, uses));
    return way < 0 ? FREE
                   : pairs_add(&s->pairs, from, to,
                               sim_level_of(&s->net, from, to));
}

static void out_of_memory(struct sim *s, struct transfer *t)
{
    t->status = s->status =
        fail(COLL_ERR_MEMORY, "sim", "no memory for another message");
}

static void match(struct sim *s, int pair, struct transfer *tx,
                  struct transfer *rx)
{
    const struct pair *p = &s->pairs.all[pair];
    struct sim_traffic *traffic = &s->ranks[p->from].traffic;
    const int place = take_message(s);
    traffic->messages++;
    traffic->bytes += tx->bytes;
    traffic->crossing[p->level] += tx->bytes;
    if (place != FREE)
        s->messages[place] =
            (struct message){.pair = pair, .next = FREE, .tx = tx, .rx = rx};
    const double begin = later(later(tx->posted, rx->posted), s->now);
    if (place == FREE
        || !agenda_put(&s->agenda, (struct agenda_item){
                                       .at = begin,
                                       .what = place,
                                       .note = BEGINS,
                                   })) {
        out_of_memory(s, tx);
        out_of_memory(s, rx);
    }
}

/* Matches a transfer with the oldest of the other side, or keeps it. */
static void post(struct sim *s, int pair, struct transfer *t, bool sends)
{
    struct pair *p = &s->pairs.all[pair];
    struct transfer *other = dequeue(p, !sends);
    if (other) {
        match(s, pair, sends ? t : other, sends ? other : t);
    } else {
        p->sends = sends;
        enqueue(p, t);
    }
}

static void sim_send(struct transport *t, struct transfer *tx)
{
    struct rank *me = (struct rank *)t;
    struct sim *s = me->sim;
    const int pair = pair_of(s, me->me, tx->peer);
    if (pair == FREE) {
        out_of_memory(s, tx);
        return;
    }
    me->clock += link_at(&s->net, s->pairs.all[pair].level)->overhead;
    tx->posted = me->clock;
    post(s, pair, tx, true);
}

static void sim_recv(struct transport *t, struct transfer *rx)
{
    struct rank *me = (struct rank *)t;
    const int pair = pair_of(me->sim, rx->peer, me->me);
    rx->posted = me->clock;
    if (pair == FREE)
        out_of_memory(me->sim, rx);
    else
        post(me->sim, pair, rx, false);
}

/* Of what machines move, part is moved by their processors. */
static void count_busy(struct sim *s, const struct pair *p, double bytes)
{
    struct flow_use uses[FLOW_USES];
    const int nuses = sim_uses(s, p->from, p->to, uses);
    for (int i = 0; i < nuses; i++)
        if (uses[i].resource >= s->first_machine)
            s->busy[uses[i].resource - s->first_machine] +=
                uses[i].weight * bytes * s->net.nprocessors;
}

/* The first message of a pair moves, from now on. */
static bool start_flow(struct sim *s, int pair, double at)
{
    const struct pair *p = &s->pairs.all[pair];
    struct message *m = &s->messages[p->moving];
    const double bytes = (double)m->tx->bytes;
    m->moves = true;
    if (s->busy)
        count_busy(s, p, bytes);
    return flows_start(s->flows, pair, bytes, at);
}

/* Messages between the same two ranks move one after another. */
static bool begin(struct sim *s, int place)
{
    const int pair = s->messages[place].pair;
    struct pair *p = &s->pairs.all[pair];
    const bool alone = p->moving == FREE;
    *(alone ? &p->moving : &s->messages[p->last].next) = place;
    p->last = place;
    return !alone || start_flow(s, pair, s->now);
}

/* The data are copied on arrival: as late as they may be read. */
static void deliver(const struct message *m, const struct pair *p)
{
    if (m->tx->tag != m->rx->tag || m->tx->bytes != m->rx->bytes) {
        m->rx->status = fail(
            COLL_ERR_MISMATCH, "sim",
            "rank %d sent %zu bytes with tag %08x, rank %d expected %zu "
            "with tag %08x",
            p->from, m->tx->bytes, m->tx->tag, p->to, m->rx->bytes, m->rx->tag);
        m->rx->tag = m->tx->tag;
        m->rx->moved = m->tx->bytes;
    } else {
        if (m->rx->buf && m->tx->buf)
            memcpy(m->rx->buf, m->tx->buf, m->rx->bytes);
        m->rx->status = COLL_OK;
    }
    m->rx->news = m->tx->news;
    m->tx->status = COLL_OK;
}

static struct processor *processors_of(const struct sim *s,
                                       const struct rank *r)
{
    return &s->processors[s->net.machine_of[r->me] * s->net.nprocessors];
}

/* For a rank: who looks in vain goes on at once when there is something. */
static double free_at(const struct processor *p, const struct rank *r)
{
    return p->looks == r->me ? r->clock : p->free_at;
}

/* Where ranks take turns: the processor that is free first, and from when. Who
 * is still at work keeps the one it has. */
static double take_processor(const struct sim *s, struct rank *r)
{
    if (!s->net.machine_of)
        return 0;
    const struct processor *all = processors_of(s, r);
    if (r->clock <= s->now || free_at(&all[r->processor], r) > r->clock)
        for (int i = 0; i < s->net.nprocessors; i++)
            if (free_at(&all[i], r) < free_at(&all[r->processor], r))
                r->processor = i;
    return free_at(&all[r->processor], r);
}

/* It has worked until r->clock, and now looks for more. */
static void leave_processor(struct sim *s, const struct rank *r, double start)
{
    struct processor *p = &processors_of(s, r)[r->processor];
    p->looks = r->over ? FREE : r->me;
    p->free_at = r->clock + (r->over ? 0 : s->net.turn);
    s->busy[s->net.machine_of[r->me]] += r->clock - start;
}

/* A transfer of a rank is over, if not NULL. */
static coll_status advance_rank(struct sim *s, int rank,
                                const struct transfer *over, double overhead,
                                sim_advance_fn *advance, void *context)
{
    struct rank *r = &s->ranks[rank];
    if (r->over)
        return COLL_IN_PROGRESS;
    const double idle = later(r->clock, s->now);
    const double start = later(idle, take_processor(s, r));
    r->clock = start + overhead;
    const coll_status status =
        advance ? advance(context, rank, over) : COLL_IN_PROGRESS;
    r->over = status == COLL_OK;
    if (!(r->clock > start))
        r->clock = idle; /* it had nothing to do */
    else if (s->net.machine_of)
        leave_processor(s, r, start);
    return status;
}

static coll_status arrive(struct sim *s, int place, sim_advance_fn *advance,
                          void *context)
{
    const struct message m = s->messages[place];
    const struct pair p = s->pairs.all[m.pair];
    give_message(s, place);
    deliver(&m, &p);
    const coll_status sender =
        advance_rank(s, p.from, m.tx, 0, advance, context);
    return sender < 0 ? sender
                      : advance_rank(s, p.to, m.rx,
                                     link_at(&s->net, p.level)->overhead,
                                     advance, context);
}

/* Messages of one level, which take alike to arrive, arrive in order. */
static uint16_t arrivals_of(int level)
{
    return (uint16_t)(1 + level % (AGENDA_ROWS - 1));
}

/* The message of a pair that moves has left; the next one moves. */
static coll_status end_flow(struct sim *s, int pair, double ended)
{
    struct pair *p = &s->pairs.all[pair];
    const struct sim_link *link = link_at(&s->net, p->level);
    const int place = p->moving;
    struct message *m = &s->messages[place];
    const double alone = link->alpha + link->beta * (double)m->tx->bytes;
    flows_stop(s->flows, pair);
    p->moving = m->next;
    m->moves = false;
    if (p->moving != FREE && !start_flow(s, pair, ended))
        return COLL_ERR_MEMORY;
    const double at = ended + link->alpha + jitter(s) * alone;
    return agenda_put(&s->agenda,
                      (struct agenda_item){
                          .at = at,
                          .what = place,
                          .note = ARRIVES,
                          .row = arrivals_of(p->level),
                      })
               ? COLL_OK
               : COLL_ERR_MEMORY;
}

/* Instants that differ by rounding only are one: what is symmetrical happens at
 * once, and rates are found anew but once for all of it. */
static const double rounding = 1e-12;

/* The next thing that happens; IN_PROGRESS: nothing is left that could. Events
 * and ends of one instant all come before rates are found anew. */
static coll_status happen(struct sim *s, sim_advance_fn *advance, void *context)
{
    const double soon =
        later(s->now * (1 + rounding), s->rated * (1 + s->net.instant));
    double ends = INFINITY;
    int pair = FREE;
    flows_next(s->flows, &ends, &pair);
    const struct agenda_item *first = agenda_first(&s->agenda);
    if (ends > soon && (!first || first->at > soon)) {
        if (!flows_settle(s->flows, s->now))
            return COLL_ERR_MEMORY;
        s->rated = s->now;
        ends = INFINITY;
        pair = FREE;
        flows_next(s->flows, &ends, &pair);
    }
    if (first && first->at <= ends) {
        const struct agenda_item e = *first;
        agenda_drop(&s->agenda, e.what);
        s->now = later(s->now, e.at);
        if (e.note == BEGINS)
            return begin(s, e.what) ? COLL_OK : COLL_ERR_MEMORY;
        const coll_status status = arrive(s, e.what, advance, context);
        return status < 0 ? status : COLL_OK;
    }
    if (pair == FREE)
        return COLL_IN_PROGRESS;
    s->now = later(s->now, ends);
    return end_flow(s, pair, ends);
}

static bool sim_progress(struct transport *t)
{
    return happen(((struct rank *)t)->sim, NULL, NULL) != COLL_IN_PROGRESS;
}

/* The transfers of a rank that wait for a partner. */
static void abort_waiting(struct pair *p, int me)
{
    if ((p->sends ? p->from : p->to) != me)
        return;
    for (struct transfer *t = p->waiting; t; t = t->next)
        t->status = COLL_ERR_ABORTED;
    p->waiting = NULL;
}

/* Takes a message out of its pair's that have begun, if it is one of them, or
 * out of the agenda. */
static void withdraw(struct sim *s, int place)
{
    struct message *m = &s->messages[place];
    struct pair *p = &s->pairs.all[m->pair];
    int before = FREE, at = p->moving;
    while (at != FREE && at != place) {
        before = at;
        at = s->messages[at].next;
    }
    if (at == FREE) {
        agenda_drop(&s->agenda, place);
        return;
    }
    if (m->moves)
        flows_stop(s->flows, m->pair);
    *(before == FREE ? &p->moving : &s->messages[before].next) = m->next;
    if (p->last == place)
        p->last = before;
}

/* Takes this rank's transfers out of the messages under way; the partners
 * wait on, as they would for a rank that died. */
static void sim_cancel(struct transport *t)
{
    struct rank *me = (struct rank *)t;
    struct sim *s = me->sim;
    for (int i = 0; i < s->pairs.n; i++)
        abort_waiting(&s->pairs.all[i], me->me);
    for (int i = 0; i < s->nmessages; i++) {
        const struct message m = s->messages[i];
        struct pair *p = m.pair == FREE ? NULL : &s->pairs.all[m.pair];
        if (!p || (p->from != me->me && p->to != me->me))
            continue;
        withdraw(s, i);
        give_message(s, i);
        p->sends = p->from != me->me;
        (p->sends ? m.rx : m.tx)->status = COLL_ERR_ABORTED;
        enqueue(p, p->sends ? m.tx : m.rx);
    }
}

static void sim_work(struct transport *t, size_t bytes, bool reduces)
{
    struct rank *me = (struct rank *)t;
    const struct sim_net *net = &me->sim->net;
    me->clock += (reduces ? net->gamma : net->copy) * (double)bytes;
    me->traffic.reduced_bytes += reduces ? bytes : 0;
}

static coll_status sim_open(struct transport **t,
                            const struct transport_job *job)
{
    if (!job->sim)
        return fail(COLL_ERR_UNSUPPORTED, "sim",
                    "the simulator only serves tests and predictions");
    *t = sim_rank(job->sim, job->rank);
    return COLL_OK;
}

static void sim_address(struct transport *t, struct transport_address *address)
{
    (void)t;
    address->bytes = 1;
}

static coll_status sim_connect(struct transport *t,
                               const struct transport_address *all,
                               bool *reached)
{
    const struct sim *s = ((struct rank *)t)->sim;
    for (int r = 0; r < s->nranks; r++)
        reached[r] = all[r].bytes == 1;
    return COLL_OK;
}

static void sim_close(struct transport *t)
{
    sim_cancel(t);
}

const struct transport_ops transport_sim = {
    .name = "sim",
    .simulated = true,
    .open = sim_open,
    .address = sim_address,
    .connect = sim_connect,
    .send = sim_send,
    .recv = sim_recv,
    .progress = sim_progress,
    .cancel = sim_cancel,
    .work = sim_work,
    .close = sim_close,
};

struct sim *sim_create(int nranks, const struct sim_net *net)
{
    struct sim *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->net = *net;
    s->random = net->jitter_seed;
    s->nranks = nranks;
    s->free_message = FREE;
    s->ranks = calloc((size_t)nranks, sizeof(*s->ranks));
    s->nresources = sim_number_resources(s);
    s->flows = flows_create(s->nresources);
    if (net->machine_of) {
        const int n = net->nmachines * net->nprocessors;
        s->processors = calloc((size_t)n, sizeof(*s->processors));
        for (int i = 0; s->processors && i < n; i++)
            s->processors[i].looks = FREE;
        s->busy = calloc((size_t)net->nmachines, sizeof(double));
    }
    if (!s->ranks || !s->flows
        || (net->machine_of && (!s->processors || !s->busy))) {
        sim_free(s);
        return NULL;
    }
    for (int r = 0; r < nranks; r++) {
        struct rank *rank = &s->ranks[r];
        rank->base.ops = &transport_sim;
        rank->sim = s;
        rank->me = r;
    }
    return s;
}

void sim_free(struct sim *s)
{
    if (!s)
        return;
    flows_free(s->flows);
    free(s->ranks);
    free(s->messages);
    pairs_free(&s->pairs);
    free(s->processors);
    free(s->busy);
    agenda_free(&s->agenda);
    free(s);
}

struct transport *sim_rank(struct sim *s, int rank)
{
    return &s->ranks[rank].base;
}

struct sim_traffic sim_traffic(const struct sim *s, int rank)
{
    return s->ranks[rank].traffic;
}

/* Processors that move a machine's bytes do not work for its ranks meanwhile.
 */
static double machines_need(const struct sim *s)
{
    double most = 0;
    for (int i = 0; s->busy && s->net.machine > 0 && i < s->net.nmachines; i++)
        most = later(most, s->busy[i] / s->net.nprocessors);
    return most;
}

coll_status sim_run(struct sim *s, sim_advance_fn *advance, void *context,
                    double *seconds)
{
    coll_status status = COLL_OK;
    bool all = true;
    for (int r = 0; r < s->nranks && status >= 0; r++)
        status = advance_rank(s, r, NULL, 0, advance, context);
    for (status = status < 0 ? status : COLL_OK; status == COLL_OK;)
        status = happen(s, advance, context);
    *seconds = machines_need(s);
    for (int r = 0; r < s->nranks; r++) {
        *seconds = later(*seconds, s->ranks[r].clock);
        all &= s->ranks[r].over;
    }
    if (s->status < 0)
        return s->status;
    if (status == COLL_OK || status == COLL_IN_PROGRESS)
        status = all ? COLL_OK
                     : fail(COLL_ERR_PEER, "sim",
                            "the plans of the ranks wait for one another");
    return status;
}
