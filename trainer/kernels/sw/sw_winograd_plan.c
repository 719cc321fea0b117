/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_winograd_plan.h"

#include "kernels/sw/sw_cost.h"
#include "kernels/sw/sw_gemm.h"

enum { WORD = 8, WEIGHTS_HELD = 2, IMAGES = SW_SIDE * SW_LANES };

struct sw_geometry sw_winograd_geometry(const struct conv *c,
                                        enum conv_pass pass)
{
    return sw_geometry_of(c, pass == CONV_BACKWARD_DATA ? CONV_BACKWARD_DATA
                                                        : CONV_FORWARD);
}

bool sw_winograd_can(const struct conv *c, enum conv_pass pass)
{
    const struct sw_geometry g = sw_winograd_geometry(c, pass);
    struct sw_winograd_plan p;
    return sw_window_is_plain(c) && c->kernel_h == SW_WINDOW
           && c->kernel_w == SW_WINDOW && g.pad_h >= 0 && g.pad_w >= 0
           && sw_winograd_best(&g, pass, &p);
}

/* --- scratch-pad -------------------------------------------------------- */

size_t sw_winograd_ldm_bytes(const struct sw_geometry *g, enum conv_pass pass,
                             struct sw_winograd_plan p)
{
    const struct sw_form *f = &sw_forms[p.form];
    const size_t in = (size_t)(f->in * f->in), out = (size_t)(f->out * f->out);
    const size_t tiles = (size_t)p.tiles;
    const size_t images = (size_t)(p.images / SW_SIDE);
    const size_t no = (size_t)(p.outputs / SW_SIDE);
    const size_t ni =
        (size_t)((pass == CONV_BACKWARD_WEIGHTS ? p.inputs : g->ni) / SW_SIDE);
    const size_t words = pass == CONV_BACKWARD_WEIGHTS
                             ? in * no * ni + tiles * in * images * (ni + no)
                             : tiles * images * (in * ni + out * no)
                                   + WEIGHTS_HELD * no * ni + no * images;
    return WORD * words;
}

/* --- counts ------------------------------------------------------------- */

/* Places of the input that tiles see, `tiles` of them at once. */
static size_t seen(int all, int tiles, const struct sw_form *f, int pad, int in)
{
    size_t sum = 0;
    for (int at = 0; at < all; at += tiles) {
        const int first = at * f->out - pad;
        const int end =
            first + sw_least(tiles, all - at) * f->out + f->in - f->out;
        sum += (size_t)sw_most(0, sw_least(end, in) - sw_most(first, 0));
    }
    return sum;
}

/* So many times a product, on all CPEs. */
static void add_products(struct sw_counts *c, struct sw_block b, size_t times)
{
    c->row_messages += times * sw_mesh_gemm_row_messages(b);
    c->column_messages += times * sw_mesh_gemm_column_messages(b);
    c->instructions += times * sw_mesh_gemm_instructions(b);
}

/* Instructions for a block of so many numbers, on all CPEs. */
static size_t on_all(int numbers, size_t operations)
{
    return SW_CPES * (size_t)sw_parts(numbers, SW_LANES) * operations;
}

static struct sw_winograd_counts of_pass(const struct sw_geometry *g,
                                         struct sw_winograd_plan p)
{
    const struct sw_form *f = &sw_forms[p.form];
    const int down = sw_tiles_down(g, p.form), k = g->ni / SW_SIDE;
    const int across = sw_tiles_across(g, p.form);
    const int m = p.images / SW_SIDE, n = p.outputs / SW_SIDE;
    const size_t places = (size_t)(f->in * f->in),
                 pairs = sw_times(g->no, g->ni, 1);
    const size_t parts = (size_t)(g->b / p.images);
    const size_t tiles = parts * sw_times(down, across, 1);
    const size_t blocks = (size_t)(g->no / p.outputs);
    const size_t image_bytes = sizeof(float) * (size_t)g->b;
    struct sw_winograd_counts c = {
        .covered_bytes = sizeof(float) * places * pairs * parts
                         * sw_times(down, sw_parts(across, p.tiles), 1),
        .all = {.get_bytes = image_bytes * (size_t)g->ni
                             * seen(down, 1, f, g->pad_h, g->in_h)
                             * seen(across, p.tiles, f, g->pad_w, g->in_w),
                .put_bytes = image_bytes * sw_times(g->no, g->out_h, g->out_w)},
    };
    const size_t spread = sw_matrix_full(&f->at) * sw_matrix_full(&f->at);
    c.all.get_bytes += c.covered_bytes;
    add_products(&c.all, (struct sw_block){m, n, k}, tiles * blocks * places);
    c.all.instructions += tiles
                          * (on_all(k * m, sw_form_operations(&f->bt))
                             + blocks * on_all(n * m, spread));
    /* The transformation of the weights. */
    c.all.get_bytes += sizeof(float) * SW_WINDOW * SW_WINDOW * pairs;
    c.all.put_bytes += sizeof(float) * places * pairs;
    c.all.instructions += pairs / SW_LANES * sw_form_operations(&f->g);
    return c;
}

