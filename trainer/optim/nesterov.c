/* SPDX-License-Identifier: MIT */
/* SGD with Nesterov's momentum, in the form of Sutskever et al. (ICML 2013)
 * that PyTorch has:
 *
 *     g = g + d w        v = m v + g        w = w - lr (g + m v) */
#include "optim/optim.h"

static void step(const struct optim_settings *s, double lr, long number,
                 struct optim_part p)
{
    (void)number;
    const float momentum = (float)s->numbers[OPTIM_MOMENTUM],
                decay = (float)s->weight_decay, rate = (float)lr;
    float *v = p.state[0];
    for (size_t i = 0; i < p.n; i++) {
        const float g = p.g[i] + decay * p.w[i];
        v[i] = momentum * v[i] + g;
        p.w[i] -= rate * (g + momentum * v[i]);
    }
}

const struct optim_ops optim_nesterov = {
    .name = "nesterov",
    .nstate = 1,
    .uses = 1 << OPTIM_MOMENTUM,
    .numbers = {[OPTIM_MOMENTUM] = 0.9},
    .step = step,
};
