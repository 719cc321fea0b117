/* SPDX-License-Identifier: MIT */
/* Whether ranks have made different calls. A rank that waits for long, or was
 * sent a message of another call, inquires; the hub asks all, their links'
 * threads answer at once, whatever the ranks do, and their answers are
 * compared.
 */
#include "bootstrap/hub_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double answer_seconds = .3;

/* One row of an answer: the number and the tag of a call, and its text. */
enum { TAG_AT = 4, TEXT_AT = 8 };

static const unsigned char *row(const struct seat *s, int i)
{
    return s->calls + (size_t)i * FRAME_CALL_BYTES;
}

static void ask(struct hub *h, double now)
{
    struct frame_bytes *question = frame_make(FRAME_ASK, FRAME_NOBODY, 0);
    if (!question)
        return; /* who doubts asks again */
    for (int r = 0; r < h->nranks; r++)
        h->seats[r].answered = false;
    h->nanswers = 0;
    for (int c = 0; c < h->nconns; c++)
        if (h->conns[c].state == CONN_MEMBER)
            outbox_add(&h->conns[c].out, question);
    frame_release(question);
    h->answer_deadline = now + answer_seconds;
}

/* Of a question under way some answers may be older than what made this rank
 * doubt: so another one follows. */
void hub_hear_inquiry(struct hub *h, double now)
{
    if (h->answer_deadline != INFINITY)
        h->asks_again = true;
    else if (h->phase == HUB_RUNNING)
        ask(h, now);
}

/* The first call that differs of two ranks', by their numbers. */
struct verdict {
    int one, other; /* ranks; one -1: none */
    const unsigned char *its, *others;
};

static void compare(const struct hub *h, int one, int other, struct verdict *v)
{
    const struct seat *a = &h->seats[one], *b = &h->seats[other];
    if (!a->answered || !b->answered)
        return;
    for (int i = 0, k = 0; i < a->ncalls && k < b->ncalls;) {
        const unsigned char *x = row(a, i), *y = row(b, k);
        const uint32_t number = frame_get32(x);
        const int32_t ahead = (int32_t)(number - frame_get32(y)); /* wraps */
        if (ahead == 0 && frame_get32(x + TAG_AT) != frame_get32(y + TAG_AT)) {
            if (v->one < 0 || (int32_t)(number - frame_get32(v->its)) < 0)
                *v = (struct verdict){one, other, x, y};
            return;
        }
        i += ahead <= 0;
        k += ahead >= 0;
    }
}

/* Of those who answered, one whose last call is the earliest. */
static int hindmost(const struct hub *h)
{
    int last = -1;
    uint32_t number = 0;
    for (int r = 0; r < h->nranks; r++) {
        const struct seat *s = &h->seats[r];
        if (!s->answered || !s->ncalls)
            continue;
        const uint32_t its = frame_get32(row(s, s->ncalls - 1));
        if (last < 0 || (int32_t)(its - number) < 0) {
            last = r;
            number = its;
        }
    }
    return last;
}

static void get_text(char text[FRAME_CALL_BYTES], const unsigned char *call)
{
    const struct frame frame = {
        .body = call,
        .bytes =
            TEXT_AT
            + strnlen((const char *)call + TEXT_AT, FRAME_CALL_BYTES - TEXT_AT),
    };
    frame_get_text(&frame, TEXT_AT, text, FRAME_CALL_BYTES);
}

void hub_judge(struct hub *h, double now)
{
    struct verdict v = {.one = -1};
    const int last = hindmost(h);
    h->answer_deadline = INFINITY;
    for (int r = 0; r < h->nranks && last >= 0; r++) {
        compare(h, last, r, &v);
        if (r > 0)
            compare(h, r - 1, r, &v);
    }
    if (v.one < 0) {
        if (h->asks_again)
            ask(h, now);
        h->asks_again = false;
        return;
    }
    char one[FRAME_CALL_BYTES], other[FRAME_CALL_BYTES];
    get_text(one, v.its);
    get_text(other, v.others);
    if (strcmp(one, other))
        hub_fail(h, COLL_ERR_MISMATCH, v.other, now,
                 "ranks made different calls: rank %d called %s, but rank %d "
                 "called %s; kind, count, dtype, op, root and order must be "
                 "equal on all ranks",
                 v.one, one, v.other, other);
    else
        hub_fail(h, COLL_ERR_MISMATCH, v.other, now,
                 "ranks run one call in different ways: rank %d called %s, and "
                 "rank %d called %s, by another algorithm; "
                 "coll_comm_set_algorithm() must be called alike",
                 v.one, one, v.other, other);
}

void hub_hear_calls(struct hub *h, int rank, const struct frame *frame,
                    double now)
{
    struct seat *s = &h->seats[rank];
    free(s->calls);
    s->calls = malloc(frame->bytes + 1);
    s->ncalls = s->calls ? (int)(frame->bytes / FRAME_CALL_BYTES) : 0;
    if (s->calls)
        memcpy(s->calls, frame->body, frame->bytes);
    h->nanswers += !s->answered;
    s->answered = true;
    /* What comes late is compared with what there is. */
    if (h->nanswers == h->nranks || h->answer_deadline == INFINITY)
        hub_judge(h, now);
}
