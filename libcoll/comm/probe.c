/* SPDX-License-Identifier: MIT */
#include "comm/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/here.h"
#include "comm/pair.h"
#include "comm/sound.h"
#include "comm/ways.h"

static const double budget_seconds = 0.024; /* of the rates of all rounds, */
static const double most_seconds = 0.004;   /* and of a pair's */
/* Shorter trains than of 4 messages tell nothing. */
enum { PAIRS_ACROSS = 8, CROWDED_ROUNDS = 3 };
/* A pair across that is so much faster alone shares its link with the others.
 */
static const float shares = 1.4f;
/* Where hosts share processors, faster links than this cannot be told apart. */
static const float crowded_beta = 4e-9f;

/* The first two ranks of a host; -1: it has one. */
struct leaders {
    int first, second;
};

struct probing {
    coll_comm *comm;
    const int *host; /* per rank */
    struct leaders *leader;
    const struct nearby_pair *ways; /* [nhosts][nrounds]; NULL: none is known */
    bool all_known;
    int nhosts, nrounds;
    struct pair_meter meter;
};

static coll_status gather(struct probing *p, const void *mine, void *all,
                          size_t bytes)
{
    p->meter.cost->gathers++;
    phases_begin(p->meter.cost, PHASE_GATHER);
    phases_waited(p->meter.cost, 1);
    return bootstrap_allgather(p->comm->bootstrap, mine, all, bytes);
}

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

/* The lowest rank of the host that this rank's host meets; -1: none, or this
 * rank is not the lowest of its own. */
static int meets(const struct probing *p, int round)
{
    const int me = p->host[p->comm->rank];
    const int other = nearby_partner(p->nhosts, me, round);
    return other >= 0 && p->leader[me].first == p->comm->rank
               ? p->leader[other].first
               : -1;
}

/* What was found when hosts reached one another; NULL: nothing. */
static const struct nearby_pair *known(const struct probing *p, int round)
{
    const int me = p->host[p->comm->rank];
    const struct nearby_pair *way =
        p->ways ? &p->ways[me * p->nrounds + round] : NULL;
    return way && way->alpha > 0 ? way : NULL;
}

/* All that are met later, and how many; the round of each. */
static int all_met(const struct probing *p, int *peers, int *round)
{
    int n = 0;
    for (int k = 0; k < p->nrounds; k++)
        if (meets(p, k) >= 0) {
            round[n] = k;
            peers[n++] = meets(p, k);
        }
    return n;
}

static coll_status greet(struct probing *p)
{
    int peers[NEARBY_MAX_ROUNDS], round[NEARBY_MAX_ROUNDS];
    phases_begin(p->meter.cost, PHASE_GREET);
    return pair_greet(&p->meter, peers, all_met(p, peers, round));
}

/* What a rank found; travels. */
struct report {
    struct nearby_pair pairs[NEARBY_MAX_ROUNDS], local;
};

/* Leaves those of n of whom nothing is known; how many. */
static int take_known(const struct probing *p, int *peers, int *round, int n,
                      bool *far, struct nearby_pair *mine)
{
    int left = 0;
    for (int i = 0; i < n; i++) {
        const int k = round[i];
        const struct nearby_pair *way = known(p, k);
        if (way) {
            far[k] = true;
            nearby_keep_better(&mine[k], way);
        } else {
            round[left] = k;
            peers[left++] = peers[i];
        }
    }
    return left;
}

/* Of all pairs at once whether they are far, which is all that is asked of
 * those, then of the near ones round by round. Where ranks take turns a reply
 * waits for those to others: then it has to be later, and with many rounds it
 * would tell nothing. */
static coll_status meet_shortly(struct probing *p, bool *far,
                                struct nearby_pair *mine)
{
    int peers[NEARBY_MAX_ROUNDS], round[NEARBY_MAX_ROUNDS];
    double round_trip[NEARBY_MAX_ROUNDS];
    const int n =
        take_known(p, peers, round, all_met(p, peers, round), far, mine);
    const bool crowded = p->comm->crowded;
    const bool sounds = !crowded || p->nrounds <= CROWDED_ROUNDS;
    const double limit = (crowded ? p->nrounds : 1) * pair_far_seconds;
    coll_status status = COLL_OK;
    phases_begin(p->meter.cost, PHASE_LATENCY);
    /* They may have waited for others, who are far; by what both know. */
    if (n > 0 && p->ways)
        status = pair_greet(&p->meter, peers, n);
    if (sounds && n > 0 && status == COLL_OK)
        status = sound_peers(&p->meter, peers, n, round_trip);
    for (int i = 0; i < n && status == COLL_OK; i++) {
        struct nearby_pair now = {0};
        far[round[i]] = sounds && round_trip[i] > limit;
        if (far[round[i]])
            now.alpha = (float)(round_trip[i] / 2);
        else
            status = pair_find_latency(&p->meter, peers[i], &now);
        nearby_keep_better(&mine[round[i]], &now);
    }
    return status;
}

