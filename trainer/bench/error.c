/* SPDX-License-Identifier: MIT */
#include "bench/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/operands.h"
#include "bench/reference.h"
#include "kernels/conv_size.h"

enum { LEAST_OUTPUTS = 5, LEAST_IMAGES = 2 };
static const double most_flops = 8e7; /* of the loops in double */

static bool too_much(const struct conv *c)
{
    return conv_flops(c) > most_flops;
}

/* Whether what is found for the smaller one holds for the other. */
static bool same_way(const struct conv *less, const struct conv *c,
                     const struct conv_method *m, enum conv_pass pass)
{
    return !m->way
           || (!m->cannot(less, pass)
               && !strcmp(m->way(less, pass), m->way(c, pass)));
}

/* A row or column of outputs less; false: it has to stay. */
static bool shrink(struct conv *c)
{
    struct conv less = *c;
    if (c->out_h >= c->out_w)
        less.h -= c->stride_h;
    else
        less.w -= c->stride_w;
    if ((c->out_h <= LEAST_OUTPUTS && c->out_w <= LEAST_OUTPUTS) || less.h < 1
        || less.w < 1 || !conv_set_outputs(&less))
        return false;
    *c = less;
    return true;
}

/* The fewest images, but for `least`, with which it is still computed as it
 * is: down past numbers with which it is not. */
static void drop_images(struct conv *c, int least, const struct conv_method *m,
                        enum conv_pass pass)
{
    struct conv less = *c;
    while (too_much(c) && less.n-- > least)
        if (same_way(&less, c, m, pass))
            *c = less;
}

struct conv error_conv(const struct conv *of, const struct conv_method *m,
                       enum conv_pass pass)
{
    struct conv c = *of, less = c;
    drop_images(&c, LEAST_IMAGES, m, pass);
    for (less = c; too_much(&c) && shrink(&less);)
        if (same_way(&less, &c, m, pass))
            c = less;
    drop_images(&c, 1, m, pass);
    return c;
}

static double compare(const float *found, const double *wanted, size_t count)
{
    double largest = 0, off = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = fabs((double)found[i] - wanted[i]);
        if (!isfinite(d))
            return INFINITY;
        largest = fmax(largest, fabs(wanted[i]));
        off = fmax(off, d);
    }
    return largest > 0 ? off / largest : off;
}

/* Results that are written, not added to, begin as no numbers. */
static void spoil(struct operands *o, enum conv_pass pass)
{
    if (pass == CONV_FORWARD)
        memset(o->y.x, 0xff, o->y.count * sizeof(float));
    if (pass == CONV_BACKWARD_DATA)
        memset(o->x.x, 0xff, o->x.count * sizeof(float));
}

double error_of(const struct conv *of, bool bias, const struct conv_method *m,
                enum conv_pass pass, struct crew *crew)
{
    const struct conv c = error_conv(of, m, pass);
    const size_t count[] = {[CONV_FORWARD] = conv_outputs(&c),
                            [CONV_BACKWARD_DATA] = conv_inputs(&c),
                            [CONV_BACKWARD_WEIGHTS] = conv_weights(&c)};
    struct operands o;
    double error = -1;
    if (operands_create(&o, &c, bias, m, pass, crew))
        return error;
    spoil(&o, pass);
    operands_run(&o, &c, m, pass);
    float *x = operands_plain_x(&o, &c);
    float *y = operands_plain_y(&o, &c);
    double *wanted = calloc(count[pass], sizeof(*wanted));
    const float *const found[] = {[CONV_FORWARD] = y,
                                  [CONV_BACKWARD_DATA] = x,
                                  [CONV_BACKWARD_WEIGHTS] = o.w.x};
    if (x && y && wanted) {
        reference(&c, pass, x, y, o.w.x, o.bias.x, wanted);
        error = compare(found[pass], wanted, count[pass]);
    }
    free(x);
    free(y);
    free(wanted);
    operands_free(&o);
    return error;
}

/* How many products make one number of the result. */
static double depth_of(const struct conv *c, enum conv_pass pass)
{
    const double taps = (double)c->kernel_h * c->kernel_w;
    switch (pass) {
    case CONV_FORWARD:
        return c->c / c->groups * taps;
    case CONV_BACKWARD_DATA:
        return c->k / c->groups * taps;
    default:
        return (double)c->n * c->out_h * c->out_w;
    }
}

double error_bound(const struct conv *of, const struct conv_method *m,
                   enum conv_pass pass)
{
    /* Half the distance from 1 to the next float, by which an operation may
     * be off; Winograd's transforms and Strassen's sums make it larger. */
    const double rounding = 0x1p-24, some = m == &conv_winograd   ? 64
                                            : m == &conv_strassen ? 16
                                                                  : 4;
    const struct conv c = error_conv(of, m, pass);
    const double sums = some * rounding * sqrt(fmax(depth_of(&c, pass), 1));
    /* Rounded operands are off from the start, by half of what a bf16 is from
     * the next at most; what that does to a sum grows as the sum itself. */
    return m == &conv_bf16 ? sums + 4 * 0x1p-9 : sums;
}
