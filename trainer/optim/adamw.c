/* SPDX-License-Identifier: MIT */
/* Adam with decay d of its own (Loshchilov and Hutter, ICLR 2019), as in
 * PyTorch; m and u are means as in moments.h:
 *
 *     w = w - lr d w        w = w - lr m / (sqrt(u) + eps) */
#include "optim/moments.h"

static void step(const struct optim_settings *s, double lr, long number,
                 struct optim_part p)
{
    const struct moments k = moments_of(s, number);
    const float stays = (float)(1 - lr * s->weight_decay), rate = (float)lr;
    for (size_t i = 0; i < p.n; i++)
        p.w[i] =
            stays * p.w[i]
            - rate * moments_step(&k, p.g[i], &p.state[0][i], &p.state[1][i]);
}

const struct optim_ops optim_adamw = {
    .name = "adamw",
    .nstate = 2,
    .uses = 1 << OPTIM_BETA1 | 1 << OPTIM_BETA2 | 1 << OPTIM_EPSILON,
    .numbers =
        {[OPTIM_BETA1] = 0.9, [OPTIM_BETA2] = 0.999, [OPTIM_EPSILON] = 1e-8},
    .step = step,
};
