/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_conv.h"

#include <string.h>

#include "kernels/conv_size.h"
#include "kernels/sw/sw_cost.h"
#include "kernels/sw/sw_implicit.h"
#include "kernels/sw/sw_matrices.h"
#include "kernels/sw/sw_numbers.h"
#include "kernels/sw/sw_winograd.h"
#include "kernels/sw/sw_work.h"

/* --- orders ------------------------------------------------------------- */

/* The pass's three tensors between the framework's order and the tile's. */
static void enter(struct sw_work *w, float *in, float *by)
{
    const struct sw_conv *job = w->job;
    const struct conv *c = &job->conv;
    const int places = c->h * c->w, windows = c->out_h * c->out_w;
    const int taps = c->kernel_h * c->kernel_w;
    switch (job->pass) {
    case CONV_BACKWARD_DATA:
        sw_work_transpose(w,
                          sw_images_to_tile(job->in, in, c->n, c->k, windows));
        sw_work_transpose(
            w, sw_weights_to_tile_backward(job->by, by, c->k, c->c, taps));
        break;
    case CONV_BACKWARD_WEIGHTS:
        sw_work_transpose(
            w, sw_images_to_tile_backward(job->in, in, c->n, c->c, places));
        sw_work_transpose(w,
                          sw_images_to_tile(job->by, by, c->n, c->k, windows));
        break;
    default:
        sw_work_transpose(w,
                          sw_images_to_tile(job->in, in, c->n, c->c, places));
        sw_work_transpose(w, sw_weights_to_tile(job->by, by, c->k, c->c, taps));
    }
}

static void leave(struct sw_work *w, const float *out)
{
    const struct sw_conv *job = w->job;
    const struct conv *c = &job->conv;
    if (job->pass == CONV_FORWARD)
        sw_work_transpose(w, sw_images_from_tile(out, job->out, c->n, c->k,
                                                 c->out_h * c->out_w));
    else if (job->pass == CONV_BACKWARD_DATA)
        sw_work_transpose(
            w, sw_images_from_tile(out, job->out, c->n, c->c, c->h * c->w));
    else
        sw_work_transpose(w, sw_weights_from_tile(out, job->out, c->k, c->c,
                                                  c->kernel_h * c->kernel_w));
}

/* The three tensors in the tile's order, of the scratch. */
struct tensors {
    float *in, *by, *out;
};

static struct tensors take_tensors(struct sw_work *w)
{
    const struct conv *c = &w->job->conv;
    const size_t x = conv_inputs(c), y = conv_outputs(c), k = conv_weights(c);
    const enum conv_pass pass = w->job->pass;
    return (struct tensors){
        .in = sw_work_floats(w, pass == CONV_BACKWARD_DATA ? y : x),
        .by = sw_work_floats(w, pass == CONV_BACKWARD_WEIGHTS ? y : k),
        .out = sw_work_floats(w, pass == CONV_FORWARD         ? y
                                 : pass == CONV_BACKWARD_DATA ? x
                                                              : k),
    };
}

/* --- two of the ways ---------------------------------------------------- */

void sw_work_implicit(struct sw_work *w)
{
    const struct sw_conv *job = w->job;
    const struct tensors t = take_tensors(w);
    struct sw_implicit run = {.geometry = sw_geometry_of(&job->conv, job->pass),
                              .in = t.in,
                              .weights = t.by,
                              .out = t.out};
    if (!w->scratch)
        return;
    if (job->plan)
        run.plan = *job->plan;
    else
        sw_plan_best(&run.geometry,
                     job->pass == CONV_FORWARD ? SW_FORWARD_KB : SW_BACKWARD_KB,
                     &run.plan);
    enter(w, t.in, t.by);
    sw_work_settle(w, &w->counts.work, sw_implicit(w->machine, &run));
    leave(w, t.out);
}

