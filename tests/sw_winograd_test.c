/* SPDX-License-Identifier: MIT */
/* Winograd's algorithm on the Sunway core group in software: equal to loops as
 * plain as the definition, or close, as the form allows; bytes of DMA, messages
 * and instructions as the formulas have them. Speaks TAP. */
#include "sw_convs.h"

#include "kernels/conv_size.h"

static struct sw_machine *machine;

static struct conv window(int n, int c, int h, int w, int k, int pad_h,
                          int pad_w)
{
    struct conv conv = {.n = n,
                        .c = c,
                        .h = h,
                        .w = w,
                        .k = k,
                        .groups = 1,
                        .kernel_h = 3,
                        .kernel_w = 3,
                        .stride_h = 1,
                        .stride_w = 1,
                        .pad_h = pad_h,
                        .pad_w = pad_w,
                        .dilation_h = 1,
                        .dilation_w = 1};
    conv_set_outputs(&conv);
    return conv;
}

/* --- the forms ---------------------------------------------------------- */

/* One tile in double, against the definition. */
static void one_tile(const struct sw_form *f, uint64_t seed)
{
    double x[36], w[36] = {0}, y[36] = {0}, dw[36] = {0}, raw[36], window_of[9];
    for (int i = 0; i < f->in * f->in; i++)
        raw[i] = x[i] = pick(seed, i, -8, 8);
    for (int i = 0; i < 9; i++)
        window_of[i] = w[i] = pick(seed, 100 + i, -8, 8);
    double dy[36] = {0}, by[36];
    for (int i = 0; i < f->out * f->out; i++)
        by[i] = dy[i] = pick(seed, 200 + i, -8, 8);
    sw_form_apply(&f->bt, x, 1);
    sw_form_apply(&f->g, w, 1);
    sw_form_apply(&f->a, dy, 1);
    for (int i = 0; i < f->in * f->in; i++) {
        y[i] = x[i] * w[i];
        dw[i] = x[i] * dy[i];
    }
    sw_form_apply(&f->at, y, 1);
    sw_form_apply(&f->gt, dw, 1);
    double sums[9] = {0};
    for (int o = 0; o < f->out * f->out; o++) {
        double sum = 0;
        for (int t = 0; t < 9; t++) {
            const int at = (o / f->out + t / 3) * f->in + o % f->out + t % 3;
            sum += raw[at] * window_of[t];
            sums[t] += raw[at] * by[o];
        }
        require(fabs(sum - y[o]) < 1e-10, "y[%d] is %g, not %g", o, y[o], sum);
    }
    for (int t = 0; t < 9; t++)
        require(fabs(sums[t] - dw[t]) < 1e-10, "dw[%d] is %g, not %g", t, dw[t],
                sums[t]);
}

static void forms_are_right(void)
{
    for (int form = 0; form < SW_FORMS; form++)
        for (uint64_t seed = 0; seed < 20; seed++)
            one_tile(&sw_forms[form], seed);
    require(sw_form_operations(&sw_forms[SW_F2].bt) == 8 * (4 + 4), "of F2");
    require(sw_matrix_full(&sw_forms[SW_F4].at) == 18, "of F4");
}

/* --- passes ------------------------------------------------------------- */

/* Of the fourth-size form, the window's sixths are rounded to float once. */
static const double off[SW_FORMS] = {[SW_F2] = 0, [SW_F4] = 1e-6};

static void one_plan(struct layer *l, enum conv_pass pass,
                     struct sw_winograd_plan p)
{
    const struct sw_geometry g = sw_winograd_geometry(&l->c, pass);
    const struct sw_conv job = {
        .pass = pass, .way = SW_WINOGRAD, .winograd = &p};
    const size_t bytes = sw_winograd_ldm_bytes(&g, pass, p);
    if (bytes > SW_LDM_FOR_DATA)
        return;
    const int places = sw_forms[p.form].in * sw_forms[p.form].in;
    l->off = off[p.form];
    const struct sw_conv_counts counts = run_conv(machine, l, job);
    /* Each piece is rounded up to registers; windows take what they take. */
    const size_t windows = pass == CONV_BACKWARD_WEIGHTS
                               ? 0
                               : sizeof(double) * 128 * (size_t)places;
    const size_t found = counts.work.ldm_bytes;
    require(found >= bytes && (found <= bytes + 5 * 32 || found == windows),
            "%s: %zu bytes of LDM, not %zu", l->words, found, bytes);
}

/* By each form, with blocks of different sizes, and by the best plan. */
static void one_layer(struct conv c, uint64_t seed)
{
    struct layer l;
    require(make(&l, c, seed), "%s", l.words);
    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
        const struct sw_geometry g = sw_winograd_geometry(&l.c, pass);
        const bool learns = pass == CONV_BACKWARD_WEIGHTS;
        require(sw_winograd_can(&l.c, pass), "%s: it can", l.words);
        l.off = off[SW_F4];
        run_conv(machine, &l,
                 (struct sw_conv){.pass = pass, .way = SW_WINOGRAD});
        for (int form = 0; form < SW_FORMS; form++) {
            struct sw_winograd_plan p = {(enum sw_form_name)form, g.b, g.no,
                                         g.ni, 1};
            one_plan(&l, pass, p);
            p.tiles = 2;
            p.outputs = 8;
            p.images = learns ? 8 : 32;
            p.inputs = learns ? 32 : g.ni;
            one_plan(&l, pass, p);
        }
    }
    drop(&l);
}

