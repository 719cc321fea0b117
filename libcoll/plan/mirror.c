/* SPDX-License-Identifier: MIT */
#include "plan/mirror.h"

#include <stdlib.h>

/* Steps [from, to) of the plan that is mirrored. */
struct round {
    step_id from, to;
    int slot;       /* what it hears goes to the scratch from here on */
    step_id posted; /* the first of its receives */
};

struct mirror {
    struct plan *plan;
    const struct plan *spread;
    struct place own;
    bool *summed; /* per chunk: more than this rank's share is in it */
    step_id last; /* that summed */
};

void plan_end_round(struct plan *p)
{
    plan_join(p, PLAN_START, PLAN_START);
}

static bool ends_round(const struct step *s)
{
    return s->kind == PLAN_JOIN && s->after[0] == PLAN_START
           && s->after[1] == PLAN_START;
}

static struct round round_before(const struct plan *spread, step_id to)
{
    step_id from = to > 0 ? to - 1 : 0; /* the end of the round itself */
    while (from > 0 && !ends_round(&spread->steps[from - 1]))
        from--;
    return (struct round){.from = from, .to = to};
}

/* The most chunks that any round sends. */
static int widest(const struct plan *spread)
{
    int most = 0, n = 0;
    for (step_id i = 0; i < spread->nsteps; i++) {
        const struct step *s = &spread->steps[i];
        n = ends_round(s) ? 0 : n + (s->kind == PLAN_SEND ? s->nchunks : 0);
        most = n > most ? n : most;
    }
    return most;
}

static bool owns(const struct mirror *m, int chunk)
{
    return chunk >= m->own.chunk && chunk < m->own.chunk + m->own.nchunks;
}

static struct place held(const struct mirror *m, bool summed, int chunk, int n)
{
    const enum plan_buf buf = !summed          ? PLAN_IN
                              : owns(m, chunk) ? PLAN_OUT
                                               : PLAN_SUM;
    return (struct place){(uint8_t)buf, chunk, n, 0};
}

/* How many chunks from there on, up to `end`, lie as the first one does. */
static int alike(const struct mirror *m, int chunk, int end)
{
    int n = 1;
    while (chunk + n < end && m->summed[chunk + n] == m->summed[chunk]
           && owns(m, chunk + n) == owns(m, chunk))
        n++;
    return n;
}

/* Makes a run one that lies in one buffer: whether as sums. */
static bool even_out(struct mirror *m, int chunk, int nchunks)
{
    const int end = chunk + nchunks;
    bool any = false;
    for (int c = chunk; c < end; c++)
        any |= m->summed[c];
    for (int c = chunk, n; c < end && any; c += n) {
        n = alike(m, c, end);
        if (m->summed[c])
            continue;
        m->last = plan_copy(m->plan, held(m, true, c, n), held(m, false, c, n),
                            PLAN_START);
        for (int i = c; i < c + n; i++)
            m->summed[i] = true;
    }
    return any;
}

static void add(struct mirror *m, struct place heard, step_id got)
{
    const int end = heard.chunk + heard.nchunks;
    even_out(m, heard.chunk, heard.nchunks);
    for (int c = heard.chunk, n; c < end; c += n) {
        n = alike(m, c, end);
        const struct place part = TMP_RUN(c, n, heard.slot + c - heard.chunk);
        m->last = plan_reduce(m->plan, held(m, true, c, n),
                              held(m, m->summed[c], c, n), part, got);
        if (m->plan->status == COLL_OK)
            m->plan->steps[m->last].before = c - heard.chunk;
        for (int i = c; i < c + n; i++)
            m->summed[i] = true;
    }
}

/* --- The three parts of a round, all from its last step to its first. */

static void post(struct mirror *m, struct round *r)
{
    int slot = r->slot;
    r->posted = m->plan->nsteps;
    for (step_id i = r->to - 1; i >= r->from; i--) {
        const struct step *s = &m->spread->steps[i];
        if (s->kind != PLAN_SEND)
            continue;
        plan_recv(m->plan, s->peer, TMP_RUN(s->chunk, s->nchunks, slot),
                  PLAN_START);
        slot += s->nchunks;
    }
}

static void add_all(struct mirror *m, const struct round *r)
{
    int slot = r->slot;
    step_id got = r->posted;
    for (step_id i = r->to - 1; i >= r->from; i--) {
        const struct step *s = &m->spread->steps[i];
        if (s->kind != PLAN_SEND)
            continue;
        add(m, TMP_RUN(s->chunk, s->nchunks, slot), got++);
        slot += s->nchunks;
    }
}

static void send_all(struct mirror *m, const struct round *r)
{
    for (step_id i = r->to - 1; i >= r->from; i--) {
        const struct step *s = &m->spread->steps[i];
        if (s->kind != PLAN_RECV)
            continue;
        const bool summed = even_out(m, s->chunk, s->nchunks);
        plan_send(m->plan, s->peer, held(m, summed, s->chunk, s->nchunks),
                  m->last);
    }
}

/* The receives of a round are posted before the sums of the one after it, which
 * comes first here, are waited for. */
static void run_backwards(struct mirror *m, int nslots)
{
    struct round later = {0};
    for (step_id to = m->spread->nsteps; to > 0; to = later.from) {
        struct round r = round_before(m->spread, to);
        r.slot = later.slot ? 0 : nslots;
        post(m, &r);
        add_all(m, &later);
        send_all(m, &r);
        later = r;
    }
    add_all(m, &later);
    for (int c = m->own.chunk, end = c + m->own.nchunks, n; c < end; c += n) {
        n = alike(m, c, end);
        if (!m->summed[c])
            plan_copy(m->plan, OUT_RUN(c, n), IN_RUN(c, n), PLAN_START);
    }
}

void plan_mirror(struct plan *p, const struct plan *spread, struct place own)
{
    const int nslots = widest(spread);
    struct mirror m = {.plan = p, .spread = spread, .own = own, .last = -1};
    plan_init(p, spread->nchunks, 2 * nslots);
    p->status = spread->status;
    if (p->status != COLL_OK)
        return;
    m.summed = calloc((size_t)spread->nchunks, sizeof(*m.summed));
    if (m.summed)
        run_backwards(&m, nslots);
    else
        p->status = COLL_ERR_MEMORY;
    free(m.summed);
}
