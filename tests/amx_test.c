/* SPDX-License-Identifier: MIT */
/* The tiles for AMX, compiled with its instructions in software, against the
 * direct kernels. Numbers are multiples of 1/8, so sums are equal whatever
 * their order. Speaks TAP. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exact.h"
#include "kernels/conv_amx.h"
#include "kernels/conv_direct.h"
#include "shapes.h"

static float *blocked(int n, int c, int h, int w, uint64_t seed)
{
    float *plain = eighths((size_t)n * (size_t)c * (size_t)(h * w), seed);
    float *x = unset(conv_blocked(n, c, h, w));
    conv_to_blocked(plain, x, n, c, h, w);
    free(plain);
    return x;
}

static void equal(const float *a, const float *b, size_t count,
                  const char *what, int shape)
{
    for (size_t i = 0; i < count; i++)
        require(a[i] == b[i], "shape %d: %s[%zu] is %g, not %g", shape, what, i,
                (double)a[i], (double)b[i]);
}

static void check(struct conv c, int shape)
{
    const struct conv_isa *amx = conv_isa_amx();
    conv_set_outputs(&c);
    const size_t nx = conv_blocked(c.n, c.c, c.h, c.w);
    const size_t ny = conv_blocked(c.n, c.k, c.out_h, c.out_w);
    const size_t nw =
        (size_t)(c.k * (c.c / c.groups) * c.kernel_h * c.kernel_w);
    float *x = blocked(c.n, c.c, c.h, c.w, 1);
    float *dy = blocked(c.n, c.k, c.out_h, c.out_w, 2);
    float *w = eighths(nw, 3), *bias = eighths((size_t)c.k, 4);
    float *found = eighths(nx > ny ? nx : ny, 5);
    float *wanted = eighths(nx > ny ? nx : ny, 6);
    for (enum conv_pass pass = 0; pass <= CONV_BACKWARD_DATA; pass++) {
        float *ours = eighths(direct_scratch(amx, &c, pass), 7);
        float *theirs = eighths(conv_direct.scratch(&c, pass), 8);
        if (pass == CONV_FORWARD) {
            direct_forward(amx, &c, x, w, bias, found, ours);
            conv_direct.forward(&c, x, w, bias, wanted, theirs);
            equal(found, wanted, ny, "y", shape);
        } else {
            direct_backward_data(amx, &c, dy, w, found, ours);
            conv_direct.backward_data(&c, dy, w, wanted, theirs);
            equal(found, wanted, nx, "dx", shape);
        }
        free(ours);
        free(theirs);
    }
    float *all[] = {x, dy, w, bias, found, wanted};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

/* One round adds so many products of one number to each sum. */
static void peak(void)
{
    float x[CONV_PEAK_FLOATS];
    for (int i = 0; i < CONV_PEAK_FLOATS; i++)
        x[i] = (float)i;
    conv_peak_amx.run(3, 0.5F, 0.25F, x);
    for (int i = 0; i < CONV_PEAK_FLOATS; i++)
        require(x[i] == (float)i + 3 * 16 * 0.125F, "peak: %g", (double)x[i]);
}

int main(void)
{
    static const struct conv some[] = {
        SHAPE(2, 64, 14, 14, 64, 1, 3, 3, 1, 1, 1, 1, 1, 1),
        SHAPE(1, 256, 7, 7, 128, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(2, 37, 9, 31, 50, 1, 3, 2, 2, 1, 1, 0, 1, 1),
        SHAPE(1, 96, 13, 13, 32, 2, 5, 5, 1, 1, 2, 2, 1, 1),
        SHAPE(1, 17, 11, 9, 80, 1, 3, 3, 1, 1, 2, 2, 2, 2),
        SHAPE(3, 1, 5, 1, 16, 1, 1, 1, 1, 1, 0, 0, 1, 1),
        SHAPE(1, 700, 3, 3, 16, 1, 3, 3, 1, 1, 1, 1, 1, 1),
    };
    if (!conv_use("avx512") || !conv_bf16_fast()) {
        printf(
            "1..0 # SKIP this processor cannot round as those with AMX do\n");
        return 0;
    }
    printf("1..2\n");
    for (int i = 0; i < (int)(sizeof(some) / sizeof(some[0])); i++)
        check(some[i], i);
    report(true, "AMX comes to the same");
    peak();
    report(true, "what is measured as the peak is done");
    return 0;
}
