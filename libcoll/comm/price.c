/* SPDX-License-Identifier: MIT */
#include "comm/price.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "comm/hosts.h"
#include "comm/ladder.h"
#include "comm/learn.h"
#include "exec/rehearse.h"

int price_class(size_t bytes)
{
    const int octave =
        bytes ? 63 - __builtin_clzll((unsigned long long)bytes) : 0;
    return octave < PRICE_CLASSES ? octave : PRICE_CLASSES - 1;
}

size_t price_bytes(int class)
{
    const size_t low = (size_t)1 << class;
    return low + low / 2
           - (class > 1 ? low / 8 : 0); /* about the square root */
}

static double seconds_of(const struct price_row *row, int class)
{
    return 100e-9 * exp2(row->log_time[class] / 256.0);
}

double price_seconds(const struct price_row *row, size_t bytes)
{
    const int class = price_class(bytes);
    const double middle = (double)price_bytes(class);
    const bool above = (double)bytes > middle;
    const int other = class == 0                           ? 1
                      : above && class + 1 < PRICE_CLASSES ? class + 1
                                                           : class - 1;
    if (row->log_time[class] == PRICE_NONE)
        return -1;
    if (row->log_time[other] == PRICE_NONE)
        return seconds_of(row, class);
    const double at =
        ((double)bytes - middle) / ((double)price_bytes(other) - middle);
    return seconds_of(row, class)
           + at * (seconds_of(row, other) - seconds_of(row, class));
}

static int count_hosts(const struct layout *l)
{
    return l->net.level[l->net.nhost_levels - 1].ngroups;
}

int price_positions(const struct layout *l, enum layout_order order)
{
    return layout_by_hosts(order) ? count_hosts(l) : l->nranks;
}

bool price_pipelines(const struct layout *l, const struct algo *algo,
                     enum layout_order order)
{
    const int n = price_positions(l, order);
    return algo_pipelines(algo, n)
           || (layout_by_hosts(order) && hosts_segments(algo, n, 2) > 1);
}

/* Dealing hosts over groups makes sense where dealing ranks does. */
static bool fits_by_hosts(const struct layout *l, const struct algo *algo,
                          enum layout_order order)
{
    if (order == ORDER_HOSTS_DEALT
        && (algo->kind != ALLREDUCE || l->net.nhost_levels < 2))
        return false;
    const bool parts = algo->kind == REDUCE_SCATTER || algo->kind == ALLGATHER;
    return l->by_hosts > 0 && (!parts || layout_in_blocks(l))
           && algo->fits(&(struct plan_shape){0, count_hosts(l), 1, NULL});
}

bool price_fits(const struct layout *l, const struct algo *algo,
                enum layout_order order)
{
    if (layout_by_hosts(order))
        return fits_by_hosts(l, algo, order);
    const bool parts = algo->kind == REDUCE_SCATTER || algo->kind == ALLGATHER
                       || algo->kind == BARRIER;
    const bool grouped =
        l->net.nlevels > 0 && l->net.level[0].ngroups < l->nranks;
    if (!algo->fits(&(struct plan_shape){0, l->nranks, 1, NULL}))
        return false;
    if (parts || !grouped)
        return order == ORDER_GIVEN;
    return order == ORDER_BLOCK
           || (order == ORDER_ROUND_ROBIN && algo->kind == ALLREDUCE);
}

/* Who runs a plan, in which order. */
struct lineup {
    const struct layout *whole, *at; /* at: whole, or hosts */
    struct layout hosts;             /* one rank of each; by hosts */
    int *order;
    struct plan_tree tree;
};

static coll_status line_up(struct lineup *u, const struct layout *l,
                           enum layout_order order)
{
    coll_status status = COLL_OK;
    *u = (struct lineup){.whole = l, .at = l};
    if (layout_by_hosts(order)) {
        status = layout_of_hosts(l, &u->hosts);
        u->at = &u->hosts;
    }
    if (status == COLL_OK)
        u->order = malloc((size_t)u->at->nranks * sizeof(int));
    if (status == COLL_OK && !u->order)
        status = fail(COLL_ERR_MEMORY, "select", "no memory for %d ranks",
                      l->nranks);
    if (status == COLL_OK)
        status =
            layout_fill_order(u->at, layout_of_positions(order), 0, u->order);
    if (status == COLL_OK)
        status = layout_fill_tree(u->at, u->order, &u->tree);
    return status;
}

static void dismiss(struct lineup *u)
{
    free(u->order);
    layout_free_tree(&u->tree);
    layout_free(&u->hosts);
}