static void passes_are_right(void)
{
    one_layer(window(32, 64, 2, 2, 32, 2, 1), 3);
    if (!thorough())
        return;
    one_layer(window(32, 32, 3, 5, 32, 1, 1), 1);
    one_layer(window(64, 32, 3, 3, 32, 0, 0), 2);
    one_layer(window(32, 32, 1, 5, 64, 1, 2), 4);
}

/* By hand: F(2x2,3x3), 32 images, 32 channels to 8 of 4x4 places with a pad of
 * one: 2 by 2 tiles, each of 4x4 places of which the pad is not read. */
static void bytes_by_hand(void)
{
    struct layer l;
    require(make(&l, window(32, 32, 4, 4, 8, 1, 1), 6), "%s", l.words);
    const struct sw_winograd_plan p = {SW_F2, 32, 8, 32, 1};
    const struct sw_conv_counts counts = run_conv(
        machine, &l, (struct sw_conv){.way = SW_WINOGRAD, .winograd = &p});
    const size_t tiles = 4, in = 3 * 3 * 32 * 32, weights = 16 * 8 * 32;
    const size_t windows = 9 * 8 * 32, out = 16 * 8 * 32;
    require(counts.work.get_bytes == 4 * (tiles * (in + weights) + windows),
            "gets %zu bytes", counts.work.get_bytes);
    require(counts.work.put_bytes == 4 * (out + weights), "puts %zu bytes",
            counts.work.put_bytes);
    drop(&l);
    /* Two tiles side by side share two columns, and the weights. */
    const struct sw_geometry g = {32, 32, 8, 4, 4, 3, 3, 1, 1, 4, 4};
    struct sw_winograd_plan two = p;
    two.tiles = 2;
    const struct sw_winograd_counts c =
        sw_winograd_counts(&g, CONV_FORWARD, two);
    require(c.all.get_bytes == 4 * (2 * (3 * 4 * 32 * 32 + weights) + windows),
            "gets %zu bytes", c.all.get_bytes);
    require(c.covered_bytes == 4 * 2 * weights, "%zu bytes", c.covered_bytes);
}

/* --- the choice --------------------------------------------------------- */

static void only_what_it_can(void)
{
    struct conv c = window(32, 32, 5, 5, 32, 1, 1);
    require(sw_winograd_can(&c, CONV_FORWARD), "it can");
    c.stride_h = 2;
    require(!sw_winograd_can(&c, CONV_FORWARD), "a stride");
    c = window(31, 32, 5, 5, 32, 1, 1);
    require(!sw_winograd_can(&c, CONV_FORWARD), "31 images");
    c = window(32, 3, 5, 5, 32, 1, 1);
    require(!sw_winograd_can(&c, CONV_FORWARD), "3 channels");
    c = window(32, 40, 5, 5, 32, 1, 1);
    require(sw_winograd_can(&c, CONV_FORWARD), "40 channels");
    require(!sw_winograd_can(&c, CONV_BACKWARD_WEIGHTS), "their gradient");
    c = window(32, 32, 5, 5, 32, 3, 1);
    require(!sw_winograd_can(&c, CONV_BACKWARD_DATA), "a pad of 3");
    c = window(32, 32, 5, 5, 32, 1, 1);
    c.kernel_w = 1;
    require(!sw_winograd_can(&c, CONV_FORWARD), "3x1");
}

/* What fits by the formula is taken; of the ways, the fastest by the model. */
static void the_fastest_is_taken(void)
{
    int taken[SW_WAYS] = {0};
    for (uint64_t seed = 0; seed < 60; seed++) {
        const struct conv c =
            window(32 * pick(seed, 0, 1, 4), 32 * pick(seed, 1, 1, 16),
                   pick(seed, 2, 3, 60), pick(seed, 3, 3, 60),
                   32 * pick(seed, 4, 1, 16), 1, 1);
        for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
            struct sw_conv job = {.conv = c, .pass = pass, .way = SW_BY_MODEL};
            const double best = sw_conv_seconds(&job, sw_speed_high);
            struct sw_winograd_plan p;
            taken[sw_conv_way(&job)]++;
            for (int way = SW_EXPLICIT; way < SW_WAYS; way++) {
                job.way = (enum sw_way)way;
                require(sw_conv_cannot(&job)
                            || sw_conv_seconds(&job, sw_speed_high) >= best,
                        "seed %d pass %d: %s", (int)seed, pass,
                        sw_way_name(job.way));
            }
            const struct sw_geometry g = sw_winograd_geometry(&c, pass);
            require(!sw_winograd_best(&g, pass, &p)
                        || sw_winograd_ldm_bytes(&g, pass, p)
                               <= SW_LDM_FOR_DATA,
                    "LDM");
        }
    }
    require(taken[SW_WINOGRAD] > 5 && taken[SW_IMPLICIT] > 5,
            "explicit %d, implicit %d, winograd %d", taken[SW_EXPLICIT],
            taken[SW_IMPLICIT], taken[SW_WINOGRAD]);
}

int main(void)
{
    static const struct check checks[] = {
        {"forms are right",      forms_are_right     },
        {"passes are right",     passes_are_right    },
        {"bytes by hand",        bytes_by_hand       },
        {"only what it can",     only_what_it_can    },
        {"the fastest is taken", the_fastest_is_taken},
    };
    return run_on_machine(checks, (int)(sizeof(checks) / sizeof(checks[0])),
                          &machine);
}
