/* SPDX-License-Identifier: MIT */
/* Pooling, normalisation, scale and element-wise kernels of the Sunway core
 * group in software, against loops as plain as their definitions. Speaks TAP.
 */
#include "sw_checks.h"

#include <math.h>

#include "kernels/sw/sw_elements.h"
#include "kernels/sw/sw_norm.h"
#include "kernels/sw/sw_pool.h"

static struct sw_machine *machine;

static void fine(const char *error)
{
    require(!error, "%s", error);
    require(sw_machine_counts(machine).ldm_bytes <= SW_LDM_BYTES, "LDM");
}

static void bytes_are(size_t get, size_t put)
{
    const struct sw_counts c = sw_machine_counts(machine);
    require(c.get_bytes == get && c.put_bytes == put,
            "gets %zu and puts %zu bytes, not %zu and %zu", c.get_bytes,
            c.put_bytes, get, put);
}

/* --- pooling ------------------------------------------------------------ */

/* The loops of the definition; for the largest, numbers that occur twice. */
static void plain_pool(const struct sw_pool *p, const float *x, const float *dy,
                       float *y, float *dx)
{
    memset(dx, 0, sizeof(float) * (size_t)(p->planes * p->h * p->w));
    for (int o = 0; o < p->planes * p->out_h * p->out_w; o++) {
        const int plane = o / p->out_w / p->out_h;
        const int top = o / p->out_w % p->out_h * p->stride_h - p->pad_h;
        const int left = o % p->out_w * p->stride_w - p->pad_w;
        int inside = 0, best = -1;
        double sum = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int i = top; i < top + p->kernel_h; i++)
                for (int j = left; j < left + p->kernel_w; j++) {
                    const int at = (plane * p->h + i) * p->w + j;
                    if (i < 0 || i >= p->h || j < 0 || j >= p->w)
                        continue;
                    if (pass && p->average)
                        dx[at] += dy[o] / (float)inside;
                    if (pass)
                        continue;
                    inside++;
                    sum += (double)x[at];
                    best = best < 0 || x[at] > x[best] ? at : best;
                }
        y[o] = p->average ? (float)(sum / inside) : x[best];
        if (!p->average)
            dx[best] += dy[o];
    }
}

static void one_pool(struct sw_pool p, uint64_t seed)
{
    p.out_h = (p.h + 2 * p.pad_h - p.kernel_h) / p.stride_h + 1;
    p.out_w = (p.w + 2 * p.pad_w - p.kernel_w) / p.stride_w + 1;
    const char *cannot = sw_pool_cannot(&p);
    require(!cannot, "%s", cannot);
    const size_t nx = (size_t)(p.planes * p.h * p.w);
    const size_t ny = (size_t)(p.planes * p.out_h * p.out_w);
    float *x = eighths(nx, seed), *dy = eighths(ny, seed + 1);
    float *y = unset(ny), *dx = unset(nx);
    for (int average = 0; average < 2; average++) {
        float *wanted_y = unset(ny), *wanted_dx = unset(nx);
        p.average = average;
        plain_pool(&p, x, dy, wanted_y, wanted_dx);
        sw_machine_clear(machine);
        fine(sw_pool(machine, &p, x, y));
        const struct sw_bytes there = sw_pool_bytes(&p);
        const struct sw_bytes back = sw_pool_backward_bytes(&p);
        require(there.put == 4 * ny && back.put == 4 * nx, "bytes of pooling");
        bytes_are(there.get, there.put);
        char words[120];
        snprintf(words, sizeof(words),
                 "%s of %d planes of %dx%d by %dx%d, stride %dx%d pad %dx%d",
                 average ? "average" : "largest", p.planes, p.h, p.w,
                 p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.pad_h,
                 p.pad_w);
        equal(y, wanted_y, ny, words);
        sw_machine_clear(machine);
        fine(sw_pool_backward(machine, &p, x, dy, dx));
        bytes_are(back.get, back.put);
        equal(dx, wanted_dx, nx, words);
        free(wanted_y);
        free(wanted_dx);
    }
    float *all[] = {x, dy, y, dx};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
}

