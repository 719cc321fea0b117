/* SPDX-License-Identifier: MIT */
#include "transport/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "transport/agenda.h"
#include "transport/flows.h"

struct queue { /* posted transfers that have no partner yet */
    struct transfer *first, **last;
};

struct rank {
    struct transport base; /* first: a transport pointer is a rank pointer */
    struct sim *sim;
    int me;
    double clock;
    int processor; /* of its machine, on which it ran last */
    bool over;
    struct queue sends, recvs;
    int first; /* of the messages that it sends now, in their order; or FREE */
    struct sim_traffic traffic;
};

/* A message whose sides have both posted it. */
struct message {
    int from, to, level, flow;
    struct transfer *tx, *rx;
    int next; /* of those that `from` sends now; of free places, if FREE */
};

/* Notes of what happens to a message. */
enum { BEGINS, ARRIVES };

struct sim {
    struct sim_net net;
    int nranks;
    struct rank *ranks;
    struct message *messages;
    int nmessages, capacity, free_message;
    int *message_of; /* per flow */
    size_t nmessage_of;
    struct agenda agenda; /* messages that begin or arrive */
    struct flows *flows;
    int nresources, first_rank_port, first_link[SIM_LEVELS],
        first_machine; /* resources */
    double *free_at;   /* per processor of each machine: when it is free */
    double *busy; /* per machine: seconds of its processors, all together */
    double now, rated; /* rated: when rates were last found */
    unsigned random;
};

enum { FREE = -1 };

extern const struct transport_ops transport_sim;

static void enqueue(struct queue *q, struct transfer *t)
{
    t->next = NULL;
    *q->last = t;
    q->last = &t->next;
}

/* The oldest transfer with that peer, taken off the queue; or NULL. */
static struct transfer *dequeue(struct queue *q, int peer)
{
    for (struct transfer **at = &q->first; *at; at = &(*at)->next)
        if ((*at)->peer == peer) {
            struct transfer *t = *at;
            *at = t->next;
            if (!*at)
                q->last = at;
            return t;
        }
    return NULL;
}

/* Jitter is in units of what the message takes alone. */
static double jitter(struct sim *s)
{
    if (!s->net.jitter_seed)
        return 0;
    s->random = s->random * 1664525u + 1013904223u;
    return (s->random >> 16) % 64;
}

static const struct sim_link *link_at(const struct sim_net *net, int level)
{
    return level < net->nlevels ? &net->level[level].link : &net->link;
}

int sim_level_of(const struct sim_net *net, int a, int b)
{
    int l = 0;
    while (l < net->nlevels
           && net->level[l].group_of[a] == net->level[l].group_of[b])
        l++;
    return l;
}

const struct sim_link *sim_link_of(const struct sim_net *net, int a, int b)
{
    return link_at(net, sim_level_of(net, a, b));
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
    s->messages[place].from = FREE;
    s->messages[place].next = s->free_message;
    s->free_message = place;
}

static void out_of_memory(struct transfer *tx, struct transfer *rx)
{
    tx->status = rx->status =
        fail(COLL_ERR_MEMORY, "sim", "no memory for another message");
}

static void match(struct sim *s, int from, struct transfer *tx, int to,
                  struct transfer *rx)
{
    struct sim_traffic *traffic = &s->ranks[from].traffic;
    const int place = take_message(s);
    const int level = sim_level_of(&s->net, from, to);
    traffic->messages++;
    traffic->bytes += tx->bytes;
    traffic->crossing[level] += tx->bytes;
    if (place != FREE)
        s->messages[place] = (struct message){
            .from = from,
            .to = to,
            .level = level,
            .flow = FREE,
            .tx = tx,
            .rx = rx,
        };
    const double begin = fmax(fmax(tx->posted, rx->posted), s->now);
    if (place == FREE
        || !agenda_put(&s->agenda, (struct agenda_item){
                                       .at = begin,
                                       .what = place,
                                       .note = BEGINS,
                                   }))
        out_of_memory(tx, rx);
}

static void sim_send(struct transport *t, struct transfer *tx)
{
    struct rank *me = (struct rank *)t, *to = &me->sim->ranks[tx->peer];
    struct transfer *rx = dequeue(&to->recvs, me->me);
    const int level = sim_level_of(&me->sim->net, me->me, tx->peer);
    me->clock += link_at(&me->sim->net, level)->overhead;
    tx->posted = me->clock;
    if (rx)
        match(me->sim, me->me, tx, tx->peer, rx);
    else
        enqueue(&me->sends, tx);
}