/* As many times one after another. */
static void repeat(struct sim_traffic *traffic, int n, uint64_t times)
{
    for (int r = 0; r < n; r++) {
        struct sim_traffic *t = &traffic[r];
        t->messages *= times;
        t->bytes *= times;
        t->reduced_bytes *= times;
        for (int l = 0; l <= SIM_LEVELS; l++)
            t->crossing[l] *= times;
    }
}

/* By hosts, segments are those of the plan or those in which it is run. */
static coll_status rehearse_one(const struct lineup *u, const struct algo *algo,
                                int segments, size_t bytes, double instant,
                                struct sim_traffic *traffic, double *seconds)
{
    const bool by_hosts = u->at != u->whole;
    const int n = u->at->nranks;
    const int times = by_hosts ? hosts_segments(algo, n, segments) : 1;
    struct sim_net net = layout_net(u->at, bytes);
    net.instant = instant;
    const coll_status status = rehearse(
        &(struct rehearsal){
            .plan = algo->plan,
            .nranks = n,
            .segments = times > 1 ? 1 : segments,
            .tree = &u->tree,
            .order = u->order,
            .count = bytes / (size_t)times,
            .elem_bytes = 1,
            .net = net,
            .traffic = traffic,
        },
        seconds);
    if (by_hosts)
        *seconds = hosts_seconds(u->whole, algo->kind, bytes, times, *seconds);
    if (by_hosts && traffic)
        repeat(traffic, n, (uint64_t)times);
    return status;
}

coll_status price_one(const struct layout *l, const struct algo *algo,
                      enum layout_order order, int segments, size_t bytes,
                      struct sim_traffic *traffic, double *seconds)
{
    struct lineup u;
    coll_status status = line_up(&u, l, order);
    if (status == COLL_OK)
        status = rehearse_one(&u, algo, segments, bytes, 0, traffic, seconds);
    dismiss(&u);
    return status;
}

/* How many messages all ranks send, about: each as many as the last
 * position sends or hears, which is no root and leads no group. */
static double messages_of(const struct layout *l, const struct algo *algo,
                          const struct plan_tree *tree, int segments)
{
    struct plan p;
    double sends = 0, recvs = 0;
    algo->plan(&p,
               &(struct plan_shape){l->nranks - 1, l->nranks, segments, tree});
    for (int i = 0; i < p.nsteps; i++) {
        sends += p.steps[i].kind == PLAN_SEND;
        recvs += p.steps[i].kind == PLAN_RECV;
    }
    const bool planned = p.status == COLL_OK;
    plan_free(&p);
    return planned ? fmax(sends, recvs) * l->nranks : INFINITY;
}

int16_t price_log(double seconds)
{
    const double units = 256 * log2(fmax(seconds, 1e-9) / 100e-9);
    return (int16_t)lrint(fmin(fmax(units, INT16_MIN), PRICE_NONE - 1));
}

/* --- All candidates
 * ----------------------------------------------------------
 *
 * First each is rehearsed at the shortest and at the longest rung. Then,
 * from the middle outwards, only those are rehearsed that the lines between
 * the rungs promise to be about as fast as the best of their collective. So
 * most of the time goes to what may be chosen, and what the budget leaves
 * out is the finest.
 */

struct candidate {
    struct price_row *row;
    const struct algo *algo;
    const struct lineup *lineup;
    bool pipelines; /* segments count, of the plan or by hosts */
    struct ladder ladder;
    double messages[PRICE_VARIANTS]; /* of one rehearsal; NAN: not asked */
    double seconds, seconds_of;      /* the last took, and its messages */
};

struct pricing {
    const struct layout *layout;
    struct candidate candidates[PRICE_ROWS];
    int n;
    double max_messages, until; /* of one rehearsal; seconds of now() */
    uint32_t rehearsals;
};

/* Of this thread: on a crowded machine the choice is to be no worse. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Whether a rehearsal is likely to end in time: it takes more than in
 * proportion to its messages where they share links. */
static bool affords(const struct pricing *p, struct candidate *c, int variant)
{
    if (isnan(c->messages[variant]))
        c->messages[variant] =
            messages_of(c->lineup->at, c->algo, &c->lineup->tree, 1 << variant);
    const double messages = c->messages[variant];
    const double more = c->seconds_of > 0 ? messages / c->seconds_of : 0;
    return messages <= p->max_messages
           && now() + c->seconds * fmax(more * more, more) < p->until;
}

/* Where many messages share links, finding their rates at each of their ends
 * takes most of the time. Finding them at every few takes a tenth of it; of 614
 * random cases 24 were off by more than 2 %, the worst by 12 %. */
enum { EXACT = 4000 }; /* messages, up to which it is done in full */
static const double coarse = 5e-5;

