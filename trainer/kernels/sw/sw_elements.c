/* SPDX-License-Identifier: MIT */
#include "kernels/sw/sw_elements.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/sw/sw_kernels.h"
#include "kernels/sw/sw_moves.h"

enum { BLOCK = 4096 };

/* Whole blocks, one after the other; the last may be shorter. */
struct deal {
    size_t at, count; /* numbers */
};

static bool next(const struct sw_cpe *cpe, size_t count, struct deal *d)
{
    if (d->count)
        d->at += (size_t)SW_CPES * BLOCK;
    else
        d->at = (size_t)(sw_number(cpe)) * BLOCK;
    if (d->at >= count)
        return false;
    d->count = count - d->at < BLOCK ? count - d->at : BLOCK;
    return true;
}

static bool reads_b(enum sw_element_op op)
{
    return op <= SW_DIVIDE || op == SW_SCALE_AND_ADD || op == SW_RELU_BACKWARD;
}

static float value(enum sw_element_op op, float a, float b, float by)
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
        return by * a;
    case SW_SCALE_AND_ADD:
        return by * a + b;
    case SW_RELU:
        return a > 0 ? a : 0;
    case SW_RELU_BACKWARD:
        return b > 0 ? a : 0;
    default:
        return a;
    }
}

void sw_elements_each(struct sw_cpe *cpe, const void *argument)
{
    const struct sw_elements *e = argument;
    const bool both = reads_b(e->op);
    float *a = sw_ldm(cpe, BLOCK * sizeof(float));
    float *b = sw_ldm(cpe, BLOCK * sizeof(float));
    float *to = sw_ldm(cpe, BLOCK * sizeof(float));
    for (struct deal d = {0, 0}; next(cpe, e->count, &d);) {
        const struct sw_stretch s = sw_run(d.count);
        struct sw_reply reply = {0};
        sw_get(cpe, a, e->a + d.at, s, &reply);
        if (both)
            sw_get(cpe, b, e->b + d.at, s, &reply);
        sw_wait(cpe, &reply, both ? 2 : 1);
        for (size_t i = 0; i < d.count; i++)
            to[i] = value(e->op, a[i], both ? b[i] : 0, e->by);
        sw_put(cpe, to, e->to + d.at, s, &reply);
        sw_wait(cpe, &reply, both ? 3 : 2);
        sw_count(cpe, (d.count + SW_LANES - 1) / SW_LANES);
    }
}

const char *sw_elements(struct sw_machine *m, const struct sw_elements *e)
{
    return sw_spawn(m, sw_elements_each, e, sizeof(*e));
}

/* --- float and double --------------------------------------------------- */

struct conversion {
    float *floats;
    double *doubles;
    size_t count;
    bool widens;
};

void sw_elements_convert(struct sw_cpe *cpe, const void *argument)
{
    const struct conversion *c = argument;
    float *f = sw_ldm(cpe, BLOCK * sizeof(float));
    double *g = sw_ldm(cpe, BLOCK * sizeof(double));
    for (struct deal d = {0, 0}; next(cpe, c->count, &d);) {
        const struct sw_stretch of_f = sw_run(d.count);
        const struct sw_stretch of_g = sw_run(2 * d.count);
        struct sw_reply reply = {0};
        if (c->widens)
            sw_get(cpe, f, c->floats + d.at, of_f, &reply);
        else
            sw_get(cpe, g, c->doubles + d.at, of_g, &reply);
        sw_wait(cpe, &reply, 1);
        for (size_t i = 0; i < d.count; i++)
            if (c->widens)
                g[i] = (double)f[i];
            else
                f[i] = (float)g[i];
        if (c->widens)
            sw_put(cpe, g, c->doubles + d.at, of_g, &reply);
        else
            sw_put(cpe, f, c->floats + d.at, of_f, &reply);
        sw_wait(cpe, &reply, 2);
    }
}

const char *sw_to_double(struct sw_machine *m, const float *from, double *to,
                         size_t count)
{
    return sw_spawn(
        m, sw_elements_convert,
        &(struct conversion){(float *)(uintptr_t)from, to, count, true},
        sizeof(struct conversion));
}

const char *sw_to_float(struct sw_machine *m, const double *from, float *to,
                        size_t count)
{
    return sw_spawn(
        m, sw_elements_convert,
        &(struct conversion){to, (double *)(uintptr_t)from, count, false},
        sizeof(struct conversion));
}