/* The rate of one round's pair, if it was not known before. */
static coll_status meet_for_long(struct probing *p, bool first, int k, bool far,
                                 struct nearby_pair *pair)
{
    const struct nearby_pair *way = known(p, k);
    if (meets(p, k) < 0)
        return COLL_OK;
    if (way && (p->all_known || way->beta > 0)) {
        p->meter.settled = true;
        p->meter.beta = (double)way->beta;
        return COLL_OK;
    }
    return first && far ? pair_find_far_rate(&p->meter, meets(p, k), pair)
                        : pair_find_rate(&p->meter, meets(p, k), first, pair);
}

/* All rounds: latencies while nothing fills the queues, then rates. First to
 * last, and neighbours again if theirs had not settled, as most of what is
 * found hangs on them; or last to first, as those may have had no time before.
 */
static coll_status meet_all(struct probing *p, bool backwards,
                            struct nearby_pair *mine)
{
    const int n = p->nrounds;
    bool settled = backwards;
    bool far[NEARBY_MAX_ROUNDS] = {false};
    coll_status status = meet_shortly(p, far, mine);
    p->meter.begun = comm_clock();
    phases_begin(p->meter.cost, PHASE_RATE);
    for (int i = 0; i < n + !settled && status == COLL_OK; i++) {
        const int k = backwards ? n - 1 - i : i % n;
        p->meter.sure = i == 0;
        status = meet_for_long(p, i == 0, k, far[k], &mine[k]);
        if (i == 0 && !backwards)
            settled = p->meter.settled;
    }
    return status;
}

/* Whether a host finds out what messages inside it cost: all with several ranks
 * at the same time. Where ranks take turns the first of them alone, as the
 * others' turns would count for its own, and they are priced by themselves. */
static bool looks_inside(const struct probing *p, int host)
{
    int first = 0;
    while (p->comm->crowded && p->leader[first].second < 0 && first < host)
        first++;
    return p->leader[host].second >= 0 && (!p->comm->crowded || first == host);
}

/* Messages inside hosts. Their rate is not where the next meeting of hosts is
 * to start. */
static coll_status meet_inside(struct probing *p, struct nearby_pair *local)
{
    const int me = p->comm->rank;
    const struct leaders of = p->leader[p->host[me]];
    if (!looks_inside(p, p->host[me]) || (of.first != me && of.second != me))
        return COLL_OK;
    const int peer = me == of.first ? of.second : of.first;
    const struct pair_meter between = p->meter;
    p->meter.beta = 0;
    p->meter.share = 0;
    p->meter.sure = false;
    phases_begin(p->meter.cost, PHASE_INSIDE);
    coll_status status = pair_find_latency(&p->meter, peer, local);
    if (status == COLL_OK)
        status = pair_find_rate(&p->meter, peer, true, local);
    p->meter.beta = between.beta;
    p->meter.share = between.share;
    return status;
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return x < y ? -1 : x > y;
}

/* The middle of what the hosts that looked inside found. */
static struct sim_link link_inside(const struct probing *p,
                                   const struct report *all, float *scratch)
{
    double figures[3] = {0};
    for (int f = 0; f < 3; f++) {
        int n = 0;
        for (int h = 0; h < p->nhosts; h++)
            if (looks_inside(p, h)) {
                const struct nearby_pair *pair = &all[p->leader[h].first].local;
                scratch[n++] = f == 0   ? pair->alpha
                               : f == 1 ? pair->overhead
                                        : pair->beta;
            }
        qsort(scratch, (size_t)n, sizeof(float), by_size);
        figures[f] = n ? (double)scratch[n / 2] : 0;
    }
    return (struct sim_link){
        .alpha = figures[0], .overhead = figures[1], .beta = figures[2]};
}

static bool is_far(double alpha)
{
    return 2 * alpha > pair_far_seconds;
}

/* Seconds per byte between hosts h and h xor mask that are in different groups:
 * of the first most such pairs at once, host 0's is the first; the slower half
 * begins there. Who has no part waits for the others. */
