/* SPDX-License-Identifier: MIT */
/* coll_comm_init(): the job from what a launcher has left in the environment.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/env.h"
#include "base/log.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/pmix.h"
#include "comm/comm.h"

/* The rank and the number of ranks, and where rank 0 waits: by an id, or as
 * HOST:PORT with a key. */
struct job {
    int rank, nranks;
    const char *root, *key; /* root NULL: by id */
    coll_unique_id id;
};

static coll_status join(coll_comm **comm, struct job *job)
{
    coll_comm *c = NULL;
    coll_status status = comm_check_shape(comm, job->nranks, job->rank);
    if (status == COLL_OK)
        status = comm_create(&c, job->nranks, job->rank, NULL, NULL);
    if (status < 0)
        return status;
    const bool meets = job->nranks > 1 && job->root;
    if (meets)
        status = bootstrap_check_interface(setting_text(SETTING_INTERFACE));
    if (meets && status == COLL_OK)
        status = bootstrap_id_from_root(job->root, job->key, &job->id);
    if (meets && status == COLL_OK && job->rank == 0)
        status = bootstrap_serve(&job->id, c->join_seconds);
    if (status == COLL_OK)
        status = comm_join(c, job->nranks > 1 ? &job->id : NULL);
    if (status < 0)
        comm_release(c, true);
    else
        *comm = c;
    return status;
}

/* --- variables --------------------------------------------------------------
 */

static coll_status parse_rank(const char *name, const char *text, long min,
                              int *out)
{
    char *end;
    const long x = strtol(text, &end, 10);
    if (end == text || *end || x < min || x > 1 << 20)
        return fail(COLL_ERR_INVALID, "comm",
                    "%s=%s: not a whole number from %ld", name, text, min);
    *out = (int)x;
    return COLL_OK;
}

/* Where a job's description may stand. */
struct job_names {
    const char *rank, *nranks, *root, *port; /* port NULL: in root */
};

static coll_status half_set(const struct job_names *names,
                            const char *const *values)
{
    const char *const all[] = {names->rank, names->nranks, names->root,
                               names->port};
    char missing[128] = "", present[128] = "";
    for (int i = 0; i < 4; i++) {
        char *list = values[i] && *values[i] ? present : missing;
        if (all[i])
            snprintf(list + strlen(list), sizeof(missing) - strlen(list),
                     "%s%s", *list ? ", " : "", all[i]);
    }
    return fail(COLL_ERR_INVALID, "comm",
                "the environment describes a job only in part: %s set, but not "
                "%s",
                present, missing);
}

/* torchrun's own store listens on MASTER_PORT while its workers run. */
static const char *torch_root(char *root, size_t bytes, const char *address,
                              const char *port)
{
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    const bool taken = agent && !strcasecmp(agent, "true");
    const bool v6 = strchr(address, ':') != NULL;
    snprintf(root, bytes, "%s%s%s:%ld", v6 ? "[" : "", address, v6 ? "]" : "",
             strtol(port, NULL, 10) + taken);
    return root;
}

static coll_status init_from(coll_comm **comm, const struct job_names *names,
                             const char *const *values, const char *key)
{
    char root[300];
    struct job job = {.root = values[2], .key = key};
    for (int i = 0; i < 4; i++)
        if ((i < 3 || names->port) && !(values[i] && *values[i]))
            return half_set(names, values);
    coll_status status = parse_rank(names->nranks, values[1], 1, &job.nranks);
    if (status == COLL_OK)
        status = parse_rank(names->rank, values[0], 0, &job.rank);
    if (status == COLL_OK && names->port)
        job.root = torch_root(root, sizeof(root), values[2], values[3]);
    return status == COLL_OK ? join(comm, &job) : status;
}

/* --- launchers of clusters ---------------------------------------------------
 */

