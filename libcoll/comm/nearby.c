/* SPDX-License-Identifier: MIT */
#include "comm/nearby.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A pair is slow if its messages are so many times as slow as those of others.
 */
static const float slow = 2;
/* What is certain is so too if that is so many times as much, or as little. */
static const float margin = 1.4f;
/* Short latencies vary too much to tell hosts apart. */
static const float far_seconds = 50e-6f;

/* Who was so late once came late to all that was measured then. */
static const float late = 4, late_seconds = 1e-3f;

static int round_mask(int round, int nhosts)
{
    int npowers = 0, k = 1;
    for (; k < nhosts; k *= 2)
        if (npowers++ == round)
            return k;
    const int end = k; /* beyond, it meets no other */
    for (k = 3; k < end; k++)
        if ((k & (k - 1)) && npowers++ == round)
            return k;
    return 0;
}

int nearby_rounds(int nhosts)
{
    int nrounds = 0;
    while (nrounds < NEARBY_MAX_ROUNDS && round_mask(nrounds, nhosts))
        nrounds++;
    return nrounds;
}

int nearby_partner(int nhosts, int host, int round)
{
    const int mask = round_mask(round, nhosts);
    return mask && (host ^ mask) < nhosts ? host ^ mask : -1;
}

static int partner(const struct nearby_table *t, int host, int round)
{
    return nearby_partner(t->nhosts, host, round);
}

static const struct nearby_pair *found(const struct nearby_table *t, int host,
                                       int round)
{
    return &t->pairs[host * t->nrounds + round];
}

static float least_known(float a, float b)
{
    return a <= 0 ? b : b <= 0 ? a : fminf(a, b);
}

void nearby_keep_better(struct nearby_pair *pair,
                        const struct nearby_pair *again)
{
    if (again->alpha > 0 && pair->alpha > late * again->alpha
        && pair->alpha > late_seconds) {
        *pair = *again;
        return;
    }
    pair->alpha = least_known(pair->alpha, again->alpha);
    pair->overhead = least_known(pair->overhead, again->overhead);
    pair->beta = least_known(pair->beta, again->beta);
}