static coll_status meet_across(struct probing *p, const struct probe_groups *g,
                               int mask, int most, float *all, float *beta)
{
    const int me = p->host[p->comm->rank], other = me ^ mask;
    int npairs = 0;
    bool takes_part = false;
    for (int h = 0; h < p->nhosts && npairs < most; h++)
        if ((h ^ mask) > h && (h ^ mask) < p->nhosts
            && g->group_of[h] != g->group_of[h ^ mask]) {
            takes_part |= h == me || h == other;
            npairs++;
        }
    /* Together they send twice as much as one pair alone: it takes that long
     * until all are at it. */
    const int n = npairs > 2 ? 2 * PAIR_MESSAGES / npairs : PAIR_MESSAGES;
    const size_t bytes = pair_train_bytes(g->across.beta);
    double found = 0;
    coll_status status = COLL_OK;
    phases_begin(p->meter.cost, PHASE_TRAIN);
    if (p->leader[me].first == p->comm->rank && takes_part)
        status = pair_run_train(&p->meter, p->leader[other].first, n, bytes,
                                most == 1 && is_far(g->across.alpha), &found);
    const float mine = (float)found;
    if (status == COLL_OK)
        status = gather(p, &mine, all, sizeof(mine));
    int nfound = 0;
    for (int r = 0; r < p->comm->nranks && status == COLL_OK; r++)
        if (all[r] > 0)
            all[nfound++] = all[r];
    qsort(all, (size_t)nfound, sizeof(float), by_size);
    *beta = nfound ? all[nfound / 2] : 0;
    return status;
}

/* How many hosts of host 0's group meet one of another group. */
static int count_sharing(const struct probing *p, const struct probe_groups *g,
                         int mask)
{
    int n = 0;
    for (int h = 0; h < p->nhosts; h++)
        n += g->group_of[h] == g->group_of[0] && (h ^ mask) < p->nhosts
             && g->group_of[h ^ mask] != g->group_of[0];
    return n < PAIRS_ACROSS ? n : PAIRS_ACROSS;
}

/* Seconds per byte of a link that n pairs share. One pair alone may live on
 * what a token bucket has saved; together they have emptied it, and if they got
 * equal parts they tell it better. */
static float of_link(float alone, float together, int n)
{
    const float part = together / (float)n;
    return part > alone && part < 2 * alone ? part : alone;
}

/* Whether hosts of a group share what leads out of it: one pair across alone,
 * then several at the same time. */
static coll_status find_shared(struct probing *p, struct probe_groups *g,
                               float *all)
{
    float alone = 0, together = 0;
    int mask = 0;
    while (g->group_of[mask] == g->group_of[0])
        mask++;
    coll_status status = meet_across(p, g, mask, 1, all, &alone);
    /* In the rounds they met at about the same time, which then says it, or one
     * after another. */
    const float across = (float)g->across.beta;
    if (status == COLL_OK && across <= shares * alone)
        status = meet_across(p, g, mask, PAIRS_ACROSS, all, &together);
    if (status == COLL_OK && p->comm->rank == 0)
        log_line(COLL_LOG_DEBUG, "probe",
                 "ns a byte across: %.1f of a pair alone, %.1f of several, "
                 "%.1f in the rounds",
                 1e9 * (double)alone, 1e9 * (double)together,
                 1e9 * (double)across);
    alone = fminf(alone, across);
    together = fmaxf(together, across);
    if (status == COLL_OK && alone > 0 && together > shares * alone) {
        g->shared = (double)of_link(alone, together, count_sharing(p, g, mask));
        g->across.beta = (double)together;
    }
    return status;
}

/* Whether all ways are so long that hosts meet once only. */
static bool all_are_far(const struct nearby_table *t)
{
    bool far = true;
    for (int i = 0; i < t->nhosts * t->nrounds; i++)
        far &= t->pairs[i].alpha <= 0 || is_far((double)t->pairs[i].alpha);
    return far;
}

/* Figures that were not found are taken from the other level. */
static void fill_gaps(struct sim_link *link, const struct sim_link *other)
{
    if (link->alpha <= 0)
        link->alpha = other->alpha;
    if (link->beta <= 0)
        link->beta = other->beta;
}

