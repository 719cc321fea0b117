/* SPDX-License-Identifier: MIT */
#include "comm/climb.h"

#include <math.h>

#include "base/clock.h"
#include "base/log.h"

static double messages_of(struct candidate *c, int variant)
{
    if (isnan(c->messages[variant]))
        c->messages[variant] =
            lineup_messages(c->lineup, c->algo, 1 << variant);
    return c->messages[variant];
}

/* Whether a rehearsal is likely to end in time: it takes more than in
 * proportion to its messages where they share links. */
static bool affords(const struct pricing *p, struct candidate *c, int variant)
{
    const double messages = messages_of(c, variant);
    const double more = c->seconds_of > 0 ? messages / c->seconds_of : 0;
    return messages <= p->max_messages
           && clock_of_thread() + c->seconds * fmax(more * more, more)
                  < p->until;
}

/* Messages, from which on a rehearsal is dear. Where many share links, finding
 * their rates at each of their ends takes most of the time. Finding them at
 * every few takes a tenth of it; at every thousandth of the time, of 408 cases
 * 7 were off by more than 2 %, most in an order that fits the groups badly, the
 * worst by 10 %. The more messages, the less one of them tells: from 30,000 on
 * three thousandths do, within 1.1 % of finer ones in 13 cases.
 */
enum { DEAR = 4000, VERY_DEAR = 30000 };

static double instant_for(double messages)
{
    return messages > VERY_DEAR ? 3e-3 : messages > DEAR ? 1e-3 : 0;
}

/* Who takes this much longer than the best at a rung, at the least, is not
 * worth a rehearsal there: the least is its price. */
static const double hopeless = 1.25;

/* By the lines between the rungs. */
static double expected(const struct candidate *c, int rung)
{
    int variant;
    return ladder_best(&c->ladder, price_bytes(ladder_class[rung]), &variant);
}

/* With any number of segments. */
static double own_best(const struct candidate *c, int rung)
{
    double best = INFINITY;
    for (int v = 0; v < PRICE_VARIANTS; v++)
        if (!ladder_bounded(&c->ladder, v, rung))
            best = fmin(best, c->ladder.seconds[v][rung]);
    return best;
}

/* Whether it is in the race, so that others are measured by it. */
static bool competes(const struct pricing *p, const struct candidate *c,
                     enum coll_kind kind)
{
    return c->algo->kind == kind
           && (!p->only_pairs || c->row->keeps >= IN_PAIRS);
}

/* Of a collective, the least that was rehearsed at a rung. */
static double best_at(const struct pricing *p, enum coll_kind kind, int rung)
{
    double best = INFINITY;
    for (int i = 0; i < p->n; i++)
        if (competes(p, &p->candidates[i], kind))
            best = fmin(best, own_best(&p->candidates[i], rung));
    return best;
}

/* Whether the least that it takes tells enough. Who leads is not asked. */
static bool rules_out(const struct pricing *p, const struct candidate *c,
                      double seconds, int rung)
{
    const double best = best_at(p, c->algo->kind, rung);
    return p->prunes && !isinf(best) && expected(c, rung) > best
           && seconds >= fmin(hopeless * best, own_best(c, rung));
}

/* Of what is dear; 0: nothing is known, a failure is left to the rehearsal. */
static double least_seconds(struct candidate *c, int variant,
                            const struct performance *what)
{
    double seconds = 0;
    return messages_of(c, variant) > DEAR
                   && lineup_bound(c->lineup, what, &seconds) == COLL_OK
               ? seconds
               : 0;
}

/* A coarse rehearsal may come out below the bound: then that is nearer. surely:
 * the bound alone will not do. */
