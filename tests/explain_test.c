/* SPDX-License-Identifier: MIT */
/* What the library says of its choice, in the API and in the log. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "coll/coll.h"
#include "ranks.h"

enum { MOST = 128, COUNT = 1000 };

static bool explains_itself(const coll_candidate *list, int n,
                            const coll_choice *choice)
{
    bool right = n > 1 && list[0].chosen == 1
                 && !strcmp(list[0].algorithm, choice->algorithm);
    for (int i = 0; i < n; i++)
        right &= list[i].why[0] && (list[i].chosen == 1) == (i == 0);
    return right;
}

static int ask_all(coll_comm *comm, coll_candidate *list, int *n)
{
    coll_choice choice;
    coll_candidate two[2];
    int found;
    EXPECT(coll_explain(comm, "allreduce", COUNT, COLL_F32, COLL_SUM, &choice)
               == COLL_OK,
           "choice");
    EXPECT(coll_explain_candidates(comm, "allreduce", COUNT, COLL_F32, list,
                                   MOST, n)
               == COLL_OK,
           "candidates");
    EXPECT(explains_itself(list, *n, &choice), "%d, first %s, chosen %s", *n,
           list[0].algorithm, choice.algorithm);
    EXPECT(coll_explain_candidates(comm, "allreduce", COUNT, COLL_F32, two, 2,
                                   &found)
                   == COLL_OK
               && found == 2 && !strcmp(two[0].algorithm, choice.algorithm),
           "%d of two", found);
    EXPECT(coll_explain_candidates(comm, "alreduce", COUNT, COLL_F32, list,
                                   MOST, &found)
                   == COLL_ERR_INVALID
               && strstr(coll_last_error(NULL), "allreduce"),
           "a wrong name");
    return 0;
}

static int plans_are_explained(coll_comm *comm, int rank, int nranks)
{
    coll_candidate list[MOST];
    int n, twins = 0;
    (void)rank, (void)nranks;
    if (ask_all(comm, list, &n))
        return 1;
    for (int i = 0; i < n; i++)
        twins += !strncmp(list[i].why, "the same plans as ", 18);
    EXPECT(twins > 0, "of %d", n);
    for (int i = 1; i < n; i++)
        EXPECT(list[i].predicted_seconds < 0
                   || list[i].predicted_seconds
                          > 0.5 * list[0].predicted_seconds,
               "%s takes half of the chosen %s", list[i].algorithm,
               list[0].algorithm);
    return 0;
}

Test(explain, says_why_of_each_plan, .timeout = 60)
{
    cr_assert_eq(run_ranks(3, over_ucx, plans_are_explained), 0);
}

static int memory_goes_first(coll_comm *comm, int rank, int nranks)
{
    coll_candidate list[MOST];
    int n;
    (void)rank, (void)nranks;
    if (ask_all(comm, list, &n))
        return 1;
    EXPECT(!strncmp(list[0].algorithm, "node_", 5), "%s", list[0].algorithm);
    EXPECT(strstr(list[0].why, "share"), "%s", list[0].why);
    return 0;
}

Test(explain, says_that_memory_goes_before_plans, .timeout = 60)
{
    cr_assert_eq(run_ranks(3, over_shm, memory_goes_first), 0);
}

static int count_of(const char *text, const char *word)
{
    int n = 0;
    while ((text = strstr(text, word))) {
        text++;
        n++;
    }
    return n;
}

/* Two lengths, the first one again, and once more after rules were set. */
static int tells_each_once(coll_comm *comm, int rank, int nranks)
{
    static char said[65536];
    static float x[COUNT];
    const int counts[] = {COUNT, 10, COUNT};
    char path[] = "/tmp/coll-explain-XXXXXX";
    const int file = mkstemp(path), before = dup(STDERR_FILENO);
    (void)nranks;
    EXPECT(file >= 0 && dup2(file, STDERR_FILENO) >= 0, "%s", path);
    coll_status status = COLL_OK;
    for (int i = 0; i < 3 && status == COLL_OK; i++)
        status = coll_allreduce(x, x, (size_t)counts[i], COLL_F32, COLL_SUM,
                                comm, NULL);
    if (status == COLL_OK)
        status = coll_comm_set_algorithm(comm, NULL);
    if (status == COLL_OK)
        status = coll_allreduce(x, x, COUNT, COLL_F32, COLL_SUM, comm, NULL);
    dup2(before, STDERR_FILENO);
    EXPECT(pread(file, said, sizeof(said) - 1, 0) >= 0, "%s", path);
    unlink(path);
    EXPECT(status == COLL_OK, "%d", status);
    const int tables = rank == 0 ? 3 : 0;
    EXPECT(count_of(said, "allreduce of ") == tables
               && count_of(said, "explain: > ") == tables
               && count_of(said, "of 40 bytes on") == tables / 3,
           "rank %d: %s", rank, said);
    return 0;
}

Test(explain, tells_each_choice_once, .timeout = 60)
{
    static const char *const ucx[] = {"COLL_TRANSPORT=ucx", "COLL_EXPLAIN=1",
                                      "COLL_ADAPT=off", NULL};
    static const char *const shm[] = {"COLL_TRANSPORT=shm", "COLL_EXPLAIN=1",
                                      NULL};
    cr_assert_eq(run_ranks(2, ucx, tells_each_once), 0, "plans");
    cr_assert_eq(run_ranks(2, shm, tells_each_once), 0, "one host");
}
