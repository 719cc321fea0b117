/* SPDX-License-Identifier: MIT */
/* What the library says of its choice, in the API and in the log. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "ranks.h"

enum { MOST = 128, COUNT = 1000 };

static const char *const over_ucx[] = {"COLL_TRANSPORT=ucx", NULL};
static const char *const over_shm[] = {"COLL_TRANSPORT=shm", NULL};

static coll_status sum(coll_comm *comm, size_t count)
{
    static float x[COUNT];
    return coll_allreduce(x, x, count, COLL_F32, COLL_SUM, comm, NULL);
}

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

/* In so many calls some of the others are tried. */
static int what_was_measured_is_told(coll_comm *comm, int rank, int nranks)
{
    coll_candidate list[MOST];
    int n, others = 0;
    (void)rank, (void)nranks;
    for (int i = 0; i < 300; i++)
        EXPECT(sum(comm, COUNT) == COLL_OK, "call %d", i);
    if (ask_all(comm, list, &n))
        return 1;
    EXPECT(list[0].samples > 0
               && !strcmp(list[0].why, "held for best by what was measured"),
           "%d samples of %s: %s", list[0].samples, list[0].algorithm,
           list[0].why);
    for (int i = 0; i < n; i++) {
        EXPECT((list[i].samples > 0) == (list[i].measured_seconds > 0),
               "%s: %g s of %d samples", list[i].algorithm,
               list[i].measured_seconds, list[i].samples);
        others += i > 0 && list[i].samples > 0
                  && !strncmp(list[i].why, "measured", 8);
    }
    EXPECT(others > 0, "none of %d others", n - 1);
    return 0;
}

Test(explain, says_what_was_measured, .timeout = 60)
{
    cr_assert_eq(run_ranks(3, over_ucx, what_was_measured_is_told), 0);
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

static char said[65536]; /* on stderr, by what was listened to */

static int listen_to(coll_status (*what)(coll_comm *), coll_comm *comm)
{
    char path[] = "/tmp/coll-explain-XXXXXX";
    const int file = mkstemp(path), before = dup(STDERR_FILENO);
    EXPECT(file >= 0 && dup2(file, STDERR_FILENO) >= 0, "%s", path);
    const coll_status status = what(comm);
    dup2(before, STDERR_FILENO);
    memset(said, 0, sizeof(said));
    EXPECT(pread(file, said, sizeof(said) - 1, 0) >= 0, "%s", path);
    unlink(path);
    close(file);
    close(before);
    EXPECT(status == COLL_OK, "%d", status);
    return 0;
}

/* Two lengths, the first one again, and once more after rules were set. */
static coll_status known_and_unknown(coll_comm *comm)
{
    coll_status status = sum(comm, COUNT);
    if (status == COLL_OK)
        status = sum(comm, 10);
    if (status == COLL_OK)
        status = sum(comm, COUNT);
    if (status == COLL_OK)
        status = coll_comm_set_algorithm(comm, NULL);
    return status == COLL_OK ? sum(comm, COUNT) : status;
}

static int tells_each_once(coll_comm *comm, int rank, int nranks)
{
    (void)nranks;
    if (listen_to(known_and_unknown, comm))
        return 1;
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

/* As if all ranks had measured it. Returns its name; NULL: it is not. */
static const char *make_another_best(coll_comm *comm)
{
    struct select_class *class =
        comm->select
            .class[POOL_ANY][ALLREDUCE][price_half(COUNT * sizeof(float))];
    struct learn *l = &class->learn;
    const int before = learn_best(l), other = (before + 1) % class->n;
    for (int i = 0; i < 100 && learn_best(l) != other; i++) {
        learn_observe(l, before, learn_log_time(learn_quantise(1)));
        learn_observe(l, other, learn_log_time(learn_quantise(1e-6)));
    }
    return learn_best(l) == other
               ? algos[comm->select.prices.row[class->row[other]].algo].name
               : NULL;
}

static coll_status sum_again(coll_comm *comm)
{
    return sum(comm, COUNT);
}

static int tells_a_change(coll_comm *comm, int rank, int nranks)
{
    char row[64];
    (void)nranks;
    EXPECT(sum(comm, COUNT) == COLL_OK, "first");
    const char *name = make_another_best(comm);
    EXPECT(name, "the choice stays");
    snprintf(row, sizeof(row), "explain: > %s ", name);
    if (listen_to(sum_again, comm))
        return 1;
    EXPECT(count_of(said, "explain: > ") == (rank == 0)
               && count_of(said, row) == (rank == 0)
               && count_of(said, "held for best by what was measured")
                      == (rank == 0),
           "rank %d, %s: %s", rank, name, said);
    return 0;
}

Test(explain, tells_a_change_of_the_choice, .timeout = 60)
{
    static const char *const settings[] = {"COLL_TRANSPORT=ucx",
                                           "COLL_EXPLAIN=1", NULL};
    cr_assert_eq(run_ranks(3, settings, tells_a_change), 0);
}
