/* SPDX-License-Identifier: MIT */
/* Prints how long a core group would take for the convolutions that papers
 * have timed on one, by the cost model, beside what they measured. */
#include <stdio.h>

#include "kernels/conv_size.h"
#include "kernels/sw/sw_cost.h"

static const char *const loops_name[SW_LOOPS] = {"batch", "batch, outward",
                                                 "image", "image, outward"};

/* swDNN's own log (its repository, 2016): one core group, double, 128 images,
 * windows of 3x3, outputs of 8x8. GFLOPS. */
static const struct {
    int ni, no, measured;
} swdnn[] = {
    {128, 128, 352},
    {192, 128, 355},
    {320, 128, 375},
    {128, 256, 233},
    {384, 128, 297}
};

/* GFLOPS by the loops that suit so many buffers best; theirs are double in
 * memory too, so that there are twice as many bytes. */
static double gflops(const struct conv *c, int buffers, struct sw_speed speed,
                     struct sw_plan *best)
{
    const struct sw_geometry g = sw_geometry_of(c, CONV_FORWARD);
    double most = 0;
    speed.dma_bytes_per_second /= 2;
    for (int loops = 0; loops < SW_LOOPS; loops++) {
        struct sw_plan p;
        if (!sw_plan_fit(&g, (enum sw_loops)loops, buffers, SW_FORWARD_KB, &p))
            continue;
        const struct sw_conv job = {.conv = *c, .way = SW_IMPLICIT, .plan = &p};
        const double found = conv_flops(c) / 1e9 / sw_conv_seconds(&job, speed);
        if (found > most) {
            most = found;
            *best = p;
        }
    }
    return most;
}

static void row_of_swdnn(size_t i)
{
    struct conv c = {.n = 128,
                     .c = swdnn[i].ni,
                     .h = 10,
                     .w = 10,
                     .k = swdnn[i].no,
                     .groups = 1,
                     .kernel_h = 3,
                     .kernel_w = 3,
                     .stride_h = 1,
                     .stride_w = 1,
                     .dilation_h = 1,
                     .dilation_w = 1};
    printf("| %d | %d | %d |", swdnn[i].ni, swdnn[i].no, swdnn[i].measured);
    conv_set_outputs(&c);
    for (int buffers = 1; buffers <= 2; buffers++) {
        struct sw_plan p = {0};
        const double low = gflops(&c, buffers, sw_speed_low, &p);
        const double high = gflops(&c, buffers, sw_speed_high, &p);
        printf(" %.0f to %.0f | %s, %d x %d |", low, high, loops_name[p.loops],
               p.images, p.columns);
    }
    putchar('\n');
}

/* swCaffe's own log (its repository, October 2017): one core group, 128 or 32
 * images, seconds. */
static const struct {
    const char *name;
    int ni, no, size;
    double forward, backward;
} vgg16[] = {
    {"1_1", 3,   64,  224, 8.85,  2.63 },
    {"1_2", 64,  64,  224, 10.32, 32.03},
    {"2_1", 64,  128, 112, 3.29,  6.25 },
    {"2_2", 128, 128, 112, 4.26,  5.99 },
    {"3_1", 128, 256, 56,  1.82,  2.64 },
    {"3_2", 256, 256, 56,  2.85,  4.41 },
    {"4_1", 256, 512, 28,  1.34,  2.01 },
    {"4_2", 512, 512, 28,  2.20,  3.59 },
    {"5_1", 512, 512, 14,  0.57,  0.92 },
};

/* A pass's modelled seconds, at the higher speed. */
static double seconds(const struct conv *c, enum conv_pass pass,
                      enum sw_way way)
{
    return sw_conv_seconds(
        &(struct sw_conv){.conv = *c, .pass = pass, .way = way}, sw_speed_high);
}

static struct conv shape_of(int images, int ni, int size, int no, int window)
{
    struct conv c = {.n = images,
                     .c = ni,
                     .h = size,
                     .w = size,
                     .k = no,
                     .groups = 1,
                     .kernel_h = window,
                     .kernel_w = window,
                     .stride_h = 1,
                     .stride_w = 1,
                     .pad_h = window / 2,
                     .pad_w = window / 2,
                     .dilation_h = 1,
                     .dilation_w = 1};
    conv_set_outputs(&c);
    return c;
}

static struct conv of_vgg16(size_t i)
{
    return shape_of(128, vgg16[i].ni, vgg16[i].size, vgg16[i].no, 3);
}

