/* SPDX-License-Identifier: MIT */
#include "algo/lanes.h"

enum { MOST_CHUNKS = 16 }; /* for each rank; 1 where groups are alike */

struct range {
    int from, to;
};

/* The first position of group g of level d; positions are groups of their own
 * at the last stage. */
static int first_of(const struct lanes *l, int d, int g)
{
    return d == l->depth ? g : l->tree->level[d].first[g];
}

static int ngroups(const struct lanes *l, int d)
{
    return d == l->depth ? l->nranks : l->tree->level[d].ngroups;
}

/* The first group of level d that starts at that position or later. */
static int group_from(const struct lanes *l, int d, int position)
{
    int low = 0, high = ngroups(l, d);
    if (d == l->depth)
        return position;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (first_of(l, d, middle) < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The groups of level d in group g of the level outside. */
static struct range children(const struct lanes *l, int d, int g)
{
    if (d == 0)
        return (struct range){0, ngroups(l, 0)};
    return (struct range){group_from(l, d, first_of(l, d - 1, g)),
                          group_from(l, d, l->tree->level[d - 1].first[g + 1])};
}

/* The windows, of `parts`, that child i of n takes. */
static struct range share(int parts, int n, int i)
{
    return (struct range){(i * parts + n - 1) / n,
                          ((i + 1) * parts + n - 1) / n};
}

void lanes_init(struct lanes *l, const struct plan_shape *s)
{
    *l = (struct lanes){.tree = s->tree,
                        .nranks = s->nranks,
                        .depth = s->tree ? s->tree->nlevels : 0};
    int group = 0;
    int64_t nchunks = 1;
    for (int d = 0; d <= l->depth; d++) {
        const int nouter = d ? ngroups(l, d - 1) : 1;
        for (int g = 0; g < nouter; g++) {
            const struct range r = children(l, d, g);
            if (r.to - r.from > l->parts[d])
                l->parts[d] = r.to - r.from;
        }
        nchunks *= l->parts[d];
        if (nchunks > (int64_t)MOST_CHUNKS * l->nranks) {
            l->nchunks = 0;
            return;
        }
        const struct range r = children(l, d, group);
        group = group_from(l, d, s->rank + 1) - 1;
        if (d == l->depth)
            group = s->rank;
        l->first[d] = r.from;
        l->nsiblings[d] = r.to - r.from;
        l->mine[d] = group - r.from;
    }
    l->nchunks = (int)nchunks;
    int size = l->nchunks;
    for (int d = l->depth; d >= 0; d--)
        l->size[d] = size /= l->parts[d];
}

static struct range own(const struct lanes *l, int d)
{
    return share(l->parts[d], l->nsiblings[d], l->mine[d]);
}

int lanes_npaths(const struct lanes *l, int d)
{
    int n = 1;
    for (int e = d + 1; e <= l->depth; e++)
        n *= own(l, e).to - own(l, e).from;
    return n;
}

struct lane_path lanes_path(const struct lanes *l, int d, int i)
{
    struct lane_path path = {.chunk = 0};
    for (int e = d + 1; e <= l->depth; e++) {
        const struct range r = own(l, e);
        path.at[e] = r.from + i % (r.to - r.from);
        path.chunk += path.at[e] * l->size[e];
        i /= r.to - r.from;
    }
    return path;
}

int lanes_holder(const struct lanes *l, int d, const struct lane_path *path,
                 int q)
{
    int group = l->first[d] + q;
    for (int e = d + 1; e <= l->depth; e++) {
        const struct range r = children(l, e, group);
        group = r.from + path->at[e] * (r.to - r.from) / l->parts[e];
    }
    return group;
}

struct lane_part lanes_part(const struct lanes *l, int d,
                            const struct lane_path *path, int q)
{
    const struct range r = share(l->parts[d], l->nsiblings[d], q);
    return (struct lane_part){path->chunk + r.from * l->size[d],
                              (r.to - r.from) * l->size[d]};
}
