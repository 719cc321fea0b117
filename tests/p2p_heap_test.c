/* SPDX-License-Identifier: MIT */
/* Messages out of memory of coll_mem_alloc(), which who receives reads where it
 * lies: from any place of a block, of more blocks than stay mapped, that come
 * and go; and beside long collectives, which map blocks of their own. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "comm/comm.h"
#include "draw.h"
#include "node/heap.h"
#include "ranks.h"

enum { BLOCKS = 80, TURNS = 240, LONGEST = 30000, SUMMED = 40000 };

static const char *const shm[] = {"COLL_TRANSPORT=shm", "COLL_OP_SECONDS=20",
                                  "COLL_CALIBRATE=off", NULL};
static const char *const apart[] = {"COLL_TRANSPORT=shm", "COLL_OP_SECONDS=20",
                                    "COLL_CALIBRATE=off",
                                    "COLL_SINGLE_COPY=off", NULL};

static int value(int rank, int turn, size_t i)
{
    return (int)(i * 7 + (size_t)turn * 31 + (size_t)rank * 3);
}

static int *take(void)
{
    void *x = NULL;
    return coll_mem_alloc(&x, LONGEST * sizeof(int)) == COLL_OK ? x : NULL;
}

/* Both ranks at once, each out of another block at each turn. */
static int exchange(coll_comm *comm, int rank, int n)
{
    int *blocks[BLOCKS] = {0}, *in = malloc(LONGEST * sizeof(int));
    float *sums = malloc(2 * SUMMED * sizeof(float));
    coll_request *request = NULL;
    uint64_t seed = 5;
    (void)n;
    for (int t = 0; t < TURNS; t++) {
        const size_t at = draw_from(&seed, 1000);
        const size_t count = draw_from(&seed, LONGEST - at) + 1;
        const bool anew = draw_from(&seed, 8) == 0, sums_too = t % 5 == 0;
        int **block = &blocks[t % BLOCKS];
        if (anew && *block) {
            coll_mem_free(*block);
            *block = NULL;
        }
        if (!*block)
            *block = take();
        EXPECT(*block && in && sums, "turn %d: no memory", t);
        for (size_t i = 0; i < count; i++)
            (*block)[at + i] = value(rank, t, i);
        for (size_t i = 0; i < SUMMED && sums_too; i++)
            sums[i] = (float)(rank + t);
        if (sums_too)
            EXPECT(coll_allreduce(sums, sums + SUMMED, SUMMED, COLL_F32,
                                  COLL_SUM, comm, &request)
                       == COLL_OK,
                   "allreduce");
        coll_group_start();
        coll_send(*block + at, count, COLL_I32, 1 - rank, t, comm, NULL);
        coll_recv(in, LONGEST, COLL_I32, 1 - rank, t, comm, NULL, NULL);
        EXPECT(coll_group_end() == COLL_OK, "turn %d", t);
        EXPECT(coll_wait(&request) == COLL_OK, "wait");
        for (size_t i = 0; i < count; i++)
            EXPECT(in[i] == value(1 - rank, t, i), "turn %d, element %zu: %d",
                   t, i, in[i]);
        for (size_t i = 0; i < SUMMED && sums_too; i++)
            EXPECT(sums[SUMMED + i] == (float)(2 * t + 1), "sum %zu", i);
    }
    for (int b = 0; b < BLOCKS; b++)
        if (blocks[b])
            coll_mem_free(blocks[b]);
    free(in);
    free(sums);
    return 0;
}

Test(p2p_heap, messages_come_out_of_blocks_that_come_and_go, .timeout = 60)
{
    cr_assert_eq(run_ranks(2, shm, exchange), 0);
}

Test(p2p_heap, also_where_no_memory_of_others_may_be_read, .timeout = 60)
{
    cr_assert_eq(run_ranks(2, apart, exchange), 0);
}

/* Rank 0 sends from more blocks in turn than stay mapped: to map one for each
 * message would take hundreds of times as long. From few, each is mapped. */
static int count_mappings(coll_comm *comm, int nblocks, int *mapped)
{
    enum { ELEMENTS = 2000, MESSAGES = 4 * BLOCKS };
    static int in[ELEMENTS];
    int *blocks[BLOCKS] = {0};
    const bool sends = coll_comm_user_rank(comm) == 0;
    for (int b = 0; b < nblocks && sends; b++)
        EXPECT((blocks[b] = take()), "no memory");
    for (int t = 0; t < MESSAGES; t++) {
        int *const x = blocks[t % nblocks];
        for (size_t i = 0; i < ELEMENTS && sends; i++)
            x[i] = value(0, t, i);
        const uint64_t before = comm->node->peers[0].pulled.added;
        EXPECT((sends
                    ? coll_send(x, ELEMENTS, COLL_I32, 1, t, comm, NULL)
                    : coll_recv(in, ELEMENTS, COLL_I32, 0, t, comm, NULL, NULL))
                   == COLL_OK,
               "message %d", t);
        *mapped += comm->node->peers[0].pulled.added != before;
        for (size_t i = 0; i < ELEMENTS && !sends; i++)
            EXPECT(in[i] == value(0, t, i), "message %d, element %zu", t, i);
    }
    for (int b = 0; b < nblocks && sends; b++)
        coll_mem_free(blocks[b]);
    return 0;
}

