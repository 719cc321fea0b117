/* SPDX-License-Identifier: MIT */
/* RMSProp (Tieleman and Hinton, 2012) with momentum m and L2 decay d, as in
 * PyTorch; b is beta2:
 *
 *     g = g + d w        s = b s + (1 - b) g^2
 *     v = m v + g / (sqrt(s) + eps)        w = w - lr v */
#include <math.h>

#include "optim/optim.h"

static void step(const struct optim_settings *s, double lr, long number,
                 struct optim_part p)
{
    (void)number;
    const float momentum = (float)s->numbers[OPTIM_MOMENTUM],
                stays = (float)s->numbers[OPTIM_BETA2],
                comes = (float)(1 - s->numbers[OPTIM_BETA2]),
                epsilon = (float)s->numbers[OPTIM_EPSILON],
                decay = (float)s->weight_decay, rate = (float)lr;
    float *square = p.state[0], *v = p.state[1];
    for (size_t i = 0; i < p.n; i++) {
        const float g = p.g[i] + decay * p.w[i];
        square[i] = stays * square[i] + comes * g * g;
        v[i] = momentum * v[i] + g / (sqrtf(square[i]) + epsilon);
        p.w[i] -= rate * v[i];
    }
}

const struct optim_ops optim_rmsprop = {
    .name = "rmsprop",
    .nstate = 2,
    .uses = 1 << OPTIM_MOMENTUM | 1 << OPTIM_BETA2 | 1 << OPTIM_EPSILON,
    .numbers = {[OPTIM_BETA2] = 0.99, [OPTIM_EPSILON] = 1e-8},
    .step = step,
};