/* *seconds: NAN if the budget does not allow it. */
static coll_status climb(struct pricing *p, struct candidate *c, int variant,
                         int rung, double *seconds)
{
    double *at = &c->ladder.seconds[variant][rung];
    if (isnan(*at) && affords(p, c, variant)) {
        const double begun = now();
        const double instant = c->messages[variant] > EXACT ? coarse : 0;
        const coll_status status =
            rehearse_one(c->lineup, c->algo, 1 << variant,
                         price_bytes(ladder_class[rung]), instant, NULL, at);
        if (status == COLL_ERR_PEER)
            log_line(COLL_LOG_WARN, "select",
                     "%s is not considered: on %d ranks %s", c->algo->full_name,
                     p->layout->nranks, fail_sentence());
        if (status == COLL_ERR_UNSUPPORTED || status == COLL_ERR_PEER) {
            *at = NAN;
            c->messages[variant] = INFINITY;
        } else if (status < 0) {
            return fail(status, "select", "rehearsal of %s on %d ranks: %s",
                        c->algo->full_name, p->layout->nranks, fail_sentence());
        }
        c->seconds = now() - begun;
        c->seconds_of = c->messages[variant];
        p->rehearsals++;
    }
    *seconds = *at;
    return COLL_OK;
}

/* At the longest rung, twice the segments as long as that helps. */
static coll_status climb_longest(struct pricing *p, struct candidate *c)
{
    double before = INFINITY, seconds = 0;
    coll_status status = COLL_OK;
    for (int v = 0; v < PRICE_VARIANTS && status == COLL_OK; v++) {
        status = climb(p, c, v, LADDER_LAST, &seconds);
        if (!(seconds < before) || !c->pipelines)
            break;
        before = seconds;
    }
    return status;
}

/* At another rung: as many segments as are best for longer vectors, and
 * fewer as long as that helps. */
static coll_status climb_shorter(struct pricing *p, struct candidate *c,
                                 int rung)
{
    const size_t bytes = price_bytes(ladder_class[rung]);
    double before = INFINITY, seconds = 0;
    int v, longer = rung + 1;
    while (longer < LADDER_LAST && isnan(c->ladder.seconds[0][longer]))
        longer++;
    ladder_best(&c->ladder, price_bytes(ladder_class[longer]), &v);
    while (!ladder_may(v, bytes))
        v--;
    coll_status status = climb(p, c, 0, rung, &seconds);
    for (; v > 0 && status == COLL_OK; v--) {
        status = climb(p, c, v, rung, &seconds);
        if (!(seconds < before))
            break;
        before = seconds;
    }
    return status;
}

static double expected(const struct candidate *c, int rung)
{
    int variant;
    return ladder_best(&c->ladder, price_bytes(ladder_class[rung]), &variant);
}

/* Of all candidates of a collective. */
static double least(const struct pricing *p, enum coll_kind kind, int rung)
{
    double best = INFINITY;
    for (int i = 0; i < p->n; i++)
        if (p->candidates[i].algo->kind == kind)
            best = fmin(best, expected(&p->candidates[i], rung));
    return best;
}

/* Those that are not far behind, for so far as lines can tell. Segments that
 * were not tried here may help some; where none was tried yet, in proportion.
 */
static coll_status climb_rung(struct pricing *p, enum coll_kind kind, int rung,
                              double behind)
{
    const double helped = rung == LADDER_LAST ? PLAN_SEGMENTS_MAX : 1.5;
    coll_status status = COLL_OK;
    for (int i = 0; i < p->n && status == COLL_OK; i++) {
        struct candidate *c = &p->candidates[i];
        const double far = c->pipelines ? helped * behind : behind;
        if (c->algo->kind == kind
            && expected(c, rung) <= far * least(p, kind, rung))
            status = rung == LADDER_LAST ? climb_longest(p, c)
                                         : climb_shorter(p, c, rung);
    }
    return status;
}

/* The ends of all; then one collective after another, allreduce before all. */
static coll_status rehearse_all(struct pricing *p)
{
    static const struct {
        int rung;
        double behind;
    } steps[] = {
        {LADDER_LAST, 4  },
        {6,           2  },
        {3,           2  },
        {9,           2  },
        {1,           1.3},
        {8,           1.3},
        {5,           1.3},
        {4,           1.3},
        {7,           1.3},
        {2,           1.3},
        {10,          1.3},
    };
    coll_status status = COLL_OK;
    double seconds;
    for (int i = 0; i < 2 * p->n && status == COLL_OK; i++)
        status = climb(p, &p->candidates[i / 2], 0, i % 2 ? LADDER_LAST : 0,
                       &seconds);
    const int nsteps = (int)(sizeof(steps) / sizeof(steps[0]));
    for (int i = 0; i < NKINDS * nsteps && status == COLL_OK; i++)
        status = climb_rung(p, (enum coll_kind)(i / nsteps),
                            steps[i % nsteps].rung, steps[i % nsteps].behind);
    return status;
}

