/* SPDX-License-Identifier: MIT */
/* The four core groups of a processor, each on a thread of its own, that
 * share the images of a convolution as swCaffe has it: group k has the k-th
 * quarter. Outputs are disjoint; of the gradient of the weights each group has
 * its own, and group 0 adds up the others' after all are through. */
#ifndef TRAINER_KERNELS_SW_SW_GROUPS_H
#define TRAINER_KERNELS_SW_SW_GROUPS_H

#include "kernels/sw/sw_conv.h"

struct sw_groups;

/* NULL: no memory. */
struct sw_groups *sw_groups_create(void);
void sw_groups_free(struct sw_groups *); /* NULL too */

struct sw_machine *sw_groups_machine(struct sw_groups *, int group);

/* Calls task for each group, at the same time, and returns when all have
 * returned: NULL, or what the first of the groups said that had anything to
 * say. */
const char *sw_groups_run(struct sw_groups *,
                          const char *(*task)(struct sw_groups *, int group,
                                              void *argument),
                          void *argument);

/* Called by the tasks of all groups: nobody leaves before all have come. */
void sw_groups_sync(struct sw_groups *);

/* to += each of the others, on the mesh if that pays, else by the host. */
enum { SW_SUM_ON_MESH = 32 * 1024 /* numbers */ };
const char *sw_gradient_sum(struct sw_machine *, float *to,
                            const float *const *others, int nothers,
                            size_t count);

/* NULL, or why the groups cannot share it. */
const char *sw_groups_conv_cannot(const struct sw_conv *);

size_t sw_groups_conv_scratch(const struct sw_conv *); /* floats */

/* As sw_conv, by all four; counts, of SW_GROUPS, may be NULL. A plan that is
 * given is for a quarter of the images. */
const char *sw_groups_conv(struct sw_groups *, const struct sw_conv *,
                           float *scratch, struct sw_conv_counts *counts);

#endif
