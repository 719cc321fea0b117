/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_implicit.h"

#include <string.h>

#include "kernels/sw/sw_gemm.h"
#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"
#include "kernels/sw/sw_numbers.h"

/* Blocks of the input or of the weights as they come: one after the other into
 * the same place, or into two places in turn. */
struct stream {
    double *place;
    int count; /* numbers of a block */
    int places;
    int started, taken; /* transfers */
    struct sw_reply reply;
};

/* What a CPE has at hand. */
struct bench {
    struct sw_cpe *cpe;
    const struct sw_implicit *job;
    struct sw_geometry g;
    int row, column;
    int first_image; /* of the block, of all CPEs */
    int start, end;  /* columns of the block */
    struct sw_block size;
    int out_count; /* numbers of a column of the output */
    struct stream in, weights;
    double *out;
};

static struct sw_stretch rows(int count, int length, int apart)
{
    return sw_rows((size_t)count, (size_t)length, (size_t)apart);
}

static double *place(const struct stream *s, int i)
{
    return s->place + (size_t)(i % s->places) * (size_t)s->count;
}

static void start(struct bench *b, struct stream *s, const float *from,
                  struct sw_stretch stretch)
{
    sw_get(b->cpe, sw_upper_half(place(s, s->started), s->count), from, stretch,
           &s->reply);
    s->started++;
}

/* The next block, when it is there. */
static double *take(struct bench *b, struct stream *s)
{
    double *block = place(s, s->taken);
    s->taken++;
    sw_wait(b->cpe, &s->reply, s->taken);
    sw_widen(block, s->count);
    return block;
}

/* A column of the input at a row. */
static void start_input(struct bench *b, int row, int column)
{
    const struct sw_geometry *g = &b->g;
    const size_t channel =
        ((size_t)row * (size_t)g->in_w + (size_t)column) * (size_t)g->ni
        + (size_t)(b->column * b->size.k);
    start(b, &b->in,
          b->job->in + channel * (size_t)g->b
              + (size_t)(b->first_image + b->row * b->size.m),
          rows(b->size.k, b->size.m, g->b));
}

static void start_weights(struct bench *b, int i, int j)
{
    const struct sw_geometry *g = &b->g;
    const size_t output =
        ((size_t)i * (size_t)g->kernel_w + (size_t)j) * (size_t)g->no
        + (size_t)(b->column * b->size.n);
    start(b, &b->weights,
          b->job->weights + output * (size_t)g->ni
              + (size_t)(b->row * b->size.k),
          rows(b->size.n, b->size.k, g->ni));
}

static double *out_column(struct bench *b, int column)
{
    return b->out + (size_t)(column - b->start) * (size_t)b->out_count;
}

static void put_output(struct bench *b, int row)
{
    const struct sw_geometry *g = &b->g;
    struct sw_reply reply = {0};
    for (int column = b->start; column < b->end; column++) {
        double *from = out_column(b, column);
        const size_t channel =
            ((size_t)row * (size_t)g->out_w + (size_t)column) * (size_t)g->no
            + (size_t)(b->column * b->size.n);
        sw_narrow(from, b->out_count);
        sw_put(b->cpe, from,
               b->job->out + channel * (size_t)g->b
                   + (size_t)(b->first_image + b->row * b->size.m),
               rows(b->size.n, b->size.m, g->b), &reply);
        sw_wait(b->cpe, &reply, column - b->start + 1);
    }
}

/* Columns of the input that the block sees. */
static int first_seen(const struct bench *b)
{
    return sw_most(0, b->start - b->g.pad_w);
}

static int end_seen(const struct bench *b)
{
    return sw_least(b->g.in_w, b->end + b->g.kernel_w - 1 - b->g.pad_w);
}

/* --- one row of taps, with loads outside --------------------------------- */