/* The first name of "n[03-05,9]x,m1": n03x. */
static void first_host(const char *list, char *name, size_t bytes)
{
    size_t n = 0;
    for (bool inside = false, skips = false; *list && n + 1 < bytes; list++) {
        if (*list == '[' || *list == ']')
            inside = *list == '[', skips = false;
        else if (!inside && *list == ',')
            break;
        else if (inside && (*list == '-' || *list == ','))
            skips = true;
        else if (!skips)
            name[n++] = *list;
    }
    name[n] = '\0';
}

/* Steps that run at the same time have other numbers. Below what systems give
 * to those who do not care. */
static unsigned slurm_port(const char *id, const char *step)
{
    enum { FIRST = 20000, COUNT = 12000 };
    const unsigned long job = id ? strtoul(id, NULL, 10) : 0,
                        of_job = step ? strtoul(step, NULL, 10) : 0;
    return FIRST + (unsigned)((31 * job + of_job) % COUNT);
}

/* A step that srun has started; in a batch script nothing says how many tasks
 * it has. */
static coll_status init_slurm(coll_comm **comm, const char *said)
{
    static const struct job_names names = {
        "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", NULL};
    const char *list = getenv(names.root), *id = getenv("SLURM_JOB_ID"),
               *step = getenv("SLURM_STEP_ID");
    char host[200] = "", root[220] = "", key[100];
    first_host(list ? list : "", host, sizeof(host));
    if (*host)
        snprintf(root, sizeof(root), "%s:%u", host, slurm_port(id, step));
    snprintf(key, sizeof(key), "slurm %.40s.%.40s", id ? id : "",
             step ? step : "");
    const char *const values[4] = {getenv(names.rank), getenv(names.nranks),
                                   root, NULL};
    return init_from(comm, &names, values, *said ? said : key);
}

static coll_status init_pmix(coll_comm **comm)
{
    struct job job = {.root = NULL};
    const coll_status status =
        pmix_meet(&job.rank, &job.nranks, coll_get_unique_id, &job.id);
    return status == COLL_OK ? join(comm, &job) : status;
}

coll_status coll_comm_init(coll_comm **comm)
{
    static const struct job_names ours = {"COLL_RANK", "COLL_NRANKS",
                                          "COLL_ROOT", NULL};
    static const struct job_names torch = {"RANK", "WORLD_SIZE", "MASTER_ADDR",
                                           "MASTER_PORT"};
    const char *const our_values[4] = {setting_text(SETTING_RANK),
                                       setting_text(SETTING_NRANKS),
                                       setting_text(SETTING_ROOT), NULL};
    const char *const torch_values[4] = {getenv("RANK"), getenv("WORLD_SIZE"),
                                         getenv("MASTER_ADDR"),
                                         getenv("MASTER_PORT")};
    const char *key = setting_text(SETTING_JOB_KEY);
    const bool slurm = getenv("SLURM_PROCID") && getenv("SLURM_STEP_NUM_TASKS");
    if (!comm)
        return fail(COLL_ERR_INVALID, "comm", "comm is NULL");
    if (*our_values[0] || *our_values[1] || *our_values[2])
        return init_from(comm, &ours, our_values, key);
    if (torch_values[0] || torch_values[1])
        return init_from(comm, &torch, torch_values, key);
    if (pmix_here()) {
        const coll_status status = init_pmix(comm);
        if (status != COLL_ERR_UNSUPPORTED || !slurm)
            return status;
    }
    if (slurm)
        return init_slurm(comm, key);
    const char *others = getenv("PMI_SIZE"); /* mpirun of MPICH */
    if (others && strtol(others, NULL, 10) > 1)
        return fail(COLL_ERR_UNSUPPORTED, "comm",
                    "PMI_SIZE=%s: a launcher without PMIx has started this "
                    "process; valid are collrun, mpirun of Open MPI and srun, "
                    "or COLL_RANK, COLL_NRANKS and COLL_ROOT",
                    others);
    return join(comm, &(struct job){.nranks = 1});
}
