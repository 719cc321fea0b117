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

enum { ROWS = 24, COLUMNS = 768, TERMS = 16 };

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
    for (int i = 0; i < 4; i++)
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

/* Seconds of a step until a rank has all gradients, if n layers have factors:
 * what is added up, what is gathered, the products of the others' images. */
static double seconds(const struct strategy *s, int n, double rate)
{
    const struct factor_sizes z = net_factor_sizes(s->net, n);
    return strategy_predicted(s, "allreduce", s->net->params.count - z.params)
           + strategy_predicted(s, "allgather",
                                (size_t)s->net->input.n * z.floats)
           + others(s) * (double)z.params / rate;
}

/* Fewer numbers come to a rank than by a sum, which brings each gradient once
 * to be added and once as the result; and inside a host than there are
 * gradients. */
static bool is_offered(const struct strategy *s, int n)
{
    const struct factor_sizes z = net_factor_sizes(s->net, n);
    const double gradients = (double)z.params,
                 factors = (others(s) + s->net->input.n) * (double)z.floats;
    return s->part == PART_OUTSIDE
               ? factors < 2 * gradients
               : factors < gradients && others(s) <= FEW_IMAGES
                     && gradients * sizeof(float) > LONG_BYTES;
}

/* Inside a host by counts alone, so that runs are alike. */
static int fastest(const struct strategy *s)
{
    const bool timed = s->part == PART_OUTSIDE;
    const double rate = timed ? rate_of(s) : 1;
    double least = timed ? seconds(s, 0, rate) : 0;
    int best = 0;
    for (int n = 1; n <= net_factorable(s->net); n++) {
        if (!is_offered(s, n))
            continue;
        const double now = timed ? seconds(s, n, rate) : 0;
        if (now > least)
            continue;
        least = now;
        best = n;
    }
    return best;
}

/* How many layers. An exchange that the user has named, or that is to be
 * repeated, stays as it is. */
static int choose(const struct strategy *s)
{
    const struct strategy_settings *t = &s->settings;
    const bool named = t->exchange != EXCHANGE_AUTO || t->deterministic;
    if (t->factors == FACTORS_OFF || factors_barred(t))
        return 0;
    if (t->factors == FACTORS_ON)
        return net_factorable(s->net);
    return named && coll_comm_count(s->comm) > 1 ? 0 : fastest(s);
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
    double n = rank ? 0 : choose(s);
    bool alike = true;
    coll_status status = strategy_reduce(s, &n, 1, COLL_MAX);
    if (!status && n > 0)
        status = agree_on_bits(s, &alike);
    if (status)
        return status;
    if (n == 0)
        return leave(s, "the last layer with parameters is not dense");
    if (!alike)
        return leave(s, "processors of the ranks round products in different "
                        "ways");
    return net_factor(s->net, (int)n, nranks, rank) ? COLL_ERR_MEMORY : COLL_OK;
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
