/* SPDX-License-Identifier: MIT */
/* AdaDelta (Zeiler, 2012), with a learning rate (1 in the paper) and L2 decay
 * d; b is beta2:
 *
 *     g = g + d w        s = b s + (1 - b) g^2
 *     x = g sqrt(u + eps) / sqrt(s + eps)
 *     u = b u + (1 - b) x^2        w = w - lr x */
#include <math.h>

#include "optim/optim.h"

static void step(const struct optim_settings *s, double lr, long number,
                 struct optim_part p)
{
    (void)number;
    const float stays = (float)s->numbers[OPTIM_BETA2],
                comes = (float)(1 - s->numbers[OPTIM_BETA2]),
                epsilon = (float)s->numbers[OPTIM_EPSILON],
                decay = (float)s->weight_decay, rate = (float)lr;
    float *square = p.state[0], *moved = p.state[1];
    for (size_t i = 0; i < p.n; i++) {
        const float g = p.g[i] + decay * p.w[i];
        square[i] = stays * square[i] + comes * g * g;
        const float x =
            g * (sqrtf(moved[i] + epsilon) / sqrtf(square[i] + epsilon));
        moved[i] = stays * moved[i] + comes * x * x;
        p.w[i] -= rate * x;
    }
}

const struct optim_ops optim_adadelta = {
    .name = "adadelta",
    .nstate = 2,
    .uses = 1 << OPTIM_BETA2 | 1 << OPTIM_EPSILON,
    .numbers = {[OPTIM_BETA2] = 0.9, [OPTIM_EPSILON] = 1e-6},
    .step = step,
};
