/* SPDX-License-Identifier: MIT */
#include "algo/lanes.h"

#include <limits.h>

enum { MOST_CHUNKS = 16 }; /* for each rank; 1 where groups are alike */

/* The windows, of `parts`, that child i of n takes. */
static struct range share(int parts, int n, int i)
{
    const int64_t from = (int64_t)i * parts + n - 1, to = from + parts;
    return (struct range){(int)(from / n), (int)(to / n)};
}

void lanes_init(struct lanes *l, const struct plan_shape *s)
{
    *l = (struct lanes){.groups = groups_of(s)};
    l->depth = l->groups.depth;
    int group = 0;
    int64_t nchunks = 1;
    for (int d = 0; d <= l->depth; d++) {
        const int nouter = d ? groups_count(&l->groups, d - 1) : 1;
        l->fewest[d] = INT_MAX;
        for (int g = 0; g < nouter; g++) {
            const struct range r = groups_children(&l->groups, d, g);
            const int n = r.to - r.from;
            l->parts[d] = n > l->parts[d] ? n : l->parts[d];
            l->fewest[d] = n < l->fewest[d] ? n : l->fewest[d];
        }
        if (nchunks <= (int64_t)MOST_CHUNKS * s->nranks)
            nchunks *= l->parts[d];
        const struct range r = groups_children(&l->groups, d, group);
        group = groups_find(&l->groups, d, s->rank);
        l->first[d] = r.from;
        l->nsiblings[d] = r.to - r.from;
        l->mine[d] = group - r.from;
    }
    if (nchunks > (int64_t)MOST_CHUNKS * s->nranks)
        return;
    l->nchunks = (int)nchunks;
    int size = l->nchunks;
    for (int d = l->depth; d >= 0; d--)
        l->size[d] = size /= l->parts[d];
}

void lanes_recut(struct lanes *l, int parts)
{
    for (int d = 1; d <= l->depth; d++)
        l->size[d] = l->size[d] / l->parts[0] * parts;
    l->nchunks = l->nchunks / l->parts[0] * parts;
    l->parts[0] = parts;
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

int64_t lanes_most_paths(const struct lanes *l, int d)
{
    int64_t n = 1;
    for (int e = d + 1; e <= l->depth; e++)
        n *= (l->parts[e] + l->fewest[e] - 1) / l->fewest[e];
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
        const struct range r = groups_children(&l->groups, e, group);
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
