/* SPDX-License-Identifier: MIT */
/* Sends and receives that have not ended, and why. */
#include <stdio.h>

#include "programs/trace_job.h"

enum { TOLD_OF_RANK = 4 };

static int32_t peer_of(const struct record *r)
{
    return (int32_t)called_root(r->called.what);
}

static const struct trace_file *file_of(const struct trace_job *j, int rank)
{
    for (int f = 0; f < j->n; f++)
        if (j->files[f]->header.rank == rank)
            return j->files[f];
    return NULL;
}

/* Whether a rank's message could be the other end of one with that tag, of or
 * to another rank. */
static bool fits(const struct trace_file *f, const struct record *r, int kind,
                 int other, int32_t tag)
{
    const int32_t own = (int32_t)r->tag;
    return trace_message(f, r) == kind
           && (peer_of(r) == other || peer_of(r) < 0)
           && (own == tag || own < 0 || tag < 0);
}

/* Those on record that fit; ended: only those that have, and well. */
static size_t count(const struct trace_file *f, int kind, int other,
                    int32_t tag, bool ended)
{
    size_t n = 0;
    for (size_t i = 0; i < f->nmessages; i++) {
        const struct record *r = &f->messages[i];
        n += fits(f, r, kind, other, tag)
             && (!ended || (r->ended && r->status == COLL_OK));
    }
    return n;
}

static bool has_all(const struct trace_file *f)
{
    return f->nmessages == 0 || f->messages[0].number == 1;
}

/* Whether the peer has made fewer calls of the other kind than this rank has
 * seen end, so that none is left for this one. */
static bool lacks(const struct trace_file *f, const struct record *r,
                  const struct trace_file *peer)
{
    const int kind = trace_message(f, r);
    const int other = kind == CALLED_SEND ? CALLED_RECV : CALLED_SEND;
    const int32_t tag = (int32_t)r->tag;
    return has_all(f) && has_all(peer)
           && count(peer, other, f->header.rank, tag, false)
                  <= count(f, kind, peer_of(r), tag, true);
}

static void tell_one(const struct trace_job *j, int i, const struct record *r)
{
    char call[TRACE_CALL];
    const struct trace_file *f = j->files[i], *peer = file_of(j, peer_of(r));
    printf("Rank %d %s in a %s, begun %.3g s before the last event",
           f->header.rank, f->written ? "waits" : "waited",
           trace_call(f, r, call),
           1e-9 * (j->last_ns - trace_job_time(j, i, r->begun)));
    if (peer && lacks(f, r, peer))
        printf(", for which rank %d has made no %s", peer->header.rank,
               trace_message(f, r) == CALLED_SEND ? "receive" : "send");
    puts(".");
}

void trace_messages(const struct trace_job *j)
{
    for (int i = 0; i < j->n; i++) {
        const struct trace_file *f = j->files[i];
        size_t waiting = 0;
        for (size_t k = 0; k < f->nmessages; k++)
            if (!f->messages[k].ended && waiting++ < TOLD_OF_RANK)
                tell_one(j, i, &f->messages[k]);
        if (waiting > TOLD_OF_RANK)
            printf("Rank %d has %zu more under way.\n", f->header.rank,
                   waiting - TOLD_OF_RANK);
    }
}
