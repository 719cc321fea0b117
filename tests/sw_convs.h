/* SPDX-License-Identifier: MIT */
/* What tests of convolution on the Sunway core group in software share: a
 * problem with the results of the definition, and a run of one pass, which
 * compares both these and what is counted. */
#ifndef TESTS_SW_CONVS_H
#define TESTS_SW_CONVS_H

#include "sw_checks.h"

#include <math.h>

#include "kernels/sw/sw_cost.h"
#include "thorough.h"

/* A convolution with all that it reads, and what is right. */
struct layer {
    struct conv c;
    char words[160];
    size_t nx, ny, nw;
    double off; /* what results may be off, of the largest; 0: nothing */
    float *x, *w, *dy, *y, *dx, *dw;
};

/* All three passes at once; each product counts for what it goes into. */
static inline void reference(struct layer *l)
{
    const struct conv *c = &l->c;
    const int in = c->c / c->groups, per = c->k / c->groups;
    const int taps = c->kernel_h * c->kernel_w;
    memset(l->y, 0, l->ny * sizeof(float));
    memset(l->dx, 0, l->nx * sizeof(float));
    memset(l->dw, 0, l->nw * sizeof(float));
    for (int o = 0; o < (int)l->ny; o++) {
        const int q = o % c->out_w, r = o / c->out_w % c->out_h;
        const int k = o / c->out_w / c->out_h % c->k;
        const int n = o / c->out_w / c->out_h / c->k;
        for (int m = 0; m < in * taps; m++) {
            const int row = r * c->stride_h - c->pad_h
                            + m % taps / c->kernel_w * c->dilation_h;
            const int column =
                q * c->stride_w - c->pad_w + m % c->kernel_w * c->dilation_w;
            const int channel = k / per * in + m / taps;
            if (row < 0 || row >= c->h || column < 0 || column >= c->w)
                continue;
            const int a = ((n * c->c + channel) * c->h + row) * c->w + column;
            const int b = k * in * taps + m;
            l->y[o] += l->x[a] * l->w[b];
            l->dx[a] += l->dy[o] * l->w[b];
            l->dw[b] += l->dy[o] * l->x[a];
        }
    }
}

/* False if no window fits. */
static inline bool make(struct layer *l, struct conv c, uint64_t seed)
{
    snprintf(l->words, sizeof(l->words),
             "%d of %dx%dx%d, %d outputs of %d groups, %dx%d stride %dx%d pad "
             "%dx%d dilation %dx%d",
             c.n, c.c, c.h, c.w, c.k, c.groups, c.kernel_h, c.kernel_w,
             c.stride_h, c.stride_w, c.pad_h, c.pad_w, c.dilation_h,
             c.dilation_w);
    if (!conv_set_outputs(&c))
        return false;
    l->c = c;
    l->off = 0;
    l->nx = (size_t)(c.n * c.c * c.h * c.w);
    l->ny = (size_t)(c.n * c.k * c.out_h * c.out_w);
    l->nw = (size_t)(c.k * (c.c / c.groups) * c.kernel_h * c.kernel_w);
    l->x = eighths(l->nx, seed);
    l->w = eighths(l->nw, seed + 1);
    l->dy = eighths(l->ny, seed + 2);
    l->y = unset(l->ny);
    l->dx = unset(l->nx);
    l->dw = unset(l->nw);
    reference(l);
    return true;
}

static inline void drop(struct layer *l)
{
    float *all[] = {l->x, l->w, l->dy, l->y, l->dx, l->dw};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static inline void close_to(const float *found, const float *wanted,
                            size_t count, const struct layer *l)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)wanted[i]));
    for (size_t i = 0; i < count; i++)
        require(fabs((double)found[i] - (double)wanted[i]) <= l->off * largest,
                "%s: [%zu] is %.9g, not %.9g", l->words, i, (double)found[i],
                (double)wanted[i]);
}

/* What is counted is what the cost model counts without running it. */
static inline void as_expected(const struct layer *l,
                               const struct sw_counts *found,
                               struct sw_counts wanted)
{
    require(found->get_bytes == wanted.get_bytes
                && found->put_bytes == wanted.put_bytes,
            "%s: gets %zu and puts %zu bytes, not %zu and %zu", l->words,
            found->get_bytes, found->put_bytes, wanted.get_bytes,
            wanted.put_bytes);
    require(found->row_messages == wanted.row_messages
                && found->column_messages == wanted.column_messages
                && found->instructions == wanted.instructions,
            "%s: messages or instructions", l->words);
}

/* One pass of it, as it is asked for, and what was counted. */
static inline struct sw_conv_counts
run_conv(struct sw_machine *machine, const struct layer *l, struct sw_conv job)
{
    const float *wanted[] = {l->y, l->dx, l->dw};
    const size_t count[] = {l->ny, l->nx, l->nw};
    struct sw_conv_counts counts;
    job.conv = l->c;
    job.in = job.pass == CONV_BACKWARD_DATA ? l->dy : l->x;
    job.by = job.pass == CONV_BACKWARD_WEIGHTS ? l->dy : l->w;
    job.out = unset(count[job.pass]);
    const char *cannot = sw_conv_cannot(&job);
    require(!cannot, "%s: %s", l->words, cannot);
    float *scratch = unset(sw_conv_scratch(&job));
    const char *error = sw_conv(machine, &job, scratch, &counts);
    require(!error, "%s: %s", l->words, error);
    if (l->off == 0)
        equal(job.out, wanted[job.pass], count[job.pass], l->words);
    else
        close_to(job.out, wanted[job.pass], count[job.pass], l);
    require(counts.work.ldm_bytes <= SW_LDM_BYTES, "too much LDM");
    as_expected(l, &counts.work, sw_conv_expected(&job));
    free(scratch);
    free(job.out);
    return counts;
}

#endif
