/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_pool_plan.h"

#include "kernels/sw/sw_numbers.h"

/* What swCaffe takes for a small plane. */
enum { SMALL = 28 * 28, LDM_FLOATS = SW_LDM_FOR_DATA / 4 };

struct sw_pool_rows sw_pool_seen(const struct sw_pool *p,
                                 struct sw_pool_rows windows)
{
    return (struct sw_pool_rows){
        sw_most(0, windows.first * p->stride_h - p->pad_h),
        sw_least(p->h,
                 (windows.end - 1) * p->stride_h - p->pad_h + p->kernel_h)};
}

struct sw_pool_rows sw_pool_seeing(const struct sw_pool *p,
                                   struct sw_pool_rows rows)
{
    const int low = rows.first + p->pad_h - p->kernel_h + 1;
    const int high = (rows.end - 1 + p->pad_h) / p->stride_h + 1;
    return (struct sw_pool_rows){
        low <= 0 ? 0 : (low + p->stride_h - 1) / p->stride_h,
        sw_least(p->out_h, high)};
}

/* --- how much at a time ------------------------------------------------- */

/* Floats of the LDM for a band of windows forward, or of rows backward. */
static long forward_floats(const struct sw_pool *p, int windows)
{
    const int rows = sw_least(p->h, (windows - 1) * p->stride_h + p->kernel_h);
    return (long)rows * p->w + (long)windows * p->out_w;
}

static long backward_floats(const struct sw_pool *p, int rows)
{
    const int windows =
        sw_least(p->out_h, (rows + p->kernel_h - 2) / p->stride_h + 1);
    const int read = sw_least(p->h, (windows - 1) * p->stride_h + p->kernel_h);
    return (long)rows * p->w + (long)windows * p->out_w + (long)read * p->w;
}

static struct sw_pool_cut cut(const struct sw_pool *p,
                              long (*floats)(const struct sw_pool *, int),
                              int all)
{
    const long whole = 2 * (long)p->h * p->w + (long)p->out_h * p->out_w;
    struct sw_pool_cut c = {1, all, 0};
    while (c.band > 0 && floats(p, c.band) > LDM_FLOATS)
        c.band--;
    c.floats = c.band ? floats(p, c.band) : 0;
    if (c.band == all && p->h * p->w < SMALL && p->planes >= SW_CPES) {
        c.planes = sw_most(1, sw_least((SMALL - 1) / (p->h * p->w) + 1,
                                       (int)(LDM_FLOATS / whole)));
        c.floats = c.planes > 1 ? whole : c.floats;
    }
    return c;
}

struct sw_pool_cut sw_pool_forward_cut(const struct sw_pool *p)
{
    return cut(p, forward_floats, p->out_h);
}

struct sw_pool_cut sw_pool_backward_cut(const struct sw_pool *p)
{
    return cut(p, backward_floats, p->h);
}

const char *sw_pool_cannot(const struct sw_pool *p)
{
    const bool blind = p->pad_h >= p->kernel_h || p->pad_w >= p->kernel_w
                       || (p->out_h - 1) * p->stride_h - p->pad_h >= p->h
                       || (p->out_w - 1) * p->stride_w - p->pad_w >= p->w;
    if (blind)
        return "a window does not see the plane";
    return sw_pool_forward_cut(p).band < 1 || sw_pool_backward_cut(p).band < 1
               ? "the rows of a window do not fit into the LDM"
               : NULL;
}

/* --- bytes -------------------------------------------------------------- */

static size_t planes_bytes(const struct sw_pool *p, int rows, int width)
{
    return sizeof(float) * sw_times(p->planes, rows, width);
}

struct sw_bytes sw_pool_bytes(const struct sw_pool *p)
{
    const struct sw_pool_cut c = sw_pool_forward_cut(p);
    int rows = c.planes > 1 ? p->h : 0;
    for (int first = 0; c.planes == 1 && first < p->out_h; first += c.band) {
        const struct sw_pool_rows r = sw_pool_seen(
            p,
            (struct sw_pool_rows){first, sw_least(p->out_h, first + c.band)});
        rows += r.end - r.first;
    }
    return (struct sw_bytes){planes_bytes(p, rows, p->w),
                             planes_bytes(p, p->out_h, p->out_w)};
}

struct sw_bytes sw_pool_backward_bytes(const struct sw_pool *p)
{
    const struct sw_pool_cut c = sw_pool_backward_cut(p);
    int rows = c.planes > 1 ? p->h : 0, windows = c.planes > 1 ? p->out_h : 0;
    for (int first = 0; c.planes == 1 && first < p->h; first += c.band) {
        const struct sw_pool_rows w = sw_pool_seeing(
            p, (struct sw_pool_rows){first, sw_least(p->h, first + c.band)});
        if (w.first >= w.end)
            continue;
        const struct sw_pool_rows r = sw_pool_seen(p, w);
        rows += r.end - r.first;
        windows += w.end - w.first;
    }
    return (struct sw_bytes){
        planes_bytes(p, windows, p->out_w)
            + (p->average ? 0 : planes_bytes(p, rows, p->w)),
        planes_bytes(p, p->h, p->w)};
}
