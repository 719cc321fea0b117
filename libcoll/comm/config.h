/* SPDX-License-Identifier: MIT */
#ifndef COMM_CONFIG_H
#define COMM_CONFIG_H

#include "comm/comm.h"

/* The words of COLL_DETERMINISM, and one of them put into *c. source is who
 * says it, for the sentence. */
extern const char *const config_determinisms[NDETERMINISMS];
coll_status config_determinism(coll_comm *c, const char *text,
                               const char *source);

/* Puts what a config sets over what the settings, or the parent, said. NULL
 * sets nothing. Fails with INVALID, UNSUPPORTED (a field of a later version).
 */
coll_status config_apply(coll_comm *, const coll_config *);

/* Of a communicator that is split off. */
coll_status config_inherit(coll_comm *, const coll_comm *parent);

/* As select_rules(); the text is kept, for those that are split off. */
coll_status config_rules(coll_comm *, const char *text, const char *source);

#endif
