/* SPDX-License-Identifier: MIT */
/* How S is cut into parts, evenly or as collective.h says of a _v. */
#include "collective.h"

/* Where part r of n begins; r may be n. */
static size_t cut(const struct shape *s, size_t all, int part)
{
    const size_t n = (size_t)s->nranks, r = (size_t)part;
    return collective_even(s->collective) == s->collective
               ? all * r / n
               : all * (r * (r + 1) / 2) / (n * (n + 1) / 2);
}

size_t shape_part_begin(const struct shape *s, size_t all, int rank, int of)
{
    const int n = s->nranks;
    if (s->collective != ALLTOALL_V)
        return cut(s, all, of);
    /* the parts of rank, rank + 1 and so on, from the first again after the
     * last */
    const size_t skipped = cut(s, all, rank);
    return rank + of <= n ? cut(s, all, rank + of) - skipped
                          : all - skipped + cut(s, all, rank + of - n);
}

size_t shape_part(const struct shape *s, size_t all, int rank, int of)
{
    return shape_part_begin(s, all, rank, of + 1)
           - shape_part_begin(s, all, rank, of);
}

void shape_lengths(const struct shape *s, size_t count, size_t *lengths)
{
    const size_t all = (size_t)s->nranks * count;
    for (int r = 0; r < s->nranks; r++)
        lengths[r] = shape_part(s, all, s->rank, r);
}
