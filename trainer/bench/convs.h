/* SPDX-License-Identifier: MIT */
/* The convolutions of a net, each distinct shape once. */
#ifndef TRAINER_BENCH_CONVS_H
#define TRAINER_BENCH_CONVS_H

#include "kernels/conv.h"
#include "layer/layer.h"

struct net_conv {
    char layer[LAYER_NAME + 16]; /* the first of them; without a name in the
                                    net, its number and kind as in exports */
    int times;                   /* how often the net has it */
    struct conv conv;
    bool bias;
    bool data_gradient; /* whether training needs that of what it reads */
};

struct net_convs {
    struct net_conv *all;
    int count, convolutions; /* distinct; with all their times */
};

/* Those of a net's text for so many images. Returns -1 and writes one line to
 * error as net_create() does. The caller frees `all`. */
int convs_read(struct net_convs *, const char *text, int batch, char *error,
               size_t error_bytes);

#endif