static struct sw_winograd_counts of_gradient(const struct sw_geometry *g,
                                             struct sw_winograd_plan p)
{
    const struct sw_form *f = &sw_forms[p.form];
    const int down = sw_tiles_down(g, p.form), k = p.images / SW_SIDE;
    const int across = sw_tiles_across(g, p.form);
    const int m = p.inputs / SW_SIDE, n = p.outputs / SW_SIDE;
    const size_t blocks = (size_t)(g->no / p.outputs * (g->ni / p.inputs));
    const size_t tiles = blocks * sw_times(g->b / p.images, down, across);
    const size_t image_bytes = sizeof(float) * (size_t)g->b;
    struct sw_counts c = {
        .get_bytes = image_bytes
                     * ((size_t)(g->no / p.outputs) * (size_t)g->ni
                            * seen(down, 1, f, g->pad_h, g->in_h)
                            * seen(across, p.tiles, f, g->pad_w, g->in_w)
                        + (size_t)(g->ni / p.inputs)
                              * sw_times(g->no, g->out_h, g->out_w)),
        .put_bytes =
            sizeof(float) * SW_WINDOW * SW_WINDOW * sw_times(g->no, g->ni, 1),
        .instructions = tiles * on_all(k * m, sw_form_operations(&f->bt))
                        + tiles * on_all(n * k, sw_form_operations(&f->a))
                        + blocks * on_all(n * m, sw_form_operations(&f->gt)),
    };
    add_products(&c, (struct sw_block){m, n, k},
                 tiles * (size_t)(f->in * f->in));
    return (struct sw_winograd_counts){c, 0};
}

struct sw_winograd_counts sw_winograd_counts(const struct sw_geometry *g,
                                             enum conv_pass pass,
                                             struct sw_winograd_plan p)
{
    return pass == CONV_BACKWARD_WEIGHTS ? of_gradient(g, p) : of_pass(g, p);
}

/* --- the choice --------------------------------------------------------- */

struct search {
    const struct sw_geometry *g;
    enum conv_pass pass;
    bool found;
    double seconds;
    struct sw_winograd_plan *best;
};

/* With as many tiles at once as fit; false if not even one does. */
static bool try_tiles(struct search *s, struct sw_winograd_plan p)
{
    const int most = sw_tiles_across(s->g, p.form);
    for (p.tiles = 1; p.tiles <= most; p.tiles++) {
        if (sw_winograd_ldm_bytes(s->g, s->pass, p) > SW_LDM_FOR_DATA)
            return p.tiles > 1;
        const struct sw_winograd_counts c =
            sw_winograd_counts(s->g, s->pass, p);
        const double seconds = sw_winograd_seconds(&c, sw_speed_high);
        if (!s->found || seconds < s->seconds) {
            s->found = true;
            s->seconds = seconds;
            *s->best = p;
        }
    }
    return true;
}

static void try_blocks(struct search *s, enum sw_form_name form, int images)
{
    const struct sw_geometry *g = s->g;
    const bool learns = s->pass == CONV_BACKWARD_WEIGHTS;
    for (int no = SW_SIDE; no <= g->no; no += SW_SIDE)
        for (int ni = learns ? IMAGES : g->ni; ni <= g->ni && g->no % no == 0;
             ni += IMAGES)
            if (g->ni % ni == 0
                && !try_tiles(
                    s, (struct sw_winograd_plan){form, images, no, ni, 1}))
                break; /* more inputs take more */
}

bool sw_winograd_best(const struct sw_geometry *g, enum conv_pass pass,
                      struct sw_winograd_plan *best)
{
    const bool learns = pass == CONV_BACKWARD_WEIGHTS;
    const int unit = learns ? SW_SIDE : IMAGES; /* of images */
    struct search s = {.g = g, .pass = pass, .best = best};
    if (g->b < 1 || g->b % unit || g->no % SW_SIDE
        || g->ni % (learns ? IMAGES : SW_SIDE))
        return false;
    for (int form = 0; form < SW_FORMS; form++)
        for (int images = unit; images <= g->b; images += unit)
            if (g->b % images == 0)
                try_blocks(&s, (enum sw_form_name)form, images);
    return s.found;
}
