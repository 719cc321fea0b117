/* SPDX-License-Identifier: MIT */
#include "kernels/im2col.h"

#include <stddef.h>
#include <string.h>

/* Output positions from..to-1 see the inside of an image side when the window
 * element is `offset` (negative: in the padding) from the window's corner. */
struct range {
    int from, to;
};

static struct range inside(int size, int offset, int stride, int out)
{
    struct range r = {0, 0};
    const long long from = offset < 0 ? (stride - 1LL - offset) / stride : 0,
                    to = size > offset ? (size - offset + stride - 1LL) / stride
                                       : 0;
    r.to = (int)(to < out ? to : out);
    r.from = (int)(from < r.to ? from : r.to);
    return r;
}

static void zero(float *x, int count)
{
    if (count > 0)
        memset(x, 0, (size_t)count * sizeof(*x));
}

/* to[i] = from[i * stride] */
static void gather(float *to, const float *from, int count, int stride)
{
    if (stride == 1)
        memcpy(to, from, (size_t)count * sizeof(*to));
    else
        for (int i = 0; i < count; i++)
            to[i] = from[(size_t)i * stride];
}

/* to[i * stride] += from[i] */
static void scatter_add(float *to, const float *from, int count, int stride)
{
    if (stride == 1)
        for (int i = 0; i < count; i++)
            to[i] += from[i];
    else
        for (int i = 0; i < count; i++)
            to[(size_t)i * stride] += from[i];
}

static void plane_to_row(const struct im2col *s, const float *plane, int dy,
                         int dx, float *row)
{
    const struct range r = inside(s->h, dy, s->stride_h, s->out_h),
                       c = inside(s->w, dx, s->stride_w, s->out_w);
    zero(row, r.from * s->out_w);
    for (int i = r.from; i < r.to; i++) {
        float *to = row + (size_t)i * s->out_w;
        zero(to, c.from);
        if (c.to > c.from)
            gather(to + c.from,
                   plane + ((ptrdiff_t)i * s->stride_h + dy) * s->w
                       + ((ptrdiff_t)c.from * s->stride_w + dx),
                   c.to - c.from, s->stride_w);
        zero(to + c.to, s->out_w - c.to);
    }
    zero(row + (size_t)r.to * s->out_w, (s->out_h - r.to) * s->out_w);
}

static void row_to_plane(const struct im2col *s, const float *row, int dy,
                         int dx, float *plane)
{
    const struct range r = inside(s->h, dy, s->stride_h, s->out_h),
                       c = inside(s->w, dx, s->stride_w, s->out_w);
    for (int i = r.from; i < r.to && c.to > c.from; i++)
        scatter_add(plane + ((ptrdiff_t)i * s->stride_h + dy) * s->w
                        + ((ptrdiff_t)c.from * s->stride_w + dx),
                    row + (size_t)i * s->out_w + c.from, c.to - c.from,
                    s->stride_w);
}

void im2col(const struct im2col *s, const float *image, float *column)
{
    const size_t plane = (size_t)s->h * s->w, row = (size_t)s->out_h * s->out_w;
    for (int c = 0; c < s->c; c++)
        for (int i = 0; i < s->kernel_h; i++)
            for (int j = 0; j < s->kernel_w; j++, column += row)
                plane_to_row(s, image + c * plane, i * s->dilation_h - s->pad_h,
                             j * s->dilation_w - s->pad_w, column);
}

void col2im(const struct im2col *s, const float *column, float *image)
{
    const size_t plane = (size_t)s->h * s->w, row = (size_t)s->out_h * s->out_w;
    memset(image, 0, s->c * plane * sizeof(*image));
    for (int c = 0; c < s->c; c++)
        for (int i = 0; i < s->kernel_h; i++)
            for (int j = 0; j < s->kernel_w; j++, column += row)
                row_to_plane(s, column, i * s->dilation_h - s->pad_h,
                             j * s->dilation_w - s->pad_w, image + c * plane);
}
