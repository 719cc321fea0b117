/* SPDX-License-Identifier: MIT */
#include "algo/knomial_parts.h"

#include "algo/parts.h"

struct tree {
    int n, root, radix;
    int me;  /* so far behind the root */
    int top; /* the stride of my lowest digit that is not 0 */
};

static struct tree tree_of(const struct plan_shape *s, int radix)
{
    const int n = s->nranks;
    struct tree t = {n, s->root, radix, (s->rank - s->root + n) % n, 1};
    while (t.top < n && t.me / t.top % radix == 0)
        t.top *= radix;
    return t;
}

static int rank_of(const struct tree *t, int v)
{
    return (t->root + v) % t->n;
}

static int parent(const struct tree *t)
{
    return rank_of(t, t->me - t->me / t->top % t->radix * t->top);
}

/* How many there are from v on, up to its next sibling of that stride. */
static int size_of(const struct tree *t, int v, int stride)
{
    return stride < t->n - v ? stride : t->n - v;
}

/* The chunks of v and those below it; in scratch they lie from mine on. */
static struct pieces subtree(const struct tree *t, enum plan_buf buf, int v,
                             int stride)
{
    const int slot = buf == PLAN_TMP ? v - t->me : 0;
    return plan_pieces((struct place){(uint8_t)buf, rank_of(t, v),
                                      size_of(t, v, stride), slot},
                       t->n);
}

static struct place own(const struct tree *t, enum plan_buf buf)
{
    return (struct place){(uint8_t)buf, rank_of(t, t->me), 1, 0};
}

static void receive(struct plan *p, int from, struct pieces what)
{
    for (int i = 0; i < what.n; i++)
        plan_recv(p, from, what.piece[i], PLAN_START);
}

static void send(struct plan *p, int to, struct pieces what, step_id ready)
{
    for (int i = 0; i < what.n; i++)
        plan_send(p, to, what.piece[i], ready);
}

/* Once all steps from `first` on have finished. To be added when all of them
 * are: steps start as they are written. */
static step_id all_since(struct plan *p, step_id first)
{
    step_id all = PLAN_START;
    for (step_id i = first, end = p->nsteps; i < end; i++)
        all = all == PLAN_START ? i : plan_join(p, all, i);
    return all;
}

/* Children of a stride sit stride by stride behind me, before this place. */
static int past_children(const struct tree *t, int stride)
{
    const int end = t->me + t->radix * stride;
    return end < t->n ? end : t->n;
}

void plan_knomial_gather(struct plan *p, const struct plan_shape *s, int radix)
{
    const struct tree t = tree_of(s, radix);
    const int below = size_of(&t, t.me, t.top) - 1;
    const bool is_root = t.me == 0;
    const enum plan_buf to = is_root ? PLAN_OUT : PLAN_TMP;

    plan_init(p, t.n, is_root || !below ? 0 : below + 1);
    for (int stride = 1; stride < t.top; stride *= radix)
        for (int v = t.me + stride; v < past_children(&t, stride); v += stride)
            receive(p, rank_of(&t, v), subtree(&t, to, v, stride));
    if (is_root || below)
        plan_copy(p, own(&t, to), own(&t, PLAN_IN), PLAN_START);
    if (!is_root)
        send(p, parent(&t), subtree(&t, below ? to : PLAN_IN, t.me, t.top),
             all_since(p, 0));
}

/* To those that have most to pass on first. */
void plan_knomial_scatter(struct plan *p, const struct plan_shape *s, int radix)
{
    const struct tree t = tree_of(s, radix);
    const int below = size_of(&t, t.me, t.top) - 1;
    const bool is_root = t.me == 0;
    const enum plan_buf from = is_root ? PLAN_IN : PLAN_TMP;

    plan_init(p, t.n, is_root || !below ? 0 : below + 1);
    if (!is_root)
        receive(p, parent(&t),
                subtree(&t, below ? from : PLAN_OUT, t.me, t.top));
    const step_id got = all_since(p, 0);
    step_id ready = got;
    for (int stride = t.top / radix; stride; stride /= radix) {
        const step_id first = p->nsteps;
        for (int v = t.me + stride; v < past_children(&t, stride); v += stride)
            send(p, rank_of(&t, v), subtree(&t, from, v, stride), ready);
        if (stride > 1 && p->nsteps > first)
            ready = all_since(p, first);
    }
    if (is_root || below)
        plan_copy(p, own(&t, PLAN_OUT), own(&t, from), got);
}
