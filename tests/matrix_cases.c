/* SPDX-License-Identifier: MIT */
#include "matrix_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"

enum { GUARD = 64, GUARDED = 0x55 };

static bool defined(coll_op op, coll_dtype dtype)
{
    const bool bits = op >= COLL_BAND;
    const bool floating = dtype >= COLL_F16;
    return !bits || !floating;
}

static void try_counts(struct shape *s, size_t longest, uint64_t turn,
                       matrix_try *try, void *context)
{
    const size_t n = (size_t)s->nranks;
    const size_t parts = collective_parts(s->collective, s->nranks);
    const size_t counts[MATRIX_COUNTS] = {
        0, 1, 7, n - 1, n, n + 1, (longest + parts - 1) / parts,
    };
    s->root = collective_has_root(s->collective) ? (int)(turn % n) : 0;
    try(context, s, counts);
}

void matrix_each(int nranks, size_t longest, matrix_try *try, void *context)
{
    uint64_t turn = 0;
    for (int c = 0; c < NCOLLECTIVES; c++)
        for (int d = 0; coll_dtype_name((coll_dtype)d); d++)
            for (int o = 0; coll_op_name((coll_op)o); o++)
                for (int in_place = 0;
                     in_place <= collective_in_place((enum collective)c);
                     in_place++) {
                    struct shape s = {.collective = (enum collective)c,
                                      .dtype = (coll_dtype)d,
                                      .op = (coll_op)o,
                                      .nranks = nranks,
                                      .in_place = in_place};
                    if (collective_has_vectors(s.collective)
                        && (nranks > 1 || c != PINGPONG) /* wants two */
                        && (o == 0 || collective_reduces(s.collective))
                        && defined(s.op, s.dtype))
                        try_counts(&s, longest, turn++, try, context);
                }
}

bool matrix_has_long(coll_dtype dtype, coll_op op)
{
    return (op == COLL_SUM && (dtype == COLL_F32 || dtype == COLL_I64))
           || (op == COLL_AVG && dtype == COLL_BF16)
           || (op == COLL_MAX && dtype == COLL_U8);
}

void vectors_create(struct vectors *v, int nranks, size_t longest)
{
    const size_t n = (size_t)nranks;
    const size_t room = 8 * (longest + n * (n + 8)) + GUARD;
    *v = (struct vectors){
        .send = job_alloc(room),
        .recv = job_alloc(room),
        .lengths = job_alloc(n * sizeof(size_t)),
    };
}

void vectors_free(struct vectors *v)
{
    free(v->send);
    free(v->recv);
    free(v->lengths);
}

/* Of the vector that some rank holds in full. */
static size_t whole(const struct shape *s, size_t count)
{
    return coll_dtype_bytes(s->dtype) * count
           * collective_parts(s->collective, s->nranks);
}

void vectors_write(struct vectors *v, const struct inputs *inputs, size_t count,
                   long turn)
{
    const struct shape *s = &inputs->shape;
    const size_t bytes = inputs->elem_bytes;
    shape_lengths(s, count, v->lengths);
    v->in =
        s->in_place ? v->recv + bytes * shape_send_offset(s, count) : v->send;
    v->out = v->recv + (s->in_place ? bytes * shape_recv_offset(s, count) : 0);
    memset(v->recv, INPUTS_UNTOUCHED, whole(s, count));
    memset(v->recv + whole(s, count), GUARDED, GUARD);
    inputs_write(inputs, v->in, count, turn);
}

static bool is_guarded(const char *end)
{
    for (int i = 0; i < GUARD; i++)
        if (end[i] != GUARDED)
            return false;
    return true;
}

bool vectors_right(const struct vectors *v, const struct inputs *inputs,
                   size_t count, long turn, char what[WHAT_BYTES])
{
    const struct shape *s = &inputs->shape;
    const size_t bytes = inputs->elem_bytes;
    const size_t got = bytes * shape_receives(s, count);
    const size_t wrong = inputs_wrong(inputs, v->out, count, turn);
    char elements[48];
    snprintf(elements, sizeof(elements), "%zu elements are wrong", wrong);
    const char *cause =
        wrong ? elements
        : !s->in_place && inputs_changed(inputs, v->in, count, turn)
            ? "the input has changed"
        : !is_guarded(v->recv + whole(s, count))
                || (!s->in_place && got && got < whole(s, count)
                    && (unsigned char)v->recv[got] != INPUTS_UNTOUCHED)
            ? "written past the end"
            : NULL;
    if (cause)
        snprintf(what, WHAT_BYTES,
                 "rank %d of %d: %s of %zu %s, %s, root %d%s: %s", s->rank,
                 s->nranks, collective_name(s->collective), count,
                 coll_dtype_name(s->dtype), coll_op_name(s->op), s->root,
                 s->in_place ? ", in place" : "", cause);
    return !cause;
}
