/* SPDX-License-Identifier: MIT */
#include "comm/probe.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/here.h"

enum {
    MAX_ROUNDS = 15,
    PINGS = 12,    /* at most */
    BURST = 8,     /* short messages at once */
    LEAST = 16384, /* bytes of a long message, */
    FIRST = 65536, /* of the first one */
    MOST = 2097152,
};
static const double budget_seconds = 0.040; /* of all rounds together */
static const double ping_seconds = 0.002;   /* of one round's pings */
static const double short_seconds = 0.001;  /* no less for a long message */
static const double long_seconds = 0.015;   /* for a pair's long ones */
/* A pair is slow if its messages are so many times as slow as those of others.
 */
static const float slow = 2;
/* A pair across that is so much faster alone shares its link with the others.
 */
static const float shares = 1.3f;
/* Where hosts share processors, faster links than this cannot be told apart. */
static const float crowded_beta = 4e-9f;

/* What a pair of hosts found; travels. 0: not measured. */
struct pair {
    float alpha, overhead, beta;
};

struct message {
    struct transfer tx[BURST], rx[BURST];
    int n;
};

/* Advances what is under way; COLL_OK once it is over. */
static coll_status over(void *context)
{
    const struct message *m = context;
    for (int i = 0; i < m->n; i++) {
        if (m->tx[i].status < 0 || m->rx[i].status < 0)
            return m->tx[i].status < 0 ? m->tx[i].status : m->rx[i].status;
        if (m->tx[i].status == COLL_IN_PROGRESS
            || m->rx[i].status == COLL_IN_PROGRESS)
            return COLL_IN_PROGRESS;
    }
    return COLL_OK;
}

/* n messages each way at once, of so many bytes; 0 bytes: none that way. */
static coll_status exchange(coll_comm *c, int peer, int n, const void *out,
                            size_t out_bytes, void *in, size_t in_bytes)
{
    struct message m = {.n = n};
    struct transport *to = c->to[peer];
    for (int i = 0; i < n; i++) {
        m.rx[i] = (struct transfer){
            .buf = (char *)in + (size_t)i * in_bytes,
            .bytes = in_bytes,
            .peer = peer,
            .status = in_bytes ? COLL_IN_PROGRESS : COLL_OK,
        };
        if (in_bytes)
            to->ops->recv(to, &m.rx[i]);
    }
    for (int i = 0; i < n; i++) {
        m.tx[i] = (struct transfer){
            .buf = (char *)(uintptr_t)out + (size_t)i * out_bytes,
            .bytes = out_bytes,
            .peer = peer,
            .status = out_bytes ? COLL_IN_PROGRESS : COLL_OK,
        };
        if (out_bytes)
            to->ops->send(to, &m.tx[i]);
    }
    const coll_status status =
        comm_wait(c, over, &m, c->join_seconds, "a measurement at start");
    if (status < 0)
        comm_cancel(c);
    return status;
}

/* What both have found, the larger of each: so both decide alike. */
struct word {
    double took, spent; /* seconds: the last message, all so far */
};

static coll_status tell(coll_comm *c, int peer, struct word mine,
                        struct word *both)
{
    struct word theirs = {0};
    const coll_status status =
        exchange(c, peer, 1, &mine, sizeof(mine), &theirs, sizeof(theirs));
    both->took = fmax(mine.took, theirs.took);
    both->spent = fmax(mine.spent, theirs.spent);
    return status;
}

/* Short messages to and fro. Half of a round trip is one message. */
static coll_status ping(coll_comm *c, int peer, double *one_way)
{
    struct word word = {.spent = 0};
    const double begun = comm_clock();
    coll_status status = tell(c, peer, word, &word); /* makes the connection */
    double least = INFINITY;
    for (int i = 0; i < PINGS && status == COLL_OK; i++) {
        const double start = comm_clock();
        const bool first = c->rank < peer;
        struct word mine = {.spent = start - begun}, theirs = {0};
        if (first)
            status = exchange(c, peer, 1, &mine, sizeof(mine), NULL, 0);
        if (status == COLL_OK)
            status = exchange(c, peer, 1, NULL, 0, &theirs, sizeof(theirs));
        if (status == COLL_OK && !first) {
            mine.spent = theirs.spent; /* the first one's word counts */
            status = exchange(c, peer, 1, &mine, sizeof(mine), NULL, 0);
        }
        if (i > 0)
            least = fmin(least, comm_clock() - start);
        if ((first ? mine.spent : theirs.spent) > ping_seconds && i > 0)
            break;
    }
    *one_way = least / 2;
    return status;
}

