/* SPDX-License-Identifier: MIT */
/* The gradient of a window by Winograd's algorithm: sums over all tiles and
 * images stay in the LDM, a block of outputs and inputs at a time, and are
 * transformed there at the end. */
#include <string.h>

#include "kernels/sw/sw_gemm.h"
#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"
#include "kernels/sw/sw_numbers.h"
#include "kernels/sw/sw_winograd.h"
#include "kernels/sw/sw_winograd_tiles.h"

enum { TAPS = SW_WINDOW * SW_WINDOW };

struct sums {
    struct sw_cpe *cpe;
    const struct sw_winograd_gradient *job;
    const struct sw_form *form;
    int row, column;
    int output, input; /* the first of the block, of all CPEs */
    struct sw_block size;
    double *in, *by, *sum;
};

/* From where on: of the images, and of the tiles, so many of them. */
struct turn {
    int image, down, across, tiles;
};

static void bring_inputs(struct sums *s, const struct turn *t)
{
    const struct sw_geometry *g = &s->job->geometry;
    const struct sw_tiles tiles = {
        .from = s->job->in
                + sw_times(t->image + s->column * s->size.k, g->ni, 1)
                + (size_t)(s->input + s->row * s->size.m),
        .place = sw_times(g->ni, g->b, 1),
        .stretch = sw_rows((size_t)s->size.k, (size_t)s->size.m, (size_t)g->ni),
        .count = s->size.k * s->size.m,
        .h = g->in_h,
        .w = g->in_w,
        .top = t->down * s->form->out - g->pad_h,
        .left = t->across * s->form->out - g->pad_w,
        .side = s->form->in,
        .apart = s->form->out,
    };
    sw_tiles_bring(s->cpe, &tiles, &s->form->bt, s->in, t->tiles);
}

static void bring_outputs(struct sums *s, const struct turn *t)
{
    const struct sw_geometry *g = &s->job->geometry;
    const struct sw_tiles tiles = {
        .from = s->job->by
                + sw_times(s->output + s->column * s->size.n, g->b, 1)
                + (size_t)(t->image + s->row * s->size.k),
        .place = sw_times(g->no, g->b, 1),
        .stretch = sw_rows((size_t)s->size.n, (size_t)s->size.k, (size_t)g->b),
        .count = s->size.n * s->size.k,
        .h = g->out_h,
        .w = g->out_w,
        .top = t->down * s->form->out,
        .left = t->across * s->form->out,
        .side = s->form->out,
        .apart = s->form->out,
    };
    sw_tiles_bring(s->cpe, &tiles, &s->form->a, s->by, t->tiles);
}

static void add_products(struct sums *s, int tiles)
{
    const int places = s->form->in * s->form->in;
    const int in = s->size.k * s->size.m, by = s->size.n * s->size.k;
    for (int i = 0; i < tiles * places; i++)
        sw_mesh_gemm(s->cpe, s->size, s->in + sw_times(i, in, 1),
                     s->by + sw_times(i, by, 1),
                     s->sum + sw_times(i % places, s->size.n, s->size.m));
}

static void take_windows(struct sums *s)
{
    const struct sw_geometry *g = &s->job->geometry;
    const int count = s->size.n * s->size.m;
    sw_form_apply(&s->form->gt, s->sum, count);
    sw_count(s->cpe, (size_t)sw_parts(count, SW_LANES)
                         * sw_form_operations(&s->form->gt));
    for (int tap = 0; tap < TAPS; tap++) {
        double *from = s->sum + sw_times(tap, count, 1);
        const size_t output = sw_times(tap, g->no, 1)
                              + (size_t)(s->output + s->column * s->size.n);
        sw_narrow(from, count);
        sw_take_rows(
            s->cpe, from,
            s->job->out + output * (size_t)g->ni
                + (size_t)(s->input + s->row * s->size.m),
            sw_rows((size_t)s->size.n, (size_t)s->size.m, (size_t)g->ni));
    }
}

/* A block of outputs and inputs. */
static void of_block(struct sums *s)
{
    const struct sw_geometry *g = &s->job->geometry;
    const struct sw_winograd_plan *plan = &s->job->plan;
    const int down = sw_tiles_down(g, plan->form);
    const int across = sw_tiles_across(g, plan->form);
    struct turn t = {0};
    memset(s->sum, 0,
           sizeof(double)
               * sw_times(s->form->in * s->form->in, s->size.n, s->size.m));
    for (; t.image < g->b; t.image += plan->images)
        for (t.down = 0; t.down < down; t.down++)
            for (t.across = 0; t.across < across; t.across += plan->tiles) {
                t.tiles = sw_least(plan->tiles, across - t.across);
                bring_inputs(s, &t);
                bring_outputs(s, &t);
                add_products(s, t.tiles);
            }
    take_windows(s);
}

static double *room(struct sw_cpe *cpe, int a, int b, int c)
{
    return sw_ldm(cpe, sizeof(double) * sw_times(a, b, c));
}

void sw_winograd_gradient_all(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_winograd_gradient *job = argument;
    const struct sw_winograd_plan *plan = &job->plan;
    const struct sw_form *f = &sw_forms[plan->form];
    const struct sw_block size = {plan->inputs / SW_SIDE,
                                  plan->outputs / SW_SIDE,
                                  plan->images / SW_SIDE};
    const int places = f->in * f->in;
    struct sums s = {
        .cpe = cpe,
        .job = job,
        .form = f,
        .row = sw_row(cpe),
        .column = sw_column(cpe),
        .size = size,
        .in = room(cpe, plan->tiles * places, size.k, size.m),
        .by = room(cpe, plan->tiles * places, size.n, size.k),
        .sum = room(cpe, places, size.n, size.m),
    };
    for (; s.output < job->geometry.no; s.output += plan->outputs)
        for (s.input = 0; s.input < job->geometry.ni; s.input += plan->inputs)
            of_block(&s);
}

const char *sw_winograd_gradient(struct sw_machine *m,
                                 const struct sw_winograd_gradient *job)
{
    return sw_spawn(m, sw_winograd_gradient_all, job, sizeof(*job));
}
