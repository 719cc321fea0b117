/* SPDX-License-Identifier: MIT */
/* Servers and workers that are threads: for the thread sanitizer, as servers
 * without a lock are changed by all workers at once. Prints TAP. */
#include <math.h>
#include <stdio.h>

#include "checks.h"
#include "rank_threads.h"
#include "server_jobs.h"

static struct server_job job; /* set before the ranks start */

/* The last servers' centres lie where all targets do. */
static int part(coll_comm *comm, int rank, int n)
{
    struct server_done done;
    int wrong = job_run(comm, &job, &done);
    double sum = 0;
    for (size_t i = done.first; i < done.first + done.count; i++)
        sum += fabs((double)done.weights[i]);
    if (rank >= n - job.nservers && !(sum / (double)done.count < 0.5)) {
        printf("# rank %d: the centre is %g off\n", rank,
               sum / (double)done.count);
        wrong = 1;
    }
    if (rank == n - job.nservers && done.done != job.steps) {
        printf("# %ld steps\n", done.done);
        wrong = 1;
    }
    job_free(&done);
    return wrong;
}

static bool goes(const struct worker_way *way, enum server_order order,
                 server_rule *rule, int nservers)
{
    job = (struct server_job){
        .way = way,
        .order = order,
        .rule = rule,
        .nservers = nservers,
        .count = 6400,
        .tau = way == &worker_gradient ? 1 : 2,
        .steps = 200,
        .lr = 0.05,
        .alpha = 0.3,
        .momentum = rule == rule_momentum ? 0.5 : 0,
    };
    return run(3 + nservers, part);
}

int main(void)
{
    int failed = 0;
    printf("1..6\n");
    failed +=
        report(goes(&worker_elastic, SERVER_AT_ONCE, rule_elastic_at_once, 1),
               "hogwild-easgd");
    failed +=
        report(goes(&worker_elastic, SERVER_AT_ONCE, rule_elastic_at_once, 2),
               "two servers");
    failed +=
        report(goes(&worker_gradient, SERVER_AT_ONCE, rule_add_at_once, 1),
               "hogwild-sgd");
    failed += report(goes(&worker_elastic, SERVER_FIRST_COME, rule_elastic, 1),
                     "async-easgd");
    failed +=
        report(goes(&worker_gradient, SERVER_FIRST_COME, rule_momentum, 1),
               "async-msgd");
    failed += report(goes(&worker_pull_push, SERVER_FIRST_COME, rule_add, 2),
                     "parameter-server");
    return failed > 0;
}
