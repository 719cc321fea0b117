/* SPDX-License-Identifier: MIT */
/* Allreduce by recursive multiplying: recursive doubling in groups of up to 4.
 *
 *   time   for n the product of r factors k: r alpha + sum of (k - 1) (beta +
 *          gamma) bytes; else the ranks above the largest such product fold in
 *          first and get the result last: 2 alpha + (2 beta + gamma) bytes more
 *   when   short vectors, on networks and processors that handle a few messages
 *          in little more time than one: fewer rounds, and fewer ranks to fold
 *          than with powers of two
 *   order  in a group from its first rank upward: all ranks get the same bits
 *   from   Ruefenacht, Bull and Booth, "Generalisation of recursive doubling
 *          for AllReduce", Parallel Computing 69, 2017
 *
 * 13 ranks are 4 * 3 and one that folds in:
 *
 *   fold      12 to 0
 *   round 0   all to all in  0 1 2 3   4 5 6 7   8 9 10 11
 *   round 1   all to all in  0 4 8   1 5 9   2 6 10   3 7 11
 *   unfold    0 to 12
 */
#include "algo/algo.h"
#include "algo/parts.h"

/* Whether n is a product of numbers up to radix. */
static bool is_product(int n, int radix)
{
    for (int k = radix; k > 1; k--)
        while (n % k == 0)
            n /= k;
    return n == 1;
}

/* n as the product of so many factors, the largest first and as small as it can
 * be: few vectors for the rounds. */
static bool split(int n, int rounds, int most, int *k)
{
    if (rounds == 0)
        return n == 1;
    for (*k = 2; *k <= most; ++*k)
        if (n % *k == 0 && split(n / *k, rounds - 1, *k, k + 1))
            return true;
    return false;
}

struct factors plan_factors(int nranks, int radix)
{
    struct factors f = {.product = nranks, .k = {1}};
    while (!is_product(f.product, radix))
        f.product--;
    while (!split(f.product, f.n, radix, f.k))
        f.n++;
    f.extra = nranks - f.product;
    return f;
}

void plan_multiplying(struct plan *p, const struct plan_shape *s, int radix)
{
    const struct factors f = plan_factors(s->nranks, radix);
    const int product = f.product, extra = f.extra, me = s->rank;

    plan_init(p, 1, f.k[0] > 1 ? f.k[0] - 1 : 1);
    if (s->nranks == 1) {
        plan_copy(p, OUT(0), IN(0), PLAN_START);
        return;
    }
    if (me >= product) {
        plan_send(p, me - product, IN(0), PLAN_START);
        plan_recv(p, me - product, OUT(0), PLAN_START);
        return;
    }

    struct place mine = IN(0);
    step_id ready = PLAN_START;
    if (me < extra) {
        const step_id got = plan_recv(p, me + product, TMP(0, 0), PLAN_START);
        ready = plan_reduce(p, OUT(0), IN(0), TMP(0, 0), got);
        mine = OUT(0);
    }
    for (int i = 0, stride = 1; i < f.n; stride *= f.k[i++]) {
        const int number = me / stride % f.k[i];
        const struct team team = {me - number * stride, stride, f.k[i]};
        ready = plan_exchange_and_add(p, team, number, mine, ready);
        mine = OUT(0);
    }
    if (me < extra)
        plan_send(p, me + product, OUT(0), ready);
}

void plan_allreduce_recursive_multiplying(struct plan *p,
                                          const struct plan_shape *s)
{
    plan_multiplying(p, s, 4);
}