static int map_few(coll_comm *comm, int rank, int n)
{
    int few = 0, many = 0;
    (void)n;
    enum { MOST = 40 };
    comm->node->peers[0].pulled.most = MOST;
    if (count_mappings(comm, 4, &few) || count_mappings(comm, BLOCKS, &many))
        return 1;
    EXPECT(few == (rank ? 4 : 0), "%d", few);
    EXPECT(rank ? many >= MOST - 4 && many <= 2 * MOST : !many, "%d", many);
    return 0;
}

Test(p2p_heap, blocks_in_turn_are_not_mapped_for_each_message, .timeout = 60)
{
    cr_assert_eq(run_ranks(2, shm, map_few), 0);
}

/* Long blocks that are not used again do not pile up. */
Test(p2p_heap, mappings_have_an_end)
{
    const struct {
        uint64_t bytes;
        unsigned stay;
    } cases[] = {
        {4096,              40},
        {UINT64_C(2) << 30, 16}
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct node_views views = {.most = 1000};
        for (uint64_t i = 0; i < 40; i++) {
            void *memory =
                mmap(NULL, cases[c].bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            cr_assert_neq(memory, MAP_FAILED);
            cr_assert(
                views_add(&views, (struct node_view){.block = 2 * i,
                                                     .bytes = cases[c].bytes,
                                                     .memory = memory}));
        }
        cr_expect_eq(views.n, cases[c].stay, "%u", views.n);
        cr_expect(views_find(&views, 2 * 39) && !views_find(&views, 3));
        views_clear(&views);
        cr_expect_eq(views.bytes, 0);
    }
}

/* Of many vectors in turn, as of a net's layers, each is mapped once. */
static int sum_many(coll_comm *comm, int rank, int n)
{
    enum { VECTORS = 500, ROUNDS = 3, ELEMENTS = 4000 };
    static int *blocks[VECTORS];
    const struct node_views *views = &comm->node->peers[1 - rank].large;
    (void)n;
    for (int b = 0; b < VECTORS; b++) {
        EXPECT(coll_mem_alloc((void **)&blocks[b], ELEMENTS * sizeof(int))
                   == COLL_OK,
               "no memory");
        memset(blocks[b], 0, ELEMENTS * sizeof(int));
    }
    for (int t = 0; t < VECTORS * ROUNDS; t++) {
        int *const x = blocks[t % VECTORS];
        x[t] += rank + 1;
        EXPECT(coll_allreduce(x, x, ELEMENTS, COLL_I32, COLL_SUM, comm, NULL)
                       == COLL_OK
                   && x[t] == 3,
               "vector %d: %d", t, x[t]);
        EXPECT(views->added == (uint64_t)(t < VECTORS ? t + 1 : VECTORS),
               "%llu mappings at operation %d",
               (unsigned long long)views->added, t);
    }
    for (int b = 0; b < VECTORS; b++)
        coll_mem_free(blocks[b]);
    return 0;
}

Test(p2p_heap, many_vectors_of_collectives_stay_mapped, .timeout = 60)
{
    cr_assert_eq(run_ranks(2, shm, sum_many), 0);
}

/* What was not used for longest goes: what always comes again stays. */
static int sum_too_many(coll_comm *comm, int rank, int n)
{
    enum { VECTORS = 30, MOST = 8, ROUNDS = 4, ELEMENTS = 4000 };
    int *blocks[VECTORS];
    struct node_views *views = &comm->node->peers[1 - rank].large;
    (void)n;
    views->most = MOST;
    for (int b = 0; b < VECTORS; b++) {
        EXPECT(coll_mem_alloc((void **)&blocks[b], ELEMENTS * sizeof(int))
                   == COLL_OK,
               "no memory");
        for (int i = 0; i < ELEMENTS; i++)
            blocks[b][i] = b;
    }
    for (int t = 0; t < VECTORS * ROUNDS; t++) {
        int *const out = blocks[1 + t % (VECTORS - 1)];
        EXPECT(coll_allreduce(blocks[0], out, ELEMENTS, COLL_I32, COLL_SUM,
                              comm, NULL)
                   == COLL_OK,
               "operation %d", t);
        EXPECT(out[t] == 0, "operation %d: %d", t, out[t]);
        EXPECT(views->n <= MOST, "%u mapped", views->n);
    }
    EXPECT(views->added <= 1 + VECTORS * ROUNDS, "%llu mappings",
           (unsigned long long)views->added);
    for (int b = 0; b < VECTORS; b++)
        coll_mem_free(blocks[b]);
    return 0;
}

Test(p2p_heap, the_block_of_all_operations_stays_mapped, .timeout = 60)
{
    cr_assert_eq(run_ranks(2, shm, sum_too_many), 0);
}