static coll_status try_out(struct pricing *p, struct candidate *c, int variant,
                           int rung, bool surely)
{
    double *at = &c->ladder.seconds[variant][rung];
    const double begun = clock_of_thread();
    struct performance what = {.algo = c->algo,
                               .segments = 1 << variant,
                               .bytes = price_bytes(ladder_class[rung]),
                               .instant = instant_for(messages_of(c, variant))};
    coll_status status = casts_get(&p->casts, c->lineup, &what, &what.cast);
    const double bound =
        status == COLL_OK ? least_seconds(c, variant, &what) : 0;
    if (bound > 0 && !surely && rules_out(p, c, bound, rung)) {
        ladder_bound(&c->ladder, variant, rung, bound);
        return COLL_OK;
    }
    if (status == COLL_OK)
        status = lineup_rehearse(c->lineup, &what, at);
    if (status == COLL_OK)
        *at = fmax(*at, bound);
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
    c->seconds = clock_of_thread() - begun;
    c->seconds_of = c->messages[variant];
    p->rehearsals++;
    return COLL_OK;
}

/* Of all candidates of a collective. */
static double least(const struct pricing *p, enum coll_kind kind, int rung)
{
    double best = INFINITY;
    for (int i = 0; i < p->n; i++)
        if (competes(p, &p->candidates[i], kind))
            best = fmin(best, expected(&p->candidates[i], rung));
    return best;
}

/* Whether there is a line to a rung, from one at which every chunk has some
 * bytes. Below, there are fewer messages, and lines tell nothing. */
static bool has_line(const struct candidate *c, int variant, int rung)
{
    const int low = ladder_below(&c->ladder, variant, rung);
    const size_t chunks = (size_t)c->lineup->at->nranks << variant;
    return low >= 0 && price_bytes(ladder_class[low]) >= 4 * chunks;
}

/* Whether a line will do, since it is sure: for what is dear, and for what is
 * slower than the best in any case. */
static bool line_will_do(const struct pricing *p, struct candidate *c,
                         int variant, int rung)
{
    const double slower = 1.1;
    const size_t bytes = price_bytes(ladder_class[rung]);
    return p->prunes && has_line(c, variant, rung)
           && ladder_sure(&c->ladder, variant, rung)
           && (messages_of(c, variant) > DEAR
               || ladder_seconds(&c->ladder, variant, bytes)
                      > slower * least(p, c->algo->kind, rung));
}

/* *seconds: NAN if the budget does not allow it; INFINITY if all that is known
 * is that it is not worth it. */
static coll_status climb(struct pricing *p, struct candidate *c, int variant,
                         int rung, double *seconds)
{
    const struct ladder *l = &c->ladder;
    coll_status status = COLL_OK;
    *seconds = l->seconds[variant][rung];
    if (isnan(*seconds) && line_will_do(p, c, variant, rung)) {
        *seconds = ladder_seconds(l, variant, price_bytes(ladder_class[rung]));
        return COLL_OK;
    }
    if (isnan(*seconds) && affords(p, c, variant))
        status = try_out(p, c, variant, rung, false);
    *seconds =
        ladder_bounded(l, variant, rung) ? INFINITY : l->seconds[variant][rung];
    return status;
}

/* At the longest rung, twice the segments as long as that helps. */
static coll_status climb_longest(struct pricing *p, struct candidate *c)
{
    double before = INFINITY, seconds = 0;
    coll_status status = COLL_OK;
    for (int v = 0; v < PRICE_VARIANTS && status == COLL_OK; v++) {
        status = climb(p, c, v, LADDER_LAST, &seconds);
        if (!(seconds < before || isinf(seconds)) || !c->pipelines)
            break;
        before = seconds;
    }
    return status;
}

/* As many segments as are best for longer vectors. */
static int variant_for(const struct candidate *c, int rung)
{
    int v, longer = rung + 1;
    while (longer < LADDER_LAST && !ladder_knows(&c->ladder, longer))
        longer++;
    ladder_best(&c->ladder, price_bytes(ladder_class[longer]), &v);
    while (!ladder_may(v, price_bytes(ladder_class[rung])))
        v--;
    return v;
}

