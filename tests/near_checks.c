/* SPDX-License-Identifier: MIT */
/* Long vectors by groups within groups, for tests/node_test.py.
 *
 *   near_checks LEVELS [LEVELS ...]      under collrun; prints "ok" at rank 0
 *
 * LEVELS is how allreduce, reduce, reduce_scatter, broadcast and allgather go:
 * 3x2x2 for 3 ranks in each group, 2 of these in each of the next level, and 2
 * of these; "-" for no groups, "?" where nobody asks. The last is that of the
 * kinds that follow. Results are compared element by element, what all ranks
 * read and wrote together with a formula, and sums of floats bit by bit with
 * those that such groups form. It says what is wrong on stderr and ends with
 * status 1. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/coll.h"
#include "expect_ranks.h"

enum kind { ALLREDUCE, REDUCE, REDUCE_SCATTER, BROADCAST, ALLGATHER, KINDS };
enum { LEVELS = 4, GUARD = 16, GUARDED = -77 };

static int rank, nranks;
static coll_comm *comm;

/* depth 0: no groups; asked: somebody asks. */
struct levels {
    bool asked;
    int depth, size[LEVELS];
};

static struct levels parse(const char *text)
{
    struct levels l = {.asked = *text != '?'};
    int product = 1;
    for (char *end = NULL; *text >= '0' && *text <= '9'; text = end) {
        EXPECT(l.depth < LEVELS, "%s", text);
        l.size[l.depth] = (int)strtol(text, &end, 10);
        product *= l.size[l.depth++];
        end += *end == 'x';
    }
    EXPECT(l.depth == 0 || product == nranks, "%d ranks", nranks);
    return l;
}

static bool is_sum(enum kind kind)
{
    return kind <= REDUCE_SCATTER;
}

/* Of one call on vectors of so many elements, of which a rank's part is one
 * n-th where it has one. */
struct call {
    enum kind kind;
    size_t count, part;
    int root;
    bool in_place;
};

static struct call call_of(enum kind kind, size_t count, int turn,
                           bool in_place)
{
    const size_t part = count / (size_t)nranks;
    const bool parts = kind == REDUCE_SCATTER || kind == ALLGATHER;
    return (struct call){kind, parts ? part * (size_t)nranks : count, part,
                         turn * 5 / 2 % nranks, in_place};
}

static coll_status start(const struct call *c, void *in, void *out,
                         coll_dtype dtype, coll_op op)
{
    char *const x = in;
    const size_t mine = (size_t)rank * c->part * 4;
    switch (c->kind) {
    case ALLREDUCE:
        return coll_allreduce(in, out, c->count, dtype, op, comm, NULL);
    case REDUCE:
        return coll_reduce(in, out, c->count, dtype, op, c->root, comm, NULL);
    case REDUCE_SCATTER:
        return coll_reduce_scatter(in, c->in_place ? x + mine : out, c->part,
                                   dtype, op, comm, NULL);
    case BROADCAST:
        return coll_broadcast(in, out, c->count, dtype, c->root, comm, NULL);
    default:
        return coll_allgather(c->in_place ? x + mine : in, out, c->part, dtype,
                              comm, NULL);
    }
}

/* Elements of this rank's result, and the first of them in the vector. */
static size_t got(const struct call *c, size_t *first)
{
    *first = c->kind == REDUCE_SCATTER ? (size_t)rank * c->part : 0;
    return c->kind == REDUCE && rank != c->root ? 0
           : c->kind == REDUCE_SCATTER          ? c->part
                                                : c->count;
}

static int value(int from, size_t i, int turn)
{
    return (int)(i % 1021) + 7 * (from + 1) * (turn + 1);
}

static int wanted(const struct call *c, size_t i, int turn)
{
    if (is_sum(c->kind))
        return nranks * value(0, i, turn)
               + 7 * (turn + 1) * (nranks * (nranks - 1) / 2);
    return c->kind == BROADCAST ? value(c->root, i, turn)
                                : value((int)(i / c->part), i % c->part, turn);
}

/* The result is right, and nothing beside it is written. Returns what all ranks
 * read and wrote. */
