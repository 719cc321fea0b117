/* SPDX-License-Identifier: MIT */
/* The loops of lanes.h for the instruction sets it is built with against loops
 * as plain as the definition. Needs no library, so that tests/neon_cross.sh can
 * run it for another processor. Speaks TAP.
 *
 * Numbers are eighths, so that what is right is equal whatever the order of
 * sums; but for lrn, and for what int8 loses. */
#include <math.h>
#include <stdint.h>

#include "exact.h"
#include "kernels/code.h"
#include "kernels/conv.h"
#include "kernels/lanes.h"
#include "kernels/lrn.h"
#include "kernels/norm.h"
#include "kernels/pool.h"
#include "kernels/rows.h"
#include "kernels/spread.h"
#include "tensor.h"

static const char *isa;
/* Below, at and above what is added up in floats at a time. */
static const size_t lengths[] = {0, 1, 3, 63, 64, 65, 131};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

static void equal(const float *found, const float *want, size_t count,
                  const char *what)
{
    for (size_t i = 0; i < count; i++)
        require(found[i] == want[i], "%s: %s: number %zu of %zu is %g, not %g",
                isa, what, i, count, (double)found[i], (double)want[i]);
}

static void same_sums(const double *found, const double *want, const char *what)
{
    for (int c = 0; c < BLOCK; c++)
        require(found[c] == want[c],
                "%s: %s: the sum of channel %d is %g, not "
                "%g",
                isa, what, c, found[c], want[c]);
}

/* --- a factor, a sum ------------------------------------------------------
 */

static void factors_and_sums(void)
{
    float *times = eighths(BLOCK, 1), *plus = eighths(BLOCK, 2);
    for (int k = 0; k < LENGTHS; k++) {
        const size_t n = lengths[k], count = n * BLOCK;
        float *x = eighths(count, 3), *z = eighths(count, 4), *y = unset(count),
              *want = unset(count);
        double sums[BLOCK] = {1}, products[BLOCK] = {2}, alone[BLOCK] = {1},
               s[BLOCK] = {1}, p[BLOCK] = {2};
        for (size_t i = 0; i < count; i++) {
            want[i] = x[i] * times[i % BLOCK] + plus[i % BLOCK];
            s[i % BLOCK] += (double)x[i];
            p[i % BLOCK] += (double)(x[i] * (z[i] - plus[i % BLOCK]));
        }
        lanes()->affine(x, times, plus, y, n);
        equal(y, want, count, "affine");
        lanes()->sum(x, z, plus, n, sums, products);
        lanes()->sum(x, NULL, NULL, n, alone, NULL);
        same_sums(sums, s, "sum");
        same_sums(products, p, "sum of products");
        same_sums(alone, s, "sum alone");
        free(x);
        free(z);
        free(y);
        free(want);
    }
    free(times);
    free(plus);
}

/* --- batch normalisation --------------------------------------------------
 */

/* bf16 by the definition, two in a float's place. */
static float *halves_of(const float *x, size_t count)
{
    uint16_t *to = malloc((count ? count : 1) * sizeof(*to));
    for (size_t i = 0; i < count; i++) {
        int exponent;
        const double m = frexp((double)x[i], &exponent);
        const float near = (float)ldexp(nearbyint(ldexp(m, 8)), exponent - 8);
        uint32_t bits;
        memcpy(&bits, &near, sizeof(bits));
        to[i] = (uint16_t)(bits >> 16);
    }
    return (float *)to;
}

/* As floats, or rounded. */
static void same(const float *found, const float *want, size_t count, bool half,
                 const char *what)
{
    if (!half) {
        equal(found, want, count, what);
        return;
    }
    float *halves = halves_of(want, count);
    require(!memcmp(found, halves, count * sizeof(uint16_t)), "%s: %s in bf16",
            isa, what);
    free(halves);
}

