/* SPDX-License-Identifier: MIT */
/* The messages of one actor on SimGrid. Its C interface loses them when a wait
 * for any of them times out, so this is C++ behind. */
#ifndef SIMGRID_COMMS_H
#define SIMGRID_COMMS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct comms *comms_create(void);
void comms_free(struct comms *);

/* Starts one end of a message from rank to rank, for which comms_wait() will
 * return `what`. Messages of a pair match in the order in which they start. */
void comms_put(struct comms *, int from, int to, size_t bytes, void *what);
void comms_get(struct comms *, int from, int to, void *what);

/* Of a message whose last byte has left; NULL: none until that virtual time.
 * Below 0: as long as it takes. */
void *comms_wait(struct comms *, double until);

#ifdef __cplusplus
}
#endif
#endif
