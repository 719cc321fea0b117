/* SPDX-License-Identifier: MIT */
/* A ring of hosts suffices to try a network: one that is in two parts, or has a
 * host less, breaks it somewhere. What a network is, is its address and mask,
 * equal on all hosts; in a list of COLL_INTERFACE, the place in it. */
#include "comm/reach.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "comm/rails.h"
#include "comm/reach_inside.h"

/* No way is longer, whatever a rank says. */
static const double most_seconds = 1;

static const uint64_t UNKNOWN = UINT64_MAX;

static void add_offer(struct search *s, const char *name, uint64_t network)
{
    for (int i = 0; i < s->noffers; i++)
        if (s->mine.network[i] == network || !strcmp(s->name[i], name))
            return;
    if (s->noffers == CANDIDATES)
        return;
    memcpy(s->name[s->noffers], name, strnlen(name, sizeof(s->name[0]) - 1));
    s->mine.network[s->noffers++] = network;
}

static void offer_named(struct search *s, const char *list)
{
    for (int i = 1; *list; i++) {
        char word[sizeof(s->name[0])] = "";
        const size_t length = strcspn(list, ",");
        memcpy(word, list, length < sizeof(word) ? length : sizeof(word) - 1);
        add_offer(s, word, (uint64_t)i);
        list += length + (list[length] == ',');
    }
}

/* UCX takes an interface's IPv4 address where it has one; so do all rails as
 * the first one does. */
static void offer_found(struct search *s)
{
    enum { MOST = 64 };
    struct bootstrap_interface list[MOST];
    const char *first = s->comm->interface;
    const int n = bootstrap_interfaces(list, MOST);
    uint32_t family = 0;
    if (!*first)
        return;
    for (int i = 0; i < n && !family; i++)
        if (!strcmp(list[i].name, first)) {
            add_offer(s, first, list[i].network);
            family = list[i].at.family;
        }
    add_offer(s, first, UNKNOWN); /* it may be a tunnel's end */
    for (int i = 0; i < n; i++)
        if (list[i].at.family == family)
            add_offer(s, list[i].name, list[i].network);
}

static void open_doors(struct search *s)
{
    const char *named = setting_text(SETTING_INTERFACE);
    if (*named)
        offer_named(s, named);
    else
        offer_found(s);
    s->mine.one_rail = transport_one_rail();
    if (s->noffers > 1 && s->mine.one_rail)
        s->noffers = 1;
    for (int i = s->noffers; i < CANDIDATES; i++)
        s->mine.network[i] = 0;
    for (int i = 0; i < s->noffers && s->next >= 0; i++)
        s->fd[i] = bootstrap_open_door(s->name[i], &s->mine.door[i]);
    s->mine.round_trip = bootstrap_round_trip(s->comm->bootstrap);
}

static bool all_offer(const struct search *s, int k)
{
    for (int r = 0; r < s->comm->nranks; r++)
        if (reach_offer_of(s, r, k) < 0)
            return false;
    return true;
}

/* The rank that does not reach its next host, or -1. All hosts at once. */
static coll_status try_network(struct search *s, int k, double *rate,
                               int *failed)
{
    const coll_comm *c = s->comm;
    struct found mine = {.bytes_per_second = -1};
    if (s->next >= 0) {
        mine.bytes_per_second = 0;
        knock_at_doors(s, k, &mine);
    }
    *failed = -1;
    *rate = 0;
    const coll_status status =
        bootstrap_allgather(c->bootstrap, &mine, s->found, sizeof(mine));
    bool known = true;
    for (int r = 0; r < c->nranks && status == COLL_OK; r++) {
        const double its = s->found[r].bytes_per_second;
        if (s->found[r].error && *failed < 0)
            *failed = r;
        known &= its != 0;
        if (its > 0 && (*rate == 0 || its < *rate))
            *rate = its;
    }
    if (k > 0 && !known)
        *rate = 0;
    return status;
}