static uint64_t run(const struct call *c, int *in, int *out, int turn)
{
    int *const to = c->in_place ? in : out;
    const size_t shift =
        c->in_place && c->kind == ALLGATHER ? (size_t)rank * c->part : 0;
    const size_t sent = c->kind == ALLGATHER ? c->part : c->count;
    coll_statistics before, after;
    size_t first, all = got(c, &first);
    for (size_t i = 0; i < sent; i++)
        in[shift + i] = value(rank, i, turn);
    for (size_t i = 0; i < GUARD; i++)
        in[c->count + i] = out[c->count + i] = GUARDED;
    EXPECT(coll_stats(comm, &before) == COLL_OK, "before");
    EXPECT(start(c, in, to, COLL_I32, COLL_SUM) == COLL_OK, "kind %d", c->kind);
    EXPECT(coll_stats(comm, &after) == COLL_OK, "after");
    const int *const result =
        to + (c->in_place && c->kind == REDUCE_SCATTER ? first : 0);
    for (size_t i = 0; i < all; i++)
        EXPECT(result[i] == wanted(c, first + i, turn),
               "kind %d, count %zu, root %d%s: element %zu: %d for %d", c->kind,
               c->count, c->root, c->in_place ? ", in place" : "", i, result[i],
               wanted(c, first + i, turn));
    for (size_t i = 0; i < GUARD; i++)
        EXPECT(in[c->count + i] == GUARDED && out[c->count + i] == GUARDED,
               "kind %d, count %zu: beyond the end", c->kind, c->count);
    uint64_t moved = after.bytes_read - before.bytes_read + after.bytes_written
                     - before.bytes_written;
    EXPECT(coll_allreduce(&moved, &moved, 1, COLL_U64, COLL_SUM, comm, NULL)
               == COLL_OK,
           "moved");
    return moved;
}

/* What all ranks read and write of S bytes, see libcoll/node/near.c: with
 * groups of q ranks under a level with G of them in a group of c = G q ranks,
 *
 *   sum on it        n / q S read, n / c S written: into areas, or the result
 *   result of it     G groups, none of which tells others: G G S read, but of
 *                    more than two an allreduce is shared out
 *   down from it     n / c (G - 1) S read
 *   result           S written for each who gets it, unless it is there
 *
 * On one level these are the slices of all ranks. */
static uint64_t bytes_of(const struct levels *l, const struct call *c)
{
    const uint64_t S = 4 * c->count, n = (uint64_t)nranks;
    const bool all = c->kind == ALLREDUCE || !is_sum(c->kind);
    uint64_t q = 1, total = all ? n * S : S;
    if (!l->depth)
        return total + n * S;
    if (c->in_place && !is_sum(c->kind))
        total -= S;
    for (int i = 0; i < l->depth; i++) {
        const uint64_t G = (uint64_t)l->size[i];
        const bool top = i == l->depth - 1;
        const bool split = top && c->kind == ALLREDUCE && G > 2;
        if (is_sum(c->kind) && !top)
            total += n / q * S + n / (q * G) * S;
        if (top)
            total += (c->kind == ALLREDUCE && !split ? G * G : G) * S;
        if (all && i && (!top || split))
            total += n / (q * G) * (G - 1) * S;
        q *= G;
    }
    return total;
}

/* Sums always go so; copies if that is fast, and are tried once at least, two
 * calls in a row. */
static void lengths(const struct levels levels[], int *in, int *out,
                    size_t most)
{
    /* No two lengths share what is known of ways, which goes by powers of two.
     * From LONG on no part is so short that it goes another way. */
    enum { SUMS = 8, COPIES = 48, LONG = 60001, SOME = 115207 };
    const struct {
        size_t count;
        int sums, copies;
    } calls[] = {
        {1,    4,    4     },
        {100,  4,    4     },
        {3001, 10,   10    },
        {LONG, 6,    6     },
        {SOME, SUMS, COPIES}, /* blocks, and a short slice */
        {most, 3,    3     }, /* of many blocks, the last one short */
    };
    for (size_t k = 0; k < sizeof(calls) / sizeof(calls[0]); k++)
        for (int kind = 0; kind < KINDS; kind++) {
            const struct levels *const l = &levels[kind];
            const bool sum = is_sum((enum kind)kind);
            const int turns = sum ? calls[k].sums : calls[k].copies;
            int seen[2] = {0, 0}; /* in place or not */
            for (int turn = 0; turn < turns; turn++) {
                const bool in_place = turn % 2;
                const struct call c =
                    call_of((enum kind)kind, calls[k].count, turn, in_place);
                seen[in_place] += run(&c, in, out, turn) == bytes_of(l, &c);
            }
            if (!l->asked || !l->depth || calls[k].count < LONG)
                continue;
            EXPECT(sum ? seen[0] + seen[1] == turns
                       : (seen[0] && seen[1]) || calls[k].count != SOME,
                   "kind %d, count %zu: %d and %d of %d", kind, calls[k].count,
                   seen[0], seen[1], turns);
        }
}

