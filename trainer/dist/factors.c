/* SPDX-License-Identifier: MIT */
#include "dist/factors.h"

#include <math.h>
#include <stdio.h>
#include <zlib.h>

#include "clock.h"
#include "dist/strategy.h"
#include "kernels/lanes.h"
#include "kernels/rows.h"
#include "net/factor.h"
#include "random.h"

/* Inside a host factors are for gradients that no cache holds, and for few
 * images of other ranks: sums of all take a weight as long as some products. */
enum { LONG_BYTES = 32 << 20, FEW_IMAGES = 16 };

const char *factors_barred(const struct strategy_settings *s)
{
    return s->shard                   ? "--shard-optimizer"
           : s->wire.kind != WIRE_F32 ? "--wire"
                                      : s->needs_gradients;
}

/* --- products ---------------------------------------------------------------
 */

enum { ROWS = 48, COLUMNS = 768, TERMS = 64, TIMES = 16 };

struct products {
    double seconds;
    double digest; /* of their bits */
};

static struct products multiply(void)
{
    float from[TERMS * COLUMNS], by[TERMS * ROWS], to[ROWS * COLUMNS];
    for (int i = 0; i < TERMS * COLUMNS; i++)
        from[i] = random_unit(1, (uint64_t)i);
    for (int i = 0; i < TERMS * ROWS; i++)
        by[i] = random_unit(2, (uint64_t)i);
    const double start = clock_now();
    lanes()->rows->sum(&(struct rows_sum){
        .to = to,
        .to_next = COLUMNS,
        .rows = ROWS,
        .columns = COLUMNS,
        .terms = TERMS,
        .by = by,
        .by_row = 1,
        .by_term = ROWS,
        .from = from,
        .from_next = COLUMNS,
    });
    return (struct products){
        clock_now() - start,
        (double)crc32_z(0, (const unsigned char *)to, sizeof(to))};
}

/* Multiply-adds of this rank in a second. */
static double rate_of(const struct strategy *s)
{
    double least = multiply().seconds;
    for (int i = 1; i < TIMES; i++)
        least = fmin(least, multiply().seconds);
    return (double)ROWS * COLUMNS * TERMS * crew_size(s->net->crew) / least;
}

/* --- choosing ---------------------------------------------------------------
 */

/* Images of the other ranks. */
static double others(const struct strategy *s)
{
    return (double)s->net->input.n * (coll_comm_count(s->comm) - 1);
}

/* Of a step until a rank has all gradients, if these layers have factors:
 * between hosts seconds, of what is added up, what is gathered, the products of
 * the others' images. Inside one numbers that come, so that runs are alike. */
static double cost(const struct strategy *s, struct factor_span span,
                   double rate)
{
    const struct factor_sizes z = net_factor_sizes(s->net, span);
    const size_t sum = s->net->params.count - z.params,
                 own = (size_t)s->net->input.n * z.floats;
    if (s->part != PART_OUTSIDE)
        return (double)sum + (double)own * coll_comm_count(s->comm);
    return strategy_predicted(s, "allreduce", sum)
           + strategy_predicted(s, "allgather", own)
           + others(s) * (double)z.params / rate;
}

/* Fewer numbers come to a rank than by a sum, which brings each gradient once
 * to be added and once as the result; and inside a host than there are
 * gradients. */
static bool is_offered(const struct strategy *s, struct factor_span span)
{
    const struct factor_sizes z = net_factor_sizes(s->net, span);
    const double gradients = (double)z.params,
                 factors = (others(s) + s->net->input.n) * (double)z.floats;
    return s->part == PART_OUTSIDE
               ? factors < 2 * gradients
               : factors < gradients && others(s) <= FEW_IMAGES
                     && gradients * sizeof(float) > LONG_BYTES;
}

static struct factor_span fastest(const struct strategy *s)
{
    const double rate = s->part == PART_OUTSIDE ? rate_of(s) : 1;
    const int most = net_factorable(s->net);
    struct factor_span best = {0};
    double least = cost(s, best, rate);
    for (int after = 0; after < most; after++)
        for (int n = 1; n <= most - after; n++) {
            const struct factor_span span = {n, after};
            const double now =
                is_offered(s, span) ? cost(s, span, rate) : INFINITY;
            if (now >= least)
                continue;
            least = now;
            best = span;
        }
    return best;
}

/* Which layers. An exchange that the user has named, or that is to be
 * repeated, stays as it is. */
static struct factor_span choose(const struct strategy *s)
{
    const struct strategy_settings *t = &s->settings;
    const bool named = t->exchange != EXCHANGE_AUTO || t->deterministic;
    if (t->factors == FACTORS_ON && !factors_barred(t))
        return (struct factor_span){net_factorable(s->net), 0};
    if (t->factors == FACTORS_OFF || factors_barred(t)
        || (named && coll_comm_count(s->comm) > 1))
        return (struct factor_span){0};
    return fastest(s);
}

/* If not, they would have other weights after a step. */
static coll_status agree_on_bits(struct strategy *s, bool *alike)
{
    const double digest = multiply().digest;
    double x[] = {digest, -digest};
    const coll_status status = strategy_reduce(s, x, 2, COLL_MAX);
    *alike = x[0] == -x[1];
    return status;
}

static coll_status leave(struct strategy *s, const char *why)
{
    if (s->settings.factors == FACTORS_ON)
        snprintf(s->note, sizeof(s->note),
                 "--factors on: gradients are summed, as %s", why);
    return COLL_OK;
}

coll_status factors_open(struct strategy *s)
{
    const int nranks = coll_comm_count(s->comm),
              rank = coll_comm_user_rank(s->comm);
    struct factor_span span = {0};
    if (!rank)
        span = choose(s);
    double x[] = {span.n, span.after};
    bool alike = true;
    coll_status status = strategy_reduce(s, x, 2, COLL_MAX);
    span = (struct factor_span){(int)x[0], (int)x[1]};
    if (!status && span.n)
        status = agree_on_bits(s, &alike);
    if (status)
        return status;
    if (!span.n)
        return leave(s, "the last layer with parameters is not dense");
    if (!alike)
        return leave(s, "processors of the ranks round products in different "
                        "ways");
    return net_factor(s->net, span, nranks, rank) ? COLL_ERR_MEMORY : COLL_OK;
}

/* --- a step -----------------------------------------------------------------
 */

coll_status factors_start(struct strategy *s, coll_request **request)
{
    const struct arena *all = &s->net->factors;
    const size_t count = all->count / (size_t)coll_comm_count(s->comm);
    float *own = all->x + (size_t)coll_comm_user_rank(s->comm) * count;
    return coll_allgather(own, all->x, count, COLL_F32, s->comm, request);
}