static void norm_of(const struct norm *n, size_t positions)
{
    const struct norm_loops *loops = norm_loops(n);
    const size_t count = positions * BLOCK;
    float *x = eighths(count, 5), *dy = eighths(count, 6), *y = unset(count),
          *dx = unset(count), *want_y = unset(count), *want_dx = unset(count);
    double found[4][BLOCK] = {{0}}, want[4][BLOCK] = {{0}};
    for (size_t i = 0; i < count; i++) {
        const size_t c = i % BLOCK;
        const float v = x[i] * n->times[c] + n->plus[c],
                    off = x[i] - n->mean[c];
        const float d = n->relu && v <= 0 ? 0 : dy[i];
        want_y[i] = n->relu && v <= 0 ? 0 : v;
        want_dx[i] = d * n->of_dy[c] + (x[i] * n->of_x[c] + n->one[c]);
        want[0][c] += (double)off;
        want[1][c] += (double)(off * off);
        want[2][c] += (double)d;
        want[3][c] += (double)(d * off);
    }
    float *half_x = halves_of(x, count), *half_dy = halves_of(dy, count);
    const float *from = n->half_x ? half_x : x, *by = n->half_y ? half_dy : dy;
    loops->moments(n, from, positions, found[0], found[1]);
    loops->forward(n, from, NULL, y, positions);
    loops->sums(n, by, from, positions, found[2], found[3]);
    loops->backward(n, by, from, dx, positions);
    same(y, want_y, count, n->half_y, "batchnorm");
    for (size_t i = 0; i < count; i++) {
        const float v = x[i] * n->times[i % BLOCK] + n->plus[i % BLOCK] + dy[i];
        want_y[i] = n->relu && v <= 0 ? 0 : v;
    }
    memcpy(y, by, count * sizeof(float) / (n->half_y ? 2 : 1));
    loops->forward(n, from, y, y, positions);
    same(y, want_y, count, n->half_y, "batchnorm and more");
    same(dx, want_dx, count, n->half_x, "batchnorm's gradient");
    for (int i = 0; i < 4; i++)
        same_sums(found[i], want[i], "batchnorm");
    free(x);
    free(dy);
    free(y);
    free(dx);
    free(want_y);
    free(want_dx);
    free(half_x);
    free(half_dy);
}

static void batch_normalisation(void)
{
    struct norm n = {.relu = false};
    float *const numbers[] = {n.mean, n.times, n.plus, n.of_dy, n.of_x, n.one};
    for (uint64_t i = 0; i < 6; i++) {
        float *drawn = eighths(BLOCK, 10 + i);
        memcpy(numbers[i], drawn, BLOCK * sizeof(float));
        free(drawn);
    }
    for (int k = 0; k < 16 * LENGTHS; k++) {
        n.relu = k % 2;
        n.stream = k / 2 % 2;
        n.half_x = k / 4 % 2;
        n.half_y = k / 8 % 2;
        norm_of(&n, lengths[k / 16]);
    }
}

/* What has more than eight digits, or is no number of bf16 otherwise. */
static void rounding(void)
{
    static const float some[BLOCK] = {
        0x1.00fffep0F,   0x1.01p0F,       0x1.010002p0F, 0x1.02p0F,
        0x1.03p0F,       -0x1.01p0F,      -0x1.03p0F,    0x1.ffp0F,
        0x1.fffffep126F, 0x1.fffffep127F, 1e-37F,        3,
        -7.77F,          0x1.04fffep-9F,  0x1.05p-9F,    0};
    struct norm n = {.half_y = true};
    float y[BLOCK / 2], dx[BLOCK / 2];
    float *wanted = halves_of(some, BLOCK), *ones = n.times;
    for (int c = 0; c < BLOCK; c++)
        ones[c] = n.of_x[c] = 1;
    const float zeros[BLOCK] = {0};
    norm_loops(&n)->forward(&n, some, NULL, y, 1);
    require(!memcmp(y, wanted, sizeof(y)), "%s: y is rounded otherwise", isa);
    n = (struct norm){.half_x = true};
    for (int c = 0; c < BLOCK; c++)
        n.of_dy[c] = 1;
    norm_loops(&n)->backward(&n, some, zeros, dx, 1);
    require(!memcmp(dx, wanted, sizeof(dx)), "%s: dx is rounded otherwise",
            isa);
    const uint32_t nan = 0x7fffffff; /* were it rounded up, it would be -0 */
    float x[BLOCK] = {0};
    memcpy(x, &nan, sizeof(nan));
    n.of_x[0] = 0;
    norm_loops(&n)->backward(&n, x, zeros, dx, 1);
    uint16_t half;
    memcpy(&half, dx, sizeof(half));
    const uint32_t bits = (uint32_t)half << 16;
    memcpy(x, &bits, sizeof(bits));
    require(isnan(x[0]), "%s: NaN became %g", isa, (double)x[0]);
    free(wanted);
}

/* --- pooling --------------------------------------------------------------
 */