static void sim_recv(struct transport *t, struct transfer *rx)
{
    struct rank *me = (struct rank *)t, *from = &me->sim->ranks[rx->peer];
    struct transfer *tx = dequeue(&from->sends, me->me);
    rx->posted = me->clock;
    if (tx)
        match(me->sim, rx->peer, tx, me->me, rx);
    else
        enqueue(&me->recvs, rx);
}

/* Half of a message's bytes are moved at each end. */
static int machine_uses(const struct sim *s, int a, int b,
                        struct flow_use *uses)
{
    const struct sim_net *net = &s->net;
    if (!net->machine_of || net->machine <= 0)
        return 0;
    const int from = net->machine_of[a], to = net->machine_of[b];
    uses[0] = (struct flow_use){s->first_machine + from, net->machine};
    if (from == to)
        return 1;
    uses[0].weight = net->machine / 2;
    uses[1] = (struct flow_use){s->first_machine + to, net->machine / 2};
    return 2;
}

int sim_uses(const struct sim *s, int from, int to,
             struct flow_use uses[FLOW_USES])
{
    const struct sim_net *net = &s->net;
    const int level = sim_level_of(net, from, to);
    const double beta = link_at(&s->net, level)->beta;
    const bool between_hosts = level < net->nhost_levels;
    const int *host_of =
        between_hosts ? net->level[net->nhost_levels - 1].group_of : NULL;
    const int ends[2] = {from, to};
    int n = 0;
    for (int out = 0; out < 2 && beta > 0; out++) {
        const int port =
            host_of ? host_of[ends[out]] : s->first_rank_port + ends[out];
        uses[n++] = (struct flow_use){2 * port + out, beta};
    }
    for (int l = level; l < net->nlevels; l++)
        for (int out = 0; out < 2 && net->level[l].shared > 0; out++) {
            const int group = net->level[l].group_of[ends[out]];
            uses[n++] = (struct flow_use){s->first_link[l] + 2 * group + out,
                                          net->level[l].shared};
        }
    return n + machine_uses(s, from, to, uses + n);
}

static bool start_flow(struct sim *s, int place, double at)
{
    struct flow_use uses[FLOW_USES];
    struct message *m = &s->messages[place];
    const double bytes = (double)m->tx->bytes;
    const int nuses = sim_uses(s, m->from, m->to, uses);
    m->flow = flows_add(s->flows, uses, nuses, bytes, at);
    if (m->flow < 0)
        return false;
    for (int i = 0; i < nuses && s->busy; i++)
        if (uses[i].resource >= s->first_machine)
            s->busy[uses[i].resource - s->first_machine] +=
                uses[i].weight * bytes * s->net.nprocessors;
    if ((size_t)m->flow >= s->nmessage_of) {
        const size_t n = 2 * (size_t)m->flow + 64;
        int *message_of = realloc(s->message_of, n * sizeof(int));
        if (!message_of)
            return false;
        s->message_of = message_of;
        s->nmessage_of = n;
    }
    s->message_of[m->flow] = place;
    return true;
}

/* Messages between the same two ranks move one after another. */
static bool begin(struct sim *s, int place)
{
    struct message *m = &s->messages[place];
    int *at = &s->ranks[m->from].first;
    bool alone = true;
    for (; *at != FREE; at = &s->messages[*at].next)
        alone &= s->messages[*at].to != m->to;
    *at = place;
    m->next = FREE;
    return !alone || start_flow(s, place, s->now);
}

/* Takes a message out of those that its sender sends. Returns the next one to
 * the same rank, or FREE. */
static int take_out(struct sim *s, int place)
{
    const struct message *m = &s->messages[place];
    int *at = &s->ranks[m->from].first;
    while (*at != FREE && *at != place)
        at = &s->messages[*at].next;
    if (*at == FREE)
        return FREE;
    *at = m->next;
    int next = m->next;
    while (next != FREE && s->messages[next].to != m->to)
        next = s->messages[next].next;
    return next;
}