/* By transformed weights, or to the gradient of the window. */
static const char *run_winograd(struct sw_work *w, const struct tensors *t,
                                struct sw_geometry g,
                                struct sw_winograd_plan plan, float *windows)
{
    if (w->job->pass == CONV_BACKWARD_WEIGHTS)
        return sw_winograd_gradient(
            w->machine,
            &(struct sw_winograd_gradient){g, plan, t->in, t->by, t->out});
    const char *error = sw_winograd_windows(
        w->machine, &(struct sw_window_job){plan.form, sw_times(g.no, g.ni, 1),
                                            t->by, windows});
    return error
               ? error
               : sw_winograd(w->machine, &(struct sw_winograd){
                                             g, plan, t->in, windows, t->out});
}

void sw_work_winograd(struct sw_work *w)
{
    const struct sw_conv *job = w->job;
    const struct sw_geometry g = sw_winograd_geometry(&job->conv, job->pass);
    const struct tensors t = take_tensors(w);
    struct sw_winograd_plan plan = {.form = SW_F2};
    if (job->winograd)
        plan = *job->winograd;
    else
        sw_winograd_best(&g, job->pass, &plan);
    const int in = sw_forms[plan.form].in;
    const bool learns = job->pass == CONV_BACKWARD_WEIGHTS;
    float *windows =
        sw_work_floats(w, learns ? 0 : sw_times(in * in, g.no, g.ni));
    if (!w->scratch)
        return;
    enter(w, t.in, t.by);
    sw_work_settle(w, &w->counts.work, run_winograd(w, &t, g, plan, windows));
    leave(w, t.out);
}

/* --- all ---------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*work)(struct sw_work *);
} ways[SW_WAYS] = {
    [SW_EXPLICIT] = {"explicit", sw_work_explicit},
    [SW_IMPLICIT] = {"implicit", sw_work_implicit},
    [SW_WINOGRAD] = {"winograd", sw_work_winograd},
};

const char *sw_way_name(enum sw_way way)
{
    return ways[way].name;
}

/* If it goes that way. */
static const char *obstacle(const struct sw_conv *job, enum sw_way way)
{
    const struct conv *c = &job->conv;
    if (way == SW_EXPLICIT)
        return sw_matrices_cannot(c, sw_conv_images(job));
    if (way == SW_WINOGRAD)
        return sw_winograd_can(c, job->pass)
                   ? NULL
                   : "the kernel is not 3x3 with stride 1, or the mesh cannot "
                     "be dealt so";
    return sw_implicit_can(c, job->pass)
               ? NULL
               : "stride, dilation or groups are not 1, or the mesh cannot be "
                 "dealt so";
}

static enum sw_way fastest(const struct sw_conv *job)
{
    enum sw_way best = SW_EXPLICIT;
    double least = 0;
    for (int way = SW_EXPLICIT; way < SW_WAYS; way++) {
        struct sw_conv one = *job;
        one.way = (enum sw_way)way;
        if (obstacle(&one, one.way))
            continue;
        const double seconds = sw_conv_seconds(&one, sw_speed_high);
        if (least == 0 || seconds < least) {
            best = one.way;
            least = seconds;
        }
    }
    return best;
}

enum sw_way sw_conv_way(const struct sw_conv *job)
{
    switch (job->way) {
    case SW_BY_RULE:
        return sw_implicit_is_taken(&job->conv, job->pass) ? SW_IMPLICIT
                                                           : SW_EXPLICIT;
    case SW_BY_MODEL:
        return fastest(job);
    default:
        return job->way;
    }
}

int sw_conv_images(const struct sw_conv *job)
{
    return job->images ? job->images
                       : sw_matrices_images(&job->conv, job->pass);
}

const char *sw_conv_cannot(const struct sw_conv *job)
{
    return obstacle(job, sw_conv_way(job));
}

size_t sw_conv_scratch(const struct sw_conv *job)
{
    struct sw_work w = {.job = job};
    ways[sw_conv_way(job)].work(&w);
    return w.used;
}

const char *sw_conv(struct sw_machine *m, const struct sw_conv *job,
                    float *scratch, struct sw_conv_counts *counts)
{
    struct sw_work w = {.machine = m, .job = job, .scratch = scratch};
    sw_machine_clear(m);
    ways[sw_conv_way(job)].work(&w);
    if (job->pass == CONV_BACKWARD_WEIGHTS && job->conv.n == 0)
        memset(job->out, 0, sizeof(float) * conv_weights(&job->conv));
    if (counts)
        *counts = w.counts;
    return w.error;
}
