/* SPDX-License-Identifier: MIT */
#include "comm/price.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "comm/hosts.h"
#include "comm/learn.h"
#include "exec/rehearse.h"

enum { NRUNGS = 5, MANY_RANKS = 128 };
struct ladder {
    int rung[NRUNGS], n; /* classes that are rehearsed */
    int stride;          /* between variants */
};

/* For a given number of segments a time is nearly a straight line over the
 * sizes, so few are rehearsed; with many ranks, when each takes long, fewer. */
static const struct ladder few = {
    {2, 9, 16, 21, 26},
    NRUNGS, 1
};
static const struct ladder many = {
    {4, 16, 26},
    3, 2
};

static const struct ladder *ladder_of(int nranks)
{
    return nranks > MANY_RANKS ? &many : &few;
}

/* A segment of less costs more in messages than it gains. */
enum { MIN_SEGMENT = 4096 };

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

static int count_hosts(const struct layout *l)
{
    return l->net.level[l->net.nhost_levels - 1].ngroups;
}

static bool fits_by_hosts(const struct layout *l, const struct algo *algo)
{
    const bool parts = algo->kind == REDUCE_SCATTER || algo->kind == ALLGATHER;
    return l->by_hosts > 0 && (!parts || layout_in_blocks(l))
           && algo->fits(&(struct plan_shape){0, count_hosts(l), 1, NULL});
}

