/* SPDX-License-Identifier: MIT */
/* Groups of calls.
 *
 * Calls are checked and recorded, in order. At the outermost end all start: so
 * no send waits for a receive that is called behind it. Allreduces that come
 * one after another in one communicator, with the same dtype and op, become
 * one: their vectors are copied side by side, which for short ones takes far
 * less than a message. All ranks see the same collectives in the same order, so
 * all fuse alike; sends and receives between them, which differ, do not count.
 *
 * Not fused are operators of the caller's own, whose function may care for
 * where a vector begins; and what COLL_DETERMINISM=run or layout promises to
 * repeat, as it would hang on what else is in the group. Sums in rank order, as
 * full has them, do not.
 */
#include "comm/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/several.h"

_Atomic int group_threads;

static _Thread_local struct {
    int depth, n, max;
    coll_request **calls;          /* [n], in order */
    coll_status failed;            /* of the first call that did */
    char sentence[SENTENCE_BYTES]; /* and why */
} group;

bool group_is_open_here(void)
{
    return group.depth > 0;
}

coll_status coll_group_start(void)
{
    if (group.depth++ == 0) {
        atomic_fetch_add_explicit(&group_threads, 1, memory_order_relaxed);
        group.failed = COLL_OK;
    }
    return COLL_OK;
}

static void note(coll_status failed)
{
    if (group.failed < 0)
        return;
    group.failed = failed;
    snprintf(group.sentence, sizeof(group.sentence), "%s", fail_sentence());
}

coll_status group_noted(coll_status failed)
{
    if (group_is_open())
        note(failed);
    return failed;
}

coll_status group_check_unused(const coll_comm *c, const char *call)
{
    for (int i = 0; i < group.n; i++)
        if (group.calls[i]->comm == c)
            return fail(COLL_ERR_INVALID, "comm",
                        "coll_%s: the communicator has calls in a group that "
                        "has not ended (coll_group_end())",
                        call);
    return COLL_OK;
}

static bool make_room(void)
{
    if (group.n < group.max)
        return true;
    const int max = group.max ? 2 * group.max : 16;
    coll_request **calls =
        realloc(group.calls, (size_t)max * sizeof(*group.calls));
    if (!calls)
        return false;
    group.calls = calls;
    group.max = max;
    return true;
}

coll_status group_add(const coll_request *call, coll_request **request)
{
    coll_request *r = make_room() ? malloc(sizeof(*r)) : NULL;
    if (!r)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for a request");
    *r = *call;
    r->status = COLL_IN_PROGRESS;
    r->recorded = true;
    r->owned = request != NULL;
    group.calls[group.n++] = r;
    if (request)
        *request = r;
    return COLL_OK;
}

static bool is_p2p(const coll_request *r)
{
    return r->p2p.way != NOT_P2P;
}

/* The next collective of the same communicator; n: there is none. */
static int next_of(int i)
{
    const coll_comm *c = group.calls[i]->comm;
    do
        i++;
    while (i < group.n
           && (is_p2p(group.calls[i]) || group.calls[i]->comm != c));
    return i;
}

static bool may_fuse(const coll_request *r)
{
    const enum determinism d = r->comm->determinism;
    return !is_p2p(r) && r->kind == ALLREDUCE && !op_is_handle(r->op)
           && (d == DETERMINISM_OFF || d == DETERMINISM_FULL);
}

/* How many from call i on become one, and of how many elements. */
static int count_fusible(int i, size_t *count)
{
    const coll_request *r = group.calls[i];
    int n = 0;
    *count = 0;
    if (!may_fuse(r))
        return 1;
    for (; i < group.n; i = next_of(i), n++) {
        const coll_request *at = group.calls[i];
        if (at->kind != ALLREDUCE || at->dtype != r->dtype || at->op != r->op
            || at->count > GROUP_FUSED_BYTES / r->elem_bytes - *count)
            break;
        *count += at->count;
    }
    return n;
}

