/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_winograd.h"

#include <string.h>

#include "kernels/sw/sw_gemm.h"
#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"
#include "kernels/sw/sw_numbers.h"
#include "kernels/sw/sw_winograd_tiles.h"

/* --- windows ------------------------------------------------------------ */

enum { WINDOWS = 128, TAPS = SW_WINDOW * SW_WINDOW };

void sw_winograd_windows_all(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_window_job *job = argument;
    const struct sw_form *f = &sw_forms[job->form];
    const int places = f->in * f->in;
    double *x = sw_ldm(cpe, sizeof(double) * sw_times(places, WINDOWS, 1));
    for (size_t at = (size_t)sw_number(cpe) * WINDOWS; at < job->count;
         at += (size_t)SW_CPES * WINDOWS) {
        const int count =
            (int)(job->count - at < WINDOWS ? job->count - at : WINDOWS);
        sw_bring_rows(cpe, sw_upper_half(x, TAPS * count), job->from + at,
                      sw_rows(TAPS, (size_t)count, job->count));
        sw_widen(x, TAPS * count);
        sw_form_apply(&f->g, x, count);
        sw_count(cpe,
                 (size_t)sw_parts(count, SW_LANES) * sw_form_operations(&f->g));
        sw_narrow(x, places * count);
        sw_take_rows(cpe, x, job->to + at,
                     sw_rows((size_t)places, (size_t)count, job->count));
    }
}

const char *sw_winograd_windows(struct sw_machine *m,
                                const struct sw_window_job *job)
{
    return sw_spawn(m, sw_winograd_windows_all, job, sizeof(*job));
}

/* --- a pass ------------------------------------------------------------- */

struct pass {
    struct sw_cpe *cpe;
    const struct sw_winograd *job;
    const struct sw_form *form;
    int row, column;
    int image, output;     /* the first of the block, of all CPEs */
    int down, across, now; /* tiles: where they are, and how many */
    struct sw_block size;
    double *in, *weights[2], *product, *out;
    struct sw_reply reply; /* of weights */
};

static void bring_tiles(struct pass *p)
{
    const struct sw_geometry *g = &p->job->geometry;
    const struct sw_tiles tiles = {
        .from = p->job->in + sw_times(p->column, p->size.k, g->b)
                + (size_t)(p->image + p->row * p->size.m),
        .place = sw_times(g->ni, g->b, 1),
        .stretch = sw_rows((size_t)p->size.k, (size_t)p->size.m, (size_t)g->b),
        .count = p->size.k * p->size.m,
        .h = g->in_h,
        .w = g->in_w,
        .top = p->down * p->form->out - g->pad_h,
        .left = p->across * p->form->out - g->pad_w,
        .side = p->form->in,
        .apart = p->form->out,
    };
    sw_tiles_bring(p->cpe, &tiles, &p->form->bt, p->in, p->now);
}

static void start_weights(struct pass *p, int place)
{
    const struct sw_geometry *g = &p->job->geometry;
    const size_t output =
        sw_times(place, g->no, 1) + (size_t)(p->output + p->column * p->size.n);
    sw_get(p->cpe, sw_upper_half(p->weights[place % 2], p->size.n * p->size.k),
           p->job->weights + output * (size_t)g->ni
               + (size_t)(p->row * p->size.k),
           sw_rows((size_t)p->size.n, (size_t)p->size.k, (size_t)g->ni),
           &p->reply);
}

/* What a place of the product is to those of y. */
static void spread(struct pass *p, int place, double *y)
{
    const struct sw_matrix *at = &p->form->at;
    const int count = p->size.n * p->size.m;
    for (int i = 0; i < at->rows; i++)
        for (int j = 0; j < at->rows; j++, y += count) {
            const double by =
                at->at[i][place / p->form->in] * at->at[j][place % p->form->in];
            for (int k = 0; by != 0 && k < count; k++)
                y[k] += by * p->product[k];
            sw_count(p->cpe, by != 0 ? (size_t)sw_parts(count, SW_LANES) : 0);
        }
}

