/* SPDX-License-Identifier: MIT */
#include "mismatched.h"

#include <criterion/criterion.h>
#include <string.h>

#include "calls.h"
#include "drawn.h"
#include "ranks.h"
#include "thorough.h"

const char *const quick_shm[] = {"COLL_TRANSPORT=shm", QUICK, NULL};
const char *const quick_ucx[] = {"COLL_TRANSPORT=ucx", QUICK, NULL};

static const double soon = 2; /* seconds */

static const struct mismatches *now_run;
static unsigned npairs;
static int first_seed;

int names_both_calls(const char *why)
{
    const char *one = strstr(why, "rank ");
    const char *called = one ? strstr(one, " called ") : NULL;
    return called && strstr(called + 1, " called ") && !strchr(why, '?')
           && !strstr(why, "another algorithm");
}

static int is_told(int rank, coll_status status, const char *why)
{
    return now_run->is_told
               ? now_run->is_told(rank, status, why)
               : status == COLL_ERR_MISMATCH && names_both_calls(why);
}

static int one_pair(unsigned i, coll_comm *comm, int rank, int n)
{
    coll_comm *one;
    char why[1024];
    now_run->draw(n);
    EXPECT(coll_comm_split(comm, 0, rank, &one, now_run->config) == COLL_OK,
           "pair %u", i);
    const double begun = now();
    coll_status status = now_run->run(rank, one);
    snprintf(why, sizeof(why), "%s", coll_last_error(one));
    const coll_status last = coll_comm_destroy(one);
    if (status == COLL_OK) {
        status = last;
        snprintf(why, sizeof(why), "%s", coll_last_error(NULL));
    }
    const double seconds = now() - begun;
    if (is_told(rank, status, why) && seconds <= soon)
        return 0;
    fprintf(stderr, "seed %d, pair %u of %d ranks: ", first_seed, i, n);
    now_run->print(n);
    fprintf(stderr, "\nrank %d: %s, %g s: %s\n", rank,
            coll_status_string(status), seconds, why);
    return 1;
}

static int all_pairs(coll_comm *comm, int rank, int n)
{
    int wrong = 0;
    drawn_state = (uint64_t)first_seed;
    for (unsigned i = 0; i < npairs && !wrong; i++) {
        wrong = one_pair(i, comm, rank, n);
        /* All go on, or none. */
        coll_request *request;
        EXPECT(!coll_allreduce(&wrong, &wrong, 1, COLL_I32, COLL_MAX, comm,
                               &request)
                   && coll_wait(&request) == COLL_OK,
               "pair %u", i);
    }
    return wrong;
}

void mismatched_on(const struct mismatches *of, const char *const *settings,
                   int n, int seed, unsigned all, unsigned part)
{
    now_run = of;
    npairs = cases(all, part);
    first_seed = seed;
    cr_assert_eq(run_ranks(n, settings, all_pairs), 0, "seed %d, %d ranks",
                 seed, n);
}

void mismatched(const struct mismatches *of, const char *const *settings,
                int seed, unsigned all, unsigned part)
{
    for (int n = 2; n <= DRAWN_RANKS; n++)
        mismatched_on(of, settings, n, seed + n - 2, all, part);
}

const char *const *quick_plans(void)
{
    static char rules[1024];
    static const char *const settings[] = {"COLL_TRANSPORT=shm", QUICK, rules,
                                           NULL};
    coll_algorithm_info info;
    snprintf(rules, sizeof(rules), "COLL_ALGO=");
    for (int i = 0; coll_algorithm_get(i, &info); i++)
        if (!strncmp(info.name, "node_", 5))
            snprintf(rules + strlen(rules), sizeof(rules) - strlen(rules),
                     "%s:^%s;", info.collective, info.name);
    return settings;
}
