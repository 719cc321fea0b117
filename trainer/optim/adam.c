/* SPDX-License-Identifier: MIT */
/* Adam (Kingma and Ba, ICLR 2015) with L2 decay d, which comes to the gradient;
 * m and u are means as in moments.h:
 *
 *     g = g + d w        w = w - lr m / (sqrt(u) + eps) */
#include "optim/moments.h"

static void step(const struct optim_settings *s, double lr, long number,
                 struct optim_part p)
{
    const struct moments k = moments_of(s, number);
    const float decay = (float)s->weight_decay, rate = (float)lr;
    for (size_t i = 0; i < p.n; i++)
        p.w[i] -= rate
                  * moments_step(&k, p.g[i] + decay * p.w[i], &p.state[0][i],
                                 &p.state[1][i]);
}

const struct optim_ops optim_adam = {
    .name = "adam",
    .nstate = 2,
    .uses = 1 << OPTIM_BETA1 | 1 << OPTIM_BETA2 | 1 << OPTIM_EPSILON,
    .numbers =
        {[OPTIM_BETA1] = 0.9, [OPTIM_BETA2] = 0.999, [OPTIM_EPSILON] = 1e-8},
    .step = step,
};
