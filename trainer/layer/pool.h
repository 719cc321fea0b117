/* SPDX-License-Identifier: MIT */
/* What maxpool and avgpool share: windows over 16 channels of an image. */
#ifndef TRAINER_LAYER_POOL_H
#define TRAINER_LAYER_POOL_H

#include "layer/layer.h"

/* The part of a window that lies inside its plane; never empty. */
struct window {
    int top, bottom, left, right; /* bottom and right are not part of it */
};

struct window pool_window(const struct layer *, int row, int column);

/* Reads HxW or global [stride S] [pad P] [ceil]; the stride is the window
 * unless given. */
const char *pool_parse(struct layer *, int nwords, char **words);

#endif
