/* SPDX-License-Identifier: MIT */
/* What the system tells about itself, for coll_info. */
#ifndef PROGRAMS_FACTS_H
#define PROGRAMS_FACTS_H

#include <stdint.h>

/* "" or 0: the system does not tell. */
struct facts {
    char host[256], kernel[512], boot_id[64];
    char cpu[128];                     /* the first processor's model */
    char isa[256];                     /* those that kernels are written for */
    uint64_t memory, memory_available; /* bytes */
    uint64_t shm, shm_free;            /* bytes of /dev/shm */
};

void facts_get(struct facts *);

#endif
