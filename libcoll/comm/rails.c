/* SPDX-License-Identifier: MIT */
/* Rates are measured once, in milliseconds, and so are coarse. Those that are
 * about equal count as equal: halves of what would be 0.6 and 0.4 cost a sixth,
 * and a false 2 to 1 a third. A network that is far slower only brings its
 * trouble. */
#include "comm/rails.h"

#include <math.h>

static const double about = 1.5, far_slower = 8;
enum { WHOLE = 64 /* the share of the fastest */ };

static double best_of(const double *rates, int n)
{
    double best = 0;
    for (int i = 0; i < n; i++)
        best = rates[i] > best ? rates[i] : best;
    return best;
}

static int share_of(double rate, double best)
{
    if (rate * about >= best)
        return WHOLE;
    const int share = (int)lround(WHOLE * (rate / best));
    return share > 0 ? share : 1;
}

/* In the order of their shares; equals as they were. The last one of more than
 * the most falls out. */
static int insert(int *used, int *share, int n, int most, int i, int its_share)
{
    int at = n;
    for (; at > 0 && share[at - 1] < its_share; at--)
        if (at < most) {
            used[at] = used[at - 1];
            share[at] = share[at - 1];
        }
    if (at < most) {
        used[at] = i;
        share[at] = its_share;
    }
    return n < most ? n + 1 : most;
}

static int choose_named(const double *rates, int n, int *used, int *share)
{
    const double best = best_of(rates, n);
    bool known = true;
    for (int i = 0; i < n; i++)
        known &= rates[i] > 0;
    for (int i = 0; i < n; i++) {
        used[i] = i;
        share[i] = known ? share_of(rates[i], best) : WHOLE;
    }
    return n;
}

int rails_choose(const double *rates, int n, bool named, int most, int *used,
                 int *share)
{
    const double best = best_of(rates, n);
    int nused = 0;
    if (named)
        return choose_named(rates, n < most ? n : most, used, share);
    used[0] = 0;
    share[0] = WHOLE;
    if (rates[0] == 0)
        return 1;
    for (int i = 0; i < n; i++)
        if (rates[i] * far_slower >= best)
            nused =
                insert(used, share, nused, most, i, share_of(rates[i], best));
    return nused;
}
