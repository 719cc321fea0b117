/* SPDX-License-Identifier: MIT */
/* coll_sim: what its parts share. */
#ifndef PROGRAMS_SIM_H
#define PROGRAMS_SIM_H

#include <stdio.h>

#include "coll/topo.h"
#include "programs/options.h"
#include "programs/sim_choice.h"
#include "programs/whole_file.h"

/* The command line, read. */
struct sim_options {
    const char *cluster, *nranks, *algo, *order, *place, *json, *csv, *plot;
    size_t min_bytes, max_bytes;
    double factor, gamma_ns, overhead_us, max_messages;
    long segments, ranks_per_host, threads;
    bool costs;
    /* train */
    const char *net, *strategy, *overlap, *tau;
    size_t gradient_bytes, bucket;
    double step_ms;
    long batch;
};

struct sim_job {
    const struct program *program;
    struct sim_options options;
    coll_topo *topo;
    int *nranks, nnranks; /* -n, ascending */
    struct trials_limits limits;
};

/* "1..1024" (powers of two, and the end), "64,256"; ascending, each once. Ends
 * the program if they are not whole numbers from 1 to most. The caller frees.
 */
int sim_parse_numbers(const struct program *, const char *option,
                      const char *text, int most, int **numbers);

/* The world of the i-th -n; ends the program if there is none. */
void sim_open_world(const struct sim_job *, int i, struct world *);

/* Ends the program with status 1. */
__attribute__((noreturn)) void sim_fail(const char *sentence);

/* Ends the program as --algo has a name that is none, or has no plan; lists
 * those that are valid. */
__attribute__((noreturn)) void sim_unknown_algo(const struct sim_job *,
                                                enum coll_kind,
                                                const char *name);

/* coll_sim COLLECTIVE and coll_sim train. */
void sim_collective(struct sim_job *, enum coll_kind);
void sim_train(struct sim_job *);

/* What the library's prices for a job of so many ranks took. */
struct sim_pricing {
    uint32_t rehearsals; /* 0: there are none */
    double seconds;      /* of a processor */
};

/* What coll_sim COLLECTIVE writes, once sorted by ranks, bytes and time. */
struct sim_results {
    const struct sim_job *job;
    enum coll_kind kind;
    const struct trial *trials; /* all done, but see sim_print_costs() */
    int n;
    const struct sim_pricing *pricing; /* for each -n */
};
void sim_print_table(const struct sim_results *);
void sim_write_json(const struct sim_results *);
void sim_write_csv(const struct sim_results *);
void sim_write_plot(const struct sim_results *);

/* With --costs, instead of the table and of the plot above. Trials too large to
 * be rehearsed are among the results, with TRIAL_LARGE. */
void sim_print_costs(const struct sim_results *);
void sim_plot_costs(const struct sim_results *);

/* What cannot be written ends the program. */
void sim_open_file(const struct sim_job *, struct whole_file *,
                   const char *path);
void sim_publish(const struct sim_job *, struct whole_file *, bool ok);

#endif