/* A column of the input at a time, for all taps, whose weights are there. */
static void batch_outward(struct bench *b, int row, int i)
{
    const struct sw_geometry *g = &b->g;
    double *weights = b->weights.place;
    for (int j = 0; j < g->kernel_w; j++) {
        start_weights(b, i, j);
        take(b, &b->weights);
    }
    for (int x = first_seen(b); x < end_seen(b); x++) {
        start_input(b, row, x);
        const double *in = take(b, &b->in);
        for (int j = 0; j < g->kernel_w; j++) {
            const int column = x + g->pad_w - j;
            if (column >= b->start && column < b->end)
                sw_mesh_gemm(b->cpe, b->size, in,
                             weights + j * b->weights.count,
                             out_column(b, column));
        }
    }
    b->weights.started = b->weights.taken = b->weights.reply.done = 0;
}

/* A tap at a time, for all columns of the input, which are there. */
static void image_outward(struct bench *b, int row, int i)
{
    const struct sw_geometry *g = &b->g;
    const int from = first_seen(b);
    double *in = b->in.place;
    for (int x = from; x < end_seen(b); x++) {
        start_input(b, row, x);
        take(b, &b->in);
    }
    for (int j = 0; j < g->kernel_w; j++) {
        start_weights(b, i, j);
        const double *weights = take(b, &b->weights);
        for (int column = b->start; column < b->end; column++) {
            const int x = column + j - g->pad_w;
            if (x >= 0 && x < g->in_w)
                sw_mesh_gemm(b->cpe, b->size, in + (x - from) * b->in.count,
                             weights, out_column(b, column));
        }
    }
    b->in.started = b->in.taken = b->in.reply.done = 0;
}

/* --- one row of taps, block by block ------------------------------------ */

/* A product of a column of the input and the weights of a tap. */
struct pair {
    int x, j;
};

static int column_of(const struct bench *b, struct pair p)
{
    return p.x + b->g.pad_w - p.j;
}

/* Pairs in the order of the loops, from {first_seen, -1} or, tap by tap,
 * {first_seen - 1, 0}, on. False after the last. */
static bool next(const struct bench *b, bool tap_by_tap, struct pair *p)
{
    const int first = first_seen(b), end = end_seen(b), taps = b->g.kernel_w;
    do {
        if (tap_by_tap && ++p->x == end) {
            p->x = first;
            p->j++;
        }
        if (!tap_by_tap && ++p->j == taps) {
            p->j = 0;
            p->x++;
        }
        if (p->x >= end || p->j >= taps)
            return false;
    } while (column_of(b, *p) < b->start || column_of(b, *p) >= b->end);
    return true;
}

/* What a walk through the pairs loads: the slow operand once for each of its
 * values that the loops come by, the fast one for each pair. */
struct walk {
    struct bench *b;
    int row, i;
    bool tap_by_tap;
    struct pair fast; /* the next one to load for */
    int slow;         /* the next column or tap to load */
};

static void start_slow(struct walk *w)
{
    const int end = w->tap_by_tap ? w->b->g.kernel_w : end_seen(w->b);
    if (w->slow >= end)
        return;
    if (w->tap_by_tap)
        start_weights(w->b, w->i, w->slow++);
    else
        start_input(w->b, w->row, w->slow++);
}

static void start_fast(struct walk *w)
{
    if (!next(w->b, w->tap_by_tap, &w->fast))
        return;
    if (w->tap_by_tap)
        start_input(w->b, w->row, w->fast.x);
    else
        start_weights(w->b, w->i, w->fast.j);
}

/* The next block of a stream; with two places, the one after it is started
 * as soon as this one is there. */
static const double *step(struct walk *w, struct stream *s,
                          void (*start_next)(struct walk *))
{
    if (s->places == 1 || s->started == s->taken)
        start_next(w);
    const double *block = take(w->b, s);
    if (s->places == 2)
        start_next(w);
    return block;
}

