/* SPDX-License-Identifier: MIT */
#include "layer/channel.h"

#include "layer/words.h"

const char *channel_parse(struct layer *l, int nwords, char **words)
{
    l->nparams = (size_t)l->in.c;
    return plain_parse(l, nwords, words);
}

void channel_describe(const struct layer *l, const char *name,
                      struct layer_param *to, int most)
{
    if (most > 0)
        to[0] = (struct layer_param){name, 1, {l->in.c}};
}

void channel_fill(struct layer *l, float value)
{
    for (int c = 0; c < l->in.c; c++)
        l->params[c] = value;
}
