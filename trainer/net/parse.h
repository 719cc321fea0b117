/* SPDX-License-Identifier: MIT */
/* From a net's text to its layers, without their floats. */
#ifndef TRAINER_NET_PARSE_H
#define TRAINER_NET_PARSE_H

#include "net/net.h"

/* Sets layers, nlayers, nclasses and input; returns and writes error as
 * net_create() does. What was set is the caller's to free in either case. */
int net_parse(struct net *, const char *text, int batch, char *error,
              size_t error_bytes);

#endif
