/* SPDX-License-Identifier: MIT */
#include "exec/bound.h"

#include <math.h>
#include <stdlib.h>

enum { NONE = -1 };

/* One side of a message. */
struct end {
    int rank, peer;
    step_id step;
};

struct message {      /* the same one of sends and of receives */
    double posted[2]; /* by its sender, its receiver; below 0: not yet */
    double left;      /* when its last byte has */
};

struct resource {
    double busy, first, after; /* seconds: in all; until it is; behind it */
};

struct state {
    const struct rehearsal *c;
    struct sim *sim;          /* for what messages use */
    const struct plan *plans; /* per rank */
    struct end *sends, *recvs, *scratch;
    struct message *messages;
    int nsends, nrecvs;
    size_t *first;        /* per rank: of its steps in the next two */
    int *message_of;      /* per step; or NONE */
    double *done;         /* per step: when at the earliest; below 0: not yet */
    step_id *next;        /* per rank: the step that it starts next, */
    double *clock, *busy; /* when, and what it has worked */
    int *ready, nready;   /* ranks that may go on */
    bool *is_ready;
    struct resource *resources;
};

/* Sorts, stably: by rank or by peer. */
static void sort(struct end *ends, int n, bool by_peer, int nranks, int *count,
                 struct end *scratch)
{
    for (int r = 0; r <= nranks; r++)
        count[r] = 0;
    for (int i = 0; i < n; i++)
        count[1 + (by_peer ? ends[i].peer : ends[i].rank)]++;
    for (int r = 0; r < nranks; r++)
        count[r + 1] += count[r];
    for (int i = 0; i < n; i++)
        scratch[count[by_peer ? ends[i].peer : ends[i].rank]++] = ends[i];
    for (int i = 0; i < n; i++)
        ends[i] = scratch[i];
}

static coll_status allocate(struct state *s)
{
    const size_t n = (size_t)s->c->nranks;
    size_t nsteps = 0, nends = 1;
    for (size_t r = 0; r < n; r++) {
        s->first[r] = nsteps;
        nsteps += (size_t)s->plans[r].nsteps;
        for (int i = 0; i < s->plans[r].nsteps; i++)
            nends += s->plans[r].steps[i].kind == PLAN_SEND;
    }
    s->sends = malloc(nends * sizeof(*s->sends));
    s->recvs = malloc(nends * sizeof(*s->recvs));
    s->scratch = malloc(nends * sizeof(*s->scratch));
    s->messages = malloc(nends * sizeof(*s->messages));
    s->message_of = malloc((nsteps + 1) * sizeof(*s->message_of));
    s->done = malloc((nsteps + 1) * sizeof(*s->done));
    s->nsends = (int)nends - 1;
    for (size_t i = 0; s->done && s->message_of && i < nsteps; i++) {
        s->done[i] = -1;
        s->message_of[i] = NONE;
    }
    return s->sends && s->recvs && s->scratch && s->messages && s->message_of
                   && s->done
               ? COLL_OK
               : COLL_ERR_MEMORY;
}

/* The k-th send of a rank to another is received by the k-th receive there. */
static coll_status pair_up(struct state *s, int *count)
{
    const int n = s->c->nranks;
    int nsends = 0;
    for (int r = 0; r < n; r++)
        for (step_id i = 0; i < s->plans[r].nsteps; i++) {
            const struct step *step = &s->plans[r].steps[i];
            const struct end end = {r, step->peer, i};
            if (step->kind == PLAN_SEND)
                s->sends[nsends++] = end;
            else if (step->kind == PLAN_RECV && s->nrecvs < s->nsends)
                s->recvs[s->nrecvs++] = end;
            else if (step->kind == PLAN_RECV)
                return COLL_ERR_PEER;
        }
    if (s->nrecvs != s->nsends)
        return COLL_ERR_PEER;
    sort(s->sends, s->nsends, true, n, count, s->scratch);
    sort(s->recvs, s->nrecvs, true, n, count, s->scratch);
    sort(s->recvs, s->nrecvs, false, n, count, s->scratch);
    for (int m = 0; m < s->nsends; m++) {
        const struct end *tx = &s->sends[m], *rx = &s->recvs[m];
        if (tx->rank != rx->peer || tx->peer != rx->rank)
            return COLL_ERR_PEER;
        s->message_of[s->first[tx->rank] + (size_t)tx->step] = m;
        s->message_of[s->first[rx->rank] + (size_t)rx->step] = m;
        s->messages[m] = (struct message){
            .posted = {-1, -1}
        };
    }
    return COLL_OK;
}

static void wake(struct state *s, int rank)
{
    if (!s->is_ready[rank])
        s->ready[s->nready++] = rank;
    s->is_ready[rank] = true;
}

/* A message that both have posted. */
static void exchange(struct state *s, int m, size_t bytes)
{
    const struct end *tx = &s->sends[m], *rx = &s->recvs[m];
    const struct sim_link *link = sim_link_of(&s->c->net, tx->rank, rx->rank);
    struct message *message = &s->messages[m];
    struct flow_use uses[FLOW_USES];
    const int nuses = sim_uses(s->sim, tx->rank, rx->rank, uses);
    const double b = (double)bytes, after = link->alpha + link->overhead;
    double begin = fmax(message->posted[0], message->posted[1]), heaviest = 0;
    if (m > 0 && s->sends[m - 1].rank == tx->rank
        && s->sends[m - 1].peer == tx->peer)
        begin = fmax(begin, message[-1].left);
    for (int i = 0; i < nuses; i++) {
        struct resource *r = &s->resources[uses[i].resource];
        heaviest = fmax(heaviest, uses[i].weight);
        r->busy += uses[i].weight * b;
        r->first = fmin(r->first, begin);
        r->after = fmin(r->after, after);
    }
    message->left = begin + heaviest * b;
    s->busy[rx->rank] += link->overhead;
    s->done[s->first[tx->rank] + (size_t)tx->step] =
        message->left + link->alpha;
    s->done[s->first[rx->rank] + (size_t)rx->step] = message->left + after;
    wake(s, tx->rank);
    wake(s, rx->rank);
}

