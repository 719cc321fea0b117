/* SPDX-License-Identifier: MIT */
#include "comm/price.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "comm/climb.h"
#include "comm/hosts.h"

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

int price_half(size_t bytes)
{
    const int class = price_class(bytes);
    return 2 * class
           + (bytes >> class > 1 || bytes >= price_half_from(2 * class + 1));
}

size_t price_half_from(int half)
{
    const size_t low = (size_t)1 << half / 2;
    return half % 2 ? low + (low + 1) / 2 : low;
}

int price_half_time(const struct price_row *row, int half)
{
    enum { DOWN = 50, UP = 75, WHOLE = 256 }; /* of the way to the neighbour */
    const int class = half / 2, other = half % 2 ? class + 1 : class - 1;
    const int own = row->log_time[class];
    if (own == PRICE_NONE || other < 0 || other >= PRICE_CLASSES
        || row->log_time[other] == PRICE_NONE)
        return own;
    return own + (row->log_time[other] - own) * (half % 2 ? UP : DOWN) / WHOLE;
}

static double seconds_of(const struct price_row *row, int class)
{
    return 100e-9 * exp2(row->log_time[class] / 256.0);
}

/* Whether the longer vector comes out cheaper by more than 3 %, being cut into
 * other segments: of the shorter one too few were rehearsed, or of both. */
static bool is_no_line(const struct price_row *row, int shorter)
{
    enum { NOISE = 11 };
    return row->variant[shorter] != row->variant[shorter + 1]
           && row->log_time[shorter + 1] + NOISE < row->log_time[shorter];
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
    if (is_no_line(row, class < other ? class : other))
        return seconds_of(row, class) * (double)bytes / middle;
    const double at =
        ((double)bytes - middle) / ((double)price_bytes(other) - middle);
    return seconds_of(row, class)
           + at * (seconds_of(row, other) - seconds_of(row, class));
}

int price_positions(const struct layout *l, enum layout_order order)
{
    return layout_by_hosts(order) ? layout_hosts(l) : l->nranks;
}

/* Whether the vector is cut for the stages by hosts. */
static bool is_cut(const struct layout *l, const struct algo *algo,
                   enum layout_order order)
{
    return layout_by_hosts(order)
           && hosts_segments(algo, layout_hosts(l), 2) > 1;
}

bool price_pipelines(const struct layout *l, const struct algo *algo,
                     enum layout_order order)
{
    return algo_pipelines(algo, price_positions(l, order))
           || is_cut(l, algo, order);
}

/* Others staged.c does not know how to take apart. */
static bool has_stages(enum coll_kind kind)
{
    return kind != GATHER && kind != SCATTER && kind != ALLTOALL;
}

/* Dealing hosts over groups makes sense where dealing ranks does. */
static bool fits_by_hosts(const struct layout *l, const struct algo *algo,
                          enum layout_order order)
{
    if (order == ORDER_HOSTS_DEALT
        && (algo->kind != ALLREDUCE || l->net.nhost_levels < 2))
        return false;
    return l->by_hosts > 0 && has_stages(algo->kind)
           && (!kind_has_parts(algo->kind) || layout_even(l))
           && algo->fits(
               &(struct plan_shape){.nranks = layout_hosts(l), .segments = 1});
}

bool price_fits(const struct layout *l, const struct algo *algo,
                enum layout_order order)
{
    if (algo_in_order(algo) && order != ORDER_GIVEN && order != ORDER_HOSTS)
        return false;
    if (layout_by_hosts(order))
        return fits_by_hosts(l, algo, order);
    const bool parts = kind_has_parts(algo->kind) || algo->kind == BARRIER;
    const bool grouped =
        l->net.nlevels > 0 && l->net.level[0].ngroups < l->nranks;
    if (!algo->fits(&(struct plan_shape){.nranks = l->nranks, .segments = 1}))
        return false;
    if (parts || !grouped || algo_in_order(algo))
        return order == ORDER_GIVEN;
    return order == ORDER_BLOCK
           || (order == ORDER_ROUND_ROBIN && algo->kind == ALLREDUCE);
}

