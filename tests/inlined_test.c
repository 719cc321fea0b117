/* SPDX-License-Identifier: MIT */
/* Up to what length an allreduce on one host is copied: how it follows from
 * what operations took, that it is measured, and that ranks agree on it. */
#include <criterion/criterion.h>

#include "comm/inlined.h"
#include "comm/request.h"
#include "ranks.h"

Test(inlined, is_the_length_up_to_which_copies_gain_most)
{
    static const float direct[] = {10, 10, 10, 10};
    static const struct {
        float inlined[INLINED_SIZES];
        size_t best;
    } rows[] = {
        {{9, 9, 9, 9},      8192},
        {{9, 9, 11, 20},    2048},
        {{11, 11, 11, 11},  512 },
        {{9, 11, 11, 11},   1024},
        {{10.5F, 8, 7, 9},  8192}, /* noise in the first */
        {{8, 11, 9.5F, 12}, 1024},
        {{10, 10, 10, 10},  512 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        cr_expect_eq(inlined_best(rows[i].inlined, direct), rows[i].best,
                     "row %zu: %zu", i, inlined_best(rows[i].inlined, direct));
}

static bool is_a_size(size_t bytes)
{
    for (int s = 0; s <= INLINED_SIZES; s++)
        if (bytes == (size_t)INLINED_LEAST / 2 << s)
            return true;
    return false;
}

static int alike(coll_comm *comm, uint64_t mine)
{
    uint64_t all[2];
    EXPECT(coll_allgather(&mine, all, 1, COLL_U64, comm, NULL) == COLL_OK,
           "allgather");
    EXPECT(all[0] == all[1], "%d and %d bytes", (int)all[0], (int)all[1]);
    return 0;
}

static int is_measured(coll_comm *comm, int rank, int n)
{
    struct select_node *node = &comm->select.node;
    coll_comm *copy = NULL;
    (void)rank;
    (void)n;
    if (comm->crowded) {
        EXPECT(node->allreduce_bytes == node->inline_bytes, "where crowded");
        return 0;
    }
    EXPECT(is_a_size(node->allreduce_bytes), "%zu", node->allreduce_bytes);
    node->allreduce_bytes = 1;
    const double begin = comm_clock();
    EXPECT(inlined_measure(comm) == COLL_OK, "measure");
    float seconds = (float)(comm_clock() - begin);
    EXPECT(coll_allreduce(&seconds, &seconds, 1, COLL_F32, COLL_MAX, comm, NULL)
               == COLL_OK,
           "allreduce");
    const bool late = seconds > 5e-3F;
    EXPECT(is_a_size(node->allreduce_bytes)
               || (late && node->allreduce_bytes == 1),
           "%zu", node->allreduce_bytes);
    EXPECT(node->inline_bytes == NODE_INLINE_BEST, "of other collectives");
    EXPECT(alike(comm, node->allreduce_bytes) == 0, "ranks differ");
    node->allreduce_bytes = 4096;
    EXPECT(coll_comm_dup(comm, &copy) == COLL_OK, "dup");
    EXPECT(copy->select.node.allreduce_bytes == 4096, "a copy measures");
    EXPECT(coll_comm_destroy(copy) == COLL_OK, "destroy");
    for (size_t bytes = 4096; bytes <= 4097; bytes++) {
        struct select_choice choice;
        EXPECT(select_native(&comm->select, ALLREDUCE, bytes, &choice)
                   && algos[choice.algo].way
                          == (bytes > 4096 ? NODE_DIRECT : NODE_INLINE),
               "%zu bytes", bytes);
    }
    return 0;
}

static int is_not_measured(coll_comm *comm, int rank, int n)
{
    struct select_node *node = &comm->select.node;
    (void)rank;
    (void)n;
    EXPECT(node->allreduce_bytes == node->inline_bytes, "%zu",
           node->allreduce_bytes);
    node->allreduce_bytes = 1;
    EXPECT(inlined_measure(comm) == COLL_OK && node->allreduce_bytes == 1,
           "measured");
    return 0;
}

Test(inlined, is_measured_alike_on_all_ranks)
{
    static const char *const plain[] = {"COLL_TRANSPORT=shm", NULL};
    for (int i = 0; i < 5; i++)
        cr_assert_eq(run_ranks(2, plain, is_measured), 0);
}

Test(inlined, is_assumed_where_nothing_may_be_measured)
{
    static const char *const off[] = {"COLL_TRANSPORT=shm",
                                      "COLL_CALIBRATE=off", NULL};
    static const char *const layout[] = {"COLL_TRANSPORT=shm",
                                         "COLL_DETERMINISM=layout", NULL};
    cr_assert_eq(run_ranks(2, off, is_not_measured), 0);
    cr_assert_eq(run_ranks(2, layout, is_not_measured), 0);
}
