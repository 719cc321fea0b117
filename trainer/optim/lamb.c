/* SPDX-License-Identifier: MIT */
/* Layer-wise adaptive moments for large batches (You et al., ICLR 2020,
 * algorithm 2); m and u are means as in moments.h:
 *
 *     r = m / (sqrt(u) + eps) + d w        w = w - lr r |w| / |r|
 *
 * of each tensor, without the factor where one of the norms is 0. Vectors
 * (biases, batch normalisation) have neither factor nor decay. */
#include "optim/moments.h"

/* r, entry by entry: taken twice, as there is no room to keep it. */
static float update(const struct moments *k, float decay,
                    const struct optim_part *p, size_t i)
{
    return p->state[0][i] * k->first_whole
               / (sqrtf(p->state[1][i]) * k->second_whole + k->epsilon)
           + decay * p->w[i];
}

/* The moments move here, as r is of the new ones. */
static void measure(const struct optim_settings *s, long number,
                    struct optim_part p)
{
    const struct moments k = moments_of(s, number);
    const float decay = p.vector ? 0 : (float)s->weight_decay;
    double square = 0;
    for (size_t i = 0; i < p.n; i++) {
        const double r =
            moments_step(&k, p.g[i], &p.state[0][i], &p.state[1][i])
            + decay * p.w[i];
        square += r * r;
    }
    p.sums[0] += p.vector ? 0 : optim_square(p.w, p.n);
    p.sums[1] += square;
}

static void step(const struct optim_settings *s, double lr, long number,
                 struct optim_part p)
{
    const struct moments k = moments_of(s, number);
    const float decay = p.vector ? 0 : (float)s->weight_decay;
    const double w = sqrt(p.sums[0]), r = sqrt(p.sums[1]);
    const double factor = w > 0 && r > 0 ? w / r : 1;
    const float rate = (float)(lr * factor);
    for (size_t i = 0; i < p.n; i++)
        p.w[i] -= rate * update(&k, decay, &p, i);
}

const struct optim_ops optim_lamb = {
    .name = "lamb",
    .nstate = 2,
    .uses = 1 << OPTIM_BETA1 | 1 << OPTIM_BETA2 | 1 << OPTIM_EPSILON,
    .numbers =
        {[OPTIM_BETA1] = 0.9, [OPTIM_BETA2] = 0.999, [OPTIM_EPSILON] = 1e-6},
    .measure = measure,
    .step = step,
};
