/* SPDX-License-Identifier: MIT */
/* Plans on chunks of any lengths, zeros among them, as the v-calls run them: on
 * the simulator, in random groups, in place and not, with messages that arrive
 * in a shuffled order. Vectors are weights.h's. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "exec/rehearse.h"
#include "thorough.h"
#include "weights.h"

enum { MAX_RANKS = 64, LONGEST = 9, GAP = 3 };

static const uint64_t canary = 0xabad1dea;

/* Groups of positions in groups, two levels of them at most. */
struct groups {
    struct plan_tree tree;
    int outer[MAX_RANKS + 1], inner[MAX_RANKS + 1];
};

static void make_groups(struct groups *g, int n)
{
    int nouter = 0, ninner = 0;
    for (int at = 0; at < n; at++) {
        const bool begins = at == 0 || draw(9) == 0;
        if (begins)
            g->outer[nouter++] = at;
        if (begins || draw(3) == 0)
            g->inner[ninner++] = at;
    }
    g->outer[nouter] = g->inner[ninner] = n;
    g->tree = (struct plan_tree){.nlevels = 0};
    if (nouter > 1)
        g->tree.level[g->tree.nlevels++] =
            (struct plan_level){nouter, g->outer};
    if (ninner > nouter && ninner < n)
        g->tree.level[g->tree.nlevels++] =
            (struct plan_level){ninner, g->inner};
}

/* A collective in which all ranks have a part: how long, and where in the
 * vector of whoever has all of them. */
struct trial {
    const struct algo *algo;
    int n;
    bool in_place, apart;
    size_t before[MAX_RANKS + 1];
    size_t at[MAX_RANKS][MAX_RANKS]; /* per rank; only if apart */
    struct exec_chunks chunks[MAX_RANKS][2];
};

static void make_lengths(struct trial *t)
{
    const int often = draw(4); /* none at all, too */
    t->before[0] = 0;
    for (int r = 0; r < t->n; r++)
        t->before[r + 1] =
            t->before[r] + (size_t)(draw(4) < often ? 0 : draw(LONGEST + 1));
}

/* Each rank another order of the parts, with gaps. */
static void put_apart(struct trial *t, int rank)
{
    int order[MAX_RANKS];
    size_t at = 0;
    for (int i = 0; i < t->n; i++) {
        const int j = draw(i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < t->n; i++) {
        const int c = order[i];
        at += (size_t)draw(GAP);
        t->at[rank][c] = at;
        at += t->before[c + 1] - t->before[c];
    }
}

static size_t room(const struct trial *t)
{
    return t->before[t->n] + (size_t)t->n * GAP + 1;
}

static size_t at(const struct trial *t, int rank, int chunk)
{
    return t->apart ? t->at[rank][chunk] : t->before[chunk];
}

/* What each rank gives: of the whole vector, or of its own part only. */
static void fill(const struct trial *t, int r, uint64_t *in, bool all)
{
    const size_t first = all ? 0 : t->before[r];
    const size_t end = t->before[all ? t->n : r + 1];
    for (size_t i = first; i < end; i++)
        in[i - first] = weight(r, i);
}

static void check_part(const struct trial *t, int rank, int part,
                       const uint64_t *out)
{
    for (size_t i = t->before[part]; i < t->before[part + 1]; i++) {
        uint64_t wanted = 0;
        for (int r = 0; r < t->n; r++)
            if (t->algo->kind == REDUCE_SCATTER || r == part)
                wanted += weight(r, i);
        cr_assert_eq(out[i - t->before[part]], wanted,
                     "%s, %d ranks%s%s: rank %d, part %d, element %zu",
                     t->algo->full_name, t->n, t->in_place ? ", in place" : "",
                     t->apart ? ", apart" : "", rank, part,
                     i - t->before[part]);
    }
}

/* What is in no part is as it was. */
static size_t untouched(const struct trial *t, const uint64_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < room(t); i++)
        n += out[i] == canary;
    return n;
}

static void run(struct trial *t, const struct plan_tree *tree)
{
    static uint64_t *all[MAX_RANKS], *part[MAX_RANKS];
    static char *in[MAX_RANKS], *out[MAX_RANKS];
    const bool gathers = t->algo->kind == ALLGATHER;
    for (int r = 0; r < t->n; r++) {
        t->chunks[r][0] = t->chunks[r][1] =
            (struct exec_chunks){t->before, NULL};
        if (t->apart)
            put_apart(t, r);
        if (t->apart)
            t->chunks[r][1].at = t->at[r];
        all[r] = malloc(room(t) * sizeof(uint64_t));
        part[r] = malloc((LONGEST + 1) * sizeof(uint64_t));
        for (size_t i = 0; i < room(t); i++)
            all[r][i] = canary;
        for (size_t i = 0; i <= LONGEST; i++)
            part[r][i] = canary;
        uint64_t *const mine = t->in_place ? all[r] + at(t, r, r) : part[r];
        in[r] = (char *)(gathers ? mine : all[r]);
        out[r] = (char *)(gathers ? all[r] : mine);
        fill(t, r, gathers ? mine : all[r], !gathers);
    }
    const struct rehearsal c = {
        .plan = t->algo->plan,
        .nranks = t->n,
        .segments = 1,
        .tree = tree,
        .count = t->before[t->n],
        .elem_bytes = sizeof(uint64_t),
        .chunks = (const struct exec_chunks(*)[2])t->chunks,
        .net = {.link = {1e-6, 1e-10, 0}, .jitter_seed = (unsigned)t->n},
        .reduce = &(struct combine){.kernel = add_weights                       },
        .in = in,
        .out = out,
        .in_parts = gathers,
        .out_parts = !gathers,
    };
    double seconds;
    const coll_status status = rehearse(&c, &seconds);
    cr_assert_eq(status, COLL_OK, "%s, %d ranks: %d", t->algo->full_name, t->n,
                 status);
    for (int r = 0; r < t->n; r++) {
        const size_t own = t->before[r + 1] - t->before[r];
        if (!gathers)
            check_part(t, r, r, (uint64_t *)out[r]);
        for (int i = 0; i < t->n && gathers; i++)
            check_part(t, r, i, all[r] + at(t, r, i));
        cr_assert_eq(untouched(t, all[r]), room(t) - t->before[t->n]);
        cr_assert_eq(part[r][t->in_place ? 0 : own], canary, "past the end");
        free(all[r]);
        free(part[r]);
    }
}

