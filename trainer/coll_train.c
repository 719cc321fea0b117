/* SPDX-License-Identifier: MIT */
/* coll_train: train a net on this machine or, under collrun, with all ranks of
 * a job; evaluate and export what was trained. Manual: coll_train.1. */
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/coll.h"
#include "clock.h"
#include "command_line.h"
#include "kernel_choice.h"
#include "kernels/conv.h"
#include "kernels/gemm.h"
#include "net/checkpoint.h"
#include "net/safetensors.h"
#include "net_option.h"
#include "predict.h"
#include "programs/options.h"
#include "programs/whole_file.h"
#include "report.h"
#include "settings.h"
#include "train.h"

static const struct options *o; /* set first */

/* The signal to stop for; the handler is all that writes it. */
static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    stop = number;
}

/* The first signal asks, the second kills. */
static void catch_signals(void)
{
    const struct sigaction action = {
        .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file beyond its limit is an error */
}

static char complaint[1024]; /* the last one, for the other ranks */

/* One whole line, so that those of several ranks do not mix. */
__attribute__((format(printf, 1, 2))) static void complain(const char *format,
                                                           ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(complaint, sizeof(complaint), format, args);
    va_end(args);
    options_say(&train_program, complaint);
}

/* For --deterministic: how the library adds must not follow from what it
 * measures. Before the library reads its settings. */
static void fix_order(void)
{
    const char *said = getenv("COLL_DETERMINISM");
    if (!said || !strcmp(said, "off") || !strcmp(said, "run"))
        setenv("COLL_DETERMINISM", "full", 1);
}

/* Returns the exit status: 2 where the environment or a setting is wrong. */
static int join(coll_comm **comm)
{
    const coll_status status = coll_comm_init(comm);
    if (status)
        complain("%s", *coll_last_error(NULL) ? coll_last_error(NULL)
                                              : coll_status_string(status));
    return status == COLL_ERR_INVALID ? 2 : status ? 1 : 0;
}

/* After a failure of this rank the others are told. */
static void tell_others(coll_comm *comm, int exit_status)
{
    if (exit_status == 1 || exit_status == 2)
        coll_comm_abort_because(comm, complaint);
}

/* After success all leave together. Returns the exit status. */
static int leave(coll_comm *comm, int exit_status)
{
    tell_others(comm, exit_status);
    const coll_status status = coll_comm_destroy(comm);
    if (status && !exit_status) {
        complain("%s", coll_last_error(NULL));
        return 1;
    }
    return exit_status;
}

/* How many changes of others came to a server between what a worker has read of
 * it and its own change. */
static void print_staleness(const uint64_t *counts)
{
    uint64_t all = 0;
    for (int i = 0; i < STALENESS_MOST; i++)
        all += counts[i];
    if (!all) /* nothing was left to do */
        return;
    fputs("staleness", stdout);
    for (int i = 0; i < STALENESS_MOST; i++)
        if (counts[i])
            printf("  %s%d: %llu", i + 1 == STALENESS_MOST ? ">=" : "", i,
                   (unsigned long long)counts[i]);
    putchar('\n');
}

/* Prints the last line; standard output may be a full disk. */
static int print_score(const struct report_final *f)
{
    if (isfinite(f->loss))
        printf("test accuracy %.4f  loss %.4g", f->accuracy, f->loss);
    else
        fputs("no test images", stdout);
    printf("  images/s %.0f  communication %.1f %%  time %.1f s\n",
           f->images_per_s, 100 * f->comm_share, f->seconds);
    if (!fflush(stdout) && !ferror(stdout))
        return 0;
    complain("cannot write to standard output");
    return 1;
}

/* Rank 0 alone writes files, but for the traces. Returns the exit status. */
static int check_files(coll_comm *comm)
{
    char trace[PATH_MAX + 16];
    const int rank = coll_comm_user_rank(comm);
    if (o->trace)
        trace_path(trace, sizeof(trace), o->trace, rank, coll_comm_count(comm));
    const bool resumes_itself =
        o->checkpoint && o->resume && whole_file_same(o->checkpoint, o->resume);
    const struct option_file files[] = {
        {"--trace",      o->trace ? trace : NULL,           FILE_WRITTEN},
        {"--checkpoint", o->checkpoint,                     FILE_WRITTEN},
        {"--log",        o->log,                            FILE_WATCHED},
        {"--plot",       o->plot,                           FILE_WRITTEN},
        {"--net",        o->net,                            FILE_READ   },
        {"--resume",     resumes_itself ? NULL : o->resume, FILE_READ   },
    };
    char error[1024];
    if (options_files_fit(files, rank ? 1 : 6, error, sizeof(error)))
        return 0;
    complain("%s", error);
    return 2;
}

static int start_report(struct report *r, const struct train *t)
{
    char error[512];
    if (report_open(r, o->log, t->step, error, sizeof(error))) {
        complain("--log: %s", error);
        return 1;
    }
    r->bar = isatty(STDERR_FILENO);
    r->nsteps = t->nsteps;
    r->nepochs = (t->nsteps + t->epoch_steps - 1) / t->epoch_steps;
    return 0;
}

static int draw(const struct report *r, const struct train *t)
{
    char title[256], error[512];
    snprintf(title, sizeof(title), "%s on %s, %d rank%s, %d images a step",
             o->net, o->data, t->nranks, t->nranks == 1 ? "" : "s",
             t->nworkers * t->batch);
    if (!o->plot || !report_plot(r, o->plot, title, error, sizeof(error)))
        return 0;
    complain("--plot: %s", error);
    return 1;
}

static int start_profile(struct profile *p, struct train *t)
{
    if (!o->trace && (!o->profile || t->rank))
        return 0;
    if (profile_open(p, &t->net, &t->time, t->nsteps - t->step,
                     o->trace != NULL)) {
        complain("rank %d: no memory for the times of layers", t->rank);
        return 1;
    }
    t->profile = p;
    return 0;
}

/* Also of a run that was stopped or failed. */
static int show_profile(const struct train *t)
{
    char path[PATH_MAX + 16], error[512];
    if (o->profile && t->rank == 0)
        profile_print(t->profile, &t->update, stdout);
    if (!o->trace)
        return 0;
    trace_path(path, sizeof(path), o->trace, t->rank, t->nranks);
    if (!trace_write(&t->profile->trace, &t->net, t->rank, path, error,
                     sizeof(error)))
        return 0;
    complain("--trace: %s", error);
    return 1;
}

/* Evaluates a run that had nothing left to do, and stores it elsewhere. */
static int score_again(struct train *t)
{
    const char *to = t->settings.checkpoint, *from = t->settings.resume;
    breakdown_enter(&t->time, PART_TEST);
    const int failed = train_evaluate(t);
    return failed || !to || !strcmp(to, from) ? failed : train_save(t);
}

static struct report_final summary(const struct train *t, double seconds)
{
    return (struct report_final){
        .accuracy = t->score.accuracy,
        .loss = t->score.loss,
        .images_per_s = t->seconds > 0 ? t->images_done / t->seconds : 0,
        .comm_share = t->seconds > 0 ? t->comm_seconds / t->seconds : 0,
        .seconds = seconds,
    };
}

/* What rank 0 does at the end of a run; also draws what a stopped or failed
 * one has reached. */
static int finish_report(struct report *r, const struct train *t,
                         const struct report_final *all, double start,
                         int exit_status)
{
    char error[512];
    int failed = 0;
    struct report_final f = summary(t, clock_now() - start);
    f.time = all->time;
    f.has_staleness = all->has_staleness;
    memcpy(f.staleness, all->staleness, sizeof(f.staleness));
    f.stragglers = t->strategy.ops->stretch ? NULL : &t->stragglers;
    if (!exit_status)
        report_final(r, &f);
    failed |= draw(r, t);
    if (report_close(r, error, sizeof(error))) {
        complain("--log: %s", error);
        failed = 1;
    }
    if (t->profile)
        failed |= show_profile(t);
    if (o->breakdown && !exit_status) {
        breakdown_print(&f.time, stdout);
        if (f.stragglers)
            stragglers_print(f.stragglers, stdout);
    }
    if (f.has_staleness && !exit_status)
        print_staleness(f.staleness);
    if (!exit_status)
        failed |= print_score(&f);
    return exit_status ? exit_status : failed;
}

static int run(struct train *t, double start)
{
    struct report report = {0};
    struct profile profile = {0};
    struct report_final all = {0}; /* what is of all ranks */
    const bool root = t->rank == 0;
    const bool idle = t->step >= t->nsteps;
    if (root && start_report(&report, t))
        return 1;
    if (root && t->settings.bf16 && !conv_bf16_fast())
        complain("--precision bf16: this processor has no AVX512-BF16; results "
                 "are the same up to rounding, but --precision f32 is faster");
    if (root && t->strategy.note[0])
        complain("%s", t->strategy.note);
    int status = start_profile(&profile, t);
    if (!status)
        status = train_run(t, t->nsteps, root ? &report : NULL);
    if (!status && idle)
        status = score_again(t);
    if (!status)
        status = train_breakdown(t, &all.time);
    if (!status)
        status = train_staleness(t, &all.has_staleness, all.staleness);
    if (root)
        status = finish_report(&report, t, &all, start, status);
    else if (t->profile && show_profile(t))
        status = status ? status : 1;
    if (t->error[0] && (status < 128 || root))
        complain("%s", t->error);
    profile_close(&profile);
    return status;
}

static int work(struct train *t, coll_comm *comm, double start)
{
    int status = check_files(comm);
    if (status)
        return status;
    status = train_open(t, comm);
    if (!status && t->note[0])
        complain("%s", t->note);
    if (!status)
        return run(t, start);
    complain("%s", t->error);
    /* It may have killed another rank, which had not asked for it yet. */
    return status == 1 && stop ? 128 + stop : status;
}

static int train_main(int argc, char **argv)
{
    const double start = clock_now();
    struct train t;
    coll_comm *comm;
    o = parse_train(argc, argv);
    if (o->deterministic)
        fix_order();
    struct train_settings s = settings_of(o);
    s.stop = &stop;
    s.began = start;
    int status = train_open_data(&t, &s);
    if (status) {
        complain("%s", t.error);
    } else if (!(status = join(&comm))) {
        catch_signals();
        status = work(&t, comm, start);
        tell_others(comm, status);
        train_close(&t);
        status = leave(comm, status);
    }
    train_close(&t);
    free((char *)s.net_text);
    return status;
}

/* Opens the checkpoint and builds its net for `batch` images; exits 2. */
static void open_checkpoint(const struct program *p, struct checkpoint *c,
                            struct net *net, int batch)
{
    char error[512];
    if (!o->checkpoint)
        options_die(p, "--checkpoint: found none, valid is a file that "
                       "training wrote");
    if (checkpoint_read(c, o->checkpoint, -1, error, sizeof(error)))
        options_die(p, "--checkpoint: %s", error);
    if (net_create(net, c->text, batch, error, sizeof(error)))
        options_die(p, "--checkpoint: %s: its net, %s", o->checkpoint, error);
    if (net->params.count != c->nparams || net->state.count != c->nkept)
        options_die(p,
                    "--checkpoint: %s: %zu parameters and %zu kept numbers, "
                    "valid are %zu and %zu for its net",
                    o->checkpoint, c->nparams, c->nkept, net->params.count,
                    net->state.count);
    const bool mean = c->state.average > 0 && c->noptim >= c->nparams;
    memcpy(net->params.x,
           mean ? c->optim + (c->noptim - c->nparams) : c->params,
           c->nparams * sizeof(float));
    memcpy(net->state.x, c->kept, c->nkept * sizeof(float));
}

/* Also lets the net have its threads, on cores of their own if there are any.
 * Returns the exit status. */
static int join_with_threads(coll_comm **comm, struct net *net)
{
    enum { MOST = 1024 }; /* as --threads */
    const int n = o->threads ? (int)o->threads : 1;
    int cpus[MOST];
    char error[512];
    const int status = join(comm);
    if (status)
        return status;
    const bool wanted = n > 1 && strcmp(o->bind, "none"),
               bound = wanted && !coll_comm_place_threads(*comm, n, cpus);
    if (bound)
        crew_bind(cpus[0]);
    else if (wanted && !coll_comm_user_rank(*comm))
        complain("threads are not bound to cores: %s", coll_last_error(NULL));
    if (!net_use_threads(net, n, bound ? cpus : NULL, error, sizeof(error)))
        return 0;
    complain("--threads: %s", error);
    return leave(*comm, 1);
}

/* What eval does once all is open. Returns the exit status. */
static int score_images(struct net *net, const struct dataset *data,
                        coll_comm *comm, double start)
{
    struct score score;
    struct breakdown time;
    struct strategy strategy = {
        .comm = comm, .net = net, .time = &time, .part = PART_INSIDE};
    char error[512] = "";
    const bool root = !coll_comm_user_rank(comm);
    const struct option_file files[] = {
        {"--predict",    o->predict,    FILE_WRITTEN},
        {"--checkpoint", o->checkpoint, FILE_READ   },
    };
    if (root && !options_files_fit(files, 2, error, sizeof(error))) {
        complain("%s", error);
        return 2;
    }
    float *rows = o->predict ? predict_rows(net, data, comm) : NULL;
    if (o->predict && !rows) {
        complain("--predict: no memory for the probabilities");
        return 1;
    }
    breakdown_start(&time, 0);
    const double began = clock_now();
    coll_status failed =
        evaluate(net, data, &strategy, rows, &score, error, sizeof(error));
    const double seconds = clock_now() - began;
    if (*error) {
        complain("rank %d: %s", coll_comm_user_rank(comm), error);
    } else if (failed) {
        complain("%s", strategy_why(comm, failed));
    } else if (data->count && !isfinite(score.loss)) {
        failed = COLL_ERR_INVALID;
        if (root)
            complain("--checkpoint: %s: the loss of its net is not finite",
                     o->checkpoint);
    } else if (o->predict) {
        failed = predict_write(o->predict, net, data, rows, comm, error,
                               sizeof(error));
        if (failed)
            complain("--predict: %s", error);
    }
    free(rows);
    if (failed || !root)
        return failed ? 1 : 0;
    return print_score(&(struct report_final){
        .accuracy = score.accuracy,
        .loss = score.loss,
        .images_per_s = (double)data->count / seconds,
        .comm_share = time.seconds[PART_INSIDE] / seconds,
        .seconds = clock_now() - start,
    });
}

static int eval_main(int argc, char **argv)
{
    const double start = clock_now();
    struct checkpoint c;
    struct net net;
    struct dataset data;
    char error[512];
    coll_comm *comm;
    o = parse_eval(argc, argv);
    open_checkpoint(&eval_program, &c, &net, (int)o->batch);
    if (dataset_open(&data, o->data, DATASET_TEST, net.input, error,
                     sizeof(error))
        || net_fits(&net, &data, error, sizeof(error)))
        options_die(&eval_program, "--data: %s", error);
    int status = join_with_threads(&comm, &net);
    if (!status)
        status = leave(comm, score_images(&net, &data, comm, start));
    dataset_close(&data);
    net_free(&net);
    checkpoint_free(&c);
    return status;
}

static int export_main(int argc, char **argv)
{
    struct checkpoint c;
    struct net net;
    char error[512];
    o = parse_export(argc, argv);
    if (!o->safetensors)
        options_die(&export_program, "--safetensors: found none, valid is the "
                                     "file to write");
    const struct option_file files[] = {
        {"--safetensors", o->safetensors, FILE_WRITTEN},
        {"--checkpoint",  o->checkpoint,  FILE_READ   },
    };
    options_check_files(&export_program, files, 2);
    open_checkpoint(&export_program, &c, &net, 1);
    const int failed = safetensors_write(o->safetensors, &net, c.state.step,
                                         error, sizeof(error));
    if (failed)
        complain("--safetensors: %s", error);
    net_free(&net);
    checkpoint_free(&c);
    return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "eval"))
        return eval_main(argc - 1, argv + 1);
    if (argc > 1 && !strcmp(argv[1], "export"))
        return export_main(argc - 1, argv + 1);
    return train_main(argc, argv);
}
