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
    struct conv c = {128, swdnn[i].ni, 10, 10, swdnn[i].no, 1, 3, 3,    1,
                     1,   0,           0,  1,  1,           0, 0, false};
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
static double seconds(const struct conv *c, enum conv_pass pass)
{
    return sw_conv_seconds(&(struct sw_conv){.conv = *c, .pass = pass},
                           sw_speed_high);
}

static void row_of_vgg16(size_t i)
{
    struct conv c = {128,
                     vgg16[i].ni,
                     vgg16[i].size,
                     vgg16[i].size,
                     vgg16[i].no,
                     1,
                     3,
                     3,
                     1,
                     1,
                     1,
                     1,
                     1,
                     1,
                     0,
                     0,
                     false};
    conv_set_outputs(&c);
    const double forward = seconds(&c, CONV_FORWARD);
    const double data = i ? seconds(&c, CONV_BACKWARD_DATA) : 0;
    const double weights = seconds(&c, CONV_BACKWARD_WEIGHTS);
    printf(
        "| %s | %s | %.2f | %.0f | %.2f | %s | %.2f | %.2f |\n", vgg16[i].name,
        sw_implicit_is_taken(&c, CONV_FORWARD) ? "implicit" : "explicit",
        forward, conv_flops(&c) / 1e9 / forward, vgg16[i].forward,
        sw_implicit_is_taken(&c, CONV_BACKWARD_DATA) ? "implicit" : "explicit",
        data + weights, vgg16[i].backward);
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
    return 0;
}