static void pools_are_right(void)
{
    one_pool((struct sw_pool){.planes = 3,
                              .h = 224,
                              .w = 224,
                              .kernel_h = 2,
                              .kernel_w = 2,
                              .stride_h = 2,
                              .stride_w = 2},
             1);
    one_pool((struct sw_pool){.planes = 200,
                              .h = 7,
                              .w = 7,
                              .kernel_h = 7,
                              .kernel_w = 7,
                              .stride_h = 1,
                              .stride_w = 1},
             2);
    one_pool((struct sw_pool){.planes = 2,
                              .h = 9,
                              .w = 2000,
                              .kernel_h = 3,
                              .kernel_w = 3,
                              .stride_h = 2,
                              .stride_w = 2,
                              .pad_h = 1,
                              .pad_w = 1},
             3);
    for (uint64_t seed = 10; seed < 110; seed++) {
        struct sw_pool p = {
            .planes = pick(seed, 0, 1, 130),
            .kernel_h = pick(seed, 1, 1, 4),
            .kernel_w = pick(seed, 2, 1, 4),
            .stride_h = pick(seed, 3, 1, 5),
            .stride_w = pick(seed, 4, 1, 5),
        };
        p.h = p.kernel_h + pick(seed, 5, 0, 12);
        p.w = p.kernel_w + pick(seed, 6, 0, 12);
        p.pad_h = pick(seed, 7, 0, p.kernel_h - 1);
        p.pad_w = pick(seed, 8, 0, p.kernel_w - 1);
        one_pool(p, seed << 4);
    }
}

/* Small planes: (28*28-1)/(H*W) + 1 of them in one transfer. */
static void small_planes_go_together(void)
{
    const struct sw_pool p = {640, 8, 8, 2, 2, 2, 2, 0, 0, 4, 4, false};
    float *x = eighths(640 * 64, 1), *y = unset(640 * 16);
    sw_machine_clear(machine);
    fine(sw_pool(machine, &p, x, y));
    const size_t together = (28 * 28 - 1) / 64 + 1;
    require(sw_machine_counts(machine).transfers
                == 2 * ((640 + together - 1) / together),
            "%zu transfers", sw_machine_counts(machine).transfers);
    bytes_are(4 * 640 * 64, 4 * 640 * 16);
    free(x);
    free(y);
    /* Of 224 x 224 by 3x3 with stride 2, 27 of 111 rows of windows go at a
     * time: 5 bands, of which neighbours share a row of the plane. */
    const struct sw_pool wide = {1, 224, 224, 3, 3, 2, 2, 0, 0, 111, 111, true};
    require(sw_pool_bytes(&wide).get == 4ul * 224 * (223 + 4), "%zu",
            sw_pool_bytes(&wide).get);
    struct sw_pool wrong = p;
    wrong.pad_h = 2;
    require(sw_pool_cannot(&wrong) != NULL, "a window in the pad");
    wrong = p;
    wrong.w = wrong.out_w = 20000;
    wrong.stride_w = 1;
    require(sw_pool_cannot(&wrong) != NULL, "too wide");
}

/* --- normalisation ------------------------------------------------------ */

static double element(const float *x, struct sw_channels s, int channel, int i)
{
    return (double)x[(i / s.places * s.c + channel) * s.places + i % s.places];
}

/* Two rounded operations of float, of numbers below this. */
static void near(double found, double wanted, double size, const char *what)
{
    const double off = fabs(found - wanted), most = size * 4 / (1 << 24);
    require(off <= most, "%s: %g, not %g", what, found, wanted);
}

