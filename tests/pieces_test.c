/* SPDX-License-Identifier: MIT */
/* In which pieces and in which order gradients travel, so that what the next
 * forward needs first is there first. */
#include <criterion/criterion.h>
#include <string.h>

#include "dist/pieces.h"

enum { LAYERS = 40 };

static unsigned seed = 1;

static double chance(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)(seed >> 8) / (1 << 24);
}

/* A net of up to LAYERS layers of 1 to 10^5 parameters, and a time for each of
 * their passes. Returns how many. */
static int random_slices(struct slice *s)
{
    const int n = 1 + (int)(chance() * (LAYERS - 1));
    double work = 0;
    size_t first = 0;
    for (int i = 0; i < n; i++) {
        const double size = chance();
        s[i] =
            (struct slice){first, 1 + (size_t)(1e5 * size * size * size), 0, 0};
        first += s[i].count;
    }
    for (int i = n - 1; i >= 0; i--, work += chance())
        s[i].ready = work;
    work = s[0].ready;
    for (int i = 0; i < n; i++, work += chance() / 2)
        s[i].needed = work;
    return n;
}

static void price(struct pieces *p, double latency, double of_float)
{
    for (int i = 0; i < p->n; i++)
        p->piece[i].seconds = latency + of_float * (double)p->piece[i].count;
}

/* The slice that has float `at`. */
static const struct slice *owner(const struct slice *s, int n, size_t at)
{
    int i = n - 1;
    while (s[i].first > at)
        i--;
    return &s[i];
}

static void expect_all_once(const struct pieces *p, const struct slice *s,
                            int n)
{
    static bool seen[PIECES_MOST + LAYERS];
    size_t at = 0;
    memset(seen, 0, sizeof(seen));
    for (int i = 0; i < p->n; i++) {
        cr_assert_eq(p->piece[i].first, at);
        cr_assert_gt(p->piece[i].count, 0);
        cr_assert_eq(p->piece[i].ready, owner(s, n, at)->ready);
        cr_assert_eq(p->piece[i].needed, owner(s, n, at)->needed);
        at += p->piece[i].count;
        cr_assert_not(seen[p->order[i]]);
        seen[p->order[i]] = true;
    }
    cr_assert_eq(at, s[n - 1].first + s[n - 1].count);
}

Test(pieces, every_float_goes_once_and_never_later_than_first_come)
{
    for (int turn = 0; turn < 2000; turn++) {
        struct slice s[LAYERS];
        struct pieces p;
        const int n = random_slices(s);
        const size_t floats = 1 + (size_t)(2e5 * chance());
        const double latency = chance(), of_float = 1e-4 * chance();
        cr_assert_eq(pieces_open(&p, n), 0);
        pieces_cut(&p, s, n, floats, turn % 2);
        price(&p, latency, of_float);
        expect_all_once(&p, s, n);
        const double before = pieces_wait(&p);
        pieces_by_need(&p);
        expect_all_once(&p, s, n);
        cr_assert(pieces_wait(&p) <= before, "turn %d: %g, %g", turn,
                  pieces_wait(&p), before);
        pieces_close(&p);
    }
}

/* The cut is of sizes only, as each rank makes it by itself. */
Test(pieces, times_change_no_cut)
{
    struct slice s[LAYERS];
    struct pieces a, b;
    const int n = random_slices(s);
    cr_assert(!pieces_open(&a, n) && !pieces_open(&b, n));
    pieces_cut(&a, s, n, 5000, true);
    for (int i = 0; i < n; i++)
        s[i].ready = s[i].needed = 0;
    pieces_cut(&b, s, n, 5000, true);
    cr_assert_eq(a.n, b.n);
    for (int i = 0; i < a.n; i++)
        cr_assert_eq(a.piece[i].first, b.piece[i].first);
    pieces_close(&a);
    pieces_close(&b);
}

static void expect_order(const struct pieces *p, const int *order)
{
    for (int i = 0; i < p->n; i++)
        cr_assert_eq(p->order[i], order[i], "at %d: %d", i, p->order[i]);
}

/* The second layer is long and ready early: after a backward of 4 only as much
 * of it is gone as had the time, then comes the first, then the rest. */
Test(pieces, a_long_layer_lets_the_first_one_pass)
{
    const struct slice s[] = {
        {0,  64,  4, 4},
        {64, 512, 0, 6},
    };
    struct pieces p;
    cr_assert_eq(pieces_open(&p, 2), 0);
    pieces_cut(&p, s, 2, 64, true);
    cr_assert_eq(p.n, 9);
    price(&p, 0, 1. / 64);
    /* 9 pieces of 1: the first layer's after 9 - 4, in order of readiness. */
    cr_assert_float_eq(pieces_wait(&p), 5, 1e-12);
    pieces_by_need(&p);
    expect_order(&p, (int[]){1, 2, 3, 4, 0, 5, 6, 7, 8});
    /* The first waits 1, the long one is there at 9 and needed at 6. */
    cr_assert_float_eq(pieces_wait(&p), 3, 1e-12);
    pieces_close(&p);
}

Test(pieces, layers_that_come_later_pass_in_turn)
{
    const struct slice s[] = {
        {0,  16, 3, 3},
        {16, 16, 2, 4},
        {32, 16, 1, 5},
        {48, 64, 0, 6},
    };
    struct pieces p;
    cr_assert_eq(pieces_open(&p, 4), 0);
    pieces_cut(&p, s, 4, 16, true);
    price(&p, 0, 1. / 16);
    pieces_by_need(&p);
    expect_order(&p, (int[]){3, 2, 1, 0, 4, 5, 6});
    cr_assert_float_eq(pieces_wait(&p), 1, 1e-12);
    pieces_close(&p);
}

/* A layer is cut only if it is asked for, and then into equal parts of lines.
 */
Test(pieces, cuts)
{
    const struct slice s[] = {
        {0,    100,  0, 0},
        {100,  5000, 0, 0},
        {5100, 10,   0, 0},
    };
    struct pieces p;
    cr_assert_eq(pieces_open(&p, 3), 0);
    pieces_cut(&p, s, 3, (size_t)-1, false);
    cr_assert_eq(p.n, 1);
    pieces_cut(&p, s, 3, 1, false);
    cr_assert_eq(p.n, 3);
    pieces_cut(&p, s, 3, 1000, false);
    cr_assert_eq(p.n, 2);
    cr_assert_eq(p.piece[1].count, 5010);
    pieces_cut(&p, s, 3, 1000, true);
    cr_assert_eq(p.n, 6);
    cr_assert_eq(p.piece[1].count, 1008);
    cr_assert_eq(p.piece[5].count, 5010 - 4 * 1008);
    pieces_close(&p);
}
