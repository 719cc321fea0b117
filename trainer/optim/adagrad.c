/* SPDX-License-Identifier: MIT */
/* AdaGrad (Duchi, Hazan, Singer, JMLR 2011), L2 decay d:
 *
 *     g = g + d w        s = s + g^2        w = w - lr g / (sqrt(s) + eps) */
#include <math.h>

#include "optim/optim.h"

static void step(const struct optim_settings *s, double lr, long number,
                 struct optim_part p)
{
    (void)number;
    const float decay = (float)s->weight_decay, rate = (float)lr,
                epsilon = (float)s->numbers[OPTIM_EPSILON];
    float *sum = p.state[0];
    for (size_t i = 0; i < p.n; i++) {
        const float g = p.g[i] + decay * p.w[i];
        sum[i] += g * g;
        p.w[i] -= rate * g / (sqrtf(sum[i]) + epsilon);
    }
}

const struct optim_ops optim_adagrad = {
    .name = "adagrad",
    .nstate = 1,
    .uses = 1 << OPTIM_EPSILON,
    .numbers = {[OPTIM_EPSILON] = 1e-10},
    .step = step,
};
