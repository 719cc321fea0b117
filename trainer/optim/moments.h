/* SPDX-License-Identifier: MIT */
/* The two running means of Adam (Kingma and Ba, ICLR 2015) and its kin:
 *
 *     m = b1 m + (1 - b1) g        u = b2 u + (1 - b2) g^2
 *
 * Both start at 0; after t steps m / (1 - b1^t) and u / (1 - b2^t) are means.
 */
#ifndef TRAINER_OPTIM_MOMENTS_H
#define TRAINER_OPTIM_MOMENTS_H

#include <math.h>

#include "optim/optim.h"

struct moments {
    float first_stays, first_comes, second_stays, second_comes;
    float first_whole, second_whole; /* 1 / (1 - b1^t), 1 / sqrt(1 - b2^t) */
    float epsilon;
};

static inline struct moments moments_of(const struct optim_settings *s,
                                        long number)
{
    const double b1 = s->numbers[OPTIM_BETA1], b2 = s->numbers[OPTIM_BETA2];
    return (struct moments){
        .first_stays = (float)b1,
        .first_comes = (float)(1 - b1),
        .second_stays = (float)b2,
        .second_comes = (float)(1 - b2),
        .first_whole = (float)(1 / (1 - pow(b1, (double)number))),
        .second_whole = (float)(1 / sqrt(1 - pow(b2, (double)number))),
        .epsilon = (float)s->numbers[OPTIM_EPSILON],
    };
}

/* Takes in g; returns the mean over the root of the mean square. */
static inline float moments_step(const struct moments *k, float g, float *first,
                                 float *second)
{
    *first = k->first_stays * *first + k->first_comes * g;
    *second = k->second_stays * *second + k->second_comes * g * g;
    return *first * k->first_whole
           / (sqrtf(*second) * k->second_whole + k->epsilon);
}

#endif