coll_status price_one(const struct layout *l, const struct algo *algo,
                      enum layout_order order, int segments, size_t bytes,
                      struct sim_traffic *traffic, double *seconds)
{
    const struct performance what = {
        .algo = algo, .segments = segments, .bytes = bytes, .traffic = traffic};
    struct lineup u;
    coll_status status = lineup_open(&u, l, order);
    if (status == COLL_OK)
        status = lineup_rehearse(&u, &what, seconds);
    lineup_close(&u);
    return status;
}

int16_t price_log(double seconds)
{
    const double units = 256 * log2(fmax(seconds, 1e-9) / 100e-9);
    return (int16_t)lrint(fmin(fmax(units, INT16_MIN), PRICE_NONE - 1));
}

static void fill_row(struct price_row *row, const struct ladder *ladder)
{
    for (int class = 0; class < PRICE_CLASSES; class ++) {
        int variant;
        const double seconds =
            ladder_choice(ladder, price_bytes(class), &variant);
        if (ladder_leans_on(ladder, variant, price_bytes(class)) >= 0)
            row->bounds |= UINT64_C(1) << class;
        row->recalled[2 * class] = row->recalled[2 * class + 1] = PRICE_NONE;
        row->variant[class] = (uint8_t)variant;
        row->log_time[class] = isinf(seconds) ? PRICE_NONE : price_log(seconds);
    }
}

/* Whether two algorithms write the same plan for a position. */
static bool alike_at(const struct candidate *a, const struct candidate *b,
                     int position, int nranks, int root)
{
    const struct plan_shape shape = {position, nranks, 1, &a->lineup->tree,
                                     root};
    struct plan x, y;
    a->algo->plan(&x, &shape);
    b->algo->plan(&y, &shape);
    const bool alike =
        x.status == COLL_OK && y.status == COLL_OK && x.nsteps == y.nsteps
        && x.nchunks == y.nchunks
        && (x.nsteps == 0
            || !memcmp(x.steps, y.steps, (size_t)x.nsteps * sizeof(*x.steps)));
    plan_free(&x);
    plan_free(&y);
    return alike;
}

/* Of the plan of position 0, which tells most that differ apart. */
static uint64_t digest_of(const struct candidate *c)
{
    uint64_t h = 0xcbf29ce484222325u;
    struct plan p;
    c->algo->plan(&p, &(struct plan_shape){0, c->lineup->at->nranks, 1,
                                           &c->lineup->tree, 0});
    for (int i = 0; i < p.nsteps; i++) {
        uint64_t words[sizeof(*p.steps) / sizeof(uint64_t)];
        memcpy(words, &p.steps[i], sizeof(words));
        for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
            h = (h ^ words[k]) * 0x100000001b3u;
    }
    plan_free(&p);
    return h;
}

/* For few ranks several algorithms come to the same: direct is recursive
 * multiplying in one round; and without groups those that look at them. To try
 * both would teach nothing. */
static void find_twins(const struct pricing *p, int nrows)
{
    enum { MANY = 256 };
    uint64_t digest[PRICE_ROWS];
    for (int i = 0; i < nrows; i++) {
        const struct candidate *c = &p->candidates[i];
        const int n = c->lineup->at->nranks;
        /* Plans of parts are written for the root that a call has. */
        const int nroots =
            kind_has_root(c->algo->kind) && kind_has_parts(c->algo->kind) ? 2
                                                                          : 1;
        const bool may = n <= MANY && !algo_pipelines(c->algo, n);
        digest[i] = may ? digest_of(c) : 0;
        c->row->twin = (uint8_t)i;
        for (int k = 0; k < i && may && c->row->twin == i; k++) {
            const struct candidate *other = &p->candidates[k];
            bool alike =
                other->algo->kind == c->algo->kind && other->lineup == c->lineup
                && !algo_pipelines(other->algo, n) && digest[k] == digest[i];
            for (int r = 0; r < n * nroots && alike; r++)
                alike = alike_at(c, other, r % n, n, r / n);
            if (!alike)
                continue;
            c->row->twin = (uint8_t)k;
            if (c->algo->kind == ALLREDUCE && other->row->keeps < c->row->keeps)
                other->row->keeps = c->row->keeps;
        }
    }
}