/* What by the lines seems best of any number of segments is rehearsed. */
static coll_status make_sure(struct pricing *p, struct candidate *c, int rung)
{
    coll_status status = COLL_OK;
    double seconds;
    for (int last = -1, v = 0; status == COLL_OK && v != last;) {
        last = v;
        ladder_best(&c->ladder, price_bytes(ladder_class[rung]), &v);
        status = climb(p, c, v, rung, &seconds);
    }
    return status;
}

/* At another rung: as many segments as are best for longer vectors, and fewer
 * as long as that helps; not those that can not, by what they took elsewhere.
 * Then more, where the longest left all alike. What then seems best is made
 * sure of. */
static coll_status climb_shorter(struct pricing *p, struct candidate *c,
                                 int rung)
{
    const size_t bytes = price_bytes(ladder_class[rung]);
    const int first = variant_for(c, rung);
    double best = INFINITY, seconds = 0;
    int best_v = first;
    coll_status status = COLL_OK;
    for (int v = first; v >= 0 && status == COLL_OK; v--) {
        if (ladder_floor(&c->ladder, v, rung) >= best)
            continue;
        status = climb(p, c, v, rung, &seconds);
        if (!(seconds < best || isinf(seconds)))
            break;
        best_v = seconds < best ? v : best_v;
        best = fmin(best, seconds);
    }
    for (int v = first + 1;
         best_v == v - 1 && c->pipelines && v < PRICE_VARIANTS
         && ladder_may(v, bytes) && status == COLL_OK;
         v++) {
        status = climb(p, c, v, rung, &seconds);
        best_v = seconds < best ? v : best_v;
        best = fmin(best, seconds);
    }
    return status == COLL_OK ? make_sure(p, c, rung) : status;
}

/* What is expected, where segments that were tried for longer vectors only may
 * help as much here. */
static double hoped(const struct candidate *c, int rung)
{
    const size_t bytes = price_bytes(ladder_class[rung]);
    double best = expected(c, rung);
    for (int v = 1; v < PRICE_VARIANTS; v++)
        if (ladder_may(v, bytes) && isinf(ladder_seconds(&c->ladder, v, bytes))
            && ladder_floor(&c->ladder, v, rung) > 0)
            best = fmin(best, ladder_floor(&c->ladder, v, rung));
    return best;
}

/* Those that are not far behind, for so far as lines can tell, the best first;
 * at the last rung, where segments were not tried yet, in proportion. */
static int list_near(struct pricing *p, enum coll_kind kind, int rung,
                     double behind, struct candidate **near)
{
    const double helped = rung == LADDER_LAST ? PLAN_SEGMENTS_MAX : 1;
    const double best = least(p, kind, rung);
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        struct candidate *c = &p->candidates[i];
        const double far = c->pipelines ? helped * behind : behind;
        if (!competes(p, c, kind) || !(hoped(c, rung) <= far * best))
            continue;
        int at = n++;
        for (; at > 0 && hoped(near[at - 1], rung) > hoped(c, rung); at--)
            near[at] = near[at - 1];
        near[at] = c;
    }
    return n;
}

/* Where nobody else is near, a line will do for what is dear. */
static bool is_settled(struct candidate *c, int rung)
{
    int variant;
    ladder_best(&c->ladder, price_bytes(ladder_class[rung]), &variant);
    return messages_of(c, variant) > DEAR && has_line(c, variant, rung);
}

static coll_status climb_rung(struct pricing *p, enum coll_kind kind, int rung,
                              double behind)
{
    struct candidate *near[PRICE_ROWS];
    const int n = list_near(p, kind, rung, behind, near);
    coll_status status = COLL_OK;
    if (n == 1 && p->prunes && behind < 2 && is_settled(near[0], rung))
        return COLL_OK;
    for (int i = 0; i < n && status == COLL_OK; i++)
        status = rung == LADDER_LAST ? climb_longest(p, near[i])
                                     : climb_shorter(p, near[i], rung);
    return status;
}