static bool names_runs(const struct algo *algo, int n,
                       const struct plan_tree *t)
{
    bool runs = false;
    for (int r = 0; r < n; r++) {
        struct plan p;
        algo->plan(&p, &(struct plan_shape){
                           .rank = r, .nranks = n, .segments = 1, .tree = t});
        runs |= p.runs;
        plan_free(&p);
    }
    return runs;
}

static void try_all_ways(const struct algo *algo, int n,
                         const struct plan_tree *tree)
{
    const bool apart = algo->kind == ALLGATHER && !names_runs(algo, n, tree);
    for (int in_place = 0; in_place < 2; in_place++)
        for (int i = 0; i <= apart; i++) {
            static struct trial t;
            t = (struct trial){
                .algo = algo, .n = n, .in_place = in_place, .apart = i};
            make_lengths(&t);
            run(&t, tree);
        }
}

Test(chunks, of_any_lengths_come_in_once_and_in_their_place, .timeout = 600)
{
    for (int a = 0; a < nplanned; a++) {
        const enum coll_kind kind = algos[a].kind;
        draw_state = 0;
        for (int n = 1; n <= MAX_RANKS; n++) {
            static struct groups g;
            if ((kind != ALLGATHER && kind != REDUCE_SCATTER)
                || !tries_ranks(n))
                continue;
            try_all_ways(&algos[a], n, NULL);
            for (unsigned i = 0; i < cases(4, 1); i++) {
                make_groups(&g, n);
                try_all_ways(&algos[a], n, &g.tree);
            }
        }
    }
}

/* A ring sends one chunk at a time, so its result may lie anywhere. */
Test(chunks, of_a_ring_may_lie_apart)
{
    cr_assert_not(names_runs(algo_find(ALLGATHER, "ring"), 5, NULL));
    cr_assert(names_runs(algo_find(ALLGATHER, "bruck"), 5, NULL));
}

/* Ranks that say different lengths, with which one waits for nothing and
 * another for something: neither passes nor hangs. */
Test(chunks, of_none_and_of_some_are_a_mismatch)
{
    for (int some = 0; some < 2; some++) {
        static const size_t before[2][3] = {
            {0, 1, 1},
            {0, 0, 0},
        };
        struct exec_chunks chunks[2][2];
        char x[2][2] = {
            {1, 2},
            {3, 4}
        };
        char *in[2] = {x[0], x[1]};
        char *out[2] = {x[0] + 1, x[1] + 1};
        for (int r = 0; r < 2; r++)
            chunks[r][0] = chunks[r][1] =
                (struct exec_chunks){before[r ^ some], NULL};
        const struct rehearsal c = {
            .plan = algo_find(ALLGATHER, "ring")->plan,
            .nranks = 2,
            .segments = 1,
            .count = 1,
            .elem_bytes = 1,
            .chunks = (const struct exec_chunks(*)[2])chunks,
            .net = {.link = {1e-6, 1e-10, 0}},
            .in = in,
            .out = out,
            .in_parts = true,
        };
        double seconds;
        cr_assert_eq(rehearse(&c, &seconds), COLL_ERR_MISMATCH);
    }
}

/* One chunk has all: the slots of the others take nothing. */
Test(chunks, scratch_is_as_long_as_they_are)
{
    enum { N = 64, COUNT = 1000 };
    struct plan p;
    struct exec e;
    size_t before[N + 1] = {0}, bytes;
    plan_reduce_scatter_halving(
        &p, &(struct plan_shape){.nranks = N, .segments = 1});
    cr_assert_eq(exec_init(&e, &p, NULL), COLL_OK);
    for (int i = 0; i < N; i++)
        before[i + 1] = i >= 7 ? COUNT : 0;
    const struct exec_chunks chunks = {before, NULL};
    cr_assert_eq(exec_lay_out(&e, &chunks, 1, &bytes), COLL_OK);
    cr_assert_leq(bytes, 2 * COUNT);
    cr_assert_geq(bytes, COUNT);
    exec_free(&e);
    plan_free(&p);
}
