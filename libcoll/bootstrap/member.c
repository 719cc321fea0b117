/* SPDX-License-Identifier: MIT */
#include "bootstrap/member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap/bootstrap.h"

static void fail_member(struct member *m, coll_status status, const char *why)
{
    if (m->phase == MEMBER_FAILED || m->phase == MEMBER_LEFT)
        return;
    m->phase = MEMBER_FAILED;
    m->status = status;
    snprintf(m->sentence, sizeof(m->sentence), "%s", why);
}

bool member_call(struct member *m, int rank, const struct frame_hello *hello,
                 const char *about)
{
    member_clear(m);
    m->rank = rank;
    m->nranks = (int)hello->nranks;
    return outbox_give(&m->out, frame_make_hello(rank, hello))
           && outbox_give(&m->out, frame_make_text(FRAME_ABOUT, rank, about));
}

void member_clear(struct member *m)
{
    frame_reader_clear(&m->reader);
    outbox_clear(&m->out);
    free(m->gathered_data);
    *m = (struct member){.culprit = BOOTSTRAP_NOBODY};
}

static void hear_status(struct member *m, const struct frame *frame)
{
    char why[FRAME_TEXT_MAX + 1];
    /* Unsigned first: the number may be anything. */
    const uint32_t code = -frame_get32(frame->body);
    const bool known = code >= 1 && code <= (uint32_t)-COLL_ERR_MISMATCH;
    frame_get_text(frame, 4, why, sizeof(why));
    m->told |= m->phase != MEMBER_FAILED && frame->type == FRAME_FAILED;
    if (m->phase != MEMBER_FAILED && known && (int)code == -COLL_ERR_PEER
        && frame->rank < m->nranks)
        m->culprit = frame->rank;
    fail_member(m, known ? (coll_status) - (int)code : COLL_ERR_PEER, why);
}

static void hear_gathered(struct member *m, const struct frame *frame)
{
    const size_t bytes = m->part_bytes * (size_t)m->nranks;
    if (!m->gathering || frame->bytes != bytes) {
        fail_member(m, COLL_ERR_PEER,
                    "the hub sent an allgather that was not asked for");
        return;
    }
    m->gathered_data = malloc(bytes + 1);
    if (!m->gathered_data) {
        fail_member(m, COLL_ERR_MEMORY, "no memory for an allgather");
        return;
    }
    memcpy(m->gathered_data, frame->body, bytes);
    m->gathering = false;
    m->gathered = true;
}

static void hear_question(struct member *m, const struct frame *frame)
{
    m->asked = true;
    m->asked_upto = frame->bytes == 4;
    if (m->asked_upto)
        m->upto = frame_get32(frame->body);
}

static void turn_foreign(struct member *m, const char *why)
{
    m->foreign = m->phase != MEMBER_FAILED;
    fail_member(m, COLL_ERR_PEER, why);
}

static void hear(struct member *m, const struct frame *frame)
{
    const bool joining = m->phase == MEMBER_CALLING || m->phase == MEMBER_HEARD;
    if (frame->type == FRAME_HEARD && m->phase == MEMBER_CALLING)
        m->phase = MEMBER_HEARD;
    else if (frame->type == FRAME_WELCOME && joining)
        m->phase = MEMBER_RUNNING;
    else if (frame->type == FRAME_FAILED || frame->type == FRAME_REFUSED)
        hear_status(m, frame);
    else if (frame->type == FRAME_GATHERED)
        hear_gathered(m, frame);
    else if (frame->type == FRAME_ASK)
        hear_question(m, frame);
    else
        turn_foreign(m, "the hub sent what it should not");
}

void member_received(struct member *m, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    while (n && m->phase != MEMBER_FAILED) {
        struct frame frame;
        switch (frame_read(&m->reader, FRAME_HEADER + FRAME_GATHER_MAX, &at, &n,
                           &frame)) {
        case FRAME_PARTIAL:
            return;
        case FRAME_COMPLETE:
            hear(m, &frame);
            break;
        case FRAME_BAD:
            turn_foreign(m, "the hub sent bytes that are not the bootstrap's "
                            "protocol");
            break;
        case FRAME_MEMORY:
            fail_member(m, COLL_ERR_MEMORY, "no memory for a frame");
            break;
        }
    }
}

void member_closed(struct member *m, const char *why)
{
    char sentence[256];
    if (m->phase == MEMBER_LEAVING) {
        m->phase = MEMBER_LEFT;
        return;
    }
    snprintf(
        sentence, sizeof(sentence),
        "the link to the hub (in the process of rank 0, or of who made the "
        "id) closed: %s",
        why);
    m->told |= m->phase != MEMBER_FAILED;
    if (m->phase == MEMBER_RUNNING)
        m->culprit = BOOTSTRAP_HUB;
    fail_member(m, COLL_ERR_PEER, sentence);
}

size_t member_output(const struct member *m, const unsigned char **bytes)
{
    return outbox_peek(&m->out, bytes);
}

void member_sent(struct member *m, size_t bytes)
{
    outbox_sent(&m->out, bytes);
}

bool member_gather(struct member *m, const void *mine, size_t bytes,
                   double wait_seconds)
{
    if (m->gathering || m->gathered)
        return false;
    struct frame_bytes *frame = frame_make(FRAME_GATHER, m->rank, 4 + bytes);
    if (!frame)
        return false;
    frame_put32(frame->data + FRAME_HEADER, (uint32_t)(wait_seconds * 1e3));
    if (bytes)
        memcpy(frame->data + FRAME_HEADER + 4, mine, bytes);
    m->part_bytes = bytes;
    m->gathering = outbox_give(&m->out, frame);
    return m->gathering;
}

void member_take(struct member *m, void *all)
{
    memcpy(all, m->gathered_data, m->part_bytes * (size_t)m->nranks);
    free(m->gathered_data);
    m->gathered_data = NULL;
    m->gathered = false;
}

void member_inquire(struct member *m)
{
    if (m->phase == MEMBER_RUNNING)
        outbox_give(&m->out, frame_make(FRAME_INQUIRE, m->rank, 0));
}

void member_answer(struct member *m, struct frame_bytes *frame)
{
    m->asked = false;
    if (m->phase == MEMBER_RUNNING)
        outbox_give(&m->out, frame);
    else
        frame_release(frame);
}

void member_abort(struct member *m, coll_status status, const char *why)
{
    if (m->phase == MEMBER_FAILED)
        return;
    outbox_give(&m->out, frame_make_status(FRAME_ABORT, m->rank, status, why));
    fail_member(m, status, why);
}

void member_leave(struct member *m)
{
    if (m->phase == MEMBER_FAILED)
        return;
    outbox_give(&m->out, frame_make(FRAME_LEAVE, m->rank, 0));
    m->phase = MEMBER_LEAVING;
}
