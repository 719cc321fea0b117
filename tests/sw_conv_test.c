/* SPDX-License-Identifier: MIT */
/* Convolution on the Sunway core group in software: equal to loops as plain
 * as the definition; bytes of DMA and of scratch-pad as the formulas have
 * them; swCaffe's table for VGG-16. Speaks TAP. */
#include "sw_convs.h"

#include "bench/error.h"
#include "kernels/conv_size.h"
#include "shapes.h"

static struct sw_machine *machine;

/* --- the implicit plans ------------------------------------------------- */

/* Walks through a row of taps, of which only the last product has no transfer
 * to cover if there are two buffers. */
static size_t rows_of_taps(const struct sw_geometry *g, struct sw_plan p)
{
    size_t rows = 0;
    for (int y = 0; y < g->out_h; y++)
        for (int i = 0; i < g->kernel_h; i++)
            rows += y + i >= g->pad_h && y + i - g->pad_h < g->in_h;
    return rows * (size_t)(g->b / p.images)
           * (size_t)((g->out_w + p.columns - 1) / p.columns);
}

/* Bytes and messages as the formulas have them. */
static void as_the_formulas(const struct layer *l, const struct sw_counts *c,
                            const struct sw_geometry *g, struct sw_plan p)
{
    const struct sw_traffic t = sw_plan_traffic(g, p);
    require(c->get_bytes == t.in_bytes + t.weight_bytes, "%s: gets %zu",
            l->words, c->get_bytes);
    require(c->put_bytes == t.out_bytes, "%s: puts %zu", l->words,
            c->put_bytes);
    require(c->instructions
                == t.products * (size_t)g->ni * (size_t)g->no * (size_t)p.images
                       / SW_LANES,
            "%s: %zu instructions", l->words, c->instructions);
    const size_t product = (size_t)g->ni * (size_t)g->no * (size_t)p.images / 4;
    const size_t rows = rows_of_taps(g, p);
    require(p.buffers == 1 ? c->covering == 0
                           : c->covering + rows * product >= c->instructions,
            "%s: %zu of %zu instructions while a transfer was under way",
            l->words, c->covering, c->instructions);
    /* Registers are 32 bytes, and three arrays are filled up to them. */
    const size_t ldm = sw_plan_ldm_bytes(g, p);
    require(c->ldm_bytes >= ldm && c->ldm_bytes < ldm + 96,
            "%s: %zu bytes of LDM, not %zu", l->words, c->ldm_bytes, ldm);
}

/* All passes by each of the loops, with little LDM too so that there are
 * several blocks. */
static void all_plans(struct conv c, uint64_t seed)
{
    struct layer l;
    require(make(&l, c, seed), "%s", l.words);
    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
        const struct sw_geometry g = sw_geometry_of(&l.c, pass);
        for (int loops = 0; loops < SW_LOOPS; loops++)
            for (int i = 0; i < 4; i++) {
                const int kb = i % 2 ? 2 : 60, buffers = 1 + i / 2;
                struct sw_plan p;
                if (!sw_plan_fit(&g, (enum sw_loops)loops, buffers, kb, &p))
                    continue;
                const struct sw_conv_counts counts =
                    run_conv(machine, &l,
                             (struct sw_conv){
                                 .pass = pass, .way = SW_IMPLICIT, .plan = &p});
                as_the_formulas(&l, &counts.work, &g, p);
                require(counts.work.ldm_bytes <= (size_t)kb * 1024,
                        "%s: %zu bytes of LDM", l.words, counts.work.ldm_bytes);
            }
    }
    drop(&l);
}

