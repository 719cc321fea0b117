/* SPDX-License-Identifier: MIT */
/* What measured figures are figures of; not installed. */
#ifndef PROGRAMS_MACHINE_H
#define PROGRAMS_MACHINE_H

#include <stddef.h>

/* "AMD EPYC, 2 cores": this machine, as far as the kernel tells. */
void machine_describe(char *text, size_t bytes);

#endif