/* One channel: against the definition, in double. */
static void plain_norm(const struct sw_norm *f,
                       const struct sw_norm_backward *b, int channel)
{
    const struct sw_channels s = f->shape;
    const int count = s.n * s.places;
    double mean = 0, variance = 0, dy = 0, dot = 0;
    for (int i = 0; i < count; i++)
        mean += element(f->x, s, channel, i) / count;
    for (int i = 0; i < count; i++)
        variance += pow(element(f->x, s, channel, i) - mean, 2) / count;
    if (f->global) {
        mean = (double)f->mean[channel];
        variance = (double)f->variance[channel];
    }
    near((double)f->mean[channel], mean, 1, "mean");
    near((double)f->variance[channel], variance, 1, "variance");
    const double factor = 1 / sqrt(variance + (double)f->eps);
    for (int i = 0; i < count && !f->global; i++) {
        const double x = (element(f->x, s, channel, i) - mean) * factor;
        dy += element(b->dy, s, channel, i) / count;
        dot += x * element(b->dy, s, channel, i) / count;
    }
    for (int i = 0; i < count; i++) {
        const double x = (element(f->x, s, channel, i) - mean) * factor;
        near(element(f->y, s, channel, i), x, 4 * factor, "y");
        near(element(b->dx, s, channel, i),
             factor * (element(b->dy, s, channel, i) - dy - x * dot),
             64 * factor, "dx");
    }
}

static void one_norm(struct sw_channels s, int global, uint64_t seed)
{
    const size_t all = (size_t)(s.n * s.c * s.places), c = (size_t)s.c;
    float *x = eighths(all, seed), *dy = eighths(all, seed + 1);
    float *y = unset(all), *dx = unset(all);
    float *mean = eighths(c, seed + 2), *variance = unset(c);
    for (int i = 0; i < s.c; i++)
        variance[i] = 0.5F + (float)(i % 4);
    const struct sw_norm f = {s, x, y, mean, variance, 1e-5F, global};
    const struct sw_norm_backward b = {s,        x,  dy,    mean,
                                       variance, dx, 1e-5F, global};
    /* Twice for the sums, and once for the result; each CPE has what is global.
     */
    const size_t shared = 64 * 4 * 2 * c;
    sw_machine_clear(machine);
    fine(sw_norm(machine, &f));
    bytes_are(global ? 4 * all + shared : 3 * 4 * all,
              4 * all + (global ? 0 : 4 * 2 * c));
    sw_machine_clear(machine);
    fine(sw_norm_backward(machine, &b));
    bytes_are((global ? 1 : 4) * 4 * all + shared, 4 * all);
    for (int i = 0; i < s.c; i++)
        plain_norm(&f, &b, i);
    float *floats[] = {x, dy, y, dx, mean, variance};
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
        free(floats[i]);
}

static void normalisation_is_right(void)
{
    for (int global = 0; global < 2; global++) {
        one_norm((struct sw_channels){3, 5, 20}, global, 1);
        one_norm((struct sw_channels){70, 2, 9}, global, 2);
        one_norm((struct sw_channels){2, 3, 5000}, global, 3);
    }
}

static void one_scale(struct sw_channels s, uint64_t seed)
{
    const size_t all = (size_t)(s.n * s.c * s.places), c = (size_t)s.c;
    float *x = eighths(all, seed), *y = unset(all),
          *dy = eighths(all, seed + 1);
    float *factor = eighths(c, seed + 2), *bias = eighths(c, seed + 3);
    float *df = unset(c), *db = unset(c);
    sw_machine_clear(machine);
    fine(sw_scale(machine, &(struct sw_scale){s, x, factor, bias, y}));
    bytes_are(4 * all + 64 * 4 * 2 * c, 4 * all);
    for (size_t i = 0; i < all; i++) {
        const size_t at = i / (size_t)s.places % c;
        require(y[i] == factor[at] * x[i] + bias[at], "scale[%zu]", i);
    }
    fine(sw_scale(machine, &(struct sw_scale){s, x, NULL, NULL, y}));
    equal(y, x, all, "scale by 1");
    sw_machine_clear(machine);
    fine(sw_scale_backward(machine,
                           &(struct sw_scale_backward){s, x, dy, df, db}));
    bytes_are(2 * 4 * all, 4 * 2 * c);
    for (int k = 0; k < s.c; k++) {
        double a = 0, b = 0;
        for (int i = 0; i < s.n * s.places; i++) {
            a += element(x, s, k, i) * element(dy, s, k, i);
            b += element(dy, s, k, i);
        }
        require(df[k] == (float)a && db[k] == (float)b, "gradients of scale");
    }
    float *floats[] = {x, y, dy, factor, bias, df, db};
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++)
        free(floats[i]);
}

