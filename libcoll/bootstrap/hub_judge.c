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

/* upto: of the calls up to that number; NULL: of the last ones. */
static void ask(struct hub *h, const uint32_t *upto, double now)
{
    struct frame_bytes *question =
        frame_make(FRAME_ASK, FRAME_NOBODY, upto ? sizeof(*upto) : 0);
    if (!question)
        return; /* who doubts asks again */
    if (upto)
        frame_put32(question->data + FRAME_HEADER, *upto);
    h->goes_back = upto != NULL;
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
        ask(h, NULL, now);
}

/* The first call that differs of two ranks', by their numbers. */
struct verdict {
    int one, other; /* ranks; one -1: none */
    uint32_t number;
    bool sure; /* the call before is known to be alike, or there is none */
    const unsigned char *its, *others;
};

/* Whether both tell of some call that is alike. */
static bool compare(const struct hub *h, int one, int other, struct verdict *v)
{
    const struct seat *a = &h->seats[one], *b = &h->seats[other];
    bool alike = false;
    if (!a->answered || !b->answered)
        return false;
    for (int i = 0, k = 0; i < a->ncalls && k < b->ncalls;) {
        const unsigned char *x = row(a, i), *y = row(b, k);
        const uint32_t number = frame_get32(x);
        const int32_t ahead = (int32_t)(number - frame_get32(y)); /* wraps */
        if (ahead == 0 && frame_get32(x + TAG_AT) != frame_get32(y + TAG_AT)) {
            if (v->one < 0 || (int32_t)(number - v->number) < 0)
                *v = (struct verdict){one, other, number, alike || number == 1,
                                      x,   y};
            return alike;
        }
        alike |= ahead == 0;
        i += ahead <= 0;
        k += ahead >= 0;
    }
    return alike;
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

/* Whether some rank is so far ahead that it has not told of that call. */
static bool is_passed(const struct hub *h, uint32_t number)
{
    for (int r = 0; r < h->nranks; r++) {
        const struct seat *s = &h->seats[r];
        if (s->answered && s->ncalls
            && (int32_t)(frame_get32(row(s, 0)) - number) > 0)
            return true;
    }
    return false;
}

static void keep(struct hub *h, const struct verdict *v)
{
    h->found = (struct hub_found){
        .known = true, .sure = v->sure, .one = v->one, .other = v->other};
    get_text(h->found.its, v->its);
    get_text(h->found.others, v->others);
}

static void tell(struct hub *h, double now)
{
    const struct hub_found *f = &h->found;
    if (!f->sure)
        hub_fail(
            h, COLL_ERR_MISMATCH, f->other, now,
            "ranks made different calls, at the latest when rank %d called "
            "%s and rank %d called %s; kind, count, dtype, op, root and "
            "order must be equal on all ranks",
            f->one, f->its, f->other, f->others);
    else if (strcmp(f->its, f->others))
        hub_fail(h, COLL_ERR_MISMATCH, f->other, now,
                 "ranks made different calls: rank %d called %s, but rank %d "
                 "called %s; kind, count, dtype, op, root and order must be "
                 "equal on all ranks",
                 f->one, f->its, f->other, f->others);
    else
        hub_fail(h, COLL_ERR_MISMATCH, f->other, now,
                 "ranks run one call in different ways: rank %d called %s, and "
                 "rank %d called %s, by another algorithm; "
                 "coll_comm_set_algorithm() must be called alike",
                 f->one, f->its, f->other, f->others);
}

/* Goes back to the first call that differs, as far as all answer in time and
 * still know. The two ranks that were found to differ are followed in any case:
 * meanwhile another may be the hindmost, far behind both. */
void hub_judge(struct hub *h, double now)
{
    struct verdict v = {.one = -1};
    const bool all = h->nanswers == h->nranks;
    const int last = hindmost(h);
    h->answer_deadline = INFINITY;
    const bool alike =
        h->found.known && compare(h, h->found.one, h->found.other, &v);
    for (int r = 0; r < h->nranks && last >= 0; r++) {
        compare(h, last, r, &v);
        if (r > 0)
            compare(h, r - 1, r, &v);
    }
    if (v.one >= 0)
        keep(h, &v);
    uint32_t upto = v.number - 1;
    if (v.one < 0 && last >= 0)
        upto = frame_get32(row(&h->seats[last], h->seats[last].ncalls - 1));
    if (all && last >= 0
        && (v.one >= 0 ? !v.sure : !h->goes_back && is_passed(h, upto))) {
        ask(h, &upto, now);
        return;
    }
    if (h->found.known) {
        h->found.sure |= alike && v.one < 0;
        tell(h, now);
        return;
    }
    if (h->asks_again)
        ask(h, NULL, now);
    h->asks_again = false;
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
