/* SPDX-License-Identifier: MIT */
/* Chooses the levels by which long vectors go. Each of last cache, NUMA node
 * and package may be one if it has as many ranks everywhere: all such nests are
 * priced, for each kind of collective, and the cheapest is taken.
 *
 * The price is that of the lines that a rank reads and writes one after
 * another. A level costs one pass over what is left of a slice, and saves that
 * all ranks meet on the next one: so it pays where groups are large, and two
 * ranks in a cache may do without it.
 */
#include "node/nest.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A rank by its position. */
struct seat {
    int rank;
    int where[SPAN_MACHINE]; /* by enum node_span; -1: unknown */
    int first[SPAN_MACHINE]; /* the first rank that shares it, and all around */
};

static struct seat seat_of(const struct node_place *p, int rank)
{
    return (struct seat){
        .rank = rank,
        .where = {[SPAN_CACHE] = p->cache < 0 ? -1 : p->cache,
                  [SPAN_NUMA] = p->numa < 0 ? -1 : p->numa,
                  [SPAN_PACKAGE] = p->package < 0 ? -1 : p->package},
    };
}

static bool alike(const struct seat *a, const struct seat *b, int span)
{
    for (int s = span; s < SPAN_MACHINE; s++)
        if (a->where[s] != b->where[s])
            return false;
    return true;
}

static int by_first(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    for (int s = SPAN_PACKAGE; s >= SPAN_CACHE; s--)
        if (x->first[s] != y->first[s])
            return x->first[s] < y->first[s] ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static void seat_all(struct seat seats[], const struct node_place places[],
                     int n)
{
    for (int r = 0; r < n; r++)
        seats[r] = seat_of(&places[r], r);
    for (int r = 0; r < n; r++)
        for (int span = SPAN_CACHE; span < SPAN_MACHINE; span++) {
            int first = 0;
            while (!alike(&seats[first], &seats[r], span))
                first++;
            seats[r].first[span] = first;
        }
    qsort(seats, (size_t)n, sizeof(*seats), by_first);
}

/* Ranks that share such a place, if it is known and that is as many everywhere;
 * else 0. */
static int even_size(const struct seat seats[], int n, int span)
{
    int size = 0;
    while (size < n && seats[size].first[span] == seats[0].first[span])
        size++;
    for (int i = 0; i < n; i++) {
        const bool same = i && seats[i].first[span] == seats[i - 1].first[span];
        if (seats[i].where[span] < 0 || same != (i % size > 0))
            return 0;
    }
    return n % size ? 0 : size;
}

/* Bit s of choice: span s becomes a level. False: one of them would have
 * nothing to do. */
static bool build(struct nest *t, unsigned choice, const int sizes[SPANS])
{
    *t = (struct nest){0};
    for (int span = SPAN_CACHE, under = 1; span < SPANS; span++) {
        if (!(choice >> span & 1))
            continue;
        if (sizes[span] <= under)
            return false;
        t->span[t->depth] = (enum node_span)span;
        t->under[t->depth] = under;
        t->size[t->depth++] = sizes[span] / under;
        under = sizes[span];
    }
    return true;
}

/* Of a line from every step-th of so many ranks to the first of them. */
static int64_t price_of_lines(const struct seat seats[], int step, int count)
{
    int64_t price = node_line_price[SPAN_CACHE];
    for (int i = 1; i < count; i++) {
        const struct seat *const from = &seats[(ptrdiff_t)i * step];
        int span = SPAN_CACHE;
        while (span < SPAN_MACHINE
               && (from->where[span] < 0
                   || from->first[span] != seats[0].first[span]))
            span++;
        price += node_line_price[span];
    }
    return price;
}

/* Lines that the first rank waits for, in n-ths of a vector's: of those whom it
 * meets on each level as much as its piece, once up and, but its own, once
 * down; and what it writes to its group. Its own area it need not wait for. Of
 * copies the source is far. */
static int64_t price_of(const struct nest *t, enum coll_kind kind,
                        const struct seat seats[], int n)
{
    const int top = t->depth - 1;
    int64_t price = 0;
    for (int l = 0; l <= top; l++) {
        const int64_t lines = price_of_lines(seats, t->under[l], t->size[l]);
        const bool whole = l == top && !t->split && kind != REDUCE_SCATTER;
        const int64_t piece = whole ? t->size[l] : n / nest_ranks(t, l);
        if (kind_reduces(kind))
            price += piece * lines;
        if (l > 0 && l <= nest_last_spread(t, kind))
            price += piece * (lines - node_line_price[SPAN_CACHE]);
        if (l == top && kind == BROADCAST)
            price += piece * node_line_price[t->span[l]];
        if (l == top && kind == ALLGATHER)
            price += lines;
    }
    if (nest_spreads(kind))
        price += n / t->size[0] * price_of_lines(seats, 1, t->size[0]);
    return price;
}

/* Of equals the deepest wins, as least crosses in it, with the largest groups;
 * but none before any. Copies always get some: whether they go so is measured.
 */
static void choose(struct nest *best, enum coll_kind kind,
                   const struct seat seats[], const int sizes[SPANS])
{
    const int n = sizes[SPAN_MACHINE];
    const int64_t as_one =
        (kind == ALLREDUCE ? 2 : 1) * price_of_lines(seats, 1, n);
    int64_t lowest = kind_reduces(kind) ? as_one - 1 : INT64_MAX;
    *best = (struct nest){0};
    if (!kind_reduces(kind) && !nest_spreads(kind))
        return;
    for (unsigned choice = 1u << SPAN_MACHINE | 1; choice < 1u << SPANS;
         choice++) {
        struct nest t;
        if (!build(&t, choice, sizes))
            continue;
        /* 2 (G - 1) vectors cross then between G groups, not G (G - 1). */
        t.split = kind == ALLREDUCE && t.size[t.depth - 1] > 2;
        const int64_t price = price_of(&t, kind, seats, n);
        if (price > lowest || (price == lowest && t.depth < best->depth))
            continue;
        lowest = price;
        *best = t;
    }
}

coll_status nest_build(struct nest nest[NKINDS], int place_of[],
                       const struct node_place places[], int n)
{
    int sizes[SPANS] = {[SPAN_MACHINE] = n};
    struct seat *seats = malloc((size_t)n * sizeof(*seats));
    if (!seats)
        return COLL_ERR_MEMORY;
    seat_all(seats, places, n);
    for (int span = SPAN_CACHE; span < SPAN_MACHINE; span++)
        sizes[span] = even_size(seats, n, span);
    for (int kind = 0; kind < NKINDS; kind++)
        choose(&nest[kind], (enum coll_kind)kind, seats, sizes);
    for (int i = 0; i < n; i++)
        place_of[i] = seats[i].rank;
    free(seats);
    return COLL_OK;
}

void nest_print(const struct nest *t, char text[NEST_TEXT_BYTES])
{
    int length = 0;
    snprintf(text, NEST_TEXT_BYTES, "as one");
    for (int l = 0; l < t->depth; l++)
        length += snprintf(text + length, NEST_TEXT_BYTES - (size_t)length,
                           "%s%d (%s)", l ? " x " : "", t->size[l],
                           node_span_names[t->span[l]]);
}
