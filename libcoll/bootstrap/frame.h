/* SPDX-License-Identifier: MIT */
/* What travels on the link between a rank and the hub: frames.
 *
 *     0       4         5      6      8       12     16       20
 *     magic   version   type   zero   epoch   rank   length   body ...
 *
 * Integers are little-endian. A reader takes bytes as they come, checks the
 * header before it keeps any of the body, and grows its memory with what has
 * arrived, never with what was announced. No I/O here.
 */
#ifndef BOOTSTRAP_FRAME_H
#define BOOTSTRAP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_HEADER = 20,
    FRAME_KEY = 16,        /* bytes of the job's key */
    FRAME_ABOUT_MAX = 255, /* bytes, as FRAME_TEXT_MAX */
    FRAME_TEXT_MAX = 767,
    FRAME_STRANGER_MAX = 256, /* bytes heard from who has no key, in all */
    FRAME_GATHER_MAX = 64 << 20,
    FRAME_RANKS_MAX = 65536,
    FRAME_NOBODY = -1,     /* as a rank */
    FRAME_CALL_BYTES = 96, /* number (4), tag (4), text */
    FRAME_CALLS_MAX = 32,
};

enum frame_type {
    FRAME_HELLO = 1, /* to the hub: struct frame_hello; rank: who comes */
    FRAME_ABOUT,     /* to the hub: text, what to call the rank */
    FRAME_GATHER,    /* to the hub: milliseconds to wait (4), data */
    FRAME_ABORT,     /* to the hub: status (4), text */
    FRAME_LEAVE,     /* to the hub: the last frame, in peace */
    FRAME_HEARD,     /* from the hub: the hello was right */
    FRAME_WELCOME,   /* from the hub: all have joined; its process (8) */
    FRAME_REFUSED,   /* from the hub: status (4), text; the job goes on */
    FRAME_GATHERED,  /* from the hub: the data of rank 0, 1, ... */
    FRAME_FAILED,    /* from the hub: status (4), text; rank: the culprit */
    FRAME_INQUIRE,   /* to the hub: are all ranks in the same call? */
    FRAME_ASK,   /* from the hub: what have you called last? Or up to a call of
                    that number (4)? */
    FRAME_CALLS, /* to the hub: calls, the oldest first */
    FRAME_TYPES
};

struct frame {
    enum frame_type type;
    int rank;                  /* sender, or as said above */
    const unsigned char *body; /* until the reader's next call */
    size_t bytes;
};

struct frame_hello {
    unsigned char key[FRAME_KEY];
    uint32_t nranks;
    uint32_t join_ms, waited_ms; /* patience, and what is used up of it */
    uint64_t process;            /* equal only within one process */
};
enum { FRAME_HELLO_BYTES = FRAME_KEY + 4 + 4 + 4 + 8 };

struct frame_reader { /* zero it to start */
    unsigned char *data;
    size_t have, room;
    bool complete;
};

enum frame_result {
    FRAME_PARTIAL,  /* all bytes are taken, the frame goes on */
    FRAME_COMPLETE, /* *frame is it; there may be bytes left */
    FRAME_BAD,      /* not this protocol */
    FRAME_MEMORY,
};

/* Takes bytes up to the end of one frame, moving *at and *left on. A frame of
 * more than max_bytes, header included, is bad. */
enum frame_result frame_read(struct frame_reader *, size_t max_bytes,
                             const unsigned char **at, size_t *left,
                             struct frame *frame);
void frame_reader_clear(struct frame_reader *);

void frame_get_hello(const struct frame *, struct frame_hello *);

/* Copies body[from, ...) as text; control characters become '?', so that a
 * peer cannot forge lines of a log. */
void frame_get_text(const struct frame *, size_t from, char *text, size_t room);

/* One frame ready to send, shared by those who send it. */
struct frame_bytes {
    int refs;
    size_t bytes;
    unsigned char data[]; /* header, body */
};

/* With one reference, and a body of zeros to fill in. NULL: memory. */
struct frame_bytes *frame_make(enum frame_type, int rank, size_t body_bytes);
struct frame_bytes *frame_make_hello(int rank, const struct frame_hello *);
struct frame_bytes *frame_make_text(enum frame_type, int rank,
                                    const char *text);
struct frame_bytes *frame_make_status(enum frame_type, int rank, int status,
                                      const char *text);
void frame_release(struct frame_bytes *); /* NULL is allowed */

/* Frames on their way out. The protocol has fewer than OUTBOX_MAX under way. */
enum { OUTBOX_MAX = 8 };
struct outbox { /* zero it to start */
    struct frame_bytes *queue[OUTBOX_MAX];
    int n;
    size_t sent; /* of queue[0] */
};

/* Takes a reference of its own. False if full, or frame is NULL. */
bool outbox_add(struct outbox *, struct frame_bytes *frame);
/* Like outbox_add(), and releases the caller's reference. */
bool outbox_give(struct outbox *, struct frame_bytes *frame);
size_t outbox_peek(const struct outbox *, const unsigned char **bytes);
void outbox_sent(struct outbox *, size_t bytes);
void outbox_clear(struct outbox *);

uint32_t frame_get32(const void *);
void frame_put32(void *, uint32_t);
uint64_t frame_get64(const void *);
void frame_put64(void *, uint64_t);

#endif