/* The products of all tiles for one place. */
static void of_place(struct pass *p, int place, const double *weights)
{
    const struct sw_form *f = p->form;
    const int in = p->size.k * p->size.m, out = p->size.n * p->size.m;
    for (int tile = 0; tile < p->now; tile++) {
        memset(p->product, 0, sizeof(double) * (size_t)out);
        sw_mesh_gemm(p->cpe, p->size,
                     p->in + sw_times(tile * f->in * f->in + place, in, 1),
                     weights, p->product);
        spread(p, place, p->out + sw_times(tile, f->out * f->out, out));
    }
}

/* A block of outputs; while one place is multiplied, the next one's weights are
 * on their way. */
static void multiply(struct pass *p)
{
    const int places = p->form->in * p->form->in;
    const int count = p->size.n * p->size.k;
    p->reply.done = 0;
    start_weights(p, 0);
    for (int place = 0; place < places; place++) {
        double *weights = p->weights[place % 2];
        sw_wait(p->cpe, &p->reply, place + 1);
        if (place + 1 < places)
            start_weights(p, place + 1);
        sw_widen(weights, count);
        of_place(p, place, weights);
    }
}

static void take_outputs(struct pass *p)
{
    const struct sw_geometry *g = &p->job->geometry;
    const int side = p->form->out, count = p->size.n * p->size.m;
    for (int i = 0; i < p->now * side * side; i++) {
        const int tile = i / side / side;
        const int y = p->down * side + i / side % side;
        const int x = (p->across + tile) * side + i % side;
        double *from = p->out + sw_times(i, count, 1);
        if (y >= g->out_h || x >= g->out_w)
            continue;
        sw_narrow(from, count);
        sw_take_rows(
            p->cpe, from,
            p->job->out
                + (sw_times(y, g->out_w, g->no) + sw_times(x, g->no, 1)
                   + (size_t)(p->output + p->column * p->size.n))
                      * (size_t)g->b
                + (size_t)(p->image + p->row * p->size.m),
            sw_rows((size_t)p->size.n, (size_t)p->size.m, (size_t)g->b));
    }
}

/* Tiles side by side, all outputs. */
static void of_tiles(struct pass *p)
{
    const struct sw_winograd *job = p->job;
    const size_t out =
        sw_times(p->form->out * p->form->out, p->size.n, p->size.m);
    bring_tiles(p);
    for (p->output = 0; p->output < job->geometry.no;
         p->output += job->plan.outputs) {
        memset(p->out, 0, sizeof(double) * (size_t)p->now * out);
        multiply(p);
        take_outputs(p);
    }
}

static double *room(struct sw_cpe *cpe, int a, int b, int c)
{
    return sw_ldm(cpe, sizeof(double) * sw_times(a, b, c));
}

void sw_winograd_all(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_winograd *job = argument;
    const struct sw_geometry *g = &job->geometry;
    const struct sw_winograd_plan *plan = &job->plan;
    const struct sw_form *f = &sw_forms[plan->form];
    const struct sw_block size = {plan->images / SW_SIDE,
                                  plan->outputs / SW_SIDE, g->ni / SW_SIDE};
    const int down = sw_tiles_down(g, plan->form);
    const int across = sw_tiles_across(g, plan->form);
    struct pass p = {
        .cpe = cpe,
        .job = job,
        .form = f,
        .row = sw_row(cpe),
        .column = sw_column(cpe),
        .size = size,
        .in = room(cpe, plan->tiles * f->in * f->in, size.k, size.m),
        .weights = {room(cpe, size.n, size.k, 1), room(cpe, size.n, size.k, 1)},
        .product = room(cpe, size.n, size.m, 1),
        .out = room(cpe, plan->tiles * f->out * f->out, size.n, size.m),
    };
    for (; p.image < g->b; p.image += plan->images)
        for (p.down = 0; p.down < down; p.down++)
            for (p.across = 0; p.across < across; p.across += plan->tiles) {
                p.now = sw_least(plan->tiles, across - p.across);
                of_tiles(&p);
            }
}

const char *sw_winograd(struct sw_machine *m, const struct sw_winograd *job)
{
    return sw_spawn(m, sw_winograd_all, job, sizeof(*job));
}