/* Whose next host that was only it knows. */
static coll_status unreached(const struct search *s, int k, int from)
{
    const coll_comm *c = s->comm;
    const char *why = strerror((int)s->found[from].error);
    char address[INET6_ADDRSTRLEN] = "?";
    if (from != c->rank)
        return fail(COLL_ERR_PEER, "comm",
                    "rank %d (host %s) does not reach the next host: %s; "
                    "COLL_INTERFACE names another interface",
                    from, c->ranks[from].hostname, why);
    const struct bootstrap_end *at = &reach_door_of(s, s->next, k)->at;
    inet_ntop((int)at->family, at->bytes, address, sizeof(address));
    return fail(COLL_ERR_PEER, "comm",
                "rank %d (host %s) does not reach rank %d (host %s) at %s: %s; "
                "COLL_INTERFACE names another interface",
                from, c->ranks[from].hostname, s->next,
                c->ranks[s->next].hostname, address, why);
}

static coll_status other_lists(const struct search *s, int k)
{
    int r = 0;
    while (reach_offer_of(s, r, k) >= 0)
        r++;
    return fail(COLL_ERR_MISMATCH, "comm",
                "rank 0 (host %s) has at least %d interfaces in "
                "COLL_INTERFACE, rank %d (host %s) has fewer: lists must be "
                "equally long",
                s->comm->ranks[0].hostname, k + 1, r,
                s->comm->ranks[r].hostname);
}

/* Rank 0's list; others are told if theirs is shorter. */
static coll_status too_many(void)
{
    return fail(COLL_ERR_INVALID, "comm",
                "COLL_INTERFACE: found %d interfaces or more, valid are at "
                "most %d",
                TRANSPORT_RAILS_MAX + 1, TRANSPORT_RAILS_MAX);
}

static void left_out(const struct search *s, int k, const char *why)
{
    if (s->comm->rank == 0)
        log_line(COLL_LOG_INFO, "comm", "%s is no rail: %s", s->name[k], why);
}

/* tried: rank 0's offers that reach all; rates: of those. */
static void take_rails(struct search *s, const int *tried, const double *rates,
                       int n)
{
    coll_comm *c = s->comm;
    int used[TRANSPORT_RAILS_MAX], share[TRANSPORT_RAILS_MAX];
    c->job.nrails =
        rails_choose(rates, n, s->named, TRANSPORT_RAILS_MAX, used, share);
    c->job.rails = c->rails;
    if (tried[used[0]] != 0) { /* messages go another way */
        free(c->ways);
        c->ways = NULL;
    }
    for (int i = 0; i < c->job.nrails; i++) {
        const int k = tried[used[i]];
        struct transport_rail *rail = &c->rails[i];
        memcpy(rail->interface, s->name[reach_offer_of(s, c->rank, k)],
               sizeof(rail->interface));
        rail->bytes_per_second = rates[used[i]];
        /* Ranks met on the first network, unless others are named. */
        rail->round_trip = k == 0 && !s->named ? s->longest : 0;
        rail->share = share[i];
        if (c->rank == 0)
            log_line(COLL_LOG_INFO, "comm",
                     "rail %s, %.3g MB/s, %.3g ms there and back (0: unknown), "
                     "share %d",
                     rail->interface, 1e-6 * rates[used[i]],
                     1e3 * rail->round_trip, share[i]);
    }
}

static double middle(double a, double b, double c)
{
    const double low = a < b ? a : b, high = a < b ? b : a;
    return c < low ? low : c > high ? high : c;
}

/* A host that was busy makes its network look slow, or fast if what came
 * meanwhile is read at once; so the middle one of three tries counts. */
static coll_status try_again(struct search *s, const int *tried, double *rates,
                             int n)
{
    coll_status status = COLL_OK;
    for (int i = 0; i < n && status == COLL_OK; i++) {
        double second = 0, third = 0;
        int failed;
        status = try_network(s, tried[i], &second, &failed);
        if (status == COLL_OK)
            status = try_network(s, tried[i], &third, &failed);
        rates[i] = middle(rates[i], second, third);
    }
    return status;
}

