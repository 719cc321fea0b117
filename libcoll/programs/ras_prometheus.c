/* SPDX-License-Identifier: MIT */
/* The text that Prometheus reads (its exposition format 0.0.4): each metric
 * with all its rows together. */
#include <stdio.h>

#include "programs/ras.h"

/* Records hold printable characters only. */
static void put_escaped(const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
}

static void put_head(const char *name, const char *type, const char *help)
{
    printf("# HELP coll_%s %s\n# TYPE coll_%s %s\n", name, help, name, type);
}

static void put_comm(const char *name, const struct ras_comm *c)
{
    printf("coll_%s{job=\"%016llx\"", name,
           (unsigned long long)c->job->files[0]->header.job);
}

struct comm_metric {
    const char *name, *help;
    double (*value)(const struct ras_comm *);
};

static double ranks(const struct ras_comm *c)
{
    return c->nranks;
}

static double on_record(const struct ras_comm *c)
{
    return c->n;
}

static double pending(const struct ras_comm *c)
{
    return c->pending;
}

static double period(const struct ras_comm *c)
{
    return c->period;
}

static const struct comm_metric comm_metrics[] = {
    {"comm_ranks",           "Ranks of the communicator.",              ranks    },
    {"comm_ranks_on_record", "Those whose flight record is here.",      on_record},
    {"comm_pending_seconds",
     "Since the oldest operation or message that has not ended began.", pending  },
    {"comm_period_seconds",
     "From one operation to the next, a mean of those on record.",      period   },
};

struct rank_metric {
    const char *name, *type, *help;
    double (*value)(const struct ras_rank *);
};

static double up(const struct ras_rank *r)
{
    return r->process != RAS_GONE && r->process != RAS_STOPPED;
}

static double operations(const struct ras_rank *r)
{
    return r->last ? (double)r->last->number : 0;
}

static double behind(const struct ras_rank *r)
{
    return (double)r->behind;
}

static double in_operation(const struct ras_rank *r)
{
    return ras_is_in(r) ? r->seconds : 0;
}

static double late(const struct ras_rank *r)
{
    return r->late;
}

static double messages(const struct ras_rank *r)
{
    return (double)r->messages;
}

static double failed(const struct ras_rank *r)
{
    return r->file->header.failed != 0;
}

static const struct rank_metric rank_metrics[] = {
    {"rank_up",               "gauge",   "1: the process is there, and not stopped.", up          },
    {"rank_operations_total", "counter", "Operations that the rank has begun.",
     operations                                                                                   },
    {"rank_behind",           "gauge",
     "Operations that another rank has begun, and this one has not.",                 behind      },
    {"rank_pending_seconds",  "gauge",
     "Since the operation that it is in began; 0: it is in none.",                    in_operation},
    {"rank_late_seconds",     "gauge",
     "How long after the first rank it begins operations, a mean of those on "
     "record.",                                                                       late        },
    {"rank_messages_pending", "gauge",
     "Sends and receives that have not ended.",                                       messages    },
    {"rank_failed",           "gauge",   "1: its communicator has failed.",           failed      },
};

static void put_states(const struct ras_comm *comms, int n)
{
    put_head("comm_state", "gauge", "1 for the state that it is in.");
    for (int i = 0; i < n; i++)
        for (int s = 0; s < RAS_STATES; s++) {
            put_comm("comm_state", &comms[i]);
            printf(",state=\"%s\"} %d\n", ras_state_names[s],
                   (int)comms[i].state == s);
        }
}

void ras_prometheus(const struct ras_comm *comms, int n)
{
    put_states(comms, n);
    for (size_t m = 0; m < sizeof(comm_metrics) / sizeof(comm_metrics[0]);
         m++) {
        put_head(comm_metrics[m].name, "gauge", comm_metrics[m].help);
        for (int i = 0; i < n; i++) {
            put_comm(comm_metrics[m].name, &comms[i]);
            printf("} %.15g\n", comm_metrics[m].value(&comms[i]));
        }
    }
    for (size_t m = 0; m < sizeof(rank_metrics) / sizeof(rank_metrics[0]);
         m++) {
        const struct rank_metric *metric = &rank_metrics[m];
        put_head(metric->name, metric->type, metric->help);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < comms[i].n; k++) {
                const struct ras_rank *r = &comms[i].ranks[k];
                put_comm(metric->name, &comms[i]);
                printf(",rank=\"%d\",host=\"", r->file->header.rank);
                put_escaped(r->file->header.host);
                printf("\",pid=\"%d\"} %.15g\n", r->file->header.pid,
                       metric->value(r));
            }
    }
}