/* Rungs that were rehearsed since bend the lines: what has come to seem about
 * as good as the best is rehearsed as well. */
static coll_status climb_again(struct pricing *p, enum coll_kind kind, int rung)
{
    struct candidate *near[PRICE_ROWS];
    const int n = list_near(p, kind, rung, 1.02, near);
    coll_status status = COLL_OK;
    for (int i = 0; i < n && status == COLL_OK; i++)
        if (!is_settled(near[i], rung))
            status = make_sure(p, near[i], rung);
    return status;
}

/* Of all; those with the fewest messages first, so that bounds can tell, and
 * that a budget is not spent on a few. */
static coll_status climb_ends(struct pricing *p)
{
    struct candidate *by_messages[PRICE_ROWS];
    coll_status status = COLL_OK;
    double seconds;
    for (int i = 0; i < p->n; i++) {
        struct candidate *c = &p->candidates[i];
        int at = i;
        for (;
             at > 0 && messages_of(by_messages[at - 1], 0) > messages_of(c, 0);
             at--)
            by_messages[at] = by_messages[at - 1];
        by_messages[at] = c;
    }
    for (int i = 0; i < 2 * p->n && status == COLL_OK; i++)
        status =
            climb(p, by_messages[i / 2], 0, i % 2 ? LADDER_LAST : 0, &seconds);
    return status;
}

static struct candidate *leader(struct pricing *p, enum coll_kind kind,
                                size_t bytes, int *variant)
{
    struct candidate *best = NULL;
    double least = INFINITY;
    for (int i = 0; i < p->n; i++) {
        int v;
        struct candidate *c = &p->candidates[i];
        const double seconds = competes(p, c, kind)
                                   ? ladder_choice(&c->ladder, bytes, &v)
                                   : INFINITY;
        if (seconds < least) {
            least = seconds;
            best = c;
            *variant = v;
        }
    }
    return best;
}

/* Between a length at which it is the best and one at which its bound said
 * enough, a candidate may lead by what is only a bound: that is rehearsed. */
static coll_status climb_for_leader(struct pricing *p, enum coll_kind kind,
                                    size_t bytes)
{
    coll_status status = COLL_OK;
    int v = 0, rung = 0;
    while (status == COLL_OK && rung >= 0) {
        struct candidate *c = leader(p, kind, bytes, &v);
        rung = c ? ladder_leans_on(&c->ladder, v, bytes) : -1;
        if (rung < 0 || !affords(p, c, v))
            break;
        ladder_forget(&c->ladder, v, rung);
        status = try_out(p, c, v, rung, true);
    }
    return status;
}

/* A few rungs of each collective, then the others. */
static coll_status race(struct pricing *p)
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
    enum { ROUGH = 4 }; /* of the steps */
    coll_status status = COLL_OK;
    const int nsteps = (int)(sizeof(steps) / sizeof(steps[0]));
    for (int from = 0, to = ROUGH; from < nsteps; from = to, to = nsteps)
        for (int k = 0; k < NKINDS; k++)
            for (int i = from; i < to && status == COLL_OK; i++)
                status = climb_rung(p, (enum coll_kind)k, steps[i].rung,
                                    steps[i].behind);
    for (int k = 0; k < NKINDS; k++)
        for (int rung = 0; rung < LADDER_RUNGS && status == COLL_OK; rung++)
            status = climb_again(p, (enum coll_kind)k, rung);
    for (int k = 0; k < NKINDS; k++)
        for (int class = 0; class < PRICE_CLASSES && status == COLL_OK;
             class ++)
            status = climb_for_leader(p, (enum coll_kind)k, price_bytes(class));
    return status;
}

coll_status climb_all(struct pricing *p)
{
    coll_status status = climb_ends(p);
    p->only_pairs = p->in_pairs;
    if (status == COLL_OK && p->only_pairs)
        status = race(p);
    p->only_pairs = false;
    return status == COLL_OK ? race(p) : status;
}