/* The data are copied on arrival: as late as they may be read. */
static void deliver(const struct message *m)
{
    if (m->tx->tag != m->rx->tag || m->tx->bytes != m->rx->bytes) {
        m->rx->status = fail(
            COLL_ERR_MISMATCH, "sim",
            "rank %d sent %zu bytes with tag %08x, rank %d expected %zu "
            "with tag %08x",
            m->from, m->tx->bytes, m->tx->tag, m->to, m->rx->bytes, m->rx->tag);
    } else {
        if (m->rx->buf && m->tx->buf)
            memcpy(m->rx->buf, m->tx->buf, m->rx->bytes);
        m->rx->status = COLL_OK;
    }
    m->rx->news = m->tx->news;
    m->tx->status = COLL_OK;
}

/* What may follow the next thing that happens. */
typedef coll_status advance_fn(void *context, int rank);

/* Where ranks take turns: the processor that is free first, and from when. Who
 * is still at work keeps the one it has. */
static double take_processor(const struct sim *s, struct rank *r)
{
    const struct sim_net *net = &s->net;
    if (!net->machine_of)
        return 0;
    const double *free_at =
        &s->free_at[net->machine_of[r->me] * net->nprocessors];
    if (r->clock <= s->now || free_at[r->processor] > r->clock)
        for (int i = 0; i < net->nprocessors; i++)
            if (free_at[i] < free_at[r->processor])
                r->processor = i;
    return free_at[r->processor];
}

static coll_status advance_rank(struct sim *s, int rank, double overhead,
                                advance_fn *advance, void *context)
{
    struct rank *r = &s->ranks[rank];
    if (r->over)
        return COLL_IN_PROGRESS;
    const double idle = fmax(r->clock, s->now);
    const bool waited = r->clock < s->now;
    const double start = fmax(idle, take_processor(s, r));
    const double turned = start + (waited ? s->net.turn : 0);
    r->clock = turned + overhead;
    const coll_status status =
        advance ? advance(context, rank) : COLL_IN_PROGRESS;
    r->over = status == COLL_OK;
    if (!(r->clock > turned))
        r->clock = idle; /* it had nothing to do */
    else if (s->net.machine_of) {
        const int machine = s->net.machine_of[rank];
        s->free_at[machine * s->net.nprocessors + r->processor] = r->clock;
        s->busy[machine] += r->clock - start;
    }
    return status;
}

static coll_status arrive(struct sim *s, int place, advance_fn *advance,
                          void *context)
{
    const struct message m = s->messages[place];
    give_message(s, place);
    deliver(&m);
    const coll_status sender = advance_rank(s, m.from, 0, advance, context);
    return sender < 0
               ? sender
               : advance_rank(s, m.to, link_at(&s->net, m.level)->overhead,
                              advance, context);
}

static coll_status end_flow(struct sim *s, int flow, double ended)
{
    const int place = s->message_of[flow];
    const struct message *m = &s->messages[place];
    const struct sim_link *link = link_at(&s->net, m->level);
    const double alone = link->alpha + link->beta * (double)m->tx->bytes;
    const int next = take_out(s, place);
    flows_remove(s->flows, flow);
    s->messages[place].flow = FREE;
    if (next != FREE && !start_flow(s, next, ended))
        return COLL_ERR_MEMORY;
    const double at = ended + link->alpha + jitter(s) * alone;
    return agenda_put(&s->agenda,
                      (struct agenda_item){
                          .at = at,
                          .what = place,
                          .note = ARRIVES,
                      })
               ? COLL_OK
               : COLL_ERR_MEMORY;
}

/* Instants that differ by rounding only are one: what is symmetrical happens at
 * once, and rates are found anew but once for all of it. */
static const double rounding = 1e-12;

/* The next thing that happens; IN_PROGRESS: nothing is left that could. Events
 * and ends of one instant all come before rates are found anew. */
static coll_status happen(struct sim *s, advance_fn *advance, void *context)
{
    const double soon =
        fmax(s->now * (1 + rounding), s->rated * (1 + s->net.instant));
    double ends = INFINITY;
    int flow = FREE;
    flows_next(s->flows, &ends, &flow);
    if (ends > soon && (!s->agenda.n || s->agenda.heap[0].at > soon)) {
        if (!flows_settle(s->flows, s->now))
            return COLL_ERR_MEMORY;
        s->rated = s->now;
        ends = INFINITY;
        flow = FREE;
        flows_next(s->flows, &ends, &flow);
    }
    if (s->agenda.n && s->agenda.heap[0].at <= ends) {
        const struct agenda_item e = agenda_take(&s->agenda);
        s->now = fmax(s->now, e.at);
        if (e.note == BEGINS)
            return begin(s, e.what) ? COLL_OK : COLL_ERR_MEMORY;
        const coll_status status = arrive(s, e.what, advance, context);
        return status < 0 ? status : COLL_OK;
    }
    if (flow == FREE)
        return COLL_IN_PROGRESS;
    s->now = fmax(s->now, ends);
    return end_flow(s, flow, ends);
}