static void work(struct state *s, int rank, double seconds)
{
    s->clock[rank] += seconds;
    s->busy[rank] += seconds;
}

/* Of a run of chunks, as exec.c cuts the vector. */
static size_t bytes_of(const struct state *s, const struct plan *p,
                       const struct step *step)
{
    const size_t n = (size_t)p->nchunks, c = (size_t)step->chunk;
    const size_t each = s->c->count / n, longer = s->c->count % n;
    const size_t end = c + (size_t)step->nchunks;
    return ((end - c) * each + (end < longer ? end : longer)
            - (c < longer ? c : longer))
           * s->c->elem_bytes;
}

static void start(struct state *s, int rank, step_id id)
{
    const struct step *step = &s->plans[rank].steps[id];
    const size_t at = s->first[rank] + (size_t)id;
    const size_t bytes = bytes_of(s, &s->plans[rank], step);
    const int m = s->message_of[at];
    const struct sim_net *net = &s->c->net;
    if (m == NONE || bytes == 0) {
        if (step->kind == PLAN_REDUCE)
            work(s, rank, net->gamma * (double)bytes);
        if (step->kind == PLAN_COMBINE)
            work(s, rank, net->gamma * (double)bytes * (step->nsrc - 1));
        if (step->kind == PLAN_COPY)
            work(s, rank, net->copy * (double)bytes);
        s->done[at] = s->clock[rank];
        return;
    }
    const int side = step->kind == PLAN_RECV;
    if (!side)
        work(s, rank, sim_link_of(net, rank, step->peer)->overhead);
    s->messages[m].posted[side] = s->clock[rank];
    if (s->messages[m].posted[!side] >= 0)
        exchange(s, m, bytes);
}

static double done(const struct state *s, int rank, step_id id)
{
    return id == PLAN_START ? 0 : s->done[s->first[rank] + (size_t)id];
}

static void go_on(struct state *s, int rank)
{
    const struct plan *p = &s->plans[rank];
    for (; s->next[rank] < p->nsteps; s->next[rank]++) {
        const struct step *step = &p->steps[s->next[rank]];
        const double a = done(s, rank, step->after[0]);
        const double b = done(s, rank, step->after[1]);
        if (a < 0 || b < 0)
            return;
        s->clock[rank] = fmax(s->clock[rank], fmax(a, b));
        start(s, rank, s->next[rank]);
    }
}

static coll_status follow(struct state *s, double *seconds)
{
    const int n = s->c->nranks;
    for (int q = 0; q < sim_resources(s->sim); q++)
        s->resources[q] = (struct resource){0, INFINITY, INFINITY};
    for (int r = n - 1; r >= 0; r--)
        wake(s, r);
    while (s->nready > 0) {
        const int rank = s->ready[--s->nready];
        s->is_ready[rank] = false;
        go_on(s, rank);
    }
    *seconds = 0;
    for (int r = 0; r < n; r++) {
        *seconds = fmax(*seconds, fmax(s->clock[r], s->busy[r]));
        for (int i = 0; i < s->plans[r].nsteps; i++)
            if (done(s, r, i) < 0)
                return COLL_ERR_PEER;
            else
                *seconds = fmax(*seconds, done(s, r, i));
    }
    for (int q = 0; q < sim_resources(s->sim); q++) {
        const struct resource *r = &s->resources[q];
        if (r->busy > 0)
            *seconds = fmax(*seconds, r->first + r->busy + r->after);
    }
    return COLL_OK;
}

static coll_status find(const struct rehearsal *c, const struct cast *cast,
                        double *seconds)
{
    const size_t n = (size_t)c->nranks;
    struct state s = {
        .c = c,
        .sim = sim_create(c->nranks, &c->net),
        .plans = cast->plans,
        .first = calloc(n, sizeof(*s.first)),
        .next = calloc(n, sizeof(*s.next)),
        .clock = calloc(n, sizeof(*s.clock)),
        .busy = calloc(n, sizeof(*s.busy)),
        .ready = calloc(n + 1, sizeof(*s.ready)),
        .is_ready = calloc(n, sizeof(*s.is_ready)),
    };
    if (s.sim)
        s.resources =
            malloc(((size_t)sim_resources(s.sim) + 1) * sizeof(*s.resources));
    coll_status status = COLL_ERR_MEMORY;
    if (s.first && s.next && s.clock && s.busy && s.ready && s.is_ready
        && s.resources)
        status = allocate(&s);
    if (status == COLL_OK)
        status = pair_up(&s, s.ready);
    if (status == COLL_OK)
        status = follow(&s, seconds);
    void *all[] = {s.first, s.next,     s.clock,    s.busy,     s.ready,
                   s.sends, s.recvs,    s.scratch,  s.messages, s.message_of,
                   s.done,  s.is_ready, s.resources};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    sim_free(s.sim);
    return status;
}

coll_status bound(const struct rehearsal *c, double *seconds)
{
    struct cast own = {0};
    coll_status status = c->cast ? COLL_OK : cast_make(&own, c);
    if (status == COLL_OK)
        status = find(c, c->cast ? c->cast : &own, seconds);
    cast_free(&own);
    return status;
}
