/* SPDX-License-Identifier: MIT */
#include "algo/groups.h"

struct groups groups_of(const struct plan_shape *s)
{
    return (struct groups){s->tree, s->nranks, s->tree ? s->tree->nlevels : 0};
}

int groups_first(const struct groups *t, int d, int g)
{
    return d == t->depth ? g : t->tree->level[d].first[g];
}

int groups_count(const struct groups *t, int d)
{
    return d == t->depth ? t->nranks : t->tree->level[d].ngroups;
}

/* The first group of level d that starts at that position or later. */
static int group_from(const struct groups *t, int d, int position)
{
    int low = 0, high = groups_count(t, d);
    if (d == t->depth)
        return position;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (groups_first(t, d, middle) < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int groups_find(const struct groups *t, int d, int position)
{
    return group_from(t, d, position + 1) - 1;
}

struct range groups_children(const struct groups *t, int d, int g)
{
    if (d == 0)
        return (struct range){0, groups_count(t, 0)};
    return (struct range){group_from(t, d, groups_first(t, d - 1, g)),
                          group_from(t, d, t->tree->level[d - 1].first[g + 1])};
}

struct range groups_span(const struct groups *t, int d, int g)
{
    return (struct range){groups_first(t, d, g), g + 1 < groups_count(t, d)
                                                     ? groups_first(t, d, g + 1)
                                                     : t->nranks};
}

struct range groups_siblings(const struct groups *t, int d, int g)
{
    const int outer = d ? groups_find(t, d - 1, groups_first(t, d, g)) : 0;
    return groups_children(t, d, outer);
}

int groups_peer(struct range from, struct range to, int x)
{
    const int64_t i = x - from.from;
    return to.from + (int)(i * (to.to - to.from) / (from.to - from.from));
}

struct range groups_peers(struct range from, struct range to, int x)
{
    const int64_t i = x - to.from, n = from.to - from.from;
    const int64_t m = to.to - to.from;
    return (struct range){from.from + (int)((i * n + m - 1) / m),
                          from.from + (int)(((i + 1) * n + m - 1) / m)};
}