static void implicit_plans_are_right(void)
{
    static const struct conv some[] = {
        SHAPE(64, 32, 3, 3, 16, 1, 3, 3, 1, 1, 0, 0, 1, 1),
        SHAPE(32, 32, 4, 5, 8, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(32, 64, 2, 6, 24, 1, 1, 3, 1, 1, 0, 2, 1, 1),
        SHAPE(32, 32, 5, 4, 40, 1, 2, 1, 1, 1, 1, 0, 1, 1),
        SHAPE(96, 32, 1, 7, 8, 1, 1, 5, 1, 1, 0, 4, 1, 1),
        SHAPE(32, 64, 4, 4, 8, 1, 1, 1, 1, 1, 0, 0, 1, 1),
    };
    for (size_t i = 0; i < cases(sizeof(some) / sizeof(some[0]), 1); i++)
        all_plans(some[i], 10 * i);
}

/* Counted anew, loop by loop as swCaffe's kernel has them. */
static void bytes_are_those_of_the_loops(void)
{
    const struct conv shape =
        SHAPE(32, 32, 5, 9, 16, 1, 3, 3, 1, 1, 1, 1, 1, 1);
    struct layer l;
    require(make(&l, shape, 5), "%s", l.words);
    const struct sw_geometry g = sw_geometry_of(&l.c, CONV_FORWARD);
    const struct sw_plan p = {SW_BATCH_AWARE, 32, 4, 1};
    size_t gets = 0;
    for (int start = 0; start < 9; start += 4) {
        const int end = start + 4 < 9 ? start + 4 : 9;
        for (int y = 0; y < 5; y++)
            for (int i = 0; i < 3; i++)
                for (int x = start; x < end + 2; x++) {
                    if (y + i < 1 || y + i > 5 || x < 1 || x > 9)
                        continue;
                    gets += (size_t)(4 * 32 * 32);
                    for (int j = 0; j < 3; j++)
                        if (x - j >= start && x - j < end)
                            gets += (size_t)(4 * 32 * 16);
                }
    }
    const struct sw_conv_counts counts = run_conv(
        machine, &l,
        (struct sw_conv){.pass = CONV_FORWARD, .way = SW_IMPLICIT, .plan = &p});
    require(counts.work.get_bytes == gets, "%zu bytes, not %zu",
            counts.work.get_bytes, gets);
    require(counts.work.put_bytes == 4 * 5 * 9 * 16 * 32, "what is put");
    as_the_formulas(&l, &counts.work, &g, p);
    drop(&l);
}

/* swCaffe's layers of VGG-16 at 128 images: which go the implicit way, how
 * many columns the LDM holds, and how many bytes that is. */
static void the_table_of_vgg16(void)
{
    static const struct {
        int ni, no, size;
        bool forward, backward;
        int columns;
        size_t bytes;
    } rows[] = {
        {3,   64,  224, false, false, 0,  0    },
        {64,  64,  224, true,  false, 58, 60928},
        {64,  128, 112, true,  false, 29, 61440},
        {128, 128, 112, true,  true,  28, 61440},
        {128, 256, 56,  true,  true,  13, 59392},
        {256, 256, 56,  true,  true,  12, 61440},
        {256, 512, 28,  true,  true,  5,  61440},
        {512, 512, 28,  true,  true,  2,  57344},
        {512, 512, 14,  true,  true,  2,  57344},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct conv c = SHAPE(128, rows[i].ni, rows[i].size, rows[i].size,
                              rows[i].no, 1, 3, 3, 1, 1, 1, 1, 1, 1);
        struct sw_plan p;
        conv_set_outputs(&c);
        const struct sw_geometry g = sw_geometry_of(&c, CONV_FORWARD);
        require(sw_implicit_is_taken(&c, CONV_FORWARD) == rows[i].forward
                    && sw_implicit_is_taken(&c, CONV_BACKWARD_DATA)
                           == rows[i].backward
                    && sw_implicit_is_taken(&c, CONV_BACKWARD_WEIGHTS)
                           == rows[i].backward,
                "row %zu: the way", i);
        if (!rows[i].forward)
            continue;
        require(sw_column_stride(&g, SW_FORWARD_KB, 1) == rows[i].columns,
                "row %zu: %d columns", i, sw_column_stride(&g, 60, 1));
        require(sw_plan_fit(&g, SW_BATCH_AWARE, 1, SW_FORWARD_KB, &p)
                    && p.columns == rows[i].columns
                    && sw_plan_ldm_bytes(&g, p) == rows[i].bytes,
                "row %zu: %d columns in %zu bytes", i, p.columns,
                sw_plan_ldm_bytes(&g, p));
    }
}

/* The same figures from the machine: a layer that is wide, but one row high,
 * so that the columns that the LDM holds are there. */
static void scratch_pad_of_vgg16(int ni, int no, int width, size_t bytes)
{
    struct layer l;
    const struct conv c =
        SHAPE(128, ni, 1, width, no, 1, 1, 1, 1, 1, 0, 0, 1, 1);
    struct sw_plan p;
    require(make(&l, c, 3), "%s", l.words);
    const struct sw_geometry g = sw_geometry_of(&l.c, CONV_FORWARD);
    require(sw_plan_fit(&g, SW_BATCH_AWARE, 1, SW_FORWARD_KB, &p), "it fits");
    const struct sw_conv_counts counts = run_conv(
        machine, &l,
        (struct sw_conv){.pass = CONV_FORWARD, .way = SW_IMPLICIT, .plan = &p});
    require(counts.work.ldm_bytes == bytes, "%zu bytes of LDM, not %zu",
            counts.work.ldm_bytes, bytes);
    drop(&l);
}

static void the_table_on_the_machine(void)
{
    scratch_pad_of_vgg16(64, 64, 58, 60928);
    if (!thorough())
        return;
    scratch_pad_of_vgg16(64, 128, 29, 61440);
    scratch_pad_of_vgg16(128, 128, 28, 61440);
    scratch_pad_of_vgg16(128, 256, 13, 59392);
    scratch_pad_of_vgg16(512, 512, 2, 57344);
}

/* By hand: 64 messages a cycle are 8 broadcasts, as are 64 instructions. */
static void the_model_by_hand(void)
{
    const struct sw_counts c = {.get_bytes = 2350000000,
                                .row_messages = 1450000000,
                                .column_messages = 1450000000,
                                .instructions = 64ul * 1450000000};
    const struct sw_seconds s = sw_model(&c, sw_speed_high);
    require(s.arithmetic == 1 && s.messages == 0.25, "%g and %g s",
            s.arithmetic, s.messages);
    require(s.dma > 0.0999 && s.dma < 0.1001 && s.overlapped == 1
                && s.one_by_one == 1 + s.dma,
            "%g s of DMA", s.dma);
    struct conv conv = SHAPE(2, 4, 5, 5, 6, 2, 3, 3, 1, 1, 0, 0, 1, 1);
    conv_set_outputs(&conv);
    require(conv_flops(&conv) == 2.0 * 2 * 6 * 9 * 2 * 9, "operations");
}

/* By the rule, the way that the layers of VGG-16 go. */
static void layers_that_the_rule_takes(void)
{
    const struct conv c = SHAPE(128, 128, 2, 3, 64, 1, 3, 3, 1, 1, 1, 1, 1, 1);
    struct layer l;
    require(make(&l, c, 9), "%s", l.words);
    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
        require(sw_implicit_is_taken(&l.c, pass), "the rule");
        if (!thorough())
            continue;
        const struct sw_conv_counts counts =
            run_conv(machine, &l, (struct sw_conv){.pass = pass});
        require(counts.work.spawns == 1, "%zu kernels", counts.work.spawns);
    }
    drop(&l);
}

