/* SPDX-License-Identifier: MIT */
#include "dist/pieces.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 16 }; /* floats of a cache line */

int pieces_open(struct pieces *p, int nslices)
{
    const size_t most = PIECES_MOST + (size_t)nslices;
    *p = (struct pieces){
        .piece = calloc(most, sizeof(*p->piece)),
        .order = calloc(most, sizeof(*p->order)),
        .sent = calloc(most, sizeof(*p->sent)),
    };
    if (p->piece && p->order && p->sent)
        return 0;
    pieces_close(p);
    return -1;
}

void pieces_close(struct pieces *p)
{
    free(p->piece);
    free(p->order);
    free(p->sent);
    *p = (struct pieces){0};
}

/* As they get ready: the end of the arena first. */
static void order_as_ready(struct pieces *p)
{
    for (int i = 0; i < p->n; i++)
        p->order[i] = p->n - 1 - i;
}

/* Adds that span in so many parts or fewer, the last one first. */
static void add(struct pieces *p, size_t first, size_t end, size_t nparts)
{
    const size_t all = end - first,
                 each = ((all + nparts - 1) / nparts + LINE - 1) / LINE * LINE;
    for (size_t i = (all + each - 1) / each; i-- > 0;) {
        const size_t at = i * each, left = all - at;
        p->piece[p->n++] = (struct piece){.first = first + at,
                                          .count = left < each ? left : each};
    }
}

static void reverse(struct pieces *p)
{
    for (int i = 0, j = p->n - 1; i < j; i++, j--) {
        const struct piece kept = p->piece[i];
        p->piece[i] = p->piece[j];
        p->piece[j] = kept;
    }
}

/* Of the slices that a piece has a part of, the first is ready last and needed
 * first. */
static void take_times(struct pieces *p, const struct slice *slices, int n)
{
    int k = 0;
    for (int i = 0; i < p->n; i++) {
        while (k + 1 < n && slices[k + 1].first <= p->piece[i].first)
            k++;
        p->piece[i].ready = slices[k].ready;
        p->piece[i].needed = slices[k].needed;
    }
}

void pieces_cut(struct pieces *p, const struct slice *slices, int nslices,
                size_t floats, bool splits)
{
    size_t end =
        nslices ? slices[nslices - 1].first + slices[nslices - 1].count : 0;
    const size_t least = end / PIECES_MOST + 1;
    if (splits && floats < least)
        floats = least;
    p->n = 0;
    for (int i = nslices - 1; i >= 0; i--) {
        const size_t ready = end - slices[i].first;
        if (i && ready < floats)
            continue;
        const size_t parts = splits ? (ready + floats / 2) / floats : 1;
        add(p, slices[i].first, end, parts ? parts : 1);
        end = slices[i].first;
    }
    reverse(p);
    take_times(p, slices, nslices);
    order_as_ready(p);
}

double pieces_wait(const struct pieces *p)
{
    double link = 0, wait = 0;
    for (int i = 0; i < p->n; i++) {
        const struct piece *x = &p->piece[p->order[i]];
        link = (link > x->ready ? link : x->ready) + x->seconds;
        wait = link - x->needed > wait ? link - x->needed : wait;
    }
    return wait;
}

/* The next of those not sent: of what is ready by then the one needed first,
 * which is the one that lies first; if none is, the one that is ready first. */
static int next(const struct pieces *p, double now)
{
    int earliest = -1;
    for (int i = 0; i < p->n; i++) {
        if (p->sent[i])
            continue;
        if (p->piece[i].ready <= now)
            return i;
        if (earliest < 0 || p->piece[i].ready < p->piece[earliest].ready)
            earliest = i;
    }
    return earliest;
}

void pieces_by_need(struct pieces *p)
{
    double now = 0;
    order_as_ready(p);
    const double wait = pieces_wait(p);
    memset(p->sent, 0, (size_t)p->n * sizeof(*p->sent));
    for (int k = 0; k < p->n; k++) {
        const int i = next(p, now);
        const struct piece *x = &p->piece[i];
        now = (now > x->ready ? now : x->ready) + x->seconds;
        p->sent[i] = true;
        p->order[k] = i;
    }
    /* A long piece may have left before one that comes soon. */
    if (pieces_wait(p) > wait)
        order_as_ready(p);
}