/* Copies n inputs from call i on side by side, and links their requests. */
static void gather_parts(int i, int n, char *at)
{
    for (; n--; i = next_of(i)) {
        coll_request *r = group.calls[i];
        const size_t bytes = r->count * r->elem_bytes;
        if (bytes)
            memcpy(at, r->in, bytes);
        at += bytes;
        r->next = n ? group.calls[next_of(i)] : NULL;
    }
}

/* n allreduces as one, which is in place in memory of its own. */
static coll_status fuse(int i, int n, size_t count)
{
    coll_request *r = group.calls[i];
    const size_t head = (sizeof(*r) + 63) / 64 * 64;
    coll_request *fused =
        aligned_alloc(64, head + (count * r->elem_bytes + 63) / 64 * 64);
    if (!fused)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %zu elements",
                    count);
    *fused = *r;
    fused->in = fused->out = (char *)fused + head;
    fused->count = count;
    fused->parts = r;
    gather_parts(i, n, fused->out);
    const coll_status status = request_start(fused);
    if (status < 0)
        free(fused);
    for (; status == COLL_OK && r; r = r->next)
        r->recorded = false;
    return status;
}

uint32_t group_lengths(const coll_request *fused)
{
    uint64_t h = 1;
    for (const coll_request *r = fused->parts; r; r = r->next)
        h = request_mix(h, r->count);
    return (uint32_t)(h >> 32) | 1;
}

void group_end_fused(coll_request *fused, coll_status status)
{
    const char *at = fused->in;
    for (coll_request *r = fused->parts, *next; r; r = next) {
        next = r->next;
        const size_t bytes = r->count * r->elem_bytes;
        if (status == COLL_OK && bytes)
            memcpy(r->out, at, bytes);
        at += bytes;
        r->status = status;
    }
    free(fused);
}

/* This thread is inside all communicators of the group, or the calls on one
 * that another thread is in have failed. */
static void enter_all(struct several *s)
{
    for (int i = 0; i < group.n; i++) {
        coll_request *r = group.calls[i];
        const coll_status status = several_enter(s, r->comm, "group_end");
        if (status == COLL_OK)
            continue;
        note(status);
        r->recorded = false;
        r->status = status;
    }
}

static void start(int i)
{
    coll_request *r = group.calls[i];
    size_t count = 0;
    const int n = count_fusible(i, &count);
    if (n > 1 && fuse(i, n, count) == COLL_OK)
        return;
    r->recorded = false; /* or one by one, if memory is short */
    if (is_p2p(r)) {
        request_start_p2p(r);
        return;
    }
    const coll_status status = request_start(r);
    if (status < 0) {
        note(status);
        r->status = status;
    }
}

/* Those with a request are the caller's from here on. */
static void drop_owned(void)
{
    int n = 0;
    for (int i = 0; i < group.n; i++)
        if (!group.calls[i]->owned)
            group.calls[n++] = group.calls[i];
    group.n = n;
}

static void end(coll_request *r)
{
    if (r->status < 0 && group.failed == COLL_OK) {
        fail(r->status, "comm", "%s", r->comm->sentence);
        note(r->status);
    }
    free(r->uneven);
    free(r);
}

coll_status coll_group_end(void)
{
    struct several s = {.n = 0};
    if (group.depth == 0)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_group_end: no group was started by this thread");
    if (--group.depth > 0)
        return COLL_OK;
    atomic_fetch_sub_explicit(&group_threads, 1, memory_order_relaxed);
    enter_all(&s);
    for (int i = 0; i < group.n; i++)
        if (group.calls[i]->recorded)
            start(i);
    drop_owned();
    s.n = group.n;
    s.requests = group.calls;
    several_wait(&s);
    several_leave(&s);
    for (int i = 0; i < group.n; i++)
        end(group.calls[i]);
    free(group.calls);
    group.calls = NULL;
    group.n = group.max = 0;
    return group.failed < 0 ? fail(group.failed, "comm", "%s", group.sentence)
                            : COLL_OK;
}