/* The products of one column, or of one tap. */
static void of_slow(struct walk *w, int slow)
{
    struct bench *b = w->b;
    struct stream *fast = w->tap_by_tap ? &b->in : &b->weights;
    const double *held =
        step(w, w->tap_by_tap ? &b->weights : &b->in, start_slow);
    const int first = w->tap_by_tap ? first_seen(b) : 0;
    const int end = w->tap_by_tap ? end_seen(b) : b->g.kernel_w;
    for (int i = first; i < end; i++) {
        const struct pair p = {w->tap_by_tap ? i : slow,
                               w->tap_by_tap ? slow : i};
        const int column = column_of(b, p);
        if (column < b->start || column >= b->end)
            continue;
        const double *block = step(w, fast, start_fast);
        sw_mesh_gemm(b->cpe, b->size, w->tap_by_tap ? block : held,
                     w->tap_by_tap ? held : block, out_column(b, column));
    }
}

static void block_by_block(struct bench *b, int row, int i, bool tap_by_tap)
{
    const int first = first_seen(b);
    struct walk w = {
        .b = b,
        .row = row,
        .i = i,
        .tap_by_tap = tap_by_tap,
        .fast =
            tap_by_tap ? (struct pair){first - 1, 0 }
               : (struct pair){first,     -1},
        .slow = tap_by_tap ? 0 : first,
    };
    const int end = tap_by_tap ? b->g.kernel_w : end_seen(b);
    for (int slow = w.slow; slow < end; slow++)
        of_slow(&w, slow);
}

static void row_of_taps(struct bench *b, int row, int i)
{
    switch (b->job->plan.loops) {
    case SW_BATCH_AWARE_OUTWARD:
        batch_outward(b, row, i);
        break;
    case SW_IMAGE_AWARE_OUTWARD:
        image_outward(b, row, i);
        break;
    default:
        block_by_block(b, row, i, b->job->plan.loops == SW_IMAGE_AWARE);
    }
}

/* A row of the block: a sum over rows of taps, and then it is put. */
static void out_row(struct bench *b, int y)
{
    const struct sw_geometry *g = &b->g;
    memset(b->out, 0,
           sizeof(double) * (size_t)(b->end - b->start) * (size_t)b->out_count);
    for (int i = 0; i < g->kernel_h; i++) {
        const int row = y + i - g->pad_h;
        if (row >= 0 && row < g->in_h)
            row_of_taps(b, row, i);
    }
    put_output(b, y);
}

static void take_ldm(struct bench *b)
{
    const struct sw_plan *p = &b->job->plan;
    b->in.places = p->loops == SW_IMAGE_AWARE_OUTWARD
                       ? p->columns + b->g.kernel_w - 1
                       : p->buffers;
    b->weights.places =
        p->loops == SW_BATCH_AWARE_OUTWARD ? b->g.kernel_w : p->buffers;
    b->in.place =
        sw_ldm(b->cpe, sizeof(double) * (size_t)(b->in.places * b->in.count));
    b->weights.place =
        sw_ldm(b->cpe,
               sizeof(double) * (size_t)(b->weights.places * b->weights.count));
    b->out =
        sw_ldm(b->cpe, sizeof(double) * (size_t)(p->columns * b->out_count));
}

void sw_implicit_all(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_implicit *job = argument;
    const struct sw_plan *p = &job->plan;
    struct bench b = {
        .cpe = cpe,
        .job = job,
        .g = job->geometry,
        .row = sw_row(cpe),
        .column = sw_column(cpe),
        .size = {p->images / SW_SIDE, job->geometry.no / SW_SIDE,
                 job->geometry.ni / SW_SIDE},
    };
    b.in.count = b.size.k * b.size.m;
    b.weights.count = b.size.n * b.size.k;
    b.out_count = b.size.n * b.size.m;
    take_ldm(&b);
    for (; b.first_image < b.g.b; b.first_image += p->images)
        for (b.start = 0; b.start < b.g.out_w; b.start = b.end) {
            b.end = sw_least(b.g.out_w, b.start + p->columns);
            for (int y = 0; y < b.g.out_h; y++)
                out_row(&b, y);
        }
}

const char *sw_implicit(struct sw_machine *m, const struct sw_implicit *job)
{
    return sw_spawn(m, sw_implicit_all, job, sizeof(*job));
}
