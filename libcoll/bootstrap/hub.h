/* SPDX-License-Identifier: MIT */
/* The hub's side of the protocol, without I/O: no clock, socket or thread.
 *
 * The driver reports events (a connection opened, bytes came, it closed, time
 * passed) and then asks what is to be done with each connection. `now` is in
 * seconds on any clock that never goes back. A connection is a small number
 * that the driver picks; it is free again after hub_closed().
 */
#ifndef BOOTSTRAP_HUB_H
#define BOOTSTRAP_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/frame.h"

struct hub;

/* `process` tells ranks of the hub's own process from others. The hub ends if
 * no rank comes within join_seconds; after the first, the ranks' own patience
 * counts. NULL: memory. */
struct hub *hub_create(const unsigned char key[FRAME_KEY], uint64_t process,
                       double join_seconds, double now);
void hub_free(struct hub *);

/* Whether one more connection may be opened. With too many strangers about,
 * this sends the oldest away if it had its chance. */
bool hub_accepts(struct hub *, double now);

void hub_opened(struct hub *, int conn, double now);
void hub_received(struct hub *, int conn, const void *bytes, size_t n,
                  double now);
void hub_sent(struct hub *, int conn, size_t bytes);
void hub_closed(struct hub *, int conn, const char *why, double now);
void hub_tick(struct hub *, double now);

/* What to do with a connection: KEEP: send what hub_output() has, and read.
 * FINISH: the same, and once all is sent say that no more comes (shutdown).
 * DROP: close it now and call hub_closed(). */
enum link_wish { LINK_KEEP, LINK_FINISH, LINK_DROP };
enum link_wish hub_wish(const struct hub *, int conn);
size_t hub_output(const struct hub *, int conn, const unsigned char **bytes);

double hub_deadline(const struct hub *); /* when hub_tick() is next due */

/* Done for good: nobody can join any more, so the listeners close first, before
 * any connection does: who sees its link end may use the port again. */
bool hub_listens(const struct hub *);
bool hub_finished(const struct hub *);
bool hub_runs(const struct hub *); /* all have joined */

/* Connections that never gave a right hello. */
unsigned long hub_strangers(const struct hub *);

#endif
