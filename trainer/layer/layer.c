/* SPDX-License-Identifier: MIT */
#include "layer/layer.h"

#include <string.h>

#define LAYER(name) extern const struct layer_ops layer_##name;
#include "layer/layers.def"
#undef LAYER

#define LAYER(name) &layer_##name,
const struct layer_ops *const layers[] = {
#include "layer/layers.def"
};
#undef LAYER

const int nlayers = sizeof(layers) / sizeof(layers[0]);

const struct layer_ops *layer_find(const char *name)
{
    for (int i = 0; i < nlayers; i++)
        if (!strcmp(layers[i]->name, name))
            return layers[i];
    return NULL;
}

bool layer_adds(const struct layer *l)
{
    return l->ops->adds_dx && l->ops->adds_dx(l);
}

unsigned layer_reads(const struct layer *l)
{
    if (l->done)
        return 0;
    return l->ops->reads | (l->relu ? l->ops->relu_reads : 0);
}
