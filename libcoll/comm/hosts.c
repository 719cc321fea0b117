/* SPDX-License-Identifier: MIT */
#include "comm/hosts.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"

static void list_ranks(struct hosts *h, const int *count)
{
    h->first[0] = 0;
    for (int i = 0; i < h->n; i++)
        h->first[i + 1] = h->first[i] + count[i];
    for (int r = 0; r < h->nranks; r++)
        h->rank_at[h->first[h->host_of[r]] + h->place_of[r]] = r;
}

coll_status hosts_create(struct hosts *h, int nranks, const uint64_t *host_of)
{
    const size_t bytes = (size_t)nranks * sizeof(int);
    *h = (struct hosts){
        .nranks = nranks,
        .even = true,
        .host_of = malloc(bytes),
        .place_of = malloc(bytes),
        .rank_at = malloc(bytes),
        .first = malloc(bytes + sizeof(int)),
    };
    int *count = calloc((size_t)nranks, sizeof(int));
    if (!h->host_of || !h->place_of || !h->rank_at || !h->first || !count) {
        free(count);
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %d ranks", nranks);
    }
    h->n = layout_number_hosts(nranks, host_of, h->host_of);
    for (int r = 0; r < nranks; r++)
        h->place_of[r] = count[h->host_of[r]]++;
    for (int i = 0; i < h->n; i++) {
        h->even &= count[i] == count[0];
        h->most = count[i] > h->most ? count[i] : h->most;
    }
    list_ranks(h, count);
    free(count);
    return COLL_OK;
}

void hosts_free(struct hosts *h)
{
    if (h->layout.group_of)
        layout_free(&h->layout);
    free(h->host_of);
    free(h->place_of);
    free(h->rank_at);
    free(h->first);
    *h = (struct hosts){.n = 0};
}

int hosts_rank(const struct hosts *h, int host, int place)
{
    const int at = h->first[host] + place;
    return at < h->first[host + 1] ? h->rank_at[at] : -1;
}

int hosts_leader(const struct hosts *h, int host, int root)
{
    return h->host_of[root] == host ? root : hosts_rank(h, host, 0);
}

int hosts_segments(const struct algo *algo, int nhosts, int segments)
{
    return algo->kind == BARRIER || algo_pipelines(algo, nhosts) ? 1 : segments;
}

/* What the ranks of the largest host take in the two stages inside. */
struct inside {
    double in, out;
};

/* Of one segment: assumed, but for the bytes, which are copied once where a
 * message there is copied twice, and for the work of a rank that has to wait
 * for a processor. */
static struct inside seconds_inside(const struct layout *l, enum coll_kind kind,
                                    size_t bytes, int segments)
{
    static const double line = 0.15e-6, least = 0.01e-6;
    const double each = fmax(least, l->net.link.overhead);
    const bool parts = kind == REDUCE_SCATTER || kind == ALLGATHER;
    const int nhosts = layout_hosts(l);
    const double exchanges =
        (bytes >= HOSTS_SLICES_MIN ? 4 : 2) * (parts ? 0.5 * nhosts : 1);
    const double passes = kind == BARRIER ? 0 : kind == ALLREDUCE ? 2 : 1;
    const double both =
        exchanges * (line + each * l->by_hosts)
        + passes * (double)bytes / segments * l->net.link.beta / 2;
    const bool sums = kind != BROADCAST && kind != ALLGATHER;
    const bool spreads = kind != REDUCE && kind != REDUCE_SCATTER;
    return (struct inside){sums ? both / (1 + spreads) : 0,
                           spreads ? both / (1 + sums) : 0};
}

/* Segment k crosses when it is combined and k - 1 has crossed; inside, all take
 * turns in the order of staged.h. Where ranks take turns on processors one
 * hardly gets further while another combines. */
double hosts_seconds(const struct layout *l, enum coll_kind kind, size_t bytes,
                     int segments, double across)
{
    const struct inside each = seconds_inside(l, kind, bytes, segments);
    double inside = each.in, wire = 0, before = 0;
    if (l->net.machine_of)
        return segments * (each.in + across + each.out);
    for (int k = 0; k < segments; k++) {
        wire = fmax(wire, inside) + across;
        if (k > 0)
            inside = fmax(inside, before) + each.out;
        if (k + 1 < segments)
            inside += each.in;
        before = wire;
    }
    return fmax(inside, wire) + each.out;
}