/* conv_bench checks a smaller problem, that goes the way of the one that it
 * measures; its figures are those of the definition. */
static void what_is_checked_goes_the_same_way(void)
{
    const struct conv_method *m = &conv_tile_sw;
    struct conv c = SHAPE(256, 128, 20, 17, 64, 1, 3, 3, 1, 1, 1, 1, 1, 1);
    conv_set_outputs(&c);
    for (int way = SW_BY_RULE; way < SW_WAYS; way++)
        for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
            sw_method_use((enum sw_way)way);
            const struct conv less = error_conv(&c, m, pass);
            require(!m->cannot(&less, pass)
                        && !strcmp(m->way(&c, pass), m->way(&less, pass)),
                    "pass %d goes %s", pass, m->way(&less, pass));
            require(less.n < 256 && conv_flops(&less) < conv_flops(&c) / 4,
                    "pass %d: %d images", pass, less.n);
        }
    sw_method_use(SW_BY_MODEL);
    const struct conv small = error_conv(&c, &conv_direct, CONV_FORWARD);
    require(small.n == 2, "%d images", small.n);
    c = (struct conv)SHAPE(128, 64, 1, 2, 64, 1, 1, 1, 1, 1, 0, 0, 1, 1);
    conv_set_outputs(&c);
    if (!thorough())
        return;
    const double error = error_of(&c, true, m, CONV_FORWARD, NULL);
    require(error > 0 && error < error_bound(&c, m, CONV_FORWARD), "%g", error);
}

