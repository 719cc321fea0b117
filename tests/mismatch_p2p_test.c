/* SPDX-License-Identifier: MIT */
/* Sends and receives that do not match. A message that is too long for its
 * receive, or of another datatype, and one that nobody has received when its
 * rank leaves, are a MISMATCH for every rank; a receive for which nothing is
 * sent, and a send that nobody receives, end at their deadline. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "drawn.h"
#include "mismatched.h"

enum { MAX_COUNT = 300000 };

static struct pair {
    enum {
        TOO_LONG,
        OTHER_DTYPE,
        NOT_RECEIVED,
        OTHER_TAG,
        NOT_SENT,
        KINDS
    } kind;
    int from, to, tag;
    coll_dtype sent, wanted;
    size_t count, room;
    int any_source, any_tag;
    int sends_late; /* after its receive has been posted, most likely */
    int by_request; /* the send */
    int meets;      /* a barrier before all leave */
} p;

static coll_config config = COLL_CONFIG_INITIALIZER;

/* Whether some rank waits in vain: in a receive, or in a send that is too long
 * to be kept for who does not receive it, but goes on. */
static int may_be_late(void)
{
    return p.kind >= OTHER_TAG
           || (p.kind == NOT_RECEIVED && p.meets && !p.by_request
               && p.count > 100);
}

static int must_be_late(void)
{
    return may_be_late() && (p.kind >= OTHER_TAG || p.count > 3000);
}

static void draw_pair(int n)
{
    static const size_t counts[] = {1, 7, 100, 3000, 20000, MAX_COUNT};
    static const coll_dtype dtypes[] = {COLL_I32, COLL_F32, COLL_U8, COLL_F64};
    memset(&p, 0, sizeof(p));
    p.kind =
        drawn_below(4) ? drawn_below(OTHER_TAG) : OTHER_TAG + drawn_below(2);
    p.from = (int)drawn_below((unsigned)n);
    p.to = (p.from + 1 + (int)drawn_below((unsigned)n - 1)) % n;
    p.tag = (int)drawn_below(3);
    p.count = counts[drawn_below(6)];
    p.room =
        p.count - (p.kind == TOO_LONG ? 1 + drawn_below((unsigned)p.count) : 0);
    p.sent = p.wanted = dtypes[drawn_below(4)];
    while (p.kind == OTHER_DTYPE && p.wanted == p.sent)
        p.wanted = dtypes[drawn_below(4)];
    p.any_source = drawn_below(3) == 0;
    p.any_tag = p.kind != OTHER_TAG && drawn_below(3) == 0;
    p.sends_late = (int)drawn_below(2);
    p.by_request = (int)drawn_below(2);
    p.meets = (int)drawn_below(2);
    config.op_seconds = may_be_late() ? .5 : 20;
}

static char vector[MAX_COUNT * 8];

/* Requests that are left are the communicator's to wait for. */
static coll_status send_it(coll_comm *comm, coll_request **request)
{
    if (p.kind == NOT_SENT)
        return COLL_OK;
    return coll_send(vector, p.count, p.sent, p.to,
                     p.tag + (p.kind == OTHER_TAG), comm,
                     p.by_request ? request : NULL);
}

static coll_status receive_it(coll_comm *comm)
{
    if (p.kind == NOT_RECEIVED)
        return COLL_OK;
    return coll_recv(vector, p.room, p.wanted,
                     p.any_source ? COLL_ANY_SOURCE : p.from,
                     p.any_tag ? COLL_ANY_TAG : p.tag, comm, NULL, NULL);
}

static coll_status run(int rank, coll_comm *comm)
{
    coll_request *request = NULL;
    coll_status status = coll_barrier(comm, NULL);
    if (status == COLL_OK && p.sends_late && rank == p.from) {
        const double until = now() + .002;
        while (now() < until)
            ;
    }
    if (status == COLL_OK && rank == p.from)
        status = send_it(comm, &request);
    if (status == COLL_OK && rank == p.to)
        status = receive_it(comm);
    if (status == COLL_OK && p.meets)
        status = coll_barrier(comm, NULL);
    /* Whether it fails here or in coll_comm_destroy(). */
    const coll_status last = coll_wait(&request);
    return status == COLL_OK ? last : status;
}

static void print(int n)
{
    static const char *const kinds[] = {
        "too long", "other dtype", "not received", "other tag", "not sent"};
    (void)n;
    fprintf(stderr,
            "%s: rank %d sends %zu %s with tag %d%s%s, rank %d receives %zu "
            "%s%s%s; then %s",
            kinds[p.kind], p.from, p.count, coll_dtype_name(p.sent), p.tag,
            p.by_request ? " (request)" : "", p.sends_late ? " late" : "", p.to,
            p.room, coll_dtype_name(p.wanted), p.any_source ? " from any" : "",
            p.any_tag ? " with any tag" : "", p.meets ? "barrier" : "destroy");
}

static int names(const char *why, int rank)
{
    char name[16];
    snprintf(name, sizeof(name), "rank %d", rank);
    return strstr(why, name) != NULL;
}

/* Who has met the others in coll_comm_destroy() may have left before one of
 * them sees what it has not received. */
static int is_told(int rank, coll_status status, const char *why)
{
    if (status == COLL_OK)
        return p.kind == NOT_RECEIVED && !must_be_late() && rank != p.to;
    if (status == COLL_ERR_TIMEOUT)
        return may_be_late() && strstr(why, " did not finish within 0.5 s");
    return status == COLL_ERR_MISMATCH && !must_be_late() && names(why, p.from)
           && names(why, p.to) && strstr(why, coll_dtype_name(p.sent));
}

static const struct mismatches sends = {draw_pair, run, print, is_told,
                                        &config};

Test(mismatch_p2p, on_one_host_is_told_to_every_rank)
{
    mismatched(&sends, quick_shm, 1, 40, 2);
}

Test(mismatch_p2p, over_ucx_is_told_to_every_rank)
{
    mismatched(&sends, quick_ucx, 4, 20, 1);
}
