/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command_line.h"
#include "kernel_choice.h"
#include "kernels/conv.h"
#include "net_option.h"
#include "settings.h"

static enum exchange exchange(const struct options *o)
{
    int i = EXCHANGES - 1;
    while (i > 0 && strcmp(o->exchange, exchange_names[i]))
        i--;
    const bool chooses = i == EXCHANGE_BUCKETS || i == EXCHANGE_PRIORITY;
    if (o->bucket && !chooses)
        options_die(&train_program,
                    "--bucket: found --exchange %s, valid are "
                    "--exchange buckets and priority",
                    exchange_names[i]);
    /* Other pieces give other roundings. */
    if (o->deterministic && chooses && !o->bucket)
        options_die(&train_program,
                    "--deterministic: found --exchange %s without --bucket, "
                    "which fixes its pieces",
                    exchange_names[i]);
    return o->deterministic && i == EXCHANGE_AUTO ? EXCHANGE_PACKED
                                                  : (enum exchange)i;
}

static struct wire_settings wire(const struct options *o)
{
    int kind = WIRE_TOPK;
    while (kind > WIRE_F32 && strcmp(o->wire, wire_names[kind]))
        kind--;
    if (isfinite(o->top) && kind != WIRE_TOPK)
        options_die(&train_program,
                    "--top: found --wire %s, valid is --wire topk", o->wire);
    if (o->wire_always && kind == WIRE_F32)
        options_die(&train_program, "--wire-always: found --wire f32, valid "
                                    "with bf16, int8 and topk");
    return (struct wire_settings){(enum wire_kind)kind,
                                  isfinite(o->top) ? o->top : 1,
                                  o->wire_always || o->deterministic};
}

static struct strategy_settings strategy_settings(const struct options *o)
{
    static const char *const names[] = {
        [CENTRE_REPLICATED] = "replicated",
        [CENTRE_SHARDED] = "sharded",
        [CENTRE_HIERARCHICAL] = "hierarchical",
    };
    int centre = o->centre ? CENTRE_HIERARCHICAL : CENTRE_UNSAID;
    while (centre && strcmp(o->centre, names[centre]))
        centre--;
    return (struct strategy_settings){
        .exchange = exchange(o),
        .bucket_bytes = (size_t)o->bucket,
        .tau = o->tau,
        .alpha = o->alpha,
        .rho = o->rho,
        .centre = (enum centre)centre,
        .wire = wire(o),
        .servers = o->servers,
        .strict = o->original_strict,
        .deterministic = o->deterministic,
        .shard = o->shard,
        .factors = !strcmp(o->factors, "on")    ? FACTORS_ON
                   : !strcmp(o->factors, "off") ? FACTORS_OFF
                                                : FACTORS_AUTO,
    };
}

/* Reads "2:50": the rank, and how many milliseconds. */
static void read_delay(const struct options *o, struct train_settings *s)
{
    double ms = 0;
    int length = 0;
    if (!o->delay)
        return;
    if (sscanf(o->delay, "%9d:%lf%n", &s->delay_rank, &ms, &length) != 2
        || o->delay[length] || s->delay_rank < 0 || !(ms > 0) || ms > 1e6)
        options_die(&train_program,
                    "--delay: found \"%s\", valid is RANK:MS, as in 2:50",
                    o->delay);
    s->delay_seconds = ms / 1e3;
}