static void scale_is_right(void)
{
    one_scale((struct sw_channels){3, 7, 11}, 1);
    one_scale((struct sw_channels){1, 2, 9000}, 2);
    one_scale((struct sw_channels){130, 3, 1}, 3);
}

/* --- element by element ------------------------------------------------- */

static float plain_element(enum sw_element_op op, float a, float b, float by)
{
    switch (op) {
    case SW_ADD:
        return a + b;
    case SW_SUBTRACT:
        return a - b;
    case SW_MULTIPLY:
        return a * b;
    case SW_DIVIDE:
        return a / b;
    case SW_SQUARE:
        return a * a;
    case SW_ROOT:
        return sqrtf(a);
    case SW_SCALE:
        return a * by;
    case SW_SCALE_AND_ADD:
        return a * by + b;
    case SW_RELU:
        return fmaxf(a, 0);
    case SW_RELU_BACKWARD:
        return b > 0 ? a : 0;
    default:
        return a;
    }
}

static void elements_of(size_t count)
{
    float *a = eighths(count, count), *b = eighths(count, count + 1);
    float *to = unset(count);
    for (int op = 0; op < SW_ELEMENT_OPS; op++) {
        const bool both =
            op <= SW_DIVIDE || op == SW_SCALE_AND_ADD || op == SW_RELU_BACKWARD;
        for (size_t i = 0; op == SW_ROOT && i < count; i++)
            a[i] = fabsf(a[i]);
        for (size_t i = 0; op == SW_DIVIDE && i < count; i++)
            b[i] = b[i] == 0 ? 1 : b[i];
        sw_machine_clear(machine);
        fine(sw_elements(machine,
                         &(struct sw_elements){(enum sw_element_op)op, a, b, to,
                                               0.25F, count}));
        bytes_are((both ? 8 : 4) * count, 4 * count);
        for (size_t i = 0; i < count; i++)
            require(
                to[i]
                    == plain_element((enum sw_element_op)op, a[i], b[i], 0.25F),
                "operation %d, element %zu", op, i);
    }
    double *wide = malloc(count * sizeof(double) + 1);
    require(wide != NULL, "no memory");
    fine(sw_to_double(machine, a, wide, count));
    for (size_t i = 0; i < count; i++)
        require(wide[i] == (double)a[i], "a double");
    fine(sw_to_float(machine, wide, to, count));
    equal(to, a, count, "float, and back");
    free(a);
    free(b);
    free(to);
    free(wide);
}

static void elements_are_right(void)
{
    static const size_t counts[] = {0, 1, 63, 4096, 4097, 300001};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        elements_of(counts[i]);
    require(sw_machine_counts(machine).ldm_bytes == 3 * 16 * 1024,
            "three blocks of 16 KB");
}

int main(void)
{
    static const struct check checks[] = {
        {"pools are right",          pools_are_right         },
        {"small planes go together", small_planes_go_together},
        {"normalisation is right",   normalisation_is_right  },
        {"scale is right",           scale_is_right          },
        {"elements are right",       elements_are_right      },
    };
    return run_on_machine(checks, (int)(sizeof(checks) / sizeof(checks[0])),
                          &machine);
}
