/* SPDX-License-Identifier: MIT */
#include "bootstrap/frame.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, EPOCH = 0 }; /* a job has one epoch until it can shrink */
enum { TYPE = 5, ZERO = 6, EPOCH_AT = 8, RANK = 12, LENGTH = 16 };

static const unsigned char start[5] = {'c', 'o', 'l', 'B', VERSION};

/* Bounds on the length of each type's body. */
static const struct {
    uint32_t min, max;
} lengths[FRAME_TYPES] = {
    [FRAME_HELLO] = {FRAME_HELLO_BYTES, FRAME_HELLO_BYTES},
    [FRAME_ABOUT] = {0, FRAME_ABOUT_MAX},
    [FRAME_GATHER] = {4, 4 + FRAME_GATHER_MAX},
    [FRAME_ABORT] = {4, 4 + FRAME_TEXT_MAX},
    [FRAME_LEAVE] = {0, 0},
    [FRAME_HEARD] = {0, 0},
    [FRAME_WELCOME] = {8, 8},
    [FRAME_REFUSED] = {4, 4 + FRAME_TEXT_MAX},
    [FRAME_GATHERED] = {0, FRAME_GATHER_MAX},
    [FRAME_FAILED] = {4, 4 + FRAME_TEXT_MAX},
    [FRAME_INQUIRE] = {0, 0},
    [FRAME_ASK] = {0, 4},
    [FRAME_CALLS] = {0, FRAME_CALLS_MAX * FRAME_CALL_BYTES},
};

uint32_t frame_get32(const void *from)
{
    const unsigned char *b = from;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16
           | (uint32_t)b[3] << 24;
}

void frame_put32(void *to, uint32_t value)
{
    unsigned char *b = to;
    for (int i = 0; i < 4; i++)
        b[i] = (unsigned char)(value >> 8 * i);
}

uint64_t frame_get64(const void *from)
{
    const unsigned char *b = from;
    return frame_get32(b) | (uint64_t)frame_get32(b + 4) << 32;
}

void frame_put64(void *to, uint64_t value)
{
    unsigned char *b = to;
    frame_put32(b, (uint32_t)value);
    frame_put32(b + 4, (uint32_t)(value >> 32));
}

/* Whether what is there of the header can be one of ours. Judging the first
 * bytes at once sends off a browser without waiting for 20 of its bytes. */
static bool header_fits(const struct frame_reader *r, size_t max_bytes)
{
    const unsigned char *h = r->data;
    if (memcmp(h, start, r->have < sizeof(start) ? r->have : sizeof(start)))
        return false;
    if (r->have < FRAME_HEADER)
        return true;

    const unsigned type = h[TYPE];
    const uint32_t rank = frame_get32(h + RANK);
    const uint32_t length = frame_get32(h + LENGTH);
    return type >= FRAME_HELLO && type < FRAME_TYPES && !h[ZERO] && !h[ZERO + 1]
           && frame_get32(h + EPOCH_AT) == EPOCH
           && (rank <= INT_MAX || rank == (uint32_t)FRAME_NOBODY)
           && length >= lengths[type].min && length <= lengths[type].max
           && length <= max_bytes - FRAME_HEADER;
}

static bool make_room(struct frame_reader *r, size_t bytes)
{
    if (bytes <= r->room)
        return true;
    size_t room = r->room ? r->room : 64;
    while (room < bytes)
        room *= 2;
    unsigned char *data = realloc(r->data, room);
    if (!data)
        return false;
    r->data = data;
    r->room = room;
    return true;
}

static size_t wanted(const struct frame_reader *r)
{
    return r->have < FRAME_HEADER
               ? FRAME_HEADER
               : FRAME_HEADER + (size_t)frame_get32(r->data + LENGTH);
}

static void start_over(struct frame_reader *r)
{
    if (r->room > 1 << 16)
        frame_reader_clear(r);
    r->have = 0;
    r->complete = false;
}

enum frame_result frame_read(struct frame_reader *r, size_t max_bytes,
                             const unsigned char **at, size_t *left,
                             struct frame *frame)
{
    if (r->complete)
        start_over(r);
    while (r->have < wanted(r)) {
        const bool in_header = r->have < FRAME_HEADER;
        const size_t more = wanted(r) - r->have;
        const size_t n = more < *left ? more : *left;
        if (!n)
            return FRAME_PARTIAL;
        if (!make_room(r, r->have + n))
            return FRAME_MEMORY;
        memcpy(r->data + r->have, *at, n);
        r->have += n;
        *at += n;
        *left -= n;
        if (in_header && !header_fits(r, max_bytes))
            return FRAME_BAD;
    }