static void pool_of(const struct pool *p, uint64_t seed)
{
    const size_t in = (size_t)(p->h * p->w) * BLOCK,
                 out = (size_t)(p->out_h * p->out_w) * BLOCK;
    float *x = eighths(in, seed), *dy = eighths(out, seed + 1), *y = unset(out),
          *dx = unset(in), *want_y = unset(out), *want_dx = unset(in);
    unsigned char *notes =
        malloc(out * pool_note_bytes(p->kernel_h, p->kernel_w));
    require(notes != NULL, "no memory");
    memset(want_dx, 0, in * sizeof(float));
    for (size_t o = 0; o < out; o++) {
        const int place = (int)(o / BLOCK),
                  row = place / p->out_w * p->stride_h,
                  column = place % p->out_w * p->stride_w;
        float best = p->relu ? 0 : -INFINITY;
        size_t from = in;
        for (int i = row - p->pad; i < row - p->pad + p->kernel_h; i++)
            for (int j = column - p->pad; j < column - p->pad + p->kernel_w;
                 j++) {
                const size_t at = (size_t)(i * p->w + j) * BLOCK + o % BLOCK;
                if (i < 0 || j < 0 || i >= p->h || j >= p->w || x[at] <= best)
                    continue;
                best = x[at];
                from = at;
            }
        want_y[o] = best;
        if (from < in)
            want_dx[from] += dy[o];
    }
    float *half_x = halves_of(x, in), *half_dy = halves_of(dy, out);
    lanes()->pool->forward(p, p->half ? half_x : x, y, notes);
    lanes()->pool->backward(p, notes, p->half ? half_dy : dy, dx);
    same(y, want_y, out, p->half, "maxpool");
    same(dx, want_dx, in, p->half, "maxpool's gradient");
    free(half_x);
    free(half_dy);
    free(x);
    free(dy);
    free(y);
    free(dx);
    free(want_y);
    free(want_dx);
    free(notes);
}

/* Those with loops of their own, odd ones, and one whose notes take an int;
 * with a relu some windows have no element above 0. */
static void pooling(void)
{
    static const struct pool some[] = {
        {2,  2,  2, 2, 0, 8,  6,  4, 3, false, false},
        {3,  3,  2, 2, 0, 9,  7,  4, 3, false, false},
        {3,  3,  2, 2, 1, 8,  9,  4, 5, false, false},
        {3,  3,  1, 1, 1, 7,  5,  7, 5, false, false},
        {2,  3,  1, 2, 1, 5,  8,  6, 4, false, false},
        {17, 16, 3, 2, 2, 19, 18, 3, 4, false, false},
    };
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        for (int how = 0; how < 4; how++) {
            struct pool p = some[i];
            p.half = how & 1;
            p.relu = how & 2;
            pool_of(&p, 20 + 2 * i);
        }
    }
}

/* --- what is spread out ---------------------------------------------------
 */

/* Runs one after the other, of so many floats each, from lines of their own,
 * which end with what the last position reads. */
static void spread_runs(const int *counts, int nruns, int stride, int positions)
{
    float *lines[BLOCK], *to = unset((size_t)(positions * BLOCK)),
                         *want = unset((size_t)(positions * BLOCK));
    struct spread_run runs[BLOCK];
    int channel = 0;
    memset(want, 0, (size_t)(positions * BLOCK) * sizeof(float));
    for (int i = 0; i < nruns; channel += counts[i++]) {
        lines[i] = eighths((size_t)((positions - 1) * stride + counts[i]),
                           60 + (uint64_t)i);
        runs[i] = (struct spread_run){lines[i], channel, counts[i]};
        for (int q = 0; q < positions; q++)
            memcpy(want + q * BLOCK + channel, lines[i] + q * stride,
                   (size_t)counts[i] * sizeof(float));
    }
    lanes()->spread->spread(runs, nruns, stride, positions, to);
    equal(to, want, (size_t)(positions * BLOCK), "what is spread out");
    for (int i = 0; i < nruns; i++)
        free(lines[i]);
    free(to);
    free(want);
}

/* Three channels' rows of a kernel of 7, a part of one, all from one, and many.
 */
static void spreading(void)
{
    spread_runs((const int[]){7, 7, 2}, 3, 2, 11);
    spread_runs((const int[]){5}, 1, 2, 11);
    spread_runs((const int[]){16}, 1, 1, 4);
    spread_runs((const int[]){3, 3, 3}, 3, 1, 9);
    spread_runs((const int[]){11, 5}, 2, 4, 3);
    spread_runs((const int[]){1, 1, 1, 1, 1, 6, 4}, 7, 3, 5);
}

