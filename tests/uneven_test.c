/* SPDX-License-Identifier: MIT */
/* Parts of any lengths, zeros among them, that lie in any order with gaps,
 * against an oracle; on one host and on several, by every algorithm. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "hosts.h"
#include "thorough.h"
#include "uneven_calls.h"

enum { REQUESTS = 6 };

static int every_algorithm(coll_comm *comm, int rank, int n)
{
    coll_algorithm_info algo;
    (void)rank;
    for (int a = 0; coll_algorithm_get(a, &algo); a++) {
        char rules[96];
        const bool gathers = !strcmp(algo.collective, "allgather");
        const bool node = !strncmp(algo.name, "node_", 5);
        if ((!gathers && strcmp(algo.collective, "reduce_scatter"))
            || (node && (n == 1 || strspn(hosts, "0") != strlen(hosts))))
            continue;
        snprintf(rules, sizeof(rules), "%s:%s%s", algo.collective,
                 !strcmp(algo.name, "node_inline") ? "0-8193:" : "", algo.name);
        EXPECT(coll_comm_set_algorithm(comm, rules) == COLL_OK, "%s", rules);
        if (try_lengths(comm, gathers ? ALLGATHER : REDUCE_SCATTER)) {
            fprintf(stderr, "with %s\n", rules);
            return 1;
        }
    }
    EXPECT(coll_comm_set_algorithm(comm, NULL) == COLL_OK, "reset");
    return try_lengths(comm, ALLGATHER) || try_lengths(comm, REDUCE_SCATTER);
}

Test(uneven, parts_are_right_on_one_host, .timeout = 600)
{
    static const char *const on[] = {"0",     "00",      "000",
                                     "00000", "0000000", "00000000"};
    for (unsigned i = 0; i < cases(6, 2); i++)
        cr_assert_eq(run_on(on[i], quick, every_algorithm), 0, "%s", on[i]);
}

/* Memory of other processes may then not be read, but block by block. */
Test(uneven, parts_are_right_through_the_segment)
{
    static const char *const settings[] = {"COLL_SINGLE_COPY=off", NULL};
    cr_assert_eq(run_on("000", settings, every_algorithm), 0);
}

Test(uneven, parts_are_right_on_several_hosts, .timeout = 600)
{
    static const char *const on[] = {"0011", "012", "010101", "00001111"};
    for (unsigned i = 0; i < cases(4, 1); i++)
        cr_assert_eq(run_on(on[i], quick, every_algorithm), 0, "%s", on[i]);
}

/* Several under way, each with lengths of its own, and a blocking one behind.
 */
static int many_requests(coll_comm *comm, int rank, int n)
{
    struct call c[REQUESTS];
    coll_request *requests[REQUESTS];
    for (int k = 0; k < REQUESTS; k++) {
        c[k] = (struct call){
            .rank = rank, .n = n, .kind = k % 2 ? ALLGATHER : REDUCE_SCATTER};
        make(&c[k], 12 + 7 * (uint64_t)k, 2000);
        EXPECT(start(&c[k], comm, &requests[k]) == COLL_OK, "request %d", k);
    }
    if (try(comm, ALLGATHER, 12, 5000))
        return 1;
    for (int k = 0; k < REQUESTS; k++) {
        EXPECT(coll_wait(&requests[k]) == COLL_OK, "wait %d", k);
        if (check(&c[k]))
            return 1;
        give_back(&c[k]);
    }
    return 0;
}

Test(uneven, requests_keep_their_own_lengths)
{
    cr_assert_eq(run_on("000", quick, many_requests), 0);
    cr_assert_eq(run_on("0011", quick, many_requests), 0);
}