/* What both ends found, the less of each figure. */
static struct nearby_pair both_ends(const struct nearby_table *t, int host,
                                    int round)
{
    struct nearby_pair pair = *found(t, host, round);
    nearby_keep_better(&pair, found(t, partner(t, host, round), round));
    return pair;
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

static bool counts(const struct nearby_table *t, int host, int round,
                   const int *group_of, bool across)
{
    const int other = partner(t, host, round);
    return other >= 0
           && (!group_of || (group_of[host] != group_of[other]) == across);
}

/* The middle of one figure over the pairs of hosts that are (not) in one group;
 * group_of NULL: over all pairs, and the figure of the fastest few: as many as
 * hosts in groups of two have among themselves. */
static float figure(const struct nearby_table *t, const int *group_of,
                    bool across, size_t offset)
{
    int n = 0;
    for (int h = 0; h < t->nhosts; h++)
        for (int k = 0; k < t->nrounds; k++) {
            float x;
            memcpy(&x, (const char *)found(t, h, k) + offset, sizeof(x));
            if (x > 0 && counts(t, h, k, group_of, across))
                t->scratch[n++] = x;
        }
    if (!n)
        return 0;
    qsort(t->scratch, (size_t)n, sizeof(float), by_size);
    const int few = n / 8 < t->nhosts / 4 ? n / 8 : t->nhosts / 4;
    return t->scratch[group_of ? n / 2 : few];
}

struct sim_link nearby_link(const struct nearby_table *t, const int *group_of,
                            bool across)
{
    return (struct sim_link){
        .alpha = (double)figure(t, group_of, across,
                                offsetof(struct nearby_pair, alpha)),
        .beta = (double)figure(t, group_of, across,
                               offsetof(struct nearby_pair, beta)),
        .overhead = (double)figure(t, group_of, across,
                                   offsetof(struct nearby_pair, overhead)),
    };
}

double nearby_soonest(const struct nearby_table *t, const int *group_of,
                      bool across)
{
    double soonest = 0;
    for (int h = 0; h < t->nhosts; h++)
        for (int k = 0; k < t->nrounds; k++) {
            const struct nearby_pair *pair = found(t, h, k);
            const double took =
                (double)pair->alpha + 2 * (double)pair->overhead;
            if (took > 0 && counts(t, h, k, group_of, across)
                && (soonest <= 0 || took < soonest))
                soonest = took;
        }
    return soonest;
}

static void unite(int *group_of, int n, int a, int b)
{
    const int from = group_of[a] > group_of[b] ? group_of[a] : group_of[b];
    const int to = group_of[a] > group_of[b] ? group_of[b] : group_of[a];
    for (int i = 0; i < n && from != to; i++)
        if (group_of[i] == from)
            group_of[i] = to;
}

/* What a pair may take and still be near; 0 is unknown, and near. */
struct limits {
    float alpha, beta;
};

static bool is_far(struct nearby_pair pair, struct limits limit)
{
    return pair.alpha > limit.alpha || pair.beta > limit.beta;
}

/* Whether a pair between the groups of two hosts found that they are far. */
static bool told_apart(const struct nearby_table *t, const int *group_of,
                       struct limits limit, int a, int b)
{
    for (int h = 0; h < t->nhosts; h++) {
        if (group_of[h] != group_of[a])
            continue;
        for (int k = 0; k < t->nrounds; k++) {
            const int other = partner(t, h, k);
            if (other >= 0 && group_of[other] == group_of[b]
                && is_far(both_ends(t, h, k), limit))
                return true;
        }
    }
    return false;
}

/* Pairs that found a rate, or those that did not; whether any were united. */
static bool unite_near(const struct nearby_table *t, struct limits limit,
                       bool rates, int *group_of)
{
    bool united = false;
    for (int h = 0; h < t->nhosts; h++)
        for (int k = 0; k < t->nrounds; k++) {
            const int other = partner(t, h, k);
            if (other < h || group_of[other] == group_of[h])
                continue;
            const struct nearby_pair pair = both_ends(t, h, k);
            if (rates != (pair.beta > 0) || is_far(pair, limit)
                || (!rates && told_apart(t, group_of, limit, h, other)))
                continue;
            unite(group_of, t->nhosts, h, other);
            united = true;
        }
    return united;
}

/* *guessed: some were united as nothing told them apart. */
static int find(const struct nearby_table *t, float floor, float times,
                bool latencies, int *group_of, bool *guessed)
{
    const float alpha =
        figure(t, NULL, false, offsetof(struct nearby_pair, alpha));
    const float beta =
        figure(t, NULL, false, offsetof(struct nearby_pair, beta));
    const struct limits limit = {
        .alpha =
            latencies ? fmaxf(times * alpha, alpha + far_seconds) : INFINITY,
        .beta = beta > 0 ? fmaxf(times * beta, floor) : INFINITY,
    };
    int ngroups = 0;
    for (int h = 0; h < t->nhosts; h++)
        group_of[h] = h;
    unite_near(t, limit, true, group_of);
    *guessed = unite_near(t, limit, false, group_of);
    for (int h = 0; h < t->nhosts; h++)
        group_of[h] = group_of[h] == h ? ngroups++ : group_of[group_of[h]];
    return ngroups;
}

static bool one_is_alone(const int *group_of, int nhosts)
{
    for (int h = 0; h < nhosts; h++) {
        bool alone = true;
        for (int i = 0; i < nhosts && alone; i++)
            alone = i == h || group_of[i] != group_of[h];
        if (alone)
            return true;
    }
    return false;
}

int nearby_find(const struct nearby_table *t, float floor, int *group_of,
                bool *certain)
{
    bool guessed;
    /* Groups within groups: as many are as equal. */
    const int fewer = find(t, floor, slow * margin, false, group_of, &guessed);
    const int more = find(t, floor, slow / margin, true, group_of, &guessed);
    const int ngroups = find(t, floor, slow, true, group_of, &guessed);
    *certain =
        fewer == more && !guessed
        && (ngroups == 1
            || (ngroups < t->nhosts && !one_is_alone(group_of, t->nhosts)));
    return ngroups;
}
