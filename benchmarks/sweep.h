/* SPDX-License-Identifier: MIT */
/* All sizes and algorithms of all collectives that a run asks for. */
#ifndef SWEEP_H
#define SWEEP_H

#include "report.h"

/* Measures, prints the table but its foot, and leaves the rows in *bench. base
 * may be NULL. Every rank calls it. */
void sweep(struct bench *bench, const struct job *job,
           const struct baseline *base);

#endif
