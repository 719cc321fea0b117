/* SPDX-License-Identifier: MIT */
#ifndef BOOTSTRAP_ENDS_H
#define BOOTSTRAP_ENDS_H

#include "bootstrap/bootstrap.h"

/* family AF_UNSPEC where the system does not say. */
void ends_of_socket(int fd, struct bootstrap_end *mine,
                    struct bootstrap_end *other);

/* Seconds, the least that the kernel saw; 0: unknown. */
double ends_round_trip(int fd);

#endif