static void fill_row(const struct candidate *c)
{
    for (int class = 0; class < PRICE_CLASSES; class ++) {
        int variant;
        const double seconds =
            ladder_best(&c->ladder, price_bytes(class), &variant);
        c->row->recalled[class] = PRICE_NONE;
        c->row->variant[class] = (uint8_t)variant;
        c->row->log_time[class] =
            isinf(seconds) ? PRICE_NONE : price_log(seconds);
    }
}

/* Whether two algorithms write the same plan for a position. */
static bool alike_at(const struct candidate *a, const struct candidate *b,
                     int position, int nranks)
{
    const struct plan_shape shape = {position, nranks, 1, &a->lineup->tree};
    struct plan x, y;
    a->algo->plan(&x, &shape);
    b->algo->plan(&y, &shape);
    const bool alike =
        x.status == COLL_OK && y.status == COLL_OK && x.nsteps == y.nsteps
        && x.nchunks == y.nchunks
        && !memcmp(x.steps, y.steps, (size_t)x.nsteps * sizeof(*x.steps));
    plan_free(&x);
    plan_free(&y);
    return alike;
}

/* For few ranks several algorithms come to the same: direct is recursive
 * multiplying in one round. To try both would teach nothing. */
static void find_twin(const struct pricing *p, int i)
{
    enum { MANY = 64 };
    const struct candidate *c = &p->candidates[i];
    const int n = c->lineup->at->nranks;
    const bool may = n <= MANY && !algo_pipelines(c->algo, n);
    c->row->twin = (uint8_t)i;
    for (int k = 0; k < i && may; k++) {
        const struct candidate *other = &p->candidates[k];
        bool alike = other->algo->kind == c->algo->kind
                     && other->lineup == c->lineup
                     && !algo_pipelines(other->algo, n);
        for (int r = 0; r < n && alike; r++)
            alike = alike_at(c, other, r, n);
        if (alike) {
            c->row->twin = (uint8_t)k;
            return;
        }
    }
}

static void list(struct pricing *p, struct prices *prices,
                 const struct lineup *lineups)
{
    /* By hosts first: few positions, and mostly the best. */
    for (int i = 0; i < NLINEUPS; i++)
        for (int a = 0; a < nplanned; a++) {
            const int order = (i + ORDER_HOSTS) % NLINEUPS;
            if (!price_fits(p->layout, &algos[a], (enum layout_order)order)
                || p->n == PRICE_ROWS)
                continue;
            struct candidate *c = &p->candidates[p->n++];
            *c = (struct candidate){
                .row = &prices->row[prices->nrows++],
                .algo = &algos[a],
                .lineup = &lineups[order],
            };
            c->pipelines =
                price_pipelines(p->layout, c->algo, (enum layout_order)order);
            *c->row =
                (struct price_row){.algo = (uint8_t)a, .order = (uint8_t)order};
            ladder_clear(&c->ladder);
            for (int v = 0; v < PRICE_VARIANTS; v++)
                c->messages[v] = NAN;
        }
}

coll_status price_all(struct prices *prices, const struct layout *l,
                      double max_messages, double max_seconds)
{
    struct lineup lineups[NLINEUPS] = {{.order = NULL}};
    struct pricing *p = calloc(1, sizeof(*p));
    if (!p)
        return fail(COLL_ERR_MEMORY, "select", "no memory for prices");
    p->layout = l;
    p->max_messages = max_messages;
    p->until = now() + max_seconds;
    *prices = (struct prices){.layout = layout_digest(l)};
    coll_status status = COLL_OK;
    for (int order = 0; order < NLINEUPS && status == COLL_OK; order++)
        if (!layout_by_hosts((enum layout_order)order) || l->by_hosts)
            status = line_up(&lineups[order], l, (enum layout_order)order);
    if (status == COLL_OK) {
        list(p, prices, lineups);
        status = rehearse_all(p);
    }
    for (int i = 0; i < p->n && status == COLL_OK; i++) {
        fill_row(&p->candidates[i]);
        find_twin(p, i);
    }
    prices->rehearsals = p->rehearsals;
    for (int order = 0; order < NLINEUPS; order++)
        dismiss(&lineups[order]);
    free(p);
    return status;
}
