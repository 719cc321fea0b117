/* SPDX-License-Identifier: MIT */
#include "optim/optim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "programs/options.h"

#define OPTIMISER(name) extern const struct optim_ops optim_##name;
#include "optim/optimisers.def"
#undef OPTIMISER

#define OPTIMISER(name) &optim_##name,
const struct optim_ops *const optimisers[] = {
#include "optim/optimisers.def"
};
#undef OPTIMISER
enum { NOPTIMISERS = sizeof(optimisers) / sizeof(optimisers[0]) };
const int noptimisers = NOPTIMISERS;

const struct optim_ops *optim_find(const char *name, char *error,
                                   size_t error_bytes)
{
    const char *names[NOPTIMISERS];
    for (int i = 0; i < NOPTIMISERS; i++) {
        names[i] = optimisers[i]->name;
        if (!strcmp(names[i], name))
            return optimisers[i];
    }
    say_unknown(error, error_bytes, name, names, NOPTIMISERS);
    return NULL;
}

static const struct {
    const char *option, *valid;
    bool below_one, above_zero;
} known[OPTIM_NNUMBERS] = {
    [OPTIM_MOMENTUM] = {"--momentum", "from 0, below 1", true,  false},
    [OPTIM_BETA1] = {"--beta1",    "from 0, below 1", true,  false},
    [OPTIM_BETA2] = {"--beta2",    "from 0, below 1", true,  false},
    [OPTIM_EPSILON] = {"--epsilon",  "above 0",         false, true },
    [OPTIM_TRUST] = {"--trust",    "above 0",         false, true },
};

int optim_complete(const struct optim_ops *ops, struct optim_settings *s,
                   char *error, size_t error_bytes)
{
    for (int i = 0; i < OPTIM_NNUMBERS; i++) {
        double *x = &s->numbers[i];
        const bool used = ops->uses >> i & 1;
        if (!isfinite(*x)) {
            *x = ops->numbers[i];
        } else if (!used) {
            snprintf(error, error_bytes,
                     "%s: --optimizer %s has no such number", known[i].option,
                     ops->name);
            return -1;
        }
        if (used
            && (*x < 0 || (known[i].below_one && *x >= 1)
                || (known[i].above_zero && *x <= 0))) {
            snprintf(error, error_bytes, "%s: found %g, valid is a number %s",
                     known[i].option, *x, known[i].valid);
            return -1;
        }
    }
    return 0;
}

double optim_square(const float *x, size_t n)
{
    enum { LANES = 16 };
    double lanes[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lanes[k] += (double)x[i + (size_t)k] * (double)x[i + (size_t)k];
    for (; i < n; i++)
        lanes[i % LANES] += (double)x[i] * (double)x[i];
    for (int k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}
