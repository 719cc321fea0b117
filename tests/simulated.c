/* SPDX-License-Identifier: MIT */
#include "simulated.h"

#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "comm/uneven.h"
#include "exec/rehearse.h"
#include "op/op.h"

enum { MOST_RANKS = 64 };

const int simulated_n = NALGOS;

const char *simulated_algorithm(int i, const char *collective, int nranks)
{
    const struct plan_shape shape = {.nranks = nranks, .segments = 1};
    const struct algo *algo = &algos[i];
    const char *uneven = i < nplanned ? uneven_name(algo->kind) : NULL;
    const bool v = uneven && !strcmp(uneven, collective);
    if (i >= nplanned || (!v && strcmp(kind_names[algo->kind], collective)))
        return NULL;
    const bool may = v && !uneven_is_known(algo->kind)
                         ? algo == uneven_by_parts(algo->kind, nranks)
                         : algo->fits(&shape);
    return may ? algo->name : NULL;
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
static void copy_all(const struct simulated *s, size_t bytes, char **in)
{
    for (int r = 0; r < s->nranks; r++) {
        in[r] = malloc(bytes + 1);
        memcpy(in[r], s->in[r], bytes);
    }
}

static void free_all(char **in, int n)
{
    for (int r = 0; r < n; r++)
        free(in[r]);
}

/* An average is a sum until here. */
static void finish(const struct simulated *s, enum coll_kind kind)
{
    for (int r = 0; r < s->nranks && kind_reduces(kind); r++)
        if (kind != REDUCE || r == s->root)
            op_finish(s->dtype, s->op, s->out[r],
                      s->lengths ? s->lengths[r][r] : s->count, s->nranks);
}

/* What rank r says of a vector: of all parts, of its own, or of none. */
static const size_t *chunks_of(const struct simulated *s, int r, bool all,
                               bool own, size_t *before)
{
    before[0] = 0;
    for (int i = 0; i < s->nranks; i++)
        before[i + 1] =
            before[i] + (all || (own && i == r) ? s->lengths[r][i] : 0);
    return before;
}

/* As comm/uneven.c has them. */
struct chunks {
    size_t before[MOST_RANKS][2][MOST_RANKS + 1];
    struct exec_chunks of[MOST_RANKS][2];
};

static void lay_out(struct chunks *c, const struct simulated *s,
                    enum coll_kind kind)
{
    for (int r = 0; r < s->nranks; r++) {
        const bool gives = kind == ALLTOALL || kind == REDUCE_SCATTER
                           || (kind == SCATTER && r == s->root);
        const bool gets = kind == ALLTOALL || kind == ALLGATHER
                          || (kind == GATHER && r == s->root);
        c->of[r][0].before =
            chunks_of(s, r, gives, kind != SCATTER, c->before[r][0]);
        c->of[r][1].before =
            chunks_of(s, r, gets, kind != GATHER, c->before[r][1]);
        c->of[r][0].at = c->of[r][1].at = NULL;
    }
}

coll_status simulate(int algorithm, const struct simulated *s)
{
    static const int segments[] = {1, 2, 4, PLAN_SEGMENTS_MAX};
    const struct algo *algo = &algos[algorithm];
    const enum coll_kind kind = algo->kind;
    const size_t parts = kind_has_parts(kind) ? (size_t)s->nranks : 1;
    const size_t elem = coll_dtype_bytes(s->dtype);
    const bool grouped = s->turn / 4 % 2 && s->nranks > 3 && kind != BARRIER;
    const bool aside = kind == ALLTOALL && s->in_place;
    struct grouping g;
    static struct chunks chunks;
    double seconds;
    if (s->lengths)
        lay_out(&chunks, s, kind);
    if (grouped)
        group(&g, s->nranks);
    char *copies[MOST_RANKS];
    if (aside)
        copy_all(s, elem * s->count * parts, copies);
    const struct rehearsal c = {
        .plan = algo->plan,
        .nranks = s->nranks,
        .segments = segments[s->turn % 4],
        .tree = grouped ? &g.tree : NULL,
        .root = kind_has_parts(kind) ? 0 : s->root,
        .root_at = kind_has_parts(kind) ? s->root : 0,
        .count = s->count * parts,
        .elem_bytes = elem,
        .chunks = s->lengths ? (const struct exec_chunks(*)[2])chunks.of : NULL,
        .net = {.link = {1e-6, 1e-10, 0}, .jitter_seed = s->turn},
        .reduce = kind_reduces(kind) ? op_combine(s->dtype, s->op) : NULL,
        .in = aside ? copies : s->in,
        .out = s->out,
        .in_parts = !s->lengths && (kind == ALLGATHER || kind == GATHER),
        .out_parts = !s->lengths && (kind == REDUCE_SCATTER || kind == SCATTER),
    };
    const coll_status status = rehearse(&c, &seconds);
    if (status == COLL_OK)
        finish(s, kind);
    if (aside)
        free_all(copies, s->nranks);
    return status;
}
