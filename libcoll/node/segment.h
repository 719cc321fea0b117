/* SPDX-License-Identifier: MIT */
/* Memory of one rank that other ranks of its host can reach.
 *
 * A segment is a memfd: it has no name in any file system, so nothing is left
 * behind however its processes end. It is sealed against shrinking, so access
 * to it never raises SIGBUS. It consists of a header page and of areas of
 * equal size; a rank that attaches maps one area and nothing else.
 */
#ifndef NODE_SEGMENT_H
#define NODE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memfd.h"

/* How to find a segment; plain bytes, sent to other ranks. */
struct segment_name {
    uint64_t magic, job;
    uint64_t nonce;   /* random, one per segment */
    uint64_t process; /* random, one per process */
    struct memfd_name file;
    uint64_t rank, nareas, area_bytes;
};

/* area_bytes and nareas have this limit, so that their product is no danger. */
enum { SEGMENT_MAX_AREAS = 1 << 20, SEGMENT_MAX_AREA_BYTES = 1 << 30 };

struct segment;

/* All areas are zero and take memory when first touched. area_bytes is
 * rounded up to whole pages. */
coll_status segment_create(struct segment **, uint64_t job, int rank,
                           size_t nareas, size_t area_bytes);
struct segment_name segment_name(const struct segment *);
void *segment_area(const struct segment *, size_t i);
void segment_free(struct segment *);

struct segment_view {
    void *memory;
    size_t bytes;
    struct segment *shared; /* the segment itself, if of this process */
};

/* Maps area i of another rank's segment. The name is checked against job, rank
 * and nareas, and against what the segment says of itself. Returns NULL, else
 * what is wrong. A segment of this process is used where it already lies (so
 * that every thread sees one address) and lives until its last user leaves. */
const char *segment_attach(const struct segment_name *name, size_t i,
                           struct segment_view *);
void segment_detach(struct segment_view *);

#endif