    r->complete = true;
    *frame = (struct frame){
        .type = (enum frame_type)r->data[TYPE],
        .rank = (int)frame_get32(r->data + RANK),
        .body = r->data + FRAME_HEADER,
        .bytes = r->have - FRAME_HEADER,
    };
    return FRAME_COMPLETE;
}

void frame_reader_clear(struct frame_reader *r)
{
    free(r->data);
    *r = (struct frame_reader){0};
}

void frame_get_hello(const struct frame *frame, struct frame_hello *hello)
{
    const unsigned char *b = frame->body;
    memcpy(hello->key, b, FRAME_KEY);
    hello->nranks = frame_get32(b + FRAME_KEY);
    hello->join_ms = frame_get32(b + FRAME_KEY + 4);
    hello->waited_ms = frame_get32(b + FRAME_KEY + 8);
    hello->process = frame_get64(b + FRAME_KEY + 12);
}

void frame_get_text(const struct frame *frame, size_t from, char *text,
                    size_t room)
{
    size_t n = 0;
    for (size_t i = from; i < frame->bytes && n + 1 < room; i++) {
        const unsigned char c = frame->body[i];
        text[n++] = c < ' ' || c == 127 ? '?' : (char)c;
    }
    text[n] = '\0';
}

struct frame_bytes *frame_make(enum frame_type type, int rank,
                               size_t body_bytes)
{
    const size_t bytes = FRAME_HEADER + body_bytes;
    struct frame_bytes *frame = calloc(1, sizeof(*frame) + bytes);
    if (!frame)
        return NULL;
    frame->refs = 1;
    frame->bytes = bytes;
    memcpy(frame->data, start, sizeof(start));
    frame->data[TYPE] = (unsigned char)type;
    frame_put32(frame->data + EPOCH_AT, EPOCH);
    frame_put32(frame->data + RANK, (uint32_t)rank);
    frame_put32(frame->data + LENGTH, (uint32_t)body_bytes);
    return frame;
}

struct frame_bytes *frame_make_hello(int rank, const struct frame_hello *hello)
{
    struct frame_bytes *frame = frame_make(FRAME_HELLO, rank,
                                           FRAME_HELLO_BYTES);
    if (!frame)
        return NULL;
    unsigned char *b = frame->data + FRAME_HEADER;
    memcpy(b, hello->key, FRAME_KEY);
    frame_put32(b + FRAME_KEY, hello->nranks);
    frame_put32(b + FRAME_KEY + 4, hello->join_ms);
    frame_put32(b + FRAME_KEY + 8, hello->waited_ms);
    frame_put64(b + FRAME_KEY + 12, hello->process);
    return frame;
}

struct frame_bytes *frame_make_text(enum frame_type type, int rank,
                                    const char *text)
{
    const size_t n = strnlen(text, FRAME_ABOUT_MAX);
    struct frame_bytes *frame = frame_make(type, rank, n);
    if (frame)
        memcpy(frame->data + FRAME_HEADER, text, n);
    return frame;
}

struct frame_bytes *frame_make_status(enum frame_type type, int rank,
                                      int status, const char *text)
{
    const size_t n = strnlen(text, FRAME_TEXT_MAX);
    struct frame_bytes *frame = frame_make(type, rank, 4 + n);
    if (frame) {
        frame_put32(frame->data + FRAME_HEADER, (uint32_t)status);
        memcpy(frame->data + FRAME_HEADER + 4, text, n);
    }
    return frame;
}

void frame_release(struct frame_bytes *frame)
{
    if (frame && !--frame->refs)
        free(frame);
}

bool outbox_add(struct outbox *box, struct frame_bytes *frame)
{
    if (!frame || box->n == OUTBOX_MAX)
        return false;
    frame->refs++;
    box->queue[box->n++] = frame;
    return true;
}

bool outbox_give(struct outbox *box, struct frame_bytes *frame)
{
    const bool added = outbox_add(box, frame);
    frame_release(frame);
    return added;
}

size_t outbox_peek(const struct outbox *box, const unsigned char **bytes)
{
    if (!box->n)
        return 0;
    *bytes = box->queue[0]->data + box->sent;
    return box->queue[0]->bytes - box->sent;
}

void outbox_sent(struct outbox *box, size_t bytes)
{
    box->sent += bytes;
    if (!box->n || box->sent < box->queue[0]->bytes)
        return;
    frame_release(box->queue[0]);
    box->n--;
    memmove(box->queue, box->queue + 1, (size_t)box->n * sizeof(*box->queue));
    box->sent = 0;
}

void outbox_clear(struct outbox *box)
{
    for (int i = 0; i < box->n; i++)
        frame_release(box->queue[i]);
    *box = (struct outbox){0};
}