bool price_fits(const struct layout *l, const struct algo *algo,
                enum layout_order order)
{
    if (order == ORDER_HOSTS)
        return fits_by_hosts(l, algo);
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

static coll_status rehearse_one(const struct layout *l, const struct algo *algo,
                                const int *order, const struct plan_tree *tree,
                                int segments, size_t bytes,
                                struct sim_traffic *traffic, double *seconds)
{
    return rehearse(
        &(struct rehearsal){
            .plan = algo->plan,
            .nranks = l->nranks,
            .segments = segments,
            .tree = tree,
            .order = order,
            .count = bytes,
            .elem_bytes = 1,
            .net = l->net,
            .traffic = traffic,
        },
        seconds);
}

/* An order with its tree. */
struct lineup {
    int *order;
    struct plan_tree tree;
};

static coll_status line_up(struct lineup *u, const struct layout *l,
                           enum layout_order order)
{
    *u = (struct lineup){.order = malloc((size_t)l->nranks * sizeof(int))};
    if (!u->order)
        return fail(COLL_ERR_MEMORY, "select", "no memory for %d ranks",
                    l->nranks);
    coll_status status = layout_fill_order(l, order, 0, u->order);
    if (status == COLL_OK && order == ORDER_BLOCK)
        status = layout_fill_tree(l, u->order, &u->tree);
    return status;
}

static void dismiss(struct lineup *u)
{
    free(u->order);
    layout_free_tree(&u->tree);
}

/* What the ranks of the largest host take before and after: assumed, but for
 * the bytes, which are copied once where a message there is copied twice. */
static double seconds_inside(const struct layout *l, enum coll_kind kind,
                             size_t bytes)
{
    static const double line = 0.15e-6, each = 0.01e-6;
    const bool parts = kind == REDUCE_SCATTER || kind == ALLGATHER;
    const double exchanges = (bytes >= HOSTS_SLICES_MIN ? 4 : 2)
                             * (parts ? 0.5 * count_hosts(l) : 1);
    const double passes = kind == BARRIER ? 0 : kind == ALLREDUCE ? 2 : 1;
    return exchanges * (line + each * l->by_hosts)
           + passes * (double)bytes * l->net.link.beta / 2;
}

static coll_status price_by_hosts(const struct layout *l,
                                  const struct algo *algo, int segments,
                                  size_t bytes, double *seconds)
{
    struct layout hosts;
    coll_status status = layout_of_hosts(l, &hosts);
    if (status < 0)
        return status;
    status =
        price_one(&hosts, algo, ORDER_BLOCK, segments, bytes, NULL, seconds);
    if (status == COLL_OK)
        *seconds += seconds_inside(l, algo->kind, bytes);
    layout_free(&hosts);
    return status;
}

coll_status price_one(const struct layout *l, const struct algo *algo,
                      enum layout_order order, int segments, size_t bytes,
                      struct sim_traffic *traffic, double *seconds)
{
    if (order == ORDER_HOSTS)
        return price_by_hosts(l, algo, segments, bytes, seconds);
    struct lineup u;
    coll_status status = line_up(&u, l, order);
    if (status == COLL_OK)
        status = rehearse_one(l, algo, u.order, &u.tree, segments, bytes,
                              traffic, seconds);
    dismiss(&u);
    return status;
}

/* How many messages all ranks send, about: as many each as position 0. */
static double messages_of(const struct layout *l, const struct algo *algo,
                          const struct plan_tree *tree, int segments)
{
    struct plan p;
    double sends = 0;
    algo->plan(&p, &(struct plan_shape){0, l->nranks, segments, tree});
    for (int i = 0; i < p.nsteps; i++)
        sends += p.steps[i].kind == PLAN_SEND;
    const bool planned = p.status == COLL_OK;
    plan_free(&p);
    return planned ? sends * l->nranks : INFINITY;
}

int16_t price_log(double seconds)
{
    const double units = 256 * log2(fmax(seconds, 1e-9) / 100e-9);
    return (int16_t)lrint(fmin(fmax(units, INT16_MIN), PRICE_NONE - 1));
}

/* The line through the nearest two rungs. */
static double on_line(const struct ladder *l, const double *seconds, int class)
{
    int i = 0;
    while (i + 2 < l->n && l->rung[i + 1] <= class)
        i++;
    const double low = (double)price_bytes(l->rung[i]);
    const double high = (double)price_bytes(l->rung[i + 1]);
    const double at = ((double)price_bytes(class) - low) / (high - low);
    return fmax(seconds[i] + at * (seconds[i + 1] - seconds[i]),
                class < l->rung[0] ? seconds[0] / 2 : 0);
}

/* Prices with so many segments; keeps what is better than what is there. */
static coll_status price_variant(struct price_row *row, const struct layout *l,
                                 const struct lineup *u, int variant,
                                 uint32_t *rehearsals)
{
    const struct algo *algo = &algos[row->algo];
    const struct ladder *ladder = ladder_of(l->nranks);
    double seconds[NRUNGS];
    for (int i = 0; i < ladder->n; i++) {
        const coll_status status =
            rehearse_one(l, algo, u->order, &u->tree, 1 << variant,
                         price_bytes(ladder->rung[i]), NULL, &seconds[i]);
        if (status < 0)
            return fail(status, "select", "rehearsal of %s on %d ranks: %s",
                        algo->full_name, l->nranks, fail_sentence());
        ++*rehearsals;
    }
    for (int c = 0; c < PRICE_CLASSES; c++) {
        if (variant > 0 && price_bytes(c) >> variant < MIN_SEGMENT)
            continue;
        const int16_t log_time = price_log(on_line(ladder, seconds, c));
        if (log_time < row->log_time[c]) {
            row->log_time[c] = log_time;
            row->variant[c] = (uint8_t)variant;
        }
    }
    return COLL_OK;
}

struct budget {
    double messages, until; /* of one rehearsal; seconds on the clock */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static coll_status price_row(struct price_row *row, const struct layout *l,
                             const struct lineup *u,
                             const struct budget *budget, uint32_t *rehearsals)
{
    const struct algo *algo = &algos[row->algo];
    coll_status status = COLL_OK;
    for (int c = 0; c < PRICE_CLASSES; c++)
        row->log_time[c] = row->recalled[c] = PRICE_NONE;
    const bool pipelines = algo_pipelines(algo, l->nranks);
    for (int v = 0; v < (pipelines ? PRICE_VARIANTS : 1) && status == COLL_OK;
         v += ladder_of(l->nranks)->stride)
        if (messages_of(l, algo, &u->tree, 1 << v) <= budget->messages
            && now() < budget->until)
            status = price_variant(row, l, u, v, rehearsals);
    return status;
}

static void add_inside(struct price_row *row, const struct layout *l)
{
    for (int c = 0; c < PRICE_CLASSES; c++)
        if (row->log_time[c] != PRICE_NONE)
            row->log_time[c] = price_log(
                100e-9 * exp2(row->log_time[c] / 256.0)
                + seconds_inside(l, algos[row->algo].kind, price_bytes(c)));
}

/* The rows of an order: of `at`, which is l, or one rank of each host of it. */
static coll_status price_order(struct prices *prices, const struct layout *l,
                               const struct layout *at, enum layout_order order,
                               const struct budget *budget)
{
    struct lineup u;
    coll_status status =
        line_up(&u, at, order == ORDER_HOSTS ? ORDER_BLOCK : order);
    for (int a = 0; a < nplanned && status == COLL_OK; a++) {
        if (!price_fits(l, &algos[a], order) || prices->nrows == PRICE_ROWS)
            continue;
        struct price_row *row = &prices->row[prices->nrows++];
        row->algo = (uint8_t)a;
        row->order = (uint8_t)order;
        status = price_row(row, at, &u, budget, &prices->rehearsals);
        if (order == ORDER_HOSTS)
            add_inside(row, l);
    }
    dismiss(&u);
    return status;
}

coll_status price_all(struct prices *prices, const struct layout *l,
                      double max_messages, double max_seconds)
{
    const struct budget budget = {max_messages, now() + max_seconds};
    *prices = (struct prices){.layout = layout_digest(l)};
    coll_status status = COLL_OK;
    if (l->by_hosts) { /* first: few positions, and mostly the best */
        struct layout hosts;
        status = layout_of_hosts(l, &hosts);
        if (status == COLL_OK) {
            status = price_order(prices, l, &hosts, ORDER_HOSTS, &budget);
            layout_free(&hosts);
        }
    }
    for (int order = 0; order < NORDERS && status == COLL_OK; order++)
        status = price_order(prices, l, l, (enum layout_order)order, &budget);
    return status;
}
