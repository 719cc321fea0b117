/* SPDX-License-Identifier: MIT */
#include "simulated.h"

#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "exec/rehearse.h"
#include "op/op.h"

enum { MOST_RANKS = 64 };

const int simulated_n = NALGOS;

const char *simulated_algorithm(int i, const char *collective, int nranks)
{
    const struct plan_shape shape = {.nranks = nranks, .segments = 1};
    return i < nplanned && !strcmp(kind_names[algos[i].kind], collective)
                   && algos[i].fits(&shape)
               ? algos[i].name
               : NULL;
}

/* Halves, and pairs in them. */
struct grouping {
    int halves[3], pairs[MOST_RANKS + 2];
    struct plan_tree tree;
};

static void group(struct grouping *g, int n)
{
    const int half = n / 2;
    int *first = g->pairs;
    for (int i = 0; i < n; i++)
        if (i == half || (i - (i > half ? half : 0)) % 2 == 0)
            *first++ = i;
    *first = n;
    g->halves[0] = 0;
    g->halves[1] = half;
    g->halves[2] = n;
    g->tree = (struct plan_tree){
        .nlevels = 2,
        .level = {{2, g->halves}, {(int)(first - g->pairs), g->pairs}},
    };
}

/* In place, an alltoall's plan reads a copy. */
static char **copies(const struct simulated *s, size_t bytes)
{
    char **in = calloc((size_t)s->nranks, sizeof(*in));
    for (int r = 0; r < s->nranks; r++) {
        in[r] = malloc(bytes + 1);
        memcpy(in[r], s->in[r], bytes);
    }
    return in;
}

static void free_copies(char **in, int n)
{
    for (int r = 0; r < n; r++)
        free(in[r]);
    free(in);
}

/* An average is a sum until here. */
static void finish(const struct simulated *s, enum coll_kind kind)
{
    for (int r = 0; r < s->nranks && kind_reduces(kind); r++)
        if (kind != REDUCE || r == s->root)
            op_finish(s->dtype, s->op, s->out[r], s->count, s->nranks);
}

coll_status simulate(int algorithm, const struct simulated *s)
{
    static const int segments[] = {1, 2, 4, PLAN_SEGMENTS_MAX};
    const struct algo *algo = &algos[algorithm];
    const enum coll_kind kind = algo->kind;
    const size_t parts = kind_has_parts(kind) ? (size_t)s->nranks : 1;
    const size_t elem = coll_dtype_bytes(s->dtype);
    const bool grouped = s->turn / 4 % 2 && s->nranks > 3 && kind <= ALLGATHER;
    const bool aside = kind == ALLTOALL && s->in_place;
    struct grouping g;
    double seconds;
    if (grouped)
        group(&g, s->nranks);
    char **in = aside ? copies(s, elem * s->count * parts) : s->in;
    const struct rehearsal c = {
        .plan = algo->plan,
        .nranks = s->nranks,
        .segments = segments[s->turn % 4],
        .tree = grouped ? &g.tree : NULL,
        .root = kind_has_parts(kind) ? 0 : s->root,
        .root_at = kind_has_parts(kind) ? s->root : 0,
        .count = s->count * parts,
        .elem_bytes = elem,
        .net = {.link = {1e-6, 1e-10, 0}, .jitter_seed = s->turn},
        .reduce = kind_reduces(kind) ? op_combine(s->dtype, s->op) : NULL,
        .in = in,
        .out = s->out,
        .in_parts = kind == ALLGATHER || kind == GATHER,
        .out_parts = kind == REDUCE_SCATTER || kind == SCATTER,
    };
    const coll_status status = rehearse(&c, &seconds);
    if (status == COLL_OK)
        finish(s, kind);
    if (aside)
        free_copies(in, s->nranks);
    return status;
}