static float term(int from, size_t i)
{
    const uint32_t h = ((uint32_t)i + 1) * 2654435761u
                       ^ ((uint32_t)from + 1) * 40503u * 65537u;
    return (float)(h >> 8) / (float)(1 << (h & 15));
}

static float group_sum(const struct levels *l, int level, int first, size_t i);

/* Of n groups of `under` ranks, from `first` on, two by two. */
static float in_pairs(const struct levels *l, int level, int first, int under,
                      int n, size_t i)
{
    int half = 1;
    if (n == 1)
        return group_sum(l, level, first, i);
    while (2 * half < n)
        half *= 2;
    return in_pairs(l, level, first, under, half, i)
           + in_pairs(l, level, first + half * under, under, n - half, i);
}

/* Of the ranks from `first` on that are one group of a level. */
static float group_sum(const struct levels *l, int level, int first, size_t i)
{
    int under = 1;
    if (level < 0)
        return term(first, i);
    for (int k = 0; k < level; k++)
        under *= l->size[k];
    return in_pairs(l, level - 1, first, under, l->size[level], i);
}

/* On pretended machines ranks sit in order. in and out lie where lines do not
 * begin. */
static void floats(const struct levels levels[], float *in, float *out)
{
    enum { COUNT = 200003 };
    for (int kind = 0; kind < BROADCAST; kind++) {
        struct levels l = levels[kind];
        if (!l.asked)
            continue;
        if (!l.depth)
            l = (struct levels){true, 1, {nranks}};
        for (int turn = 0; turn < 2; turn++) {
            const struct call c =
                call_of((enum kind)kind, COUNT, 5 + turn, turn);
            const coll_op op = turn ? COLL_AVG : COLL_SUM;
            const float divisor = turn ? (float)nranks : 1;
            float *const x = in + 1 + turn, *y = turn ? x : out + 3;
            size_t first, all = got(&c, &first);
            for (size_t i = 0; i < c.count; i++)
                x[i] = term(rank, i);
            EXPECT(start(&c, x, y, COLL_F32, op) == COLL_OK, "kind %d", kind);
            y += turn && kind == REDUCE_SCATTER ? first : 0;
            for (size_t i = 0; i < all; i++) {
                const float want =
                    group_sum(&l, l.depth - 1, 0, first + i) / divisor;
                EXPECT(!memcmp(&y[i], &want, sizeof(want)),
                       "kind %d, turn %d: element %zu: %a for %a", kind, turn,
                       i, (double)y[i], (double)want);
            }
        }
    }
}

int main(int argc, char **argv)
{
    enum { COUNT = 700007 };
    struct levels levels[KINDS];
    void *in, *out;
    EXPECT(coll_comm_init(&comm) == COLL_OK, "init");
    rank = coll_comm_user_rank(comm);
    nranks = coll_comm_count(comm);
    EXPECT(argc > 1, "no levels");
    for (int k = 0; k < KINDS; k++)
        levels[k] = parse(argv[k + 1 < argc ? k + 1 : argc - 1]);
    const size_t bytes = (COUNT + GUARD) * sizeof(int);
    EXPECT(coll_mem_alloc(&in, bytes) == COLL_OK
               && coll_mem_alloc(&out, bytes) == COLL_OK,
           "memory");
    lengths(levels, in, out, COUNT);
    floats(levels, in, out);
    EXPECT(coll_mem_free(in) == COLL_OK && coll_mem_free(out) == COLL_OK,
           "free");
    const coll_status status = coll_comm_destroy(comm);
    comm = NULL; /* EXPECT asks it for its sentence */
    EXPECT(status == COLL_OK, "destroy");
    if (rank == 0)
        printf("ok\n");
    return 0;
}
