/* SPDX-License-Identifier: MIT */
/* Each job measures its links when it starts, for 50 ms at most, and stores
 * that when it ends; later ones count with the middle of the last few. So here
 * several communicators of the same ranks begin and end before the one that
 * learns. */
#include <stdio.h>
#include <string.h>

#include "comm/links.h"
#include "programs/tune_run.h"
#include "programs/tune_store.h"

static bool on_several_hosts(struct tune_job *job)
{
    coll_comm *host;
    tune_check(job,
               coll_comm_split(job->comm, COLL_SPLIT_HOST, 0, &host, NULL));
    const bool several = coll_comm_count(host) < job->nranks;
    tune_check(job, coll_comm_destroy(host));
    return several;
}

/* Rank 0 knows where things are stored. */
static bool is_wanted(struct tune_job *job)
{
    char folder[TUNE_PATH_BYTES];
    const char *why;
    unsigned char wanted =
        tune_folder(folder, sizeof(folder), &why)
        && strcmp(tune_setting("COLL_CALIBRATE"), "off") != 0;
    tune_check(
        job, coll_broadcast(&wanted, &wanted, 1, COLL_U8, 0, job->comm, NULL));
    return wanted;
}

static void begin_anew(struct tune_job *job)
{
    coll_unique_id id;
    memset(&id, 0, sizeof(id));
    if (job->rank == 0)
        tune_check(job, coll_get_unique_id(&id));
    tune_check(
        job, coll_broadcast(&id, &id, sizeof(id), COLL_U8, 0, job->comm, NULL));
    coll_comm *old = job->comm;
    job->comm = NULL;
    tune_check(job, coll_comm_destroy(old));
    tune_check(job,
               coll_comm_init_rank(&job->comm, job->nranks, id, job->rank));
}

void tune_links(struct tune_job *job)
{
    if (!on_several_hosts(job) || !is_wanted(job))
        return;
    for (int i = 1; i < LINKS_KEPT; i++)
        begin_anew(job);
    if (job->rank == 0)
        printf("The links between the hosts were measured %d times.\n",
               LINKS_KEPT);
}
