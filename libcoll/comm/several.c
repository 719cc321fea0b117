/* SPDX-License-Identifier: MIT */
/* Requests of several communicators: test and wait for all, or for any. */
#include "base/log.h"
#include "comm/owner.h"
#include "comm/several.h"

static bool is_active(const coll_request *r)
{
    return r && r->active;
}

static bool has_entered(const struct several *s, const coll_comm *comm)
{
    const coll_comm *c = s->comms;
    while (c && c != comm)
        c = c->also;
    return c;
}

/* Takes the first one off. */
static void leave(coll_comm **at)
{
    coll_comm *c = *at;
    *at = c->also;
    c->also = NULL;
    comm_leave(c);
}

void several_leave(struct several *s)
{
    while (s->comms)
        leave(&s->comms);
}

static coll_status check(int n, coll_request *const *requests,
                         const void *index, const char *call)
{
    if (n < 0 || (n > 0 && !requests) || !index)
        return fail(COLL_ERR_INVALID, "comm", "coll_%s: %s", call,
                    n < 0    ? "the number of requests is negative"
                    : !index ? "index is NULL"
                             : "requests is NULL");
    return COLL_OK;
}

coll_status several_enter(struct several *s, coll_comm *c, const char *call)
{
    if (has_entered(s, c))
        return COLL_OK;
    const coll_status status = comm_enter(c, call);
    if (status < 0)
        return status;
    c->also = s->comms;
    s->comms = c;
    return COLL_OK;
}

/* All communicators, or none. */
static coll_status enter_all(struct several *s, const char *call)
{
    coll_status status = COLL_OK;
    for (int i = 0; i < s->n && status == COLL_OK; i++) {
        const coll_request *r = s->requests[i];
        if (is_active(r))
            status = r->recorded ? request_not_begun(call)
                                 : several_enter(s, r->comm, call);
    }
    if (status < 0)
        several_leave(s);
    return status;
}

/* The first active request that is over, or under way; -1: there is none. */
static int find(const struct several *s, bool over)
{
    for (int i = 0; i < s->n; i++)
        if (is_active(s->requests[i])
            && (s->requests[i]->status != COLL_IN_PROGRESS) == over)
            return i;
    return -1;
}

static bool enough(const struct several *s)
{
    return s->any ? find(s, true) >= 0 || find(s, false) < 0
                  : find(s, false) < 0;
}

/* Sends and receives that nobody waits for may stay for as long as they like.
 */
static bool is_awaited(const struct several *s, const coll_comm *c)
{
    for (int i = 0; i < s->n; i++)
        if (is_active(s->requests[i]) && s->requests[i]->comm == c
            && s->requests[i]->status == COLL_IN_PROGRESS)
            return true;
    return false;
}

/* Leaves those communicators that have nothing left to wait for. */
static coll_status serve_all(void *context)
{
    struct several *s = context;
    for (coll_comm **at = &s->comms; *at;) {
        comm_serve(*at);
        if ((*at)->first || (p2p_is_busy(*at) && is_awaited(s, *at)))
            at = &(*at)->also;
        else
            leave(at);
    }
    return enough(s) ? COLL_OK : COLL_IN_PROGRESS;
}

static const char *what_of(const struct several *s)
{
    const int i = find(s, false);
    return i < 0 ? "a collective" : request_what(s->requests[i]);
}

void several_look(const struct several *s)
{
    enum { LOOKS = 256 };
    for (int i = 0; i < LOOKS && !enough(s); i++)
        for (coll_comm *c = s->comms; c; c = c->also) {
            if (c->first || !c->spins)
                return;
            comm_progress(c);
        }
}

void several_wait(struct several *s)
{
    while (serve_all(s) == COLL_IN_PROGRESS)
        comm_wait_several(&s->comms, serve_all, s, s->comms->op_seconds,
                          what_of(s));
}

static void ask_all(struct several *s)
{
    for (coll_comm *c = s->comms; c; c = c->also)
        comm_ask(c, what_of(s));
}

/* Of all that are over: the status of the first that failed. */
static coll_status end_all(struct several *s)
{
    coll_status first = COLL_OK;
    for (int i = 0; i < s->n; i++)
        if (is_active(s->requests[i])) {
            const coll_status status = request_end(&s->requests[i]);
            if (first == COLL_OK)
                first = status;
        }
    return first;
}

static coll_status end_any(struct several *s, int *index)
{
    *index = find(s, true);
    return *index < 0 ? COLL_OK : request_end(&s->requests[*index]);
}

coll_status coll_wait_all(int n, coll_request *requests[])
{
    struct several s = {.n = n, .requests = requests};
    coll_status status = check(n, requests, "", "wait_all");
    if (status == COLL_OK)
        status = enter_all(&s, "wait_all");
    if (status < 0)
        return status;
    several_wait(&s);
    status = end_all(&s);
    several_leave(&s);
    return status;
}

coll_status coll_wait_any(int n, coll_request *requests[], int *index)
{
    struct several s = {.n = n, .requests = requests, .any = true};
    coll_status status = check(n, requests, index, "wait_any");
    if (status == COLL_OK)
        status = enter_all(&s, "wait_any");
    if (status < 0)
        return status;
    several_wait(&s);
    status = end_any(&s, index);
    several_leave(&s);
    return status;
}

coll_status coll_test_all(int n, coll_request *requests[])
{
    struct several s = {.n = n, .requests = requests};
    coll_status status = check(n, requests, "", "test_all");
    if (status == COLL_OK)
        status = enter_all(&s, "test_all");
    if (status < 0)
        return status;
    ask_all(&s);
    status = enough(&s) ? end_all(&s) : COLL_IN_PROGRESS;
    several_leave(&s);
    return status;
}

coll_status coll_test_any(int n, coll_request *requests[], int *index)
{
    struct several s = {.n = n, .requests = requests, .any = true};
    coll_status status = check(n, requests, index, "test_any");
    if (status == COLL_OK)
        status = enter_all(&s, "test_any");
    if (status < 0)
        return status;
    ask_all(&s);
    status = enough(&s) ? end_any(&s, index) : COLL_IN_PROGRESS;
    several_leave(&s);
    return status;
}