static void row_of_vgg16(size_t i)
{
    const struct conv c = of_vgg16(i);
    const double forward = seconds(&c, CONV_FORWARD, SW_BY_RULE);
    const double data = i ? seconds(&c, CONV_BACKWARD_DATA, SW_BY_RULE) : 0;
    const double weights = seconds(&c, CONV_BACKWARD_WEIGHTS, SW_BY_RULE);
    printf(
        "| %s | %s | %.2f | %.0f | %.2f | %s | %.2f | %.2f |\n", vgg16[i].name,
        sw_implicit_is_taken(&c, CONV_FORWARD) ? "implicit" : "explicit",
        forward, conv_flops(&c) / 1e9 / forward, vgg16[i].forward,
        sw_implicit_is_taken(&c, CONV_BACKWARD_DATA) ? "implicit" : "explicit",
        data + weights, vgg16[i].backward);
}

/* One pass by each of the ways that can; the plan of Winograd's. */
static void ways_of(const struct conv *c, enum conv_pass pass)
{
    const struct sw_geometry g = sw_winograd_geometry(c, pass);
    struct sw_winograd_plan p;
    for (int way = SW_EXPLICIT; way < SW_WAYS; way++) {
        const struct sw_conv job = {
            .conv = *c, .pass = pass, .way = (enum sw_way)way};
        if (sw_conv_cannot(&job))
            printf(" - |");
        else
            printf(" %.2f |", sw_conv_seconds(&job, sw_speed_high));
    }
    if (sw_winograd_can(c, pass) && sw_winograd_best(&g, pass, &p))
        printf(" F%d, %d x %d x %d |", sw_forms[p.form].out, p.images,
               p.outputs, p.tiles);
    else
        printf(" - |");
}

static void ways_of_vgg16(size_t i)
{
    const struct conv c = of_vgg16(i);
    printf("| %s |", vgg16[i].name);
    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++)
        if (i || pass != CONV_BACKWARD_DATA)
            ways_of(&c, pass);
        else
            printf(" - | - | - | - |");
    putchar('\n');
}

/* Layers whose images have few places. */
static const struct {
    const char *name;
    int ni, size, no, window, images;
} small[] = {
    {"LeNet 2",            20,  12, 50,   5, 64},
    {"AlexNet 5",          384, 13, 256,  3, 64},
    {"GoogLeNet 5b 3x3",   192, 7,  384,  3, 32},
    {"ResNet-50 last 1x1", 512, 7,  2048, 1, 32},
    {"ResNet-50 last 3x3", 512, 7,  512,  3, 32},
};

/* One image at a time, and as many as the model takes. */
static void row_of_small(size_t i)
{
    struct conv c = shape_of(small[i].images, small[i].ni, small[i].size,
                             small[i].no, small[i].window);
    if (small[i].window == 5) { /* LeNet has no pad */
        c.pad_h = c.pad_w = 0;
        conv_set_outputs(&c);
    }
    printf("| %s | %d |", small[i].name, small[i].images);
    for (enum conv_pass pass = 0; pass < CONV_PASSES; pass++) {
        struct sw_conv job = {
            .conv = c, .pass = pass, .way = SW_EXPLICIT, .images = 1};
        const double one = sw_conv_seconds(&job, sw_speed_high);
        job.images = 0;
        printf(" %d | %.1f | %.1f |", sw_conv_images(&job), one * 1e3,
               sw_conv_seconds(&job, sw_speed_high) * 1e3);
    }
    putchar('\n');
}

int main(void)
{
    printf("GFLOPS of one core group: measured by swDNN, and modelled\n\n"
           "| Ni | No | measured | one buffer | loops, block | two buffers | "
           "loops, block |\n| --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof(swdnn) / sizeof(swdnn[0]); i++)
        row_of_swdnn(i);
    printf("\nVGG-16, 128 images, one core group: seconds modelled, and from "
           "swCaffe's early log\n\n| layer | forward | modelled | GFLOPS | log "
           "| backward | modelled | log |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < sizeof(vgg16) / sizeof(vgg16[0]); i++)
        row_of_vgg16(i);
    printf("\nThe same by each way: seconds, and Winograd's form and block of "
           "images, outputs and tiles\n\n"
           "| layer | forward: explicit | implicit | Winograd | plan | data: "
           "explicit | implicit | Winograd | plan | weights: explicit | "
           "implicit | Winograd | plan |\n| --- |");
    for (int i = 0; i < 12; i++)
        printf(" --- |");
    putchar('\n');
    for (size_t i = 0; i < sizeof(vgg16) / sizeof(vgg16[0]); i++)
        ways_of_vgg16(i);
    printf("\nThe explicit way, milliseconds: one image at a time, and several "
           "at once\n\n"
           "| layer | batch | forward: at once | one | several | data: at once "
           "| one | several | weights: at once | one | several |\n| --- |");
    for (int i = 0; i < 10; i++)
        printf(" --- |");
    putchar('\n');
    for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++)
        row_of_small(i);
    return 0;
}
