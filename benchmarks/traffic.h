/* SPDX-License-Identifier: MIT */
/* Loads and stores and nothing else: what any reduction or copy must do. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>

enum { TRAFFIC_LINE = 64 };

/* Stores the exclusive or of nsrc vectors into each of ndst, all of `bytes`,
 * with the widest vectors that this CPU has. Whole aligned lines. stream:
 * with stores that go past the caches, where the CPU has such. An output may be
 * one of the inputs. */
void traffic(char *const *dst, int ndst, const char *const *src, int nsrc,
             size_t bytes, bool stream);

#endif