/* Whether "step, exp" has a name. */
static bool lists(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at++)
        if ((at == list || at[-1] == ' ')
            && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

static void check_schedule(const struct options *o)
{
    const struct {
        const char *option, *schedules;
        bool said;
    } only[] = {
        {"--gamma",      "step, multistep, exp, inv, sigmoid", !isnan(o->gamma)},
        {"--power",      "inv, poly",                          !isnan(o->power)},
        {"--every",      "step, sigmoid",                      o->every > 0    },
        {"--milestones", "multistep",                          o->milestones   },
    };
    for (size_t i = 0; i < sizeof(only) / sizeof(only[0]); i++)
        if (only[i].said && !lists(only[i].schedules, o->schedule))
            options_die(&train_program,
                        "%s: found --schedule %s, valid with %s",
                        only[i].option, o->schedule, only[i].schedules);
}

static struct schedule_settings schedule_of(const struct options *o)
{
    struct schedule_settings schedule = {
        .name = o->schedule,
        .lr = o->lr,
        .gamma = isnan(o->gamma) ? 0.1 : o->gamma,
        .power = isnan(o->power) ? 1 : o->power,
        .every = o->every,
        .warmup = o->warmup,
        .from = o->warmup_from,
    };
    check_schedule(o);
    if (o->warmup_from > 0 && !o->warmup)
        options_die(&train_program, "--warmup-from: found no --warmup, which "
                                    "says over how many steps");
    const char *wrong =
        o->milestones ? schedule_milestones(&schedule, o->milestones) : NULL;
    if (wrong)
        options_die(&train_program, "--milestones: found \"%s\", %s",
                    o->milestones, wrong);
    return schedule;
}

struct train_settings settings_of(const struct options *o)
{
    const bool resumes = o->resume && strcmp(o->resume, "false") != 0;
    const bool own_file =
        resumes && (!*o->resume || !strcmp(o->resume, "true"));
    if (own_file && !o->checkpoint)
        options_die(&train_program, "--resume: found no file, valid is a "
                                    "file's name here or with --checkpoint");
    if (o->checkpoint_every && !o->checkpoint)
        options_die(&train_program, "--checkpoint-every: found no "
                                    "--checkpoint, which says where to write");
    char error[200];
    const bool bf16 = !strcmp(o->precision, "bf16");
    conv_allow_bf16(bf16);
    if (o->deterministic && !strcmp(o->kernel, "measured"))
        options_die(&train_program,
                    "--deterministic: found --kernel measured, which goes "
                    "by time; valid are auto, direct, gemm, winograd and "
                    "strassen");
    if (kernel_choose(o->kernel, o->threads ? (int)o->threads : 1, error,
                      sizeof(error)))
        options_die(&train_program, "--kernel: %s", error);
    if (o->accumulate > 1 && (o->profile || o->trace))
        options_die(&train_program,
                    "--accumulate: found %ld with --%s, which times one batch "
                    "a step; valid is one of the two",
                    o->accumulate, o->profile ? "profile" : "trace");
    struct train_settings s = {
        .net_text = net_option(&train_program, o->net),
        .net_name = o->net,
        .data = o->data,
        .strategy = o->strategy,
        .optimiser = o->optimizer,
        .epochs = o->epochs,
        .steps = o->steps,
        .batch = o->batch,
        .global_batch = o->global_batch,
        .threads = o->threads,
        .unbound = !strcmp(o->bind, "none"),
        .seed = (uint64_t)o->seed,
        .augment = o->augment,
        .shuffle = !strcmp(o->shuffle, "stripes") ? SHUFFLE_STRIPES
                   : !strcmp(o->shuffle, "draw")  ? SHUFFLE_DRAW
                                                  : SHUFFLE_ALL,
        .partition = o->partition,
        .prefetch = !strcmp(o->prefetch, "on")    ? PREFETCH_ON
                    : !strcmp(o->prefetch, "off") ? PREFETCH_OFF
                                                  : PREFETCH_AUTO,
        .kernel = o->kernel,
        .bf16 = bf16,
        .accumulate = o->accumulate,
        .strategy_settings = strategy_settings(o),
        .optim = {o->weight_decay,
                  {o->momentum, o->beta1, o->beta2, o->epsilon, o->trust}},
        .clip_norm = o->clip_norm,
        .average = o->ema,
        .schedule = schedule_of(o),
        .checkpoint = o->checkpoint,
        .checkpoint_every = o->checkpoint_every,
        .test_every = o->test_every,
        .resume = own_file  ? o->checkpoint
                  : resumes ? o->resume
                            : NULL,
        .resume_optional = own_file,
    };
    read_delay(o, &s);
    return s;
}
