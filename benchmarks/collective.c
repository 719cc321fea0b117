/* SPDX-License-Identifier: MIT */
#include "collective.h"

#include <stdio.h>
#include <string.h>

/* One row each, in the order of the enum. */
static const struct {
    const char *name;
    bool reduces, has_root, has_vectors, cuts;
    double links; /* busbw: this times (n - 1) / n; 0: 1 */
} table[NCOLLECTIVES] = {
    {"allreduce",      true,  false, true,  false, 2},
    {"reduce",         true,  true,  true,  false, 0},
    {"broadcast",      false, true,  true,  false, 0},
    {"reduce_scatter", true,  false, true,  true,  1},
    {"allgather",      false, false, true,  true,  1},
    {"gather",         false, true,  true,  true,  1},
    {"scatter",        false, true,  true,  true,  1},
    {"alltoall",       false, false, true,  true,  1},
    {"sendrecv",       false, false, true,  false, 0},
    {"pingpong",       false, false, true,  false, 0},
    {"barrier",        false, false, false, false, 0},
};

const char *collective_name(enum collective c)
{
    return table[c].name;
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
    return c == BROADCAST || c == SCATTER;
}

bool collective_has_vectors(enum collective c)
{
    return table[c].has_vectors;
}

const char *collective_model(enum collective c)
{
    return c == SENDRECV || c == PINGPONG ? NULL : collective_name(c);
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

int collective_algorithms(enum collective c,
                          const char *out[COLLECTIVE_ALGORITHMS])
{
    const char *const model = collective_model(c);
    coll_algorithm_info info;
    int n = 0;
    for (int i = 0;
         model && coll_algorithm_get(i, &info) && n < COLLECTIVE_ALGORITHMS;
         i++)
        if (strcmp(info.collective, model) == 0)
            out[n++] = info.name;
    return n;
}

bool collective_has_algorithm(enum collective c, const char *name)
{
    const char *of[COLLECTIVE_ALGORITHMS];
    for (int i = collective_algorithms(c, of) - 1; i >= 0; i--)
        if (strcmp(of[i], name) == 0)
            return true;
    return false;
}

bool collective_next_name(const char **at, char name[ALGORITHM_BYTES])
{
    const size_t length = strcspn(*at, ",");
    if (!**at)
        return false;
    snprintf(name, ALGORITHM_BYTES, "%.*s", (int)length, *at);
    *at += length + ((*at)[length] == ',');
    return true;
}

size_t shape_sends(const struct shape *s, size_t count)
{
    const enum collective c = s->collective;
    if (collective_root_sends(c) && s->rank != s->root)
        return 0;
    if (c == PINGPONG && shape_source(s) < 0)
        return 0;
    return c == REDUCE_SCATTER || c == SCATTER || c == ALLTOALL
               ? (size_t)s->nranks * count
               : count;
}

size_t shape_receives(const struct shape *s, size_t count)
{
    const enum collective c = s->collective;
    if ((c == REDUCE || c == GATHER) && s->rank != s->root)
        return 0;
    if (c == PINGPONG && shape_source(s) < 0)
        return 0;
    return c == ALLGATHER || c == GATHER || c == ALLTOALL
               ? (size_t)s->nranks * count
               : count;
}

size_t shape_send_offset(const struct shape *s, size_t count)
{
    const bool part = s->collective == ALLGATHER || s->collective == GATHER;
    return part ? (size_t)s->rank * count : 0;
}

size_t shape_recv_offset(const struct shape *s, size_t count)
{
    const bool part =
        s->collective == REDUCE_SCATTER || s->collective == SCATTER;
    return part ? (size_t)s->rank * count : 0;
}

int shape_source(const struct shape *s)
{
    const int last = s->nranks - 1;
    if (s->collective == SENDRECV)
        return s->rank > 0 ? s->rank - 1 : last;
    return s->rank == 0 || s->rank == last ? last - s->rank : -1;
}
