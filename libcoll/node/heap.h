/* SPDX-License-Identifier: MIT */
/* The node-shared heap: memory of this process that other ranks can map.
 *
 * A process has one heap, a memfd that only grows; a block is a range of it
 * that no other block ever had. So a block is named by its place in the file,
 * a stale name finds nothing of anybody else, and peers may keep a mapping as
 * long as they like: freeing a block takes the memory back under it.
 */
#ifndef NODE_HEAP_H
#define NODE_HEAP_H

#include "base/memfd.h"

enum { HEAP_FILES = 2 }; /* ordinary and huge pages */

struct heap_name {
    uint64_t process;                    /* random, one per process */
    struct memfd_name files[HEAP_FILES]; /* fd -1: there is none */
};

/* A vector in a block. */
struct heap_spot {
    uint64_t block;  /* place in the file, and which file in bit 0 */
    uint64_t bytes;  /* of the block; 0: not in this heap */
    uint64_t offset; /* of the vector, from the block's start */
};

/* Makes the heap at first use. Fails with SYSTEM. */
coll_status heap_open(struct heap_name *name);

/* Memory of a process that others have in common with it, in a file of its own:
 * it lasts as long as somebody has it mapped. Plain bytes, sent to others. */
struct heap_gift {
    struct memfd_name file;
    uint64_t at;
};

/* As coll_mem_alloc() and coll_mem_free(), coll_comm_register() and
 * _deregister(). Any thread. */
coll_status heap_alloc(void **memory, size_t bytes);
coll_status heap_free(void *memory);
coll_status heap_adopt(void *memory, size_t bytes);
coll_status heap_disown(void *memory);

/* Whether the next two would take it, but for a lack of memory: INVALID. */
coll_status heap_check(const void *memory, size_t bytes);
/* The pages of one process's memory, and in place of those of another's, which
 * is as long, with what is there. heap_disown() makes them each one's own
 * again. heap_give() also fails with UNSUPPORTED (pages.h), and has a
 * descriptor in gift->file, to be closed by the caller once all have received,
 * or -1. */
coll_status heap_give(void *memory, size_t bytes, struct heap_gift *);
coll_status heap_receive(void *memory, size_t bytes, struct heap_gift *);

/* Where [p, p + bytes) lies; bytes 0 in the result if it is not all in one
 * block, or that has left its pages with the caller (pages.h). */
struct heap_spot heap_find(const void *p, size_t bytes);

/* The same for who asks about one vector again and again. */
struct heap_memo {
    const void *p;
    size_t bytes;
    uint64_t change; /* of the heap, when this was so */
    struct heap_spot spot;
};
struct heap_spot heap_find_again(struct heap_memo *, const void *p,
                                 size_t bytes);

/* Where a block of this process begins, or NULL. */
void *heap_address(uint64_t block);

/* Maps a block of another process; NULL if that cannot be. The caller unmaps
 * the block's bytes. touch: with all its pages, for who needs most of them; a
 * message may need few of a large block. */
void *heap_map(const struct heap_name *of, uint64_t block, uint64_t bytes,
               bool touch);

#endif