/* --- the explicit way, and both ----------------------------------------- */

static struct conv odd(uint64_t seed)
{
    struct conv c = {
        .n = pick(seed, 0, 0, 3),
        .c = pick(seed, 1, 1, 12),
        .h = pick(seed, 2, 1, 14),
        .w = pick(seed, 3, 1, 20),
        .k = pick(seed, 4, 1, 20),
        .groups = 1,
        .kernel_h = pick(seed, 5, 1, 5),
        .kernel_w = pick(seed, 6, 1, 5),
        .stride_h = pick(seed, 7, 1, 4),
        .stride_w = pick(seed, 8, 1, 4),
        .pad_h = pick(seed, 9, 0, 4),
        .pad_w = pick(seed, 10, 0, 4),
        .dilation_h = pick(seed, 11, 1, 3),
        .dilation_w = pick(seed, 12, 1, 3),
    };
    if (pick(seed, 13, 0, 3) == 0) {
        c.groups = pick(seed, 14, 2, 3);
        c.c *= c.groups;
        c.k *= c.groups;
    }
    return c;
}

/* Forward, so many images at once: the column matrix is written whole, and the
 * images and the weights read, for each matrix once if it is one block of the
 * mesh's. */
static void column_bytes(const struct layer *l, const struct sw_counts *work,
                         int images)
{
    const struct conv *c = &l->c;
    const int taps = c->c / c->groups * c->kernel_h * c->kernel_w;
    const size_t column = (size_t)c->n * (size_t)c->groups * (size_t)taps
                          * (size_t)(c->out_h * c->out_w);
    const size_t times = (size_t)(c->n / images * c->groups);
    const int m = (c->k / c->groups + 7) / 8 * 8, k = (taps + 31) / 32 * 32;
    const int p = (images * c->out_h * c->out_w + 127) / 128 * 128;
    const size_t product = times * (size_t)m * (size_t)p;
    require(work->put_bytes == 4 * (column + product), "%s: puts %zu bytes",
            l->words, work->put_bytes);
    if (m > 256 || k > 256 || p > 512)
        return;
    const size_t operands = times * (size_t)(m * k + k * p);
    require(work->get_bytes == 4 * (l->nx + operands), "%s: gets %zu bytes",
            l->words, work->get_bytes);
}

/* By each number of images that can go at once. */
static void all_at_once(const struct layer *l, enum conv_pass pass, int images)
{
    struct sw_conv job = {
        .conv = l->c, .pass = pass, .way = SW_EXPLICIT, .images = images};
    if (sw_conv_cannot(&job))
        return;
    const struct sw_conv_counts counts = run_conv(machine, l, job);
    if (pass == CONV_FORWARD)
        column_bytes(l, &counts.work, sw_conv_images(&job));
}

static void odd_layers_never_exceed_64_kb(void)
{
    const uint64_t most = cases(400, 4);
    for (uint64_t seed = 0; seed < most; seed++) {
        struct layer l;
        if (!make(&l, odd(seed), seed << 8))
            continue;
        for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++)
            for (int images = 0; images <= l.c.n; images++)
                all_at_once(&l, pass, images);
        drop(&l);
    }
}

