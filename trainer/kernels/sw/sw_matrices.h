/* SPDX-License-Identifier: MIT */
/* What the explicit way multiplies, in formulas: the sizes of its matrices, how
 * many images share one, and what all of them count. */
#ifndef TRAINER_KERNELS_SW_SW_MATRICES_H
#define TRAINER_KERNELS_SW_SW_MATRICES_H

#include "kernels/conv.h"
#include "kernels/im2col.h"
#include "kernels/sw/sw_counts.h"

/* Of one group, for some images at once: m outputs, k inputs with their taps, p
 * places of all these images; and filled up with zeros as the mesh wants
 * them. */
struct sw_matrices {
    int images, m, k, p, m_full, k_full, p_full;
    struct im2col shape;
};
struct sw_matrices sw_matrices_of(const struct conv *, int images);

/* How many images at once: where one has few places, some of the mesh would
 * multiply zeros, and weights would come anew for little. The number divides
 * the images, fits into the LDM and is modelled the fastest. */
int sw_matrices_images(const struct conv *, enum conv_pass);

/* NULL, or why so many images cannot be done at once. */
const char *sw_matrices_cannot(const struct conv *, int images);

/* Bytes of DMA, messages and instructions of the pass, without the copies
 * between the framework's order and the matrices'. */
struct sw_counts sw_matrices_counts(const struct conv *, enum conv_pass,
                                    int images);

#endif
