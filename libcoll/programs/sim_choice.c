/* SPDX-License-Identifier: MIT */
#include "programs/sim_choice.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "comm/lineup.h"

coll_status choices_open(struct choices *c, const struct world *w,
                         enum algo_order asked)
{
    *c = (struct choices){.world = w, .asked = asked};
    if (w->nranks > CHOICE_RANKS)
        return COLL_OK;
    c->priced = true;
    const clock_t begin = clock();
    const coll_status status =
        price_within(&c->select.prices, &w->layout,
                     &(struct price_limits){.messages = PRICE_MAX_MESSAGES,
                                            .seconds = 1e9,
                                            .in_pairs = asked == IN_PAIRS});
    c->seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    return status;
}

void choices_close(struct choices *c)
{
    select_free(&c->select);
}

/* What a result of this kind asks for. */
static enum algo_order order_of(const struct choices *c, enum coll_kind kind)
{
    return kind_reduces(kind) ? c->asked : ANY_ORDER;
}

bool choices_get(struct choices *c, enum coll_kind kind, size_t bytes,
                 struct trial *t)
{
    struct select_choice choice;
    const enum algo_order order = order_of(c, kind);
    const coll_status status =
        !c->priced ? COLL_ERR_UNSUPPORTED
        : order == ANY_ORDER
            ? select_best(&c->select, kind, bytes, &choice)
            : select_in_order(&c->select, kind, bytes,
                              (struct select_need){.order = order}, &choice);
    if (status < 0 || choice.predicted < 0)
        return false;
    *t = (struct trial){
        .world = c->world,
        .algo = &algos[choice.algo],
        .order = choice.order,
        .bytes = bytes,
        .segments = 1 << choice.variant,
        .chosen = true,
    };
    return true;
}

bool choices_considers(const struct world *w, const struct algo *algo,
                       enum layout_order order)
{
    return algo->way == BY_PLAN && price_fits(&w->layout, algo, order);
}

static int by_least(const void *a, const void *b)
{
    const struct trial *x = a, *y = b;
    return x->at_least < y->at_least ? -1 : x->at_least > y->at_least;
}

static const struct trial *fastest_of(const struct trial *trials, int n)
{
    const struct trial *best = NULL;
    for (int i = 0; i < n; i++)
        if (trials[i].state == TRIAL_FAILED)
            return &trials[i];
        else if (trials[i].state == TRIAL_DONE
                 && (!best || trials[i].seconds < best->seconds))
            best = &trials[i];
    return best;
}

/* A candidate, and what it took for the last two lengths that it was tried
 * with, the last one first. */
struct candidate {
    const struct algo *algo;
    enum layout_order order;
    int ntried;
    double bytes[2], seconds[2];
};

/* What it takes for a longer vector in any case: no less than for a shorter
 * one, and about as much more as it took more the last time. */
static double least_seconds(const struct candidate *c, double bytes)
{
    enum { SURE = 2 };
    const double margin = 1.25;
    if (c->ntried < SURE)
        return c->ntried ? c->seconds[0] : 0;
    const double slope =
        (c->seconds[0] - c->seconds[1]) / (c->bytes[0] - c->bytes[1]);
    return fmax(c->seconds[0],
                (c->seconds[0] + slope * (bytes - c->bytes[0])) / margin);
}

static bool serves(const struct lineup *u, const struct algo *algo,
                   enum algo_order asked)
{
    return asked == ANY_ORDER ? !algo_in_order(algo)
                              : lineup_keeps(u, algo) >= asked;
}

/* All that the library considers. */
static coll_status list_all(const struct choices *c, enum coll_kind kind,
                            struct candidate *all, int *n)
{
    const struct world *w = c->world;
    const enum algo_order asked = order_of(c, kind);
    coll_status status = COLL_OK;
    *n = 0;
    for (int i = 0; i < NLINEUPS && status == COLL_OK; i++) {
        const enum layout_order order = (enum layout_order)i;
        struct lineup u;
        if (layout_by_hosts(order) && !w->layout.by_hosts)
            continue;
        status = lineup_open(&u, &w->layout, order);
        for (int a = 0; a < nplanned && status == COLL_OK; a++)
            if (algos[a].kind == kind && serves(&u, &algos[a], asked)
                && rules_allow(&c->select.rules, a, order, 1)
                && choices_considers(w, &algos[a], order))
                all[(*n)++] =
                    (struct candidate){.algo = &algos[a], .order = order};
        lineup_close(&u);
    }
    return status;
}

/* Of one whose best number of segments is known. */
static void remember(struct candidate *all, int n, const struct trial *t)
{
    for (int i = 0; i < n; i++) {
        struct candidate *c = &all[i];
        if (t->state != TRIAL_DONE || t->bounded || c->algo != t->algo
            || c->order != t->order)
            continue;
        c->bytes[1] = c->bytes[0];
        c->seconds[1] = c->seconds[0];
        c->bytes[0] = (double)t->bytes;
        c->seconds[0] = t->seconds;
        c->ntried++;
    }
}

/* The most promising first, so that most need not be tried. */
static void try_out(const struct world *w, struct candidate *all, int n,
                    struct trial *trials, size_t bytes,
                    const struct trials_limits *limits, struct trial *fastest)
{
    struct trials_limits race = *limits;
    race.race = true;
    for (int i = 0; i < n; i++)
        trials[i] = (struct trial){
            .world = w,
            .algo = all[i].algo,
            .order = all[i].order,
            .bytes = bytes,
            .at_least = least_seconds(&all[i], (double)bytes),
        };
    qsort(trials, (size_t)n, sizeof(*trials), by_least);
    trials_run(trials, n, &race);
    for (int i = 0; i < n; i++)
        remember(all, n, &trials[i]);
    const struct trial *best = fastest_of(trials, n);
    *fastest = best ? *best : (struct trial){.state = TRIAL_LARGE};
    fastest->chosen = true;
}

coll_status choices_run(struct choices *c, enum coll_kind kind,
                        const size_t *sizes, int nsizes,
                        const struct trials_limits *limits,
                        struct trial *fastest)
{
    const size_t most = (size_t)(nplanned * NLINEUPS);
    struct candidate *all = calloc(most, sizeof(*all));
    struct trial *trials = calloc(most, sizeof(*trials));
    coll_status status = COLL_OK;
    if (!all || !trials)
        status = fail(COLL_ERR_MEMORY, "sim", "no memory for a list");
    int n = 0;
    if (status == COLL_OK)
        status = list_all(c, kind, all, &n);
    for (int i = 0; i < nsizes && status == COLL_OK; i++) {
        if (choices_get(c, kind, sizes[i], &fastest[i]))
            trials_run(&fastest[i], 1, limits);
        else
            try_out(c->world, all, n, trials, sizes[i], limits, &fastest[i]);
    }
    free(all);
    free(trials);
    return status;
}
