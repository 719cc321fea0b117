/* SPDX-License-Identifier: MIT */
#include "drawn.h"

#include <stdio.h>
#include <string.h>

#include "draw.h"

enum { MAX_COUNT = 70000 };

uint64_t drawn_state;

unsigned drawn_below(unsigned below)
{
    return (unsigned)draw_from(&drawn_state, below);
}

static const size_t lengths[] = {0,   1,   2,    3,    7,     14,       100,
                                 511, 600, 3000, 5000, 20000, MAX_COUNT};

static size_t draw_length(void)
{
    return lengths[drawn_below(sizeof(lengths) / sizeof(lengths[0]))];
}

struct drawn drawn_even(int n)
{
    static const coll_dtype dtypes[] = {COLL_I32, COLL_F32, COLL_U8, COLL_F64};
    static const coll_op ops[] = {COLL_SUM, COLL_MAX, COLL_MIN, COLL_PROD};
    struct drawn c = {
        .kind = (enum kind)drawn_below(NKINDS),
        .count = draw_length(),
        .dtype = dtypes[drawn_below(4)],
        .op = ops[drawn_below(4)],
        .root = (int)drawn_below((unsigned)n),
    };
    return c;
}

struct drawn drawn_uneven(int n)
{
    static const enum kind kinds[] = {REDUCE_SCATTER, ALLGATHER, GATHER,
                                      SCATTER, ALLTOALL};
    struct drawn c = drawn_even(n);
    c.kind = kinds[drawn_below(5)];
    c.uneven = 1;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            c.counts[i][k] = draw_length();
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

/* Of a v-call: whether `odd` says rank i's part for rank k, and another rank
 * does too. */
static int says(const struct drawn *c, int odd, int i, int k)
{
    switch (c->kind) {
    case ALLTOALL:
        return i != k && (i == odd || k == odd);
    case GATHER:
    case SCATTER:
        return i == 0 && k != c->root && (c->root == odd || k == odd);
    default:
        return i == 0;
    }
}

static int same_lengths(const struct drawn *a, const struct drawn *b, int odd,
                        int n)
{
    if (!a->uneven)
        return a->count == b->count;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            if (says(a, odd, i, k) && a->counts[i][k] != b->counts[i][k])
                return 0;
    return 1;
}

int drawn_same(const struct drawn *a, const struct drawn *b, int odd, int n)
{
    return a->kind == b->kind && a->uneven == b->uneven
           && (a->kind == BARRIER
               || (a->dtype == b->dtype && (!has_op(a->kind) || a->op == b->op)
                   && (!has_root(a->kind) || a->root == b->root)
                   && same_lengths(a, b, odd, n)));
}

/* One that counts, or two that change places, with the same sum. */
static void change_length(struct drawn *c, int odd, int n)
{
    size_t *said[DRAWN_RANKS * DRAWN_RANKS];
    unsigned m = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            if (says(c, odd, i, k))
                said[m++] = &c->counts[i][k];
    if (!c->uneven)
        c->count++;
    if (!c->uneven || m == 0)
        return;
    size_t *const one = said[drawn_below(m)], *const other =
                                                  said[drawn_below(m)];
    if (drawn_below(3) == 0) {
        const size_t length = *one;
        *one = *other;
        *other = length;
    } else {
        *one = drawn_below(2) ? *one + 1 : draw_length();
    }
}

struct drawn drawn_change(struct drawn c, int odd, int n)
{
    const struct drawn d = c.uneven ? drawn_uneven(n) : drawn_even(n);
    switch (drawn_below(c.uneven ? 9 : 6)) {
    case 0:
        c.kind = d.kind;
        break;
    case 1:
        c.dtype = d.dtype;
        break;
    case 2:
        c.op = d.op;
        break;
    case 3:
        c.root = d.root;
        break;
    case 4:
        c = d;
        break;
    case 5:
        c.uneven = 0; /* of as many elements, maybe, as this rank's part has */
        if (d.uneven)
            c.count = c.counts[0][odd];
        else
            c.count++;
        break;
    default:
        change_length(&c, odd, n);
    }
    return c;
}

static char in[(MAX_COUNT + 1) * 8 * DRAWN_RANKS];
static char out[(MAX_COUNT + 1) * 8 * DRAWN_RANKS];

static coll_status make_uneven(const struct drawn *c, coll_comm *comm,
                               coll_request **request)
{
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    const size_t *parts = c->counts[0];
    size_t from_me[DRAWN_RANKS], for_me[DRAWN_RANKS];
    for (int r = 0; r < n; r++) {
        from_me[r] = c->counts[rank][r];
        for_me[r] = c->counts[r][rank];
    }
    switch (c->kind) {
    case REDUCE_SCATTER:
        return coll_reduce_scatter_v(in, out, parts, c->dtype, c->op, comm,
                                     request);
    case ALLGATHER:
        return coll_allgather_v(in, out, parts, NULL, c->dtype, comm, request);
    case GATHER:
        return coll_gather_v(in, parts[rank], out, parts, NULL, c->dtype,
                             c->root, comm, request);
    case SCATTER:
        return coll_scatter_v(in, parts, NULL, out, parts[rank], c->dtype,
                              c->root, comm, request);
    default:
        return coll_alltoall_v(in, from_me, NULL, out, for_me, NULL, c->dtype,
                               comm, request);
    }
}

coll_status drawn_make(const struct drawn *c, coll_comm *comm,
                       coll_request **request)
{
    return c->uneven ? make_uneven(c, comm, request)
                     : call(c->kind, in, out, c->count, c->dtype, c->op,
                            c->root, comm, request);
}

const char *drawn_print(const struct drawn *c, int n)
{
    static char texts[4][DRAWN_TEXT];
    static int which;
    char *const text = texts[which = (which + 1) % 4];
    size_t length = (size_t)snprintf(text, DRAWN_TEXT, "%s%s %zu %s %s root %d",
                                     call_names[c->kind], c->uneven ? "_v" : "",
                                     c->count, coll_dtype_name(c->dtype),
                                     coll_op_name(c->op), c->root);
    for (int i = 0; c->uneven && i < (c->kind == ALLTOALL ? n : 1); i++)
        for (int k = 0; k < n && length < DRAWN_TEXT; k++)
            length +=
                (size_t)snprintf(text + length, DRAWN_TEXT - length, "%s%zu",
                                 k ? " " : ": ", c->counts[i][k]);
    return text;
}