/* Both ways at once: seconds per byte of long messages, the last of a few. The
 * first ones open windows and empty token buckets, so they do not count: they
 * go on until two in a row agree, and are long enough for the clock. Both ends
 * decide by what both know, else one would wait for the other. */
static coll_status stream(coll_comm *c, int peer, double one_way, char *buf,
                          double *beta)
{
    const double enough = fmax(long_seconds, 8 * one_way);
    size_t bytes = FIRST;
    double before = 0, all = 0;
    struct word agreed = {.took = enough};
    coll_status status = tell(c, peer, agreed, &agreed);
    *beta = 0;
    while (status == COLL_OK) {
        struct word word = {.took = 0};
        const double start = comm_clock();
        status = exchange(c, peer, 1, buf, bytes, buf + MOST, bytes);
        if (status == COLL_OK)
            status = tell(c, peer, (struct word){.took = comm_clock() - start},
                          &word);
        const double each = word.took / (double)bytes;
        const bool same = fabs(each - before) < .25 * each
                          && (word.took > short_seconds || bytes == MOST);
        all += word.took;
        if (same || all > agreed.took) {
            /* What never settled is believed if it is slow, as buckets and
             * windows only make the first messages look faster or slower. */
            *beta = same || word.took > 4 * short_seconds
                        ? each - fmin(one_way / (double)bytes, each / 2)
                        : 0;
            break;
        }
        before = each;
        if (word.took < short_seconds && bytes < MOST)
            bytes *= 2;
        else if (word.took > 4 * short_seconds && bytes > LEAST)
            bytes /= 2;
    }
    return status;
}

/* round 0 is measured in full whatever it takes: it may be all there is. */
static coll_status measure(coll_comm *c, int peer, int round, double begun,
                           char *buf, struct pair *pair)
{
    double one_way = 0, beta = 0, burst = 0;
    struct word word = {.spent = 0};
    coll_status status = ping(c, peer, &one_way);
    if (status == COLL_OK)
        status =
            tell(c, peer, (struct word){.spent = comm_clock() - begun}, &word);
    const bool more = round == 0 || word.spent < budget_seconds;
    for (int i = 0; i < 2 && more && status == COLL_OK; i++) {
        const double start = comm_clock();
        status = exchange(c, peer, BURST, buf, 64, buf + MOST, 64);
        burst = comm_clock() - start;
    }
    if (status == COLL_OK && more)
        status = stream(c, peer, one_way, buf, &beta);
    const double overhead =
        fmin(fmax((burst - one_way) / (2 * (BURST - 1)), 0), one_way / 3);
    *pair = (struct pair){(float)(one_way - 2 * overhead), (float)overhead,
                          (float)beta};
    return status;
}

static void keep_better(struct pair *pair, const struct pair *again)
{
    pair->alpha = fminf(pair->alpha, again->alpha);
    pair->overhead = fminf(pair->overhead, again->overhead);
    if (again->beta > 0 && (pair->beta <= 0 || again->beta < pair->beta))
        pair->beta = again->beta;
}

/* Powers of two first: with few rounds they reach farthest. */
static int round_mask(int round, int nhosts)
{
    int npowers = 0, k = 1;
    for (; k < nhosts; k *= 2)
        if (npowers++ == round)
            return k;
    for (k = 3; k < 2 * nhosts; k++)
        if ((k & (k - 1)) && npowers++ == round)
            return k;
    return 0;
}

/* --- From pairs to groups. */

struct table {
    int nhosts, nrounds;
    const struct pair *pairs; /* [nhosts][nrounds] */
};

