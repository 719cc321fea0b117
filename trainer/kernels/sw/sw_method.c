/* SPDX-License-Identifier: MIT */
/* The machine as a way to convolve: a struct conv_method. A machine lies in
 * the scratch of each call, and plain copies of the tensors beside it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/conv_size.h"
#include "kernels/sw/sw_conv.h"

enum { LINE = 64 }; /* bytes to which a machine is aligned */

static size_t machine_floats(void)
{
    return (sw_machine_bytes() + LINE) / sizeof(float) + 1;
}

static enum sw_way way_of_all = SW_BY_MODEL;

void sw_method_use(enum sw_way way)
{
    way_of_all = way;
}

static struct sw_conv job_of(const struct conv *c, enum conv_pass pass)
{
    return (struct sw_conv){.conv = *c, .pass = pass, .way = way_of_all};
}

static const char *cannot(const struct conv *c, enum conv_pass pass)
{
    const struct sw_conv job = job_of(c, pass);
    if (c->plain && pass == CONV_BACKWARD_DATA)
        return "there is no gradient of a plain input";
    return sw_conv_cannot(&job);
}

static const char *way(const struct conv *c, enum conv_pass pass)
{
    const struct sw_conv job = job_of(c, pass);
    return sw_way_name(sw_conv_way(&job));
}

static size_t scratch_of(const struct conv *c, enum conv_pass pass)
{
    const struct sw_conv job = job_of(c, pass);
    return machine_floats() + conv_inputs(c) + conv_outputs(c) + conv_weights(c)
           + sw_conv_scratch(&job);
}

struct floats {
    float *x, *y, *dw, *rest;
    struct sw_machine *machine;
};

static struct floats lay_out(const struct conv *c, float *scratch)
{
    const uintptr_t at = (uintptr_t)scratch;
    struct floats f;
    f.machine =
        sw_machine_create((unsigned char *)scratch + (LINE - at % LINE) % LINE);
    f.x = scratch + machine_floats();
    f.y = f.x + conv_inputs(c);
    f.dw = f.y + conv_outputs(c);
    f.rest = f.dw + conv_weights(c);
    return f;
}

/* What the machine finds wrong is our own mistake. */
static void run(struct floats *f, const struct conv *c, enum conv_pass pass,
                const float *in, const float *by, float *out)
{
    struct sw_conv job = job_of(c, pass);
    job.in = in;
    job.by = by;
    job.out = out;
    const char *error = sw_conv(f->machine, &job, f->rest, NULL);
    if (error) {
        fprintf(stderr, "convolution by tiles: %s\n", error);
        abort();
    }
    sw_machine_free(f->machine);
}

static const float *plain_x(const struct conv *c, const float *x, float *to)
{
    if (c->plain)
        return x;
    conv_to_plain(x, to, c->n, c->c, c->h, c->w);
    return to;
}

static void forward(const struct conv *c, const float *x, const float *w,
                    const float *bias, float *y, float *scratch)
{
    struct floats f = lay_out(c, scratch);
    const size_t plane = (size_t)c->out_h * (size_t)c->out_w;
    run(&f, c, CONV_FORWARD, plain_x(c, x, f.x), w, f.y);
    for (size_t i = 0; bias && i < conv_outputs(c); i++)
        f.y[i] += bias[i / plane % (size_t)c->k];
    conv_to_blocked(f.y, y, c->n, c->k, c->out_h, c->out_w);
}

static void backward_data(const struct conv *c, const float *dy, const float *w,
                          float *dx, float *scratch)
{
    struct floats f = lay_out(c, scratch);
    conv_to_plain(dy, f.y, c->n, c->k, c->out_h, c->out_w);
    run(&f, c, CONV_BACKWARD_DATA, f.y, w, f.x);
    conv_to_blocked(f.x, dx, c->n, c->c, c->h, c->w);
}

static void backward_weights(const struct conv *c, const float *x,
                             const float *dy, float *dw, float *scratch)
{
    struct floats f = lay_out(c, scratch);
    conv_to_plain(dy, f.y, c->n, c->k, c->out_h, c->out_w);
    run(&f, c, CONV_BACKWARD_WEIGHTS, plain_x(c, x, f.x), f.y, f.dw);
    for (size_t i = 0; i < conv_weights(c); i++)
        dw[i] += f.dw[i];
}

const struct conv_method conv_tile_sw = {
    .name = "tile",
    .cannot = cannot,
    .way = way,
    .scratch = scratch_of,
    .forward = forward,
    .backward_data = backward_data,
    .backward_weights = backward_weights,
};