/* Rounds and groups, again if those are not certain. */
static coll_status find_groups(struct probing *p, struct probe_groups *g,
                               const struct nearby_table *t,
                               struct report *mine, struct report *all)
{
    const int me = p->comm->rank;
    /* One rate a host tells no groups. */
    const float floor = p->all_known       ? INFINITY
                        : p->comm->crowded ? crowded_beta
                                           : 0;
    /* Where ranks take turns, some come late to most that they do. */
    const int most = p->comm->crowded ? 3 : 2;
    bool certain = false;
    coll_status status = greet(p);
    if (p->all_known && p->comm->nranks == p->nhosts && status == COLL_OK) {
        memcpy(t->pairs, p->ways,
               sizeof(*t->pairs) * (size_t)(t->nhosts * t->nrounds));
        g->ngroups = nearby_find(t, floor, g->group_of, &certain);
        return COLL_OK;
    }
    for (int i = 0; i < most && !certain && status == COLL_OK; i++) {
        status = meet_all(p, i % 2, mine->pairs);
        if (status == COLL_OK && i == 0 && p->comm->nranks > p->nhosts)
            status = meet_inside(p, &mine->local);
        if (status == COLL_OK)
            status = gather(p, mine, all, sizeof(*mine));
        if (status < 0)
            return status;
        for (int h = 0; h < t->nhosts; h++)
            memcpy(&t->pairs[h * t->nrounds], all[p->leader[h].first].pairs,
                   sizeof(*t->pairs) * (size_t)t->nrounds);
        g->ngroups = nearby_find(t, floor, g->group_of, &certain);
        certain |= all_are_far(t);
        if (!certain && me == 0)
            log_line(COLL_LOG_DEBUG, "probe", "%d groups are not certain%s",
                     g->ngroups, i + 1 < most ? ": once more" : "");
    }
    return status;
}

/* Whether nothing is left to ask: not what leads out of groups that latencies
 * tell. */
static bool tell_all(const struct nearby_table *t,
                     const struct nearby_pair *ways, int *group_of)
{
    bool certain;
    if (!ways || !ways_are_all(t->nhosts, ways))
        return false;
    memcpy(t->pairs, ways, sizeof(*ways) * (size_t)(t->nhosts * t->nrounds));
    const int ngroups = nearby_find(t, INFINITY, group_of, &certain);
    return ngroups == 1 || ngroups == t->nhosts;
}

static void take_links(const struct nearby_table *t, struct probe_groups *g)
{
    if (g->ngroups == t->nhosts) { /* nobody is near anybody: all are alike */
        memset(g->group_of, 0, sizeof(int) * (size_t)t->nhosts);
        g->ngroups = 1;
    }
    g->inside = nearby_link(t, g->group_of, false);
    g->across = nearby_link(t, g->group_of, true);
    g->soonest = nearby_soonest(t, g->group_of, g->ngroups > 1);
}

coll_status probe_hosts(coll_comm *c, const int *host, int nhosts,
                        struct probe_groups *g)
{
    const double begun = comm_clock();
    const int nrounds = nearby_rounds(nhosts);
    const size_t cells = (size_t)nrounds * (size_t)nhosts;
    struct report mine, *all = calloc((size_t)c->nranks, sizeof(mine));
    struct nearby_table table = {
        .nhosts = nhosts,
        .nrounds = nrounds,
        .pairs = calloc(cells + 1, sizeof(*table.pairs)),
        .scratch = malloc((cells + 1) * sizeof(float)),
    };
    struct probing p = {
        .comm = c,
        .host = host,
        .leader = malloc((size_t)nhosts * sizeof(*p.leader)),
        .ways = c->ways,
        .nhosts = nhosts,
        .nrounds = nrounds,
        .meter = {.comm = c,
                  .buf = calloc(1, PAIR_BUFFER_BYTES),
                  .budget = budget_seconds,
                  .share = fmin(budget_seconds / (nrounds + 1), most_seconds),
                  .cost = &g->cost},
    };
    memset(&mine, 0, sizeof(mine));
    *g = (struct probe_groups){.ngroups = 1};
    g->group_of = calloc((size_t)nhosts, sizeof(int));
    coll_status status =
        g->group_of && p.leader && table.pairs && all && table.scratch
                && p.meter.buf
            ? COLL_OK
            : fail(COLL_ERR_MEMORY, "probe", "no memory for %d hosts", nhosts);
    if (status < 0)
        goto out;
    find_leaders(c, host, nhosts, p.leader);
    p.all_known = tell_all(&table, c->ways, g->group_of);
    status = find_groups(&p, g, &table, &mine, all);
    if (status < 0)
        goto out;
    take_links(&table, g);
    g->local = link_inside(&p, all, table.scratch);
    if (g->ngroups > 1 && g->across.beta > 0)
        status = find_shared(&p, g, (float *)all);
    fill_gaps(&g->inside, &g->across);
    fill_gaps(&g->inside, &here_assumed.remote);
    fill_gaps(&g->across, &g->inside);
    phases_begin(&g->cost, PHASES);
    g->seconds = comm_clock() - begun;
out:
    free(p.leader);
    free(table.pairs);
    free(table.scratch);
    free(all);
    free(p.meter.buf);
    if (status < 0)
        probe_free(g);
    return status;
}

void probe_free(struct probe_groups *g)
{
    free(g->group_of);
    g->group_of = NULL;
}
