/* SPDX-License-Identifier: MIT */
#include "collective.h"

/* One row each, in the order of the enum. */
static const struct {
    const char *name;
    bool reduces, has_root, has_vectors, cuts;
    double links; /* busbw: this times (n - 1) / n; 0: 1 */
} table[NCOLLECTIVES] = {
    {"allreduce",        true,  false, true,  false, 2},
    {"reduce",           true,  true,  true,  false, 0},
    {"broadcast",        false, true,  true,  false, 0},
    {"reduce_scatter",   true,  false, true,  true,  1},
    {"allgather",        false, false, true,  true,  1},
    {"gather",           false, true,  true,  true,  1},
    {"scatter",          false, true,  true,  true,  1},
    {"alltoall",         false, false, true,  true,  1},
    {"reduce_scatter_v", true,  false, true,  true,  1},
    {"allgather_v",      false, false, true,  true,  1},
    {"gather_v",         false, true,  true,  true,  1},
    {"scatter_v",        false, true,  true,  true,  1},
    {"alltoall_v",       false, false, true,  true,  1},
    {"sendrecv",         false, false, true,  false, 0},
    {"pingpong",         false, false, true,  false, 0},
    {"barrier",          false, false, false, false, 0},
};

const char *collective_name(enum collective c)
{
    return table[c].name;
}

enum collective collective_even(enum collective c)
{
    return c >= REDUCE_SCATTER_V && c <= ALLTOALL_V
               ? (enum collective)(c - REDUCE_SCATTER_V + REDUCE_SCATTER)
               : c;
}

bool collective_reduces(enum collective c)
{
    return table[c].reduces;
}

bool collective_has_root(enum collective c)
{
    return table[c].has_root;
}

bool collective_root_sends(enum collective c)
{
    return c == BROADCAST || collective_even(c) == SCATTER;
}

bool collective_has_vectors(enum collective c)
{
    return table[c].has_vectors;
}

const char *collective_model(enum collective c)
{
    const bool parts_alone = c == GATHER_V || c == SCATTER_V || c == ALLTOALL_V;
    return parts_alone || c == SENDRECV || c == PINGPONG
               ? NULL
               : collective_name(collective_even(c));
}

bool collective_in_place(enum collective c)
{
    return c != SENDRECV && c != PINGPONG;
}

bool collective_at_once(enum collective c)
{
    return c != PINGPONG;
}

double collective_share(enum collective c)
{
    return c == PINGPONG ? 0.5 : 1;
}

double collective_busbw(enum collective c, int nranks)
{
    return table[c].links > 0 ? table[c].links * (nranks - 1) / nranks : 1;
}

size_t collective_parts(enum collective c, int nranks)
{
    return table[c].cuts ? (size_t)nranks : 1;
}

/* Elements that it has of all. */
static size_t own_part(const struct shape *s, size_t count)
{
    return shape_part(s, (size_t)s->nranks * count, s->rank, s->rank);
}

size_t shape_sends(const struct shape *s, size_t count)
{
    const enum collective c = collective_even(s->collective);
    if (collective_root_sends(c) && s->rank != s->root)
        return 0;
    if (c == PINGPONG && shape_source(s) < 0)
        return 0;
    if (c == ALLGATHER || c == GATHER)
        return own_part(s, count);
    return c == REDUCE_SCATTER || c == SCATTER || c == ALLTOALL
               ? (size_t)s->nranks * count
               : count;
}

bool shape_gets_nothing(const struct shape *s)
{
    const enum collective c = collective_even(s->collective);
    return ((c == REDUCE || c == GATHER) && s->rank != s->root)
           || (c == PINGPONG && shape_source(s) < 0);
}

size_t shape_receives(const struct shape *s, size_t count)
{
    const enum collective c = collective_even(s->collective);
    if (shape_gets_nothing(s))
        return 0;
    if (c == REDUCE_SCATTER || c == SCATTER)
        return own_part(s, count);
    return c == ALLGATHER || c == GATHER || c == ALLTOALL
               ? (size_t)s->nranks * count
               : count;
}

static size_t own_begin(const struct shape *s, size_t count)
{
    return shape_part_begin(s, (size_t)s->nranks * count, s->rank, s->rank);
}

size_t shape_send_offset(const struct shape *s, size_t count)
{
    const enum collective c = collective_even(s->collective);
    return c == ALLGATHER || c == GATHER ? own_begin(s, count) : 0;
}

size_t shape_recv_offset(const struct shape *s, size_t count)
{
    const enum collective c = collective_even(s->collective);
    return c == REDUCE_SCATTER || c == SCATTER ? own_begin(s, count) : 0;
}

int shape_source(const struct shape *s)
{
    const int last = s->nranks - 1;
    if (s->collective == SENDRECV)
        return s->rank > 0 ? s->rank - 1 : last;
    return s->rank == 0 || s->rank == last ? last - s->rank : -1;
}
