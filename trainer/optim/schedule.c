/* SPDX-License-Identifier: MIT */
/* Schedules. Warm-up multiplies any of them by step / warmup until that is 1.
 * The step schedule counts from step 0; the cosine starts after warm-up, from
 * 1 to 0 along half a period (Loshchilov and Hutter, ICLR 2017). */
#include <math.h>
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
    return step < s->warmup ? lr * (double)step / (double)s->warmup : lr;
}

static const char *unknown(const char *name)
{
    const char *names[NSCHEDULES];
    for (int i = 0; i < NSCHEDULES; i++)
        names[i] = schedules[i].name;
    const char *near = nearest_name(name, names, NSCHEDULES);
    return near ? find(near)->meant : valid;
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
