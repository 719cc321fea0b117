/* SPDX-License-Identifier: MIT */
/* Stochastic gradient descent with momentum m and L2 decay d, as in PyTorch:
 *
 *     v = m v + (g + d w)        w = w - lr v
 *
 * Caffe keeps lr v instead of v; that differs only while lr changes. */
#include "optim/optim.h"

static void step(const struct optim_settings *s, double lr, float *w,
                 const float *g, float *state, size_t n)
{
    const float momentum = (float)s->momentum, decay = (float)s->weight_decay,
                rate = (float)lr;
    for (size_t i = 0; i < n; i++) {
        state[i] = momentum * state[i] + (g[i] + decay * w[i]);
        w[i] -= rate * state[i];
    }
}

const struct optim_ops optim_sgd = {.name = "sgd", .nstate = 1, .step = step};
