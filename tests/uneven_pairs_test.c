/* SPDX-License-Identifier: MIT */
/* Lengths that only their ranks know: alltoall_v, gather_v and scatter_v. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "comm/comm.h"
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

static int *take_ints(size_t count, bool shared)
{
    void *x = NULL;
    if (!shared)
        x = malloc(count * sizeof(int));
    else if (coll_mem_alloc(&x, count * sizeof(int)) != COLL_OK)
        abort();
    return x;
}

static void give_ints(int *x, bool shared)
{
    if (shared)
        coll_mem_free(x);
    else
        free(x);
}

static int try_pairs(coll_comm *comm, uint64_t seed, size_t longest)
{
    const bool shared = seed / 4 % 2;
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
    s.x = take_ints(room + 1, shared);
    d.x = in_place ? s.x : take_ints(room + 1, shared);
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
    give_ints(s.x, shared);
    if (!in_place)
        give_ints(d.x, shared);
    return 0;
}

static int lengths_of_pairs(coll_comm *comm, int rank, int n)
{
    static const size_t longest[] = {0, 1, 9, 3000, 70000};
    (void)rank, (void)n;
    for (unsigned i = 0; i < 5; i++)
        for (uint64_t seed = 0; seed < cases(16, 2); seed++)
            if (try_pairs(comm, seed + 16 * i, longest[i]))
                return 1;
    return try_lengths(comm, GATHER) || try_lengths(comm, SCATTER);
}

Test(uneven_pairs, pairs_of_ranks_exchange_what_only_they_know, .timeout = 600)
{
    static const char *const on[] = {"000",    "0",        "0011",
                                     "012",    "00000",    "00",
                                     "000000", "00000000", "000000000"};
    for (unsigned i = 0; i < cases(9, 2); i++)
        cr_assert_eq(run_on(on[i], quick, lengths_of_pairs), 0, "%s", on[i]);
}

/* Memory of other processes may then not be read, but block by block. */
Test(uneven_pairs, parts_go_through_the_segment, .timeout = 100)
{
    static const char *const settings[] = {"COLL_SINGLE_COPY=off", NULL};
    cr_assert_eq(run_on("000", settings, lengths_of_pairs), 0);
}

/* As on several hosts. */
Test(uneven_pairs, rules_take_them_to_messages, .timeout = 100)
{
    static const char *const settings[] = {
        "COLL_ALGO=gather:linear;scatter:linear;alltoall:direct", NULL};
    cr_assert_eq(run_on("000", settings, lengths_of_pairs), 0);
}

/* Of memory that all can reach every byte is then read once. */
static int one_copy(coll_comm *comm, int rank, int n)
{
    enum { COUNT = 100000 };
    const size_t counts[] = {COUNT, 2 * COUNT};
    coll_statistics before, after;
    void *x = NULL, *y = NULL;
    (void)n;
    EXPECT(coll_mem_alloc(&x, 3 * COUNT) == COLL_OK
               && coll_mem_alloc(&y, 3 * COUNT) == COLL_OK
               && coll_barrier(comm, NULL) == COLL_OK
               && coll_stats_of(comm, "scatter", &before) == COLL_OK,
           "start");
    EXPECT(
        coll_scatter_v(x, counts, NULL, y, counts[rank], COLL_U8, 0, comm, NULL)
            == COLL_OK,
        "scatter_v");
    EXPECT(coll_stats_of(comm, "scatter", &after) == COLL_OK
               && after.bytes_read - before.bytes_read == counts[rank],
           "rank %d read %llu bytes", rank,
           (unsigned long long)(after.bytes_read - before.bytes_read));
    coll_mem_free(x);
    coll_mem_free(y);
    return 0;
}

static int by_messages(coll_comm *comm, int rank, int n)
{
    enum { COUNT = 100000 };
    const size_t counts[] = {COUNT, 1};
    char *x = calloc(2, COUNT), *y = calloc(1, COUNT);
    (void)n;
    EXPECT(coll_barrier(comm, NULL) == COLL_OK, "barrier");
    const uint32_t before = comm->node->number;
    EXPECT(
        coll_scatter_v(x, counts, NULL, y, counts[rank], COLL_U8, 0, comm, NULL)
            == COLL_OK,
        "scatter_v");
    EXPECT(comm->node->number == before, "it was copied from rank to rank");
    free(x);
    free(y);
    return 0;
}

Test(uneven_pairs, either_name_alone_forbids_to_copy_them)
{
    static const char *const no_direct[] = {"COLL_ALGO=scatter:^node_direct",
                                            NULL};
    static const char *const no_inline[] = {"COLL_ALGO=scatter:^node_inline",
                                            NULL};
    cr_assert_eq(run_on("00", no_direct, by_messages), 0);
    cr_assert_eq(run_on("00", no_inline, by_messages), 0);
}

Test(uneven_pairs, parts_are_copied_once_on_one_host)
{
    cr_assert_eq(run_on("00", quick, one_copy), 0);
}