/* They are not rehearsed, but take what the first does. */
static void put_twins_behind(struct pricing *p, const struct prices *prices)
{
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        const struct candidate c = p->candidates[i];
        if (&prices->row[c.row->twin] != c.row)
            continue;
        p->candidates[i] = p->candidates[n];
        p->candidates[n++] = c;
    }
    p->n = n;
}

static const struct candidate *first_twin(const struct pricing *p,
                                          const struct prices *prices,
                                          const struct candidate *c)
{
    const struct price_row *row = &prices->row[c->row->twin];
    const struct candidate *first = p->candidates;
    while (first->row != row)
        first++;
    return first;
}

static void add(struct pricing *p, struct prices *prices,
                const struct lineup *lineups, int a, enum layout_order order)
{
    const int i = prices->nrows++;
    struct candidate *c = &p->candidates[i];
    *c = (struct candidate){
        .row = &prices->row[i],
        .algo = &algos[a],
        .lineup = &lineups[order],
        .pipelines = price_pipelines(p->layout, &algos[a], order),
    };
    *c->row = (struct price_row){
        .algo = (uint8_t)a,
        .order = (uint8_t)order,
        .cut = is_cut(p->layout, c->algo, order),
        .keeps = (uint8_t)lineup_keeps(c->lineup, c->algo),
    };
    ladder_clear(&c->ladder, p->layout->cache && p->layout->memory > 0
                                 ? p->layout->cache
                                 : SIZE_MAX);
    for (int v = 0; v < PRICE_VARIANTS; v++)
        c->messages[v] = NAN;
}

/* What combines in ONE_PASS goes by hosts only where that serves: IN_PAIRS, or
 * a reduce_scatter that keeps the order. */
static bool is_offered(const struct pricing *p, const struct algo *algo,
                       enum layout_order order)
{
    return price_fits(p->layout, algo, order)
           && (p->in_pairs || !layout_by_hosts(order) || !algo_in_order(algo)
               || algo->kind == REDUCE_SCATTER);
}

/* Those that are to be priced, or the others. By hosts first: few positions,
 * and mostly the best. */
static void list(struct pricing *p, struct prices *prices,
                 const struct lineup *lineups, bool priced)
{
    for (int i = 0; i < NLINEUPS; i++)
        for (int a = 0; a < nplanned; a++) {
            const enum layout_order order =
                (enum layout_order)((i + ORDER_HOSTS) % NLINEUPS);
            if (p->kinds >> algos[a].kind & 1 && is_offered(p, &algos[a], order)
                && (p->in_pairs || !algo_in_order(&algos[a])) == priced
                && prices->nrows < PRICE_ROWS)
                add(p, prices, lineups, a, order);
        }
}

coll_status price_within(struct prices *prices, const struct layout *l,
                         const struct price_limits *limits)
{
    struct lineup lineups[NLINEUPS] = {{.order = NULL}};
    struct pricing *p = calloc(1, sizeof(*p));
    if (!p)
        return fail(COLL_ERR_MEMORY, "select", "no memory for prices");
    p->layout = l;
    p->prunes = !limits->all;
    p->kinds = limits->kinds ? limits->kinds : UINT_MAX;
    p->in_pairs = limits->in_pairs;
    p->max_messages = limits->messages;
    p->until = clock_of_thread() + limits->seconds;
    *prices = (struct prices){.layout = layout_digest(l)};
    coll_status status = COLL_OK;
    for (int order = 0; order < NLINEUPS && status == COLL_OK; order++)
        if (!layout_by_hosts((enum layout_order)order) || l->by_hosts)
            status = lineup_open(&lineups[order], l, (enum layout_order)order);
    if (status == COLL_OK) {
        list(p, prices, lineups, true);
        p->n = prices->nrows;
        list(p, prices, lineups, false);
        find_twins(p, prices->nrows);
        put_twins_behind(p, prices);
        status = climb_all(p);
    }
    for (int i = 0; i < prices->nrows && status == COLL_OK; i++) {
        const struct candidate *c = &p->candidates[i];
        fill_row(c->row, &first_twin(p, prices, c)->ladder);
    }
    prices->rehearsals = p->rehearsals;
    casts_free(&p->casts);
    for (int order = 0; order < NLINEUPS; order++)
        lineup_close(&lineups[order]);
    free(p);
    return status;
}