/* Where one image has few places, several are taken: fewer bytes and products,
 * never a longer time by the model. LeNet's second layer has 64 places of the
 * 128 that the mesh takes, and ResNet's last 49. */
static void few_places_share_a_matrix(void)
{
    static const struct conv some[] = {
        SHAPE(8, 20, 12, 12, 50, 1, 5, 5, 1, 1, 0, 0, 1, 1),
        SHAPE(16, 512, 7, 7, 512, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(6, 64, 1, 1, 64, 1, 1, 1, 1, 1, 0, 0, 1, 1),
    };
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
        for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
            struct sw_conv job = {
                .conv = some[i], .pass = pass, .way = SW_EXPLICIT};
            conv_set_outputs(&job.conv);
            const double best = sw_conv_seconds(&job, sw_speed_high);
            require(sw_conv_images(&job) > 1, "layer %zu pass %d", i, pass);
            for (job.images = 1; job.images <= job.conv.n; job.images++)
                require(sw_conv_cannot(&job)
                            || sw_conv_seconds(&job, sw_speed_high) >= best,
                        "layer %zu pass %d: %d images", i, pass, job.images);
        }
    struct sw_conv job = {.conv = some[0], .way = SW_EXPLICIT, .images = 3};
    conv_set_outputs(&job.conv);
    require(sw_conv_cannot(&job) != NULL, "3 of 8 images");
    job.images = 0;
    job.conv.h = job.conv.w = 224;
    conv_set_outputs(&job.conv);
    require(sw_conv_images(&job) == 1, "places enough");
}

/* Whether it fits; then its bytes, and of swCaffe's loops the columns. */
static bool keeps_to(const struct sw_geometry *g, enum sw_loops loops,
                     int buffers)
{
    struct sw_plan p;
    if (!sw_plan_fit(g, loops, buffers, SW_FORWARD_KB, &p))
        return false;
    const int columns = sw_column_stride(g, SW_FORWARD_KB, buffers);
    require(sw_plan_ldm_bytes(g, p) <= SW_FORWARD_KB * 1024, "too much");
    require(loops != SW_BATCH_AWARE
                || p.columns == (columns < g->out_w ? columns : g->out_w),
            "%d columns, not %d", p.columns, columns);
    return true;
}

/* Where a plan is said to fit, its bytes are within what it may have; the
 * machine's own check has the last word in the tests above. */
static void plans_keep_to_64_kb(void)
{
    int fits = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct conv c = {
            .n = 32 * pick(seed, 0, 1, 16),
            .c = 32 * pick(seed, 1, 1, 32),
            .h = pick(seed, 2, 1, 230),
            .w = pick(seed, 3, 1, 230),
            .k = 32 * pick(seed, 4, 1, 32),
            .groups = 1,
            .kernel_h = pick(seed, 5, 1, 7),
            .kernel_w = pick(seed, 6, 1, 7),
            .stride_h = 1,
            .stride_w = 1,
            .pad_h = pick(seed, 7, 0, 3),
            .pad_w = pick(seed, 8, 0, 3),
            .dilation_h = 1,
            .dilation_w = 1,
        };
        if (!conv_set_outputs(&c))
            continue;
        for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
            const struct sw_geometry g = sw_geometry_of(&c, pass);
            for (int i = 0; i < 2 * SW_LOOPS; i++)
                fits += keeps_to(&g, (enum sw_loops)(i / 2), 1 + i % 2);
        }
    }
    require(fits > 1000, "%d plans", fits);
}

/* --- as the trainer calls it -------------------------------------------- */

