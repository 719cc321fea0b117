/* SPDX-License-Identifier: MIT */
/* Ranks that make different calls. Whatever differs, and however the data move,
 * every rank is told within two seconds, in one sentence that names two ranks
 * and both calls; nobody waits for ever, and nothing that is wrong passes.
 *
 * Each rank makes the same few calls, but one rank a different one, or one
 * less. All pairs of a job run in the same processes, each on a communicator of
 * its own. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "coll/coll.h"
#include "ranks.h"
#include "thorough.h"

enum { MAX_COUNT = 70000, MAX_RANKS = 4 };
static const double soon = 2; /* seconds */

struct call {
    enum kind kind;
    size_t count;
    coll_dtype dtype;
    coll_op op;
    int root;
};

/* What every rank does, and what one of them does in the place of it. */
struct mismatch {
    struct call before, call, other, after;
    int odd;       /* the rank that differs */
    int has_after; /* a call follows, in which all would meet */
    enum how { INSTEAD, LEFT_OUT, SWAPPED, HOWS } how;
    int by_request;
};

static uint64_t state;

static unsigned draw(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

static struct call draw_call(int n)
{
    static const size_t counts[] = {0,   1,   2,    3,    7,     14,   100,
                                    511, 600, 3000, 5000, 20000, 70000};
    static const coll_dtype dtypes[] = {COLL_I32, COLL_F32, COLL_U8, COLL_F64};
    static const coll_op ops[] = {COLL_SUM, COLL_MAX, COLL_MIN, COLL_PROD};
    struct call c = {
        .kind = (enum kind)draw(NKINDS),
        .count = counts[draw(sizeof(counts) / sizeof(counts[0]))],
        .dtype = dtypes[draw(4)],
        .op = ops[draw(4)],
        .root = (int)draw((unsigned)n),
    };
    return c;
}

static int has_root(enum kind k)
{
    return k == REDUCE || k == BROADCAST || k == GATHER || k == SCATTER;
}

static int has_op(enum kind k)
{
    return k == ALLREDUCE || k == REDUCE || k == REDUCE_SCATTER;
}

/* Whether the library has to tell them apart. */
static int same(const struct call *a, const struct call *b)
{
    return a->kind == b->kind
           && (a->kind == BARRIER
               || (a->count == b->count && a->dtype == b->dtype
                   && (!has_op(a->kind) || a->op == b->op)
                   && (!has_root(a->kind) || a->root == b->root)));
}

/* One thing only differs, most of the time. */
static struct call change(struct call c, int n)
{
    const struct call d = draw_call(n);
    switch (draw(6)) {
    case 0:
        c.kind = d.kind;
        break;
    case 1:
        c.count = c.count + 1;
        break;
    case 2:
        c.dtype = d.dtype;
        break;
    case 3:
        c.op = d.op;
        break;
    case 4:
        c.root = d.root;
        break;
    default:
        c = d;
    }
    return c;
}

static struct mismatch draw_mismatch(int n)
{
    struct mismatch m;
    m.before = draw_call(n);
    m.after = draw_call(n);
    m.odd = (int)draw((unsigned)n);
    m.has_after = (int)draw(2);
    m.how = (enum how)draw(HOWS);
    m.by_request = draw(4) == 0;
    do {
        m.call = draw_call(n);
        m.other = m.how == SWAPPED ? draw_call(n) : change(m.call, n);
    } while (same(&m.call, &m.other));
    return m;
}

static char in[(MAX_COUNT + 1) * 8 * MAX_RANKS];
static char out[(MAX_COUNT + 1) * 8 * MAX_RANKS];

static coll_status make(const struct call *c, coll_comm *comm, int by_request)
{
    coll_request *request = NULL;
    const coll_status status =
        call(c->kind, in, out, c->count, c->dtype, c->op, c->root, comm,
             by_request ? &request : NULL);
    return by_request && status == COLL_OK ? coll_wait(&request) : status;
}

static coll_status run(const struct mismatch *m, int rank, coll_comm *comm)
{
    const int odd = rank == m->odd;
    coll_status status = make(&m->before, comm, 0);
    const struct call *first = &m->call, *second = NULL;
    if (odd && m->how == INSTEAD)
        first = &m->other;
    if (m->how == SWAPPED) {
        first = odd ? &m->other : &m->call;
        second = odd ? &m->call : &m->other;
    }
    if (status == COLL_OK && !(odd && m->how == LEFT_OUT))
        status = make(first, comm, m->by_request);
    if (status == COLL_OK && second)
        status = make(second, comm, m->by_request);
    if (status == COLL_OK && m->has_after)
        status = make(&m->after, comm, 0);
    return status;
}

static const char *print(const struct call *c)
{
    static char text[4][80];
    static int k;
    k = (k + 1) % 4;
    snprintf(text[k], sizeof(text[k]), "%s %zu %s %s root %d",
             call_names[c->kind], c->count, coll_dtype_name(c->dtype),
             coll_op_name(c->op), c->root);
    return text[k];
}

static void tell(const struct mismatch *m, int i, int rank)
{
    static const char *const hows[] = {"instead", "left out", "swapped"};
    fprintf(stderr, "pair %d, at rank %d: %s; %s%s; rank %d %s: %s; then %s\n",
            i, rank, print(&m->before), print(&m->call),
            m->by_request ? " (request)" : "", m->odd, hows[m->how],
            print(&m->other), m->has_after ? print(&m->after) : "destroy");
}

/* The sentence has two ranks, each with a call. */
static int names_both(const char *why)
{
    const char *one = strstr(why, "rank ");
    const char *called = one ? strstr(one, " called ") : NULL;
    return called && strstr(called + 1, " called ") && !strchr(why, '?');
}

static int pairs, seed;

static int mismatches(coll_comm *comm, int rank, int n)
{
    int wrong = 0;
    state = (uint64_t)seed;
    for (int i = 0; i < pairs && !wrong; i++) {
        const struct mismatch m = draw_mismatch(n);
        coll_comm *one;
        char why[1024];
        EXPECT(coll_comm_dup(comm, &one) == COLL_OK, "pair %d", i);
        const double begun = now();
        coll_status status = run(&m, rank, one);
        snprintf(why, sizeof(why), "%s", coll_last_error(one));
        const coll_status last = coll_comm_destroy(one);
        if (status == COLL_OK) {
            status = last;
            snprintf(why, sizeof(why), "%s", coll_last_error(NULL));
        }
        const double seconds = now() - begun;
        wrong =
            status != COLL_ERR_MISMATCH || !names_both(why) || seconds > soon;
        if (wrong) {
            tell(&m, i, rank);
            fprintf(stderr, "rank %d: %s, %g s: %s\n", rank,
                    coll_status_string(status), seconds, why);
        }
        /* All go on, or none. */
        coll_request *request;
        EXPECT(!coll_allreduce(&wrong, &wrong, 1, COLL_I32, COLL_MAX, comm,
                               &request)
                   && coll_wait(&request) == COLL_OK,
               "pair %d", i);
    }
    return wrong;
}

static void fuzz(const char *const *settings, int n, int first_seed,
                 unsigned count)
{
    pairs = (int)count;
    seed = first_seed;
    cr_assert_eq(run_ranks(n, settings, mismatches), 0, "seed %d, %d ranks",
                 seed, n);
}

#define QUICK "COLL_CALIBRATE=off", "COLL_OP_SECONDS=20"

Test(mismatch, on_one_host_is_told_to_every_rank)
{
    static const char *const settings[] = {"COLL_TRANSPORT=shm", QUICK, NULL};
    fuzz(settings, 2, 1, cases(50, 15));
    fuzz(settings, 3, 2, cases(50, 15));
    fuzz(settings, 4, 3, cases(50, 15));
}

/* Forbids what needs no messages. */
static const char *by_plans(void)
{
    static char rules[1024] = "COLL_ALGO=";
    coll_algorithm_info info;
    for (int i = 0; coll_algorithm_get(i, &info); i++)
        if (!strncmp(info.name, "node_", 5))
            snprintf(rules + strlen(rules), sizeof(rules) - strlen(rules),
                     "%s:^%s;", info.collective, info.name);
    return rules;
}

Test(mismatch, by_plans_is_told_to_every_rank)
{
    const char *const settings[] = {"COLL_TRANSPORT=shm", QUICK, by_plans(),
                                    NULL};
    fuzz(settings, 2, 4, cases(50, 15));
    fuzz(settings, 3, 5, cases(50, 15));
    fuzz(settings, 4, 6, cases(50, 15));
}

Test(mismatch, over_ucx_is_told_to_every_rank)
{
    static const char *const settings[] = {"COLL_TRANSPORT=ucx", QUICK, NULL};
    fuzz(settings, 2, 7, cases(30, 10));
    fuzz(settings, 3, 8, cases(30, 10));
    fuzz(settings, 4, 9, cases(30, 10));
}
