/* SPDX-License-Identifier: MIT */
/* Groups of calls.
 *
 * Calls are checked and recorded, in order. Sends and receives start at once,
 * as that waits for nobody, and those that are over then need not be recorded.
 * At the outermost end the others start, and all are waited for: so no send
 * waits for a receive that is called behind it. Allreduces that come one after
 * another in one communicator, with the same dtype and op, become one: their
 * vectors are copied side by side, which for short ones takes far less than a
 * message. All ranks see the same collectives in the same order, so all fuse
 * alike; sends and receives between them, which differ, do not count.
 *
 * Not fused are operators of the caller's own, whose function may care for
 * where a vector begins; and what COLL_DETERMINISM=run or layout promises to
 * repeat, as it would hang on what else is in the group. Sums in pairs, as full
 * has them, do not.
 */
#include "comm/group.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/several.h"

struct group_threads group_threads;

static bool is_first_thread(struct group *g)
{
    struct group *first =
        atomic_load_explicit(&group_threads.first, memory_order_relaxed);
    return first == g
           || (!first
               && atomic_compare_exchange_strong_explicit(
                   &group_threads.first, &first, g, memory_order_relaxed,
                   memory_order_relaxed));
}

/* Only this thread looks at what it changes here, so no order is needed. */
static void set_inside(struct group *g, bool inside)
{
    if (is_first_thread(g))
        atomic_store_explicit(&group_threads.first_is_in, inside,
                              memory_order_relaxed);
    else
        atomic_fetch_add_explicit(&group_threads.others, inside ? 1 : -1,
                                  memory_order_relaxed);
}

coll_status coll_group_start(void)
{
    struct group *const g = group_here();
    if (g->depth++ == 0) {
        set_inside(g, true);
        g->failed = COLL_OK;
    }
    return COLL_OK;
}

static void note(struct group *g, coll_status failed)
{
    if (g->failed < 0)
        return;
    g->failed = failed;
    snprintf(g->sentence, sizeof(g->sentence), "%s", fail_sentence());
}

coll_status group_noted(coll_status failed)
{
    struct group *const g = group_open();
    if (g)
        note(g, failed);
    return failed;
}

coll_status group_check_unused(const coll_comm *c, const char *call)
{
    struct group *const g = group_here();
    for (int i = 0; i < g->n; i++)
        if (g->calls[i]->comm == c)
            return fail(COLL_ERR_INVALID, "comm",
                        "coll_%s: the communicator has calls in a group that "
                        "has not ended (coll_group_end())",
                        call);
    return COLL_OK;
}

static bool make_room(struct group *g)
{
    if (g->n < g->max)
        return true;
    if (!g->max) {
        g->calls = g->few;
        g->max = GROUP_FEW;
        return true;
    }
    const size_t bytes = 2 * (size_t)g->max * sizeof(*g->calls);
    const bool few = g->calls == g->few;
    coll_request **calls = few ? malloc(bytes) : realloc(g->calls, bytes);
    if (!calls)
        return false;
    if (few)
        memcpy(calls, g->few, sizeof(g->few));
    g->calls = calls;
    g->max *= 2;
    return true;
}

static bool is_own(const struct group *g, const coll_request *r)
{
    return (uintptr_t)r - (uintptr_t)g->own < sizeof(g->own);
}

coll_request *group_place(struct group *g, bool owned)
{
    coll_request *r = !make_room(g)                ? NULL
                      : owned || g->n >= GROUP_FEW ? malloc(sizeof(*r))
                                                   : &g->own[g->n];
    if (!r)
        fail(COLL_ERR_MEMORY, "comm", "no memory for a request");
    return r;
}

void group_keep(struct group *g, coll_request *r, coll_request **request)
{
    r->recorded = true;
    r->owned = request != NULL;
    g->calls[g->n++] = r;
    if (request)
        *request = r;
}

void group_drop(struct group *g, coll_request *r)
{
    if (!is_own(g, r))
        free(r);
}

coll_status group_add(struct group *g, const coll_request *call,
                      coll_request **request)
{
    coll_request *r = group_place(g, request != NULL);
    if (!r)
        return COLL_ERR_MEMORY;
    request_copy(r, call);
    r->status = COLL_IN_PROGRESS;
    group_keep(g, r, request);
    return COLL_OK;
}

static bool is_p2p(const coll_request *r)
{
    return r->p2p.way != NOT_P2P;
}

/* The next collective of the same communicator; n: there is none. */
static int next_of(struct group *g, int i)
{
    const coll_comm *c = g->calls[i]->comm;
    do
        i++;
    while (i < g->n && (is_p2p(g->calls[i]) || g->calls[i]->comm != c));
    return i;
}

