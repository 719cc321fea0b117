/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_conv.h"

#include <string.h>

#include "kernels/conv_size.h"
#include "kernels/sw/sw_implicit.h"
#include "kernels/sw/sw_matrices.h"
#include "kernels/sw/sw_numbers.h"
#include "kernels/sw/sw_work.h"

/* --- implicit ----------------------------------------------------------- */

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

void sw_work_implicit(struct sw_work *w)
{
    const struct sw_conv *job = w->job;
    const struct sw_geometry g = sw_geometry_of(&job->conv, job->pass);
    float *in = sw_work_floats(w, sw_times(g.in_h, g.in_w, g.b) * (size_t)g.ni);
    float *by = sw_work_floats(w, sw_times(g.kernel_h, g.kernel_w, g.no)
                                      * (size_t)g.ni);
    float *out =
        sw_work_floats(w, sw_times(g.out_h, g.out_w, g.b) * (size_t)g.no);
    struct sw_implicit run = {
        .geometry = g, .in = in, .weights = by, .out = out};
    if (!w->scratch)
        return;
    if (job->plan)
        run.plan = *job->plan;
    else
        sw_plan_best(&g,
                     job->pass == CONV_FORWARD ? SW_FORWARD_KB : SW_BACKWARD_KB,
                     &run.plan);
    enter(w, in, by);
    sw_work_settle(w, &w->counts.work, sw_implicit(w->machine, &run));
    leave(w, out);
}

/* --- all ---------------------------------------------------------------- */

bool sw_conv_is_implicit(const struct sw_conv *job)
{
    return job->way == SW_IMPLICIT
           || (job->way == SW_BY_RULE
               && sw_implicit_is_taken(&job->conv, job->pass));
}

const char *sw_conv_way(const struct sw_conv *job)
{
    return sw_conv_is_implicit(job) ? "implicit" : "explicit";
}

int sw_conv_images(const struct sw_conv *job)
{
    return job->images ? job->images
                       : sw_matrices_images(&job->conv, job->pass);
}

const char *sw_conv_cannot(const struct sw_conv *job)
{
    if (sw_conv_is_implicit(job))
        return sw_implicit_can(&job->conv, job->pass)
                   ? NULL
                   : "the mesh cannot be dealt so";
    return sw_matrices_cannot(&job->conv, sw_conv_images(job));
}

static void all(struct sw_work *w)
{
    if (sw_conv_is_implicit(w->job))
        sw_work_implicit(w);
    else
        sw_work_explicit(w);
}

size_t sw_conv_scratch(const struct sw_conv *job)
{
    struct sw_work w = {.job = job};
    all(&w);
    return w.used;
}

const char *sw_conv(struct sw_machine *m, const struct sw_conv *job,
                    float *scratch, struct sw_conv_counts *counts)
{
    struct sw_work w = {.machine = m, .job = job, .scratch = scratch};
    sw_machine_clear(m);
    all(&w);
    if (job->pass == CONV_BACKWARD_WEIGHTS && job->conv.n == 0)
        memset(job->out, 0, sizeof(float) * conv_weights(&job->conv));
    if (counts)
        *counts = w.counts;
    return w.error;
}
