/* SPDX-License-Identifier: MIT */
#include "optim/optim.h"

#include <string.h>

#define OPTIMISER(name) extern const struct optim_ops optim_##name;
#include "optim/optimisers.def"
#undef OPTIMISER

#define OPTIMISER(name) &optim_##name,
const struct optim_ops *const optimisers[] = {
#include "optim/optimisers.def"
};
#undef OPTIMISER

const int noptimisers = sizeof(optimisers) / sizeof(optimisers[0]);

const struct optim_ops *optim_find(const char *name)
{
    for (int i = 0; i < noptimisers; i++)
        if (!strcmp(optimisers[i]->name, name))
            return optimisers[i];
    return NULL;
}