static bool may_fuse(const coll_request *r)
{
    const enum determinism d = r->comm->determinism;
    return !is_p2p(r) && r->kind == ALLREDUCE && !op_is_handle(r->op)
           && (d == DETERMINISM_OFF || d == DETERMINISM_FULL);
}

/* How many from call i on become one, and of how many elements. */
static int count_fusible(struct group *g, int i, size_t *count)
{
    const coll_request *r = g->calls[i];
    int n = 0;
    *count = 0;
    if (!may_fuse(r))
        return 1;
    for (; i < g->n; i = next_of(g, i), n++) {
        const coll_request *at = g->calls[i];
        if (at->kind != ALLREDUCE || at->dtype != r->dtype || at->op != r->op
            || at->count > GROUP_FUSED_BYTES / r->elem_bytes - *count)
            break;
        *count += at->count;
    }
    return n;
}

/* Copies n inputs from call i on side by side, and links their requests. */
static void gather_parts(struct group *g, int i, int n, char *at)
{
    for (; n--; i = next_of(g, i)) {
        coll_request *r = g->calls[i];
        const size_t bytes = r->count * r->elem_bytes;
        if (bytes)
            memcpy(at, r->in, bytes);
        at += bytes;
        r->next = n ? g->calls[next_of(g, i)] : NULL;
    }
}

/* n allreduces as one, which is in place in memory of its own. */
static coll_status fuse(struct group *g, int i, int n, size_t count)
{
    coll_request *r = g->calls[i];
    const size_t head = (sizeof(*r) + 63) / 64 * 64;
    coll_request *fused =
        aligned_alloc(64, head + (count * r->elem_bytes + 63) / 64 * 64);
    if (!fused)
        return fail(COLL_ERR_MEMORY, "comm", "no memory for %zu elements",
                    count);
    request_copy(fused, r);
    fused->in = fused->out = (char *)fused + head;
    fused->count = count;
    fused->parts = r;
    gather_parts(g, i, n, fused->out);
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

/* This thread is inside all communicators of the group; BUSY: inside none. */
static coll_status enter_all(struct group *g, struct several *s)
{
    for (int i = 0; i < g->n; i++) {
        const coll_status status =
            several_enter(s, g->calls[i]->comm, "group_end");
        if (status < 0) {
            several_leave(s);
            return status;
        }
    }
    return COLL_OK;
}

static void start(struct group *g, int i)
{
    coll_request *r = g->calls[i];
    size_t count = 0;
    const int n = count_fusible(g, i, &count);
    if (n > 1 && fuse(g, i, n, count) == COLL_OK)
        return;
    r->recorded = false; /* or one by one, if memory is short */
    if (is_p2p(r))       /* it has been started */
        return;
    const coll_status status = request_start(r);
    if (status < 0) {
        note(g, status);
        r->status = status;
        r->unstarted = true;
    }
}

/* Those with a request are the caller's from here on. */
static void drop_owned(struct group *g)
{
    int n = 0;
    for (int i = 0; i < g->n; i++)
        if (!g->calls[i]->owned)
            g->calls[n++] = g->calls[i];
    g->n = n;
}

static void end(struct group *g, coll_request *r)
{
    if (r->status < 0 && g->failed == COLL_OK) {
        fail(r->status, "comm", "%s", r->comm->sentence);
        note(g, r->status);
    }
    free(r->uneven);
    group_drop(g, r);
}

coll_status coll_group_end(void)
{
    struct group *const g = group_here();
    struct several s = {.n = 0};
    if (g->depth == 0)
        return fail(COLL_ERR_INVALID, "comm",
                    "coll_group_end: no group was started by this thread");
    if (g->depth > 1) {
        g->depth--;
        return COLL_OK;
    }
    const coll_status status = enter_all(g, &s);
    if (status < 0)
        return status;
    g->depth = 0;
    set_inside(g, false);
    for (int i = 0; i < g->n; i++)
        if (g->calls[i]->recorded)
            start(g, i);
    drop_owned(g);
    s.n = g->n;
    s.requests = g->calls;
    several_look(&s);
    several_wait(&s);
    several_leave(&s);
    for (int i = 0; i < g->n; i++)
        end(g, g->calls[i]);
    if (g->calls != g->few)
        free(g->calls);
    g->calls = NULL;
    g->n = g->max = 0;
    return g->failed < 0 ? fail(g->failed, "comm", "%s", g->sentence) : COLL_OK;
}