/* --- products of rows -----------------------------------------------------
 */

static void rows_of(int rows, int columns, int terms, int how)
{
    const bool turned = how & 1, add = how & 2, strided = how & 4,
               zeros = how & 8;
    const size_t r = (size_t)rows, c = (size_t)columns, t = (size_t)terms;
    float *by = eighths(r * t, 40), *from = eighths(c * t, 41),
          *to = eighths(r * c, 42), *want = eighths(r * c, 42);
    const struct rows_sum s = {
        .to = to,
        .to_next = c,
        .rows = rows,
        .columns = columns,
        .terms = terms,
        .by = by,
        .by_row = strided ? 1 : t,
        .by_term = strided ? r : 1,
        .from = from,
        .from_next = turned ? t : c,
        .turned = turned,
        .add = add,
    };
    for (size_t i = 0; zeros && i < r * t; i++)
        by[i] = random_u64(43, i) % 4 || i / s.by_row == 5 ? -0.0f : by[i];
    for (size_t i = 0; i < r * c; i++) {
        const size_t row = i / c, column = i % c;
        want[i] = add ? want[i] : 0;
        for (size_t k = 0; k < t; k++)
            want[i] += by[row * s.by_row + k * s.by_term]
                       * (turned ? from[column * t + k] : from[k * c + column]);
    }
    lanes()->rows->sum(&s);
    equal(to, want, r * c, "products of rows");
    free(by);
    free(from);
    free(to);
    free(want);
}

/* Whole and ragged tiles, more terms and rows than go at once, and none; long
 * rows of terms that are not 0. */
static void products_of_rows(void)
{
    static const int some[][3] = {
        {1,   16,  16  },
        {3,   10,  5   },
        {7,   48,  129 },
        {130, 33,  20  },
        {2,   65,  0   },
        {5,   35,  1042},
        {16,  384, 64  },
        {150, 411, 131 },
    };
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++)
        for (int how = 0; how < 16; how++)
            rows_of(some[i][0], some[i][1], some[i][2], how);
}

/* --- local response normalisation -----------------------------------------
 */

enum { BLOCKS = 2, CHANNELS = BLOCKS * BLOCK };

/* The sum of v around channel c. */
static double around(const double *v, int c, int size)
{
    double sum = 0;
    for (int i = c - size / 2; i <= c + size / 2; i++)
        sum += i < 0 || i >= CHANNELS ? 0 : v[i];
    return sum;
}

static size_t place(const struct lrn *n, int c, size_t position)
{
    return (size_t)(c / BLOCK) * n->next + position * BLOCK
           + (size_t)(c % BLOCK);
}

static void near(float found, double want, const char *what)
{
    require(fabs((double)found - want) < 1e-5, "%s: %s: %g, not %g", isa, what,
            (double)found, want);
}

/* Of numbers of at most 1, and s of at least 1, so that 1e-5 is some rounding
 * of the largest. */
static void lrn_of(struct lrn n, size_t positions)
{
    const size_t count = positions * CHANNELS;
    float *x = eighths(count, 50), *dy = eighths(count, 51), *y = unset(count),
          *dx = unset(count);
    n.squares = calloc(lrn_lines(BLOCKS, n.size), sizeof(float));
    n.slopes = calloc(lrn_lines(BLOCKS, n.size), sizeof(float));
    require(n.squares && n.slopes, "no memory");
    n.next = positions * BLOCK;
    lanes()->lrn->forward(&n, x, y, positions);
    lanes()->lrn->backward(&n, x, dy, dx, positions);
    for (size_t p = 0; p < positions; p++) {
        double squares[CHANNELS], power[CHANNELS], slopes[CHANNELS];
        for (int c = 0; c < CHANNELS; c++)
            squares[c] = pow((double)x[place(&n, c, p)], 2);
        for (int c = 0; c < CHANNELS; c++) {
            const size_t at = place(&n, c, p);
            const double s =
                (double)n.k + (double)n.share * around(squares, c, n.size);
            power[c] = pow(s, -(double)n.beta);
            slopes[c] = (double)dy[at] * (double)x[at] * power[c] / s;
            near(y[at], (double)x[at] * power[c], "lrn");
        }
        for (int c = 0; c < CHANNELS; c++) {
            const size_t at = place(&n, c, p);
            near(dx[at],
                 (double)dy[at] * power[c]
                     - 2 * (double)(n.beta * n.share * x[at])
                           * around(slopes, c, n.size),
                 "lrn's gradient");
        }
    }
    free(n.squares);
    free(n.slopes);
    free(x);
    free(dy);
    free(y);
    free(dx);
}

