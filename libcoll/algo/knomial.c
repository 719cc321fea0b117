/* SPDX-License-Identifier: MIT */
#include "algo/knomial.h"

#include <assert.h>

enum { RADIX_MOST = 8 };

/* Of a rank's lowest digit that is not 0; of rank 0 that above all others. */
static int weight(const struct plan_shape *s, int radix)
{
    int stride = 1;
    while (stride < s->nranks && s->rank / stride % radix == 0)
        stride *= radix;
    return stride;
}

/* Of a rank that is not 0. */
static int parent(const struct plan_shape *s, int radix)
{
    const int stride = weight(s, radix);
    return s->rank - s->rank / stride % radix * stride;
}

static int nchildren(const struct plan_shape *s, int radix, int stride)
{
    const int there = (s->nranks - 1 - s->rank) / stride;
    return there < radix - 1 ? there : radix - 1;
}

/* Returns the last step. sum: NULL: nothing is added, each sends its own. */
static step_id up(struct plan *p, const struct plan_shape *s, int radix,
                  const struct place *sum)
{
    const int top = weight(s, radix);
    struct place mine = IN(0);
    step_id ready = PLAN_START;
    assert(radix <= RADIX_MOST);
    for (int stride = 1; stride < top; stride *= radix) {
        const int n = nchildren(s, radix, stride);
        step_id heard[RADIX_MOST];
        for (int i = 0; i < n; i++)
            heard[i] =
                plan_recv(p, s->rank + (i + 1) * stride, TMP(0, i), PLAN_START);
        for (int i = 0; i < n; i++) {
            ready = sum ? plan_reduce(p, *sum, mine, TMP(0, i), heard[i])
                        : plan_join(p, ready, heard[i]);
            mine = sum ? *sum : mine;
        }
    }
    if (s->rank > 0)
        ready = plan_send(p, parent(s, radix), mine, ready);
    return ready;
}

/* Steps start as they are written, so those of a level come before what waits
 * for one of them. */
static void down(struct plan *p, const struct plan_shape *s, int radix,
                 struct place from, step_id ready)
{
    for (int stride = weight(s, radix) / radix; stride; stride /= radix) {
        const int n = nchildren(s, radix, stride);
        step_id sent[RADIX_MOST];
        for (int i = 0; i < n; i++)
            sent[i] = plan_send(p, s->rank + (i + 1) * stride, from, ready);
        if (n > 0)
            ready = sent[0];
        for (int i = 1; i < n && stride > 1; i++)
            ready = plan_join(p, ready, sent[i]);
    }
}

void plan_knomial_allreduce(struct plan *p, const struct plan_shape *s,
                            int radix)
{
    plan_init(p, 1, radix - 1);
    step_id ready = up(p, s, radix, &OUT(0));
    if (s->nranks == 1)
        plan_copy(p, OUT(0), IN(0), PLAN_START);
    if (s->rank > 0)
        ready = plan_recv(p, parent(s, radix), OUT(0), PLAN_START);
    down(p, s, radix, OUT(0), ready);
}

/* To a root elsewhere rank 0 hands the sum on. */
void plan_knomial_reduce(struct plan *p, const struct plan_shape *s, int radix)
{
    plan_init(p, 1, radix - 1);
    const struct place sum = s->rank == 0 && s->root == 0 ? OUT(0) : SUM(0);
    const step_id ready = up(p, s, radix, &sum);
    if (s->nranks == 1)
        plan_copy(p, OUT(0), IN(0), PLAN_START);
    if (s->root > 0 && s->rank == 0)
        plan_send(p, s->root, sum, ready);
    if (s->root > 0 && s->rank == s->root)
        plan_recv(p, 0, OUT(0), ready);
}

void plan_knomial_broadcast(struct plan *p, const struct plan_shape *s,
                            int radix)
{
    plan_init(p, 1, 0);
    if (s->rank > 0) {
        const step_id ready =
            plan_recv(p, parent(s, radix), OUT(0), PLAN_START);
        down(p, s, radix, OUT(0), ready);
    } else {
        down(p, s, radix, IN(0), PLAN_START);
        plan_copy(p, OUT(0), IN(0), PLAN_START);
    }
}

void plan_knomial_barrier(struct plan *p, const struct plan_shape *s, int radix)
{
    plan_init(p, 1, radix - 1);
    step_id ready = up(p, s, radix, NULL);
    if (s->rank > 0)
        ready = plan_recv(p, parent(s, radix), TMP(0, 0), ready);
    down(p, s, radix, IN(0), ready);
}
