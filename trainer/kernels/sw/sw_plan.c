/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_plan.h"

#include "kernels/sw/sw_numbers.h"
#include "kernels/sw/sw_port.h"

enum { WORD = 8 }; /* bytes of a number in the LDM, of 4 in memory */

struct sw_geometry sw_geometry_of(const struct conv *c, enum conv_pass pass)
{
    struct sw_geometry g = {c->n,     c->c,        c->k,        c->h,
                            c->w,     c->kernel_h, c->kernel_w, c->pad_h,
                            c->pad_w, c->out_h,    c->out_w};
    if (pass == CONV_BACKWARD_DATA)
        g = (struct sw_geometry){c->n,
                                 c->k,
                                 c->c,
                                 c->out_h,
                                 c->out_w,
                                 c->kernel_h,
                                 c->kernel_w,
                                 c->kernel_h - 1 - c->pad_h,
                                 c->kernel_w - 1 - c->pad_w,
                                 c->h,
                                 c->w};
    if (pass == CONV_BACKWARD_WEIGHTS)
        g = (struct sw_geometry){c->c,     c->n,        c->k,       c->h,
                                 c->w,     c->out_h,    c->out_w,   c->pad_h,
                                 c->pad_w, c->kernel_h, c->kernel_w};
    return g;
}

/* --- scratch-pad -------------------------------------------------------- */

static size_t words_per_column(const struct sw_geometry *g)
{
    return (size_t)g->no * (size_t)g->b;
}

int sw_column_stride(const struct sw_geometry *g, int kb, int buffers)
{
    const long all = (long)SW_CPES * kb * 1024 / WORD;
    const long rest =
        all - buffers * ((long)g->ni * g->b + (long)g->ni * (long)g->no);
    return rest < 0 ? 0 : (int)(rest / (long)words_per_column(g));
}

/* Blocks of weights, and columns of the input, that are there at a time. */
static int weights_held(const struct sw_geometry *g, struct sw_plan p)
{
    return p.loops == SW_BATCH_AWARE_OUTWARD ? g->kernel_w : p.buffers;
}

static int columns_held(const struct sw_geometry *g, struct sw_plan p)
{
    return p.loops == SW_IMAGE_AWARE_OUTWARD ? p.columns + g->kernel_w - 1
                                             : p.buffers;
}

size_t sw_plan_ldm_bytes(const struct sw_geometry *g, struct sw_plan p)
{
    const size_t images = (size_t)p.images, no = (size_t)g->no;
    const size_t ni = (size_t)g->ni;
    const size_t words = (size_t)weights_held(g, p) * ni * no
                         + (size_t)columns_held(g, p) * ni * images
                         + (size_t)p.columns * no * images;
    return WORD * words / SW_CPES;
}

/* The most columns for so many images, or 0. */
static int most_columns(const struct sw_geometry *g, struct sw_plan p, int kb)
{
    const size_t limit = (size_t)kb * 1024;
    p.columns = 0;
    while (p.columns < g->out_w) {
        p.columns++;
        if (sw_plan_ldm_bytes(g, p) > limit)
            return p.columns - 1;
    }
    return p.columns;
}

static double cycles(const struct sw_geometry *g, struct sw_plan p)
{
    enum { DMA_BYTES = 16, PER_CYCLE = SW_CPES * SW_LANES };
    const struct sw_traffic t = sw_plan_traffic(g, p);
    const double bytes = (double)(t.in_bytes + t.weight_bytes + t.out_bytes);
    const double busy = (double)t.products * (double)p.images * g->ni
                        * (double)g->no / PER_CYCLE;
    const double dma = bytes / DMA_BYTES;
    if (p.buffers == 1)
        return busy + dma;
    return busy > dma ? busy : dma;
}

/* The faster of the two, of which the second is there. */
static bool is_faster(const struct sw_geometry *g, struct sw_plan one,
                      bool found, const struct sw_plan *other)
{
    return !found || cycles(g, one) < cycles(g, *other);
}

/* The images are a multiple of a register for each row of CPEs. */
enum { IMAGES = SW_SIDE * SW_LANES };

static bool mesh_can_be_dealt(const struct sw_geometry *g)
{
    return g->b >= 1 && g->b % IMAGES == 0 && g->ni % SW_SIDE == 0
           && g->no % SW_SIDE == 0;
}