static void local_response_normalisation(void)
{
    static const struct lrn some[] = {
        {.blocks = BLOCKS, .size = 5, .share = 0.2F, .beta = 0.75F, .k = 1},
        {.blocks = BLOCKS, .size = 3, .share = 0.1F, .beta = 0.75F, .k = 2},
        {.blocks = BLOCKS, .size = 7, .share = 0.1F, .beta = 0.5F,  .k = 1},
    };
    for (int i = 0; i < 3; i++) {
        lrn_of(some[i], 1);
        lrn_of(some[i], LRN_POSITIONS);
    }
}

/* --- fewer bytes ----------------------------------------------------------
 */

enum { ODD = 21 }; /* no whole registers */

static void bf16(void)
{
    /* Between two of them, at the middle to the even one. */
    static const float some[][2] = {
        {1,             1         },
        {1.00390625F,   1         },
        {1.01171875F,   1.015625F },
        {1.00390720F,   1.0078125F},
        {-1.00390625F,  -1        },
        {3.4028235e38F, INFINITY  },
    };
    enum { SOME = sizeof(some) / sizeof(some[0]) };
    float x[ODD], back[ODD];
    uint16_t code[ODD];
    for (int i = 0; i < ODD; i++)
        x[i] = i == ODD / 2 ? NAN : some[i % SOME][0];
    lanes()->code->to_bf16(x, ODD, code);
    lanes()->code->from_bf16(code, ODD, back);
    for (int i = 0; i < ODD; i++)
        require(i == ODD / 2 ? isnan(back[i]) : back[i] == some[i % SOME][1],
                "%s: %a became %a", isa, (double)x[i], (double)back[i]);
    lanes()->code->add_bf16(code, ODD, back);
    for (int i = 0; i < ODD; i++)
        require(i == ODD / 2 || back[i] == 2 * some[i % SOME][1],
                "%s: %a was not added", isa, (double)some[i % SOME][1]);
}

static void int8(void)
{
    float *x = eighths(ODD, 60), *lost = eighths(ODD, 61), back[ODD], kept[ODD];
    int8_t code[ODD];
    for (int i = 0; i < ODD; i++)
        kept[i] = x[i] + lost[i];
    const float scale = lanes()->code->to_int8(x, lost, ODD, code);
    for (int i = 0; i < ODD; i++) {
        require(fabsf(lost[i]) <= 0.50001F * scale, "%s: %g is lost", isa,
                (double)lost[i]);
        near(code[i] * scale + lost[i], (double)kept[i], "int8");
    }
    lanes()->code->from_int8(code, 0.5F, ODD, back);
    lanes()->code->add_int8(code, 0.25F, ODD, back);
    lanes()->code->add(x, ODD, back);
    for (int i = 0; i < ODD; i++)
        require(back[i] == 0.75F * code[i] + x[i], "%s: %d became %g", isa,
                code[i], (double)(back[i] - x[i]));
    x[ODD / 2] = INFINITY;
    require(isnan(lanes()->code->to_int8(x, lost, ODD, code)),
            "%s: an infinity has a scale", isa);
    free(x);
    free(lost);
}

int main(void)
{
    static const char *const isas[] = {
#define ISA(name) #name,
#include "kernels/isas.def"
#undef ISA
    };
    static const struct check checks[] = {
        {"a factor, a summand, a sum",   factors_and_sums            },
        {"batch normalisation",          batch_normalisation         },
        {"what is rounded to bf16",      rounding                    },
        {"pooling",                      pooling                     },
        {"products of rows",             products_of_rows            },
        {"what is spread out",           spreading                   },
        {"local response normalisation", local_response_normalisation},
        {"floats in two bytes",          bf16                        },
        {"floats in a byte",             int8                        },
    };
    enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };
    printf("1..%d\n", CHECKS);
    for (int i = 0; i < CHECKS; i++) {
        for (size_t k = 0; k < sizeof(isas) / sizeof(isas[0]); k++) {
            isa = conv_use(isas[k]);
            if (isa)
                checks[i].check();
        }
        report(true, checks[i].claim);
    }
    return 0;
}
