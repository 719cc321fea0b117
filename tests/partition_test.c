/* SPDX-License-Identifier: MIT */
/* Ranks in NUMA nodes of machines that are not here, and what fits into them;
 * that memory is where it should be, on the machine that is. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "partition.h"
#include "topo.h"
#include "train.h"

static const struct {
    const char *text;
    int nodes, cores; /* of a node */
    uint64_t room;
} machines[] = {
    {"machine:ft2000plus",  8, 8,  8000000000  },
    {"machine:mt2000plus",  4, 32, 16000000000 },
    {"machine:sw26010",     4, 65, 8000000000  },
    {"machine:knl_snc4",    4, 18, 24000000000 },
    {"machine:server_1x32", 1, 32, 128000000000},
    {"machine:server_2x32", 2, 32, 128000000000},
};

/* The processors of a rank's threads, as coll_topo_place_threads() has them. */
static void place(const coll_topo *topo, int nranks, int nthreads, int *cpus)
{
    cr_assert_eq(coll_topo_place_threads(topo, nranks, nthreads, cpus), 1);
    for (int i = 0; i < nranks * nthreads; i++)
        cpus[i] = coll_topo_get(topo, coll_topo_pu(topo, cpus[i]))->os_index;
}

Test(partition, a_rank_for_each_node_is_in_it)
{
    for (size_t m = 0; m < sizeof(machines) / sizeof(machines[0]); m++) {
        coll_topo *topo = parse(machines[m].text);
        const int n = machines[m].nodes, threads = machines[m].cores;
        int *cpus = malloc((size_t)(n * threads) * sizeof(int));
        struct partition p[8];
        place(topo, n, threads, cpus);
        for (int r = 0; r < n; r++) {
            cr_assert_eq(
                partition_find(topo, cpus + r * threads, threads, &p[r]), 1,
                "%s, rank %d", machines[m].text, r);
            cr_expect_float_eq((double)p[r].room, (double)machines[m].room,
                               0.1 * (double)machines[m].room, "%s: %g",
                               machines[m].text, (double)p[r].room);
            for (int k = 0; k < r; k++)
                cr_assert_neq(p[k].node, p[r].node, "%s", machines[m].text);
        }
        free(cpus);
        coll_topo_free(topo);
    }
}

Test(partition, threads_in_several_nodes_are_counted)
{
    coll_topo *topo = parse("machine:ft2000plus");
    int cpus[64];
    struct partition p = {.node = 77};
    place(topo, 1, 64, cpus);
    cr_expect_eq(partition_find(topo, cpus, 64, &p), 8);
    cr_expect_eq(partition_find(topo, cpus, 9, &p), 2);
    cr_expect_eq(p.node, 77, "set");
    cr_expect_eq(partition_find(topo, cpus + 8, 8, &p), 1);
    cr_expect_eq(p.node, 1);
    coll_topo_free(topo);
}

Test(partition, a_machine_without_nodes_is_one)
{
    coll_topo *topo = parse("{core:4{pu}}");
    struct partition p = {.node = 77};
    cr_expect_eq(partition_find(topo, (int[]){0, 3}, 2, &p), 1);
    cr_expect(p.node == 0 && p.room == 0);
    coll_topo_free(topo);
}

Test(partition, all_in_a_node_fit_or_not)
{
    uint64_t needed;
    struct partition p[] = {
        {1, 0, 100, 60 },
        {1, 1, 100, 100},
        {2, 0, 100, 90 }, /* another host */
        {1, 0, 100, 40 },
    };
    cr_expect_eq(partition_crowded(p, 4, &needed), -1);
    p[3].bytes = 41;
    cr_expect_eq(partition_crowded(p, 4, &needed), 0);
    cr_expect_eq(needed, 101);
    p[0].room = p[3].room = 0; /* not known */
    cr_expect_eq(partition_crowded(p, 4, &needed), -1);
    p[2].bytes = 101;
    cr_expect_eq(partition_crowded(p, 4, &needed), 2);
    cr_expect_eq(needed, 101);
}

/* Whether all pages of an array that have been touched are in a node. */
static void expect_near(const float *x, size_t count, int node)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < count * sizeof(float); at += page) {
        void *address = (char *)((uintptr_t)x / page * page) + at;
        int status = -1;
        if (syscall(SYS_move_pages, 0, 1ul, &address, NULL, &status, 0))
            cr_skip_test("move_pages: the system does not tell");
        cr_expect_eq(status, node, "%d", status);
    }
}

Test(partition, weights_gradients_and_images_are_in_the_node)
{
    const struct train_settings s = {
        .net_text = "input 1x12x12\nconv 16 3x3\ndense 10\nsoftmax_loss\n",
        .data = "synthetic:100x1x12x12",
        .strategy = "sync",
        .optimiser = "sgd",
        .epochs = 1,
        .batch = 8,
        .partition = true,
        .optim = {0,               {0.9, NAN, NAN, NAN, NAN}},
        .schedule = {.name = "fixed", .lr = 0.01               },
    };
    struct train t;
    coll_comm *comm;
    cr_assert_eq(coll_comm_init(&comm), COLL_OK);
    cr_assert_eq(train_open_data(&t, &s), 0, "%s", t.error);
    const int status = train_open(&t, comm);
    if (status && strstr(t.error, "NUMA nodes that"))
        cr_skip_test("this test is bound to no node: %s", t.error);
    cr_assert_eq(status, 0, "%s", t.error);
    cr_assert_eq(train_run(&t, 3, NULL), 0, "%s", t.error);
    const int node = (int)t.partition.node;
    expect_near(t.net.params.x, t.net.params.count, node);
    expect_near(t.net.grads.x, t.net.grads.count, node);
    expect_near(t.update.state.x, t.update.state.count, node);
    expect_near(t.loader.batches[0].images, 8 * 144, node);
    train_close(&t);
    coll_comm_destroy(comm);
}