bool sw_plan_fit(const struct sw_geometry *g, enum sw_loops loops, int buffers,
                 int kb, struct sw_plan *plan)
{
    const bool outward =
        loops == SW_BATCH_AWARE_OUTWARD || loops == SW_IMAGE_AWARE_OUTWARD;
    const bool blocks =
        loops == SW_IMAGE_AWARE || loops == SW_IMAGE_AWARE_OUTWARD;
    bool found = false;
    if (!mesh_can_be_dealt(g) || (outward && buffers > 1))
        return false;
    for (int images = blocks ? IMAGES : g->b; images <= g->b;
         images += IMAGES) {
        struct sw_plan p = {loops, images, 0, buffers};
        p.columns = g->b % images ? 0 : most_columns(g, p, kb);
        if (p.columns && is_faster(g, p, found, plan)) {
            *plan = p;
            found = true;
        }
    }
    return found;
}

bool sw_plan_best(const struct sw_geometry *g, int kb, struct sw_plan *plan)
{
    bool found = false;
    for (int i = 0; i < 2 * SW_LOOPS; i++) {
        struct sw_plan p;
        if (sw_plan_fit(g, (enum sw_loops)(i / 2), 1 + i % 2, kb, &p)
            && is_faster(g, p, found, plan)) {
            *plan = p;
            found = true;
        }
    }
    return found;
}

/* --- traffic ------------------------------------------------------------ */

/* Pairs of a place of the output, from `first` to before `end`, and a tap
 * that sees the input there. */
static size_t pairs(int first, int end, int taps, int pad, int in)
{
    size_t sum = 0;
    for (int tap = 0; tap < taps; tap++) {
        const int low = first > pad - tap ? first : pad - tap;
        const int high = sw_least(end, in + pad - tap);
        sum += high > low ? (size_t)(high - low) : 0;
    }
    return sum;
}

/* Places of the input that they see. */
static size_t seen(int first, int end, int taps, int pad, int in)
{
    const int low = first > pad ? first - pad : 0;
    const int high = sw_least(in, end + taps - 1 - pad);
    return high > low ? (size_t)(high - low) : 0;
}

struct sw_traffic sw_plan_traffic(const struct sw_geometry *g, struct sw_plan p)
{
    const size_t rows = pairs(0, g->out_h, g->kernel_h, g->pad_h, g->in_h);
    size_t in = 0, taps = 0, blocks = 0;
    for (int at = 0; at < g->out_w; at += p.columns, blocks++) {
        const int end = sw_least(g->out_w, at + p.columns);
        in += seen(at, end, g->kernel_w, g->pad_w, g->in_w);
        taps += pairs(at, end, g->kernel_w, g->pad_w, g->in_w);
    }
    const size_t parts = (size_t)(g->b / p.images);
    const size_t of_images = sizeof(float) * (size_t)g->b;
    const size_t weights = sizeof(float) * (size_t)g->ni * (size_t)g->no;
    const size_t windows = blocks * (size_t)g->kernel_w;
    struct sw_traffic t = {
        .in_bytes = rows * (p.loops == SW_IMAGE_AWARE ? taps : in) * of_images
                    * (size_t)g->ni,
        .weight_bytes = rows * weights
                        * (p.loops == SW_BATCH_AWARE ? taps : parts * windows),
        .out_bytes =
            (size_t)g->out_h * (size_t)g->out_w * of_images * (size_t)g->no,
        .products = parts * rows * taps,
    };
    return t;
}

/* --- the choice --------------------------------------------------------- */

bool sw_window_is_plain(const struct conv *c)
{
    return c->groups == 1 && c->stride_h == 1 && c->stride_w == 1
           && c->dilation_h == 1 && c->dilation_w == 1;
}

bool sw_implicit_can(const struct conv *c, enum conv_pass pass)
{
    const struct sw_geometry g = sw_geometry_of(c, pass);
    struct sw_plan p;
    /* The gradient of the input needs a pad within the window. */
    return sw_window_is_plain(c)
           && (pass != CONV_BACKWARD_DATA || (g.pad_h >= 0 && g.pad_w >= 0))
           && sw_plan_best(
               &g, pass == CONV_FORWARD ? SW_FORWARD_KB : SW_BACKWARD_KB, &p);
}

bool sw_implicit_is_taken(const struct conv *c, enum conv_pass pass)
{
    const bool no = c->k >= 64 && c->k % 32 == 0;
    const bool forward =
        c->n >= 128 && c->n % 128 == 0 && c->c >= 64 && c->c % 32 == 0 && no;
    const bool backward =
        c->n >= 64 && c->n % 32 == 0 && c->c >= 128 && c->c % 128 == 0 && no;
    return (pass == CONV_FORWARD ? forward : backward)
           && sw_implicit_can(c, pass);
}
