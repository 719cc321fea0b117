/* SPDX-License-Identifier: MIT */
/* Layer-wise adaptive rates for large batches (You, Gitman, Ginsburg, 2017):
 * each tensor has a rate by how large its weights are beside its gradient,
 *
 *     a = trust |w| / (|g| + d |w| + eps)
 *     v = m v + a (g + d w)        w = w - lr v
 *
 * The paper keeps lr v, which differs while lr changes (sgd.c). A tensor or
 * a gradient of zeros has a = 1, and vectors (biases, batch normalisation) go
 * by plain momentum without decay, as in MLPerf's reference. */
#include <math.h>

#include "optim/optim.h"

static void measure(const struct optim_settings *s, long number,
                    struct optim_part p)
{
    (void)s, (void)number;
    if (p.vector)
        return;
    p.sums[0] += optim_square(p.w, p.n);
    p.sums[1] += optim_square(p.g, p.n);
}

static void step(const struct optim_settings *s, double lr, long number,
                 struct optim_part p)
{
    (void)number;
    double decay = p.vector ? 0 : s->weight_decay, a = 1;
    if (!p.vector) {
        const double w = sqrt(p.sums[0]), g = sqrt(p.sums[1]);
        if (w > 0 && g > 0)
            a = s->numbers[OPTIM_TRUST] * w
                / (g + decay * w + s->numbers[OPTIM_EPSILON]);
    }
    const float momentum = (float)s->numbers[OPTIM_MOMENTUM], local = (float)a,
                of_w = (float)(a * decay), rate = (float)lr;
    float *v = p.state[0];
    for (size_t i = 0; i < p.n; i++) {
        v[i] = momentum * v[i] + (local * p.g[i] + of_w * p.w[i]);
        p.w[i] -= rate * v[i];
    }
}

const struct optim_ops optim_lars = {
    .name = "lars",
    .nstate = 1,
    .uses = 1 << OPTIM_MOMENTUM | 1 << OPTIM_EPSILON | 1 << OPTIM_TRUST,
    .numbers =
        {[OPTIM_MOMENTUM] = 0.9, [OPTIM_EPSILON] = 1e-9, [OPTIM_TRUST] = 0.001},
    .measure = measure,
    .step = step,
};
