/* SPDX-License-Identifier: MIT */
/* What the 128 bytes of a job's id hold: its key and where its hub listens. */
#ifndef BOOTSTRAP_ID_H
#define BOOTSTRAP_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "bootstrap/frame.h"
#include "coll/coll.h"

enum { ID_ADDRESSES = 5 };

struct id {
    unsigned char key[FRAME_KEY];
    uint16_t port; /* 0: not bound yet */
    bool named;    /* addresses come from a name other than localhost */
    bool listens;  /* since before the id was known: who refuses is gone */
    int naddresses;
    struct {
        int family; /* AF_INET, AF_INET6 */
        unsigned char bytes[16];
    } addresses[ID_ADDRESSES];
};

coll_unique_id id_pack(const struct id *);
/* False: these bytes are no id. */
bool id_unpack(const coll_unique_id *, struct id *);

/* The i-th address as the system wants it; returns its length. */
socklen_t id_socket_address(const struct id *, int i,
                            struct sockaddr_storage *);
/* "10.0.0.1:4711", "[::1]:4711" */
struct id_text {
    char text[64];
};
struct id_text id_print(const struct id *, int i);

/* Debian's /etc/hosts gives a host's own name a loopback address, which other
 * hosts do not know it by. True if that is all that the name led to. */
bool id_is_own_name(const struct id *);

/* This host's addresses: of the interfaces in a list such as "eth0,eth1", or of
 * all if it is "". Fails with INVALID if one of the list has none, or no name.
 */
coll_status id_local_addresses(struct id *, const char *interfaces);

/* False: full, or an address that other hosts could not use. */
bool id_add_address(struct id *, const struct sockaddr *);

#endif
