/* SPDX-License-Identifier: MIT */
#include "algo/knomial_parts.h"

#include "algo/groups.h"
#include "algo/parts.h"

struct ranks {
    struct groups groups;
    int me, root;
    int outermost; /* of the levels whose trees I am in: those from there on */
};

/* The tree of one level that I am in: groups that lie in one. */
struct tree {
    const struct ranks *ranks;
    int d, n;
    int first, root; /* of the groups: the number of the first, and which of
                        them from there on is the tree's root */
    int radix;
    int me;  /* so far behind the root */
    int top; /* the stride of my lowest digit that is not 0 */
};

/* Who stands for a group. */
static int head(const struct ranks *r, int d, int group)
{
    const struct range all = groups_span(&r->groups, d, group);
    return all.from <= r->root && r->root < all.to ? r->root : all.from;
}

static struct ranks ranks_of(const struct plan_shape *s,
                             const struct plan_tree *levels)
{
    struct plan_shape shape = *s;
    shape.tree = levels;
    struct ranks r = {groups_of(&shape), s->rank, s->root, 0};
    r.outermost = r.groups.depth;
    for (int d = r.groups.depth - 1; d >= 0; d--) {
        if (head(&r, d, groups_find(&r.groups, d, r.me)) != r.me)
            break;
        r.outermost = d;
    }
    return r;
}

static struct tree tree_of(const struct ranks *r, int d, int radix)
{
    const struct groups *groups = &r->groups;
    const int mine = groups_find(groups, d, r->me);
    const struct range all = groups_siblings(groups, d, mine);
    const int outside =
        d ? head(r, d - 1, groups_find(groups, d - 1, r->me)) : r->root;
    struct tree t = {
        .ranks = r,
        .d = d,
        .n = all.to - all.from,
        .first = all.from,
        .root = groups_find(groups, d, outside) - all.from,
        .radix = radix,
        .top = 1,
    };
    t.me = (mine - t.first - t.root + t.n) % t.n;
    while (t.top < t.n && t.me / t.top % radix == 0)
        t.top *= radix;
    return t;
}

static int group_of(const struct tree *t, int v)
{
    return t->first + (t->root + v) % t->n;
}

static int rank_of(const struct tree *t, int v)
{
    return head(t->ranks, t->d, group_of(t, v));
}

static int parent(const struct tree *t)
{
    return rank_of(t, t->me - t->me / t->top % t->radix * t->top);
}

/* The chunks of so many groups, none of which is behind the last one. */
static struct range span(const struct tree *t, int from, int n)
{
    const int last = t->first + from + (n ? n - 1 : 0);
    const struct range all = {
        groups_span(&t->ranks->groups, t->d, t->first + from).from,
        groups_span(&t->ranks->groups, t->d, last).to,
    };
    return n ? all : (struct range){all.from, all.from};
}

/* The chunks of v and those below it; in scratch they lie from mine on. */
static struct pieces subtree(const struct tree *t, enum plan_buf buf, int v,
                             int stride)
{
    const int n = stride < t->n - v ? stride : t->n - v;
    const int from = (t->root + v) % t->n;
    const int over = from + n > t->n ? from + n - t->n : 0;
    const struct range all = span(t, 0, t->n), run = span(t, from, n - over);
    const int behind = run.from - t->ranks->me;
    const int slot = buf != PLAN_TMP ? 0
                     : behind >= 0   ? behind
                                     : behind + all.to - all.from;
    const int before = run.to - run.from;
    return (struct pieces){
        {{(uint8_t)buf, run.from, before, slot},
         {(uint8_t)buf, all.from, span(t, 0, over).to - all.from,
          slot + before}},
        over ? 2 : 1
    };
}

static int chunks_of(struct pieces what)
{
    return what.piece[0].nchunks + what.piece[1].nchunks;
}

static struct place own(const struct ranks *r, enum plan_buf buf)
{
    return (struct place){(uint8_t)buf, r->me, 1, 0};
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

void plan_knomial_gather(struct plan *p, const struct plan_shape *s,
                         const struct plan_tree *levels, int radix)
{
    const struct ranks r = ranks_of(s, levels);
    const struct tree up = tree_of(&r, r.outermost, radix);
    const int held = chunks_of(subtree(&up, PLAN_IN, up.me, up.top));
    const bool is_root = r.me == r.root;
    const enum plan_buf to = is_root ? PLAN_OUT : PLAN_TMP;

    plan_init(p, s->nranks, is_root || held == 1 ? 0 : held);
    for (int d = r.groups.depth; d >= r.outermost; d--) {
        const struct tree t = tree_of(&r, d, radix);
        for (int stride = 1; stride < t.top; stride *= radix)
            for (int v = t.me + stride; v < past_children(&t, stride);
                 v += stride)
                receive(p, rank_of(&t, v), subtree(&t, to, v, stride));
    }
    if (is_root || held > 1)
        plan_copy(p, own(&r, to), own(&r, PLAN_IN), PLAN_START);
    if (!is_root)
        send(p, parent(&up),
             subtree(&up, held > 1 ? to : PLAN_IN, up.me, up.top),
             all_since(p, 0));
}

/* To those that have most to pass on first. Once those are served that pass it
 * on, the next ones' turn. */
static step_id serve(struct plan *p, const struct tree *t, enum plan_buf from,
                     step_id ready)
{
    for (int stride = t->top / t->radix; stride; stride /= t->radix) {
        const step_id first = p->nsteps;
        for (int v = t->me + stride; v < past_children(t, stride); v += stride)
            send(p, rank_of(t, v), subtree(t, from, v, stride), ready);
        if (stride > 1 && p->nsteps > first)
            ready = all_since(p, first);
    }
    return ready;
}

void plan_knomial_scatter(struct plan *p, const struct plan_shape *s,
                          const struct plan_tree *levels, int radix)
{
    const struct ranks r = ranks_of(s, levels);
    const struct tree up = tree_of(&r, r.outermost, radix);
    const int held = chunks_of(subtree(&up, PLAN_IN, up.me, up.top));
    const bool is_root = r.me == r.root;
    const enum plan_buf from = is_root ? PLAN_IN : PLAN_TMP;

    plan_init(p, s->nranks, is_root || held == 1 ? 0 : held);
    if (!is_root)
        receive(p, parent(&up),
                subtree(&up, held > 1 ? from : PLAN_OUT, up.me, up.top));
    const step_id got = all_since(p, 0);
    step_id ready = got;
    for (int d = r.outermost; d <= r.groups.depth; d++) {
        const struct tree t = tree_of(&r, d, radix);
        ready = serve(p, &t, from, ready);
    }
    if (is_root || held > 1)
        plan_copy(p, own(&r, PLAN_OUT), own(&r, from), got);
}
