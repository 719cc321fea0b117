/* SPDX-License-Identifier: MIT */
/* Lengths that only their ranks know: alltoall_v, gather_v and scatter_v. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "draw.h"
#include "hosts.h"
#include "thorough.h"
#include "uneven_calls.h"

/* Of one rank: what it has for or from each. */
struct layout_of_parts {
    size_t counts[MAX_RANKS], displs[MAX_RANKS], room;
    int *x;
};

static size_t length(uint64_t seed, int from, int to, size_t longest)
{
    uint64_t state = seed * 10000 + (uint64_t)(from * 100 + to);
    return draw_from(&state, 3) ? draw_from(&state, longest + 1) : 0;
}

static int element(int from, int to, size_t i)
{
    return from * 100 + to * 10000 + (int)(i % 100);
}

static struct layout_of_parts lay_out(int n, const size_t *counts, bool apart,
                                      uint64_t seed)
{
    struct layout_of_parts l = {.room = 0};
    for (int i = 0; i < n; i++) { /* backwards if apart */
        const int p = apart ? n - 1 - i : i;
        l.room += apart ? draw_from(&seed, 3) : 0;
        l.counts[p] = counts[p];
        l.displs[p] = l.room;
        l.room += counts[p];
    }
    return l;
}

static void lay_elements(const struct layout_of_parts *s,
                         const struct layout_of_parts *d, int rank, int n)
{
    for (size_t i = 0; i <= s->room; i++)
        s->x[i] = d->x[i] = -1;
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < s->counts[r]; i++)
            s->x[s->displs[r] + i] = element(rank, r, i);
}

/* Again: twice, by a persistent request at every second rank. */
static coll_status exchange(const struct layout_of_parts *s,
                            const struct layout_of_parts *d, bool apart,
                            bool again, coll_comm *comm)
{
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    const size_t *const s_at = apart ? s->displs : NULL;
    const size_t *const d_at = apart ? d->displs : NULL;
    const bool keeps = again && rank % 2 == 0;
    coll_request *request = NULL;
    coll_status status =
        keeps ? coll_alltoall_v_init(s->x, s->counts, s_at, d->x, d->counts,
                                     d_at, COLL_I32, comm, &request)
              : COLL_OK;
    for (int i = 0; i <= again && status == COLL_OK; i++) {
        lay_elements(s, d, rank, n);
        status = keeps ? coll_start(request)
                       : coll_alltoall_v(s->x, s->counts, s_at, d->x, d->counts,
                                         d_at, COLL_I32, comm, &request);
        if (status == COLL_OK)
            status = coll_wait(&request);
    }
    return status == COLL_OK ? coll_request_free(&request) : status;
}

static int try_pairs(coll_comm *comm, uint64_t seed, size_t longest)
{
    const int rank = coll_comm_user_rank(comm), n = coll_comm_count(comm);
    const bool apart = seed % 2, in_place = seed / 2 % 2;
    size_t to[MAX_RANKS], from[MAX_RANKS], read = 0;
    for (int r = 0; r < n; r++) {
        to[r] = length(seed, rank, r, longest);
        from[r] = length(seed, r, rank, longest);
    }
    struct layout_of_parts s = lay_out(n, to, apart, seed);
    struct layout_of_parts d = lay_out(n, from, apart, seed + 7);
    const size_t room = s.room > d.room ? s.room : d.room;
    s.x = malloc((room + 1) * sizeof(int));
    d.x = in_place ? s.x : malloc((room + 1) * sizeof(int));
    s.room = d.room = room;
    EXPECT(exchange(&s, &d, apart, seed % 3 == 0, comm) == COLL_OK,
           "alltoall_v");
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < from[r]; i++, read++)
            EXPECT(d.x[d.displs[r] + i] == element(r, rank, i),
                   "alltoall_v, seed %lu: rank %d, from %d, element %zu: %d",
                   (unsigned long)seed, rank, r, i, d.x[d.displs[r] + i]);
    for (size_t i = 0; i <= room && !in_place; i++)
        read += d.x[i] == -1;
    EXPECT(in_place || read == room + 1, "alltoall_v: a gap was written");
    free(s.x);
    if (!in_place)
        free(d.x);
    return 0;
}

static int lengths_of_pairs(coll_comm *comm, int rank, int n)
{
    static const size_t longest[] = {0, 1, 9, 3000, 70000};
    (void)rank, (void)n;
    for (unsigned i = 0; i < 5; i++)
        for (uint64_t seed = 0; seed < cases(16, 4); seed++)
            if (try_pairs(comm, seed + 16 * i, longest[i]))
                return 1;
    return try_lengths(comm, GATHER) || try_lengths(comm, SCATTER);
}

Test(uneven_pairs, pairs_of_ranks_exchange_what_only_they_know, .timeout = 600)
{
    static const char *const on[] = {"000",    "0",        "0011",
                                     "012",    "00000",    "00",
                                     "000000", "00000000", "000000000"};
    for (unsigned i = 0; i < cases(9, 4); i++)
        cr_assert_eq(run_on(on[i], quick, lengths_of_pairs), 0, "%s", on[i]);
}