static int partner(const struct table *t, int host, int round)
{
    const int mask = round_mask(round, t->nhosts);
    return mask && (host ^ mask) < t->nhosts ? host ^ mask : -1;
}

static const struct pair *found(const struct table *t, int host, int round)
{
    return &t->pairs[host * t->nrounds + round];
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* The middle of one figure over the pairs of hosts that are (not) in one group;
 * group_of NULL: over all pairs, and the figure of the fastest. */
static float figure(const struct table *t, const int *group_of, bool across,
                    size_t offset, float *scratch)
{
    int n = 0;
    for (int h = 0; h < t->nhosts; h++)
        for (int k = 0; k < t->nrounds; k++) {
            const int other = partner(t, h, k);
            float x;
            memcpy(&x, (const char *)found(t, h, k) + offset, sizeof(x));
            if (other < 0 || x <= 0
                || (group_of && (group_of[h] != group_of[other]) != across))
                continue;
            scratch[n++] = x;
        }
    if (!n)
        return 0;
    qsort(scratch, (size_t)n, sizeof(float), by_size);
    return scratch[group_of ? n / 2 : n / 8];
}

static void unite(int *group_of, int n, int a, int b)
{
    const int from = group_of[a] > group_of[b] ? group_of[a] : group_of[b];
    const int to = group_of[a] > group_of[b] ? group_of[b] : group_of[a];
    for (int i = 0; i < n; i++)
        if (group_of[i] == from)
            group_of[i] = to;
}

/* Hosts that have fast messages to one another, directly or through others.
 * floor: of seconds per byte; less tells of processors, not of links. */
static int find_groups(const struct table *t, float floor, int *group_of,
                       float *scratch)
{
    const float alpha =
        figure(t, NULL, false, offsetof(struct pair, alpha), scratch);
    const float beta =
        figure(t, NULL, false, offsetof(struct pair, beta), scratch);
    int ngroups = 0;
    for (int h = 0; h < t->nhosts; h++)
        group_of[h] = h;
    for (int h = 0; h < t->nhosts; h++)
        for (int k = 0; k < t->nrounds; k++) {
            const int other = partner(t, h, k);
            if (other < h)
                continue;
            const struct pair *there = found(t, h, k),
                              *back = found(t, other, k);
            const float b = there->beta < back->beta ? there->beta : back->beta;
            const float a =
                there->alpha < back->alpha ? there->alpha : back->alpha;
            /* Short latencies vary too much to tell hosts apart. */
            const bool far = a > slow * alpha && a > alpha + 50e-6f;
            if (b > 0 && !far && b <= fmaxf(slow * beta, floor))
                unite(group_of, t->nhosts, h, other);
        }
    for (int h = 0; h < t->nhosts; h++)
        group_of[h] = group_of[h] == h ? ngroups++ : group_of[group_of[h]];
    return ngroups;
}

static struct sim_link link_of(const struct table *t, const int *group_of,
                               bool across, float *scratch)
{
    return (struct sim_link){
        .alpha = (double)figure(t, group_of, across,
                                offsetof(struct pair, alpha), scratch),
        .beta = (double)figure(t, group_of, across, offsetof(struct pair, beta),
                               scratch),
        .overhead = (double)figure(t, group_of, across,
                                   offsetof(struct pair, overhead), scratch),
    };
}

/* The first two ranks of a host; -1: it has one. */
struct leaders {
    int first, second;
};

static void find_leaders(const coll_comm *c, const int *host, int nhosts,
                         struct leaders *leader)
{
    for (int h = 0; h < nhosts; h++)
        leader[h].first = leader[h].second = -1;
    for (int r = c->nranks - 1; r >= 0; r--) {
        leader[host[r]].second = leader[host[r]].first;
        leader[host[r]].first = r;
    }
}

/* Messages inside the hosts, of all at the same time; the middle of what the
 * hosts found. */
static coll_status measure_local(coll_comm *c, const struct leaders *leader,
                                 const int *host, int nhosts, char *buf,
                                 struct sim_link *local)
{
    struct pair mine = {0, 0, 0};
    struct pair *all = calloc((size_t)c->nranks, sizeof(*all));
    float *scratch = malloc((size_t)nhosts * sizeof(float));
    const struct leaders of = leader[host[c->rank]];
    coll_status status =
        all && scratch
            ? COLL_OK
            : fail(COLL_ERR_MEMORY, "probe", "no memory for %d hosts", nhosts);
    if (status == COLL_OK && of.second >= 0
        && (of.first == c->rank || of.second == c->rank))
        status = measure(c, c->rank == of.first ? of.second : of.first, 0, 0,
                         buf, &mine);
    if (status == COLL_OK)
        status = bootstrap_allgather(c->bootstrap, &mine, all, sizeof(mine));
    double figures[3] = {0};
    for (int f = 0; f < 3 && status == COLL_OK; f++) {
        int n = 0;
        for (int h = 0; h < nhosts; h++)
            if (leader[h].second >= 0) {
                const struct pair *p = &all[leader[h].first];
                scratch[n++] = f == 0   ? p->alpha
                               : f == 1 ? p->overhead
                                        : p->beta;
            }
        qsort(scratch, (size_t)n, sizeof(float), by_size);
        figures[f] = n ? (double)scratch[n / 2] : 0;
    }
    *local = (struct sim_link){
        .alpha = figures[0], .overhead = figures[1], .beta = figures[2]};
    free(all);
    free(scratch);
    return status;
}

/* The seconds per byte of the slowest of those pairs of hosts that meet, host h
 * with h xor mask, all at once; only those across groups, or only host 0's. */
static coll_status meet_across(coll_comm *c, const struct leaders *leader,
                               const int *host, const struct probe_groups *g,
                               int nhosts, int mask, bool all_pairs, char *buf,
                               float *slowest)
{
    float mine = 0;
    float *all = calloc((size_t)c->nranks, sizeof(float));
    const int me = host[c->rank], other = me ^ mask;
    coll_status status =
        all ? COLL_OK
            : fail(COLL_ERR_MEMORY, "probe", "no memory for %d hosts", nhosts);
    if (status == COLL_OK && leader[me].first == c->rank && other < nhosts
        && g->group_of[me] != g->group_of[other]
        && (all_pairs || me == 0 || other == 0)) {
        double one_way, beta = 0;
        status = ping(c, leader[other].first, &one_way);
        if (status == COLL_OK)
            status = stream(c, leader[other].first, one_way, buf, &beta);
        mine = (float)beta;
    }
    if (status == COLL_OK)
        status = bootstrap_allgather(c->bootstrap, &mine, all, sizeof(mine));
    *slowest = 0;
    for (int r = 0; r < c->nranks && status == COLL_OK; r++)
        *slowest = fmaxf(*slowest, all[r]);
    free(all);
    return status;
}

/* Whether hosts of a group share what leads out of it: one pair across alone,
 * then as many as there are at the same time. */
static coll_status find_shared(coll_comm *c, const struct leaders *leader,
                               const int *host, struct probe_groups *g,
                               int nhosts, char *buf)
{
    float alone = 0, together = 0;
    int other = 0;
    while (other < nhosts && g->group_of[other] == g->group_of[0])
        other++;
    coll_status status = COLL_OK;
    for (int i = 0; i < 2 && alone <= 0 && status == COLL_OK; i++)
        status =
            meet_across(c, leader, host, g, nhosts, other, false, buf, &alone);
    if (status == COLL_OK)
        status = meet_across(c, leader, host, g, nhosts, other, true, buf,
                             &together);
    together = fmaxf(together, (float)g->across.beta);
    if (status == COLL_OK && alone > 0 && together > shares * alone) {
        g->shared = (double)alone;
        g->across.beta = (double)together;
    }
    return status;
}

/* Figures that were not found are taken from the other level. */
static void fill_gaps(struct sim_link *link, const struct sim_link *other)
{
    if (link->alpha <= 0)
        link->alpha = other->alpha;
    if (link->beta <= 0)
        link->beta = other->beta;
}

coll_status probe_hosts(coll_comm *c, const int *host, int nhosts,
                        struct probe_groups *g)
{
    const double begun = comm_clock();
    const int wanted = nhosts - 1 < MAX_ROUNDS ? nhosts - 1 : MAX_ROUNDS;
    int nrounds = 0;
    while (nrounds < wanted && round_mask(nrounds, nhosts))
        nrounds++;
    const size_t cells = (size_t)nrounds * (size_t)nhosts;
    struct pair mine[MAX_ROUNDS] = {
        {0, 0, 0}
    };
    *g = (struct probe_groups){.ngroups = 1};
    g->group_of = calloc((size_t)nhosts, sizeof(int));
    struct leaders *leader = malloc((size_t)nhosts * sizeof(*leader));
    struct pair *pairs = calloc(cells + 1, sizeof(*pairs));
    struct pair *all = calloc((size_t)c->nranks, sizeof(mine));
    float *scratch = malloc((cells + 1) * sizeof(float));
    char *buf = calloc(2, MOST);
    coll_status status =
        g->group_of && leader && pairs && all && scratch && buf
            ? COLL_OK
            : fail(COLL_ERR_MEMORY, "probe", "no memory for %d hosts", nhosts);
    if (status < 0)
        goto out;
    struct table table = {nhosts, nrounds, pairs};
    find_leaders(c, host, nhosts, leader);
    const int me = host[c->rank];
    for (int k = 0; k <= nrounds && status == COLL_OK; k++) {
        /* Neighbours twice: most of what is found hangs on them. */
        struct pair again, *pair = k < nrounds ? &mine[k] : &again;
        const int other = partner(&table, me, k % nrounds);
        if (leader[me].first != c->rank || other < 0)
            continue;
        status = measure(c, leader[other].first, k % nrounds, begun, buf, pair);
        if (k == nrounds && status == COLL_OK)
            keep_better(&mine[0], &again);
    }
    if (status == COLL_OK)
        status = bootstrap_allgather(c->bootstrap, mine, all, sizeof(mine));
    if (status < 0)
        goto out;
    for (int h = 0; h < nhosts; h++)
        memcpy(&pairs[h * nrounds], &all[(size_t)leader[h].first * MAX_ROUNDS],
               sizeof(struct pair) * (size_t)nrounds);
    g->ngroups = find_groups(&table, c->crowded ? crowded_beta : 0, g->group_of,
                             scratch);
    if (g->ngroups == nhosts) { /* nobody is near anybody: all are alike */
        memset(g->group_of, 0, sizeof(int) * (size_t)nhosts);
        g->ngroups = 1;
    }
    g->inside = link_of(&table, g->group_of, false, scratch);
    g->across = link_of(&table, g->group_of, true, scratch);
    fill_gaps(&g->inside, &g->across);
    fill_gaps(&g->inside, &here_assumed.remote);
    fill_gaps(&g->across, &g->inside);
    if (g->ngroups > 1)
        status = find_shared(c, leader, host, g, nhosts, buf);
    if (status == COLL_OK && c->nranks > nhosts)
        status = measure_local(c, leader, host, nhosts, buf, &g->local);
    g->seconds = comm_clock() - begun;
out:
    free(leader);
    free(pairs);
    free(all);
    free(scratch);
    free(buf);
    if (status < 0)
        probe_free(g);
    return status;
}

void probe_free(struct probe_groups *g)
{
    free(g->group_of);
    g->group_of = NULL;
}

double probe_gamma(size_t bytes)
{
    enum { TURNS = 8 };
    const double enough = 2e-3;
    const size_t count = bytes / sizeof(float);
    combine_fn *const sum = op_combine(COLL_F32, COLL_SUM);
    float *x = malloc(2 * bytes);
    double least = INFINITY, all = 0;
    if (!x)
        return here_assumed.gamma;
    memset(x, 0, 2 * bytes);
    for (int i = 0; i < TURNS && all < enough; i++) {
        void *dst[] = {x};
        const void *src[] = {x, x + count};
        const double start = comm_clock();
        sum(dst, 1, src, 2, count, 1, false);
        const double took = comm_clock() - start;
        least = fmin(least, took);
        all += took;
    }
    free(x);
    return least / (double)bytes;
}
