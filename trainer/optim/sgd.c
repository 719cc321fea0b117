/* SPDX-License-Identifier: MIT */
/* Stochastic gradient descent with momentum m and L2 decay d, as in PyTorch:
 *
 *     v = m v + (g + d w)        w = w - lr v
 *
 * Caffe keeps lr v instead of v; that differs only while lr changes, where it
 * wants the momentum correction of Goyal et al. (2017, section 2.1), after
 * which it is this. */
#include "optim/optim.h"

static void step(const struct optim_settings *s, double lr, long number,
                 struct optim_part p)
{
    (void)number;
    const float momentum = (float)s->numbers[OPTIM_MOMENTUM],
                decay = (float)s->weight_decay, rate = (float)lr;
    float *v = p.state[0];
    for (size_t i = 0; i < p.n; i++) {
        v[i] = momentum * v[i] + (p.g[i] + decay * p.w[i]);
        p.w[i] -= rate * v[i];
    }
}

const struct optim_ops optim_sgd = {
    .name = "sgd",
    .nstate = 1,
    .uses = 1 << OPTIM_MOMENTUM,
    .step = step,
};
