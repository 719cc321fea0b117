/* SPDX-License-Identifier: MIT */
/* Measuring at start among processes that take themselves for hosts: all find
 * the same, with a bounded number of messages and exchanges. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "coll/topo.h"
#include "comm/crowd.h"
#include "comm/here.h"
#include "comm/roofline.h"
#include "comm/sound.h"
#include "hosts.h"
#include "thorough.h"

/* What all must agree on. */
struct figures {
    int ngroups, group_of[8];
    double figures[10];
};

static struct figures figures_of(const struct probe_groups *g, int nhosts)
{
    struct figures f;
    memset(&f, 0, sizeof(f)); /* with its padding */
    f.ngroups = g->ngroups;
    memcpy(f.group_of, g->group_of, sizeof(int) * (size_t)nhosts);
    const struct sim_link *links[] = {&g->inside, &g->across, &g->local};
    for (int i = 0; i < 3; i++) {
        f.figures[3 * i] = links[i]->alpha;
        f.figures[3 * i + 1] = links[i]->overhead;
        f.figures[3 * i + 2] = links[i]->beta;
    }
    f.figures[9] = g->shared;
    return f;
}

/* Of the limits in probe.c. A meeting of r rounds: a greeting to each; 8 pings,
 * the last word, 2 bursts of 8; and in r + 1 rounds a word and long messages,
 * each with a word. Those end after 24 ms, so there are about as many more. */
static unsigned most_messages(unsigned rounds, unsigned meetings)
{
    const unsigned latency = 8 + 1 + 2 * 8, rate = 1 + 2 * (8 + 16);
    return rounds + meetings * (rounds * latency + (rounds + 1) * rate);
}

/* Each message was sent in some phase, and in no two. */
static int check_phases(const struct probe_cost *cost, double seconds)
{
    size_t bytes = 0;
    unsigned waits = 0;
    double all = 0;
    for (int i = 0; i < PHASES; i++) {
        bytes += cost->parts[i].bytes;
        waits += cost->parts[i].waits;
        all += cost->parts[i].seconds;
    }
    EXPECT(bytes == cost->bytes, "%zu of %zu bytes", bytes, cost->bytes);
    EXPECT(waits >= cost->gathers && waits <= cost->messages + cost->gathers,
           "%u waits", waits);
    EXPECT(all > 0 && all <= seconds, "%g of %g s", all, seconds);
    return 0;
}

static int measure(coll_comm *c, int rank, int nranks)
{
    int host[8];
    struct probe_groups g;
    struct crowd crowd;
    struct figures all[8];
    const int nhosts = layout_number_hosts(nranks, c->host_of, host);
    EXPECT(probe_hosts(c, host, nhosts, &g) == COLL_OK, "rank %d", rank);
    const unsigned most =
        most_messages((unsigned)nhosts - 1, c->crowded ? 3 : 2)
        + most_messages(0, 1) + 2 * 16;
    EXPECT(g.cost.messages <= most, "%u messages, at most %u", g.cost.messages,
           most);
    /* A meeting each, two for a shared link. */
    EXPECT(g.cost.gathers <= (c->crowded ? 3 : 2) + (g.ngroups > 1 ? 2u : 0u),
           "%u", g.cost.gathers);
    EXPECT(g.inside.alpha > 0 && g.inside.beta > 0, "rank %d", rank);
    EXPECT((g.local.beta > 0) == (nranks > nhosts), "%g", g.local.beta);
    const struct probe_cost before = g.cost;
    EXPECT(check_phases(&before, g.seconds) == 0, "rank %d", rank);
    EXPECT(crowd_measure(c, host, nhosts, &g, &crowd) == COLL_OK, "rank %d",
           rank);
    EXPECT(g.cost.gathers - before.gathers <= 1, "%u", g.cost.gathers);
    /* 3 kinds, of up to 1 + 3 * 8 rounds. */
    EXPECT(g.cost.messages - before.messages <= 25 * 3, "%u",
           g.cost.messages - before.messages);
    const struct figures mine = figures_of(&g, nhosts);
    EXPECT(bootstrap_allgather(c->bootstrap, &mine, all, sizeof(mine))
               == COLL_OK,
           "rank %d", rank);
    for (int r = 0; r < nranks; r++)
        EXPECT(!memcmp(&all[r], &mine, sizeof(mine)), "ranks %d and %d", r,
               rank);
    probe_free(&g);
    crowd_free(&crowd);
    return 0;
}

