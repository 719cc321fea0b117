/* SPDX-License-Identifier: MIT */
/* Rates of flows that share resources: random flows, against a reference that
 * finds all rates anew at every event by filling resource after resource. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "transport/flows.h"
#include "draw.h"

enum { RESOURCES = 12, FLOWS = 60, USES = 4 };

struct wish {
    struct flow_use use[USES];
    int nuses;
    double begin, left, rate, end;
    bool active;
};

static void draw_wish(struct wish *w, int nresources)
{
    *w = (struct wish){
        .nuses = 1 + draw(USES), .begin = draw(40) / 4.0, .left = 1 + draw(50)};
    for (int i = 0; i < w->nuses; i++) {
        bool again = true;
        while (again) {
            w->use[i].resource = draw(nresources);
            again = false;
            for (int k = 0; k < i; k++)
                again |= w->use[k].resource == w->use[i].resource;
        }
        w->use[i].weight = (1 + draw(8)) / 8.0;
    }
}

/* Progressive filling: all rates that are not fixed are equal, and grow until a
 * resource is full, whose flows are then fixed. */
static void find_rates(struct wish *all, int n)
{
    bool fixed[FLOWS];
    int open = 0;
    for (int i = 0; i < n; i++) {
        fixed[i] = !all[i].active;
        open += all[i].active;
    }
    while (open > 0) {
        double level = INFINITY;
        int fullest = -1;
        for (int r = 0; r < RESOURCES; r++) {
            double spare = 1, weights = 0;
            for (int i = 0; i < n; i++)
                for (int u = 0; u < all[i].nuses && all[i].active; u++)
                    if (all[i].use[u].resource == r) {
                        if (fixed[i])
                            spare -= all[i].rate * all[i].use[u].weight;
                        else
                            weights += all[i].use[u].weight;
                    }
            if (weights > 0 && spare / weights < level) {
                level = spare / weights;
                fullest = r;
            }
        }
        for (int i = 0; i < n; i++)
            for (int u = 0; u < all[i].nuses; u++)
                if (!fixed[i] && all[i].use[u].resource == fullest) {
                    fixed[i] = true;
                    all[i].rate = level;
                    open--;
                    break;
                }
    }
}

static void find_ends(struct wish *all, int n)
{
    double now = 0;
    for (;;) {
        double next = INFINITY;
        find_rates(all, n);
        for (int i = 0; i < n; i++) {
            if (!all[i].active && all[i].left > 0)
                next = fmin(next, all[i].begin);
            if (all[i].active)
                next = fmin(next, now + all[i].left / all[i].rate);
        }
        if (next == INFINITY)
            return;
        for (int i = 0; i < n; i++) {
            if (all[i].active) {
                all[i].left -= all[i].rate * (next - now);
                if (all[i].left < 1e-9) {
                    all[i].left = 0;
                    all[i].active = false;
                    all[i].end = next;
                }
            } else if (all[i].left > 0 && all[i].begin <= next) {
                all[i].active = true;
            }
        }
        now = next;
    }
}

/* Every other flow would go the same way as the one before. */
static void draw_all(struct wish *all, int n, int nresources)
{
    for (int i = 0; i < n; i++) {
        draw_wish(&all[i], nresources);
        if (i % 2) {
            all[i].nuses = all[i - 1].nuses;
            memcpy(all[i].use, all[i - 1].use, sizeof(all[i].use));
        }
    }
}

/* The way of flow i: that of the one before if nothing flows there. */
static int way_for(struct flows *f, const struct wish *ours, const int *way,
                   int i)
{
    const bool again = i % 2 && way[i - 1] >= 0 && ours[i - 1].left <= 0;
    return again ? way[i - 1] : flows_add_way(f, ours[i].use, ours[i].nuses);
}

static bool begins(const struct wish *w, double now)
{
    return !w->active && w->left > 0 && w->begin <= now;
}

static void check(unsigned seed, int nresources)
{
    struct wish all[FLOWS];
    int way[FLOWS], of[FLOWS], begun = 0, ended = 0;
    draw_state = seed;
    const int n = 1 + draw(FLOWS);
    draw_all(all, n, nresources);
    struct flows *f = flows_create(nresources);
    struct wish ours[FLOWS];
    for (int i = 0; i < n; i++) {
        ours[i] = all[i];
        way[i] = -1;
    }
    find_ends(all, n);
    for (double now = 0; ended < n;) {
        double at = INFINITY, begin = INFINITY;
        int flow = -1, next = -1;
        bool more = false;
        for (int i = 0; i < n; i++)
            more |= begins(&ours[i], now);
        cr_assert(more || flows_settle(f, now));
        if (!more)
            flows_next(f, &at, &flow);
        for (int i = 0; i < n; i++)
            if (!ours[i].active && ours[i].left > 0 && ours[i].begin < begin) {
                begin = ours[i].begin;
                next = i;
            }
        now = fmin(at, begin);
        cr_assert(now < INFINITY, "seed %u: %d flows never end", seed,
                  n - ended);
        if (begin <= at) {
            way[next] = way_for(f, ours, way, next);
            cr_assert(way[next] >= 0 && way[next] < FLOWS);
            cr_assert(flows_start(f, way[next], ours[next].left, now));
            of[way[next]] = next;
            ours[next].active = true;
            begun++;
        } else {
            const int i = of[flow];
            cr_assert_float_eq(at, all[i].end, 1e-6,
                               "seed %u: flow %d ends at %.9g, not at %.9g",
                               seed, i, at, all[i].end);
            flows_stop(f, flow);
            ours[i].active = false;
            ours[i].left = 0;
            ended++;
        }
    }
    cr_assert_eq(begun, n);
    flows_free(f);
}

Test(flows, random_flows_end_when_the_reference_says)
{
    for (unsigned seed = 1; seed <= 2000; seed++)
        check(seed, USES + (int)(seed % (RESOURCES - USES + 1)));
}

/* Whose sum asks for no more than there is: none waits for another. */
Test(flows, plenty)
{
    struct flows *f = flows_create(3);
    const struct flow_use one[] =
        {
            {0, .5},
            {2, .1}
    },
                          two[] = {{1, 1}, {2, .1}};
    double at;
    int flow;
    const int a = flows_add_way(f, one, 2), b = flows_add_way(f, two, 2);
    cr_assert(flows_start(f, a, 8, 0) && flows_start(f, b, 2, 0));
    cr_assert(flows_settle(f, 0) && flows_next(f, &at, &flow));
    cr_assert(flow == b && fabs(at - 2) < 1e-12);
    flows_stop(f, b);
    cr_assert(flows_settle(f, 2) && flows_next(f, &at, &flow));
    cr_assert(flow == a && fabs(at - 4) < 1e-12);
    flows_free(f);
}