static void by_the_interface(struct conv shape, uint64_t seed)
{
    struct layer l;
    if (!make(&l, shape, seed))
        return;
    const struct conv *c = &l.c;
    const size_t bx = conv_blocked(c->n, c->c, c->h, c->w);
    const size_t by = conv_blocked(c->n, c->k, c->out_h, c->out_w);
    const size_t plane = (size_t)(c->out_h * c->out_w);
    float *x = unset(bx), *dy = unset(by), *y = unset(by), *dx = unset(bx);
    float *bias = eighths((size_t)c->k, seed + 7),
          *dw = eighths(l.nw, seed + 8);
    float *back = unset(l.nx > l.ny ? l.nx : l.ny);
    size_t most = 0;
    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++)
        if (conv_tile_sw.scratch(c, pass) > most)
            most = conv_tile_sw.scratch(c, pass);
    float *scratch = unset(most);
    conv_to_blocked(l.x, x, c->n, c->c, c->h, c->w);
    conv_to_blocked(l.dy, dy, c->n, c->k, c->out_h, c->out_w);
    conv_tile_sw.forward(c, c->plain ? l.x : x, l.w, bias, y, scratch);
    conv_to_plain(y, back, c->n, c->k, c->out_h, c->out_w);
    for (size_t i = 0; i < l.ny; i++)
        l.y[i] += bias[i / plane % (size_t)c->k];
    equal(back, l.y, l.ny, "y");
    for (size_t i = 0; i < l.nw; i++)
        l.dw[i] += dw[i];
    conv_tile_sw.backward_weights(c, c->plain ? l.x : x, dy, dw, scratch);
    equal(dw, l.dw, l.nw, "dw");
    if (!c->plain) {
        conv_tile_sw.backward_data(c, dy, l.w, dx, scratch);
        conv_to_plain(dx, back, c->n, c->c, c->h, c->w);
        equal(back, l.dx, l.nx, "dx");
    }
    float *all[] = {x, dy, y, dx, bias, dw, back, scratch};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    drop(&l);
}

static void it_is_a_method(void)
{
    static const struct conv some[] = {
        PLAIN(2, 3, 9, 8, 20, 1, 5, 5, 2, 2, 2, 2, 1, 1),
        SHAPE(1, 32, 6, 6, 16, 2, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(3, 20, 5, 4, 17, 1, 3, 3, 1, 1, 1, 1, 2, 1),
    };
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
        by_the_interface(some[i], 100 * i);
    struct conv wide = some[2];
    wide.w = 9000;
    conv_set_outputs(&wide);
    require(conv_tile_sw.cannot(&wide, CONV_FORWARD) != NULL, "too wide");
    require(!conv_tile_sw.cannot(&some[0], CONV_FORWARD), "it can");
    require(conv_tile_sw.cannot(&some[0], CONV_BACKWARD_DATA) != NULL,
            "a plain input");
    require(!strcmp(conv_tile_sw.name, "tile"), "its name");
}

/* The widest rows that it says it can. */
static void the_widest_rows(void)
{
    struct conv c = SHAPE(1, 1, 2, 0, 1, 1, 1, 3, 1, 1, 0, 1, 1, 1);
    struct layer l;
    for (int stride = 1; stride < 4; stride += 2) {
        c.stride_w = stride;
        for (c.w = 8192; conv_set_outputs(&c), conv_tile_sw.cannot(&c, 0);)
            c.w--;
        require(make(&l, c, 4), "%s", l.words);
        for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++)
            run_conv(machine, &l, (struct sw_conv){.pass = pass});
        drop(&l);
    }
}

int main(void)
{
    static const struct check checks[] = {
        {"implicit plans are right",          implicit_plans_are_right     },
        {"bytes are those of the loops",      bytes_are_those_of_the_loops },
        {"the table of VGG-16",               the_table_of_vgg16           },
        {"the table on the machine",          the_table_on_the_machine     },
        {"the model by hand",                 the_model_by_hand            },
        {"layers that the rule takes",        layers_that_the_rule_takes   },
        {"what is checked goes the same way",
         what_is_checked_goes_the_same_way                                 },
        {"odd layers never exceed 64 KB",     odd_layers_never_exceed_64_kb},
        {"few places share a matrix",         few_places_share_a_matrix    },
        {"plans keep to 64 KB",               plans_keep_to_64_kb          },
        {"it is a method",                    it_is_a_method               },
        {"the widest rows",                   the_widest_rows              },
    };
    return run_on_machine(checks, (int)(sizeof(checks) / sizeof(checks[0])),
                          &machine);
}