Test(probe, all_find_the_same_with_few_messages)
{
    static const char *const places[] = {"01", "0123", "01234", "0011"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        cr_assert_eq(run_on(places[i], quick, measure), 0, "%s", places[i]);
}

/* Whether two ranks of each host with several send each other messages, or
 * where ranks take turns those of the first such host. */
static int measure_inside(coll_comm *c, int rank, int nranks)
{
    int host[8], looking = -1, before = 0, of_host = 0;
    const int nhosts = layout_number_hosts(nranks, c->host_of, host);
    for (int r = 0; r < nranks; r++) {
        of_host += host[r] == host[rank];
        before += host[r] == host[rank] && r < rank;
        for (int s = 0; looking < 0 && s < r; s++)
            if (host[s] == host[r])
                looking = host[r];
    }
    for (int turns = 0; turns < 2; turns++) {
        struct probe_groups g;
        c->crowded = turns;
        EXPECT(probe_hosts(c, host, nhosts, &g) == COLL_OK, "rank %d", rank);
        const bool looks =
            of_host > 1 && before < 2 && (!turns || host[rank] == looking);
        EXPECT((g.cost.parts[PHASE_INSIDE].bytes > 0) == looks,
               "rank %d, turns %d: %zu bytes", rank, turns,
               g.cost.parts[PHASE_INSIDE].bytes);
        EXPECT(g.local.beta > 0, "rank %d, turns %d: %g", rank, turns,
               g.local.beta);
        probe_free(&g);
    }
    return 0;
}

Test(probe, one_host_looks_inside_where_ranks_take_turns)
{
    static const char *const places[] = {"0011", "01122", "01112"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        cr_assert_eq(run_on(places[i], quick, measure_inside), 0, "%s",
                     places[i]);
}

/* All take it for known that hosts are far; beta 0: but not how fast. */
static int measure_known(coll_comm *c, int rank, int nranks, float beta)
{
    int host[8];
    struct probe_groups g;
    const int nhosts = layout_number_hosts(nranks, c->host_of, host);
    const int nrounds = nearby_rounds(nhosts);
    const bool leads = rank == 0 || host[rank] != host[rank - 1];
    c->ways = calloc((size_t)(nhosts * nrounds), sizeof(*c->ways));
    EXPECT(c->ways, "rank %d", rank);
    for (int i = 0; i < nhosts * nrounds; i++)
        if (nearby_partner(nhosts, i / nrounds, i % nrounds) >= 0)
            c->ways[i] = (struct nearby_pair){
                .alpha = 5e-3f, .beta = i % nrounds ? 0 : beta};
    EXPECT(probe_hosts(c, host, nhosts, &g) == COLL_OK, "rank %d", rank);
    const struct probe_cost *cost = &g.cost;
    unsigned waits = 0;
    for (int i = 0; i < PHASES; i++)
        waits += i == PHASE_INSIDE ? 0 : cost->parts[i].waits;
    const unsigned gathers = beta <= 0 || nranks > nhosts;
    EXPECT(cost->gathers == gathers, "%u", cost->gathers);
    EXPECT(beta <= 0 || waits == gathers + leads, "%u waits", waits);
    EXPECT(g.ngroups == 1, "%d", g.ngroups);
    EXPECT(g.inside.alpha == (double)5e-3f, "%g", g.inside.alpha);
    EXPECT(beta > 0 ? g.inside.beta == (double)beta : g.inside.beta > 0, "%g",
           g.inside.beta);
    EXPECT((g.local.beta > 0) == (nranks > nhosts), "%g", g.local.beta);
    probe_free(&g);
    return 0;
}

static int measure_told(coll_comm *c, int rank, int nranks)
{
    return measure_known(c, rank, nranks, 80e-9f);
}

static int measure_rates(coll_comm *c, int rank, int nranks)
{
    return measure_known(c, rank, nranks, 0);
}

/* A wait for the greeting and no other; and a gather where something is found
 * inside hosts. */
Test(probe, what_is_known_of_far_hosts_is_not_asked)
{
    static const char *const places[] = {"01", "0123", "00112233"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        cr_assert_eq(run_on(places[i], quick, measure_told), 0, "%s",
                     places[i]);
    cr_assert_eq(run_on("0123", quick, measure_rates), 0);
}

/* Far is not transitive: host 1 is near to both of those that are not near each
 * other. */
static int measure_between(coll_comm *c, int rank, int nranks)
{
    struct probe_groups g;
    struct figures all[8];
    int host[8];
    const int nhosts = layout_number_hosts(nranks, c->host_of, host);
    const int nrounds = nearby_rounds(nhosts);
    c->ways = calloc((size_t)(nhosts * nrounds), sizeof(*c->ways));
    EXPECT(c->ways, "rank %d", rank);
    for (int k = 0; k < nrounds; k++)
        if (nearby_partner(nhosts, 0, k) == 2)
            c->ways[k].alpha = c->ways[2 * nrounds + k].alpha = 5e-3f;
    EXPECT(probe_hosts(c, host, nhosts, &g) == COLL_OK, "rank %d: %s", rank,
           coll_last_error(c));
    const struct figures mine = figures_of(&g, nhosts);
    EXPECT(bootstrap_allgather(c->bootstrap, &mine, all, sizeof(mine))
               == COLL_OK,
           "rank %d", rank);
    for (int r = 0; r < nranks; r++)
        EXPECT(!memcmp(&all[r], &mine, sizeof(mine)), "ranks %d and %d", r,
               rank);
    probe_free(&g);
    return 0;
}

Test(probe, one_host_may_be_near_to_two_that_are_far)
{
    cr_assert_eq(run_on("012", quick, measure_between), 0);
}

/* Two hosts and two, of one rank each: 3 ms inside, 50 between. The doors told
 * no rate between them. */
static int measure_two_and_two(coll_comm *c, int rank, int nranks)
{
    static const float inside = 1e-10f; /* less than messages take here */
    int host[8];
    struct probe_groups g;
    const int nhosts = layout_number_hosts(nranks, c->host_of, host);
    const int nrounds = nearby_rounds(nhosts);
    c->ways = calloc((size_t)(nhosts * nrounds), sizeof(*c->ways));
    EXPECT(c->ways, "rank %d", rank);
    for (int i = 0; i < nhosts * nrounds; i++) {
        const int h = i / nrounds, k = i % nrounds;
        const int other = nearby_partner(nhosts, h, k);
        if (other >= 0)
            c->ways[i] = (struct nearby_pair){
                .alpha = h / 2 == other / 2 ? 1.5e-3f : 25e-3f,
                .beta = k == 0 ? inside : 0};
    }
    EXPECT(probe_hosts(c, host, nhosts, &g) == COLL_OK, "rank %d: %s", rank,
           coll_last_error(c));
    EXPECT(g.ngroups == 2, "%d groups", g.ngroups);
    EXPECT(g.across.alpha == (double)25e-3f, "%g", g.across.alpha);
    EXPECT(g.inside.beta == (double)inside, "%g", g.inside.beta);
    EXPECT(g.across.beta > 0 && g.across.beta != g.inside.beta, "%g",
           g.across.beta);
    probe_free(&g);
    return 0;
}

Test(probe, far_hosts_in_groups_are_asked_what_leads_out_of_them)
{
    cr_assert_eq(run_on("0123", quick, measure_two_and_two), 0);
}

static int sound(coll_comm *c, int rank, int nranks)
{
    struct probe_cost cost = {.messages = 0};
    struct pair_meter meter = {.comm = c, .cost = &cost};
    int peers[8] = {0}, n = 0;
    double found[8], mine[8] = {0}, all[8][8];
    for (int r = 0; r < nranks; r++)
        if (r != rank)
            peers[n++] = r;
    EXPECT(sound_peers(&meter, peers, n, found) == COLL_OK, "rank %d", rank);
    for (int i = 0; i < n; i++)
        mine[peers[i]] = found[i];
    EXPECT(bootstrap_allgather(c->bootstrap, mine, all, sizeof(mine))
               == COLL_OK,
           "rank %d", rank);
    for (int i = 0; i < n; i++) {
        EXPECT(found[i] > 0 && found[i] < c->join_seconds, "%g s", found[i]);
        EXPECT(found[i] == all[peers[i]][rank], "ranks %d and %d: %g and %g",
               rank, peers[i], found[i], all[peers[i]][rank]);
    }
    EXPECT(cost.parts[0].waits <= 3, "%u waits", cost.parts[0].waits);
    return 0;
}

Test(probe, both_ends_of_all_pairs_find_one_round_trip)
{
    static const char *const places[] = {"01", "01234", "00112"};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        cr_assert_eq(run_on(places[i], quick, sound), 0, "%s", places[i]);
}

/* As hwloc has it, not as the processor says where it is a virtual one. */
Test(probe, the_cache_is_one_that_the_kernel_tells_of)
{
    char error[256];
    coll_topo *topo;
    int caches = 0, alike = 0;
    cr_assert_eq(coll_topo_discover(&topo, error, sizeof(error)), COLL_OK);
    for (int i = 0; i < coll_topo_size(topo); i++) {
        const coll_topo_object *o = coll_topo_get(topo, i);
        caches += o->kind == COLL_TOPO_L3;
        alike += o->kind == COLL_TOPO_L3 && o->bytes == here_cache();
    }
    coll_topo_free(topo);
    if (!caches)
        cr_skip_test("there is no L3");
    cr_assert_gt(alike, 0, "%zu bytes", here_cache());
}

static atomic_bool ended;

static void *spin(void *arg)
{
    while (!atomic_load(&ended))
        ;
    return arg;
}

/* Who is interrupted while it adds is not slow, but where the machine itself
 * is: one of a hundred may be. */
Test(probe, sums_are_as_fast_beside_others)
{
    enum { OTHERS = 3 };
    const unsigned calls = cases(4000, 1000);
    pthread_t others[OTHERS];
    cpu_set_t one;
    double *seconds = calloc(calls, sizeof(*seconds)), least = 1;
    unsigned slow = 0;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
    for (int i = 0; i < OTHERS; i++)
        cr_assert_eq(pthread_create(&others[i], NULL, spin, NULL), 0);
    for (unsigned i = 0; i < calls; i++) {
        seconds[i] = roofline_sum();
        least = fmin(least, seconds[i]);
    }
    atomic_store(&ended, true);
    for (int i = 0; i < OTHERS; i++)
        pthread_join(others[i], NULL);
    for (unsigned i = 0; i < calls; i++)
        slow += seconds[i] >= 10 * least;
    free(seconds);
    cr_assert_lt(slow, calls / 100, "%u of %u", slow, calls);
}

/* Where the sanitizer looks at each load, sums take as long as memory. */
#if defined(__SANITIZE_ADDRESS__)
static const double sooner = 0.5;
#else
static const double sooner = 1;
#endif

/* No sum is faster than its vectors come from memory. What shares the core
 * while one of the two is measured slows that one only, so one right answer of
 * some is asked for. */
Test(probe, memory_is_slower_than_caches)
{
    bool slower = false;
    for (int i = 0; i < 5 && !slower; i++) {
        const double near = roofline_sum(), far = roofline_memory();
        cr_assert(near > 1e-13 && near < 1e-8, "%g", near);
        cr_assert(far >= 0 && far < 1e-8, "%g", far);
        slower = 2 * far > sooner * near;
    }
#if defined(__x86_64__) || defined(__aarch64__)
    cr_assert(slower);
#endif
}
