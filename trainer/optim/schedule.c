/* SPDX-License-Identifier: MIT */
/* Schedules. Warm-up goes in a line from another rate, usually 0, to theirs.
 * Those with Caffe's names (step, multistep, exp, inv, poly, sigmoid) are
 * Caffe's and count from step 0; the cosine starts after warm-up, from 1 to 0
 * along half a period (Loshchilov and Hutter, ICLR 2017). */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/optim.h"
#include "programs/options.h"

static double fixed_lr(const struct schedule_settings *s, long step)
{
    (void)step;
    return s->lr;
}

static const char *fixed_check(const struct schedule_settings *s)
{
    (void)s;
    return NULL;
}

static double step_lr(const struct schedule_settings *s, long step)
{
    return s->lr * pow(s->gamma, (double)(step / s->every));
}

static const char *step_check(const struct schedule_settings *s)
{
    if (s->every < 1)
        return "the step schedule multiplies the learning rate every so many "
               "steps; that number must be at least 1";
    if (!(s->gamma > 0) || !isfinite(s->gamma))
        return "the step schedule's gamma must be above 0, as in 0.1";
    return NULL;
}

static double multistep_lr(const struct schedule_settings *s, long step)
{
    double lr = s->lr;
    for (int i = 0; i < s->nmilestones && step >= s->milestones[i]; i++)
        lr *= s->gamma;
    return lr;
}

static const char *gamma_check(const struct schedule_settings *s)
{
    return s->gamma > 0 && isfinite(s->gamma)
               ? NULL
               : "gamma must be above 0, as in 0.1";
}

static const char *multistep_check(const struct schedule_settings *s)
{
    if (s->nmilestones < 1)
        return "the multistep schedule needs --milestones, as in 30000,60000";
    return gamma_check(s);
}

static double exp_lr(const struct schedule_settings *s, long step)
{
    return s->lr * pow(s->gamma, (double)step);
}

static const char *exp_check(const struct schedule_settings *s)
{
    return s->gamma > 0 && s->gamma <= 1
               ? NULL
               : "the exp schedule multiplies the learning rate by gamma at "
                 "every step; it must be above 0 and at most 1, as in 0.9999";
}

static const char *power_check(const struct schedule_settings *s)
{
    return s->power > 0 && isfinite(s->power)
               ? NULL
               : "power must be above 0, as in 0.75";
}

static double inv_lr(const struct schedule_settings *s, long step)
{
    return s->lr * pow(1 + s->gamma * (double)step, -s->power);
}

static const char *inv_check(const struct schedule_settings *s)
{
    const char *wrong = gamma_check(s);
    return wrong ? wrong : power_check(s);
}

static double poly_lr(const struct schedule_settings *s, long step)
{
    return step < s->total
               ? s->lr * pow(1 - (double)step / (double)s->total, s->power)
               : 0;
}

static const char *poly_check(const struct schedule_settings *s)
{
    return s->total > 0 ? power_check(s)
                        : "the poly schedule needs the total number of steps";
}

/* Falls from lr to 0 around step `every`, the faster the larger gamma. Caffe's
 * own sign is the other one, and its examples give a negative gamma. */
static double sigmoid_lr(const struct schedule_settings *s, long step)
{
    return s->lr / (1 + exp(s->gamma * (double)(step - s->every)));
}

static const char *sigmoid_check(const struct schedule_settings *s)
{
    return s->every < 1 ? "the sigmoid schedule falls around step --every, "
                          "which must be at least 1"
                        : gamma_check(s);
}

static double cosine_lr(const struct schedule_settings *s, long step)
{
    const double done =
        (double)(step - s->warmup) / (double)(s->total - s->warmup);
    const double pi = 3.14159265358979323846;
    if (done >= 1)
        return 0;
    return done <= 0 ? s->lr : s->lr * 0.5 * (1 + cos(pi * done));
}

static const char *cosine_check(const struct schedule_settings *s)
{
    return s->total > s->warmup && s->total > 0
               ? NULL
               : "the cosine schedule needs the total number of steps, which "
                 "must be above the number of warm-up steps";
}

static const struct schedule {
    const char *name, *meant;
    double (*lr)(const struct schedule_settings *, long);
    const char *(*check)(const struct schedule_settings *);
} schedules[] = {
#define SCHEDULE(name)                                                         \
    {#name, "unknown schedule, did you mean \"" #name "\"?", name##_lr,        \
     name##_check},
#include "optim/schedules.def"
#undef SCHEDULE
};

enum { NSCHEDULES = sizeof(schedules) / sizeof(schedules[0]) };

#define SCHEDULE(name) " " #name
static const char valid[] = "unknown schedule, valid are:"
#include "optim/schedules.def"
    ;
#undef SCHEDULE

static const struct schedule *find(const char *name)
{
    for (int i = 0; i < NSCHEDULES; i++)
        if (!strcmp(schedules[i].name, name))
            return &schedules[i];
    return NULL;
}

double schedule_lr(const struct schedule_settings *s, long step)
{
    const double lr = find(s->name)->lr(s, step);
    return step < s->warmup
               ? s->from + (lr - s->from) * (double)step / (double)s->warmup
               : lr;
}

static const char *unknown(const char *name)
{
    const char *names[NSCHEDULES];
    for (int i = 0; i < NSCHEDULES; i++)
        names[i] = schedules[i].name;
    const char *near = nearest_name(name, names, NSCHEDULES);
    return near ? find(near)->meant : valid;
}

const char *schedule_milestones(struct schedule_settings *s, const char *text)
{
    s->nmilestones = 0;
    for (;;) {
        char *end;
        errno = 0;
        const long step = strtol(text, &end, 10);
        const long last =
            s->nmilestones ? s->milestones[s->nmilestones - 1] : 0;
        if (end == text || errno || step <= last || (*end && *end != ','))
            return "valid are rising numbers of steps, as in 30000,60000";
        if (s->nmilestones == SCHEDULE_MILESTONES)
            return "valid are at most 32 of them";
        s->milestones[s->nmilestones++] = step;
        if (!*end)
            return NULL;
        text = end + 1;
    }
}

const char *schedule_check(const struct schedule_settings *s)
{
    const struct schedule *row = s->name ? find(s->name) : NULL;
    if (!row)
        return s->name ? unknown(s->name) : valid;
    if (!(s->lr > 0) || !isfinite(s->lr))
        return "the learning rate must be a number above 0, as in 0.05";
    if (s->warmup < 0)
        return "the number of warm-up steps must be at least 0";
    return row->check(s);
}