/* The network by which the ranks met is the first; it needs no name. */
static coll_status try_all(struct search *s)
{
    int tried[CANDIDATES], n = 0, failed;
    double rates[CANDIDATES];
    coll_status status = COLL_OK;
    s->named = s->all[0].network[0] > 0 && s->all[0].network[0] <= CANDIDATES;
    if (s->named && s->all[0].network[TRANSPORT_RAILS_MAX])
        return too_many();
    for (int k = 0; k < CANDIDATES && status == COLL_OK; k++) {
        const bool needed = k == 0 || s->named;
        if (k > 0 && (s->one_rail || !s->all[0].network[k]))
            break;
        if (!all_offer(s, k)) {
            if (needed)
                return other_lists(s, k);
            left_out(s, k, "not all hosts have an interface to it");
            continue;
        }
        s->visits =
            k == 0 && reach_is_far(s) && s->comm->calibrates && !s->one_rail;
        status = try_network(s, k, &rates[n], &failed);
        if (status == COLL_OK && failed >= 0 && needed)
            status = unreached(s, k, failed);
        else if (status == COLL_OK && failed >= 0)
            left_out(s, k, strerror((int)s->found[failed].error));
        else
            tried[n++] = k;
        if (status == COLL_OK && s->visits)
            status = knock_find_ways(s);
        s->visits = false;
    }
    if (status == COLL_OK && n > 1)
        status = try_again(s, tried, rates, n);
    if (status == COLL_OK && s->noffers > 0)
        take_rails(s, tried, rates, n);
    return status;
}

static void number_hosts(struct search *s)
{
    const coll_comm *c = s->comm;
    s->nhosts = layout_number_hosts(c->nranks, c->host_of, s->host);
    for (int r = c->nranks - 1; r >= 0; r--)
        s->first[s->host[r]] = r;
    s->next = reach_next_host(s, c->rank);
}

static coll_status tell_offers(struct search *s)
{
    const coll_comm *c = s->comm;
    open_doors(s);
    knock_wave(s);
    const coll_status status =
        bootstrap_allgather(c->bootstrap, &s->mine, s->all, sizeof(s->mine));
    for (int r = 0; r < c->nranks && status == COLL_OK; r++) {
        s->longest = fmax(s->longest, s->all[r].round_trip);
        s->one_rail |= s->all[r].one_rail != 0;
    }
    s->longest = fmin(s->longest, most_seconds);
    return status;
}

coll_status comm_reach(coll_comm *c)
{
    const size_t n = (size_t)c->nranks;
    struct search s = {
        .comm = c,
        .all = calloc(n, sizeof(*s.all)),
        .found = calloc(n, sizeof(*s.found)),
        .host = calloc(n, sizeof(*s.host)),
        .first = calloc(n, sizeof(*s.first)),
    };
    const double begun = comm_clock();
    for (int i = 0; i < CANDIDATES; i++)
        s.fd[i] = -1;
    coll_status status =
        s.all && s.found && s.host && s.first
            ? COLL_OK
            : fail(COLL_ERR_MEMORY, "comm", "no memory for %zu ranks", n);
    if (status == COLL_OK) {
        number_hosts(&s);
        status = tell_offers(&s);
    }
    if (status == COLL_OK)
        status = try_all(&s);
    if (status == COLL_OK && c->rank == 0)
        log_line(COLL_LOG_DEBUG, "comm", "networks were tried in %.1f ms",
                 1e3 * (comm_clock() - begun));
    for (int i = 0; i < CANDIDATES; i++)
        bootstrap_close_door(s.fd[i]);
    free(s.all);
    free(s.found);
    free(s.host);
    free(s.first);
    return status;
}