static bool sim_progress(struct transport *t)
{
    return happen(((struct rank *)t)->sim, NULL, NULL) != COLL_IN_PROGRESS;
}

static void abort_queue(struct queue *q)
{
    for (struct transfer *t = q->first; t; t = t->next)
        t->status = COLL_ERR_ABORTED;
    *q = (struct queue){NULL, &q->first};
}

/* Takes this rank's transfers out of the messages under way; the partners
 * wait on, as they would for a rank that died. */
static void sim_cancel(struct transport *t)
{
    struct rank *me = (struct rank *)t;
    struct sim *s = me->sim;
    abort_queue(&me->sends);
    abort_queue(&me->recvs);
    for (int i = 0; i < s->nmessages; i++) {
        const struct message m = s->messages[i];
        if (m.from == FREE || (m.from != me->me && m.to != me->me))
            continue;
        take_out(s, i);
        if (m.flow >= 0)
            flows_remove(s->flows, m.flow);
        else
            agenda_drop(&s->agenda, i);
        give_message(s, i);
        if (m.from == me->me) {
            m.tx->status = COLL_ERR_ABORTED;
            enqueue(&s->ranks[m.to].recvs, m.rx);
        } else {
            m.rx->status = COLL_ERR_ABORTED;
            enqueue(&s->ranks[m.from].sends, m.tx);
        }
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

/* Numbers the resources: ports of hosts, ports of ranks, shared links,
 * machines.
 */
static int number_resources(struct sim *s)
{
    const struct sim_net *net = &s->net;
    int n = net->nhost_levels ? net->level[net->nhost_levels - 1].ngroups : 0;
    s->first_rank_port = n;
    n = 2 * (n + s->nranks);
    for (int l = 0; l < net->nlevels; l++) {
        s->first_link[l] = n;
        n += net->level[l].shared > 0 ? 2 * net->level[l].ngroups : 0;
    }
    s->first_machine = n;
    return net->machine_of ? n + net->nmachines : n;
}

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
    s->nresources = number_resources(s);
    s->flows = flows_create(s->nresources);
    if (net->machine_of) {
        s->free_at = calloc((size_t)net->nmachines * (size_t)net->nprocessors,
                            sizeof(double));
        s->busy = calloc((size_t)net->nmachines, sizeof(double));
    }
    if (!s->ranks || !s->flows
        || (net->machine_of && (!s->free_at || !s->busy))) {
        sim_free(s);
        return NULL;
    }
    for (int r = 0; r < nranks; r++) {
        struct rank *rank = &s->ranks[r];
        rank->base.ops = &transport_sim;
        rank->sim = s;
        rank->me = r;
        rank->first = FREE;
        rank->sends.last = &rank->sends.first;
        rank->recvs.last = &rank->recvs.first;
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
    free(s->message_of);
    free(s->free_at);
    free(s->busy);
    agenda_free(&s->agenda);
    free(s);
}

int sim_resources(const struct sim *s)
{
    return s->nresources;
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
        most = fmax(most, s->busy[i] / s->net.nprocessors);
    return most;
}

coll_status sim_run(struct sim *s, advance_fn *advance, void *context,
                    double *seconds)
{
    coll_status status = COLL_OK;
    bool all = true;
    for (int r = 0; r < s->nranks && status >= 0; r++)
        status = advance_rank(s, r, 0, advance, context);
    for (status = status < 0 ? status : COLL_OK; status == COLL_OK;)
        status = happen(s, advance, context);
    *seconds = machines_need(s);
    for (int r = 0; r < s->nranks; r++) {
        *seconds = fmax(*seconds, s->ranks[r].clock);
        all &= s->ranks[r].over;
    }
    if (status == COLL_OK || status == COLL_IN_PROGRESS)
        status = all ? COLL_OK
                     : fail(COLL_ERR_PEER, "sim",
                            "the plans of the ranks wait for one another");
    return status;
}
