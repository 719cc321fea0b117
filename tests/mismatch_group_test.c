/* SPDX-License-Identifier: MIT */
/* Ranks that group their calls differently, or group different calls: what
 * differs in what then runs is told to every rank, as of single calls. What is
 * not put together may be grouped in any way. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "drawn.h"
#include "mismatched.h"
#include "ranks.h"

enum { MAX_CALLS = 5, FUSED_BYTES = 65536 };

/* Calls, in one group or more: ends[i] is 1 if one ends behind call i. */
struct list {
    int n, grouped;
    struct drawn calls[MAX_CALLS];
    int ends[MAX_CALLS];
};

static struct pair {
    struct list all, other; /* what rank odd does instead */
    int odd, by_request, meets;
} p;

/* What runs: a call, or several that are put together. */
struct unit {
    struct drawn call;
    int n;
    size_t parts[MAX_CALLS];
};

static int may_join(const struct unit *u, const struct drawn *c)
{
    size_t count = c->count;
    for (int i = 0; i < u->n; i++)
        count += u->parts[i];
    return u->n && u->call.kind == ALLREDUCE && c->kind == ALLREDUCE
           && c->dtype == u->call.dtype && c->op == u->call.op
           && count * coll_dtype_bytes(c->dtype) <= FUSED_BYTES;
}

static int units_of(const struct list *l, struct unit units[MAX_CALLS])
{
    int n = 0, open = 0;
    for (int i = 0; i < l->n; i++) {
        if (!open || !may_join(&units[n - 1], &l->calls[i]))
            units[n++] = (struct unit){.call = l->calls[i]};
        struct unit *u = &units[n - 1];
        u->parts[u->n++] = l->calls[i].count;
        open = l->grouped && !l->ends[i];
    }
    return n;
}

static int same_unit(const struct unit *a, const struct unit *b, int odd, int n)
{
    int same = a->n == b->n;
    for (int i = 1; i < a->n && same; i++)
        same = a->parts[i] == b->parts[i];
    return same && drawn_same(&a->call, &b->call, odd, n);
}

static int same_lists(int n)
{
    struct unit a[MAX_CALLS], b[MAX_CALLS];
    const int na = units_of(&p.all, a), nb = units_of(&p.other, b);
    int same = na == nb;
    for (int i = 0; i < na && same; i++)
        same = same_unit(&a[i], &b[i], p.odd, n);
    return same;
}

static struct drawn draw_call(int n)
{
    static const size_t counts[] = {0, 1, 2, 3, 5, 8, 100, 1000};
    struct drawn c = drawn_below(3) ? drawn_even(n) : drawn_uneven(n);
    if (drawn_below(4))
        c = (struct drawn){.kind = ALLREDUCE,
                           .dtype = COLL_F32,
                           .op = drawn_below(8) ? COLL_SUM : COLL_MAX,
                           .count = counts[drawn_below(8)]};
    return c;
}

static void swap(struct drawn *a, struct drawn *b)
{
    const struct drawn c = *a;
    *a = *b;
    *b = c;
}

/* What may go wrong in one rank. */
static void change(struct list *l, int n)
{
    const unsigned i = drawn_below((unsigned)l->n),
                   k = drawn_below((unsigned)l->n);
    switch (drawn_below(7)) {
    case 0:
        swap(&l->calls[i], &l->calls[k]);
        break;
    case 1:
        l->n--;
        break;
    case 2:
        l->calls[i] = drawn_change(l->calls[i], p.odd, n);
        break;
    case 3: /* of the same sum */
        l->calls[i].count++;
        l->calls[k].count -= l->calls[k].count > 0;
        break;
    case 4:
        l->grouped = 0;
        break;
    case 5:
        l->ends[i] = 1;
        break;
    default:
        l->calls[l->n++] = draw_call(n);
    }
}

static void draw_pair(int n)
{
    do {
        memset(&p, 0, sizeof(p));
        p.odd = (int)drawn_below((unsigned)n);
        p.by_request = (int)drawn_below(2);
        p.meets = (int)drawn_below(2);
        p.all.n = 2 + (int)drawn_below(3);
        p.all.grouped = 1;
        for (int i = 0; i < p.all.n; i++)
            p.all.calls[i] = draw_call(n);
        p.other = p.all;
        change(&p.other, n);
    } while (same_lists(n));
}

static coll_status run_list(const struct list *l, coll_comm *comm)
{
    coll_request *requests[MAX_CALLS] = {NULL};
    coll_status status = COLL_OK;
    for (int i = 0, first = 1; i < l->n && status == COLL_OK; i++) {
        if (l->grouped && first)
            coll_group_start();
        status =
            drawn_make(&l->calls[i], comm, p.by_request ? &requests[i] : NULL);
        first = l->ends[i];
        if (l->grouped && (first || i + 1 == l->n || status < 0)) {
            const coll_status last = coll_group_end();
            status = status == COLL_OK ? last : status;
        }
    }
    const coll_status last = coll_wait_all(l->n, requests);
    return status == COLL_OK ? last : status;
}

static coll_status run(int rank, coll_comm *comm)
{
    const coll_status status =
        run_list(rank == p.odd ? &p.other : &p.all, comm);
    return status == COLL_OK && p.meets ? coll_barrier(comm, NULL) : status;
}

static void print_list(const struct list *l, int n)
{
    fprintf(stderr, l->grouped ? "(" : "one by one ");
    for (int i = 0; i < l->n; i++)
        fprintf(stderr, "%s%s", drawn_print(&l->calls[i], n),
                i + 1 == l->n ? ""
                : l->ends[i]  ? ") ("
                              : "; ");
    fprintf(stderr, l->grouped ? ")" : "");
}

static void print(int n)
{
    print_list(&p.all, n);
    fprintf(stderr, "%s; rank %d instead ", p.by_request ? " by requests" : "",
            p.odd);
    print_list(&p.other, n);
    fprintf(stderr, "; then %s", p.meets ? "barrier" : "destroy");
}

static const struct mismatches groups = {draw_pair, run, print, NULL, NULL};

Test(mismatch_group, on_one_host_is_told_to_every_rank)
{
    mismatched(&groups, quick_shm, 1, 40, 2);
}

Test(mismatch_group, by_plans_is_told_to_every_rank)
{
    mismatched(&groups, quick_plans(), 4, 20, 1);
}

Test(mismatch_group, over_ucx_is_told_to_every_rank)
{
    mismatched(&groups, quick_ucx, 7, 20, 1);
}

/* Rank 0 makes one by one what the others group, or cuts their group in two. */
static int otherwise(coll_comm *comm, int rank, int n)
{
    drawn_state = 10;
    for (int i = 0; i < 50; i++) {
        memset(&p, 0, sizeof(p));
        p.by_request = (int)drawn_below(2);
        p.all.n = 3;
        const int grouped = (int)drawn_below(2);
        p.all.grouped = rank > 0 || grouped;
        p.all.ends[1] = rank == 0;
        for (int k = 0; k < p.all.n; k++)
            p.all.calls[k] = k % 2 ? drawn_uneven(n) : drawn_even(n);
        EXPECT(run_list(&p.all, comm) == COLL_OK, "list %d", i);
    }
    return 0;
}

Test(mismatch_group, of_single_calls_may_be_grouped_otherwise)
{
    cr_expect_eq(run_ranks(2, quick_shm, otherwise), 0);
    cr_expect_eq(run_ranks(3, quick_ucx, otherwise), 0);
}
